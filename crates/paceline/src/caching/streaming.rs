//! A body that is given to all who want it while it comes, and kept when it is whole. While it may be kept it is held
//! in memory and comes as fast as the origin sends; when it has become too large to keep, the slowest reader sets the
//! pace. It never decides what becomes of the whole.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use cache::stored::Stored;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::content::body::ResponseBody;

/// How far the body may run ahead of its slowest reader once it is too large to keep.
const AHEAD: u64 = 1 << 20;

/// A body on its way to several readers.
pub struct SharedBody {
    state: Mutex<State>,
    /// A reader has taken something, or has left.
    taken: Notify,
    /// Bytes of the whole, if they were known when it began.
    length: Option<u64>,
}

#[derive(Default)]
struct State {
    /// What came from `base` on.
    pieces: VecDeque<Bytes>,
    /// How many pieces have been let go: the body has become too large to keep.
    base: usize,
    /// Bytes that came, and those of the pieces let go.
    came: u64,
    gone: u64,
    end: Option<End>,
    /// Too large to keep: nobody new is let in.
    oversize: bool,
    readers: Vec<Option<Position>>,
}

#[derive(Clone)]
enum End {
    Whole(Option<Arc<Stored>>),
    Broken,
}

struct Position {
    /// The piece it wants next.
    piece: usize,
    waker: Option<Waker>,
}

/// Makes the stored response of the whole body, and stores it; None: the body is too large for that. It returns None if
/// nothing is stored. Dropped without a call: the body is broken.
pub type StoreWhole = Box<dyn FnOnce(Option<Bytes>) -> Option<Arc<Stored>> + Send>;

impl SharedBody {
    /// Reads `body` to its end, in a task of its own. `most`: bytes that may be kept. `over`: called when it has ended,
    /// or can't be kept.
    pub fn start(
        body: ResponseBody,
        most: u64,
        completed: StoreWhole,
        over: impl FnOnce() + Send + 'static,
    ) -> Arc<SharedBody> {
        let length = body.size_hint().exact();
        let shared = Arc::new(SharedBody { state: Mutex::default(), taken: Notify::new(), length });
        let filled = shared.clone();
        tokio::spawn(async move { filled.fill(body, most, completed, over).await });
        shared
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Another reader, from the first byte. None: it is too late.
    pub fn reader(self: &Arc<Self>) -> Option<SharedReader> {
        let mut state = self.lock();
        if state.oversize && state.base > 0 {
            return None;
        }
        let position = Some(Position { piece: 0, waker: None });
        let free = state.readers.iter().position(Option::is_none);
        let number = free.unwrap_or(state.readers.len());
        match free {
            Some(free) => state.readers[free] = position,
            None => state.readers.push(position),
        }
        Some(SharedReader { body: self.clone(), number, read: 0, done: false })
    }

    /// The stored response, when the body is whole. None: it is not stored.
    pub async fn whole(self: &Arc<Self>) -> Option<Arc<Stored>> {
        let mut reader = self.reader()?;
        while let Some(piece) = reader.frame().await {
            piece.ok()?;
        }
        // Not as the last expression: the lock would be held while the reader is dropped, which takes it.
        let end = self.lock().end.clone();
        match end {
            Some(End::Whole(stored)) => stored,
            _ => None,
        }
    }

    async fn fill(
        self: Arc<Self>,
        mut body: ResponseBody,
        most: u64,
        completed: StoreWhole,
        over: impl FnOnce() + Send,
    ) {
        let (mut over, mut completed) = (Some(over), Some(completed));
        let end = loop {
            match body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    if bytes.is_empty() {
                        continue;
                    }
                    let last = body.is_end_stream();
                    let oversize = self.add(bytes, most, last);
                    if last {
                        break End::Whole(None);
                    }
                    if oversize {
                        over.take().into_iter().for_each(|over| over());
                        // Nobody waits for the whole.
                        completed.take().and_then(|completed| completed(None));
                        if !self.keep_pace().await {
                            return;
                        }
                    }
                }
                Some(Err(_)) => break End::Broken,
                None => break End::Whole(None),
            }
        };
        let end = match end {
            End::Whole(_) => {
                let whole = Some(()).filter(|()| !self.lock().oversize).map(|()| self.joined());
                End::Whole(completed.and_then(|completed| completed(whole)))
            }
            end => end,
        };
        let mut state = self.lock();
        state.end = Some(end);
        state.wake();
        drop(state);
        over.into_iter().for_each(|over| over());
    }

    /// Whether it is too large to keep now. `last`: nothing comes after; who has it finds the whole in the cache, so
    /// nobody is told before it is there.
    fn add(&self, bytes: Bytes, most: u64, last: bool) -> bool {
        let mut state = self.lock();
        state.came += bytes.len() as u64;
        state.oversize |= state.came > most;
        state.pieces.push_back(bytes);
        if state.oversize {
            state.let_go();
        }
        if !last {
            state.wake();
        }
        state.oversize
    }

    /// Waits until the slowest reader is near. false: there are none.
    async fn keep_pace(&self) -> bool {
        loop {
            let taken = self.taken.notified();
            {
                let mut state = self.lock();
                state.let_go();
                if state.readers.iter().all(Option::is_none) {
                    return false;
                }
                if state.came - state.gone <= AHEAD {
                    return true;
                }
            }
            taken.await;
        }
    }

    fn joined(&self) -> Bytes {
        let state = self.lock();
        if let (1, Some(one)) = (state.pieces.len(), state.pieces.front()) {
            return one.clone();
        }
        let pieces: Vec<Bytes> = state.pieces.iter().cloned().collect();
        let came = state.came;
        drop(state);
        let mut joined = BytesMut::with_capacity(came as usize);
        pieces.iter().for_each(|piece| joined.extend_from_slice(piece));
        joined.freeze()
    }
}

