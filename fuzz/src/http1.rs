//! A connection's bytes as the guard follows them: in pieces, holding back what is not judged yet.

use std::ops::Range;

use http_guard::strict::{Follower, Limits, Next};

/// Small, so that the fuzzer finds them.
pub const LIMITS: Limits = Limits { uri: 200, fields_bytes: 1000, fields: 12 };

/// What a connection's bytes come to.
#[derive(Debug, PartialEq, Eq)]
pub struct Followed {
    pub passed: usize,
    pub heads: u64,
    pub next: Next,
    pub in_body: bool,
}

/// Where a message stood.
#[derive(Debug)]
pub struct Message {
    pub head: Range<usize>,
    /// As far as it has come.
    pub body: Range<usize>,
    pub complete: bool,
}

/// Follows the pieces; no request is given another protocol.
pub fn follow<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Followed {
    follow_with(pieces, |_, _, _| {})
}

fn follow_with<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    mut after: impl FnMut(&Follower, usize, Next),
) -> Followed {
    let mut follower = Follower::new(LIMITS);
    let (mut held, mut passed, mut next) = (Vec::new(), 0, Next::More);
    for piece in pieces {
        held.extend_from_slice(piece);
        loop {
            let (good, then) = follower.judge(&held);
            assert!(good <= held.len(), "{good} good bytes of {}", held.len());
            held.drain(..good);
            passed += good;
            next = then;
            after(&follower, passed, next);
            if next != Next::Undecided {
                break;
            }
            follower.keep_protocol();
        }
        assert!(next != Next::More || held.len() <= LIMITS.most_held(), "{} bytes are held back", held.len());
    }
    Followed { passed, heads: follower.heads(), next, in_body: follower.in_body() }
}

/// The messages in what was passed on, found by watching the follower take them byte by byte.
pub fn messages(data: &[u8]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    follow_with(data.chunks(1), |follower, passed, next| {
        if follower.heads() as usize > messages.len() {
            let start = messages.last().map_or(0, |message| message.body.end);
            messages.push(Message { head: start..passed, body: passed..passed, complete: false });
        }
        if let Some(message) = messages.last_mut().filter(|message| !message.complete) {
            message.body.end = passed;
            message.complete = !follower.in_body() && !matches!(next, Next::Broken(_));
        }
    });
    messages
}
