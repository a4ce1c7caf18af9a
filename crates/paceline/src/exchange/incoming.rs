//! Request bodies: read whole before a worker is asked for, in memory up to a bound and in a file beyond it.
//! It never passes a body to anybody.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{header, HeaderMap};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::io::{AsyncWriteExt, BufWriter};

use crate::{content::spool::NamedSpool, support::buffer_memory::BODIES};

/// A request body as a worker will get it.
pub enum RequestBody {
    Memory(Bytes),
    Spooled {
        file: Arc<NamedSpool>,
        length: u64,
    },
    /// Passed on as it comes, cut off at the bound; the length when the client told it.
    Streamed {
        body: Limited<Arriving>,
        /// The bound in bytes.
        max: u64,
        length: Option<u64>,
    },
}

impl RequestBody {
    /// Bytes, when known.
    pub fn length(&self) -> Option<u64> {
        match self {
            RequestBody::Memory(bytes) => Some(bytes.len() as u64),
            RequestBody::Spooled { length, .. } => Some(*length),
            RequestBody::Streamed { length, .. } => *length,
        }
    }
}

/// Why a body could not be read.
#[derive(Debug)]
pub enum Unread {
    /// Over the bound in bytes (413).
    TooLarge(u64),
    /// The client broke it off or broke its framing.
    Broken(hyper::Error),
    /// It came too slowly (408).
    Late,
    /// The spool file could not be written.
    Spool(std::io::Error),
}

impl From<Broken> for Unread {
    fn from(broken: Broken) -> Unread {
        match broken {
            Broken::Off(error) => Unread::Broken(error),
            Broken::Late => Unread::Late,
        }
    }
}

/// The time in which a request body has to come, where the connection knows it (HTTP/2).
pub trait BodyPace: Send {
    /// So many bytes have come.
    fn got(&mut self, bytes: usize);
    /// While nothing comes: ready when that has been too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// A request body as it comes from its client.
pub struct Arriving {
    body: Incoming,
    /// In HTTP/2, where the guard can't know a body's time; until it has ended.
    pace: Option<Box<dyn BodyPace>>,
}

/// Why no more of it comes.
#[derive(Debug)]
pub enum Broken {
    Off(hyper::Error),
    Late,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Off(error) => error.fmt(f),
            Broken::Late => f.write_str("too late"),
        }
    }
}

impl std::error::Error for Broken {}

impl Arriving {
    pub fn new(body: Incoming, pace: Option<Box<dyn BodyPace>>) -> Arriving {
        Arriving { body, pace }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx).map_err(Broken::Off);
        let Some(pace) = &mut this.pace else { return frame };
        match &frame {
            Poll::Pending => pace.poll_late(cx).map(|()| Some(Err(Broken::Late))),
            Poll::Ready(Some(Ok(came))) => {
                pace.got(came.data_ref().map_or(0, Bytes::len));
                frame
            }
            Poll::Ready(_) => {
                this.pace = None;
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Marks (as an extension) the response to a request whose body was not read to its end.
#[derive(Debug, Clone, Copy)]
pub struct LeftUnread;

/// How bodies are read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest body, bytes.
    pub max: Option<u64>,
    /// Bytes kept in memory.
    pub memory: usize,
    /// Spool larger bodies (true), or pass them on as they come.
    pub buffer: bool,
}

/// Whether the head announces a body (RFC 9112 section 6.3).
pub fn announced(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0")
}

/// Bytes of a body that go to its file at once.
const GATHERED: usize = 64 << 10;

/// Reads `body` whole.
pub async fn read(mut body: Arriving, limits: Limits) -> Result<RequestBody, Unread> {
    let length = body.size_hint().exact();
    let max = limits.max.unwrap_or(u64::MAX);
    if length.is_some_and(|length| length > max) {
        return Err(Unread::TooLarge(max));
    }
    if !limits.buffer && length.is_none_or(|length| length > limits.memory as u64) {
        let bound = usize::try_from(max).unwrap_or(usize::MAX);
        return Ok(RequestBody::Streamed { body: Limited::new(body, bound), max, length });
    }
    let mut memory = BytesMut::new();
    let mut held = BODIES.take(0);
    let mut spooled: Option<(NamedSpool, BufWriter<tokio::fs::File>)> = None;
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unread::from)?.into_data() else { continue };
        total += data.len() as u64;
        if total > max {
            return Err(Unread::TooLarge(max));
        }
        if let Some((_, file)) = &mut spooled {
            file.write_all(&data).await.map_err(Unread::Spool)?;
        } else if memory.len() + data.len() <= limits.memory && held.as_mut().is_some_and(|held| held.grow(data.len()))
        {
            memory.extend_from_slice(&data);
        } else {
            let named = NamedSpool::create().map_err(Unread::Spool)?;
            let file = tokio::fs::OpenOptions::new().write(true).open(named.path()).await.map_err(Unread::Spool)?;
            // Each write is a task of another thread: small pieces are gathered.
            let mut file = BufWriter::with_capacity(GATHERED, file);
            file.write_all(&memory).await.map_err(Unread::Spool)?;
            file.write_all(&data).await.map_err(Unread::Spool)?;
            memory = BytesMut::new();
            held = None;
            spooled = Some((named, file));
        }
    }
    match spooled {
        None => Ok(RequestBody::Memory(memory.freeze())),
        Some((file, mut writing)) => {
            writing.flush().await.map_err(Unread::Spool)?;
            Ok(RequestBody::Spooled { file: Arc::new(file), length: total })
        }
    }
}
