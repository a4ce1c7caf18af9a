//! Escapes text as Builder's XChar does: markup as references, C1 characters read as Windows-1252, what XML 1.0
//! (section 2.2) does not allow as U+FFFD. Never allocates; never checks that text is UTF-8, and on other bytes does no
//! worse than to copy them.

use crate::scan::{plain_prefix, plain_prefix_of_word, special_bytes, STEP};

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between tags: `&`, `<` and `>` become references.
    Text,
    /// In the value of an attribute: also `"`, line feed and carriage return.
    Attribute,
}

/// How far [`escape`] came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the text that are dealt with.
    pub read: usize,
    /// Bytes written to the room.
    pub written: usize,
}

/// Writes `text` (UTF-8) into `room`, escaped. Stops when all is read, or when the room cannot take the next step: call
/// again with the rest and more room. Room for 8 bytes always gets on. What lies in the room behind the written bytes
/// is of no meaning.
pub fn escape(place: Place, text: &[u8], room: &mut [u8]) -> Progress {
    match place {
        Place::Text => escape_in::<false>(text, room),
        Place::Attribute => escape_in::<true>(text, room),
    }
}

fn escape_in<const ATTRIBUTE: bool>(text: &[u8], room: &mut [u8]) -> Progress {
    let references = if ATTRIBUTE { &IN_ATTRIBUTE } else { &IN_TEXT };
    let Progress { mut read, mut written } = escape_long::<ATTRIBUTE>(text, room);
    let mut plain_steps = 0;
    while read < text.len() {
        let rest = &text[read..];
        // A step writes so many bytes as they are, and eight for what follows them.
        let Some(to) = room[written..].first_chunk_mut::<{ STEP + 8 }>() else {
            let (taken, instead) = written_for::<ATTRIBUTE>(rest);
            let Some(into) = room[written..].get_mut(..instead.len()) else { break };
            into.copy_from_slice(instead);
            read += taken;
            written += instead.len();
            continue;
        };
        // All that is looked at is copied; the first special byte and what follows are then written over.
        let (plain, looked_at) = if let Some(bytes) = rest.first_chunk::<STEP>() {
            to[..STEP].copy_from_slice(bytes);
            (plain_prefix::<ATTRIBUTE>(bytes), STEP)
        } else {
            let word = first_word(rest);
            to[..8].copy_from_slice(&word.to_le_bytes());
            (plain_prefix_of_word::<ATTRIBUTE>(word).min(rest.len()), rest.len().min(8))
        };
        // Where there is no special byte, NONE is "written": nobody could foresee a jump round it, and that would cost
        // more.
        let reference = if plain == looked_at { NONE } else { rest[plain] };
        if reference > NONE {
            match instead_of(&rest[plain..]) {
                Some((taken, instead)) => {
                    to[plain..plain + instead.len()].copy_from_slice(instead);
                    read += plain + taken;
                    written += plain + instead.len();
                }
                // An ordinary character that begins with the same byte, which is there already.
                None => {
                    read += plain + 1;
                    written += plain + 1;
                }
            }
            continue;
        }
        let reference = &references[usize::from(reference)];
        to[plain..plain + 8].copy_from_slice(&reference.bytes);
        read += plain + reference.taken;
        written += plain + reference.length;
        plain_steps = if reference.taken == 0 { plain_steps + 1 } else { 0 };
        if plain_steps > 2 {
            let length = copy_plain::<ATTRIBUTE>(&text[read..], &mut room[written..]);
            read += length;
            written += length;
        }
    }
    Progress { read, written }
}

/// Text that is longer than what a step looks ahead.
const LONG: usize = 4 * STEP;
/// What a step writes at most: sixteen references of six bytes, and the bytes behind the last that are copied with it.
const MAX: usize = STEP * 6 + STEP + 8;

