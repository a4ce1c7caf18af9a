//! The bodies the front sends: one type for all of them, so that nothing on the way is boxed.
//! It never knows where a body came from.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::dechunk::Dechunked;
use crate::{
    caching::SharedReader, compress::CompressedBody, dispatch::response_buffer::Reader, finish::Logged,
    fragments::AssembledBody, http::hijack::RawBody, static_files::FileBody, upstream::Relayed,
};

/// A response body.
pub enum ResponseBody {
    Empty,
    Whole(Bytes),
    Arriving(Reader),
    /// Arriving in chunked coding (the app encoded it itself), decoded here.
    Dechunked(Dechunked),
    File(FileBody),
    /// Relayed from an upstream.
    Relayed(Box<Relayed>),
    /// Arriving, for several clients at once.
    Shared(SharedReader),
    /// Put together from fragments on its way.
    Assembled(Box<AssembledBody>),
    /// Any of these, compressed on its way.
    Compressed(Box<CompressedBody>),
    /// What a hijacking app writes after a response head of its own.
    Raw(RawBody),
    /// Any of these, with its end logged.
    Logged(Box<Logged>),
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
            ResponseBody::Arriving(reader) => Pin::new(reader).poll_frame(cx),
            ResponseBody::Dechunked(body) => Pin::new(body).poll_frame(cx),
            ResponseBody::File(file) => Pin::new(file).poll_frame(cx),
            ResponseBody::Relayed(body) => Pin::new(body.as_mut()).poll_frame(cx),
            ResponseBody::Shared(reader) => Pin::new(reader).poll_frame(cx),
            ResponseBody::Assembled(body) => Pin::new(body.as_mut()).poll_frame(cx),
            ResponseBody::Compressed(body) => Pin::new(body.as_mut()).poll_frame(cx),
            ResponseBody::Raw(raw) => Pin::new(raw).poll_frame(cx),
            ResponseBody::Logged(logged) => Pin::new(logged.as_mut()).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Empty => true,
            ResponseBody::Whole(bytes) => bytes.is_empty(),
            ResponseBody::Arriving(reader) => reader.is_end_stream(),
            ResponseBody::File(file) => file.is_end_stream(),
            ResponseBody::Relayed(body) => body.is_end_stream(),
            ResponseBody::Shared(reader) => reader.is_end_stream(),
            ResponseBody::Logged(logged) => logged.is_end_stream(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Empty => SizeHint::with_exact(0),
            ResponseBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::File(file) => file.size_hint(),
            ResponseBody::Relayed(body) => body.size_hint(),
            ResponseBody::Shared(reader) => reader.size_hint(),
            ResponseBody::Logged(logged) => logged.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
