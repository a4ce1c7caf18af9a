//! One replay after another in the shadows of a run: what they have in common (clock, seed, the way to deliver), and
//! what an answer is compared by.
//! It never decides what is replayed.

use std::{borrow::Cow, io::Read};

use doctor::{
    mask::Answer,
    observation::{header, Asset},
    protocol::{Deliver, Outbound, Replay, ReplayResult, Request},
};
use flate2::read::{MultiGzDecoder, ZlibDecoder};

use super::fetching::Link;
use crate::origins::shadow::{Shadow, ShadowError};

/// Bytes of a body that is decoded; a larger one is compared as it is.
const MAX_DECODED: u64 = 16 << 20;

/// How one request is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Manner {
    pub observe: bool,
    /// The application's clock begins at the run's, or a second later.
    pub is_second_later: bool,
    pub seed: u64,
    pub outbound: Outbound,
    /// Its time is compared with another's.
    pub is_timed: bool,
    /// By a made-up visitor: what is asked of the visitor is told.
    pub is_strangers: bool,
    /// Its stack is read meanwhile.
    pub is_profiled: bool,
}

/// Measured, and compared with others of the same seed.
pub const MEASURED: Manner = Manner {
    observe: false,
    is_second_later: false,
    seed: 42,
    outbound: Outbound::Replay,
    is_timed: false,
    is_strangers: false,
    is_profiled: false,
};
/// Measured more exactly: in turn with another shadow.
pub const TIMED: Manner = Manner { is_timed: true, ..MEASURED };
/// What random things and the clock change shows between this one and a measured one.
pub const OTHERWISE: Manner = Manner { is_second_later: true, seed: 43, ..MEASURED };
pub const RECORDED: Manner = Manner { outbound: Outbound::Record, ..MEASURED };
pub const STRANGERS: Manner = Manner { is_strangers: true, ..MEASURED };
pub const OBSERVED: Manner = Manner { observe: true, ..MEASURED };
pub const PROFILED: Manner = Manner { is_profiled: true, ..MEASURED };

/// What all replays of a run have in common.
pub struct Replaying {
    /// Unix seconds.
    clock: f64,
    pub deliver: Deliver,
    next: u64,
}

impl Replaying {
    pub fn new(clock: f64, deliver: Deliver) -> Replaying {
        Replaying { clock, deliver, next: 1 }
    }

    pub fn replay(
        &mut self,
        shadow: &mut Shadow,
        request: &Request,
        manner: Manner,
    ) -> Result<ReplayResult, ShadowError> {
        self.replay_delivered(shadow, request, manner, self.deliver)
    }

    /// The application's own answer to a request for a file.
    pub fn file(&mut self, shadow: &mut Shadow, link: &Link) -> Result<Asset, ShadowError> {
        let result = self.replay(shadow, &request_for(link), MEASURED)?;
        let ReplayResult { status, headers, body_bytes: bytes, .. } = result;
        Ok(Asset { path: link.path.clone(), status, headers, bytes, share: link.share })
    }

    pub fn replay_delivered(
        &mut self,
        shadow: &mut Shadow,
        request: &Request,
        manner: Manner,
        deliver: Deliver,
    ) -> Result<ReplayResult, ShadowError> {
        let id = self.next;
        self.next += 1;
        let Manner { observe, seed, outbound, is_second_later, .. } = manner;
        let Manner { is_timed: warm, is_strangers: stranger, is_profiled: profile, .. } = manner;
        let clock = self.clock + f64::from(u8::from(is_second_later));
        shadow.replay(Replay {
            id,
            request: request.clone(),
            observe,
            clock,
            seed,
            outbound,
            deliver,
            warm,
            stranger,
            profile,
        })
    }
}

/// A browser's request for a file.
fn request_for(link: &Link) -> Request {
    let (path, query) = link.path.split_once('?').unwrap_or((&link.path, ""));
    Request {
        method: "GET".into(),
        path: path.into(),
        query: query.into(),
        scheme: link.scheme.clone(),
        host: link.host.clone(),
        headers: vec![("accept".into(), "*/*".into()), ("accept-encoding".into(), "gzip".into())],
        user: None,
    }
}

/// An answer with its body as people see it: compressed bytes differ everywhere where the page does somewhere.
pub struct DecodedAnswer {
    result: ReplayResult,
    decoded: Option<Vec<u8>>,
}

impl DecodedAnswer {
    pub fn new(result: ReplayResult) -> DecodedAnswer {
        let decoded = decoded(&result);
        DecodedAnswer { result, decoded }
    }

    pub fn answer(&self) -> Answer<'_> {
        let body = self.decoded.as_deref().unwrap_or(&self.result.body);
        Answer { status: self.result.status, headers: &self.result.headers, body }
    }
}

fn decoded(result: &ReplayResult) -> Option<Vec<u8>> {
    let coding = header(&result.headers, "content-encoding")?.trim().to_ascii_lowercase();
    let body = result.body.as_slice();
    let mut bytes = Vec::new();
    let read = match &*coding {
        "gzip" | "x-gzip" => MultiGzDecoder::new(body).take(MAX_DECODED + 1).read_to_end(&mut bytes),
        "deflate" => ZlibDecoder::new(body).take(MAX_DECODED + 1).read_to_end(&mut bytes),
        "br" => brotli::Decompressor::new(body, 4096).take(MAX_DECODED + 1).read_to_end(&mut bytes),
        _ => return None,
    };
    read.ok().filter(|count| *count as u64 <= MAX_DECODED).map(|_| bytes)
}

/// Without control characters, and no longer than a line: what an application says of itself.
pub fn line(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 300;
    let is_plain = text.chars().count() <= LONGEST && !text.chars().any(char::is_control);
    if is_plain {
        Cow::Borrowed(text)
    } else {
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(LONGEST).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{write::GzEncoder, Compression};

    use super::*;

    fn encoded(coding: &str, body: Vec<u8>) -> DecodedAnswer {
        let headers = vec![("Content-Encoding".into(), coding.into())];
        DecodedAnswer::new(ReplayResult { headers, body, ..ReplayResult::default() })
    }

    #[test]
    fn bodies_are_compared_as_they_are_read() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"hello").unwrap();
        assert_eq!(encoded("gzip", gzip.finish().unwrap()).answer().body, b"hello");
        for (coding, body) in [("gzip", "no gzip"), ("identity", "hello"), ("br", "no brotli"), ("zstd", "x")] {
            assert_eq!(encoded(coding, body.into()).answer().body, body.as_bytes(), "{coding}");
        }
    }

    #[test]
    fn a_bomb_is_left_alone() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..17 {
            gzip.write_all(&vec![0; 1 << 20]).unwrap();
        }
        let bomb = gzip.finish().unwrap();
        assert_eq!(encoded("gzip", bomb.clone()).answer().body, bomb);
    }

    #[test]
    fn a_line_is_a_line() {
        assert_eq!(line("a\nb\u{1b}c"), "a b c");
        assert_eq!(line(&"x".repeat(1000)).len(), 300);
        assert!(matches!(line("plain"), Cow::Borrowed(_)));
    }
}
