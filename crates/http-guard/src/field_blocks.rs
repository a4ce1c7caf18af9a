//! The header blocks of a client of HTTP/2 (HPACK, RFC 7541) as they pass: a `#` in a `:path` becomes a `>`, which every check refuses. The
//! library that reads them cuts a path off there without a word, and would ask for another page than the client's. Both characters take the
//! same room, also in Huffman's code, so nothing else changes. It keeps no value, and leaves what is malformed to that library.

use std::collections::VecDeque;

/// Bytes of the dynamic table (section 4.2): this server never asks for another size.
const TABLE: u64 = 4096;
/// What an entry counts beside its name and value (section 4.1).
const ENTRY: u64 = 32;
const PATH: &[u8] = b":path";
/// `:path` in Huffman's code: how many bits, and which.
const PATH_CODES: [(u8, u32); 5] = [(7, 0x5c), (6, 0x2b), (5, 0x03), (5, 0x09), (6, 0x27)];
/// `#`; the code of `>` is the next one.
const HASH_CODE: (u8, u32) = (12, 0xffa);
/// How many of Huffman's codes have so many bits (appendix B). They are numbered in the order of their lengths.
const CODES: [u8; 31] =
    [0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4];
/// The first code of each length, and the one after its last.
static RANGES: [(u32, u32); 31] = ranges();
/// Bytes of the names in the static table (appendix A).
const NAMES: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12, 6, 4,
    4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
];
/// Octets of a number after its first: the library takes no more.
const MAX_OCTETS: u8 = 5;

const fn ranges() -> [(u32, u32); 31] {
    let mut ranges = [(0, 0); 31];
    let (mut bits, mut code) = (1, 0);
    while bits < ranges.len() {
        code <<= 1;
        ranges[bits] = (code, code + CODES[bits] as u32);
        code += CODES[bits] as u32;
        bits += 1;
    }
    ranges
}

/// What the next byte is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Field,
    NameLength,
    ValueLength,
    Number(Number),
    Name,
    Value,
    /// It is malformed: the library ends the connection.
    Nothing,
}

/// What a number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    /// A field of the tables, as a whole.
    Field,
    TableSize,
    /// A name of the tables. 0: it follows.
    Name,
    NameLength,
    ValueLength,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    name: u64,
    is_path: bool,
    size: u64,
}

/// A name or value as far as it has passed.
#[derive(Debug, Default, Clone, Copy)]
struct Text {
    /// Bytes to come.
    left: u64,
    is_huffman: bool,
    /// Bytes, decoded.
    length: u64,
    /// Bits of a code that has not ended, and how many.
    code: u32,
    bits: u8,
    /// All characters so far are those of `:path`.
    is_path: bool,
}

/// The header blocks of one connection.
#[derive(Debug)]
pub struct FieldBlocks {
    next: Next,
    number: u64,
    octets: u8,
    text: Text,
    /// The field in hand: whether it enters the table, and its name.
    enters: bool,
    name: u64,
    is_path: bool,
    /// The newest first.
    table: VecDeque<Entry>,
    size: u64,
    max_size: u64,
}

impl Default for FieldBlocks {
    fn default() -> FieldBlocks {
        FieldBlocks {
            next: Next::Field,
            number: 0,
            octets: 0,
            text: Text::default(),
            enters: false,
            name: 0,
            is_path: false,
            table: VecDeque::new(),
            size: 0,
            max_size: TABLE,
        }
    }
}

impl FieldBlocks {
    /// A part of a block passes.
    pub fn pass(&mut self, mut bytes: &mut [u8]) {
        while let Some(first) = bytes.first().copied() {
            let taken = match self.next {
                Next::Nothing => return,
                Next::Name | Next::Value => self.text(bytes),
                _ => {
                    self.octet(first);
                    1
                }
            };
            bytes = &mut bytes[taken..];
        }
    }

