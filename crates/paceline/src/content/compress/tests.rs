//! Each coding decodes to what went in; what must not be compressed is not; the fields say what RFC 9110 wants.

use std::io::{Read, Write};

use http_body_util::BodyExt;

use super::*;
use crate::origins::workers::response_buffer;

const SETTINGS: Settings = Settings { effort: Effort::Balanced, min: 10 };
const TEXT: &str = "All work and no play makes Jack a dull boy. ";

fn asked(method: Method, fields: &[(&'static str, &'static str)]) -> Parts {
    let mut request = http::Request::builder().method(method);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn answer(status: u16, fields: &[(&'static str, &'static str)], body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in fields {
        response.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    response
}

fn text(length: usize) -> Vec<u8> {
    TEXT.bytes().cycle().take(length).collect()
}

fn decode(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    match coding {
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut decoded).unwrap()),
        "br" => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut decoded).unwrap()),
        "zstd" => drop(zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut decoded).unwrap()),
        other => panic!("{other}"),
    }
    decoded
}

fn run<T>(future: impl std::future::Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn collect(response: Response<ResponseBody>) -> (http::response::Parts, Bytes) {
    let (head, body) = response.into_parts();
    (head, run(body.collect()).unwrap().to_bytes())
}

#[test]
fn each_coding_and_effort_decodes_to_what_went_in() {
    for coding in ["gzip", "br", "zstd"] {
        for effort in [Effort::Fast, Effort::Balanced, Effort::Small] {
            for length in [10, 1000, AT_ONCE, AT_ONCE + 1, 1_000_000] {
                let original = text(length);
                let whole = answer(200, &[("content-type", "text/plain")], original.clone().into());
                let asked = asked(Method::GET, &[("accept-encoding", coding)]);
                let (head, sent) = collect(response(&asked, Settings { effort, ..SETTINGS }, whole));
                assert_eq!(head.headers["content-encoding"], coding);
                assert_eq!(decode(coding, &sent), original, "{coding} {effort:?} {length}");
                assert!(length < 1000 || sent.len() < length / 5, "{coding} {effort:?} {length}: {}", sent.len());
                // Of what is compressed in one go the length is known.
                let length_said = head.headers.get("content-length").map(|length| length.to_str().unwrap().to_owned());
                assert_eq!(length_said, (length <= AT_ONCE).then(|| sent.len().to_string()));
            }
        }
    }
}

#[test]
fn what_the_app_flushed_can_be_decoded_before_more_comes() {
    for coding in ["gzip", "br", "zstd"] {
        run(async {
            let (mut writer, reader) = response_buffer::buffer(1 << 20, 0);
            let arriving = answer(200, &[("content-type", "text/plain")], ResponseBody::stream(reader));
            let asked = asked(Method::GET, &[("accept-encoding", coding)]);
            let mut body = response(&asked, SETTINGS, arriving).into_body();
            let mut sent = Vec::new();
            for number in 0..3 {
                writer.write(Bytes::from(format!("data: {number}\n\n"))).await.unwrap();
                // The writer is still open: this comes without an end, or the test would stand still.
                sent.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
                let so_far: String = (0..=number).map(|number| format!("data: {number}\n\n")).collect();
                assert_eq!(decode_beginning(coding, &sent, so_far.len()), so_far.as_bytes(), "{coding}");
            }
            drop(writer);
            while let Some(frame) = body.frame().await {
                sent.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            assert_eq!(decode(coding, &sent), b"data: 0\n\ndata: 1\n\ndata: 2\n\n");
        });
    }
}

/// So many bytes from a stream that has no end yet.
fn decode_beginning(coding: &str, bytes: &[u8], length: usize) -> Vec<u8> {
    let mut decoded = vec![0; length];
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_exact(&mut decoded).unwrap(),
        "br" => brotli::Decompressor::new(bytes, 4096).read_exact(&mut decoded).unwrap(),
        _ => zstd::stream::read::Decoder::new(bytes).unwrap().read_exact(&mut decoded).unwrap(),
    }
    decoded
}

#[test]
fn a_body_that_breaks_off_does_not_end_well() {
    run(async {
        let (mut writer, reader) = response_buffer::buffer(1 << 20, 0);
        let arriving = answer(200, &[("content-type", "text/plain")], ResponseBody::stream(reader));
        writer.write(Bytes::from("some")).await.unwrap();
        writer.abort();
        let body = response(&asked(Method::GET, &[("accept-encoding", "gzip")]), SETTINGS, arriving).into_body();
        assert!(body.collect().await.is_err());
    });
}

/// RFC 9110 sections 8.4, 9.3.2, 14 and 15; RFC 9111 section 5.2.2.6.
#[test]
fn what_must_not_be_compressed_is_left_alone() {
    let gzip = || asked(Method::GET, &[("accept-encoding", "gzip, br, zstd")]);
    type Fields = &'static [(&'static str, &'static str)];
    let table: &[(&str, u16, Fields)] = &[
        ("encoded already", 200, &[("content-type", "text/plain"), ("content-encoding", "gzip")]),
        ("encoded as identity", 200, &[("content-type", "text/plain"), ("content-encoding", "identity")]),
        ("events", 200, &[("content-type", "text/event-stream; charset=utf-8")]),
        ("no-transform", 200, &[("content-type", "text/plain"), ("cache-control", "public, No-Transform")]),
        ("part of it", 206, &[("content-type", "text/plain"), ("content-range", "bytes 0-99/1000")]),
        ("ranges", 206, &[("content-type", "multipart/byteranges; boundary=x")]),
        ("an unsatisfied range", 416, &[("content-type", "text/plain"), ("content-range", "bytes */1000")]),
        ("a digest of the bytes", 200, &[("content-type", "text/plain"), ("content-digest", "sha-256=:x=:")]),
        ("an image", 200, &[("content-type", "image/png")]),
        ("an archive", 200, &[("content-type", "application/zip")]),
        ("a film", 200, &[("content-type", "video/mp4")]),
        ("bytes", 200, &[("content-type", "application/octet-stream")]),
        ("no type", 200, &[]),
    ];
    for (what, status, fields) in table {
        let before = answer(*status, fields, text(1000).into());
        let names = before.headers().clone();
        let (head, body) = collect(response(&gzip(), SETTINGS, before));
        assert_eq!((head.headers, &body[..]), (names, &text(1000)[..]), "{what}");
    }
    let plain = || answer(200, &[("content-type", "text/plain"), ("etag", "\"x\"")], text(1000).into());
    let head_only = response(&asked(Method::HEAD, &[("accept-encoding", "gzip")]), SETTINGS, plain());
    assert!(!head_only.headers().contains_key("content-encoding"));
    let small = response(&gzip(), Settings { min: 1001, ..SETTINGS }, plain());
    assert!(!small.headers().contains_key("content-encoding") && !small.headers().contains_key("vary"));
    let empty = response(&gzip(), SETTINGS, answer(200, &[("content-type", "text/plain")], ResponseBody::Empty));
    assert!(!empty.headers().contains_key("content-encoding"));
}

#[test]
fn types_that_become_smaller() {
    let gzip = asked(Method::GET, &[("accept-encoding", "gzip")]);
    for content_type in [
        "text/html; charset=utf-8",
        "TEXT/CSS",
        "application/json",
        "application/problem+json",
        "application/atom+xml",
        "image/svg+xml",
        "text/javascript",
        "application/wasm",
    ] {
        let sent = response(&gzip, SETTINGS, answer(200, &[("content-type", content_type)], text(1000).into()));
        assert_eq!(sent.headers()["content-encoding"], "gzip", "{content_type}");
    }
}

/// RFC 9110 sections 12.5.3 and 12.5.5.
#[test]
fn the_client_chooses_and_caches_are_told() {
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip, deflate, br", Some("br")),
        ("gzip;q=1.0, br;q=0.5", Some("gzip")),
        ("br;q=0, zstd;q=0, *", Some("gzip")),
        ("identity", None),
        ("gzip;q=0", None),
        ("deflate", None),
    ] {
        let plain = answer(200, &[("content-type", "text/plain"), ("vary", "Cookie")], text(1000).into());
        let sent = response(&asked(Method::GET, &[("accept-encoding", accept)]), SETTINGS, plain);
        let said = sent.headers().get("content-encoding").map(|coding| coding.to_str().unwrap());
        assert_eq!(said, coding, "{accept}");
        let vary: Vec<_> = sent.headers().get_all("vary").iter().collect();
        assert_eq!(vary, ["Cookie", "Accept-Encoding"], "{accept}");
    }
    for vary in ["*", "accept-encoding", "Cookie, Accept-Encoding"] {
        let plain = answer(200, &[("content-type", "text/plain"), ("vary", vary)], text(1000).into());
        let sent = response(&asked(Method::GET, &[]), SETTINGS, plain);
        assert_eq!(sent.headers().get_all("vary").iter().collect::<Vec<_>>(), [vary]);
    }
}

