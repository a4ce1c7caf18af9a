//! Follows the bytes of an HTTP/1.1 connection from message to message (RFC 9112) and says how far they are beyond
//! doubt. Two readers of the same bytes that disagree on where a message ends are how requests are smuggled: what is
//! not good to the letter is refused here, before the parser that acts on it has seen it. It never reads, waits or
//! answers.

use std::ops::Range;

mod bytes;
mod chunked;
mod head;
mod parsed;
mod target;

pub use head::{encode_target, percent_encode};
pub use parsed::{check_parsed, is_host};

#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;

use chunked::Chunked;
use head::{HeadScan, ScanResult};

/// What a head may measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request target (414).
    pub uri: usize,
    /// Bytes of all field lines of a head, and of all trailer lines (431).
    pub fields_bytes: usize,
    /// Field lines of a head, and of the trailers (431).
    pub fields: usize,
}

impl Limits {
    /// The most bytes that can be held before a head is complete or refused, but for what came in the same read.
    pub fn most_held(&self) -> usize {
        self.uri + self.fields_bytes + head::BESIDE_TARGET
    }
}

/// A message that is not answered by anybody behind: the status, and one sentence for the client and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub reason: &'static str,
}

impl Refusal {
    const fn new(status: u16, reason: &'static str) -> Refusal {
        Refusal { status, reason }
    }
    const fn bad(reason: &'static str) -> Refusal {
        Refusal::new(400, reason)
    }
}

/// A body that was not read to its end, with the status of the answer.
#[derive(Debug)]
pub struct BadBody(pub Refusal);

impl std::fmt::Display for BadBody {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0.reason)
    }
}

impl std::error::Error for BadBody {}

/// How the end of a message's body is known (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// What comes after the bytes that were found good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing, or a head that is not complete: judge it again together with what follows.
    More,
    /// A head that is refused, in whole or already by its beginning.
    Refused(Refusal),
    /// A body whose framing is broken; its head has been passed on before.
    Broken(Refusal),
    /// Bytes whose meaning depends on the answer to a request for another protocol (RFC 9110 section 7.8).
    Undecided,
}

#[derive(Debug)]
enum State {
    Head(HeadScan),
    Length(u64),
    Chunked(Chunked),
    Undecided,
    Over(Next),
}

/// Follows one connection.
#[derive(Debug)]
pub struct Follower {
    limits: Limits,
    state: State,
    /// The message in hand asks for another protocol.
    upgrade: bool,
    heads: u64,
    /// In the bytes that were judged last.
    raw_heads: Vec<Range<usize>>,
}

impl Follower {
    pub fn new(limits: Limits) -> Follower {
        Follower { limits, state: State::Head(HeadScan::default()), upgrade: false, heads: 0, raw_heads: Vec::new() }
    }

    /// Judges the next bytes: the count of those at the front that are good, and what comes after them. Bytes that are
    /// not among the good ones have to be the front of the next call.
    pub fn judge(&mut self, bytes: &[u8]) -> (usize, Next) {
        let mut good = 0;
        self.raw_heads.clear();
        loop {
            let rest = &bytes[good..];
            match &mut self.state {
                State::Head(scan) => match scan.advance(rest, &self.limits) {
                    ScanResult::Incomplete => return (good, Next::More),
                    ScanResult::Refused(refusal) => self.state = State::Over(Next::Refused(refusal)),
                    ScanResult::Complete(head) => {
                        if head.raw_target {
                            self.raw_heads.push(good..good + head.length);
                        }
                        good += head.length;
                        self.heads += 1;
                        self.upgrade = head.upgrade;
                        self.state = match head.framing {
                            Framing::None | Framing::Length(0) => self.after_message(),
                            Framing::Length(length) => State::Length(length),
                            Framing::Chunked => State::Chunked(Chunked::default()),
                        };
                    }
                },
                State::Length(left) => {
                    let here = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    good += here;
                    *left -= here as u64;
                    if *left > 0 {
                        return (good, Next::More);
                    }
                    self.state = self.after_message();
                }
                State::Chunked(chunked) => match chunked.advance(rest, &self.limits) {
                    (here, Ok(ended)) => {
                        good += here;
                        if !ended {
                            return (good, Next::More);
                        }
                        self.state = self.after_message();
                    }
                    (here, Err(refusal)) => {
                        good += here;
                        self.state = State::Over(Next::Broken(refusal));
                    }
                },
                State::Undecided => return (good, Next::Undecided),
                State::Over(next) => return (good, *next),
            }
        }
    }

    fn after_message(&self) -> State {
        if self.upgrade {
            State::Undecided
        } else {
            State::Head(HeadScan::default())
        }
    }

    /// The connection keeps its protocol: what follows is the next message.
    pub fn keep_protocol(&mut self) {
        if matches!(self.state, State::Undecided) {
            self.state = State::Head(HeadScan::default());
        }
    }

    /// The heads among the bytes that `judge` found good last whose targets have bytes that are not ASCII: a parser is
    /// to get them by `encode_target`.
    pub fn raw_heads(&self) -> &[Range<usize>] {
        &self.raw_heads
    }

    /// Heads found good so far.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Whether a body is under way.
    pub fn in_body(&self) -> bool {
        matches!(self.state, State::Length(_) | State::Chunked(_))
    }

    /// Whether a request line has begun.
    pub fn in_head(&self) -> bool {
        matches!(&self.state, State::Head(scan) if scan.has_begun())
    }

    pub fn is_undecided(&self) -> bool {
        matches!(self.state, State::Undecided)
    }
}
