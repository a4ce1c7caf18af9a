//! A connection whose other side has to take what is written to it, or loses it: places on the control socket are few.
//! It never limits how long the other side may say nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_guard::write_timeout::WriteTimeout;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that fails with `TimedOut` when nothing that is written to it has been taken for a while.
pub struct Patient<S> {
    stream: S,
    limit: Duration,
    writing: WriteTimeout,
}

impl<S> Patient<S> {
    /// `limit`: how long a write may wait.
    pub fn new(stream: S, limit: Duration) -> Patient<S> {
        Patient { stream, limit, writing: WriteTimeout::default() }
    }

    fn judge<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.writing.judge(cx, written, self.limit)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(written, cx)
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut patient = Patient::new(ours, Duration::from_secs(30));
        let writing = tokio::spawn(async move {
            let first = patient.write_all(b"12345678").await;
            (first, patient.write_all(b"12345678").await)
        });
        tokio::time::sleep(Duration::from_secs(29)).await;
        theirs.read_exact(&mut [0; 4]).await.unwrap();
        let (first, second) = writing.await.unwrap();
        assert!(first.is_ok(), "each write has the time anew");
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
