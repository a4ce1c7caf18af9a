//! The first bytes of a connection, looked at before it is decided what reads them: HTTP/2's preface (RFC 9113 section
//! 3.4) with prior knowledge, or HTTP/1. It never consumes what it looks at.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Room for the first read: most request heads.
const FIRST_READ: usize = 2048;

/// A stream with bytes that were read from it already, and are read again.
pub struct PeekedStream<S> {
    prefix: BytesMut,
    stream: S,
}

impl<S> From<S> for PeekedStream<S> {
    fn from(stream: S) -> PeekedStream<S> {
        PeekedStream { prefix: BytesMut::new(), stream }
    }
}

impl<S: AsyncRead + Unpin> PeekedStream<S> {
    /// What is known of the beginning.
    pub fn seen(&self) -> &[u8] {
        &self.prefix
    }

    /// Waits for more of the beginning; UnexpectedEof when there is no more.
    pub async fn see_more(&mut self) -> io::Result<()> {
        self.prefix.reserve(FIRST_READ);
        match self.stream.read_buf(&mut self.prefix).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Takes off what another reader has understood.
    pub fn consume(&mut self, count: usize) {
        self.prefix.advance(count.min(self.prefix.len()));
    }

    /// Whether the client speaks HTTP/2. Reads no further than to know it; EOF in between is an error.
    pub async fn begins_http2(&mut self) -> io::Result<bool> {
        loop {
            let common = self.prefix.len().min(PREFACE.len());
            if self.prefix[..common] != PREFACE[..common] {
                return Ok(false);
            }
            if common == PREFACE.len() {
                return Ok(true);
            }
            self.see_more().await?;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PeekedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let count = self.prefix.len().min(buffer.remaining());
        buffer.put_slice(&self.prefix[..count]);
        self.prefix.advance(count);
        if self.prefix.is_empty() {
            // An idle connection keeps no buffer.
            self.prefix = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PeekedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn looked_at(bytes: &[u8]) -> (Option<bool>, Vec<u8>) {
        let mut stream = PeekedStream::from(bytes);
        let found = stream.begins_http2().await.ok();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        (found, rest)
    }

    #[tokio::test]
    async fn the_first_bytes_tell_and_are_read_again() {
        let mut more = PREFACE.to_vec();
        more.extend(b"\0\0\0\x04");
        for (bytes, found) in [
            (PREFACE, Some(true)),
            (&more, Some(true)),
            (b"GET / HTTP/1.1\r\n\r\n", Some(false)),
            (b"PROPFIND / HTTP/1.1\r\n\r\n", Some(false)),
            (b"PRI * HTTP/1.1\r\n\r\n", Some(false)),
            (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", Some(false)),
            (b"PRI * HTTP", None),
            (b"", None),
        ] {
            assert_eq!(looked_at(bytes).await, (found, bytes.to_vec()), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn it_may_come_byte_by_byte() {
        let (mut client, server) = tokio::io::duplex(1);
        let writing = tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut client, PREFACE).await });
        assert!(PeekedStream::from(server).begins_http2().await.unwrap());
        writing.await.unwrap().unwrap();
    }
}
