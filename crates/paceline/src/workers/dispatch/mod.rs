//! From a request that has been read whole to a worker thread and back: the fair queue and the conversation.
//! It never starts or stops workers, and it never sees a client's socket.

pub mod comparison;
pub mod conversation;
pub mod expectations;
pub mod origin;
pub mod queue;
pub mod replay;
mod request_body;
pub mod suspects;

use std::time::Duration;

use self::{
    comparison::End,
    conversation::{converse, Answer, Conversation, Request},
    origin::{Limits, Origin, Unavailable},
    queue::{Again, Offer, WorkerId},
};
use crate::{
    apps::incidents::InHand,
    content::body::ResponseBody,
    observe::in_flight::Step,
    request::{exchange::Exchange, incoming::RequestBody},
    support::clock,
    workers::{
        protocol::frame::{next_number, AppError},
        rack::{env, hijack, response},
    },
};
use bytes::Bytes;
use http::{request::Parts, Method, Response, Version};
use tokio::time::timeout;

/// Why the app gave no response.
pub enum Failure {
    /// No worker thread was to be had.
    Unavailable(Unavailable),
    /// The worker went away with the request in its hands; why it is not given to another.
    WorkerDied(RetryRefusal),
    /// Workers died with requests like this one: it is given to none for so long.
    Refused(Duration),
    /// The worker answered another request in place of this one.
    Misdirected,
    /// The app took longer than `app_hard_timeout`.
    TimedOut,
    /// The app raised.
    Raised(AppError),
    /// The request's body, a file, could not be given to the worker's account.
    Spool(std::io::Error),
    /// The app's response is not HTTP.
    Unsendable(response::Unsendable),
}

/// Why a request is not asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryRefusal {
    /// It may have had its effect (RFC 9110 section 9.2.2), or its body is gone.
    NotRepeatable,
    /// Another worker died with it before.
    TwoDied,
    /// Too many have been asked again lately.
    NoneLeft,
}

/// Where no time-out is set.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// How often a request is given to another worker that none has read.
const UNREAD: u32 = 3;

