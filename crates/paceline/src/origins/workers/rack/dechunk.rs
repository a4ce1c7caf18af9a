//! Takes the chunked coding (RFC 9112 section 7.1) off a body that the app encoded itself, as Rack 2's Rack::Chunked
//! and Rails' `render stream: true` do: the front alone frames what leaves it. Trailer fields end here.
//! It never sees a client's bytes, only an app's.

use std::{
    io,
    pin::Pin,
    task::{ready, Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use cache::fields::tokens;
use http::{header, HeaderMap};
use http_body::{Body, Frame};

use crate::{origins::workers::response_buffer::Reader, support::buffer_memory::BODIES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first byte that tells whether the body is encoded at all.
    Start,
    Size,
    Data(usize),
    AfterData,
    Trailers,
    Done,
    /// The body is not encoded: the app only names the coding, as one does that copies the fields of another server's
    /// answer.
    Plain,
}

/// Decodes piece by piece. A body that does not begin with the line of a chunk passes unchanged.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    line: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { state: State::Start, line: Vec::new() }
    }
}

/// Longest size or trailer line.
const LINE: usize = 8 << 10;

/// Most digits of a chunk's size.
const DIGITS: usize = 16;

impl Decoder {
    /// Moves the data in `input` to `output`.
    pub fn decode(&mut self, mut input: Bytes, output: &mut BytesMut) -> io::Result<()> {
        while input.has_remaining() {
            match self.state {
                State::Plain => {
                    output.extend_from_slice(&std::mem::take(&mut self.line));
                    output.extend_from_slice(&input);
                    return Ok(());
                }
                State::Start => match self.may_begin_chunk(input[0]) {
                    // Read again, as a part of the line.
                    Some(true) => self.state = State::Size,
                    Some(false) => self.line.push(input.get_u8()),
                    None => self.state = State::Plain,
                },
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

    /// The body has ended. Moves what was held back to `output`. Err: it ended within a chunk, or without the last one.
    pub fn finish(&mut self, output: &mut BytesMut) -> io::Result<()> {
        match self.state {
            State::Start | State::Plain => {
                output.extend_from_slice(&std::mem::take(&mut self.line));
                Ok(())
            }
            _ if self.is_done() => Ok(()),
            _ => Err(broken()),
        }
    }

    /// Whether the body is encoded, by its next byte: digits, then perhaps blanks, then an extension or the line's end.
    /// Some(false): not known yet. None: it is not.
    fn may_begin_chunk(&self, byte: u8) -> Option<bool> {
        let blank = |byte: u8| byte == b' ' || byte == b'\t';
        match (self.line.last(), byte) {
            (Some(_), b';' | b'\r' | b'\n') => Some(true),
            (Some(_), _) if blank(byte) && self.line.len() < LINE => Some(false),
            (last, _) => {
                (byte.is_ascii_hexdigit() && !last.is_some_and(|last| blank(*last)) && self.line.len() < DIGITS)
                    .then_some(false)
            }
        }
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

/// A transfer coding that is not understood, as the app gave it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Transfer-Encoding: {0}; the app may use `chunked` alone")]
pub struct UnknownCoding(String);

/// Takes the transfer codings out of the fields of an app's response, and what speaks of them. True: the app says that
/// the body is in the chunked coding.
pub fn take_coding(headers: &mut HeaderMap) -> Result<bool, UnknownCoding> {
    if !headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(false);
    }
    let given: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().map(|value| value.as_bytes()).collect();
    let given = String::from_utf8_lossy(&given.join(&b", "[..])).into_owned();
    let codings = tokens(headers, header::TRANSFER_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    let are_chunked: Vec<bool> = codings.map(|coding| coding.eq_ignore_ascii_case(b"chunked")).collect();
    headers.remove(header::TRANSFER_ENCODING);
    match are_chunked[..] {
        [] => Ok(false),
        [true] => {
            // The fields that it announces are not sent.
            headers.remove(header::TRAILER);
            Ok(true)
        }
        _ => Err(UnknownCoding(given)),
    }
}

/// A whole body without its chunked coding.
pub fn whole(body: Bytes) -> io::Result<Bytes> {
    let (mut decoder, mut output) = (Decoder::default(), BytesMut::with_capacity(body.len()));
    decoder.decode(body, &mut output)?;
    decoder.finish(&mut output)?;
    // It takes the place of a longer one that has had room.
    Ok(BODIES.hold(output.freeze()).unwrap_or_else(|body| body))
}

/// A body without its chunked coding.
pub struct DechunkedBody {
    body: Reader,
    decoder: Decoder,
    ended: bool,
}

impl DechunkedBody {
    pub fn new(body: Reader) -> DechunkedBody {
        DechunkedBody { body, decoder: Decoder::default(), ended: false }
    }
}

impl Body for DechunkedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut output = BytesMut::new();
        while output.is_empty() && !self.ended {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.decoder.decode(frame.into_data().unwrap_or_default(), &mut output)?,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.ended = true;
                    self.decoder.finish(&mut output)?;
                }
            }
        }
        Poll::Ready((!output.is_empty()).then(|| Ok(Frame::data(output.freeze()))))
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
        decoder.finish(&mut output).ok()?;
        Some(output.to_vec())
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
        assert_eq!(decode(&[b"1\r\nax\r\n"]), None);
        assert_eq!(decode(&[b"5\r\nhello\r\n+5\r\nhello\r\n0\r\n\r\n"]), None);
        assert_eq!(decode(&[b"5", b"\r\nhel"]), None);
        assert_eq!(decode(&[b"1\r\nab\r\n0\r\n\r\n"]), None);
        assert_eq!(decode(&[b"5\r\nhello\r\n"]), None);
    }

    #[test]
    fn a_body_that_is_not_encoded_passes_unchanged() {
        let bodies: [&'static [u8]; 9] = [
            b"",
            b"ok",
            b"5",
            b"+5\r\nhello",
            b"\r\n5\r\nhello\r\n",
            b"A page of text\r\n",
            b"be",
            b"d41d8cd98f00b204e9800998\n",
            b"<p>\xff</p>",
        ];
        for body in bodies {
            for middle in 0..=body.len() {
                let pieces = [&body[..middle], &body[middle..]];
                assert_eq!(decode(&pieces).as_deref(), Some(body), "{:?}", body.escape_ascii().to_string());
            }
        }
    }

    #[test]
    fn trailers_and_what_follows_are_no_data() {
        assert_eq!(decode(&[b"1 ;a=\"b\"\r\nx\r\n00\r\nx-sum: 1\r\n\r\nmore"]).unwrap(), b"x");
        assert_eq!(decode(&[b"0\r\n"]).unwrap(), b"");
    }

    #[test]
    fn codings_are_taken_out_of_the_fields() {
        let take = |given: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in given {
                headers.append(header::TRANSFER_ENCODING, http::HeaderValue::from_static(value));
            }
            let taken = take_coding(&mut headers);
            assert!(headers.is_empty());
            taken
        };
        assert_eq!((take(&[]), take(&["Identity"]), take(&["Chunked"])), (Ok(false), Ok(false), Ok(true)));
        assert_eq!(take(&["gzip, chunked"]), Err(UnknownCoding("gzip, chunked".into())));
        assert_eq!(take(&["gzip", "chunked"]), Err(UnknownCoding("gzip, chunked".into())));
    }
}
