//! The frames of a client as they pass, known by their nine-byte headers alone (RFC 9113 section 4.1), and what they
//! cost. Of payloads it reads header blocks, for the one character that has to be changed there. Pure: it reads no stream, keeps no
//! payload and knows no time but what it is told.

use std::{mem, time::Duration};

use http_guard::field_blocks::FieldBlocks;

/// RFC 9113 section 3.4, bytes.
const PREFACE: u8 = 24;
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// Bytes of a HEADERS frame's priority (section 6.2).
const PRIORITY_FIELDS: u32 = 5;

/// A change of settings may touch every stream, and has to be acknowledged before anything else is read.
const SETTINGS_COST: u32 = 10;

/// What went past.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub struct FrameTally {
    /// Header blocks begun: requests, and trailers.
    pub heads: u32,
    /// The price of frames that carry nothing: all but headers and data.
    pub cost: u32,
    /// Bytes of DATA frames.
    pub data: u64,
}

/// Where in the client's frames the connection is.
#[derive(Debug)]
pub struct Follower {
    /// Bytes of the preface that are to come.
    preface: u8,
    /// A frame's header as far as it is there.
    header: [u8; HEADER],
    seen: usize,
    /// What is to come of the payload of a frame of this kind.
    left: u32,
    kind: u8,
    /// The stream whose header block has begun and not ended (section 4.3).
    block: Option<u32>,
    /// The client's first SETTINGS, which it has to begin with, are there.
    settled: bool,
    /// Frames and header blocks that have begun.
    begun: u64,
    /// What stands before and behind the piece of a header block in its frame: the length of the padding, if that is to come, then the
    /// priority; and the padding.
    has_padding: bool,
    before: u32,
    padding: u32,
    fields: FieldBlocks,
}

impl Default for Follower {
    fn default() -> Follower {
        Follower {
            preface: PREFACE,
            header: [0; HEADER],
            seen: 0,
            left: 0,
            kind: SETTINGS,
            block: None,
            settled: false,
            begun: 0,
            has_padding: false,
            before: 0,
            padding: 0,
            fields: FieldBlocks::default(),
        }
    }
}

impl Follower {
    /// Follows what came. With `stop` no further than to the end of a frame; the number says how many bytes that were.
    pub fn follow(&mut self, bytes: &mut [u8], stop: bool) -> (usize, FrameTally) {
        let mut passed = FrameTally::default();
        let length = bytes.len();
        let mut rest = &mut bytes[length.min(usize::from(self.preface))..];
        self.preface -= u8::try_from(length - rest.len()).unwrap_or(self.preface);
        while !(rest.is_empty() || stop && self.at_boundary()) {
            if self.left > 0 {
                let count = rest.len().min(self.left as usize);
                let piece;
                (piece, rest) = mem::take(&mut rest).split_at_mut(count);
                if matches!(self.kind, HEADERS | CONTINUATION) {
                    self.pass_fields(piece);
                }
                // Not more than `left`, which is a u32.
                self.left -= count as u32;
                if self.kind == DATA {
                    passed.data += count as u64;
                }
                if self.left == 0 {
                    self.end_of_frame();
                }
                continue;
            }
            if self.seen == 0 && self.block.is_none() {
                self.begun += 1;
            }
            let count = rest.len().min(HEADER - self.seen);
            self.header[self.seen..self.seen + count].copy_from_slice(&rest[..count]);
            self.seen += count;
            rest = &mut mem::take(&mut rest)[count..];
            if self.seen == HEADER {
                self.begin_frame(&mut passed);
            }
        }
        (length - rest.len(), passed)
    }

    /// A piece of the payload of HEADERS or CONTINUATION.
    fn pass_fields(&mut self, mut piece: &mut [u8]) {
        let mut left = self.left;
        if self.has_padding {
            self.padding = u32::from(piece[0]);
            self.has_padding = false;
            left -= 1;
            piece = &mut piece[1..];
        }
        let count = piece.len().min(self.before as usize);
        // Neither is more than a u32.
        self.before -= count as u32;
        left -= count as u32;
        let fields = left.saturating_sub(self.padding) as usize;
        let end = piece.len().min(count + fields);
        self.fields.pass(&mut piece[count..end]);
    }

    fn begin_frame(&mut self, passed: &mut FrameTally) {
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        self.seen = 0;
        self.left = u32::from_be_bytes([0, a, b, c]);
        self.kind = kind;
        match kind {
            DATA if self.left == 0 && flags & END_STREAM == 0 => passed.cost += 1,
            DATA => {}
            HEADERS | CONTINUATION => {
                passed.heads += u32::from(kind == HEADERS);
                let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
                self.block = (flags & END_HEADERS == 0).then_some(stream);
                // A CONTINUATION has neither.
                let has = |flag: u8| kind == HEADERS && flags & flag != 0;
                (self.has_padding, self.padding) = (has(PADDED), 0);
                self.before = if has(PRIORITY) { PRIORITY_FIELDS } else { 0 };
            }
            SETTINGS if flags & ACK == 0 => passed.cost += SETTINGS_COST,
            // Also kinds that nobody knows: they are ignored, and cost a look (section 5.5).
            _ => passed.cost += 1,
        }
        if self.left == 0 {
            self.end_of_frame();
        }
    }

