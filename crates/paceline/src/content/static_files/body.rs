//! Response bodies out of an open file: small ones as one piece, larger ones piece by piece as the client takes them.
//! It never sends more or fewer bytes than were promised: a file that shrinks meanwhile ends in an error, which breaks
//! the connection.
//!
//! Reads first ask the kernel for what it has in memory (`RWF_NOWAIT`), right on the event loop: copying 64 KB takes
//! less time than a trip to the blocking pool. Only what must come from the disk goes to the pool, one piece at a time,
//! so that a slow client holds a descriptor and a piece of memory but no thread. (One piece if the connection
//! buffers no more than that; hyper's own default, about 400 KB, takes several.)

use std::{
    collections::VecDeque,
    fs::File,
    future::Future,
    io::{self, IoSliceMut},
    ops::Range,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{ready, Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{combinators::UnsyncBoxBody, BodyExt, Full};
use rustix::io::ReadWriteFlags;
use tokio::task::JoinHandle;

pub type FileBody = UnsyncBoxBody<Bytes, io::Error>;

/// Bodies up to this size are read before the response head is sent, larger ones come in pieces of it. (Pieces of 128
/// KB cost the same CPU time and twice the memory per slow client.)
const PIECE: u64 = 64 * 1024;

/// A part of a body: bytes given, or a span of the file.
#[derive(Debug)]
pub enum Segment {
    Bytes(Bytes),
    Span(Range<u64>),
}

impl Segment {
    pub(super) fn len(&self) -> u64 {
        match self {
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::Span(span) => span.end.saturating_sub(span.start),
        }
    }
}

pub(super) fn empty() -> FileBody {
    full(Bytes::new())
}

fn full(bytes: Bytes) -> FileBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Fails with `UnexpectedEof` when the file has shrunk already; later that is the body's error.
pub(super) async fn assemble(file: &Arc<File>, segments: Vec<Segment>) -> io::Result<FileBody> {
    let remaining = segments.iter().map(Segment::len).sum();
    if remaining > PIECE {
        return Ok(
            Pieces { file: Arc::clone(file), segments: segments.into(), remaining, reading: None }.boxed_unsync()
        );
    }
    let mut whole = Vec::new();
    for segment in segments {
        let bytes = match segment {
            Segment::Bytes(bytes) => bytes,
            Segment::Span(span) => read(file, span).await?,
        };
        if bytes.len() as u64 == remaining {
            return Ok(full(bytes));
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(full(whole.into()))
}

async fn read(file: &Arc<File>, span: Range<u64>) -> io::Result<Bytes> {
    let length = span.end.saturating_sub(span.start);
    if length == 0 {
        return Ok(Bytes::new());
    }
    match read_cached(file, span.start, length)? {
        Some(bytes) if bytes.len() as u64 == length => Ok(bytes),
        _ => joined(read_blocking(file, span.start, length).await),
    }
}

/// What the kernel has in memory of a span, which may be its beginning only. None: nothing, or it can't tell.
fn read_cached(file: &File, offset: u64, length: u64) -> io::Result<Option<Bytes>> {
    let mut buffer = buffer(length)?;
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut buffer)], offset, ReadWriteFlags::NOWAIT) {
        Ok(0) => Err(shrunk()),
        Ok(read) => {
            buffer.truncate(read);
            Ok(Some(buffer.into()))
        }
        // Also file systems, kernels and sandboxes without RWF_NOWAIT. A real error comes back from the blocking read.
        Err(_) => Ok(None),
    }
}

fn read_blocking(file: &Arc<File>, offset: u64, length: u64) -> JoinHandle<io::Result<Bytes>> {
    let file = Arc::clone(file);
    tokio::task::spawn_blocking(move || {
        let mut buffer = buffer(length)?;
        file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer.into())
    })
}

fn joined(outcome: Result<io::Result<Bytes>, tokio::task::JoinError>) -> io::Result<Bytes> {
    outcome.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn buffer(length: u64) -> io::Result<Vec<u8>> {
    Ok(vec![0; usize::try_from(length).map_err(io::Error::other)?])
}

fn shrunk() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was being sent")
}

struct Pieces {
    file: Arc<File>,
    segments: VecDeque<Segment>,
    remaining: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Pieces {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let outcome = joined(ready!(Pin::new(reading).poll(context)));
                self.reading = None;
                return Poll::Ready(Some(outcome));
            }
            let span = match self.segments.front() {
                None => return Poll::Ready(None),
                Some(segment) if segment.len() == 0 => {
                    self.segments.pop_front();
                    continue;
                }
                Some(Segment::Bytes(bytes)) => return Poll::Ready(Some(Ok(bytes.clone()))),
                Some(Segment::Span(span)) => span.clone(),
            };
            let length = (span.end - span.start).min(PIECE);
            match read_cached(&self.file, span.start, length) {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Ok(None) => self.reading = Some(read_blocking(&self.file, span.start, length)),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn sent(&mut self, count: u64) {
        self.remaining = self.remaining.saturating_sub(count);
        match self.segments.front_mut() {
            Some(Segment::Span(span)) => span.start += count,
            _ => drop(self.segments.pop_front()),
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let pieces = self.get_mut();
        let piece = ready!(pieces.poll_piece(context));
        match &piece {
            Some(Ok(bytes)) => pieces.sent(bytes.len() as u64),
            Some(Err(_)) => pieces.segments.clear(),
            None => {}
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(content: &[u8]) -> Arc<File> {
        let name = format!("paceline-body-{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        Arc::new(file)
    }

    /// The way of files that the kernel does not have in memory.
    #[tokio::test]
    async fn reads_on_the_blocking_pool() {
        let file = file_of(b"0123456789");
        let bytes = joined(read_blocking(&file, 2, 3).await).unwrap();
        assert_eq!(bytes, "234");
        let error = joined(read_blocking(&file, 8, 3).await).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);

        let span = VecDeque::from([Segment::Span(2..10)]);
        let reading = Some(read_blocking(&file, 2, 3));
        let pieces = Pieces { file, segments: span, remaining: 8, reading };
        assert_eq!(pieces.collect().await.unwrap().to_bytes(), "23456789");
    }

    #[tokio::test]
    async fn refuses_what_has_shrunk_before_the_head_is_sent() {
        let file = file_of(b"0123456789");
        for span in [0..11, 10..11, 20..21] {
            let error = assemble(&file, vec![Segment::Span(span)]).await.err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
