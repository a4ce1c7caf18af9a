//! Random texts that an application writes into its pages, such as the names of forms: of which form they are, where they are in a page, and new ones of
//! the same form. It makes no random bytes: they are an argument.
//!
//! A random text may be a key that the application remembers, in a way that nobody sees. So a page is known only if all places of its texts are names of
//! elements (`element_names`): no browser sends these back.

use std::{collections::HashMap, ops::Range};

use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine};

use crate::element_names::element_names;

/// Characters of one. A shorter text may be in a page by chance.
const LENGTHS: std::ops::RangeInclusive<usize> = 8..=256;
/// Texts of one page.
pub const MAX_TEXTS: usize = 64;
const ALPHANUMERIC: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// By which method of Ruby's SecureRandom it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    Hex,
    /// Version 4.
    Uuid,
    Alphanumeric,
    /// URL-safe Base64 without padding.
    Base64Url,
}

/// A text that was made for one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomText {
    form: Form,
    text: String,
}

/// A random text of a page without what it was: the same number is the same text at each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub number: usize,
    pub form: Form,
    pub length: usize,
}

impl Form {
    fn of(word: &str) -> Option<Form> {
        Some(match word {
            "hex" => Form::Hex,
            "uuid" => Form::Uuid,
            "alphanumeric" => Form::Alphanumeric,
            "base64url" => Form::Base64Url,
            _ => return None,
        })
    }

    fn has(self, text: &str) -> bool {
        let all = |is: fn(&u8) -> bool| LENGTHS.contains(&text.len()) && text.as_bytes().iter().all(is);
        match self {
            Form::Hex => text.len() % 2 == 0 && all(|byte| HEX.contains(byte)),
            Form::Uuid => is_uuid(text.as_bytes()),
            Form::Alphanumeric => all(u8::is_ascii_alphanumeric),
            Form::Base64Url => text.len() % 4 != 1 && all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)),
        }
    }

    /// A new one. `random`: bytes that nobody can guess.
    pub fn text(self, length: usize, random: &mut impl FnMut() -> [u8; 32]) -> String {
        let mut bytes = std::iter::from_fn(|| Some(random())).flatten();
        match self {
            Form::Hex => hex(bytes.take(length / 2)),
            Form::Uuid => {
                let mut text = hex(bytes.take(16));
                text.replace_range(12..13, "4");
                let variant = 8 + (hex_value(text.as_bytes()[16]) & 3);
                text.replace_range(16..17, char::from(HEX[variant]).encode_utf8(&mut [0; 4]));
                [20, 16, 12, 8].into_iter().for_each(|at| text.insert(at, '-'));
                text
            }
            // What is left over would make some letters more frequent.
            Form::Alphanumeric => {
                let letters = bytes.filter(|byte| *byte < 248).map(|byte| ALPHANUMERIC[usize::from(byte % 62)]);
                letters.map(char::from).take(length).collect()
            }
            Form::Base64Url => {
                let bytes: Vec<u8> = bytes.by_ref().take(length * 3 / 4).collect();
                URL_SAFE_NO_PAD.encode(bytes)
            }
        }
    }
}

fn is_uuid(text: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        14 => *byte == b'4',
        19 => b"89ab".contains(byte),
        _ => HEX.contains(byte),
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}

fn hex(bytes: impl Iterator<Item = u8>) -> String {
    bytes.flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]).map(char::from).collect()
}

fn hex_value(digit: u8) -> usize {
    HEX.iter().position(|own| *own == digit).unwrap_or(0)
}

impl RandomText {
    /// None: it is of no such form, or too short to be told from other text.
    pub fn new(form: &str, text: String) -> Option<RandomText> {
        Form::of(form).filter(|form| form.has(&text)).map(|form| RandomText { form, text })
    }

    pub fn is_in(&self, text: &[u8]) -> bool {
        text.windows(self.text.len()).any(|part| part == self.text.as_bytes())
    }
}

/// Why a page with random texts can't be kept, and the number of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// It is not there as it was made.
    Missing(usize),
    /// It is not only the name of an element.
    Elsewhere(usize),
}

