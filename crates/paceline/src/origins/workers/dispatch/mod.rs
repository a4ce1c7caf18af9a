//! From a request that has been read whole to a worker thread and back: the fair queue and the conversation.
//! It never starts or stops workers, and it never sees a client's socket.

mod attempts;
pub mod comparison;
pub mod conversation;
pub mod expectations;
pub mod origin;
pub mod queue;
pub mod replay;
mod request_body;
pub mod route_times;
pub mod suspects;

use std::time::Duration;

use self::{
    attempts::Attempts,
    conversation::Answer,
    origin::{Origin, Unavailable},
};
use crate::{
    content::body::ResponseBody,
    exchange::{incoming::RequestBody, Exchange},
    observe::in_flight::Step,
    origins::workers::{
        protocol::frame::AppError,
        rack::{hijack, response, validation},
    },
    support::clock,
};
use http::{request::Parts, Method, Response};
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
    Raised(Box<AppError>),
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
    /// A worker died with it and with nothing else, after another had; or three with it and others.
    TwoDied,
    /// Too many have been asked again lately.
    NoneLeft,
}

/// Where no time-out is set.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// Asks a worker of `app`. A request whose worker dies is asked again, once and alone in a worker, if it is idempotent
/// (RFC 9110 section 9.2.2); once more if it did not stay alone, and a few times if no worker had read it, since then it
/// killed none.
pub async fn run(
    app: &impl Origin,
    head: &Parts,
    body: RequestBody,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, Failure> {
    let mut attempts = Attempts::new(app, head, body, exchange)?;
    loop {
        match attempts.ask(exchange).await? {
            Answer::Response { status, headers, body, raised } => {
                let response = response::response(status, &headers, body, head.method == Method::HEAD)
                    .map_err(Failure::Unsendable)?;
                let mut response = validation::apply(head, response);
                if let Some(raised) = raised {
                    response.extensions_mut().insert(raised);
                }
                return Ok(response);
            }
            Answer::Hijacked { head, stream, received, open } => {
                // The app may keep the connection and never answer: it has the time that it has for any answer.
                let time = attempts.hard_timeout().filter(|_| head.is_none()).unwrap_or(FOREVER);
                // On the heap: rare, and larger than all the rest.
                let responding =
                    Box::pin(hijack::respond(head, stream, received, open, exchange.offers.upgrade.take()));
                let response = timeout(time, responding).await.map_err(|_| Failure::TimedOut)?;
                return response.map_err(Failure::Unsendable);
            }
            Answer::Raised(error) => return Err(Failure::Raised(error)),
            lost => attempts.retry(lost, exchange)?,
        }
        exchange.live.step(Step::Queued, clock::now());
    }
}
