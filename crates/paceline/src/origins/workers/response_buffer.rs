//! Between a worker that writes a response and a client that reads it: memory up to a bound, then an unlinked file up
//! to a bound, and only then is the worker made to wait. So a slow client costs no worker. One that reads as fast as the worker writes is waited for a
//! moment: that is cheaper than the file.
//! It never changes or joins the pieces.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
        Arc,
    },
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::{
    sync::{mpsc, Notify},
    time::{timeout, Instant},
};

use crate::support::buffer_memory::BODIES;

/// A client that has taken nothing for so long is slow.
const SLOW: Duration = Duration::from_millis(5);
/// A worker waits no longer than this for one that is not.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

enum Piece {
    Bytes(Bytes),
    Spooled {
        offset: u64,
        length: usize,
    },
    /// The body broke off: the client must see a broken connection.
    Aborted,
}

struct Shared {
    in_memory: AtomicUsize,
    on_disk: AtomicU64,
    /// Notified when the reader has taken something, or is gone.
    taken: Notify,
    gone: AtomicBool,
    spool: std::sync::OnceLock<File>,
}

/// The worker's side.
pub struct Writer {
    pieces: mpsc::UnboundedSender<Piece>,
    shared: Arc<Shared>,
    memory: usize,
    disk: u64,
    end_of_spool: u64,
    /// How much longer the client is waited for before the file is used.
    patience: Duration,
}

/// The client's side: a response body.
pub struct Reader {
    pieces: mpsc::UnboundedReceiver<Piece>,
    shared: Arc<Shared>,
    /// Bytes that are still to come, when the head promises a length.
    promised: Option<u64>,
    /// The body broke off, and what came before has been given to the connection.
    aborted: bool,
}

/// A buffer that holds `memory` bytes in memory and `disk` bytes in a file.
pub fn buffer(memory: usize, disk: u64) -> (Writer, Reader) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        in_memory: AtomicUsize::new(0),
        on_disk: AtomicU64::new(0),
        taken: Notify::new(),
        gone: AtomicBool::new(false),
        spool: std::sync::OnceLock::new(),
    });
    let writer =
        Writer { pieces: sender, shared: shared.clone(), memory, disk, end_of_spool: 0, patience: LONGEST_WAIT };
    (writer, Reader { pieces: receiver, shared, promised: None, aborted: false })
}

impl Writer {
    /// Adds a piece; waits only when memory and disk are full. Err: the client is gone.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), ReaderGone> {
        if bytes.is_empty() {
            return Ok(());
        }
        loop {
            if self.shared.gone.load(SeqCst) {
                return Err(ReaderGone);
            }
            let on_disk = self.shared.on_disk.load(SeqCst);
            let in_memory = self.shared.in_memory.load(SeqCst);
            if on_disk == 0 {
                self.end_of_spool = 0;
            }
            if on_disk == 0 && (in_memory == 0 || in_memory + bytes.len() <= self.memory) {
                match BODIES.hold(bytes) {
                    Ok(held) => return self.keep(held),
                    Err(back) => bytes = back,
                }
            }
            if on_disk == 0 && in_memory > 0 && !self.patience.is_zero() {
                let began = Instant::now();
                let is_slow = timeout(SLOW.min(self.patience), self.shared.taken.notified()).await.is_err();
                self.patience = if is_slow { Duration::ZERO } else { self.patience.saturating_sub(began.elapsed()) };
                continue;
            }
            // The file is filled once and then emptied whole, or it would grow for ever under a client that keeps
            // behind. A full disk is no reason to break the response: the worker waits instead.
            if self.end_of_spool + bytes.len() as u64 <= self.disk && self.spool(&bytes).is_ok() {
                return Ok(());
            }
            // Nothing is on its way whose taking would wake us.
            if on_disk == 0 && in_memory == 0 {
                return self.keep(bytes);
            }
            self.shared.taken.notified().await;
        }
    }

    fn keep(&self, bytes: Bytes) -> Result<(), ReaderGone> {
        self.shared.in_memory.fetch_add(bytes.len(), SeqCst);
        self.pieces.send(Piece::Bytes(bytes)).map_err(|_| ReaderGone)
    }

    fn spool(&mut self, bytes: &Bytes) -> io::Result<()> {
        let file = match self.shared.spool.get() {
            Some(file) => file,
            None => {
                let file = crate::content::spool::unlinked()?;
                self.shared.spool.get_or_init(|| file)
            }
        };
        file.write_all_at(bytes, self.end_of_spool)?;
        let piece = Piece::Spooled { offset: self.end_of_spool, length: bytes.len() };
        self.shared.on_disk.fetch_add(bytes.len() as u64, SeqCst);
        self.end_of_spool += bytes.len() as u64;
        let _ = self.pieces.send(piece);
        Ok(())
    }

    /// Breaks the body off.
    pub fn abort(self) {
        let _ = self.pieces.send(Piece::Aborted);
    }

    /// Resolves when the client is gone.
    pub async fn gone(&self) {
        self.pieces.closed().await;
    }
}

/// The client is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderGone;

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.gone.store(true, SeqCst);
        self.shared.taken.notify_one();
    }
}