/// A rule of the front that is broken, so that the model of pages with random texts has something to find.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A text may stand anywhere in the page.
    AnyPlaceIsAName,
    /// A page is shown before a second answer was equal.
    PageIsNotConfirmed,
}

#[cfg(test)]
thread_local! {
    pub static BROKEN: std::cell::Cell<Option<Broken>> = const { std::cell::Cell::new(None) };
}

/// Whether the model has broken this rule.
#[cfg(test)]
macro_rules! is_broken {
    ($rule:ident) => {
        $crate::random_text::BROKEN.get() == Some($crate::random_text::Broken::$rule)
    };
}
#[cfg(not(test))]
macro_rules! is_broken {
    ($rule:ident) => {
        false
    };
}
pub(crate) use is_broken;

/// All places of these texts in a page of HTML, in their order.
pub fn places(body: &[u8], texts: &[RandomText]) -> Result<Vec<(Range<usize>, Place)>, Unknown> {
    let found = occurrences(body, texts);
    let names = if found.is_empty() { Vec::new() } else { element_names(body).unwrap_or_default() };
    let mut names = names.into_iter().peekable();
    let (mut numbers, mut places) = (HashMap::new(), Vec::new());
    let mut end = 0;
    for (range, nth) in found {
        while names.next_if(|name| name.end < range.end).is_some() {}
        let is_name = names.peek().is_some_and(|name| name.start <= range.start) || is_broken!(AnyPlaceIsAName);
        if !is_name || range.start < end || !is_whole(body, &range) {
            return Err(Unknown::Elsewhere(nth));
        }
        end = range.end;
        let next = numbers.len();
        let RandomText { form, text } = &texts[nth];
        let number = *numbers.entry(nth).or_insert(next);
        places.push((range, Place { number, form: *form, length: text.len() }));
    }
    match (0..texts.len()).find(|nth| !numbers.contains_key(nth)) {
        Some(nth) => Err(Unknown::Missing(nth)),
        None => Ok(places),
    }
}

/// It is no part of a longer word, which may be something else.
fn is_whole(body: &[u8], range: &Range<usize>) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    !is_word(range.start.checked_sub(1).and_then(|before| body.get(before))) && !is_word(body.get(range.end))
}

