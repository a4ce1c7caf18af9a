//! Request bodies on their way to an upstream: from memory, from a file, or as they come from the client.
//! It never frames them; that is hyper's work.

use std::{
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
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
    exchange::incoming::{Arriving, Broken, RequestBody, Unread},
    support::site_files::SiteFiles,
};
use unix_user::RunAs;

/// What is left to send again should it be needed.
pub enum Source {
    Memory(Bytes),
    Spooled(Arc<NamedSpool>),
    /// Can be sent once.
    Streamed(Option<Box<(Limited<Arriving>, u64)>>),
}

/// How far a body has come.
#[derive(Clone, Default)]
pub struct Progress(Arc<State>);

#[derive(Default)]
struct State {
    /// Why it broke off.
    fault: Mutex<Option<Failure>>,
    has_broken: AtomicBool,
    /// The client has not sent all of it yet.
    is_arriving: AtomicBool,
}

impl Progress {
    /// Why the body broke off, once.
    pub fn take_fault(&self) -> Option<Failure> {
        self.0.fault.lock().take()
    }

    /// Whether the host does not have the whole request because the client is slow, or has gone.
    pub fn is_up_to_client(&self) -> bool {
        self.0.has_broken.load(Relaxed) || self.0.is_arriving.load(Relaxed)
    }
}

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
    pub async fn open(&mut self, progress: &Progress) -> Result<Outgoing, Failure> {
        let content = match self {
            Source::Memory(bytes) => Content::Memory(bytes.clone()),
            Source::Spooled(spool) => {
                let (length, file) = {
                    // The server's own.
                    let files = SiteFiles::new(RunAs::Ourselves);
                    plain_file(&files, spool.path()).await.map_err(Failure::Spool)?
                };
                Content::File { left: length, file }
            }
            Source::Streamed(body) => match body.take() {
                Some(body) => {
                    progress.0.is_arriving.store(!body.0.is_end_stream(), Relaxed);
                    Content::Streamed { body: body.0, max: body.1 }
                }
                None => return Err(Failure::Spool(io::ErrorKind::UnexpectedEof.into())),
            },
        };
        Ok(Outgoing { content, progress: progress.clone() })
    }
}

/// A body as hyper's client takes it.
pub struct Outgoing {
    content: Content,
    progress: Progress,
}

enum Content {
    Memory(Bytes),
    File { left: u64, file: FileBody },
    Streamed { body: Limited<Arriving>, max: u64 },
}

impl Outgoing {
    /// No body.
    pub fn empty() -> Outgoing {
        Outgoing { content: Content::Memory(Bytes::new()), progress: Progress::default() }
    }

    fn broke(&self, failure: Failure) -> io::Error {
        *self.progress.0.fault.lock() = Some(failure);
        self.progress.0.has_broken.store(true, Relaxed);
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
                    let frame = std::task::ready!(Pin::new(&mut *body).poll_frame(cx)).transpose();
                    if matches!(frame, Ok(None)) || body.is_end_stream() {
                        this.progress.0.is_arriving.store(false, Relaxed);
                    }
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
