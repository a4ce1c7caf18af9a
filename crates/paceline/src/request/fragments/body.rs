//! The page as the client gets it: as far as it is known, at once; the rest as it comes. When it can't be completed it
//! is cut off, so that nobody takes it for whole. It never holds back what could go out.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};

use super::{
    document::{Document, Next, MAX_HELD},
    Page,
};

/// Bytes that are sent at a time, and those that are known before the head is sent, at least as long as nobody is
/// waited for. A page that has to be whole before is held up to `MAX_HELD`.
const AT_A_TIME: usize = 16 << 10;
const AT_ONCE: usize = 64 << 10;

/// A page that is put together while it is sent.
pub struct AssembledBody {
    page: Arc<Page>,
    document: Box<Document>,
    /// What is known and not sent yet.
    ready: Vec<Bytes>,
    end: Option<End>,
}

enum End {
    Whole,
    Failed(String),
}

/// The beginning of a page.
pub enum PageStart {
    Whole(Bytes),
    Arriving(Box<AssembledBody>),
    /// There is nothing to be sent; the page has said why.
    Failed,
}

impl AssembledBody {
    /// Comes as soon as anything of the page is known; `whole`: as soon as all of it is, or more than can be held.
    pub async fn begin(page: Arc<Page>, document: Document, whole: bool) -> PageStart {
        let mut body = AssembledBody { page, document: Box::new(document), ready: Vec::new(), end: None };
        if whole {
            poll_fn(|cx| body.gather_all(cx)).await
        } else {
            poll_fn(|cx| body.gather(cx, AT_ONCE)).await
        }
        match body.end.take() {
            None => PageStart::Arriving(Box::new(body)),
            Some(End::Whole) => PageStart::Whole(joined(std::mem::take(&mut body.ready))),
            Some(End::Failed(why)) => {
                body.document.say(&body.page, &why);
                PageStart::Failed
            }
        }
    }

    /// Takes all there is, up to `MAX_HELD` bytes. Pending: some of it has not come.
    fn gather_all(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let held = self.held();
            std::task::ready!(self.gather(cx, MAX_HELD));
            if self.end.is_some() || self.held() >= MAX_HELD {
                return Poll::Ready(());
            }
            if self.held() == held {
                return Poll::Pending;
            }
        }
    }

    fn held(&self) -> usize {
        self.ready.iter().map(Bytes::len).sum()
    }

    /// Takes what there is, up to `most` bytes. Pending: nothing yet.
    fn gather(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<()> {
        let mut bytes = self.held();
        while self.end.is_none() && bytes < most {
            match self.document.poll_next(&self.page, cx, MAX_HELD) {
                Poll::Ready(Next::Bytes(piece)) => {
                    bytes += piece.len();
                    self.ready.push(piece);
                }
                Poll::Ready(Next::Done) => self.end = Some(End::Whole),
                Poll::Ready(Next::Failed(why)) => self.end = Some(End::Failed(why)),
                Poll::Pending if bytes == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(())
    }
}

impl Body for AssembledBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        std::task::ready!(this.gather(cx, AT_A_TIME));
        if !this.ready.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(joined(std::mem::take(&mut this.ready))))));
        }
        let Some(End::Failed(why)) = &mut this.end else { return Poll::Ready(None) };
        let why = std::mem::take(why);
        this.end = Some(End::Whole);
        this.document.say(&this.page, &format!("{why}; the page was cut off"));
        Poll::Ready(Some(Err(io::Error::other(why))))
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() < 2 {
        return pieces.pop().unwrap_or_default();
    }
    let mut joined = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| joined.extend_from_slice(piece));
    joined.freeze()
}
