//! Takes the chunked coding (RFC 9112 section 7.1) off a body that the app encoded itself, as Rack 2's Rack::Chunked and
//! Rails' `render stream: true` do: the front alone frames what leaves it.
//! It never sees a client's bytes, only an app's.

use std::{
    io,
    pin::Pin,
    task::{ready, Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame};

use crate::dispatch::response_buffer::Reader;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    Data(usize),
    AfterData,
    Trailers,
    Done,
}

/// Decodes piece by piece.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    line: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { state: State::Size, line: Vec::new() }
    }
}

/// Longest size or trailer line.
const LINE: usize = 8 << 10;

impl Decoder {
    /// Moves the data in `input` to `output`.
    pub fn decode(&mut self, mut input: Bytes, output: &mut BytesMut) -> io::Result<()> {
        while input.has_remaining() {
            match self.state {
                State::Data(left) => {
                    let data = input.split_to(left.min(input.len()));
                    output.extend_from_slice(&data);
                    self.state = if data.len() == left { State::AfterData } else { State::Data(left - data.len()) };
                }
                State::Done => return Ok(()),
                State::Size | State::AfterData | State::Trailers => {
                    let byte = input.get_u8();
                    if byte != b'\n' {
                        self.line.push(byte);
                        if self.line.len() > LINE {
                            return Err(broken());
                        }
                        continue;
                    }
                    let mut line = std::mem::take(&mut self.line);
                    if line.last() == Some(&b'\r') {
                        line.pop();
                    }
                    self.state = self.after_line(&line)?;
                }
            }
        }
        Ok(())
    }

    fn after_line(&self, line: &[u8]) -> io::Result<State> {
        match self.state {
            State::Size => {
                let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
                let text = std::str::from_utf8(digits).map_err(|_| broken())?.trim();
                let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let size = usize::from_str_radix(text, 16).ok().filter(|_| valid).ok_or_else(broken)?;
                Ok(if size == 0 { State::Trailers } else { State::Data(size) })
            }
            State::AfterData if line.is_empty() => Ok(State::Size),
            State::Trailers if line.is_empty() => Ok(State::Done),
            State::Trailers => Ok(State::Trailers),
            _ => Err(broken()),
        }
    }

    /// The last chunk has come.
    pub fn is_done(&self) -> bool {
        self.state == State::Done || (self.state == State::Trailers && self.line.is_empty())
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the app's chunked coding is broken")
}

/// A body without its chunked coding.
pub struct Dechunked {
    body: Reader,
    decoder: Decoder,
}

impl Dechunked {
    pub fn new(body: Reader) -> Dechunked {
        Dechunked { body, decoder: Decoder::default() }
    }
}

impl Body for Dechunked {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let data = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.decoder.is_done() => return Poll::Ready(None),
                None => return Poll::Ready(Some(Err(broken()))),
            };
            let mut output = BytesMut::new();
            self.decoder.decode(data, &mut output)?;
            if !output.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(output.freeze()))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&'static [u8]]) -> Option<Vec<u8>> {
        let mut decoder = Decoder::default();
        let mut output = BytesMut::new();
        for piece in pieces {
            decoder.decode(Bytes::from_static(piece), &mut output).ok()?;
        }
        decoder.is_done().then(|| output.to_vec())
    }

    #[test]
    fn whatever_the_split_the_data_is_the_same() {
        let whole: &'static [u8] = b"5\r\nhello\r\nB;x=y\r\n, chunked w\r\n4\r\norld\r\n0\r\n\r\n";
        for middle in 0..=whole.len() {
            assert_eq!(decode(&[&whole[..middle], &whole[middle..]]).unwrap(), b"hello, chunked world", "{middle}");
        }
    }

    #[test]
    fn broken_coding_is_an_error_and_a_missing_end_is_no_end() {
        assert_eq!(decode(&[b"x\r\n"]), None);
        assert_eq!(decode(&[b"+5\r\nhello"]), None);
        assert_eq!(decode(&[b"1\r\nab\r\n0\r\n\r\n"]), None);
        assert_eq!(decode(&[b"5\r\nhello\r\n"]), None);
    }
}
