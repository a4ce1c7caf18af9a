//! A channel: the front's end of the socket pair to one worker thread.
//! It moves frames and never looks into their meaning.

use std::{
    cell::RefCell,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    sync::atomic::{AtomicU64, Ordering},
    sync::Arc,
    task::{ready, Context, Poll},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mailbox::{Mailbox, Posted};
use tokio::{
    io::{unix::AsyncFd, Interest},
    net::UnixStream,
};

use super::{
    frame::{self, kind, FromWorker, Reply, RequestNumber},
    half_frame::HalfFrame,
    hang_up::HangUp,
    spin,
};
use crate::support::account_share::AccountShare;
use unix_user::RunAs;

/// Sockets are registered with the event loop of the thread that uses them; a channel moves between threads.
static NEXT_LOOP: AtomicU64 = AtomicU64::new(1);
thread_local! {
    static THIS_LOOP: u64 = NEXT_LOOP.fetch_add(1, Ordering::Relaxed);
    /// Read into first: frames keep the buffer they were cut from alive, and a small frame must not keep a large one.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// Names the event loop of the calling thread.
pub fn this_loop() -> u64 {
    THIS_LOOP.with(|id| *id)
}

/// The frame that has a thread look into its mailbox.
pub const WAKE: [u8; frame::PREFIX] = [0, 0, 0, 0, kind::WAKE];

/// A mailbox whose thread is woken through this channel's socket, as long as there is one.
struct Attended(Arc<Mailbox>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.set_bell(None);
    }
}

enum Socket {
    Attached(AttachedSocket),
    Detached(StdUnixStream),
    /// Only while it is registered, and when that failed.
    Lost,
}

/// Registered with the event loop of a thread.
struct AttachedSocket {
    front_loop: u64,
    stream: AsyncFd<StdUnixStream>,
    /// Also for the moment when it takes more. A Unix socket reports that whenever the other side has read anything, so
    /// it is asked for by those alone who have found it full.
    writable: bool,
}

impl AttachedSocket {
    #[allow(unsafe_code)]
    fn new(stream: StdUnixStream, writable: bool) -> io::Result<AttachedSocket> {
        let interest = if writable { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        // SAFETY: a UnixStream owns its descriptor, names the same one as long as it lives, and is not taken out of the
        // AsyncFd before that is dropped.
        let stream = unsafe { AsyncFd::register_with_interest(stream, interest) }.map_err(io::Error::from)?;
        Ok(AttachedSocket { front_loop: this_loop(), stream, writable })
    }
}

/// Bytes asked for in one read: most responses come whole.
const READ: usize = 64 << 10;

/// What `Channel::progress` achieved.
pub enum Progress {
    Received(FromWorker),
    /// All that was queued has been sent.
    Sent,
}

/// A frame that answers another request than the one in hand: none that follows can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misdirected {
    pub number: RequestNumber,
    pub in_hand: RequestNumber,
}

impl std::fmt::Display for Misdirected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a frame for request {} in the answer to request {}", self.number, self.in_hand)
    }
}

impl std::error::Error for Misdirected {}

/// One channel, used by one exchange at a time. On the heap, since it changes hands several times a request.
pub struct Channel {
    socket: Socket,
    received: BytesMut,
    /// The room of what was received.
    half: HalfFrame,
    outgoing: Bytes,
    /// The request that the worker is to be told of that its client is gone, behind what is queued.
    cancelled: Option<RequestNumber>,
    /// The request that frames have to answer.
    in_hand: RequestNumber,
    hang_up: HangUp,
    /// The answer to the request that was sent is expected soon.
    soon: bool,
    mailbox: Option<Attended>,
    /// An answer that was taken from the mailbox before its turn.
    ahead: Option<Reply>,
    /// Index of the thread inside its worker, from 1.
    pub thread: usize,
}

