//! The field `Server-Timing` (W3C Server Timing): where a request's time went, told to the browser where `server_timing`
//! is set, and to `paceline bench` on this machine, which asks for it. Never measures.

use http::HeaderMap;

use crate::{
    exchange::{Client, Exchange, CALLS},
    support::clock::Micros,
};

/// Spans that `paceline bench` shows.
const PARTS: [&str; 3] = ["sql", "views", CALLS];

/// Whether the request asks for its times. Only a client on this machine may: for every other the field is taken out, so
/// that the application measures nothing for it.
pub fn is_asked(headers: &mut HeaderMap, client: &Client) -> bool {
    if !headers.contains_key(bench::ASKING) {
        return false;
    }
    let is_local = client.address.is_none_or(|address| address.is_loopback()) && !client.proxied;
    if !is_local {
        headers.remove(bench::ASKING);
    }
    is_local
}

/// The field's value: durations in milliseconds. Empty: nothing is known.
pub fn value(exchange: &Exchange) -> String {
    let timeline = &exchange.timeline;
    let counters = exchange.worker.counters.get();
    let gc = counters.map(|counters| counters.gc.into());
    let queue = if exchange.client.asks_times { timeline.until_app() } else { timeline.queue() };
    let parts = [("queue", queue), ("app", timeline.app()), ("gc", gc)];
    let known = parts.into_iter().filter_map(|(name, duration)| Some((name, duration?)));
    if !exchange.client.asks_times {
        return joined(known.map(|(name, duration)| format!("{name};dur={:.1}", ms(duration))));
    }
    let spans = counters.map_or(&[][..], |counters| &counters.spans);
    let spans = spans.iter().filter(|(name, ..)| PARTS.contains(&name.as_str()));
    let all = known.chain(spans.map(|(name, total, _)| (name.as_str(), *total)));
    joined(all.map(|(name, duration)| format!("{name};dur={:.3}", ms(duration))))
}

fn ms(duration: Micros) -> f64 {
    duration as f64 / 1000.0
}

fn joined(metrics: impl Iterator<Item = String>) -> String {
    metrics.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use http::HeaderValue;

    use super::*;
    use crate::exchange::{Connection, Counters, Timeline};

    fn exchange() -> Exchange {
        let connection = Connection { remote: None, local: None, tls: false, accepted: 0, ..Connection::default() };
        let mut exchange = Exchange::begin(Arc::new(connection), None, None, None);
        let app =
            Timeline { queued: 1, handed_over: 2001, app_started: 3000, app_finished: 9500, ..Timeline::default() };
        exchange.timeline = app;
        let spans = [("sql", 1500), ("cart", 20), ("outbound", 40)].map(|(name, total)| (name.to_owned(), total, 1));
        exchange.worker.counters.set(Counters { gc: 250, spans: spans.into(), ..Counters::default() }).unwrap();
        exchange
    }

    #[test]
    fn a_browser_is_told_less_than_a_benchmark() {
        let mut exchange = exchange();
        assert_eq!(value(&exchange), "queue;dur=2.0, app;dur=6.5, gc;dur=0.2");
        exchange.client.asks_times = true;
        let all = "queue;dur=2.999, app;dur=6.500, gc;dur=0.250, sql;dur=1.500, outbound;dur=0.040";
        assert_eq!(value(&exchange), all);
    }

    #[test]
    fn only_this_machine_may_ask() {
        let from = |address: Option<&str>, proxied| {
            let address = address.map(|text| text.parse::<IpAddr>().unwrap());
            let mut headers = HeaderMap::new();
            headers.insert(bench::ASKING, HeaderValue::from_static("1"));
            let asked = is_asked(&mut headers, &Client { address, proxied, ..Client::default() });
            (asked, headers.contains_key(bench::ASKING))
        };
        assert_eq!(from(Some("127.0.0.1"), false), (true, true));
        assert_eq!(from(Some("::1"), false), (true, true));
        assert_eq!(from(None, false), (true, true));
        for stranger in [from(Some("192.0.2.1"), false), from(Some("127.0.0.1"), true), from(None, true)] {
            assert_eq!(stranger, (false, false));
        }
        assert!(!is_asked(&mut HeaderMap::new(), &Client::default()));
    }
}
