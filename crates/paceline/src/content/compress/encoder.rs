//! The three encoders behind one face: bytes in, bytes out, a flush that lets everything so far be decoded.
//! It never waits and never knows what it encodes.

use std::io::{self, Write};

use brotli::{enc::BrotliEncoderParams, CompressorWriter};
use bytes::Bytes;
use flate2::{write::GzEncoder, Compression};

use super::Effort;
use http_guard::coding::ContentCoding;

/// Windows are small: each response under way has its own, and the gain of larger ones is for bodies larger than most.
const WINDOW_LOG: u32 = 18;

pub enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

#[cfg(test)]
thread_local! {
    /// How many this thread has made.
    pub static MADE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Encoder {
    /// None: it could not be made (memory).
    pub fn new(coding: ContentCoding, effort: Effort) -> Option<Encoder> {
        #[cfg(test)]
        MADE.with(|made| made.set(made.get() + 1));
        let level = |fast, balanced, small| match effort {
            Effort::Fast => fast,
            Effort::Balanced => balanced,
            Effort::Small => small,
        };
        Some(match coding {
            ContentCoding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::new(level(1, 5, 9)))),
            ContentCoding::Brotli => {
                let quality = level(2, 4, 8) as i32;
                let parameters = BrotliEncoderParams { quality, lgwin: WINDOW_LOG as i32, ..Default::default() };
                Encoder::Brotli(Box::new(CompressorWriter::with_params(Vec::new(), 4096, &parameters)))
            }
            ContentCoding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level(1, 3, 12) as i32).ok()?;
                encoder.window_log(WINDOW_LOG).ok()?;
                Encoder::Zstd(encoder)
            }
        })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.write_all(bytes),
            Encoder::Brotli(encoder) => encoder.write_all(bytes),
            Encoder::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// After this all that was written can be decoded from what `take` gives.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Brotli(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }

    /// What is ready to be sent.
    pub fn take(&mut self) -> Bytes {
        std::mem::take(match self {
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Brotli(encoder) => encoder.get_mut(),
            Encoder::Zstd(encoder) => encoder.get_mut(),
        })
        .into()
    }

    /// Ends the stream; the last bytes.
    pub fn finish(self) -> io::Result<Bytes> {
        Ok(match self {
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Brotli(encoder) => encoder.into_inner(),
            Encoder::Zstd(encoder) => encoder.finish()?,
        }
        .into())
    }

    /// A whole body.
    pub fn whole(mut self, bytes: &[u8]) -> io::Result<Bytes> {
        self.write(bytes)?;
        self.finish()
    }
}
