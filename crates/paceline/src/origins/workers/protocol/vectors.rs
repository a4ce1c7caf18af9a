//! The golden vectors of test/vectors, which the Ruby side reads too: what Ruby sends is decoded to what the vector
//! says, and what the front sends is encoded to the vector's very bytes. It never makes a vector.

use std::{fs, os::unix::ffi::OsStrExt, path::Path};

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    fields,
    frame::{self, encode, kind, AppError, FromWorker, HeadKind, HeaderPairs, Raw, Reply},
};
use crate::exchange::Counters;

struct Vector {
    name: String,
    lines: Vec<(String, Vec<u8>)>,
}

impl Vector {
    fn read(path: &Path) -> Vector {
        let text = fs::read_to_string(path).unwrap();
        let line = |line: &str| {
            let (key, value) = line.split_once(':').unwrap();
            (key.to_owned(), unescape(value.strip_prefix(' ').unwrap()))
        };
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Vector { name, lines: text.lines().map(line).collect() }
    }

    fn all(&self, key: &str) -> Vec<&[u8]> {
        self.lines.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_slice()).collect()
    }

    fn one(&self, key: &str) -> Option<&[u8]> {
        self.all(key).first().copied()
    }

    fn text(&self, key: &str) -> String {
        String::from_utf8_lossy(self.one(key).unwrap_or_default()).into_owned()
    }

    fn number(&self, key: &str) -> u64 {
        self.text(key).parse().unwrap()
    }

    fn frame(&self) -> Vec<u8> {
        let hex = self.one("hex").unwrap();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        hex.chunks(2).map(byte).collect()
    }

    fn flags(&self) -> u8 {
        self.number("flags").try_into().unwrap()
    }

    fn busy(&self) -> bool {
        self.flags() & 1 != 0
    }

    fn counters(&self) -> Counters {
        let spans: Vec<_> = self.all("span").into_iter().map(|text| String::from_utf8_lossy(text)).collect();
        let span = |span: &[std::borrow::Cow<str>]| {
            (span[0].clone().into_owned(), span[1].parse().unwrap(), span[2].parse().unwrap())
        };
        Counters {
            chunks: self.number("chunks").try_into().unwrap(),
            gc: self.number("gc").try_into().unwrap(),
            allocated: self.number("allocated").try_into().unwrap(),
            app_started: self.number("started"),
            app_finished: self.number("finished"),
            spans: spans.chunks(3).map(span).collect(),
        }
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((plain, escaped)) = rest.split_once('\\') {
        out.extend(plain.bytes());
        rest = match escaped.strip_prefix('x') {
            Some(hex) => {
                out.push(u8::from_str_radix(&hex[..2], 16).unwrap());
                &hex[2..]
            }
            None => {
                out.push(b'\\');
                &escaped[1..]
            }
        };
    }
    out.extend(rest.bytes());
    out
}

fn put_all(out: &mut Vec<u8>, vector: &Vector) {
    for value in vector.all("field").into_iter().chain(vector.all("pair")) {
        fields::put(out, value);
    }
}

/// What the front sends; None for what it only receives.
fn encoded(vector: &Vector) -> Option<Vec<u8>> {
    let body = vector.one("body").unwrap_or_default();
    Some(match vector.text("type").as_str() {
        "REQUEST" => frame::request(vector.number("number"), vector.flags(), |out| put_all(out, vector), body),
        "BODY" => encode(kind::BODY, |out| out.put_slice(body)),
        "BODY_END" => encode(kind::BODY_END, |out| out.put_u8(vector.flags())),
        "CANCEL" => encode(kind::CANCEL, |out| out.put_u64(vector.number("number"))),
        "WAKE" => super::channel::WAKE.to_vec(),
        "START" => encode(kind::START, |out| put_all(out, vector)),
        "FORK" => encode(kind::FORK, |out| put_all(out, vector)),
        "RELEASE" => encode(kind::RELEASE, |out| put_all(out, vector)),
        "SHADOW" => frame::shadow(Path::new(&vector.text("field"))),
        "MOLD" => encode(kind::MOLD, |out| put_all(out, vector)),
        "CONFIGURE" => encode(kind::CONFIGURE, |out| put_all(out, vector)),
        "ENVIRONMENT" => encode(kind::ENVIRONMENT, |out| put_all(out, vector)),
        "BOOTED" => encode(kind::BOOTED, |_| {}),
        "STOPPED" => encode(kind::STOPPED, |_| {}),
        "DRAIN" => encode(kind::DRAIN, |out| put_all(out, vector)),
        "ASK_MEMORY" => encode(kind::ASK_MEMORY, |_| {}),
        "SPARE" => encode(kind::SPARE, |_| {}),
        "ASK_BACKTRACE" => encode(kind::ASK_BACKTRACE, |out| put_all(out, vector)),
        _ => return None,
    })
}

