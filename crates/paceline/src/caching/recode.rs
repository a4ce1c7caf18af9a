//! One stored body for clients of all codings: what the app has compressed itself is kept as it was before, and
//! compressed anew for those who take it (once for each coding; `answer` keeps that). It never does so where the
//! response forbids it.

use std::io::Read;

use bytes::Bytes;
use cache::{directives::forbids_transforming, fields::tokens, storing::Storable};
use flate2::read::MultiGzDecoder;
use http::header;

/// Larger bodies would hold up the event loop while they are decoded.
const AT_ONCE: usize = 512 << 10;

/// What is to be kept in place of a response whose coding was chosen for one client: `most` bytes when decoded. None:
/// as it is.
pub fn identity(storable: &Storable, body: &Bytes, most: u64) -> Option<(Storable, Bytes)> {
    let chosen = storable.nominated.names().contains(&header::ACCEPT_ENCODING);
    if !chosen || body.len() > AT_ONCE || forbids_transforming(&storable.headers) {
        return None;
    }
    let mut codings = tokens(&storable.headers, header::CONTENT_ENCODING);
    let body = match (codings.next(), codings.next()) {
        (None, _) => body.clone(),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") => {
            gunzip(body, most)?
        }
        _ => return None,
    };
    Some((storable.clone().for_all_codings(), body))
}

/// None: it is damaged, or larger than `most`.
fn gunzip(body: &Bytes, most: u64) -> Option<Bytes> {
    let mut whole = Vec::with_capacity(body.len() * 4);
    MultiGzDecoder::new(&body[..]).take(most + 1).read_to_end(&mut whole).ok()?;
    (whole.len() as u64 <= most).then(|| whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{freshness::ExchangeTimes, storing::storable};
    use flate2::{write::GzEncoder, Compression};
    use http::{Request, Response};
    use std::io::Write;

    fn gzip(text: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap().into()
    }

    fn of(lines: &[(&'static str, &'static str)], body: &Bytes, most: u64) -> Option<(Storable, Bytes)> {
        let request = Request::builder().uri("/").body(()).unwrap().into_parts().0;
        let build = lines.iter().fold(Response::builder(), |build, (name, value)| build.header(*name, *value));
        let response = build.header("cache-control", "max-age=9").body(()).unwrap().into_parts().0;
        let at = ExchangeTimes::by_one_clock(0, 0);
        identity(&storable(&request, &response, at, 0).unwrap(), body, most)
    }

    const VARY: (&str, &str) = ("vary", "Accept-Encoding, Foo");
    const GZIP: (&str, &str) = ("content-encoding", "gzip");

    #[test]
    fn one_body_for_all_codings() {
        let (storable, body) =
            of(&[VARY, GZIP, ("etag", "\"x\""), ("content-length", "9")], &gzip(b"hello"), 100).unwrap();
        assert_eq!(body, "hello");
        assert_eq!(storable.nominated.names(), ["foo"]);
        assert_eq!(storable.headers["etag"], "W/\"x\"");
        assert_eq!(storable.headers["vary"], VARY.1, "clients and other caches are told as before");
        assert!(!storable.headers.contains_key("content-encoding") && !storable.headers.contains_key("content-length"));
        let (storable, body) = of(&[VARY], &Bytes::from_static(b"plain"), 100).unwrap();
        assert_eq!((body, storable.nominated.names().len()), (Bytes::from_static(b"plain"), 1));
    }

    #[test]
    fn what_stays_as_it_is() {
        let zipped = gzip(&[b'x'; 1000]);
        for (lines, body, most) in [
            (&[GZIP][..], &zipped, 5000),
            (&[VARY, ("content-encoding", "br")], &zipped, 5000),
            (&[VARY, GZIP, ("cache-control", "no-transform")], &zipped, 5000),
            (&[VARY, GZIP], &zipped, 999),
            (&[VARY, GZIP], &Bytes::from_static(b"no gzip"), 5000),
        ] {
            assert!(of(lines, body, most).is_none(), "{lines:?}");
        }
    }
}