/// Asks a worker of `app`. A request whose worker dies is asked again, once and alone in a worker, if it is idempotent
/// (RFC 9110 section 9.2.2); and a few times if no worker had read it, since then it killed none.
pub async fn run(
    app: &impl Origin,
    head: &Parts,
    body: RequestBody,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, Failure> {
    let Limits { early_hints, soft_timeout, hard_timeout, response_memory, response_spool } = app.limits();
    let facts = env::Facts {
        client: &exchange.client,
        local: exchange.connection.local,
        request_id: &exchange.id,
        received: exchange.received,
        // HTTP/2 has no connection to give away, but a stream that was asked to be a WebSocket.
        may_hijack: head.version != Version::HTTP_2 || exchange.upgrade.is_some(),
        number: next_number(),
        early_hints,
    };
    let in_memory = match &body {
        RequestBody::Memory(bytes) => bytes.clone(),
        _ => Bytes::new(),
    };
    let mut fingerprint = None;
    let suspects = app.suspects();
    if suspects.any() {
        let known = suspects.fingerprint(head, &in_memory);
        if let Some(time) = suspects.refuses(known, clock::now()) {
            return Err(Failure::Refused(time));
        }
        fingerprint = Some(known);
    }
    let frame = env::request_frame(head, &facts, &body).freeze();
    // A spooled body's file has to outlive the conversation; a streamed one can't be sent twice.
    let (streamed, spooled) = match body {
        RequestBody::Streamed { body, .. } => (Some(body), None),
        RequestBody::Spooled { file, .. } => (None, Some(file)),
        RequestBody::Memory(_) => (None, None),
    };
    let idempotent = is_idempotent(&head.method);
    let (mut deaths, mut unread) = (0, 0);
    let streamed_once = streamed.is_some();
    let mut streamed = streamed;
    let mut again = None;
    let whole = streamed.is_none() && spooled.is_none();
    let mut offer = if whole { Offer::new(facts.number, &frame) } else { None };
    exchange.timeline.queued = clock::now();
    exchange.live.step(Step::Queued, exchange.timeline.queued);
    loop {
        let mut lease = app
            .lease((head.method.as_str(), head.uri.path()), again, offer.take())
            .await
            .map_err(Failure::Unavailable)?;
        again = Some(Again { worker: lease.worker, alone: deaths > 0 });
        if let (Some(file), Some(account)) = (&spooled, lease.run_as.account()) {
            if let Err(error) = file.give_to(account.uid) {
                lease.give_back();
                return Err(Failure::Spool(error));
            }
        }
        exchange.timeline.handed_over = clock::now();
        exchange.live.step(Step::App, exchange.timeline.handed_over);
        let worker = (lease.worker, lease.channel().thread);
        let noted = lease.noted.take();
        let request = Request {
            number: facts.number,
            frame: frame.clone(),
            body: streamed.take(),
            spooled: spooled.clone(),
            method: head.method.clone(),
            uri: head.uri.clone(),
            soft_timeout,
            hard_timeout,
            memory: response_memory,
            spool: response_spool,
            hints: exchange.hints.clone(),
            counters: exchange.counters.clone(),
            live: exchange.live.clone(),
        };
        let answer = match Conversation::begin(lease, request) {
            Ok(conversation) => converse(conversation).await,
            Err(answer) => answer,
        };
        if let Some(noted) = noted {
            noted.note(ended(&answer, exchange.timeline.handed_over));
        }
        if let Some(known) = fingerprint.filter(|_| answer.is_the_apps()) {
            suspects.answered(known, exchange.timeline.handed_over);
        }
        match answer {
            Answer::Response { status, headers, body } => {
                return response::response(status, &headers, body, head.method == Method::HEAD)
                    .map_err(Failure::Unsendable)
            }
            Answer::Hijacked { head, stream, received } => {
                // The app may keep the connection and never answer: it has the time that it has for any answer.
                let time = hard_timeout.filter(|_| head.is_none()).unwrap_or(FOREVER);
                // On the heap: rare, and larger than all the rest.
                let responding = Box::pin(hijack::respond(head, stream, received, exchange.upgrade.take()));
                let response = timeout(time, responding).await.map_err(|_| Failure::TimedOut)?;
                return response.map_err(Failure::Unsendable);
            }
            Answer::Raised(error) => return Err(Failure::Raised(error)),
            Answer::TimedOut => {
                lost(app, worker, head, exchange, "answered 504");
                return Err(Failure::TimedOut);
            }
            // Who sent it can't be known; nor whether this request was answered to somebody else.
            Answer::Misdirected => {
                lost(app, worker, head, exchange, "answered 502");
                return Err(Failure::Misdirected);
            }
            Answer::Untaken if !streamed_once => {}
            Answer::Untaken => return Err(Failure::WorkerDied(RetryRefusal::NotRepeatable)),
            Answer::Unread if !streamed_once && unread < UNREAD => {
                unread += 1;
                lost(app, worker, head, exchange, "given to another worker");
            }
            Answer::Unread | Answer::Died => {
                let known = fingerprint.unwrap_or_else(|| suspects.fingerprint(head, &in_memory));
                fingerprint = Some(known);
                if matches!(answer, Answer::Died) {
                    suspects.died(known, exchange.timeline.handed_over, clock::now());
                    deaths += 1;
                }
                let given_up = if streamed_once || !idempotent {
                    Some(RetryRefusal::NotRepeatable)
                } else if deaths != 1 || suspects.refuses(known, clock::now()).is_some() {
                    Some(RetryRefusal::TwoDied)
                } else {
                    (!suspects.may_ask_again(clock::now())).then_some(RetryRefusal::NoneLeft)
                };
                if let Some(why) = given_up {
                    lost(app, worker, head, exchange, "answered 502");
                    return Err(Failure::WorkerDied(why));
                }
                lost(app, worker, head, exchange, "given to another worker");
                again = Some(Again { worker: worker.0, alone: deaths > 0 });
            }
        }
        exchange.live.step(Step::Queued, clock::now());
    }
}

/// For the comparison of two generations.
#[cold]
fn ended(answer: &Answer, since: clock::Micros) -> End {
    match answer {
        Answer::Response { status, .. } => End::Answered(*status, clock::now().saturating_sub(since)),
        Answer::Hijacked { head, .. } => End::Answered(head.as_ref().map_or(200, |head| head.0), 0),
        Answer::Raised(_) => End::Raised,
        Answer::TimedOut => End::TimedOut,
        // It was draining, and says nothing of the code.
        Answer::Untaken => End::Answered(200, 0),
        Answer::Died | Answer::Unread | Answer::Misdirected => End::Died,
    }
}

/// For the post-mortem of the worker. A response that had begun when its worker died is not among these: it is cut off.
#[cold]
fn lost(app: &impl Origin, (worker, thread): (WorkerId, usize), head: &Parts, exchange: &Exchange, outcome: &str) {
    let request = InHand {
        id: exchange.id.clone(),
        method: head.method.as_str().into(),
        path: head.uri.path().into(),
        thread,
        age_ms: clock::now().saturating_sub(exchange.timeline.head_read) / 1000,
        outcome: outcome.into(),
    };
    app.lost(worker, request);
}

fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE].contains(method)
}