impl Channel {
    /// Takes over the front's end as it came from a worker that runs as this.
    pub fn new(fd: OwnedFd, thread: usize, run_as: &RunAs) -> io::Result<Box<Channel>> {
        let socket = StdUnixStream::from(fd);
        socket.set_nonblocking(true)?;
        let (received, outgoing) = (BytesMut::new(), Bytes::new());
        Ok(Box::new(Channel {
            socket: Socket::Detached(socket),
            received,
            half: HalfFrame::new(&AccountShare::of(run_as).frames),
            outgoing,
            cancelled: None,
            in_hand: 0,
            hang_up: HangUp::default(),
            soon: false,
            mailbox: None,
            ahead: None,
            thread,
        }))
    }

    /// This channel, whose worker thread has a mailbox, too.
    pub fn with_mailbox(mut self: Box<Self>, memory: &OwnedFd) -> io::Result<Box<Channel>> {
        let mailbox = Mailbox::map(memory)?;
        if let Socket::Detached(socket) = &self.socket {
            mailbox.set_bell(Some(socket.try_clone()?.into()));
        }
        self.mailbox = Some(Attended(Arc::new(mailbox)));
        Ok(self)
    }

    /// Its mailbox, if the thread has one.
    pub fn mailbox(&self) -> Option<Arc<Mailbox>> {
        self.mailbox.as_ref().map(|attended| attended.0.clone())
    }

    /// Registers the socket with the calling thread's event loop.
    pub fn attach(&mut self) -> io::Result<()> {
        match &self.socket {
            Socket::Attached(socket) if socket.front_loop == this_loop() && !socket.writable => Ok(()),
            _ => self.register(false),
        }
    }

    fn register(&mut self, writable: bool) -> io::Result<()> {
        let stream = match std::mem::replace(&mut self.socket, Socket::Lost) {
            Socket::Attached(socket) => socket.stream.into_inner(),
            Socket::Detached(stream) => stream,
            Socket::Lost => return Err(io::ErrorKind::NotConnected.into()),
        };
        self.socket = Socket::Attached(AttachedSocket::new(stream, writable)?);
        Ok(())
    }

    /// Whether a socket that was found full takes more now; if not, the caller is woken when it does.
    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(&self.socket, Socket::Attached(socket) if !socket.writable) {
            self.register(true)?;
        }
        let Socket::Attached(socket) = &self.socket else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let mut ready = ready!(socket.stream.poll_write_ready(cx))?;
        // It is asked once more by the caller, who comes again if it is full.
        ready.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Begins with a request: `frame` is its REQUEST. From now on only frames that answer it are good. `soon`: the first of them is expected soon.
    pub fn request(&mut self, number: RequestNumber, frame: Bytes, soon: bool) {
        self.in_hand = number;
        self.soon = soon;
        if let Some(mailbox) = &self.mailbox {
            mailbox.0.note_awake();
        }
        self.queue(frame);
    }

    /// Begins with a request that was posted in the mailbox.
    pub fn await_answer(&mut self, number: RequestNumber) {
        self.in_hand = number;
    }

    /// Takes a posted request back; false if the thread has claimed it.
    pub fn revoke(&self, posted: Posted) -> bool {
        self.mailbox.as_ref().is_some_and(|mailbox| mailbox.0.revoke(posted))
    }

    /// Appends an encoded frame to what `progress` will send.
    pub fn queue(&mut self, frame: Bytes) {
        self.outgoing = if self.outgoing.is_empty() { frame } else { [&self.outgoing[..], &frame].concat().into() };
    }

    /// Tells the worker, behind what is queued, that the client of request `number` is gone.
    pub fn cancel(&mut self, number: RequestNumber) {
        self.cancelled = Some(number);
    }

    /// The answer is here: nothing is to be cancelled any more. To tell so all the same would mean to read from the
    /// socket meanwhile, where the answer to the next request may lie.
    pub fn forget_cancel(&mut self) {
        self.cancelled = None;
    }

