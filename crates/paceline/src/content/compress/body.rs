//! A body that is compressed as it comes. While more is there at once it is compressed together; when the app pauses,
//! everything so far goes out.
//! It never waits for more than the app has to give.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::encoder::Encoder;
use crate::content::body::ResponseBody;

/// So much is compressed before anything else gets the thread, and so much is sent at once.
const STEP: usize = 32 << 10;

pub struct CompressedBody {
    body: ResponseBody,
    /// None: ended.
    encoder: Option<Encoder>,
    /// What came in one piece and is not compressed yet.
    waiting: Bytes,
    /// Something was written since the last flush.
    unflushed: bool,
}

impl CompressedBody {
    pub fn new(body: ResponseBody, encoder: Encoder) -> CompressedBody {
        CompressedBody { body, encoder: Some(encoder), waiting: Bytes::new(), unflushed: false }
    }

    fn end(&mut self) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let last = self.encoder.take().map(Encoder::finish);
        Poll::Ready(last.map(|last| last.map(Frame::data)))
    }
}

impl Body for CompressedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let mut budget = STEP;
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            if !this.waiting.is_empty() && budget > 0 {
                let piece = this.waiting.split_to(this.waiting.len().min(budget));
                budget -= piece.len();
                encoder.write(&piece)?;
                this.unflushed = true;
                continue;
            }
            if budget == 0 {
                let ready = encoder.take();
                if !ready.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(ready))));
                }
                // All of it went into the window: give others a turn.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => this.waiting = frame.into_data().unwrap_or_default(),
                Poll::Ready(Some(Err(error))) => {
                    // Broken off: what the client has must not look whole.
                    this.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => return this.end(),
                Poll::Pending if this.unflushed => {
                    this.unflushed = false;
                    encoder.flush()?;
                    let ready = encoder.take();
                    if !ready.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(ready))));
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
