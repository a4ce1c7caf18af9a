//! What a worker is asked, and what it answers. It decides nothing.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Uri};
use http_body_util::Limited;
use tokio::net::UnixStream;

use crate::{
    content::spool::NamedSpool,
    exchange::{incoming::Arriving, Counters, Hints, RecordSlot},
    observe::in_flight::Held,
    origins::workers::{
        protocol::{
            frame::{AppError, HeaderPairs, RequestNumber},
            hijacked::Hijacked,
        },
        rack::response::AnswerBody,
    },
};

/// Bytes of a record, at most. A worker sends less.
const MAX_RECORD: usize = 1 << 20;

/// What a worker is asked, and how patiently.
pub struct Request {
    /// Each frame of the answer repeats it.
    pub number: RequestNumber,
    /// The encoded REQUEST frame, with that number.
    pub frame: Bytes,
    /// A body that is passed on as it comes (REQUEST flag STREAMED).
    pub body: Option<Limited<Arriving>>,
    /// A spooled body's file: unlinked when the conversation is over.
    pub spooled: Option<Arc<NamedSpool>>,
    pub method: Method,
    pub uri: Uri,
    pub soft_timeout: Option<Duration>,
    pub hard_timeout: Option<Duration>,
    /// Bytes of the response held in memory and in a file for a slow client.
    pub memory: usize,
    pub spool: u64,
    /// So long its thread is waited for after the answer; then another one takes its place. None: for ever.
    pub after_reply: Option<Duration>,
    /// Where 103 responses go.
    pub hints: Option<Hints>,
    /// Set when the worker has reported.
    pub counters: Arc<OnceLock<Counters>>,
    /// Where what the page was made of goes. None: nobody wants to know.
    pub record: Option<RecordSlot>,
    /// Others see by it that a worker thread has it.
    pub held: Held,
}

impl Request {
    /// "GET /path", for the log.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.method, self.uri.path())
    }

    /// What the page was made of. Of a request that is asked again, the last one counts.
    pub(super) fn note_record(&self, record: Bytes) {
        if let Some(slot) = self.record.as_ref().filter(|_| record.len() <= MAX_RECORD) {
            *slot.lock() = Some(record);
        }
    }
}

/// The worker's answer, as far as it decides what the client gets.
pub enum Answer {
    Response {
        status: u16,
        headers: HeaderPairs,
        body: AnswerBody,
        /// What the application's own error page is about.
        raised: Option<Arc<AppError>>,
    },
    /// The app raised before it had a response.
    Raised(Box<AppError>),
    /// The channel is now the client's byte stream. `head` is None for a full hijack.
    Hijacked {
        head: Option<(u16, HeaderPairs)>,
        stream: UnixStream,
        received: Bytes,
        /// Counts the connection: to be kept as long as the stream.
        open: Hijacked,
    },
    /// The worker went away without an answer.
    Died,
    /// What came is the answer to another request; the worker is being replaced.
    Misdirected,
    /// The worker had closed its end before a byte of the request was sent: it was draining, and knows nothing of it.
    Untaken,
    /// The worker went away before it had read the whole request: the app knows nothing of it, whatever its method.
    Unread,
    /// The hard time-out passed; the worker is being replaced.
    TimedOut,
}

impl Answer {
    /// The app has said something: it lives.
    pub fn is_the_apps(&self) -> bool {
        matches!(self, Answer::Response { .. } | Answer::Raised(_) | Answer::Hijacked { .. })
    }
}