    /// The way to end it when its worker is known to be gone.
    pub fn hang_up(&self) -> HangUp {
        self.hang_up.clone()
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
    /// queued is sent. EOF is `UnexpectedEof`; bytes that are no frame, and frames that answer another request
    /// (`Misdirected`), are `InvalidData`. Cancel-safe.
    pub async fn progress(&mut self) -> io::Result<Progress> {
        std::future::poll_fn(|cx| self.poll_progress(cx)).await
    }

    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Progress>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let Channel { socket, received, half, outgoing, cancelled, in_hand, mailbox, ahead, .. } = self;
            let Socket::Attached(AttachedSocket { stream, .. }) = socket else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            // What is here was written before what comes after it through the socket.
            if let Some(frame) = from_mailbox(mailbox.as_ref(), ahead, *in_hand)? {
                return Poll::Ready(Ok(Progress::Received(frame)));
            }
            let taken = frame::take(received).map_err(invalid)?;
            half.hold(received.len())?;
            if let Some(raw) = taken {
                if raw.kind == kind::NOTICE {
                    continue;
                }
                let Reply { number, frame } = Reply::try_from(raw).map_err(invalid)?;
                return Poll::Ready(if number == *in_hand {
                    Ok(Progress::Received(frame))
                } else {
                    Err(invalid_misdirected(number, *in_hand))
                });
            }
            if !outgoing.is_empty() || cancelled.is_some() {
                match send(stream, outgoing, cancelled) {
                    Ok(()) if outgoing.is_empty() && cancelled.is_none() => return Poll::Ready(Ok(Progress::Sent)),
                    Ok(()) => continue,
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                    Err(_) if self.poll_writable(cx)?.is_ready() => continue,
                    Err(_) => {}
                }
            }
            let Channel { socket, received, in_hand, hang_up, soon, mailbox, ahead, .. } = self;
            let Socket::Attached(AttachedSocket { stream, .. }) = socket else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let read = poll_read(stream, received, cx);
            if read.is_pending() && std::mem::take(soon) {
                spin::expect(cx.waker());
            }
            let read = match read {
                // Nobody is there to send more, whoever else holds the other end.
                Poll::Pending if hang_up.is_done(cx.waker()) => read_rest(stream, received),
                Poll::Pending if ahead.as_ref().is_some_and(|_| is_empty(stream)) => {
                    let number = ahead.as_ref().map_or(0, |reply| reply.number);
                    return Poll::Ready(Err(invalid_misdirected(number, *in_hand)));
                }
                Poll::Pending
                    if ahead.is_none() && mailbox.as_ref().is_some_and(|mailbox| mailbox.0.await_notice()) =>
                {
                    continue;
                }
                Poll::Pending => match spin::spin(|| read_now(stream, received)) {
                    Some(read) => read.map(|(count, _)| count),
                    None => return Poll::Pending,
                },
                Poll::Ready(read) => read,
            };
            if read? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Ends the framing: the stream, and the bytes that were read behind the last frame.
    pub fn into_raw(self) -> io::Result<(UnixStream, Bytes)> {
        match self.socket {
            Socket::Attached(socket) => Ok((UnixStream::from_std(socket.stream.into_inner())?, self.received.freeze())),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

fn invalid_misdirected(number: RequestNumber, in_hand: RequestNumber) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Misdirected { number, in_hand })
}

/// Whether nothing lies in the socket, whatever the event loop knows. What the worker has written there before an
/// answer in the mailbox is there.
fn is_empty(stream: &AsyncFd<StdUnixStream>) -> bool {
    let flags = rustix::net::RecvFlags::DONTWAIT | rustix::net::RecvFlags::PEEK;
    rustix::net::recv(stream, &mut [0u8; 1][..], flags).err() == Some(rustix::io::Errno::WOULDBLOCK)
}

/// The answer to request `in_hand`, if it lies in the mailbox. That to another request stays `ahead`.
fn from_mailbox(
    mailbox: Option<&Attended>,
    ahead: &mut Option<Reply>,
    in_hand: RequestNumber,
) -> io::Result<Option<FromWorker>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let Some(mailbox) = mailbox else { return Ok(None) };
    if ahead.is_none() {
        let taken = mailbox.0.take().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let Some(bytes) = taken else { return Ok(None) };
        let mut bytes = BytesMut::from(bytes);
        let whole = frame::take(&mut bytes).map_err(invalid)?.filter(|_| bytes.is_empty());
        let raw = whole.ok_or_else(|| invalid(frame::Malformed("no whole frame in the mailbox")))?;
        *ahead = Some(Reply::try_from(raw).map_err(invalid)?);
    }
    Ok(ahead.take_if(|reply| reply.number == in_hand).map(|reply| reply.frame))
}

/// Sends of what is queued what the socket takes, and behind that the cancel.
fn send(
    stream: &AsyncFd<StdUnixStream>,
    outgoing: &mut Bytes,
    cancelled: &mut Option<RequestNumber>,
) -> io::Result<()> {
    let Some(number) = cancelled.filter(|_| outgoing.is_empty()) else {
        outgoing.advance(write(stream, outgoing)?);
        return Ok(());
    };
    // It may be forgotten until its first byte is sent.
    let mut cancel = Bytes::from(frame::encode(kind::CANCEL, |out| out.put_u64(number)));
    cancel.advance(write(stream, &cancel)?);
    (*cancelled, *outgoing) = (None, cancel);
    Ok(())
}

/// Mostly it takes everything: asking it costs less than waiting to be told.
fn write(stream: &AsyncFd<StdUnixStream>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL)?)
}

