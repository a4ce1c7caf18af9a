//! Escapes text as Builder's XChar does: markup as references, C1 characters read as Windows-1252, what XML 1.0 (section 2.2) does not
//! allow as U+FFFD. Never allocates; never checks that text is UTF-8, and on other bytes does no worse than to copy them.

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

/// Writes `text` (UTF-8) into `room`, escaped. Stops when all is read, or when the room cannot take the next step: call again with
/// the rest and more room. Room for 8 bytes always gets on.
pub fn escape(place: Place, text: &[u8], room: &mut [u8]) -> Progress {
    match place {
        Place::Text => escape_in::<false>(text, room),
        Place::Attribute => escape_in::<true>(text, room),
    }
}

fn escape_in<const ATTRIBUTE: bool>(text: &[u8], room: &mut [u8]) -> Progress {
    let mut at = Progress::default();
    while at.read < text.len() {
        let rest = &text[at.read..];
        let free = room.len() - at.written;
        let plain = plain_prefix::<ATTRIBUTE>(&rest[..rest.len().min(free)]);
        room[at.written..at.written + plain].copy_from_slice(&rest[..plain]);
        at.read += plain;
        at.written += plain;
        if plain == rest.len() || plain == free {
            break;
        }
        let (taken, instead) = special::<ATTRIBUTE>(&rest[plain..]);
        let Some(into) = room.get_mut(at.written..at.written + instead.len()) else {
            break;
        };
        into.copy_from_slice(instead);
        at.read += taken;
        at.written += instead.len();
    }
    at
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// The high bit of each byte of `word` that equals `byte`. Bytes above a hit may be marked wrongly; the lowest never is.
const fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * byte as u64);
    difference.wrapping_sub(ONES) & !difference & HIGHS
}

/// How many bytes at the start of `text` are written as they are. Eight are looked at together.
fn plain_prefix<const ATTRIBUTE: bool>(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        // `<` and `>` differ in one bit; so do `&` and `"`.
        let mut hits = equal(word | (ONES * 0x02), b'>');
        hits |= if ATTRIBUTE { equal(word | (ONES * 0x04), b'&') } else { equal(word, b'&') };
        hits |= word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        if word & HIGHS != 0 {
            hits |= equal(word, 0xC2) | equal(word, 0xEF);
        }
        if hits == 0 {
            at += 8;
            continue;
        }
        let hit = at + (hits.trailing_zeros() / 8) as usize;
        if is_plain::<ATTRIBUTE>(&text[hit..]) {
            at = hit + 1;
            continue;
        }
        return hit;
    }
    while at < text.len() && is_plain::<ATTRIBUTE>(&text[at..]) {
        at += 1;
    }
    at
}

/// Whether the first byte of `text`, which is not empty, is written as it is.
fn is_plain<const ATTRIBUTE: bool>(text: &[u8]) -> bool {
    match text[0] {
        b'&' | b'<' | b'>' => false,
        b'"' => !ATTRIBUTE,
        b'\t' => true,
        b'\n' | b'\r' => !ATTRIBUTE,
        0..=0x1F => false,
        // At the end of what fits the next byte is not in sight; then the slow way decides.
        0xC2 => text.get(1).is_some_and(|byte| !(0x80..=0x9F).contains(byte)),
        0xEF => text.get(1).is_some_and(|byte| *byte != 0xBF) || text.get(2).is_some_and(|byte| *byte < 0xBE),
        _ => true,
    }
}

/// What is written for the character at the start of `text`, and how many bytes of the text that is.
fn special<const ATTRIBUTE: bool>(text: &[u8]) -> (usize, &[u8]) {
    match *text {
        [b'&', ..] => (1, b"&amp;"),
        [b'<', ..] => (1, b"&lt;"),
        [b'>', ..] => (1, b"&gt;"),
        [b'"', ..] if ATTRIBUTE => (1, b"&quot;"),
        [b'\n', ..] if ATTRIBUTE => (1, b"&#10;"),
        [b'\r', ..] if ATTRIBUTE => (1, b"&#13;"),
        [0..=0x08 | 0x0B | 0x0C | 0x0E..=0x1F, ..] => (1, "\u{FFFD}".as_bytes()),
        [0xC2, byte @ 0x80..=0x9F, ..] => (2, WINDOWS_1252[usize::from(byte & 0x1F)].as_bytes()),
        [0xEF, 0xBF, 0xBE | 0xBF, ..] => (3, "\u{FFFD}".as_bytes()),
        [0xC2, ..] => (text.len().min(2), &text[..text.len().min(2)]),
        [0xEF, ..] => (text.len().min(3), &text[..text.len().min(3)]),
        _ => (1, &text[..1]),
    }
}

/// What U+0080 to U+009F are written as: what the byte means in Windows-1252, or, for the five it does not define, itself.
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

    /// The same by characters, the plain way.
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
