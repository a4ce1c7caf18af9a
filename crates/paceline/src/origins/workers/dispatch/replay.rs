//! A GET without a client: asked of a worker as any request, for whoever wants to know how the app answers.
//! It never touches the page cache, and nobody is logged as its visitor.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{header, HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;

use super::{
    conversation::{self, converse, Answer, Conversation},
    expectations::RequestLine,
    queue::Queue,
};
use crate::{
    exchange::{incoming::RequestBody, Connection, Exchange},
    observe::in_flight::Held,
    origins::workers::{
        protocol::frame::{next_number, AppError},
        rack::{env, response},
    },
};

/// Bytes of an answer's body that are read.
const READ: usize = 256 << 10;
/// How long the rest of a body is waited for, when its head has come.
const BODY: Duration = Duration::from_secs(2);

/// What is asked for.
pub struct Replay<'a> {
    /// Path and query.
    pub target: &'a str,
    /// With a port, if it is not the usual one.
    pub host: &'a str,
    pub https: bool,
    /// User-Agent: tells the app, and its log, who asks.
    pub agent: &'static str,
    /// How long a thread and its answer may take.
    pub patience: Duration,
}

/// What the app answered.
pub struct ReplayAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Its beginning.
    pub body: Bytes,
    /// What its page is about, if it is the application's own of an exception.
    pub raised: Option<Arc<AppError>>,
}

/// Why there is no answer.
pub enum NoAnswer {
    /// It can't be asked for.
    NoRequest,
    TimedOut,
    /// The worker went away with it.
    Died,
    Raised(Box<AppError>),
    /// What the app said is not HTTP.
    Unsendable,
}

/// Asks a worker of `queue`. Dropping the future cancels the request.
pub async fn replay(queue: &Arc<Queue>, asked: &Replay<'_>) -> Result<ReplayAnswer, NoAnswer> {
    let (head, ()) = Request::builder()
        .uri(asked.target)
        .header(header::HOST, asked.host)
        .header(header::ACCEPT, "text/html,*/*;q=0.8")
        .header(header::USER_AGENT, HeaderValue::from_static(asked.agent))
        .body(())
        .map_err(|_| NoAnswer::NoRequest)?
        .into_parts();
    let now = crate::support::clock::now();
    let connection = Connection { remote: None, local: None, tls: asked.https, accepted: now, ..Connection::default() };
    let exchange = Exchange::begin(Arc::new(connection), None, None, None);
    let facts = env::Facts {
        client: &exchange.client,
        local: None,
        request_id: &exchange.id,
        user: None,
        received: exchange.timeline.received,
        may_hijack: false,
        number: next_number(),
        early_hints: false,
    };
    let frame = Bytes::from(env::request_frame(&head, &facts, &RequestBody::Memory(Bytes::new())));
    let request = RequestLine::get(head.uri.path());
    let lease = queue.checkout(request, asked.patience, None, None).await.map_err(|_| NoAnswer::TimedOut)?;
    let request = conversation::Request {
        number: facts.number,
        frame,
        body: None,
        spooled: None,
        method: Method::GET,
        uri: head.uri,
        soft_timeout: None,
        hard_timeout: Some(asked.patience),
        memory: READ,
        spool: 0,
        after_reply: None,
        hints: None,
        counters: exchange.worker.counters.clone(),
        record: None,
        held: Held::default(),
    };
    let answer = match Conversation::begin(lease, request) {
        Ok(conversation) => converse(conversation).await,
        Err(answer) => answer,
    };
    match answer {
        Answer::Response { status, headers, body, raised } => {
            let answered = response::response(status, &headers, body, false).map_err(|_| NoAnswer::Unsendable)?;
            let (head, body) = answered.into_parts();
            Ok(ReplayAnswer { status: head.status, headers: head.headers, body: beginning(body).await, raised })
        }
        Answer::Raised(error) => Err(NoAnswer::Raised(error)),
        Answer::TimedOut => Err(NoAnswer::TimedOut),
        Answer::Hijacked { .. } => Err(NoAnswer::Unsendable),
        Answer::Died | Answer::Untaken | Answer::Unread | Answer::Misdirected => Err(NoAnswer::Died),
    }
}

async fn beginning(mut body: crate::content::body::ResponseBody) -> Bytes {
    let mut read = Vec::new();
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data() {
                read.extend_from_slice(&data[..data.len().min(READ - read.len())]);
            }
            if read.len() >= READ {
                return;
            }
        }
    };
    // An event stream never ends: what has come will do.
    let _ = tokio::time::timeout(BODY, reading).await;
    read.into()
}