    fn end_of_frame(&mut self) {
        self.settled |= self.kind == SETTINGS;
    }

    /// Whether the next byte begins a frame.
    pub fn at_boundary(&self) -> bool {
        self.preface == 0 && self.seen == 0 && self.left == 0
    }

    /// The stream of the header block that is open.
    pub fn block(&self) -> Option<u32> {
        self.block
    }

    /// What has begun and has to end in the time of a head, by number: the preface with SETTINGS (0), a header block,
    /// or any frame but DATA, which is a body's matter.
    pub fn unfinished(&self) -> Option<u64> {
        if !self.settled {
            return Some(0);
        }
        let in_frame = self.seen > 0 || self.left > 0 && self.kind != DATA;
        (in_frame || self.block.is_some()).then_some(self.begun)
    }
}

/// Frames that carry nothing and that a client may send at once, and how many more in each second. A client that opens
/// its window by what each frame brought, however little, sends thousands of them and means no harm.
const BURST: u32 = 10_000;
const PER_SECOND: u32 = 1000;
/// Further ones it has earned by what it asked for and was given; no more than this are kept for later.
const MAX_EARNED: u32 = 100_000;
/// For each header block: it may be prioritized and taken back.
const FOR_A_HEAD: u32 = 4;
/// For each piece of a response: it is acknowledged by WINDOW_UPDATE for its stream and for the connection, and may be
/// measured by PING.
const FOR_A_PIECE: u32 = 3;
/// And one for so many bytes on their way to the client: one that gives each frame back at once, for the stream and for
/// the connection, makes the frames that follow small, but not as small as one that opens its window by single bytes.
const BYTES_FOR_ONE: u64 = 64;

/// How many frames that carry nothing a client may still send.
#[derive(Debug)]
pub struct Allowance {
    left: u32,
    /// When time was counted last.
    counted: Duration,
    /// Bytes written for which nothing was given yet.
    bytes: u64,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: BURST, counted: Duration::ZERO, bytes: 0 }
    }
}

impl Allowance {
    /// Bytes were written to the client.
    pub fn written(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        let earned = u32::try_from(self.bytes / BYTES_FOR_ONE).unwrap_or(MAX_EARNED);
        self.bytes %= BYTES_FOR_ONE;
        self.earn(earned);
    }

    fn earn(&mut self, count: u32) {
        self.left = self.left.saturating_add(count).min(MAX_EARNED.max(BURST));
    }