impl State {
    fn wake(&mut self) {
        self.readers.iter_mut().flatten().filter_map(|reader| reader.waker.take()).for_each(Waker::wake);
    }

    /// Lets go of what every reader has.
    fn let_go(&mut self) {
        let slowest = self.readers.iter().flatten().map(|reader| reader.piece).min().unwrap_or(usize::MAX);
        while self.base < slowest {
            let Some(piece) = self.pieces.pop_front() else { return };
            self.base += 1;
            self.gone += piece.len() as u64;
        }
    }
}

/// One of a body's readers.
pub struct SharedReader {
    body: Arc<SharedBody>,
    number: usize,
    /// Bytes so far.
    read: u64,
    done: bool,
}

impl Body for SharedReader {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.done {
            return Poll::Ready(None);
        }
        let number = self.number;
        let mut state = self.body.lock();
        let base = state.base;
        let Some(wanted) = state.readers[number].as_ref().map(|reader| reader.piece) else { return Poll::Ready(None) };
        let piece = wanted.checked_sub(base).and_then(|index| state.pieces.get(index).cloned());
        let Some(position) = state.readers[number].as_mut() else { return Poll::Ready(None) };
        if let Some(piece) = piece {
            position.piece += 1;
            let oversize = state.oversize;
            drop(state);
            self.read += piece.len() as u64;
            if oversize {
                self.body.taken.notify_one();
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match &state.end {
            None => {
                let waker = cx.waker().clone();
                if let Some(position) = state.readers[number].as_mut() {
                    position.waker = Some(waker);
                }
                Poll::Pending
            }
            Some(end) => {
                let broken = matches!(end, End::Broken);
                drop(state);
                self.done = true;
                Poll::Ready(broken.then(|| Err(io::Error::other("the origin broke off"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.done || self.body.length == Some(self.read)
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.body.length.and_then(|length| length.checked_sub(self.read));
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        self.body.lock().readers[self.number] = None;
        self.body.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_would_store_it_learns_that_it_is_too_large() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for (most, expected) in [(10, Some(Bytes::from_static(b"0123456789"))), (9, None)] {
                let (tell, told) = tokio::sync::oneshot::channel();
                let completed: StoreWhole = Box::new(move |bytes| {
                    tell.send(bytes).unwrap();
                    None
                });
                let body = ResponseBody::Whole(Bytes::from_static(b"0123456789"));
                let _shared = SharedBody::start(body, most, completed, || ());
                assert_eq!(told.await, Ok(expected), "at most {most}");
            }
        });
    }
}
