//! The bodies the front sends: nothing, bytes that are there, or a stream.
//! It never knows where a body came from.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body that comes in pieces.
pub type Stream = Pin<Box<dyn Body<Data = Bytes, Error = io::Error> + Send>>;

/// A response body.
pub enum ResponseBody {
    Empty,
    Whole(Bytes),
    Stream(Stream),
    /// What an app that has hijacked its connection writes after a response head of its own: it is neither stored nor
    /// transformed.
    Hijacked(Stream),
}

impl ResponseBody {
    pub fn stream(body: impl Body<Data = Bytes, Error = io::Error> + Send + 'static) -> ResponseBody {
        ResponseBody::Stream(Box::pin(body))
    }

    pub fn hijacked(body: impl Body<Data = Bytes, Error = io::Error> + Send + 'static) -> ResponseBody {
        ResponseBody::Hijacked(Box::pin(body))
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseBody::Empty => "Empty",
            ResponseBody::Whole(_) => "Whole",
            ResponseBody::Stream(_) => "Stream",
            ResponseBody::Hijacked(_) => "Hijacked",
        })
    }
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> ResponseBody {
        ResponseBody::Whole(bytes.into())
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> ResponseBody {
        text.into_bytes().into()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        match this {
            ResponseBody::Empty => Poll::Ready(None),
            ResponseBody::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = ResponseBody::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            ResponseBody::Stream(body) | ResponseBody::Hijacked(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Empty => true,
            ResponseBody::Whole(bytes) => bytes.is_empty(),
            ResponseBody::Stream(body) | ResponseBody::Hijacked(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Empty => SizeHint::with_exact(0),
            ResponseBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::Stream(body) | ResponseBody::Hijacked(body) => body.size_hint(),
        }
    }
}