    /// Pays for what passed, where `pieces` of responses were handed out; `now` since the connection began. False: it
    /// is too much.
    pub fn pay(&mut self, passed: FrameTally, pieces: u32, now: impl FnOnce() -> Duration) -> bool {
        self.earn(passed.heads.saturating_mul(FOR_A_HEAD).saturating_add(pieces.saturating_mul(FOR_A_PIECE)));
        if passed.cost > self.left {
            // Time is looked at only when it matters.
            let now = now();
            let given = now.saturating_sub(self.counted).as_millis() * u128::from(PER_SECOND) / 1000;
            let given = u32::try_from(given).unwrap_or(BURST).min(BURST);
            if given > 0 {
                self.counted = now;
            }
            self.left = self.left.saturating_add(given).min(self.left.max(BURST));
        }
        let enough = passed.cost <= self.left;
        self.left = self.left.saturating_sub(passed.cost);
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRI: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn conversation() -> Vec<u8> {
        let frames = [
            frame(SETTINGS, 0, 0, &[0; 6]),
            frame(SETTINGS, ACK, 0, &[]),
            frame(HEADERS, 0, 1, b"abc"),
            frame(CONTINUATION, 0, 1, b""),
            frame(CONTINUATION, END_HEADERS, 1, b"d"),
            frame(DATA, 0, 1, &[7; 300]),
            frame(DATA, 0, 1, b""),
            frame(6, 0, 0, &[0; 8]),
            frame(0xfa, 0, 0, &[0; 20]),
            frame(DATA, END_STREAM, 1, b""),
        ];
        PRI.iter().copied().chain(frames.concat()).collect()
    }

    const ALL: FrameTally = FrameTally { heads: 1, cost: SETTINGS_COST + 4, data: 300 };

    #[test]
    fn frames_are_counted_alike_wherever_they_are_split() {
        let bytes = conversation();
        for first in 0..=bytes.len() {
            for length in [1, 2, 9, 10, 100, bytes.len()] {
                let (mut follower, mut sum) = (Follower::default(), FrameTally::default());
                let pieces = [&bytes[..first]].into_iter().chain(bytes[first..].chunks(length));
                for piece in pieces {
                    let (count, passed) = follower.follow(&mut piece.to_vec(), false);
                    assert_eq!(count, piece.len());
                    sum.heads += passed.heads;
                    sum.cost += passed.cost;
                    sum.data += passed.data;
                }
                assert_eq!((sum, follower.at_boundary(), follower.unfinished()), (ALL, true, None), "{first} {length}");
            }
        }
    }

    #[test]
    fn what_has_begun_is_unfinished_until_it_ends() {
        let bytes = conversation();
        let mut follower = Follower::default();
        let states: Vec<_> =
            bytes.chunks(1).map(|byte| (follower.follow(&mut byte.to_vec(), false), follower.unfinished()).1).collect();
        let settled = PRI.len() + 15;
        assert!(states[..settled - 1].iter().all(|state| *state == Some(0)));
        assert_eq!(states[settled - 1], None);
        // The header block is one, over its three frames.
        let block = settled + 9..settled + 9 + 12 + 9 + 10;
        let number = states[block.start];
        assert!(number > Some(0) && states[block.start..block.end - 1].iter().all(|state| *state == number));
        assert_eq!(states[block.end - 1], None);
        // A payload of DATA has all the time that a body has.
        assert!(states[block.end + 8..block.end + 8 + 300].iter().all(Option::is_none));
        assert_ne!(states[block.end], number);
    }

    #[test]
    fn it_stops_at_the_end_of_a_frame() {
        let mut bytes = conversation();
        let mut follower = Follower::default();
        let (mut at, mut ends) = (0, Vec::new());
        for _ in 0..3 {
            let (count, _) = follower.follow(&mut bytes[at..at + 1], true);
            at += count;
            at += follower.follow(&mut bytes[at..], true).0;
            ends.push((at - PRI.len(), follower.block()));
            follower.follow(&mut bytes[at..at + 1], false);
            at += 1;
        }
        assert_eq!(ends, [(0, None), (15, None), (24, None)]);
    }

    #[test]
    fn an_open_header_block_is_known_by_its_stream() {
        let mut follower = Follower::default();
        follower.follow(&mut PRI.to_vec(), false);
        follower.follow(&mut frame(HEADERS, 0, 77, b"x"), false);
        assert_eq!((follower.block(), follower.at_boundary()), (Some(77), true));
    }

    /// A HEADERS frame, and others around it: a literal field `:path`, with padding, with priority, in several frames.
    fn requests(path: &[u8]) -> Vec<u8> {
        let field = [&[0x04, path.len() as u8], path].concat();
        let (first, rest) = field.split_at(3);
        let priority = [0, 0, 0, 0, 9];
        let frames = [
            frame(SETTINGS, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, &field),
            frame(HEADERS, END_HEADERS | PRIORITY, 3, &[&priority[..], &field].concat()),
            frame(HEADERS, END_HEADERS | PADDED, 5, &[&[2], &field[..], b"##"].concat()),
            frame(HEADERS, PADDED | PRIORITY, 7, &[&[2], &priority[..], first, b"##"].concat()),
            frame(CONTINUATION, 0, 7, b""),
            frame(CONTINUATION, END_HEADERS | PADDED | PRIORITY, 7, rest),
            frame(DATA, END_STREAM, 7, b"/#"),
        ];
        PRI.iter().copied().chain(frames.concat()).collect()
    }

    #[test]
    fn no_path_is_cut_off_in_any_frame() {
        for length in [1, 2, 3, 7, 50, 1000] {
            let (mut follower, mut bytes) = (Follower::default(), requests(b"/a#b"));
            for piece in bytes.chunks_mut(length) {
                follower.follow(piece, false);
            }
            assert_eq!(bytes, requests(b"/a>b"), "in pieces of {length}");
        }
        // More padding than payload: the library ends the connection.
        let mut nonsense = [PRI, &frame(HEADERS, PADDED, 1, &[9, 4]), &frame(HEADERS, PADDED, 1, &[9])].concat();
        Follower::default().follow(&mut nonsense, false);
    }

    #[test]
    fn an_allowance_is_spent_earned_and_given_by_time() {
        let cost = |cost| FrameTally { cost, ..FrameTally::default() };
        let mut allowance = Allowance::default();
        assert!(allowance.pay(cost(BURST), 0, || Duration::ZERO));
        assert!(!allowance.pay(cost(1), 0, || Duration::ZERO));
        assert!(allowance.pay(cost(PER_SECOND), 0, || Duration::from_secs(1)));
        assert!(!allowance.pay(cost(1), 0, || Duration::from_secs(1)));
        // However long it was silent.
        assert!(!allowance.pay(cost(BURST + 1), 0, || Duration::from_secs(3600)));
        assert!(allowance.pay(FrameTally { heads: 2, cost: 8, data: 0 }, 0, || Duration::from_secs(3600)));
        assert!(allowance.pay(cost(6), 2, || Duration::from_secs(3600)));
        (0..64).for_each(|_| allowance.written(100));
        assert!(allowance.pay(cost(100), 0, || Duration::from_secs(3600)));
        assert!(!allowance.pay(cost(1), 0, || Duration::from_secs(3600)));
        allowance.written(1 << 40);
        assert!(allowance.pay(cost(MAX_EARNED), 0, || Duration::from_secs(3600)));
        assert!(!allowance.pay(cost(1), 0, || Duration::from_secs(3600)));
    }
}
