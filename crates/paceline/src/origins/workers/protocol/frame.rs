//! The frames of the worker protocol, decoded and encoded (docs/worker-protocol.md).
//! It never reads or writes a socket; bad bytes give an error, never a panic.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::fields;
use crate::exchange::Counters;

/// Largest payload either side may send.
pub const MAX_PAYLOAD: usize = 16 << 20;
/// Most that is reserved on the word of a prefix alone, while less than a half of that has come ...
const FIRST_RESERVED: usize = 64 << 10;
/// ... and afterwards, while less than that has come: a response that is sent whole, and a little.
const RESERVED: usize = (1 << 20) + (16 << 10);
/// Most header fields that a response is built of: a list of empty ones would take many times the memory of its frame.
pub const MAX_HEADERS: usize = 10_000;
/// Most lines of a backtrace that are kept.
const MAX_LINES: usize = 10_000;
/// Bytes before a payload: u32 length, u8 type.
pub const PREFIX: usize = 5;

/// Frame types, by the names of docs/worker-protocol.md.
pub mod kind {
    pub const START: u8 = 0x01;
    pub const FORK: u8 = 0x02;
    pub const RELEASE: u8 = 0x03;
    pub const SHADOW: u8 = 0x04;
    pub const CONFIGURE: u8 = 0x05;
    pub const ENVIRONMENT: u8 = 0x06;
    pub const BOOTED: u8 = 0x07;
    pub const STOPPED: u8 = 0x08;
    pub const STEP: u8 = 0x41;
    pub const LOADED: u8 = 0x42;
    pub const PRELOADER_FAILED: u8 = 0x43;
    pub const FORKED: u8 = 0x44;
    pub const EXITED: u8 = 0x45;
    pub const CONFIGURED: u8 = 0x46;
    pub const CHANNEL: u8 = 0x51;
    pub const OUTPUT: u8 = 0x52;
    pub const READY: u8 = 0x53;
    pub const BACKTRACE: u8 = 0x54;
    pub const WORKER_FAILED: u8 = 0x55;
    pub const PROMOTED: u8 = 0x56;
    pub const UNSAFE: u8 = 0x57;
    pub const MEMORY: u8 = 0x58;
    pub const MAILBOX: u8 = 0x59;
    pub const DRAIN: u8 = 0x11;
    pub const ASK_BACKTRACE: u8 = 0x12;
    pub const MOLD: u8 = 0x13;
    pub const ASK_MEMORY: u8 = 0x14;
    pub const SPARE: u8 = 0x15;
    pub const REQUEST: u8 = 0x21;
    pub const BODY: u8 = 0x22;
    pub const BODY_END: u8 = 0x23;
    pub const CANCEL: u8 = 0x24;
    pub const WAKE: u8 = 0x25;
    pub const RESPONSE: u8 = 0x31;
    pub const HEAD: u8 = 0x32;
    pub const CHUNK: u8 = 0x33;
    pub const FILE: u8 = 0x34;
    pub const END: u8 = 0x35;
    pub const EARLY_HINTS: u8 = 0x36;
    pub const HIJACK: u8 = 0x37;
    pub const ABORT: u8 = 0x38;
    pub const IDLE: u8 = 0x39;
    pub const ERROR: u8 = 0x3A;
    pub const NOTICE: u8 = 0x3B;
    pub const RECORD: u8 = 0x3C;
    pub const ASIDE: u8 = 0x3D;
    pub const RAISED: u8 = 0x3E;
}

const FLAG_BUSY: u8 = 1;
const FLAG_RAW: u8 = 2;
const FLAG_FILE: u8 = 4;
const FLAG_STREAM: u8 = 8;

/// Bytes that are not a frame of the protocol: the peer is broken and is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed frame: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// A frame as it was on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    pub kind: u8,
    pub payload: Bytes,
}

/// Takes the first whole frame off `buffer`, or says that more bytes are needed (`None`).
pub fn take(buffer: &mut BytesMut) -> Result<Option<Raw>, Malformed> {
    let Some(&[a, b, c, d, kind]) = buffer.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > MAX_PAYLOAD {
        return Err(Malformed("payload over 16 MiB"));
    }
    if buffer.len() < PREFIX + length {
        return Ok(None);
    }
    let mut frame = buffer.split_to(PREFIX + length);
    frame.advance(PREFIX);
    Ok(Some(Raw { kind, payload: frame.freeze() }))
}

