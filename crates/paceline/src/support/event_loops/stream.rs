//! A client's socket that is registered with the event loop that uses it: when its connection has gone to another one, it follows.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A socket of tokio's, which can be registered with another event loop.
pub trait Registered: AsyncRead + AsyncWrite + Unpin + Sized {
    /// The socket, registered with the calling thread's event loop.
    fn registered_here(self) -> io::Result<Self>;
}

impl Registered for TcpStream {
    fn registered_here(self) -> io::Result<TcpStream> {
        TcpStream::from_std(self.into_std()?)
    }
}

impl Registered for UnixStream {
    fn registered_here(self) -> io::Result<UnixStream> {
        UnixStream::from_std(self.into_std()?)
    }
}

/// A client's socket.
pub struct ClientSocket<S> {
    /// None: it could not be registered.
    socket: Option<S>,
    /// The loop that it is registered with.
    number: Option<usize>,
}

impl<S: Registered> ClientSocket<S> {
    /// A socket that the calling thread's event loop has accepted.
    pub fn new(socket: S) -> ClientSocket<S> {
        ClientSocket { socket: Some(socket), number: super::number() }
    }

    fn here(&mut self) -> io::Result<Pin<&mut S>> {
        let number = super::number();
        if self.number != number {
            self.socket = self.socket.take().map(S::registered_here).transpose()?;
            self.number = number;
        }
        self.socket.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: Registered> AsyncRead for ClientSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.here()?.poll_read(cx, buffer)
    }
}

impl<S: Registered> AsyncWrite for ClientSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.here()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.here()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.here()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.here()?.poll_shutdown(cx)
    }
}
