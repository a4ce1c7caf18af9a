//! How long an answer of Valkey or Redis may be. Its client would hold all of it in memory, and another program may have put anything there. It
//! knows answers by their lengths alone (RESP, version 2), and never looks at a value.

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

/// A stream by which longer answers are an error.
pub struct LimitedStream<S> {
    stream: S,
    replies: Replies,
    /// There was one.
    exceeded: Arc<AtomicBool>,
}

impl<S> LimitedStream<S> {
    pub fn new(stream: S, most: u64, exceeded: Arc<AtomicBool>) -> LimitedStream<S> {
        LimitedStream { stream, replies: Replies::new(most), exceeded }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        if this.replies.follow(&buffer.filled()[before..]) {
            return Poll::Ready(Ok(()));
        }
        this.exceeded.store(true, Relaxed);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "its answer is too long")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Where in the answers a connection is.
struct Replies {
    most: u64,
    /// Bytes of the answer in hand.
    length: u64,
    /// Values of it that are to come, this one included. 0: it has not begun.
    pending: u64,
    /// What of a value is skipped, its line end included.
    skip: u64,
    /// What begins a value: its kind, and the number after that.
    kind: Option<u8>,
    number: u64,
    is_negative: bool,
}

impl Replies {
    fn new(most: u64) -> Replies {
        Replies { most, length: 0, pending: 0, skip: 0, kind: None, number: 0, is_negative: false }
    }

    /// Follows what came. False: an answer is, or will be, longer than it may be.
    fn follow(&mut self, mut bytes: &[u8]) -> bool {
        while let Some(byte) = bytes.first().copied() {
            let count = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len()).max(1);
            self.length += count as u64;
            if self.length > self.most {
                return false;
            }
            if self.skip > 0 {
                self.skip -= count as u64;
                if self.skip == 0 {
                    self.end_of_value();
                }
            } else {
                self.of_a_line(byte);
            }
            if self.length.saturating_add(self.skip) > self.most {
                return false;
            }
            bytes = &bytes[count..];
        }
        true
    }

    fn of_a_line(&mut self, byte: u8) {
        let Some(kind) = self.kind else {
            self.pending = self.pending.max(1);
            (self.kind, self.number, self.is_negative) = (Some(byte), 0, false);
            return;
        };
        match byte {
            b'\n' => {
                self.kind = None;
                let number = if self.is_negative { 0 } else { self.number };
                match kind {
                    // None is written as -1, and has no line of its own.
                    b'$' if self.is_negative => self.end_of_value(),
                    b'$' => self.skip = number.saturating_add(2),
                    b'*' => {
                        self.pending = self.pending.saturating_add(number);
                        self.end_of_value();
                    }
                    _ => self.end_of_value(),
                }
            }
            b'-' => self.is_negative = true,
            b'0'..=b'9' => self.number = self.number.saturating_mul(10).saturating_add(u64::from(byte - b'0')),
            _ => {}
        }
    }

    fn end_of_value(&mut self) {
        self.pending -= 1;
        if self.pending == 0 {
            self.length = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &[u8] = b"*2\r\n$4\r\npage\r\n*3\r\n:12\r\n$-1\r\n*0\r\n";

    /// Follows it in pieces of each length.
    fn fits(bytes: &[u8], most: usize) -> bool {
        let fits = |length: &usize| {
            let mut replies = Replies::new(most as u64);
            bytes.chunks(*length).all(|piece| replies.follow(piece))
        };
        let all: Vec<bool> = (1..=bytes.len()).collect::<Vec<_>>().iter().map(fits).collect();
        assert!(all.windows(2).all(|two| two[0] == two[1]), "it depends on where the bytes are split");
        all[0]
    }

    #[test]
    fn an_answer_has_a_bound_and_their_number_has_none() {
        assert!(fits(&PAGE.repeat(20), PAGE.len()));
        assert!(!fits(PAGE, PAGE.len() - 1));
        for short in [&b"+OK\r\n"[..], b"-ERR 5 of 7\r\n", b":-1\r\n", b"$0\r\n\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n"]
        {
            assert!(fits(&short.repeat(20), short.len()), "{short:?}");
        }
        assert!(!fits(&b"+".repeat(50), 49));
    }

    #[test]
    fn a_long_value_is_refused_before_it_comes() {
        assert!(!fits(b"*2\r\n$1000\r\n", 999));
        assert!(!fits(b"$18446744073709551615\r\n", 999));
        assert!(!fits(b"$99999999999999999999999\r\n", 999));
        assert!(fits(b"*99999999999999999999999\r\n", 999), "its values count when they come");
        let mut replies = Replies::new(99);
        assert!(replies.follow(b"*99999999999999999999999\r\n*99999999999999999999999\r\n"));
        assert!(!replies.follow(&b":1\r\n".repeat(20)));
    }

    #[tokio::test]
    async fn the_connection_ends_with_it() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut server, client) = tokio::io::duplex(100);
        let exceeded = Arc::new(AtomicBool::new(false));
        let mut client = LimitedStream::new(client, 10, exceeded.clone());
        server.write_all(b"$2\r\nab\r\n").await.unwrap();
        client.read_exact(&mut [0; 8]).await.unwrap();
        assert!(!exceeded.load(Relaxed));
        server.write_all(b"$200\r\nab").await.unwrap();
        assert!(client.read_exact(&mut [0; 8]).await.is_err() && exceeded.load(Relaxed));
    }
}