/// RFC 9110 sections 8.8.1, 8.8.3.3 and 15.4.5.
#[test]
fn a_strong_tag_becomes_weak_and_still_spares_the_body() {
    let fields = &[("content-type", "text/plain"), ("etag", "\"v1\""), ("accept-ranges", "bytes")];
    let plain = || answer(200, fields, text(1000).into());
    let accept = ("accept-encoding", "gzip");
    let sent = response(&asked(Method::GET, &[accept]), SETTINGS, plain());
    assert_eq!(sent.headers()["etag"], "W/\"v1\"");
    assert!(!sent.headers().contains_key("accept-ranges"));

    let again = response(&asked(Method::GET, &[accept, ("if-none-match", "W/\"v1\"")]), SETTINGS, plain());
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["etag"], "W/\"v1\"");
    assert!(!again.headers().contains_key("content-encoding") && matches!(again.body(), ResponseBody::Empty));

    let changed = response(&asked(Method::GET, &[accept, ("if-none-match", "W/\"v0\"")]), SETTINGS, plain());
    assert_eq!(changed.status(), 200);

    let not_modified = || answer(304, &[("etag", "\"v1\"")], ResponseBody::Empty);
    let weak = response(&asked(Method::GET, &[accept, ("if-none-match", "W/\"v1\"")]), SETTINGS, not_modified());
    assert_eq!(
        (&weak.headers()["etag"], &weak.headers()["vary"]),
        (&"W/\"v1\"".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
    );
    let strong = response(&asked(Method::GET, &[accept, ("if-none-match", "\"v1\"")]), SETTINGS, not_modified());
    assert_eq!(strong.headers()["etag"], "\"v1\"");

    let identity = response(&asked(Method::GET, &[]), SETTINGS, plain());
    assert_eq!(identity.headers()["etag"], "\"v1\"");
}

