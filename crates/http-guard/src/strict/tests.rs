//! Whatever the way the bytes are cut into pieces, they are judged alike; and a few judgements that name their reason.
//! (The table of messages is test/http1/cases.rb, which runs against the real front.)

use super::*;

pub const LIMITS: Limits = Limits { uri: 200, fields_bytes: 1000, fields: 20 };

/// What a connection's bytes come to when they arrive in these pieces: how many are good, the heads among them, the
/// end.
pub fn follow<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> (usize, u64, Next) {
    let mut follower = Follower::new(limits);
    let (mut held, mut passed) = (Vec::new(), 0);
    let mut next = Next::More;
    for piece in pieces {
        held.extend_from_slice(piece);
        let (good, then) = follower.judge(&held);
        assert!(good <= held.len());
        held.drain(..good);
        passed += good;
        next = then;
        assert!(next != Next::More || held.len() <= limits.most_held(), "holds {}", held.len());
    }
    (passed, follower.heads(), next)
}

fn whole(bytes: &[u8]) -> (usize, u64, Next) {
    follow(LIMITS, [bytes])
}

const GET: &[u8] = b"GET /a?b=c HTTP/1.1\r\nHost: example.test\r\nAccept: */*\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
    5;a=b\r\nhello\r\n00a ; c=\"d;e\"\r\n0123456789\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n";
const LEADING: &[u8] = b"\r\nOPTIONS * HTTP/1.0\r\n\r\n";
const ABSOLUTE: &[u8] = b"GET http://Example.test:80/ HTTP/1.1\r\nHost: example.TEST\r\n\r\n";

fn valid() -> Vec<Vec<u8>> {
    let all = [GET, POST, CHUNKED, LEADING, ABSOLUTE];
    let mut messages: Vec<Vec<u8>> = all.iter().map(|one| one.to_vec()).collect();
    messages.extend(all.iter().flat_map(|first| all.iter().map(move |second| [*first, second].concat())));
    messages
}

/// The property: for every valid message, alone and followed by each other one, cut at every place, at every two
/// places, and into single bytes.
#[test]
fn valid_messages_are_good_however_they_are_cut() {
    for message in valid() {
        let expected = whole(&message);
        assert_eq!((expected.0, expected.2), (message.len(), Next::More), "{:?}", String::from_utf8_lossy(&message));
        assert_eq!(follow(LIMITS, message.chunks(1)), expected);
        for first in 0..=message.len() {
            assert_eq!(follow(LIMITS, [&message[..first], &message[first..]]), expected, "cut at {first}");
            for second in first..=message.len().min(first + 40) {
                let pieces = [&message[..first], &message[first..second], &message[second..]];
                assert_eq!(follow(LIMITS, pieces), expected, "cut at {first} and {second}");
            }
        }
    }
}

/// A bad message after a good one is refused for the same reason, with the same bytes found good, however it is cut.
#[test]
fn bad_messages_are_refused_alike_however_they_are_cut() {
    for bad in [
        &b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"[..],
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n",
    ] {
        let message = [GET, bad].concat();
        let expected = whole(&message);
        assert!(matches!(expected.2, Next::Refused(_) | Next::Broken(_)), "{expected:?}");
        assert_eq!(follow(LIMITS, message.chunks(1)), expected, "{:?}", String::from_utf8_lossy(bad));
        for first in 0..=message.len() {
            assert_eq!(follow(LIMITS, [&message[..first], &message[first..]]), expected, "cut at {first}");
        }
    }
}

#[test]
fn what_is_too_long_is_refused_before_its_end_has_come() {
    let status = |bytes: &[u8]| match whole(bytes).2 {
        Next::Refused(refusal) | Next::Broken(refusal) => refusal.status,
        next => panic!("{next:?}"),
    };
    assert_eq!(status(format!("GET /{}", "a".repeat(300)).as_bytes()), 414);
    assert_eq!(status(format!("GET /{} HTTP/1.1\r\n", "é".repeat(34)).as_bytes()), 414, "encoded it is too long");
    let head = "GET / HTTP/1.1\r\nHost: a\r\n";
    assert_eq!(status(format!("{head}X: {}", "a".repeat(1000)).as_bytes()), 431);
    assert_eq!(status(format!("{head}{}", "X: y\r\n".repeat(20)).as_bytes()), 431);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(status(format!("{chunked}5;{}", "a".repeat(9000)).as_bytes()), 400);
    assert_eq!(status(format!("{chunked}0\r\nX: {}", "a".repeat(1000)).as_bytes()), 431);
    assert_eq!(status(format!("{chunked}0\r\n{}", "X: y\r\n".repeat(21)).as_bytes()), 431);
}

/// RFC 9110 section 7.8: after a request for another protocol nothing is known until it is answered.
#[test]
fn bytes_after_an_upgrade_request_wait_for_its_answer() {
    let ask = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut follower = Follower::new(LIMITS);
    let all = [&ask[..], GET].concat();
    assert_eq!(follower.judge(&all), (ask.len(), Next::Undecided));
    assert_eq!(follower.judge(GET), (0, Next::Undecided));
    follower.keep_protocol();
    assert_eq!(follower.judge(GET), (GET.len(), Next::More));
    assert_eq!(follower.heads(), 2);
}

#[test]
fn a_body_is_never_taken_for_a_head() {
    let mut follower = Follower::new(LIMITS);
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744\r\n\r\n";
    assert_eq!(follower.judge(head), (head.len(), Next::More));
    assert!(follower.in_body());
    for _ in 0..10 {
        assert_eq!(follower.judge(b"GET /x HTTP/1.1\nbad\0\n\n"), (22, Next::More));
    }
    assert_eq!(follower.heads(), 1);
}
