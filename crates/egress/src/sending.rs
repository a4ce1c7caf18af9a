//! The body of an outbound call's request: what was read of it, or as it comes from the process. It never frames it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::caller::UnderWay;

/// The body of a request.
pub enum CallRequestBody {
    Whole(Option<Bytes>),
    /// What comes from the process is part of this call.
    Arriving {
        body: Incoming,
        _call: UnderWay,
    },
}

impl Body for CallRequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            CallRequestBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            CallRequestBody::Arriving { body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            CallRequestBody::Whole(bytes) => bytes.is_none(),
            CallRequestBody::Arriving { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            CallRequestBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            CallRequestBody::Arriving { body, .. } => body.size_hint(),
        }
    }
}
