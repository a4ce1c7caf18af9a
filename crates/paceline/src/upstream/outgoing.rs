//! Request bodies on their way to an upstream: from memory, from a file, or as they come from the client.
//! It never frames them; that is hyper's work.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{LengthLimitError, Limited};
use parking_lot::Mutex;

use super::failure::Failure;
use crate::{
    content::{
        spool::NamedSpool,
        static_files::{plain_file, FileBody},
    },
    request::incoming::{Arriving, Broken, RequestBody, Unread},
};

/// What is left to send again should it be needed.
pub enum Source {
    Memory(Bytes),
    Spooled(Arc<NamedSpool>),
    /// Can be sent once.
    Streamed(Option<Box<(Limited<Arriving>, u64)>>),
}

/// Where a body says why it broke off.
pub type Fault = Arc<Mutex<Option<Failure>>>;

impl Source {
    pub fn of(body: RequestBody) -> Source {
        match body {
            RequestBody::Memory(bytes) => Source::Memory(bytes),
            RequestBody::Spooled { file, .. } => Source::Spooled(file),
            RequestBody::Streamed { body, max, .. } => Source::Streamed(Some(Box::new((body, max)))),
        }
    }

    /// Whether it can be sent once more.
    pub fn can_repeat(&self) -> bool {
        !matches!(self, Source::Streamed(_))
    }

    /// Whether it can be sent for the first time, or once more.
    pub fn is_whole(&self) -> bool {
        !matches!(self, Source::Streamed(None))
    }

    /// The body from its beginning. A file that can't be read is a failure.
    pub async fn open(&mut self, fault: &Fault) -> Result<Outgoing, Failure> {
        let content = match self {
            Source::Memory(bytes) => Content::Memory(bytes.clone()),
            Source::Spooled(spool) => {
                let (length, file) = plain_file(spool.path()).await.map_err(Failure::Spool)?;
                Content::File { left: length, file }
            }
            Source::Streamed(body) => match body.take() {
                Some(body) => Content::Streamed { body: body.0, max: body.1 },
                None => return Err(Failure::Spool(io::ErrorKind::UnexpectedEof.into())),
            },
        };
        Ok(Outgoing { content, fault: fault.clone() })
    }
}

/// A body as hyper's client takes it.
pub struct Outgoing {
    content: Content,
    fault: Fault,
}

enum Content {
    Memory(Bytes),
    File { left: u64, file: FileBody },
    Streamed { body: Limited<Arriving>, max: u64 },
}

impl Outgoing {
    /// No body.
    pub fn empty() -> Outgoing {
        Outgoing { content: Content::Memory(Bytes::new()), fault: Fault::default() }
    }

    fn broke(&self, failure: Failure) -> io::Error {
        *self.fault.lock() = Some(failure);
        io::ErrorKind::UnexpectedEof.into()
    }
}

/// Why a client's body ended too early.
fn unread(error: Box<dyn std::error::Error + Send + Sync>, max: u64) -> Unread {
    match error.downcast::<Broken>() {
        Ok(broken) => Unread::from(*broken),
        Err(error) if error.is::<LengthLimitError>() => Unread::TooLarge(max),
        Err(error) => Unread::Spool(io::Error::other(error)),
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            let frame = match &mut this.content {
                Content::Memory(bytes) if bytes.is_empty() => return Poll::Ready(None),
                Content::Memory(bytes) => return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
                Content::File { file, left } => {
                    let frame = std::task::ready!(Pin::new(file).poll_frame(cx)).transpose();
                    if let Ok(Some(frame)) = &frame {
                        *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
                    }
                    frame.map_err(Failure::Spool)
                }
                Content::Streamed { body, max } => {
                    let frame = std::task::ready!(Pin::new(body).poll_frame(cx)).transpose();
                    frame.map_err(|error| Failure::Body(unread(error, *max)))
                }
            };
            match frame {
                Err(failure) => return Poll::Ready(Some(Err(this.broke(failure)))),
                Ok(None) => return Poll::Ready(None),
                Ok(Some(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                // Trailers stay here.
                Ok(Some(_)) => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Memory(bytes) => bytes.is_empty(),
            Content::File { left, .. } => *left == 0,
            Content::Streamed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Memory(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::File { left, .. } => SizeHint::with_exact(*left),
            Content::Streamed { body, .. } => body.size_hint(),
        }
    }
}