/// Makes room for the rest of the frame of which `buffer` holds the beginning, or for a part of the rest. How many bytes can be read there without what comes
/// after the frame; 0: no frame has begun that can be read on.
pub fn make_room(buffer: &mut BytesMut) -> usize {
    let Some(&[a, b, c, d, _]) = buffer.first_chunk::<PREFIX>() else { return 0 };
    let announced = u32::from_be_bytes([a, b, c, d]) as usize;
    if announced > MAX_PAYLOAD {
        return 0;
    }
    // What is announced may never come.
    let most = if buffer.len() < FIRST_RESERVED / 2 { FIRST_RESERVED } else { buffer.len().max(RESERVED) };
    let room = (PREFIX + announced).saturating_sub(buffer.len()).min(most);
    buffer.reserve(room);
    room
}

/// Encodes a frame around a payload that is written by `fill`.
pub fn encode(kind: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.put_u32(0);
    out.put_u8(kind);
    fill(&mut out);
    let length = (out.len() - PREFIX) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Encodes a SHADOW: the preloader forks a copy of the loaded application, which connects to this Unix socket and
/// answers replayed requests there.
pub fn shadow(socket: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    encode(kind::SHADOW, |out| fields::put(out, socket.as_os_str().as_bytes()))
}

/// A request's number, which each frame of its answer repeats: what was meant for another request is seen to be.
pub type RequestNumber = u64;

/// A number that no other request has within the front's life.
pub fn next_number() -> RequestNumber {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Encodes a REQUEST: `env` writes the pairs, `body` is that of an INLINE one.
pub fn request(number: RequestNumber, flags: u8, env: impl FnOnce(&mut Vec<u8>), body: &[u8]) -> Vec<u8> {
    encode(kind::REQUEST, |out| {
        out.put_u64(number);
        out.put_u8(flags);
        let length_at = out.len();
        out.put_u32(0);
        env(out);
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        out.put_slice(body);
    })
}

/// Response headers in the order the app gave them, as they are in their frame.
#[derive(Debug, Clone, Default)]
pub struct HeaderPairs(Bytes);

impl Eq for HeaderPairs {}

impl PartialEq for HeaderPairs {
    /// What is behind the last whole pair counts for nothing.
    fn eq(&self, other: &HeaderPairs) -> bool {
        self.iter().eq(other.iter())
    }
}

impl HeaderPairs {
    /// `fields`: names and values, each with a NUL behind it.
    pub fn new(fields: Bytes) -> HeaderPairs {
        HeaderPairs(fields)
    }

    /// Bytes of all of them.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Names and values. A value is a slice of the frame, without copying.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Bytes)> {
        fields::pairs(&self.0).map(|(name, value)| (name, self.0.slice_ref(value)))
    }
}

/// What the app raised while it answered a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppError {
    pub class: String,
    pub message: String,
    pub file: String,
    pub line: String,
    pub backtrace: Vec<String>,
    pub cause: String,
    pub detail: String,
}

/// What a HEAD announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// CHUNKs, then END.
    Chunks,
    /// CHUNKs, then END, and the application writes when it likes: nobody knows how long that takes.
    Stream,
    /// One FILE, then END.
    File,
    /// No more frames: the channel is the client's byte stream.
    Raw,
}

/// A frame of the answer to a request, as it came from a worker thread's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The request that it answers.
    pub number: RequestNumber,
    pub frame: FromWorker,
}

/// What a frame from a worker thread's channel says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromWorker {
    Response {
        status: u16,
        busy: bool,
        counters: Counters,
        headers: HeaderPairs,
        body: Bytes,
    },
    Head {
        status: u16,
        kind: HeadKind,
        headers: HeaderPairs,
    },
    Chunk(Bytes),
    File(PathBuf),
    End {
        busy: bool,
        counters: Counters,
    },
    EarlyHints(HeaderPairs),
    Hijack,
    Abort {
        busy: bool,
        counters: Counters,
    },
    Idle,
    Error {
        busy: bool,
        counters: Counters,
        error: Box<AppError>,
    },
    /// What the page was made of, in the form of `auto_cache::wire`.
    Record(Bytes),
    /// The request uses no more processor time: its thread leaves the count.
    Aside,
    /// The response that follows is the application's own page of this exception.
    Raised(Box<AppError>),
}

impl TryFrom<Raw> for Reply {
    type Error = Malformed;

