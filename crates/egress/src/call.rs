//! One outbound call: what is asked for, a connection for it, the request as the upstream gets it, its response as the
//! process gets it. It never chooses what to ask.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use client_pool::{Failure, Protocol, UnansweredRequest};
use http::{header, request::Parts, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{timeout_at, Instant};

use super::{
    caller::UnderWay,
    keeping::{CachedCall, CallCache},
    receiving::{kept, passed_on, refusal, Answer, CallGuard, CallResponseBody, Keep},
    sending::CallRequestBody,
    wanted::{CallOptions, FIELD},
    Destination, Egress, Lease, Origin,
};
use http_guard::hop::keep_end_to_end_and_proxy;

/// A request body of up to so many bytes is read whole before it is sent, so that it can be sent again.
const SHORT: u64 = 64 << 10;

/// Makes the call, which is `under_way` until its request and its response are over.
pub async fn call(egress: &Egress, request: Request<Incoming>, under_way: UnderWay) -> Response<CallResponseBody> {
    let began = Instant::now();
    let request = request.map(|body| (body, under_way.clone()));
    let response = answer(egress, request, began).await.unwrap_or_else(|failure| refusal(&failure));
    response.map(|body| body.of(under_way))
}

async fn answer(
    egress: &Egress,
    request: Request<(Incoming, UnderWay)>,
    began: Instant,
) -> Result<Response<CallResponseBody>, Failure> {
    let (mut head, (body, under_way)) = request.into_parts();
    let destination = Destination::of(&head)?;
    egress.may_ask(&destination.host)?;
    let guard = egress.policy().guard;
    let wanted = CallOptions::of(&head.headers).map_err(|failure| guarded(failure, guard))?;
    let guard = guard || wanted.guard;
    if wanted.own {
        return Err(guarded(Failure::Unsupported("the process makes this call by itself".into()), guard));
    }
    if names_a_connection(&head.headers) {
        return Err(guarded(
            Failure::Unsupported("NTLM and Negotiate need a connection of the process's own".into()),
            guard,
        ));
    }
    let origin = egress.origin(destination, &wanted).map_err(|failure| guarded(failure, guard))?;
    let counted = CallGuard { origin: origin.clone(), began };
    prepare(&mut head);
    let reads = head.method == Method::GET || head.method == Method::HEAD;
    let deadline = wanted.deadline.map(|deadline| began + deadline);
    let keeping = egress.keeping().filter(|_| wanted.cache);
    let answered = async {
        let body = Source::of(body, under_way).await?;
        keep_or_ask(keeping, &origin, head, body, &wanted, began, counted).await
    };
    let leaving = wanted.exchange.as_deref().filter(|_| reads && egress.cancels());
    let answered = async {
        match leaving {
            None => answered.await,
            Some(id) => tokio::select! {
                answered = answered => answered,
                () = (egress.surroundings.left)(id.to_owned()) => Err(Failure::Cancelled),
            },
        }
    };
    let answered = match deadline {
        Some(deadline) => timeout_at(deadline, answered).await.unwrap_or(Err(Failure::Deadline)),
        None => answered.await,
    };
    answered.map_err(|failure| guarded(failure, guard)).inspect_err(|failure| origin.figures.failed(failure.kind()))
}

/// What the front can't do the process does by itself, but for where it has to be guarded: nobody would look at its
/// addresses.
fn guarded(failure: Failure, guard: bool) -> Failure {
    match failure {
        Failure::Unsupported(why) if guard => Failure::Denied {
            address: None,
            message: format!("egress_guard allows calls through the front only: {why}"),
        },
        failure => failure,
    }
}

/// The response that was kept, if there is one that may answer; otherwise the upstream's, which may be kept.
async fn keep_or_ask(
    keeping: Option<Arc<CallCache>>,
    origin: &Arc<Origin>,
    head: Parts,
    mut body: Source,
    wanted: &CallOptions,
    began: Instant,
    counted: CallGuard,
) -> Result<Response<CallResponseBody>, Failure> {
    let until = began + wanted.open_timeout.min(wanted.deadline.unwrap_or(Duration::MAX));
    let deadline = wanted.deadline.map(|deadline| began + deadline);
    let question = keeping.as_ref().and_then(|keeping| keeping.question(&head, &wanted.way.name()));
    let (Some(keeping), Some(question)) = (keeping.clone(), question) else {
        let answer = ask(origin, &head, &mut body, wanted, until).await?;
        if let Some(keeping) = &keeping {
            keeping.invalidate(&head, &parts(&answer.response));
        }
        return Ok(passed_on(answer, &head.method, deadline, Some(counted), None));
    };
    let mut asking = head.clone();
    let mut found = keeping.find(&question, &mut asking);
    let mut flight = None;
    if !matches!(found, CachedCall::Answer(_)) {
        // Who waits for too long goes by himself.
        flight = timeout_at(until, keeping.take_off(&question)).await.unwrap_or(None);
        if flight.is_none() {
            asking = head.clone();
            found = keeping.find(&question, &mut asking);
        }
    }
    let stale = match found {
        CachedCall::Answer(stored) => return Ok(kept(&stored, keeping.age(&stored), &head.method, "hit", counted)),
        CachedCall::Stale(stored) => Some(stored),
        CachedCall::Nothing => None,
    };
    let mut answer = match ask(origin, &asking, &mut body, wanted, until).await {
        Ok(answer) => answer,
        Err(failure) => match stale.filter(|stale| keeping.stands_in(&question, stale)) {
            Some(stale) => return Ok(kept(&stale, keeping.age(&stale), &head.method, "stale", counted)),
            None => return Err(failure),
        },
    };
    if let Some(stale) = stale {
        let status = answer.response.status();
        if status.is_server_error() && keeping.stands_in(&question, &stale) {
            return Ok(kept(&stale, keeping.age(&stale), &head.method, "stale", counted));
        }
        if status == StatusCode::NOT_MODIFIED {
            if let Some(newer) = keeping.freshen(&question, &head, &stale, &parts(&answer.response)) {
                // The connection goes back.
                drop(passed_on(answer, &Method::HEAD, None, None, None));
                return Ok(kept(&newer, keeping.age(&newer), &head.method, "revalidated", counted));
            }
            // It is about something else, or nothing is to be kept any more.
            drop(passed_on(answer, &Method::HEAD, None, None, None));
            answer = ask(origin, &head, &mut body, wanted, until).await?;
        }
    }
    let status = answer.response.status();
    let storable = keeping.storable(&question, &head, &parts(&answer.response));
    let method = head.method.clone();
    let read = BytesMut::new();
    let keep = storable.map(|storable| Keep { keeping, question, head, storable, flight, status, read });
    Ok(passed_on(answer, &method, deadline, Some(counted), keep))
}

/// The head of a response, for those who judge it.
fn parts(response: &Response<Incoming>) -> http::response::Parts {
    let mut head = Response::new(()).into_parts().0;
    head.status = response.status();
    head.version = response.version();
    head.headers = response.headers().clone();
    head
}

/// The response, the connection it comes on, and how long its head took.
async fn ask(
    origin: &Arc<Origin>,
    head: &Parts,
    body: &mut Source,
    wanted: &CallOptions,
    until: Instant,
) -> Result<Answer, Failure> {
    let idempotent = head.method.is_idempotent();
    let mut fresh = false;
    loop {
        let mut lease = origin.lease(fresh, !idempotent, until).await?;
        let Some(sending) = body.next() else { return Err(Failure::Closed { sent: true }) };
        let request = addressed(head, sending, &lease, wanted)?;
        let asked = Instant::now();
        let unanswered = match lease.connection.ask(request).await {
            Ok(response) => {
                let first = asked.elapsed();
                origin.figures.answered(lease.waited, first);
                return Ok(Answer { response, lease, first });
            }
            Err(unanswered) => unanswered,
        };
        let again = unanswered.is_repeatable(lease.connection.is_http2(), idempotent, lease.connection.reused);
        let UnansweredRequest { failure, unsent, broken, .. } = unanswered;
        let closed = matches!(failure, Failure::Closed { .. } | Failure::Reset { .. } | Failure::Protocol(_));
        if broken {
            lease.discard();
        }
        if fresh || !again || !(closed || unsent.is_some()) {
            return Err(failure);
        }
        match unsent {
            Some(request) => body.put_back(request.into_body()),
            None if !body.can_repeat() => return Err(failure),
            None => {}
        }
        origin.figures.repeated();
        fresh = true;
    }
}

/// Where the request's body comes from.
enum Source {
    Whole(Option<Bytes>),
    Once(Option<CallRequestBody>),
}

impl Source {
    async fn of(body: Incoming, under_way: UnderWay) -> Result<Source, Failure> {
        let hint = body.size_hint();
        match hint.exact() {
            Some(0) => Ok(Source::Whole(None)),
            Some(length) if length <= SHORT => {
                let read = body.collect().await.map_err(|error| Failure::Request(format!("the body: {error}")))?;
                Ok(Source::Whole(Some(read.to_bytes())))
            }
            _ => Ok(Source::Once(Some(CallRequestBody::Arriving { body, _call: under_way }))),
        }
    }

    fn next(&mut self) -> Option<CallRequestBody> {
        match self {
            Source::Whole(bytes) => Some(CallRequestBody::Whole(bytes.clone())),
            Source::Once(body) => body.take(),
        }
    }

    fn put_back(&mut self, body: CallRequestBody) {
        if let Source::Once(place) = self {
            *place = Some(body);
        }
    }

    fn can_repeat(&self) -> bool {
        matches!(self, Source::Whole(_))
    }
}

/// Whether it is by NTLM or Negotiate that somebody says who he is: for the connection, and not for the request (RFC
/// 4559).
fn names_a_connection(headers: &HeaderMap) -> bool {
    let named = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION];
    named.iter().flat_map(|name| headers.get_all(name)).any(|line| {
        let scheme = line.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        [&b"ntlm"[..], b"negotiate"].iter().any(|one| scheme.eq_ignore_ascii_case(one))
    })
}