/// Where they are, and which, in the order of their places.
fn occurrences(body: &[u8], texts: &[RandomText]) -> Vec<(Range<usize>, usize)> {
    let mut by_beginning: HashMap<[u8; 2], Vec<usize>> = HashMap::new();
    for (nth, RandomText { text, .. }) in texts.iter().enumerate() {
        by_beginning.entry([text.as_bytes()[0], text.as_bytes()[1]]).or_default().push(nth);
    }
    let mut begins = vec![false; 1 << 16];
    by_beginning.keys().for_each(|both| begins[usize::from(u16::from_be_bytes(*both))] = true);
    let mut found = Vec::new();
    for (at, both) in body.windows(2).enumerate() {
        let both = [both[0], both[1]];
        if begins[usize::from(u16::from_be_bytes(both))] {
            let here = |nth: &&usize| body[at..].starts_with(texts[**nth].text.as_bytes());
            let all = by_beginning[&both].iter().filter(here);
            found.extend(all.map(|nth| (at..at + texts[*nth].text.len(), *nth)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(form: &str, text: &str) -> RandomText {
        RandomText::new(form, text.into()).unwrap()
    }

    #[test]
    fn a_text_is_of_its_form() {
        for (form, good) in [
            ("hex", "1a2b3c4d"),
            ("uuid", "2d931510-d99f-494a-8c67-87feb05e1594"),
            ("alphanumeric", "S8baxMJnPl"),
            ("base64url", "b4GOKm4-Ry_JBg"),
        ] {
            assert!(RandomText::new(form, good.into()).is_some(), "{form}");
            let of_form = |text: String| RandomText::new(form, text).is_some();
            assert!(!of_form(format!("{good} ")) && !of_form(good[..6].into()) && !of_form(good.repeat(40)), "{form}");
        }
        for (form, bad) in [
            ("hex", "1A2B3C4D"),
            ("hex", "1a2b3c4d5"),
            ("uuid", "2d931510-d99f-794a-8c67-87feb05e1594"),
            ("uuid", "2d931510-d99f-494a-7c67-87feb05e1594"),
            ("alphanumeric", "S8baxMJn-l"),
            ("base64url", "b4GOKm4ur"),
            ("base64url", "b4GOKm4urA=="),
            ("rand", "12345678"),
        ] {
            assert_eq!(RandomText::new(form, bad.into()), None, "{form} {bad}");
        }
    }

    #[test]
    fn a_new_one_is_of_the_same_form() {
        let mut next = 0u8;
        let mut random = || {
            next = next.wrapping_mul(29).wrapping_add(77);
            std::array::from_fn(|at| next.wrapping_add(u8::try_from(at).unwrap().wrapping_mul(37)))
        };
        for (form, word, lengths) in [
            (Form::Hex, "hex", &[8, 32, 256][..]),
            (Form::Uuid, "uuid", &[36]),
            (Form::Alphanumeric, "alphanumeric", &[8, 9, 255]),
            (Form::Base64Url, "base64url", &[8, 10, 11, 22, 256]),
        ] {
            for length in lengths {
                let made: Vec<String> = (0..20).map(|_| form.text(*length, &mut random)).collect();
                for text in &made {
                    assert_eq!(text.len(), *length);
                    assert!(RandomText::new(word, text.clone()).is_some(), "{word} {text}");
                }
                assert!(made.windows(2).all(|two| two[0] != two[1]), "{word}");
            }
        }
    }

    #[test]
    fn no_letter_is_more_frequent() {
        let mut bytes = 0..=255u8;
        let made = Form::Alphanumeric.text(248, &mut || std::array::from_fn(|_| bytes.next().unwrap()));
        assert!(ALPHANUMERIC.iter().all(|letter| made.bytes().filter(|own| own == letter).count() == 4), "{made}");
    }

    #[test]
    fn all_places_of_a_text_have_its_number() {
        let texts = [text("hex", "1a2b3c4d"), text("uuid", "2d931510-d99f-494a-8c67-87feb05e1594")];
        let body = "<b id='2d931510-d99f-494a-8c67-87feb05e1594'><form name=f-1a2b3c4d id=\"1a2b3c4d-x\">";
        let (hex, uuid) = (Form::Hex, Form::Uuid);
        let place = |at, number, form, length| (at..at + length, Place { number, form, length });
        let expected = vec![place(7, 0, uuid, 36), place(58, 1, hex, 8), place(71, 1, hex, 8)];
        assert_eq!(places(body.as_bytes(), &texts), Ok(expected));
    }

    #[test]
    fn a_text_that_is_more_than_a_name_is_refused() {
        let texts = [text("hex", "1a2b3c4d")];
        let of = |body: &str| places(body.as_bytes(), &texts).err();
        let name = "<form name=\"f-1a2b3c4d\">";
        assert_eq!(of(name), None);
        for more in [
            "1a2b3c4d",
            "<input type=hidden value=\"1a2b3c4d\">",
            "<a href=\"/x?token=1a2b3c4d\">",
            "<script>send('1a2b3c4d')</script>",
            "<!-- 1a2b3c4d -->",
            "<i id=\"1a2b3c4d5e6f\">",
            "<i id=\"x1a2b3c4d\">",
            "<i id=\"1a2b3c4d",
        ] {
            assert_eq!(of(&format!("{name}{more}")), Some(Unknown::Elsewhere(0)), "{more}");
        }
        assert_eq!(of("<form name=\"f-1A2B3C4D\">"), Some(Unknown::Missing(0)));
        assert_eq!(of(""), Some(Unknown::Missing(0)));
    }

    #[test]
    fn texts_that_overlap_are_refused() {
        let texts = [text("hex", "2d931510"), text("uuid", "2d931510-d99f-494a-8c67-87feb05e1594")];
        let body = b"<b id='2d931510-d99f-494a-8c67-87feb05e1594'>";
        assert!(matches!(places(body, &texts), Err(Unknown::Elsewhere(_))));
    }
}
