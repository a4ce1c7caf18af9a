//! A control socket to a preloader or worker: frames, some of which carry a file descriptor.
//! It never looks into the meaning of a frame beyond whether a descriptor belongs to it.

use std::{
    collections::VecDeque,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
};

use bytes::{Buf, BytesMut};
use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{
        unix::{OwnedReadHalf, OwnedWriteHalf},
        UnixStream,
    },
};

use super::frame::{self, kind, Raw};

/// Descriptors that may lie here before their frames are taken. The kernel gives those of one message at a time.
const MAX_DESCRIPTORS: usize = 64;

/// The receiving side.
pub struct ControlReader {
    socket: OwnedReadHalf,
    received: BytesMut,
    /// Descriptors that have arrived and whose frame has not been taken yet, in order.
    descriptors: VecDeque<OwnedFd>,
    /// A frame that waits for its descriptor's byte.
    pending: Option<Raw>,
}

/// The sending side.
pub struct ControlWriter(OwnedWriteHalf);

/// Splits a control socket. Must be called within an event loop.
pub fn control(socket: StdUnixStream) -> io::Result<(ControlReader, ControlWriter)> {
    socket.set_nonblocking(true)?;
    let (reader, writer) = UnixStream::from_std(socket)?.into_split();
    let reader =
        ControlReader { socket: reader, received: BytesMut::new(), descriptors: VecDeque::new(), pending: None };
    Ok((reader, ControlWriter(writer)))
}

impl ControlWriter {
    pub async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.write_all(frame).await
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
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::IoSlice, os::fd::AsFd};

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
        let (mut reader, _writer) = control(ours).unwrap();
        theirs.set_nonblocking(true).unwrap();
        say(&theirs, &[&frame::encode(kind::CHANNEL, |_| {})[..], b"\0"].concat(), 1);
        say(&theirs, &frame::encode(kind::READY, |_| {}), 0);
        let (first, fd) = reader.receive().await.unwrap().unwrap();
        assert_eq!((first.kind, fd.is_some()), (kind::CHANNEL, true));
        let (second, fd) = reader.receive().await.unwrap().unwrap();
        assert_eq!((second.kind, fd.is_none()), (kind::READY, true));
    }

    #[tokio::test]
    async fn descriptors_that_belong_to_no_frame_are_few() {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        let (mut reader, _writer) = control(ours).unwrap();
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