    /// What begins a field, a length, or goes on with a number.
    fn octet(&mut self, byte: u8) {
        match self.next {
            Next::Field => {
                self.enters = byte & 0xc0 == 0x40;
                match byte {
                    0x80.. => self.begin(Number::Field, byte, 7),
                    0x40.. => self.begin(Number::Name, byte, 6),
                    0x20.. => self.begin(Number::TableSize, byte, 5),
                    _ => self.begin(Number::Name, byte, 4),
                }
            }
            Next::NameLength | Next::ValueLength => {
                self.text = Text { is_huffman: byte & 0x80 != 0, is_path: true, ..Text::default() };
                let is_name = self.next == Next::NameLength;
                self.begin(if is_name { Number::NameLength } else { Number::ValueLength }, byte, 7);
            }
            Next::Number(number) => {
                if self.octets == MAX_OCTETS {
                    self.next = Next::Nothing;
                    return;
                }
                self.number += u64::from(byte & 0x7f) << (7 * self.octets);
                self.octets += 1;
                if byte & 0x80 == 0 {
                    self.end(number);
                }
            }
            Next::Name | Next::Value | Next::Nothing => {}
        }
    }

    /// A number with so many bits in its first byte (section 5.1).
    fn begin(&mut self, number: Number, byte: u8, bits: u8) {
        let most = (1 << bits) - 1;
        self.number = u64::from(byte & most);
        self.octets = 0;
        if byte & most == most {
            self.next = Next::Number(number)
        } else {
            self.end(number)
        }
    }

    fn end(&mut self, number: Number) {
        self.next = match number {
            Number::Field => Next::Field,
            Number::TableSize => {
                self.max_size = self.number.min(TABLE);
                self.shrink(self.max_size);
                Next::Field
            }
            Number::Name => match self.number {
                0 => Next::NameLength,
                index => match self.name(index) {
                    Some(found) => {
                        (self.name, self.is_path) = found;
                        Next::ValueLength
                    }
                    None => Next::Nothing,
                },
            },
            Number::NameLength => {
                self.text.left = self.number;
                Next::Name
            }
            Number::ValueLength => {
                self.text.left = self.number;
                Next::Value
            }
        };
        if self.text.left == 0 {
            self.end_of_text();
        }
    }

    /// Bytes of a name of the tables, and whether it is `:path`.
    fn name(&self, index: u64) -> Option<(u64, bool)> {
        let index = usize::try_from(index).ok()?.checked_sub(1)?;
        match NAMES.get(index) {
            Some(name) => Some((u64::from(*name), matches!(index, 3 | 4))),
            None => self.table.get(index - NAMES.len()).map(|entry| (entry.name, entry.is_path)),
        }
    }

    /// A piece of a name or value; returns how long it is.
    fn text(&mut self, bytes: &mut [u8]) -> usize {
        let count = bytes.len().min(usize::try_from(self.text.left).unwrap_or(usize::MAX));
        let piece = &mut bytes[..count];
        let is_path = self.is_path && self.next == Next::Value;
        // What enters no table is decoded where that says something.
        let matters = self.enters || is_path || self.next == Next::Name;
        if !self.text.is_huffman {
            self.text.plain(piece, is_path);
        } else if matters {
            piece.iter_mut().for_each(|byte| self.text.decode(byte, is_path));
        }
        self.text.left -= count as u64;
        if self.text.left == 0 {
            self.end_of_text();
        }
        count
    }

    fn end_of_text(&mut self) {
        match self.next {
            Next::Name => {
                (self.name, self.is_path) =
                    (self.text.length, self.text.is_path && self.text.length == PATH.len() as u64);
                self.next = Next::ValueLength;
            }
            Next::Value => {
                if self.enters {
                    self.insert();
                }
                self.next = Next::Field;
            }
            _ => {}
        }
    }

    fn insert(&mut self) {
        let size = self.name + self.text.length + ENTRY;
        self.shrink(self.max_size.saturating_sub(size));
        if size <= self.max_size {
            self.size += size;
            self.table.push_front(Entry { name: self.name, is_path: self.is_path, size });
        }
    }

