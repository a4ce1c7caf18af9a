//! A template's or fragment's bytes, in pieces of bounded size; those that an app has compressed are decompressed on
//! their way. It never knows what they say.

use std::{
    io::{self, Write},
    pin::Pin,
    task::{ready, Context, Poll},
};

use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::{header, HeaderMap};
use http_body::Body;

use crate::content::body::ResponseBody;

/// Bytes of one piece, at most.
const PIECE: usize = 64 << 10;

/// Compressed bytes that are decompressed at a time: one may stand for a thousand.
const STEP: usize = 4 << 10;

pub struct DecodedTemplate {
    body: ResponseBody,
    decoder: Option<Decoder>,
    waiting: Bytes,
}

enum Decoder {
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
}

impl DecodedTemplate {
    /// Err: it is in a coding that is not known here.
    pub fn of(headers: &HeaderMap, body: ResponseBody) -> Result<DecodedTemplate, ResponseBody> {
        let mut lines = headers.get_all(header::CONTENT_ENCODING).iter();
        let coding = lines.next().map(|line| line.as_bytes().trim_ascii().to_ascii_lowercase());
        let decoder = match coding.as_deref() {
            _ if lines.next().is_some() => return Err(body),
            None | Some(b"" | b"identity") => None,
            Some(b"gzip" | b"x-gzip") => Some(Decoder::Gzip(MultiGzDecoder::new(Vec::new()))),
            Some(b"deflate") => Some(Decoder::Deflate(ZlibDecoder::new(Vec::new()))),
            Some(_) => return Err(body),
        };
        Ok(DecodedTemplate { body, decoder, waiting: Bytes::new() })
    }

    /// The next bytes; never none of them.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if !self.waiting.is_empty() {
                let bytes = match &mut self.decoder {
                    None => self.waiting.split_to(self.waiting.len().min(PIECE)),
                    Some(decoder) => {
                        let coded = self.waiting.split_to(self.waiting.len().min(STEP));
                        decoder.write(&coded)?
                    }
                };
                if !bytes.is_empty() {
                    return Poll::Ready(Some(Ok(bytes)));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.waiting = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let last = self.decoder.take().map_or(Ok(Bytes::new()), Decoder::finish)?;
                    return Poll::Ready((!last.is_empty()).then_some(Ok(last)));
                }
            }
        }
    }
}

impl Decoder {
    fn write(&mut self, coded: &[u8]) -> io::Result<Bytes> {
        let plain = match self {
            Decoder::Gzip(decoder) => {
                decoder.write_all(coded)?;
                decoder.get_mut()
            }
            Decoder::Deflate(decoder) => {
                decoder.write_all(coded)?;
                decoder.get_mut()
            }
        };
        Ok(std::mem::take(plain).into())
    }

    fn finish(self) -> io::Result<Bytes> {
        let plain = match self {
            Decoder::Gzip(decoder) => decoder.finish(),
            Decoder::Deflate(decoder) => decoder.finish(),
        };
        plain.map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{write::GzEncoder, write::ZlibEncoder, Compression};
    use std::task::Waker;

    fn read(coding: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Option<io::ErrorKind>> {
        let headers = [(header::CONTENT_ENCODING, coding.parse().unwrap())].into_iter().collect();
        let mut decoded = DecodedTemplate::of(&headers, ResponseBody::Whole(bytes.into())).map_err(|_| None)?;
        let (mut cx, mut plain) = (Context::from_waker(Waker::noop()), Vec::new());
        while let Poll::Ready(Some(bytes)) = decoded.poll_bytes(&mut cx) {
            plain.extend_from_slice(&bytes.map_err(|error| Some(error.kind()))?);
        }
        Ok(plain)
    }

    #[test]
    fn codings() {
        let text: Vec<u8> = (0..200_000u32).flat_map(|number| number.to_string().into_bytes()).collect();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&text).unwrap();
        assert_eq!(read("gzip", gzip.clone()).unwrap(), text);
        assert_eq!(read(" X-GZip", gzip.clone()).unwrap(), text);
        assert_eq!(read("deflate", zlib.finish().unwrap()).unwrap(), text);
        assert_eq!(read("identity", text.clone()).unwrap(), text);
        assert_eq!(read("br", text.clone()), Err(None));
        assert_eq!(read("gzip, gzip", gzip.clone()), Err(None));
        assert!(matches!(read("gzip", text), Err(Some(_))));
        assert!(matches!(read("gzip", gzip[..gzip.len() / 2].to_vec()), Err(Some(_))), "it broke off");
    }
}