/// What speaks of the connection to us, and what was for us, stays behind.
fn prepare(head: &mut Parts) {
    keep_end_to_end_and_proxy(&mut head.headers);
    head.headers.remove(FIELD);
    // It has been met here.
    head.headers.remove(header::EXPECT);
}

/// The request as this connection needs it.
fn addressed(
    head: &Parts,
    body: CallRequestBody,
    lease: &Lease,
    wanted: &CallOptions,
) -> Result<Request<CallRequestBody>, Failure> {
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.headers_mut() = head.headers.clone();
    // With the names as they were written.
    *request.extensions_mut() = head.extensions.clone();
    let of_https = head.uri.scheme_str() == Some("https");
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let nonsense = |_| Failure::Request("the target makes no sense".into());
    *request.uri_mut() = match &lease.connection.speaks {
        Protocol::Http2(_) => {
            *request.version_mut() = Version::HTTP_2;
            // Its authority is what Host is in HTTP/1.1 (RFC 9113 section 8.3.1).
            let host = request.headers_mut().remove(header::HOST);
            let own = head.uri.authority().map_or("", |authority| authority.as_str());
            let authority = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or(own);
            let scheme = if of_https { "https" } else { "http" };
            Uri::builder()
                .scheme(scheme)
                .authority(authority)
                .path_and_query(target)
                .build()
                .map_err(|error| Failure::Request(error.to_string()))?
        }
        Protocol::Http1(_) => match wanted.way.proxy.as_ref().filter(|_| !of_https) {
            None => target.parse().map_err(nonsense)?,
            Some(proxy) => {
                if let Some(value) = proxy.authorization.as_deref().and_then(|value| HeaderValue::from_str(value).ok())
                {
                    request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
                }
                head.uri.clone()
            }
        },
    };
    if let Protocol::Http1(_) = lease.connection.speaks {
        if !request.headers().contains_key(header::HOST) {
            let own = head.uri.authority().map_or("", |authority| authority.as_str());
            let host = own.rsplit_once('@').map_or(own, |(_, host)| host);
            request.headers_mut().insert(
                header::HOST,
                HeaderValue::from_str(host).map_err(|error| Failure::Request(error.to_string()))?,
            );
        }
    }
    Ok(request)
}