    fn shrink(&mut self, size: u64) {
        while self.size > size {
            self.size -= self.table.pop_back().map_or(self.size, |entry| entry.size);
        }
    }
}

impl Text {
    fn plain(&mut self, piece: &mut [u8], is_path: bool) {
        if is_path {
            piece.iter_mut().filter(|byte| **byte == b'#').for_each(|byte| *byte = b'>');
        }
        let at = usize::try_from(self.length).unwrap_or(usize::MAX);
        self.is_path &= PATH.get(at..).is_some_and(|rest| rest.starts_with(piece));
        self.length += piece.len() as u64;
    }

    fn decode(&mut self, byte: &mut u8, is_path: bool) {
        for bit in (0..8).rev() {
            self.code = self.code << 1 | u32::from(*byte >> bit & 1);
            self.bits += 1;
            let Some((first, end)) = RANGES.get(usize::from(self.bits)) else {
                // The end of all, which must not stand there.
                (self.code, self.bits) = (0, 0);
                return;
            };
            if !(*first..*end).contains(&self.code) {
                continue;
            }
            let found = (self.bits, self.code);
            if is_path && found == HASH_CODE {
                *byte |= 1 << bit;
            }
            let expected = usize::try_from(self.length).ok().and_then(|at| PATH_CODES.get(at));
            self.is_path &= expected == Some(&found);
            self.length += 1;
            (self.code, self.bits) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths and codes of the characters that these tests use.
    fn codes(text: &str) -> Vec<u8> {
        let code = |character| match character {
            ':' => (7, 0x5c),
            'p' => (6, 0x2b),
            'a' => (5, 0x3),
            't' => (5, 0x9),
            'h' => (6, 0x27),
            '/' => (6, 0x18),
            '#' => (12, 0xffa),
            '>' => (12, 0xffb),
            's' => (5, 0x8),
            'x' => (7, 0x79),
            '-' => (6, 0x16),
            '\u{ff}' => (26, 0x3ff_ffee),
            other => panic!("{other}"),
        };
        let mut bits: Vec<u8> = Vec::new();
        for (count, code) in text.chars().map(code) {
            bits.extend((0..count).rev().map(|at| (code >> at & 1) as u8));
        }
        bits.resize(bits.len().div_ceil(8) * 8, 1);
        bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit)).collect()
    }

