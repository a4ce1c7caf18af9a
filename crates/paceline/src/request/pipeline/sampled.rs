//! Which requests a doctor gets to replay: GETs that an application has answered, as it got them.
//! It never sees a response's body, and is not asked while no doctor watches.

use http::{header, request::Parts, Method, Response, StatusCode};

use crate::{
    content::body::ResponseBody,
    exchange::{identity::User, Exchange},
    observe::reservoir::{RequestTimes, Reservoir, Sample},
    support::clock,
};
use http_guard::{hop::keep_end_to_end, host::host, withheld::is_withheld};
use path_patterns::route::label;

/// `is_empty`: it had no body. `response`: None: the application gave none.
pub fn offer(
    reservoir: &Reservoir,
    head: &Parts,
    is_empty: bool,
    exchange: &Exchange,
    response: Option<&Response<ResponseBody>>,
) {
    if head.method != Method::GET {
        return reservoir.count_other(times(exchange));
    }
    let status = response.map(Response::status);
    let is_repeatable = is_empty
        && !head.headers.contains_key(header::UPGRADE)
        && status.is_some_and(|status| !status.is_server_error() && status != StatusCode::SWITCHING_PROTOCOLS);
    let sample = || is_repeatable.then(|| sample(head, exchange)).flatten();
    reservoir.offer(&label("GET", head.uri.path()), times(exchange), sample);
}

/// None: a field of it is no text, which the protocol can't carry.
fn sample(head: &Parts, exchange: &Exchange) -> Option<Sample> {
    let mut fields = head.headers.clone();
    keep_end_to_end(&mut fields);
    let fields = fields.iter().filter(|(name, _)| !is_withheld(name));
    let headers = fields.map(|(name, value)| Some((name.as_str().to_owned(), text(value.as_bytes())?)));
    Some(Sample {
        scheme: exchange.client.scheme().to_owned(),
        host: host(head).into_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect::<Option<_>>()?,
        user: exchange.requester.user.as_ref().map(User::encoded),
    })
}

fn text(value: &[u8]) -> Option<String> {
    std::str::from_utf8(value).ok().map(str::to_owned)
}

/// The worker tells how long it took with the end of the response, which may be yet to come.
fn times(exchange: &Exchange) -> RequestTimes {
    let (timeline, counted) = (&exchange.timeline, exchange.worker.counters.get());
    let since = timeline.handed_over;
    let app = match counted {
        Some(counted) => counted.app_finished.saturating_sub(counted.app_started),
        None if since == 0 => 0,
        None => clock::now().saturating_sub(since),
    };
    let gc = counted.map_or(0, |counted| counted.gc.into());
    RequestTimes { queue: timeline.queue().unwrap_or(0), app, gc }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Instant};

    use http::Request;

    use super::*;
    use crate::exchange::Connection;

    fn exchange() -> Exchange {
        let connection = Connection { remote: None, local: None, tls: false, accepted: 0, ..Connection::default() };
        Exchange::begin(Arc::new(connection), None, None, None)
    }

    fn offered(request: Request<()>, is_empty: bool, status: u16) -> (u64, u64, Vec<Sample>) {
        let reservoir = Reservoir::default();
        reservoir.watch("one", Instant::now()).unwrap();
        let mut response = Response::new(ResponseBody::Empty);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        offer(&reservoir, &request.into_parts().0, is_empty, &exchange(), Some(&response));
        let observed = reservoir.take("one", Instant::now()).unwrap();
        let requests = observed.routes.iter().map(|route| route.requests).sum();
        (requests, observed.other_methods, observed.routes.into_iter().flat_map(|route| route.kept).collect())
    }

    #[test]
    fn the_application_gets_the_same_again() {
        let request = Request::get("/beers/7?page=2")
            .header("host", "Shop.test:80")
            .header("cookie", "a=b")
            .header("accept", "text/html")
            .header("connection", "keep-alive, x-hop")
            .header("x-hop", "1")
            .header("x-request-id", "theirs")
            .header("content_type", "fooled");
        let (requests, _, kept) = offered(request.body(()).unwrap(), true, 200);
        let headers = [("cookie", "a=b"), ("accept", "text/html")];
        assert_eq!((requests, kept.len()), (1, 1));
        assert_eq!((&*kept[0].path, &*kept[0].query, &*kept[0].scheme), ("/beers/7", "page=2", "http"));
        assert_eq!(kept[0].host, "Shop.test:80");
        assert_eq!(kept[0].headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_counted_only() {
        let get = || Request::get("/a");
        for (request, is_empty, status, counted) in [
            (get().body(()), true, 500, (1, 0)),
            (get().body(()), false, 200, (1, 0)),
            (get().header("upgrade", "websocket").body(()), true, 101, (1, 0)),
            (get().header("x-name", &b"\xff"[..]).body(()), true, 200, (1, 0)),
            (Request::post("/a").body(()), true, 200, (0, 1)),
        ] {
            let (requests, others, kept) = offered(request.unwrap(), is_empty, status);
            assert_eq!(((requests, others), kept), (counted, vec![]));
        }
    }
}
