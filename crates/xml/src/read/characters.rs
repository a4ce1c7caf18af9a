//! Which characters XML 1.0 allows (2.2), which make a name (2.3), and what Ruby takes for blank.

use memchr::memchr_iter;

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Where the first byte that is no white space is, from `at` on.
pub(super) fn skip_space(text: &[u8], at: usize) -> usize {
    text[at..].iter().position(|byte| !is_space(*byte)).map_or(text.len(), |found| at + found)
}

/// Where the first character is that no document may hold, as it stands.
pub(super) fn first_forbidden(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let control = |byte: &u8| *byte < 0x20 && !is_space(*byte);
    // In pieces without a way out, which the compiler turns into a few wide comparisons.
    let piece = bytes.chunks(64).position(|piece| piece.iter().fold(false, |found, byte| found | control(byte)));
    let first = piece.and_then(|piece| bytes[piece * 64..].iter().position(control).map(|at| piece * 64 + at));
    let end = first.unwrap_or(bytes.len());
    let beyond = memchr_iter(0xEF, &bytes[..end]).find(|at| matches!(bytes[at + 1..], [0xBF, 0xBE | 0xBF, ..]));
    beyond.or(first)
}

/// Whether a document may refer to this character by its number.
pub(super) fn is_allowed(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// The length of the name that `text` begins with, colons included; 0 if there is none.
pub(super) fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let ascii = bytes.iter().position(|byte| !IN_NAME[usize::from(*byte)]).unwrap_or(bytes.len());
    let starts = |character: char| character == ':' || starts_name(character);
    if ascii == bytes.len() || bytes[ascii] < 0x80 {
        return if ascii > 0 && starts(char::from(bytes[0])) { ascii } else { 0 };
    }
    let mut length = 0;
    for character in text.chars() {
        if !(starts(character) || length > 0 && continues_name(character)) {
            break;
        }
        length += character.len_utf8();
    }
    length
}

/// Whether all of `text` is a name without a colon.
pub(super) fn is_plain_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(':') && name_length(text) == text.len()
}

const IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = matches!(byte as u8, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b':');
        byte += 1;
    }
    table
};

fn starts_name(character: char) -> bool {
    matches!(character,
        'A'..='Z' | 'a'..='z' | '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}'
        | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

fn continues_name(character: char) -> bool {
    starts_name(character)
        || matches!(character, '-' | '.' | ':' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Whether `String#blank?` holds in Ruby: nothing but Unicode's white space, which is what Rust means by it too.
pub(super) fn is_blank(text: &str) -> bool {
    let bytes = text.as_bytes();
    match bytes.iter().find(|byte| !is_space(**byte)) {
        None => true,
        Some(byte) if *byte > b' ' && *byte < 0x7F => false,
        Some(_) => text.chars().all(char::is_whitespace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_characters_are_found_where_they_are() {
        let long = format!("{}\u{1}", "\u{e9}\t\r\n ".repeat(50));
        assert_eq!(first_forbidden(&long), Some(long.len() - 1));
        assert_eq!(first_forbidden("a\u{FFFD}\u{7F}\u{85}\u{10FFFF}"), None);
        assert_eq!(first_forbidden("a\u{FFFE}\0"), Some(1));
        assert_eq!(first_forbidden("a\0\u{FFFF}"), Some(1));
        assert!(!is_allowed('\u{FFFF}') && !is_allowed('\u{1F}') && is_allowed('\u{10FFFF}'));
    }

    #[test]
    fn names_end_where_xml_says() {
        let cases = [
            ("ab:c d", 4),
            ("a\u{b7}=", 3),
            ("\u{e9}a>", 3),
            ("1a", 0),
            ("-", 0),
            ("", 0),
            ("\u{b7}", 0),
            ("a", 1),
            ("a\u{d7}", 1),
        ];
        for (text, length) in cases {
            assert_eq!(name_length(text), length, "{text}");
        }
        assert!(is_plain_name("a.b-1") && !is_plain_name("a:b") && !is_plain_name("") && !is_plain_name("a b"));
    }

    #[test]
    fn blank_is_what_ruby_says() {
        assert!(is_blank("") && is_blank(" \r\n\t\u{b}\u{c}\u{85}\u{a0}\u{1680}\u{2028}\u{3000}"));
        assert!(!is_blank(" a") && !is_blank("\u{180e}") && !is_blank("\u{200b}") && !is_blank("\u{7f}"));
    }
}
