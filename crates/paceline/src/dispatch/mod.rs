//! From a request that has been read whole to a worker thread and back: the fair queue and the conversation.
//! It never starts or stops workers, and it never sees a client's socket.

pub mod comparison;
pub mod conversation;
pub mod expectations;
pub mod queue;
pub mod replay;
mod request_body;
pub mod response_buffer;

use std::time::Duration;

use http::{request::Parts, Method, Response, Version};
use tokio::time::sleep;

use self::{
    comparison::End,
    conversation::{converse, Answer, Conversation, Request},
    queue::WorkerId,
};
use crate::{
    clock,
    exchange::Exchange,
    http::{body::ResponseBody, env, hijack, incoming::RequestBody, response},
    incidents::InHand,
    live::Step,
    supervisor::app::{App, Unavailable},
    worker::frame::{next_number, AppError},
};

/// Why the app gave no response.
pub enum Failure {
    /// No worker thread was to be had.
    Unavailable(Unavailable),
    /// The worker went away with the request in its hands.
    WorkerDied,
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

/// How long to wait before a request is given to another worker when one has died with it in its hands: the first time at
/// once, since most often that was not the request's doing; whoever kills workers one after another is done by the last. Then
/// the request is given up, since it may be what kills them.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(250), Duration::from_secs(1)];

/// Asks a worker of `app`. A request whose worker dies is asked again if it is idempotent (RFC 9110 section 9.2.2), or if the worker
/// had not read it.
pub async fn run(
    app: &App,
    head: &Parts,
    body: RequestBody,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, Failure> {
    let facts = env::Facts {
        client: &exchange.client,
        local: exchange.connection.local,
        request_id: &exchange.id,
        received: exchange.received,
        // HTTP/2 has no connection to give away, but a stream that was asked to be a WebSocket.
        may_hijack: head.version != Version::HTTP_2 || exchange.upgrade.is_some(),
        number: next_number(),
        early_hints: app.site.early_hints,
    };
    let frame = env::request_frame(head, &facts, &body).freeze();
    // A spooled body's file has to outlive the conversation; a streamed one can't be sent twice.
    let (streamed, spooled) = match body {
        RequestBody::Streamed { body, .. } => (Some(body), None),
        RequestBody::Spooled { file, .. } => (None, Some(file)),
        RequestBody::Memory(_) => (None, None),
    };
    let idempotent = is_idempotent(&head.method);
    let mut pauses = PAUSES.into_iter();
    let streamed_once = streamed.is_some();
    let mut streamed = streamed;
    let mut avoid = None;
    exchange.timeline.queued = clock::now();
    exchange.live.step(Step::Queued, exchange.timeline.queued);
    loop {
        let mut lease =
            app.lease((head.method.as_str(), head.uri.path()), avoid).await.map_err(Failure::Unavailable)?;
        avoid = Some(lease.worker);
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
            soft_timeout: app.site.app_soft_timeout,
            hard_timeout: app.site.app_hard_timeout,
            memory: app.site.response_memory,
            spool: app.site.response_spool,
            hints: exchange.hints.clone(),
            counters: exchange.counters.clone(),
            live: exchange.live.clone(),
        };
        let answer = match Conversation::begin(lease, request) {
            Some(conversation) => converse(conversation).await,
            None => Answer::Unread,
        };
        if let Some(noted) = noted {
            noted.note(ended(&answer, exchange.timeline.handed_over));
        }
        match answer {
            Answer::Response { status, headers, body } => {
                return response::response(status, &headers, body, head.method == Method::HEAD)
                    .map_err(Failure::Unsendable)
            }
            Answer::Hijacked { head, stream, received } => {
                // On the heap: rare, and larger than all the rest.
                return Box::pin(hijack::respond(head, stream, received, exchange.upgrade.take()))
                    .await
                    .map_err(Failure::Unsendable);
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
            Answer::Untaken => return Err(Failure::WorkerDied),
            Answer::Unread | Answer::Died => {
                let may_retry = !streamed_once && (idempotent || matches!(answer, Answer::Unread));
                let Some(pause) = pauses.next().filter(|_| may_retry) else {
                    lost(app, worker, head, exchange, "answered 502");
                    return Err(Failure::WorkerDied);
                };
                lost(app, worker, head, exchange, "given to another worker");
                if !pause.is_zero() {
                    // On the heap, so that other requests have no room for it.
                    Box::pin(sleep(pause)).await;
                }
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
fn lost(app: &App, (worker, thread): (WorkerId, usize), head: &Parts, exchange: &Exchange, outcome: &str) {
    let request = InHand {
        id: exchange.id.clone(),
        method: head.method.as_str().into(),
        path: head.uri.path().into(),
        thread,
        age_ms: clock::now().saturating_sub(exchange.timeline.head_read) / 1000,
        outcome: outcome.into(),
    };
    app.incidents.lost(&app.site.name, worker, request);
}

fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE].contains(method)
}