impl Reader {
    /// A body that ends before `length` bytes have come has broken off.
    pub fn promise(mut self, length: u64) -> Reader {
        self.promised = Some(length);
        self
    }
}

impl Body for Reader {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let bytes = match ready!(self.pieces.poll_recv(cx)) {
            None if self.promised.unwrap_or(0) == 0 && !self.aborted => return Poll::Ready(None),
            // Pending for once: the connection flushes what it has before it learns that there is no more.
            None | Some(Piece::Aborted) if !self.aborted => {
                self.aborted = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            None | Some(Piece::Aborted) => {
                return Poll::Ready(Some(Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the app broke its response off",
                ))))
            }
            Some(Piece::Bytes(bytes)) => {
                self.shared.in_memory.fetch_sub(bytes.len(), SeqCst);
                bytes
            }
            Some(Piece::Spooled { offset, length }) => {
                let mut bytes = vec![0; length];
                let file = self.shared.spool.get().ok_or(io::ErrorKind::NotFound);
                if let Err(error) =
                    file.map_err(io::Error::from).and_then(|file| file.read_exact_at(&mut bytes, offset))
                {
                    return Poll::Ready(Some(Err(error)));
                }
                self.shared.on_disk.fetch_sub(length as u64, SeqCst);
                Bytes::from(bytes)
            }
        };
        self.promised = self.promised.map(|promised| promised.saturating_sub(bytes.len() as u64));
        self.shared.taken.notify_one();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.promised == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    fn run(test: impl std::future::Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn pieces_come_out_in_order_through_memory_and_disk() {
        run(async {
            let (mut writer, reader) = buffer(8, 1 << 20);
            let mut expected = Vec::new();
            for piece in ["abcdef", "gh", "ijklmnop", "q", "rstuvwxyz"] {
                writer.write(Bytes::from(piece)).await.unwrap();
                expected.extend_from_slice(piece.as_bytes());
            }
            drop(writer);
            assert_eq!(reader.collect().await.unwrap().to_bytes(), expected);
        });
    }

    #[test]
    fn what_a_client_takes_as_it_comes_needs_no_file() {
        run(async {
            let (mut writer, mut reader) = buffer(4, 1 << 20);
            let writing = tokio::spawn(async move {
                for _ in 0..1000 {
                    writer.write(Bytes::from("abcd")).await.unwrap();
                }
                writer.shared.spool.get().is_some()
            });
            let mut total = 0;
            while let Some(frame) = reader.frame().await {
                total += frame.unwrap().into_data().unwrap().len();
            }
            assert_eq!((total, writing.await.unwrap()), (4000, false));
        });
    }

    #[test]
    fn a_client_that_takes_nothing_for_a_moment_is_not_waited_for_again() {
        run(async {
            let (mut writer, reader) = buffer(4, 1 << 20);
            for _ in 0..100 {
                writer.write(Bytes::from("abcd")).await.unwrap();
            }
            assert_eq!(writer.patience, Duration::ZERO);
            drop(reader);
        });
    }

    #[test]
    fn a_writer_waits_only_when_memory_and_disk_are_full_and_goes_on_when_something_was_taken() {
        run(async {
            let (mut writer, mut reader) = buffer(4, 4);
            writer.write(Bytes::from("abcd")).await.unwrap();
            writer.write(Bytes::from("efgh")).await.unwrap();
            let third = tokio::spawn(async move { writer.write(Bytes::from("ij")).await });
            tokio::task::yield_now().await;
            assert!(!third.is_finished());
            let mut all = Vec::new();
            while let Some(frame) = reader.frame().await {
                all.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            assert_eq!(all, b"abcdefghij");
            assert_eq!(third.await.unwrap(), Ok(()));
        });
    }

    #[test]
    fn the_file_never_grows_beyond_its_bound_however_long_the_client_keeps_behind() {
        run(async {
            let (mut writer, mut reader) = buffer(1, 8);
            let writing = tokio::spawn(async move {
                for _ in 0..100 {
                    writer.write(Bytes::from("abc")).await.unwrap();
                    assert!(writer.end_of_spool <= 8, "{}", writer.end_of_spool);
                }
            });
            tokio::task::yield_now().await;
            let mut total = 0;
            while let Some(frame) = reader.frame().await {
                total += frame.unwrap().into_data().unwrap().len();
            }
            writing.await.unwrap();
            assert_eq!(total, 300);
        });
    }

    #[test]
    fn a_waiting_writer_learns_that_the_client_is_gone() {
        run(async {
            let (mut writer, reader) = buffer(1, 0);
            writer.write(Bytes::from("a")).await.unwrap();
            let second = tokio::spawn(async move { writer.write(Bytes::from("b")).await });
            tokio::task::yield_now().await;
            drop(reader);
            assert_eq!(second.await.unwrap(), Err(ReaderGone));
        });
    }

    #[test]
    fn an_aborted_body_is_an_error_and_not_an_end() {
        run(async {
            let (mut writer, mut reader) = buffer(8, 0);
            writer.write(Bytes::from("a")).await.unwrap();
            writer.abort();
            assert!(reader.frame().await.unwrap().is_ok());
            assert!(reader.frame().await.unwrap().is_err());
        });
    }
}