    fn number(first: u8, bits: u8, number: usize) -> Vec<u8> {
        let most = (1 << bits) - 1;
        if number < most {
            return vec![first | number as u8];
        }
        let (mut bytes, mut rest) = (vec![first | most as u8], number - most);
        while rest >= 128 {
            bytes.push(rest as u8 | 128);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    }

    fn text(text: &str, is_huffman: bool) -> Vec<u8> {
        let bytes = if is_huffman { codes(text) } else { text.into() };
        [number(if is_huffman { 0x80 } else { 0 }, 7, bytes.len()), bytes].concat()
    }

    /// How a field is written (RFC 7541 section 6): its first bits, and how many bits of an index are beside them.
    #[derive(Clone, Copy)]
    struct Form {
        first: u8,
        bits: u8,
    }

    const ENTERS: Form = Form { first: 0x40, bits: 6 };
    const STAYS_OUT: Form = Form { first: 0, bits: 4 };

    /// A field whose name is one of the tables'.
    fn indexed(form: Form, name: usize, value: &str, is_huffman: bool) -> Vec<u8> {
        [number(form.first, form.bits, name), text(value, is_huffman)].concat()
    }

    fn named(form: Form, name: &str, value: &str, is_huffman: bool) -> Vec<u8> {
        [vec![form.first], text(name, is_huffman), text(value, is_huffman)].concat()
    }

    /// What passes of a block, in pieces of so many bytes.
    fn passed(block: &[u8], length: usize) -> Vec<u8> {
        let mut block = block.to_vec();
        let mut blocks = FieldBlocks::default();
        block.chunks_mut(length).for_each(|piece| blocks.pass(piece));
        block
    }

    fn assert_passes(name: &str, sent: &[u8], read: &[u8]) {
        for length in 1..=sent.len() {
            assert_eq!(passed(sent, length), read, "{name}, in pieces of {length}");
        }
    }

    #[test]
    fn a_path_is_not_cut_off_however_it_is_written() {
        for is_huffman in [false, true] {
            for how in [ENTERS, STAYS_OUT, Form { first: 0x10, bits: 4 }] {
                for (sent, read) in
                    [("/a#a", "/a>a"), ("#", ">"), ("/##\u{ff}#", "/>>\u{ff}>"), ("/path", "/path"), ("", "")]
                {
                    if !is_huffman && !sent.is_ascii() {
                        continue;
                    }
                    for name in [4, 5] {
                        let block = |path| indexed(how, name, path, is_huffman);
                        assert_passes(sent, &block(sent), &block(read));
                    }
                    let block = |path| named(how, ":path", path, is_huffman);
                    assert_passes(sent, &block(sent), &block(read));
                }
            }
        }
    }

    #[test]
    fn other_fields_pass_as_they_are() {
        for is_huffman in [false, true] {
            for name in [":pat", ":paths", "path", "x-path", ""] {
                let block = named(ENTERS, name, "/#", is_huffman);
                let name_of_the_table = [block.clone(), indexed(ENTERS, 62, "/#", is_huffman)].concat();
                for block in [block, name_of_the_table] {
                    assert_passes(name, &block, &block);
                }
            }
            let cookie = indexed(STAYS_OUT, 32, "a#a", is_huffman);
            assert_passes("cookie", &cookie, &cookie);
        }
    }

    #[test]
    fn a_name_that_has_entered_the_table_is_known_there() {
        for is_huffman in [false, true] {
            let block = |path: &str| {
                [
                    named(ENTERS, ":path", "/", is_huffman),
                    named(ENTERS, "x-a", "/#", is_huffman),
                    vec![0x82, 0x80 | 63],
                    indexed(STAYS_OUT, 63, path, is_huffman),
                    indexed(STAYS_OUT, 62, "/#", is_huffman),
                ]
                .concat()
            };
            assert_passes("the second of the table", &block("/#"), &block("/>"));
        }
    }

    #[test]
    fn the_table_forgets_as_the_librarys_does() {
        // An entry counts 37 bytes here: 110 of them find room.
        let path = named(ENTERS, ":path", "", false);
        let rest = named(ENTERS, "x-a-a", "", false).repeat(109);
        let block =
            |path_of_table: &str| [&path[..], &rest, &indexed(STAYS_OUT, 62 + 109, path_of_table, false)].concat();
        assert_passes("the oldest", &block("/#"), &block("/>"));
        let too_many =
            [&path[..], &rest, &named(ENTERS, "x", "", false), &indexed(STAYS_OUT, 62 + 110, "/#", false)].concat();
        assert_passes("it is malformed then", &too_many, &too_many);
        // Another size: 0, and back.
        let emptied =
            |name| [&path[..], &[0x20], &number(0x20, 5, 4096), &path, &indexed(STAYS_OUT, 62, name, false)].concat();
        assert_passes("emptied", &emptied("/#"), &emptied("/>"));
        // One that finds no room takes all others along.
        let large = named(ENTERS, "x", &"a".repeat(5000), true);
        let after = |name: &str| [&path[..], &large, &path, &indexed(STAYS_OUT, 62, name, false)].concat();
        assert_eq!(passed(&after("/#"), 999), after("/>"));
    }

    #[test]
    fn noise_never_panics_and_keeps_its_length() {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut byte = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 32) as u8
        };
        for _ in 0..2_000 {
            let mut blocks = FieldBlocks::default();
            for _ in 0..20 {
                let mut noise: Vec<u8> = (0..byte()).map(|_| byte()).collect();
                blocks.pass(&mut noise);
            }
            assert!(blocks.size <= TABLE && blocks.table.len() as u64 <= TABLE / ENTRY);
        }
    }
}
