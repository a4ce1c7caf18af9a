//! A site's requests handed to a server of HTTP/1.1 that was there before (RFC 9110 section 3.7, "gateway"), and its
//! answers. It never chooses the site, and never gives a failure its status.

mod address;
mod failure;
mod outgoing;
mod pool;
mod request;
mod response;

use std::{sync::Arc, time::Duration};

use http::{header, request::Parts, HeaderMap, Request, Response, StatusCode};
use hyper::{body::Incoming, client::conn::TrySendError};
use tokio::sync::mpsc::{self, UnboundedSender};

pub use self::{address::Address, failure::Failure, pool::MAX as KEPT_CONNECTIONS, response::UpstreamBody};
use self::{
    outgoing::{Fault, Outgoing, Source},
    pool::{Connection, Pool},
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
    pool: Arc<Pool>,
    answer_timeout: Option<Duration>,
}

impl Upstream {
    /// `answer_timeout`: from the request's last chance to go out to the head of its response; None: no bound.
    pub fn new(address: Address, connect_timeout: Duration, answer_timeout: Option<Duration>) -> Upstream {
        Upstream { pool: Arc::new(Pool::new(address, connect_timeout)), answer_timeout }
    }

    pub fn address(&self) -> &Address {
        &self.pool.address
    }
}

/// Asks the upstream. What fails on a connection that was kept, before a byte of an answer, is asked once more on a new
/// one if the method is idempotent (RFC 9110 section 9.2.2) and the body can be sent again.
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
    let (answer, connection, offered) = answered?;
    let upgrade = exchange.upgrade.take().filter(|_| offered);
    response::response(answer, &head.method, connection, &upstream.pool, upgrade).await
}

/// The answer, the connection it came on, and whether the upstream was offered another protocol.
async fn ask(
    upstream: &Upstream,
    head: &Parts,
    body: RequestBody,
    exchange: &Exchange,
) -> Result<(Response<Incoming>, Connection, bool), Failure> {
    let pool = &upstream.pool;
    let framing = Framing::of(head, &body);
    let mut source = Source::of(body);
    let fault = Fault::default();
    let mut kept = pool.kept();
    let mut unsent: Option<Request<Outgoing>> = None;
    loop {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => pool.connect().await?,
        };
        let request = match unsent.take() {
            Some(request) => request,
            None => {
                let body = source.open(&fault).await?;
                request::head(head, framing, exchange, upstream.address()).map(|()| body)
            }
        };
        let offered = request.headers().contains_key(header::UPGRADE);
        connection.begin();
        let mut error = match send(&mut connection, request, exchange.hints.as_ref()).await {
            Ok(answer) => return Ok((answer, connection, offered)),
            Err(error) => error,
        };
        if let Some(failure) = fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            return Err(failure);
        }
        // From here on `kept` is none: the next is a new connection.
        unsent = error.take_message().filter(|_| connection.reused);
        let again = source.can_repeat() && head.method.is_idempotent();
        if !(connection.reused && !connection.has_heard() && (unsent.is_some() || again)) {
            return Err(Failure::of(error.into_error(), upstream.address()));
        }
    }
}

/// Sends the request and passes interim responses on until the final one has come.
async fn send(
    connection: &mut Connection,
    mut request: Request<Outgoing>,
    hints: Option<&Hints>,
) -> Result<Response<Incoming>, TrySendError<Request<Outgoing>>> {
    let (told, mut interim) = mpsc::unbounded_channel();
    if hints.is_some() {
        relay_interim(&mut request, told.clone());
    }
    let mut answer = std::pin::pin!(connection.sender.try_send_request(request));
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
