//! Random damage to valid messages, from a fixed seed: nothing panics, nothing is held without bound, what is good
//! never depends on how the bytes are cut, and whatever is passed on the parser behind reads as the same messages.

use super::{tests::follow, *};

const LIMITS: Limits = Limits { uri: 120, fields_bytes: 600, fields: 12 };
const ROUNDS: usize = 60_000;

const SEEDS: &[&[u8]] = &[
    b"GET /a?b=c HTTP/1.1\r\nHost: example.test\r\nAccept: */*\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"GET http://a:80/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nbytes",
    b"OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
];
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"0",
    b"chunked",
    b"Content-Length: 1\r\n",
    b"\xff",
    b"Transfer-Encoding: chunked\r\n",
    b"HTTP/1.1",
    b"ffffffffffffffff",
    b"Host: b\r\n",
    b"\r\n\r\n",
    b"?",
    b"%",
];

/// xorshift64*.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }
}

fn damaged(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = SEEDS[dice.below(SEEDS.len())].to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 if at < bytes.len() => bytes[at] = dice.below(256) as u8,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => drop(bytes.splice(at..at, SEEDS[dice.below(SEEDS.len())].iter().copied())),
            3 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, PIECES[dice.below(PIECES.len())].iter().copied())),
        }
    }
    bytes
}

#[test]
fn damage_is_judged_alike_however_it_is_cut_and_the_parser_behind_agrees() {
    let mut dice = Dice(0x5eed_0001);
    let (mut refused, mut good_heads) = (0, 0);
    for round in 0..ROUNDS {
        let bytes = damaged(&mut dice);
        let whole = follow(LIMITS, [&bytes[..]]);
        let cut = dice.below(bytes.len() + 1);
        let in_two = follow(LIMITS, [&bytes[..cut], &bytes[cut..]]);
        assert_eq!(in_two, whole, "round {round}: {:?} cut at {cut}", String::from_utf8_lossy(&bytes));
        assert_eq!(follow(LIMITS, bytes.chunks(1)), whole, "round {round}: {:?}", String::from_utf8_lossy(&bytes));
        refused += usize::from(matches!(whole.2, Next::Refused(_) | Next::Broken(_)));
        good_heads += first_head_agrees(&bytes);
    }
    // Neither is the rare case, or the damage would prove nothing.
    assert!(refused > ROUNDS / 4 && good_heads > ROUNDS / 8, "{refused} refused, {good_heads} good heads");
}

/// httparse, which hyper uses, finds a good head complete at the very same byte, with the same fields that frame the
/// body.
fn first_head_agrees(bytes: &[u8]) -> usize {
    let ScanResult::Complete(ours) = HeadScan::default().advance(bytes, &LIMITS) else { return 0 };
    let encoded = encode_target(&bytes[..ours.length]);
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut theirs = httparse::Request::new(&mut fields);
    let parsed = theirs.parse(&encoded).unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(bytes)));
    assert_eq!(parsed, httparse::Status::Complete(encoded.len()), "{:?}", String::from_utf8_lossy(bytes));
    let count = |name: &str| theirs.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).count();
    assert_eq!(count("content-length"), usize::from(matches!(ours.framing, Framing::Length(_))));
    assert_eq!(count("transfer-encoding") > 0, ours.framing == Framing::Chunked);
    assert!(theirs.path.is_some_and(|path| path.parse::<http::Uri>().is_ok()), "{:?}", theirs.path);
    1
}
