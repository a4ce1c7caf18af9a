//! A connection's HTTP/1.1: the verdict never depends on how the bytes are cut, and what is passed on is what it is
//! taken for.
#![cfg_attr(fuzzing, no_main)]

use http_guard::strict::encode_target;
use libfuzzer_sys::fuzz_target;
use paceline_fuzz::{
    chunked, cuts,
    http1::{follow, messages, Message},
};

fuzz_target!(|data: &[u8]| {
    let whole = follow([data]);
    assert!(whole.passed <= data.len());
    for pieces in cuts(data) {
        assert_eq!(follow(pieces.iter().copied()), whole, "in pieces of {:?}", lengths(&pieces));
    }
    let found = messages(data);
    assert_eq!(found.len() as u64, whole.heads);
    assert_eq!(found.last().map_or(0, |message| message.body.end), whole.passed);
    for message in found {
        check(data, &message);
    }
});

fn lengths(pieces: &[&[u8]]) -> Vec<usize> {
    pieces.iter().map(|piece| piece.len()).collect()
}

/// To the letter, whatever a second reader may make of it.
fn check(data: &[u8], message: &Message) {
    let head = &data[message.head.clone()];
    let text = head.strip_prefix(b"\r\n").unwrap_or(head);
    let lines = text.strip_suffix(b"\r\n\r\n").expect("a head ends with an empty line");
    let lines: Vec<_> =
        lines.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    for line in &lines {
        assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0 | 0x7f)), "a control character");
    }
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), lines.len() + 1, "a line without CR");
    assert_eq!(lines[0].split(|byte| *byte == b' ').count(), 3, "a request line is three words");
    assert!(lines[1..].iter().all(|line| !line.starts_with(b" ") && !line.starts_with(b"\t")), "a folded line");

    // The parser behind finds the same end and the same fields, once the target is percent-encoded.
    let head = &encode_target(head)[..];
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut theirs = httparse::Request::new(&mut fields);
    assert_eq!(theirs.parse(head), Ok(httparse::Status::Complete(head.len())));
    assert!(theirs.path.is_some_and(|path| path.parse::<http::Uri>().is_ok()), "{:?}", theirs.path);
    assert_eq!(theirs.headers.len(), lines.len() - 1);
    let values = |name: &str| {
        let named = |field: &&httparse::Header| field.name.eq_ignore_ascii_case(name);
        theirs.headers.iter().filter(named).map(|field| field.value.trim_ascii()).collect::<Vec<_>>()
    };
    let hosts = values("host");
    assert!(hosts.len() == 1 || hosts.is_empty() && theirs.version == Some(0), "{} hosts", hosts.len());
    for host in hosts {
        assert!(!host.iter().any(|byte| b"/@?#\\ \t\"".contains(byte)), "{host:?}");
    }

    // The body ends where the plain words of RFC 9112 section 6.3 say.
    let body = &data[message.body.clone()];
    match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => assert!(body.is_empty() && message.complete),
        ([length], []) => {
            let length: usize = std::str::from_utf8(length).unwrap().parse().unwrap();
            assert!(body.len() <= length && message.complete == (body.len() == length), "{} of {length}", body.len());
        }
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked"));
            let decoded = chunked::decode(body);
            assert_eq!(decoded.map(|(_, end)| end), message.complete.then_some(body.len()));
        }
        both => panic!("{both:?}"),
    }
}