/// Escapes all but the end of long text, where there is room for anything that may come. Which bytes of a step are
/// special is known before the first of them is written, so that the steps need not wait for each other.
fn escape_long<const ATTRIBUTE: bool>(text: &[u8], room: &mut [u8]) -> Progress {
    let references = if ATTRIBUTE { &IN_ATTRIBUTE } else { &IN_TEXT };
    let (mut read, mut written) = (0, 0);
    // At the end of a step sixteen bytes behind it are copied, and a character may reach into them.
    while let (Some(ahead), Some(to)) = (text[read..].first_chunk::<LONG>(), room[written..].first_chunk_mut::<MAX>()) {
        let bytes = ahead.first_chunk::<STEP>().expect("it is longer");
        to[..STEP].copy_from_slice(bytes);
        let mut specials = special_bytes::<ATTRIBUTE>(bytes);
        // Of the step's bytes and of what is written for them: how many are dealt with.
        let (mut from, mut at) = (0, 0);
        while specials != 0 {
            let special = specials.trailing_zeros() as usize;
            specials &= specials - 1;
            at += special - from;
            let byte = bytes[special];
            let (taken, length) = if byte < NONE {
                let reference = &references[usize::from(byte)];
                to[at..at + 8].copy_from_slice(&reference.bytes);
                (1, reference.length)
            } else if let Some((taken, instead)) = instead_of(&ahead[special..]) {
                to[at..at + instead.len()].copy_from_slice(instead);
                (taken, instead.len())
            } else {
                from = special;
                continue;
            };
            at += length;
            from = special + taken;
            to[at..at + STEP].copy_from_slice(&ahead[from..from + STEP]);
        }
        read += from.max(STEP);
        written += at + STEP.saturating_sub(from);
    }
    Progress { read, written }
}

/// Copies for as long as a step needs nothing. Returns how many bytes it has copied.
fn copy_plain<const ATTRIBUTE: bool>(text: &[u8], room: &mut [u8]) -> usize {
    let mut length = 0;
    for (from, to) in text.chunks_exact(STEP).zip(room.chunks_exact_mut(STEP)) {
        if plain_prefix::<ATTRIBUTE>(from.try_into().expect("a step")) < STEP {
            break;
        }
        to.copy_from_slice(from);
        length += STEP;
    }
    length
}

/// The first eight bytes of `text`, which is not empty, the first one lowest; spaces where it is shorter.
fn first_word(text: &[u8]) -> u64 {
    if let Some(word) = text.first_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    let (length, at) = (text.len(), |index: usize| u64::from(text[index]) << (8 * index));
    let bytes = match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // Bytes in the middle stand in both: a bit that is set twice does no harm.
        (Some(low), Some(high)) => {
            u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << (8 * (length - 4))
        }
        _ => at(0) | at(length / 2) | at(length - 1),
    };
    bytes | u64::from_ne_bytes([b' '; 8]) << (8 * length)
}

/// What is written for a character below `@`, in eight bytes of which `length` count, and how many bytes of text that
/// is.
#[derive(Clone, Copy)]
struct Reference {
    bytes: [u8; 8],
    length: usize,
    taken: usize,
}

static IN_TEXT: [Reference; 65] = references::<false>();
static IN_ATTRIBUTE: [Reference; 65] = references::<true>();

/// The place in those tables for no character.
const NONE: u8 = 64;

const fn references<const ATTRIBUTE: bool>() -> [Reference; 65] {
    let mut table = [Reference { bytes: [0; 8], length: 0, taken: 0 }; 65];
    let mut byte = 0;
    while byte < NONE as usize {
        let character = [byte as u8];
        let (_, written) = written_for::<ATTRIBUTE>(&character);
        let mut at = 0;
        while at < written.len() {
            table[byte].bytes[at] = written[at];
            at += 1;
        }
        table[byte].length = written.len();
        table[byte].taken = 1;
        byte += 1;
    }
    table
}

/// What is written for the character at the start of `text`, which is not empty, and how many bytes of the text that
/// is.
const fn written_for<const ATTRIBUTE: bool>(text: &[u8]) -> (usize, &[u8]) {
    match *text {
        [b'&', ..] => (1, b"&amp;"),
        [b'<', ..] => (1, b"&lt;"),
        [b'>', ..] => (1, b"&gt;"),
        [b'"', ..] if ATTRIBUTE => (1, b"&quot;"),
        [b'\n', ..] if ATTRIBUTE => (1, b"&#10;"),
        [b'\r', ..] if ATTRIBUTE => (1, b"&#13;"),
        [0..=0x08 | 0x0B | 0x0C | 0x0E..=0x1F, ..] => (1, "\u{FFFD}".as_bytes()),
        _ => match instead_of(text) {
            Some(written) => written,
            None => (1, text.split_at(1).0),
        },
    }
}

