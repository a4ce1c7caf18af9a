//! A site's requests handed to an HTTP server that was there before (RFC 9110 section 3.7, "gateway"), and its
//! answers. It never chooses the site, and never gives a failure its status.

mod address;
mod failure;
mod outgoing;
mod pool;
mod request;
mod response;

use std::time::Duration;

use client_pool::UnansweredRequest;
use http::{header, request::Parts, HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc::{self, UnboundedSender};

pub use self::{
    address::Address,
    failure::Failure,
    pool::{UpstreamTls, MAX as KEPT_CONNECTIONS},
    response::UpstreamBody,
};
use self::{
    outgoing::{Fault, Outgoing, Source},
    pool::{Connection, Lease, Pool},
    request::Framing,
};
use crate::{
    content::body::ResponseBody,
    observe::in_flight::Step,
    request::{
        exchange::{Exchange, Hints},
        incoming::RequestBody,
    },
    support::clock,
};
use http_guard::hop;

/// A server that answers in place of an app.
pub struct Upstream {
    pool: Pool,
    answer_timeout: Option<Duration>,
}

impl Upstream {
    /// `answer_timeout`: from the request's last chance to go out to the head of its response; None: no bound.
    pub fn new(
        address: Address,
        tls: UpstreamTls,
        connect_timeout: Duration,
        answer_timeout: Option<Duration>,
    ) -> Upstream {
        Upstream { pool: Pool::new(address, tls, connect_timeout), answer_timeout }
    }

    pub fn address(&self) -> &Address {
        &self.pool.address
    }
}

/// Asks the upstream. What the upstream has not looked at is asked once more on a new connection; so is what fails on a
/// connection that was kept, before a byte of an answer, if the method is idempotent (RFC 9110 section 9.2.2) and the
/// body can be sent again.
pub async fn run(
    upstream: &Upstream,
    head: &Parts,
    body: RequestBody,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, Failure> {
    if let Some(response) = request::last_hop(head) {
        return Ok(response);
    }
    exchange.timeline.queued = clock::now();
    exchange.timeline.handed_over = exchange.timeline.queued;
    exchange.timeline.app_started = exchange.timeline.queued;
    exchange.live.step(Step::Upstream, exchange.timeline.queued);
    let asking = ask(upstream, head, body, exchange);
    let answered = match upstream.answer_timeout {
        Some(after) => tokio::time::timeout(after, asking)
            .await
            .unwrap_or_else(|_| Err(Failure::TimedOut { upstream: upstream.address().to_string(), after })),
        None => asking.await,
    };
    exchange.timeline.app_finished = clock::now();
    let (answer, lease, offered) = answered?;
    let upgrade = exchange.upgrade.take().filter(|_| offered);
    response::response(answer, &head.method, lease, upstream.address(), upgrade).await
}

/// The answer, the connection it came on, and whether the upstream was offered another protocol.
async fn ask(
    upstream: &Upstream,
    head: &Parts,
    body: RequestBody,
    exchange: &Exchange,
) -> Result<(Response<Incoming>, Lease, bool), Failure> {
    let pool = &upstream.pool;
    let framing = Framing::of(head, &body);
    let upgrade = request::protocols(head, exchange);
    let mut source = Source::of(body);
    let fault = Fault::default();
    let mut fresh = false;
    let mut unsent: Option<Outgoing> = None;
    loop {
        let mut lease = pool.lease(fresh, upgrade.is_some()).await?;
        let body = match unsent.take() {
            Some(body) => body,
            None => source.open(&fault).await?,
        };
        let request = request::head(head, framing, exchange, upgrade.as_ref(), upstream.address());
        let request = match lease.connection.is_http2() {
            true => request::over_http2(request, upstream.address())?,
            false => request,
        };
        let sent = send(&mut lease.connection, request.map(|()| body), exchange.hints.as_ref()).await;
        let unanswered = match sent {
            Ok(answer) => return Ok((answer, lease, upgrade.is_some())),
            Err(unanswered) => unanswered,
        };
        if let Some(failure) = fault.lock().take() {
            return Err(failure);
        }
        let connection = &lease.connection;
        let again = !fresh
            && unanswered.is_repeatable(connection.is_http2(), head.method.is_idempotent(), connection.reused)
            && (unanswered.unsent.is_some() || source.can_repeat());
        if unanswered.broken {
            lease.discard();
        }
        if !again {
            return Err(Failure::of_exchange(&unanswered.failure, upstream.address()));
        }
        unsent = unanswered.unsent.map(Request::into_body);
        fresh = true;
    }
}

/// Sends the request and passes interim responses on until the final one has come.
async fn send(
    connection: &mut Connection,
    mut request: Request<Outgoing>,
    hints: Option<&Hints>,
) -> Result<Response<Incoming>, UnansweredRequest<Outgoing>> {
    let (told, mut interim) = mpsc::unbounded_channel();
    if hints.is_some() {
        relay_interim(&mut request, told.clone());
    }
    let mut answer = std::pin::pin!(connection.ask(request));
    loop {
        tokio::select! {
            biased;
            Some((status, headers)) = interim.recv() => {
                if let Some(hints) = hints {
                    hints.interim(status, &headers);
                }
            }
            answer = answer.as_mut() => return answer,
        }
    }
}

/// 100 answers an expectation that was met here (RFC 9110 section 15.2.1). All others are for the client.
fn relay_interim(request: &mut Request<Outgoing>, told: UnboundedSender<(StatusCode, HeaderMap)>) {
    hyper::ext::on_informational(request, move |interim| {
        if interim.status() != StatusCode::CONTINUE {
            let mut headers = interim.headers().clone();
            hop::keep_end_to_end(&mut headers);
            headers.remove(header::CONTENT_LENGTH);
            let _ = told.send((interim.status(), headers));
        }
    });
}