/// What cannot be made smaller is sent whole all the same, and a writer of many small pieces gets one body.
#[test]
fn pieces_that_are_there_at_once_are_compressed_together() {
    run(async {
        let (mut writer, reader) = response_buffer::buffer(8 << 20, 0);
        let mut original = Vec::new();
        for number in 0..5000 {
            let mut piece = Vec::new();
            writeln!(piece, "{TEXT}{number}").unwrap();
            original.extend_from_slice(&piece);
            writer.write(piece.into()).await.unwrap();
        }
        drop(writer);
        let arriving = answer(200, &[("content-type", "text/plain")], ResponseBody::stream(reader));
        let mut body = response(&asked(Method::GET, &[("accept-encoding", "gzip")]), SETTINGS, arriving).into_body();
        let (mut frames, mut sent) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            frames += 1;
            sent.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        assert_eq!(decode("gzip", &sent), original);
        assert!(frames < 50, "{frames} frames of 5000 pieces");
    });
}

/// It has the body of a page in each coding that was asked for.
#[derive(Default)]
struct KeptBodies(parking_lot::Mutex<Vec<(ContentCoding, Bytes)>>);

impl CodedBodyStore for KeptBodies {
    fn recall(&self, coding: ContentCoding) -> Option<Bytes> {
        self.0.lock().iter().find(|(own, _)| *own == coding).map(|(_, bytes)| bytes.clone())
    }

    fn begin(&self, _: ContentCoding) -> bool {
        true
    }

    fn remember(&self, coding: ContentCoding, bytes: Bytes) {
        self.0.lock().push((coding, bytes));
    }
}

/// An encoder costs more than all the rest of a hit.
#[test]
fn a_body_that_was_compressed_before_needs_no_encoder() {
    let kept = Arc::new(KeptBodies::default());
    let asked = asked(Method::GET, &[("accept-encoding", "gzip")]);
    let give = || {
        let mut page = answer(200, &[("content-type", "text/plain")], text(1000).into());
        page.extensions_mut().insert(Memo(kept.clone()));
        let before = encoder::MADE.get();
        let (head, body) = collect(response(&asked, SETTINGS, page));
        assert_eq!((&head.headers["content-encoding"], decode("gzip", &body)), (&"gzip".parse().unwrap(), text(1000)));
        encoder::MADE.get() - before
    };
    assert_eq!((give(), give(), give()), (1, 0, 0));
}
