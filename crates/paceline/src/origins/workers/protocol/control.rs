//! A control socket to a preloader or worker: frames, some of which carry a file descriptor.
//! It never looks into the meaning of a frame beyond whether a descriptor belongs to it.

use std::{
    collections::VecDeque,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{
        unix::{OwnedReadHalf, OwnedWriteHalf},
        UnixStream,
    },
    time::timeout,
};

use super::{
    frame::{self, kind, Raw},
    half_frame::HalfFrame,
};
use crate::support::account_share::AccountShare;
use unix_user::RunAs;

/// Descriptors that may lie here before their frames are taken. The kernel gives those of one message at a time.
const MAX_DESCRIPTORS: usize = 64;

/// The receiving side.
pub struct ControlReader {
    socket: OwnedReadHalf,
    received: BytesMut,
    /// The room of what was received.
    half: HalfFrame,
    /// Descriptors that have arrived and whose frame has not been taken yet, in order.
    descriptors: VecDeque<OwnedFd>,
    /// A frame that waits for its descriptor's byte.
    pending: Option<Raw>,
}

/// How long a frame may wait for a process that does not read.
const READS: Duration = Duration::from_secs(1);

/// The sending side. None: a frame could not be sent, or not the whole of it.
pub struct ControlWriter(Option<OwnedWriteHalf>);

/// Splits a control socket of a process that runs as this. Must be called within an event loop.
pub fn control(socket: StdUnixStream, run_as: &RunAs) -> io::Result<(ControlReader, ControlWriter)> {
    socket.set_nonblocking(true)?;
    let (reader, writer) = UnixStream::from_std(socket)?.into_split();
    let reader = ControlReader {
        socket: reader,
        received: BytesMut::new(),
        half: HalfFrame::new(&AccountShare::of(run_as).frames),
        descriptors: VecDeque::new(),
        pending: None,
    };
    Ok((reader, ControlWriter(Some(writer))))
}

impl ControlWriter {
    /// TimedOut: the process has not read for so long that there is no room for the frame. Then nothing more is sent, since
    /// nothing may follow a part of a frame: the process ends as soon as it comes to the end of the socket.
    pub async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(socket) = &mut self.0 else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let sent = timeout(READS, socket.write_all(frame)).await;
        let sent = sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if sent.is_err() {
            self.0 = None;
        }
        sent
    }
}

impl ControlReader {
    /// The next frame with its descriptor; `None` at EOF. Cancel-safe.
    pub async fn receive(&mut self) -> io::Result<Option<(Raw, Option<OwnedFd>)>> {
        loop {
            if let Some(complete) = self.take()? {
                return Ok(Some(complete));
            }
            if self.fill().await? == 0 {
                return Ok(None);
            }
        }
    }

    fn take(&mut self) -> io::Result<Option<(Raw, Option<OwnedFd>)>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if self.pending.is_none() {
            self.pending = frame::take(&mut self.received).map_err(invalid)?;
        }
        let Some(raw) = self.pending.take() else {
            return Ok(None);
        };
        if !matches!(raw.kind, kind::FORKED | kind::CHANNEL | kind::MAILBOX | kind::OUTPUT | kind::PROMOTED) {
            return Ok(Some((raw, None)));
        }
        if self.received.is_empty() {
            self.pending = Some(raw);
            return Ok(None);
        }
        self.received.advance(1);
        match self.descriptors.pop_front() {
            Some(fd) => Ok(Some((raw, Some(fd)))),
            None => Err(invalid(frame::Malformed("no descriptor came with the frame"))),
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let stream: &UnixStream = self.socket.as_ref();
        let mut bytes = [0; 16 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let count = stream
            .async_io(Interest::READABLE, || {
                let mut slices = [IoSliceMut::new(&mut bytes)];
                let message = recvmsg(stream, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
                Ok(message.bytes)
            })
            .await?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if self.descriptors.len() > MAX_DESCRIPTORS {
            let error = frame::Malformed("descriptors came that belong to no frame");
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        self.received.extend_from_slice(&bytes[..count]);
        self.half.hold(self.received.len())?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{IoSlice, Read},
        os::fd::AsFd,
    };

    use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

    use super::*;

    /// Sends bytes, and descriptors with them.
    fn say(socket: &StdUnixStream, bytes: &[u8], descriptors: usize) {
        let fds = vec![socket.as_fd(); descriptors];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()).unwrap();
    }

    #[tokio::test]
    async fn a_descriptor_belongs_to_its_frame() {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        let (mut reader, _writer) = control(ours, &RunAs::Ourselves).unwrap();
        theirs.set_nonblocking(true).unwrap();
        say(&theirs, &[&frame::encode(kind::CHANNEL, |_| {})[..], b"\0"].concat(), 1);
        say(&theirs, &frame::encode(kind::READY, |_| {}), 0);
        let (first, fd) = reader.receive().await.unwrap().unwrap();
        assert_eq!((first.kind, fd.is_some()), (kind::CHANNEL, true));
        let (second, fd) = reader.receive().await.unwrap().unwrap();
        assert_eq!((second.kind, fd.is_none()), (kind::READY, true));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_follows_a_frame_that_nobody_reads() {
        let (ours, mut theirs) = StdUnixStream::pair().unwrap();
        let (_reader, mut writer) = control(ours, &RunAs::Ourselves).unwrap();
        let large = vec![0; 8 << 20];
        assert_eq!(writer.send(&large).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(writer.send(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).unwrap();
        assert!(!read.is_empty() && read.len() < large.len(), "{}", read.len());
    }

    #[tokio::test]
    async fn descriptors_that_belong_to_no_frame_are_few() {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        let (mut reader, _writer) = control(ours, &RunAs::Ourselves).unwrap();
        let mut taken = 0;
        let error = loop {
            say(&theirs, &frame::encode(kind::MEMORY, |_| {}), 8);
            match reader.receive().await {
                Ok(_) => taken += 8,
                Err(error) => break error,
            }
            assert!(taken <= MAX_DESCRIPTORS);
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