/// A read that did not fill the space has emptied the socket: unlike `try_read`, this knows it without another call
/// that fails.
fn poll_read(
    stream: &AsyncFd<StdUnixStream>,
    received: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    loop {
        let mut ready = ready!(stream.poll_read_ready(cx))?;
        let Some(read) = read_now(stream, received) else {
            ready.clear_ready();
            continue;
        };
        if read.as_ref().is_ok_and(|(count, room)| (1..*room).contains(count)) {
            ready.clear_ready();
        }
        return Poll::Ready(read.map(|(count, _)| count));
    }
}

/// Reads what is there, whatever the event loop knows; None: nothing. How many bytes came, and how many there was room for.
///
/// Of a frame that has begun the rest is read straight to where it belongs, and nothing behind it.
#[allow(unsafe_code)]
fn read_now(stream: &AsyncFd<StdUnixStream>, received: &mut BytesMut) -> Option<io::Result<(usize, usize)>> {
    let room = frame::make_room(received);
    loop {
        let flags = rustix::net::RecvFlags::DONTWAIT;
        let read = if room == 0 {
            SCRATCH.with_borrow_mut(|scratch| {
                let (_, count) = rustix::net::recv(stream, &mut scratch[..], flags)?;
                received.extend_from_slice(&scratch[..count]);
                Ok((count, READ))
            })
        } else {
            let read = rustix::net::recv(stream, &mut received.spare_capacity_mut()[..room], flags);
            let count = read.map(|(_, count)| count);
            // SAFETY: the kernel has written so many bytes to the beginning of the room behind what was received.
            unsafe { received.set_len(received.len() + count.unwrap_or(0)) };
            count.map(|count| (count, room))
        };
        match read {
            Err(rustix::io::Errno::WOULDBLOCK) => return None,
            Err(rustix::io::Errno::INTR) => {}
            read => return Some(read.map_err(io::Error::from)),
        }
    }
}

/// Whether something that was sent has not been read by the other side (SIOCOUTQ, unix(7)).
#[allow(unsafe_code)]
fn is_unread(stream: &AsyncFd<StdUnixStream>) -> bool {
    let mut unread: libc::c_int = 0;
    // SAFETY: the request writes one int to the address given, and the descriptor is open while `stream` is borrowed.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut unread) };
    done == 0 && unread > 0
}

/// What the other side has left when it is gone; 0 at the end. The event loop may not know yet that there is something
/// to read.
fn read_rest(stream: &AsyncFd<StdUnixStream>, received: &mut BytesMut) -> io::Result<usize> {
    match read_now(stream, received) {
        Some(read) => read.map(|(count, _)| count),
        // As the kernel says it where nobody else holds the other end.
        None if is_unread(stream) => Err(io::ErrorKind::ConnectionReset.into()),
        None => Ok(0),
    }
}

#[cfg(test)]
mod tests;
