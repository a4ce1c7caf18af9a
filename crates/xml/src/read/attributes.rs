//! The attributes within a tag, and the like ones of the XML declaration: where each name and value stands.

use std::ops::Range;

use memchr::memchr;

use super::{
    characters::{name_length, skip_space},
    error::{quoted, Mistake},
};

pub(super) struct Attribute {
    pub name: Range<usize>,
    /// Without its quotes.
    pub value: Range<usize>,
}

/// Reads attributes one after the other: `text[at..end]` is what follows the name in a tag, without `/` and `>`.
pub(super) struct Attributes<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Attributes<'a> {
    pub fn new(text: &'a str, range: Range<usize>) -> Self {
        Attributes { text, at: range.start, end: range.end }
    }
}

impl Iterator for Attributes<'_> {
    type Item = Result<Attribute, Mistake>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = &self.text.as_bytes()[..self.end];
        if self.at == self.end {
            return None;
        }
        let start = skip_space(bytes, self.at);
        if start == self.end {
            return None;
        }
        if start == self.at {
            return Some(Err(Mistake::new(start, "white space is missing before an attribute, or this is no name")));
        }
        Some(self.attribute(bytes, start))
    }
}

impl Attributes<'_> {
    fn attribute(&mut self, bytes: &[u8], start: usize) -> Result<Attribute, Mistake> {
        let name = start..start + name_length(&self.text[start..self.end]);
        if name.is_empty() {
            return Err(Mistake::new(start, "this is no name of an attribute"));
        }
        let told = |at, what: &str| Mistake::new(at, format!("{what} attribute {}", quoted(&self.text[name.clone()])));
        let equals = skip_space(bytes, name.end);
        if bytes.get(equals) != Some(&b'=') {
            return Err(told(equals, "\"=\" is missing after"));
        }
        let opening = skip_space(bytes, equals + 1);
        let quote = match bytes.get(opening) {
            Some(quote @ (b'"' | b'\'')) => *quote,
            _ => return Err(told(opening, "a quote is missing before the value of")),
        };
        let length =
            memchr(quote, &bytes[opening + 1..]).ok_or_else(|| told(opening, "there is no end to the value of"))?;
        let value = opening + 1..opening + 1 + length;
        if let Some(found) = memchr(b'<', &bytes[value.clone()]) {
            return Err(told(value.start + found, "\"<\" in the value of"));
        }
        self.at = value.end + 1;
        Ok(Attribute { name, value })
    }
}