fn check_received(vector: &Vector, raw: Raw) {
    let name = &vector.name;
    let mut pairs = Vec::new();
    vector.all("pair").into_iter().for_each(|field| fields::put(&mut pairs, field));
    let pairs = HeaderPairs::new(pairs.into());
    let body = vector.one("body").map(Bytes::copy_from_slice);
    if raw.kind == kind::NOTICE {
        return assert!(raw.payload.is_empty(), "{name}");
    }
    if raw.kind >= kind::STEP {
        let expected = if pairs.size() == 0 { vector.all("field") } else { vector.all("pair") };
        assert_eq!(fields::iter(&raw.payload).collect::<Vec<_>>(), expected, "{name}");
        return;
    }
    let expected = match vector.text("type").as_str() {
        "RESPONSE" => FromWorker::Response {
            status: vector.number("status").try_into().unwrap(),
            busy: vector.busy(),
            counters: vector.counters(),
            headers: pairs,
            body: body.unwrap(),
        },
        "HEAD" => FromWorker::Head {
            status: vector.number("status").try_into().unwrap(),
            kind: match vector.flags() {
                0 => HeadKind::Chunks,
                2 => HeadKind::Raw,
                4 => HeadKind::File,
                8 => HeadKind::Stream,
                flags => panic!("{name}: flags {flags}"),
            },
            headers: pairs,
        },
        "CHUNK" => FromWorker::Chunk(body.unwrap()),
        "FILE" => FromWorker::File(std::ffi::OsStr::from_bytes(&body.unwrap()).into()),
        "END" => FromWorker::End { busy: vector.busy(), counters: vector.counters() },
        "EARLY_HINTS" => FromWorker::EarlyHints(pairs),
        "HIJACK" => FromWorker::Hijack,
        "ABORT" => FromWorker::Abort { busy: vector.busy(), counters: vector.counters() },
        "IDLE" => FromWorker::Idle,
        "ASIDE" => FromWorker::Aside,
        "RECORD" => FromWorker::Record(body.unwrap()),
        "ERROR" | "RAISED" => match Reply::try_from(raw.clone()).unwrap().frame {
            FromWorker::Error { error, .. } => {
                check_error(vector, &error);
                FromWorker::Error { busy: vector.busy(), counters: vector.counters(), error }
            }
            FromWorker::Raised(error) => {
                check_error(vector, &error);
                FromWorker::Raised(error)
            }
            other => panic!("{name}: {other:?}"),
        },
        other => panic!("{name}: a frame the front does not know: {other}"),
    };
    let expected = Reply { number: vector.number("number"), frame: expected };
    assert_eq!(Reply::try_from(raw), Ok(expected), "{name}");
}

fn check_error(vector: &Vector, error: &AppError) {
    let AppError { class, message, file, line, backtrace, cause, detail } = error;
    let told = [class, message, file, line, &backtrace.join("\n"), cause, detail];
    let values: Vec<_> = vector.all("pair").into_iter().skip(1).step_by(2).collect();
    assert_eq!(told.map(|text| text.as_bytes()).to_vec(), values, "{}", vector.name);
}

#[test]
fn every_vector_is_read_or_written_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/vectors");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let vectors: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).map(|path| Vector::read(&path)).collect();
    let mut kinds = std::collections::BTreeSet::new();
    for vector in &vectors {
        let mut buffer = BytesMut::from(&vector.frame()[..]);
        let raw = frame::take(&mut buffer).unwrap().unwrap();
        assert!(buffer.is_empty(), "{}: bytes behind the frame", vector.name);
        kinds.insert(raw.kind);
        match encoded(vector) {
            Some(frame) => assert_eq!(frame, vector.frame(), "{}", vector.name),
            None => check_received(vector, raw),
        }
    }
    assert_eq!(kinds.len(), 47, "a vector for each type of frame");
}