    fn try_from(raw: Raw) -> Result<Reply, Malformed> {
        let mut payload = raw.payload;
        if !(kind::RESPONSE..=kind::RAISED).contains(&raw.kind) {
            return Err(Malformed("unknown type on a channel"));
        }
        let number = take_u64(&mut payload)?;
        Ok(Reply { number, frame: FromWorker::decode(raw.kind, payload)? })
    }
}

impl FromWorker {
    fn decode(kind: u8, mut payload: Bytes) -> Result<FromWorker, Malformed> {
        Ok(match kind {
            kind::RESPONSE => {
                let status = take_u16(&mut payload)?;
                let flags = take_u8(&mut payload)?;
                let counters = take_counters(&mut payload)?;
                let length = take_u32(&mut payload)? as usize;
                let headers = HeaderPairs(take_bytes(&mut payload, length)?);
                FromWorker::Response { status, busy: flags & FLAG_BUSY != 0, counters, headers, body: payload }
            }
            kind::HEAD => {
                let status = take_u16(&mut payload)?;
                let flags = take_u8(&mut payload)?;
                let kind = match flags & (FLAG_RAW | FLAG_FILE) {
                    0 if flags & FLAG_STREAM != 0 => HeadKind::Stream,
                    0 => HeadKind::Chunks,
                    FLAG_FILE => HeadKind::File,
                    _ => HeadKind::Raw,
                };
                FromWorker::Head { status, kind, headers: HeaderPairs(payload) }
            }
            kind::CHUNK => FromWorker::Chunk(payload),
            kind::FILE => {
                use std::os::unix::ffi::OsStrExt;
                FromWorker::File(PathBuf::from(std::ffi::OsStr::from_bytes(&payload)))
            }
            kind::END => {
                let busy = take_u8(&mut payload)? & FLAG_BUSY != 0;
                FromWorker::End { busy, counters: take_counters(&mut payload)? }
            }
            kind::EARLY_HINTS => FromWorker::EarlyHints(HeaderPairs(payload)),
            kind::HIJACK => FromWorker::Hijack,
            kind::ABORT => {
                let busy = take_u8(&mut payload)? & FLAG_BUSY != 0;
                FromWorker::Abort { busy, counters: take_counters(&mut payload)? }
            }
            kind::IDLE => FromWorker::Idle,
            kind::ERROR => {
                let busy = take_u8(&mut payload)? & FLAG_BUSY != 0;
                let counters = take_counters(&mut payload)?;
                FromWorker::Error { busy, counters, error: Box::new(app_error(&payload)) }
            }
            kind::RECORD => FromWorker::Record(payload),
            kind::ASIDE => FromWorker::Aside,
            kind::RAISED => FromWorker::Raised(Box::new(app_error(&payload))),
            _ => return Err(Malformed("unknown type on a channel")),
        })
    }
}

fn app_error(payload: &[u8]) -> AppError {
    let mut error = AppError::default();
    for (name, value) in fields::pairs(payload) {
        let value = String::from_utf8_lossy(value).into_owned();
        match name {
            b"class" => error.class = value,
            b"message" => error.message = value,
            b"file" => error.file = value,
            b"line" => error.line = value,
            b"cause" => error.cause = value,
            b"detail" => error.detail = value,
            b"backtrace" => error.backtrace = value.lines().take(MAX_LINES).map(str::to_owned).collect(),
            _ => {}
        }
    }
    error
}

fn take_counters(payload: &mut Bytes) -> Result<Counters, Malformed> {
    let chunks = take_u32(payload)?;
    let gc = take_u32(payload)?;
    let allocated = take_u32(payload)?;
    let app_started = take_u64(payload)?;
    let app_finished = take_u64(payload)?;
    let length = take_u16(payload)? as usize;
    let spans = take_bytes(payload, length)?;
    let texts = fields::texts(&spans);
    let spans = texts
        .chunks_exact(3)
        .filter_map(|span| Some((span[0].clone(), span[1].parse().ok()?, span[2].parse().ok()?)))
        .collect();
    Ok(Counters { chunks, gc, allocated, app_started, app_finished, spans })
}

const SHORT: Malformed = Malformed("payload ends early");

fn take_bytes(payload: &mut Bytes, length: usize) -> Result<Bytes, Malformed> {
    if payload.len() < length {
        return Err(SHORT);
    }
    Ok(payload.split_to(length))
}

fn take_u8(payload: &mut Bytes) -> Result<u8, Malformed> {
    payload.try_get_u8().map_err(|_| SHORT)
}

fn take_u16(payload: &mut Bytes) -> Result<u16, Malformed> {
    payload.try_get_u16().map_err(|_| SHORT)
}

