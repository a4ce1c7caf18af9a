//! A request on its way to a host, and to another one where that is safe: what never got onto a connection, or what the
//! host has not looked at, may always go elsewhere; what may have reached it only if the method is idempotent (RFC 9110
//! section 9.2.2), no byte of an answer has come, and the body is still there. It never chooses the host.

use std::sync::Arc;

use client_pool::UnansweredRequest;
use http::{header, request::Parts, HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::{
    failure::Failure,
    hosts::{Host, HostLease, Hosts, PendingRequest},
    outgoing::{Outgoing, Progress, Source},
    pool::{Connection, Lease},
    request::{self, Framing},
};
use crate::{
    exchange::{incoming::RequestBody, Exchange, Hints},
    support::clock::Micros,
};
use http_guard::hop;

/// Hosts that a request is tried with, at most.
const MAX_HOSTS: usize = 4;
/// How often a request may be sent that may have reached a host. One that kills its server must not kill them all.
const MAX_SENT: u32 = 3;

/// Why a host has not answered.
enum Unanswered {
    /// Nobody else may be asked.
    Final(Failure),
    /// Another host may be asked.
    Elsewhere(Failure),
}

/// A request as a host has it.
pub struct Attempt {
    pub host: Arc<Host>,
    pub began: Micros,
    pub progress: Progress,
}

impl Attempt {
    fn of(pending: &PendingRequest, progress: &Progress) -> Attempt {
        Attempt { host: pending.host.clone(), began: pending.began, progress: progress.clone() }
    }
}

/// A request that is to be answered.
struct Asking<'a> {
    head: &'a Parts,
    exchange: &'a Exchange,
    framing: Framing,
    /// The protocols that the client offers to go on with.
    upgrade: Option<HeaderValue>,
    source: Source,
    progress: Progress,
    /// The body, if it was opened and nothing of it has been sent.
    unsent: Option<Outgoing>,
    /// How often it may have reached a host.
    sent: u32,
}

/// The answer, the connection it came on, and whether the host was offered another protocol. `asked`: the request at the host
/// that was asked last.
pub async fn ask(
    hosts: &Arc<Hosts>,
    head: &Parts,
    body: RequestBody,
    exchange: &Exchange,
    asked: &mut Option<Attempt>,
) -> Result<(Response<Incoming>, HostLease, bool), Failure> {
    let mut asking = Asking {
        head,
        exchange,
        framing: Framing::of(head, &body),
        upgrade: request::protocols(head, exchange),
        source: Source::of(body),
        progress: Progress::default(),
        unsent: None,
        sent: 0,
    };
    let is_tunnel = asking.upgrade.is_some();
    let mut tried = Vec::new();
    let mut failed = None;
    loop {
        let chosen = if tried.len() < MAX_HOSTS {
            hosts.choose(&tried, exchange.upstream.token.as_deref(), is_tunnel).await
        } else {
            None
        };
        let Some(mut pending) = chosen else { return Err(failed.unwrap_or_else(|| hosts.none())) };
        match asking.ask(&mut pending, asked).await {
            Ok((answer, lease)) => {
                pending.answered(answer.status(), asking.source.can_repeat());
                return Ok((answer, HostLease { lease, pending, progress: asking.progress }, is_tunnel));
            }
            Err(Unanswered::Final(failure)) => return Err(failure),
            Err(Unanswered::Elsewhere(failure)) => failed = Some(failure),
        }
        tried.push(pending.host.id);
    }
}

impl Asking<'_> {
    /// Asks a host. What fails on a connection that was kept is asked once more on a new one, where that is safe.
    async fn ask(
        &mut self,
        pending: &mut PendingRequest,
        asked: &mut Option<Attempt>,
    ) -> Result<(Response<Incoming>, Lease), Unanswered> {
        *asked = Some(Attempt::of(pending, &self.progress));
        let host = pending.host.clone();
        let mut fresh = false;
        loop {
            let mut lease = match host.pool.lease(fresh, self.upgrade.is_some()).await {
                Ok(lease) => lease,
                Err(failure) => {
                    pending.unreachable(&failure);
                    let may_go_on = self.sent < MAX_SENT && (self.unsent.is_some() || self.source.is_whole());
                    return Err(if may_go_on { Unanswered::Elsewhere(failure) } else { Unanswered::Final(failure) });
                }
            };
            let body = match self.unsent.take() {
                Some(body) => body,
                None => self.source.open(&self.progress).await.map_err(Unanswered::Final)?,
            };
            let request = self.request(&host, lease.connection.is_http2(), body).map_err(Unanswered::Final)?;
            pending.sent();
            *asked = Some(Attempt::of(pending, &self.progress));
            let unanswered = match send(&mut lease.connection, request, self.exchange.offers.hints.as_ref()).await {
                Ok(answer) => return Ok((answer, lease)),
                Err(unanswered) => unanswered,
            };
            if let Some(failure) = self.progress.take_fault() {
                return Err(Unanswered::Final(failure));
            }
            self.sent += u32::from(unanswered.unsent.is_none());
            let (http2, reused) = (lease.connection.is_http2(), lease.connection.reused);
            let has_body = unanswered.unsent.is_some() || self.source.can_repeat();
            let may_be_sent = has_body && self.sent < MAX_SENT;
            let is_idempotent = self.head.method.is_idempotent();
            let here = !fresh && may_be_sent && unanswered.is_repeatable(http2, is_idempotent, reused);
            // A connection that was made for the request, and is closed: the host is going away.
            let elsewhere = may_be_sent && unanswered.is_repeatable(http2, is_idempotent, true);
            if unanswered.broken {
                lease.discard();
            }
            let failure = Failure::of_exchange(&unanswered.failure, &host.address);
            self.unsent = unanswered.unsent.map(Request::into_body);
            if !here {
                pending.failed(&failure.words());
                return Err(if elsewhere { Unanswered::Elsewhere(failure) } else { Unanswered::Final(failure) });
            }
            fresh = true;
        }
    }

    fn request(&self, host: &Host, is_http2: bool, body: Outgoing) -> Result<Request<Outgoing>, Failure> {
        let request = request::head(self.head, self.framing, self.exchange, self.upgrade.as_ref(), &host.address);
        let request = if is_http2 { request::over_http2(request, &host.address)? } else { request };
        Ok(request.map(|()| body))
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
