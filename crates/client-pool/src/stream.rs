//! The stream to an upstream: it remembers whether anything of a response has come. If it is asked to, it ends the head
//! of a response to HEAD that an upstream breaks off after a line, as Net::HTTP does, and reads the answer of an
//! upstream that takes no more of the request. It never looks into a message otherwise.

use std::{
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
    task::{ready, Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::HttpSettings;

const END_OF_LINE: &[u8; 2] = b"\r\n";

/// What is known of the exchange on a stream.
#[derive(Default)]
pub struct StreamState {
    is_heard: AtomicBool,
    is_head: AtomicBool,
    is_ended: AtomicBool,
    /// Nothing can be sent any more.
    is_deaf: AtomicBool,
    /// Its bytes are HTTP no more.
    is_switched: AtomicBool,
}

impl StreamState {
    /// A request begins. `is_head`: its response has no body.
    pub fn begin(&self, is_head: bool) {
        self.is_heard.store(false, Relaxed);
        self.is_head.store(is_head, Relaxed);
    }

    /// Whether a byte has come since the request began.
    pub fn is_heard(&self) -> bool {
        self.is_heard.load(Relaxed)
    }

    /// Whether the upstream has closed it in the middle of a head.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Relaxed)
    }

    /// Whether the upstream takes nothing any more.
    pub fn is_deaf(&self) -> bool {
        self.is_deaf.load(Relaxed)
    }

    /// It goes on with another protocol.
    pub fn switch(&self) {
        self.is_switched.store(true, Relaxed);
    }
}

pub struct ResponseStream<S> {
    stream: S,
    state: Arc<StreamState>,
    /// The last bytes that came of a response to HEAD.
    last: [u8; 4],
    ends_cut_heads: bool,
    /// A server may answer before it has read the whole body, and close (RFC 9112 section 9.6): what it takes no more is
    /// thrown away here, so that its answer is still read, or that there is none.
    reads_early_answers: bool,
}

impl<S> ResponseStream<S> {
    pub fn new(stream: S, state: Arc<StreamState>, settings: &HttpSettings) -> ResponseStream<S> {
        let HttpSettings { ends_cut_heads, reads_early_answers, .. } = *settings;
        ResponseStream { stream, state, last: [0; 4], ends_cut_heads, reads_early_answers }
    }

    fn written(&self, written: io::Result<usize>, offered: usize) -> io::Result<usize> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match written {
            Err(error)
                if self.reads_early_answers
                    && matches!(error.kind(), BrokenPipe | ConnectionReset)
                    && !self.state.is_switched.load(Relaxed) =>
            {
                self.state.is_deaf.store(true, Relaxed);
                Ok(offered)
            }
            other => other,
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.state.is_heard.store(true, Relaxed);
        if !(self.ends_cut_heads && self.state.is_head.load(Relaxed)) {
            return;
        }
        let all = [&self.last[..], &bytes[bytes.len().saturating_sub(4)..]].concat();
        self.last.copy_from_slice(&all[all.len() - 4..]);
    }

    /// Whether a head of a response to HEAD lacks nothing but its empty line.
    fn is_cut(&self) -> bool {
        let awaited =
            self.ends_cut_heads && self.state.is_head.load(Relaxed) && self.state.is_heard() && !self.state.is_ended();
        awaited && self.last.ends_with(END_OF_LINE) && !self.last.starts_with(END_OF_LINE)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ResponseStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.note(&buffer.filled()[before..]);
        } else if self.is_cut() && buffer.remaining() >= END_OF_LINE.len() {
            self.state.is_ended.store(true, Relaxed);
            buffer.put_slice(END_OF_LINE);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ResponseStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        Poll::Ready(self.written(written, bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        Poll::Ready(self.written(written, slices.iter().map(|slice| slice.len()).sum()))
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
    use tokio::io::AsyncReadExt;

    async fn read(pieces: &[&'static [u8]], is_head: bool) -> Vec<u8> {
        let state = Arc::new(StreamState::default());
        let mut bytes = in_pieces(pieces);
        state.begin(is_head);
        let settings = HttpSettings { ends_cut_heads: true, ..HttpSettings::default() };
        let mut stream = ResponseStream::new(&mut bytes, state, &settings);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        all
    }

    /// Gives the pieces one after another, then its end.
    fn in_pieces(pieces: &[&'static [u8]]) -> impl AsyncRead + Unpin {
        pieces.iter().fold(Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>, |before, piece| {
            Box::new(before.chain(*piece)) as Box<dyn AsyncRead + Unpin>
        })
    }

    #[tokio::test]
    async fn only_a_head_that_is_cut_after_a_line_is_ended() {
        for whole in
            [&[&b"HTTP/1.1 200 OK\r\n"[..]][..], &[b"HTTP/1.1 200 OK\r", b"\n"], &[b"HTTP/1.1 200 OK\r\nA: b\r\n"]]
        {
            let all = read(whole, true).await;
            assert!(all.ends_with(b"\r\n\r\n"), "{whole:?}");
            assert_eq!(read(whole, false).await, whole.concat());
        }
        for other in [&b""[..], b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\n\r\n"] {
            assert_eq!(read(&[other], true).await, other);
        }
    }
}