fn take_u32(payload: &mut Bytes) -> Result<u32, Malformed> {
    payload.try_get_u32().map_err(|_| SHORT)
}

fn take_u64(payload: &mut Bytes) -> Result<u64, Malformed> {
    payload.try_get_u64().map_err(|_| SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_only_when_it_is_whole() {
        let frame = encode(kind::CHUNK, |out| out.put_slice(b"abc"));
        for end in 0..frame.len() {
            assert_eq!(take(&mut BytesMut::from(&frame[..end])), Ok(None), "{end} bytes");
        }
        let mut two = BytesMut::from(&[&frame[..], &frame[..]].concat()[..]);
        for _ in 0..2 {
            let raw = take(&mut two).unwrap().unwrap();
            assert_eq!(FromWorker::decode(raw.kind, raw.payload), Ok(FromWorker::Chunk(Bytes::from_static(b"abc"))));
        }
        assert!(two.is_empty());
    }

    #[test]
    fn an_oversized_length_is_refused_before_anything_is_reserved() {
        assert!(take(&mut BytesMut::from(&[0xff, 0, 0, 0, kind::CHUNK][..])).is_err());
    }

    #[test]
    fn an_announced_length_takes_no_memory_before_it_comes() {
        let mut buffer = BytesMut::from(&[0x00, 0xff, 0xff, 0xff, kind::CHUNK][..]);
        assert_eq!((take(&mut buffer), make_room(&mut buffer)), (Ok(None), FIRST_RESERVED));
        assert!(buffer.capacity() <= 2 * FIRST_RESERVED, "{}", buffer.capacity());
        buffer.put_bytes(0, FIRST_RESERVED);
        assert_eq!(make_room(&mut buffer), RESERVED);
        buffer.put_bytes(0, 2 * RESERVED);
        assert_eq!(make_room(&mut buffer), buffer.len(), "as much again as has come");
    }

    #[test]
    fn room_is_made_for_one_frame_and_no_byte_behind_it() {
        let frame = encode(kind::CHUNK, |out| out.put_bytes(b'a', 10));
        for begun in PREFIX..=frame.len() {
            assert_eq!(make_room(&mut BytesMut::from(&frame[..begun])), frame.len() - begun);
        }
        assert_eq!(make_room(&mut BytesMut::from(&frame[..PREFIX - 1])), 0);
        assert_eq!(
            make_room(&mut BytesMut::from(&[frame.clone(), frame].concat()[..])),
            0,
            "whole frames are to be taken"
        );
        assert_eq!(make_room(&mut BytesMut::from(&[0xff, 0, 0, 0, kind::CHUNK][..])), 0);
    }

    #[test]
    fn a_large_frame_comes_whole_out_of_pieces() {
        let frame = encode(kind::CHUNK, |out| out.put_bytes(b'a', 1 << 20));
        let mut buffer = BytesMut::new();
        for piece in frame.chunks(50_000) {
            assert_eq!(take(&mut buffer), Ok(None));
            buffer.extend_from_slice(piece);
        }
        assert_eq!(take(&mut buffer), Ok(Some(Raw { kind: kind::CHUNK, payload: Bytes::from(frame).slice(PREFIX..) })));
    }

    #[test]
    fn more_lines_than_anybody_reads_are_not_kept() {
        let raw = |kind, payload: Vec<u8>| FromWorker::decode(kind, payload.into());
        let error = [&[0; 31][..], b"backtrace\0", &[b'\n'; 1 << 20], b"\0"].concat();
        match raw(kind::ERROR, error) {
            Ok(FromWorker::Error { error, .. }) => assert_eq!(error.backtrace.len(), MAX_LINES),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_payload_that_ends_early_is_an_error() {
        let whole = encode(kind::RESPONSE, |out| {
            out.put_u64(7);
            out.put_u16(200);
            out.put_u8(0);
            out.put_slice(&[0; 28]);
            out.put_u16(0);
            out.put_u32(4);
            out.put_slice(b"a\0b\0");
        });
        let payload = Bytes::copy_from_slice(&whole[PREFIX..]);
        let reply = Reply::try_from(Raw { kind: kind::RESPONSE, payload: payload.clone() });
        assert_eq!(reply.map(|reply| reply.number), Ok(7));
        for end in 0..payload.len() {
            let raw = Raw { kind: kind::RESPONSE, payload: payload.slice(..end) };
            assert_eq!(Reply::try_from(raw), Err(SHORT), "{end} bytes");
        }
    }
}