/// What is written for a character beyond ASCII, if it is not what it is.
const fn instead_of(text: &[u8]) -> Option<(usize, &'static [u8])> {
    match *text {
        [0xC2, byte @ 0x80..=0x9F, ..] => Some((2, WINDOWS_1252[(byte & 0x1F) as usize].as_bytes())),
        [0xEF, 0xBF, 0xBE | 0xBF, ..] => Some((3, "\u{FFFD}".as_bytes())),
        _ => None,
    }
}

/// What U+0080 to U+009F are written as: what the byte means in Windows-1252, or, for the five it does not define,
/// itself.
const WINDOWS_1252: [&str; 32] = [
    "\u{20AC}", "\u{81}", "\u{201A}", "\u{192}", "\u{201E}", "\u{2026}", "\u{2020}", "\u{2021}", "\u{2C6}", "\u{2030}",
    "\u{160}", "\u{2039}", "\u{152}", "\u{8D}", "\u{17D}", "\u{8F}", "\u{90}", "\u{2018}", "\u{2019}", "\u{201C}",
    "\u{201D}", "\u{2022}", "\u{2013}", "\u{2014}", "\u{2DC}", "\u{2122}", "\u{161}", "\u{203A}", "\u{153}", "\u{9D}",
    "\u{17E}", "\u{178}",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn written(place: Place, text: &str, room: usize) -> String {
        let (mut read, mut out) = (0, Vec::new());
        while read < text.len() {
            let mut space = vec![0; room];
            let progress = escape(place, &text.as_bytes()[read..], &mut space);
            assert!(progress.read > 0, "stuck at byte {read} of {text:?}");
            read += progress.read;
            out.extend_from_slice(&space[..progress.written]);
        }
        String::from_utf8(out).unwrap()
    }

    /// What is to be written, made by characters, the plain way.
    fn meant(place: Place, text: &str) -> String {
        text.chars()
            .map(|character| match character {
                '&' => "&amp;".into(),
                '<' => "&lt;".into(),
                '>' => "&gt;".into(),
                '"' if place == Place::Attribute => "&quot;".into(),
                '\n' if place == Place::Attribute => "&#10;".into(),
                '\r' if place == Place::Attribute => "&#13;".into(),
                '\t' | '\n' | '\r' => character.to_string(),
                '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => "\u{FFFD}".into(),
                '\u{80}'..='\u{9F}' => WINDOWS_1252[character as usize - 0x80].into(),
                _ => character.to_string(),
            })
            .collect()
    }

    #[test]
    fn every_character_alone_and_among_others_in_any_room() {
        for place in [Place::Text, Place::Attribute] {
            for character in '\0'..=char::MAX {
                let alone = character.to_string();
                assert_eq!(written(place, &alone, 8), meant(place, &alone), "{character:?}");
                if character < '\u{3000}' || character > '\u{D000}' && character < '\u{10100}' {
                    for before in [0, 1, 5, 6, 7, 8] {
                        let text = format!("{}{character}{character}abc&", "é".repeat(before));
                        assert_eq!(written(place, &text, 64), meant(place, &text), "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn long_text_in_small_rooms() {
        let text = "Grüße & <b>\u{85}\u{0}\n\"«ﬁ»\" \u{FFFE}\u{FF01} 日本語, plain plain plain plain plain ".repeat(40);
        for place in [Place::Text, Place::Attribute] {
            for room in [8, 9, 10, 11, 13, 16, 31, 64, 1000, 100_000] {
                assert_eq!(written(place, &text, room), meant(place, &text), "room of {room}");
            }
        }
    }

    #[test]
    fn other_bytes_than_utf_8_do_no_harm() {
        let bytes: Vec<u8> = (0..=255).rev().chain([0xEF]).chain([0xC2]).collect();
        let mut room = vec![0; 4096];
        assert_eq!(escape(Place::Text, &bytes, &mut room).read, bytes.len());
    }
}
