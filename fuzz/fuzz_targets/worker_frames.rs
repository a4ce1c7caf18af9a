//! The worker protocol: frames are taken off a stream alike in whatever pieces they come, what is decoded and encoded
//! again is decoded to the same, and nothing allocates more than its input justifies.
#![cfg_attr(fuzzing, no_main)]

use std::os::unix::ffi::OsStrExt;

use bytes::{BufMut, BytesMut};
use libfuzzer_sys::fuzz_target;
use paceline::{
    exchange::Counters,
    origins::workers::{
        protocol::{
            fields,
            frame::{self, encode, kind, AppError, FromWorker, HeadKind, HeaderPairs, Malformed, Raw, Reply},
        },
        rack::response::header_map,
    },
};
use paceline_fuzz::{cuts, memory};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// What is allocated for any input, however small: the buffer of an encoded frame, a first few fields.
const SMALL: usize = 64 << 10;
/// Bytes that one byte of input may come to: it is an empty text, in a list that grows by doubling.
const GROWTH: usize = 2 * std::mem::size_of::<String>();

fuzz_target!(|data: &[u8]| {
    let ((frames, end), largest) = memory::largest_of(|| taken(&[data]));
    assert!(largest <= SMALL + 2 * data.len(), "{largest} bytes for a stream of {}", data.len());
    for pieces in cuts(data) {
        assert_eq!(taken(&pieces), (frames.clone(), end.clone()));
    }
    for raw in frames {
        let written = encode(raw.kind, |out| out.put_slice(&raw.payload));
        assert_eq!(frame::take(&mut BytesMut::from(&written[..])), Ok(Some(raw.clone())));
        check_fields(&raw.payload);
        let length = raw.payload.len();
        let (decoded, largest) = memory::largest_of(|| Reply::try_from(raw));
        assert!(largest <= SMALL + GROWTH * length, "{largest} bytes for a frame of {length}");
        let Ok(decoded) = decoded else { continue };
        let mut again = BytesMut::from(&write(&decoded)[..]);
        let raw = frame::take(&mut again).expect("a frame").expect("whole");
        assert!(again.is_empty());
        assert_eq!(Reply::try_from(raw.clone()), Ok(decoded.clone()));
        // Another number is another request's, and nothing else of the frame depends on it.
        let mut damaged = raw.payload.to_vec();
        damaged[data.len() % 8] ^= 1 << (data.len() / 8 % 8);
        let other = Reply::try_from(Raw { kind: raw.kind, payload: damaged.into() }).expect("as good a frame");
        assert!(other.number != decoded.number && other.frame == decoded.frame);
    }
});

/// The frames of a stream, and what is left when they have been taken.
fn taken(pieces: &[&[u8]]) -> (Vec<Raw>, Result<Vec<u8>, Malformed>) {
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match frame::take(&mut buffer) {
                Ok(Some(raw)) => frames.push(raw),
                Ok(None) => break,
                Err(malformed) => return (frames, Err(malformed)),
            }
        }
    }
    (frames, Ok(buffer.to_vec()))
}

/// Fields that are read and written again are the payload, but for what follows the last NUL.
fn check_fields(payload: &[u8]) {
    let mut written = Vec::new();
    fields::iter(payload).for_each(|field| fields::put(&mut written, field));
    let complete = payload.iter().rposition(|byte| *byte == 0).map_or(0, |last| last + 1);
    assert_eq!(written, payload[..complete]);
    let count = fields::iter(payload).count();
    assert_eq!(fields::texts(payload).len(), count);
    assert_eq!(fields::pairs(payload).count(), count / 2);
}

/// As a worker writes it (gem/lib/paceline/server/frames.rb).
fn write(reply: &Reply) -> Vec<u8> {
    let encode = |kind, fill: &dyn Fn(&mut Vec<u8>)| {
        encode(kind, |out| {
            out.put_u64(reply.number);
            fill(out);
        })
    };
    match &reply.frame {
        FromWorker::Response { status, busy, counters, headers, body } => encode(kind::RESPONSE, &|out| {
            out.put_u16(*status);
            out.put_u8((*busy).into());
            put_counters(out, counters);
            let mut pairs = Vec::new();
            put_headers(&mut pairs, headers);
            out.put_u32(pairs.len() as u32);
            out.put_slice(&pairs);
            out.put_slice(body);
        }),
        FromWorker::Head { status, kind, headers } => encode(kind::HEAD, &|out| {
            out.put_u16(*status);
            out.put_u8(match kind {
                HeadKind::Chunks => 0,
                HeadKind::Raw => 2,
                HeadKind::File => 4,
                HeadKind::Stream => 8,
            });
            put_headers(out, headers);
        }),
        FromWorker::Chunk(body) => encode(kind::CHUNK, &|out| out.put_slice(body)),
        FromWorker::File(path) => encode(kind::FILE, &|out| out.put_slice(path.as_os_str().as_bytes())),
        FromWorker::End { busy, counters } => encode(kind::END, &|out| {
            out.put_u8((*busy).into());
            put_counters(out, counters);
        }),
        FromWorker::EarlyHints(headers) => encode(kind::EARLY_HINTS, &|out| put_headers(out, headers)),
        FromWorker::Hijack => encode(kind::HIJACK, &|_| {}),
        FromWorker::Abort { busy, counters } => encode(kind::ABORT, &|out| {
            out.put_u8((*busy).into());
            put_counters(out, counters);
        }),
        FromWorker::Idle => encode(kind::IDLE, &|_| {}),
        FromWorker::Aside => encode(kind::ASIDE, &|_| {}),
        FromWorker::Record(record) => encode(kind::RECORD, &|out| out.put_slice(record)),
        FromWorker::Error { busy, counters, error } => encode(kind::ERROR, &|out| {
            out.put_u8((*busy).into());
            put_counters(out, counters);
            put_error(out, error);
        }),
        FromWorker::Raised(error) => encode(kind::RAISED, &|out| put_error(out, error)),
    }
}

fn put_error(out: &mut Vec<u8>, error: &AppError) {
    // So that a CR at the end of a line is not taken for a part of its end.
    let backtrace: String = error.backtrace.iter().map(|line| format!("{line}\r\n")).collect();
    let AppError { class, message, file, line, cause, detail, .. } = error;
    fields::put_pair(out, "class", class);
    fields::put_pair(out, "message", message);
    fields::put_pair(out, "file", file);
    fields::put_pair(out, "line", line);
    fields::put_pair(out, "backtrace", backtrace);
    fields::put_pair(out, "cause", cause);
    fields::put_pair(out, "detail", detail);
}

fn put_headers(out: &mut Vec<u8>, headers: &HeaderPairs) {
    // What the app may not send is an error, whatever it is and however much.
    let _ = header_map(headers);
    headers.iter().for_each(|(name, value)| fields::put_pair(out, name, value));
}

fn put_counters(out: &mut Vec<u8>, counters: &Counters) {
    out.put_u32(counters.chunks);
    out.put_u32(counters.gc);
    out.put_u32(counters.allocated);
    out.put_u64(counters.app_started);
    out.put_u64(counters.app_finished);
    let mut spans = Vec::new();
    for (name, total, count) in &counters.spans {
        fields::put(&mut spans, name);
        fields::put(&mut spans, total.to_string());
        fields::put(&mut spans, count.to_string());
    }
    out.put_u16(spans.len() as u16);
    out.put_slice(&spans);
}
