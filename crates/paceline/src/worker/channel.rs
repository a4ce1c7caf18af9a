//! A channel: the front's end of the socket pair to one worker thread.
//! It moves frames and never looks into their meaning.

use std::{
    cell::RefCell,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{ready, Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::UnixStream,
};

use super::frame::{self, FromWorker};

/// Sockets are registered with the event loop of the thread that uses them; a channel moves between threads.
static NEXT_LOOP: AtomicU64 = AtomicU64::new(1);
thread_local! {
    static THIS_LOOP: u64 = NEXT_LOOP.fetch_add(1, Ordering::Relaxed);
    /// Read into first: frames keep the buffer they were cut from alive, and a small frame must not keep a large one.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

enum Socket {
    /// Registered with the event loop of this thread.
    Attached(u64, UnixStream),
    Detached(StdUnixStream),
    /// Only within `attach`, when the registration failed.
    Lost,
}

/// Bytes asked for in one read: most responses come whole.
const READ: usize = 64 << 10;

/// What `Channel::progress` achieved.
pub enum Progress {
    Received(FromWorker),
    /// All that was queued has been sent.
    Sent,
}

/// One channel, used by one exchange at a time.
pub struct Channel {
    socket: Socket,
    received: BytesMut,
    outgoing: Bytes,
    /// Index of the thread inside its worker, from 1.
    pub thread: usize,
}

impl Channel {
    /// Takes over the front's end as it came from the worker.
    pub fn new(fd: OwnedFd, thread: usize) -> io::Result<Channel> {
        let socket = StdUnixStream::from(fd);
        socket.set_nonblocking(true)?;
        Ok(Channel { socket: Socket::Detached(socket), received: BytesMut::new(), outgoing: Bytes::new(), thread })
    }

    /// Registers the socket with the calling thread's event loop.
    pub fn attach(&mut self) -> io::Result<()> {
        let here = THIS_LOOP.with(|id| *id);
        if matches!(self.socket, Socket::Attached(id, _) if id == here) {
            return Ok(());
        }
        let socket = match std::mem::replace(&mut self.socket, Socket::Lost) {
            Socket::Attached(_, stream) => stream.into_std()?,
            Socket::Detached(stream) => stream,
            Socket::Lost => return Err(io::ErrorKind::NotConnected.into()),
        };
        self.socket = Socket::Attached(here, UnixStream::from_std(socket)?);
        Ok(())
    }

    /// Appends an encoded frame to what `progress` will send.
    pub fn queue(&mut self, frame: Bytes) {
        self.outgoing = match self.outgoing.is_empty() {
            true => frame,
            false => [&self.outgoing[..], &frame].concat().into(),
        };
    }

    /// Nothing waits to be sent.
    pub fn drained(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.outgoing.len()
    }

    /// Sends and receives at once, so that neither side can block the other, until a frame has arrived or all that was
    /// queued is sent. EOF is `UnexpectedEof`; bytes that are no frame are `InvalidData`. Cancel-safe.
    pub async fn progress(&mut self) -> io::Result<Progress> {
        std::future::poll_fn(|cx| self.poll_progress(cx)).await
    }

    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Progress>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let Channel { socket: Socket::Attached(_, stream), received, outgoing, .. } = self else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        loop {
            if let Some(raw) = frame::take(received).map_err(invalid)? {
                return Poll::Ready(FromWorker::try_from(raw).map(Progress::Received).map_err(invalid));
            }
            if !outgoing.is_empty() {
                match write(stream, outgoing) {
                    Ok(count) => {
                        outgoing.advance(count);
                        if outgoing.is_empty() {
                            return Poll::Ready(Ok(Progress::Sent));
                        }
                        continue;
                    }
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                    Err(_) if stream.poll_write_ready(cx)?.is_ready() => continue,
                    Err(_) => {}
                }
            }
            if ready!(poll_read(stream, received, cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Ends the framing: the stream, and the bytes that were read behind the last frame.
    pub fn into_raw(self) -> io::Result<(UnixStream, Bytes)> {
        match self.socket {
            Socket::Attached(_, stream) => Ok((stream, self.received.freeze())),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// A socket that was just registered is not known to be ready yet: most are, and asking it costs less than waiting to be told.
fn write(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.try_write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Ok(rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL)?)
        }
        done => done,
    }
}

/// A read that did not fill the space has emptied the socket: unlike `try_read`, this knows it without another call that fails.
fn poll_read(stream: &mut UnixStream, received: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        received.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    })
}
