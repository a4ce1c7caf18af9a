//! One line of the log that is no access line: an event of the server, or what an app printed.
//! It never decides where it goes.

use std::{borrow::Cow, sync::Arc};

use super::Name;
use crate::observe::local_time::{local_time, RFC_3339};

/// What was told, once. A report or a backtrace is one of these, with line ends in its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Counts from 1; a later line has a higher number.
    pub number: u64,
    /// Seconds since the Unix epoch.
    pub time: f64,
    pub name: Name,
    /// The site that it is about. None: the server as a whole.
    pub site: Option<Arc<str>>,
    /// The process that printed it, as `shop.2`. None: the server tells it.
    pub from: Option<String>,
    pub text: String,
    /// The text is shown as it is, without the mark of an event.
    pub plain: bool,
}

impl Line {
    /// As it has always looked: events begin with `* `, output with who printed it. Of control characters only colours,
    /// tabs and line ends are left: a message of an application's exception may hold what somebody has sent to it.
    pub fn as_text(&self) -> String {
        let text = printable(&self.text);
        match &self.from {
            Some(from) => format!("[{from}] {text}"),
            None if self.plain => text.into_owned(),
            None => format!("* {text}"),
        }
    }

    /// One JSON object, without colours: `time` (RFC 3339), `event`, `site`, `from`, `text`.
    pub fn as_json(&self) -> String {
        // serde_json would put the keys in the order of the alphabet; people read lines from their beginning.
        let string = |text: &str| serde_json::Value::from(text).to_string();
        let mut object =
            format!("{{\"time\":\"{}\",\"event\":\"{}\"", local_time(self.time, RFC_3339), self.name.name());
        for (key, value) in [("site", self.site.as_deref()), ("from", self.from.as_deref())] {
            if let Some(value) = value {
                object.push_str(&format!(",\"{key}\":{}", string(value)));
            }
        }
        object.push_str(&format!(",\"text\":{}}}", string(without_colours(&self.text).trim_end_matches('\n'))));
        object
    }

    /// Bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Line>() + self.text.len() + self.from.as_ref().map_or(0, String::len)
    }

    /// Without the sequences that give a terminal its colours, and no longer than `most` bytes of text.
    pub fn bare(&self, most: usize) -> Line {
        let mut text = without_colours(&self.text);
        if text.len() > most {
            let whole = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            text.truncate(whole);
            text.push_str(" ...");
        }
        Line { text, ..self.clone() }
    }
}

/// Text that a terminal shows and nothing more: other control characters than tab, line end and colours (SGR, ECMA-48
/// section 8.3.117) are replaced.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_odd = |char: char| char.is_control() && char != '\n' && char != '\t';
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_odd) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = colour(rest).unwrap_or(0);
        if length == 0 {
            shown.push(char::REPLACEMENT_CHARACTER);
        }
        shown.push_str(&rest[..length]);
        let taken = if length > 0 { length } else { rest.chars().next().map_or(0, char::len_utf8) };
        rest = &rest[taken..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The bytes of the colour sequence that the text begins with.
fn colour(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|char: char| !char.is_ascii_digit() && char != ';')?;
    numbers[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

/// Leaves out what an escape character begins: ECMA-48's control sequences whole, of others the character alone.
fn without_colours(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text.split('\x1b');
    bare.push_str(rest.next().unwrap_or_default());
    for piece in rest {
        let ends = |char: char| ('\x40'..='\x7e').contains(&char);
        bare.push_str(match piece.strip_prefix('[') {
            Some(sequence) => sequence.find(ends).map_or("", |end| &sequence[end + 1..]),
            None => piece,
        });
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { number: 1, time: 0.0, name: Name::Ready, site: None, from: None, text: text.into(), plain: false }
    }

    #[test]
    fn lines_look_as_other_tools_know_them() {
        assert_eq!(line("Listening on http://127.0.0.1:1").as_text(), "* Listening on http://127.0.0.1:1");
        assert_eq!(Line { plain: true, ..line("a\nb") }.as_text(), "a\nb");
        assert_eq!(Line { from: Some("shop.2".into()), ..line("hello") }.as_text(), "[shop.2] hello");
    }

    #[test]
    fn a_report_is_one_object() {
        let report = Line {
            plain: true,
            site: Some("shop".into()),
            ..line("shop did not start\n  \x1b[31m✗\x1b[0m \"boot\"\n")
        };
        let json = report.as_json();
        assert!(json.starts_with("{\"time\":\"") && json.lines().count() == 1, "{json}");
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["text"], "shop did not start\n  ✗ \"boot\"");
        assert_eq!(
            (&object["event"], &object["site"], &object["from"]),
            (&"generation-ready".into(), &"shop".into(), &serde_json::Value::Null)
        );
        let printed = Line { name: Name::Output, from: Some("shop.2".into()), ..line("hello") }.as_json();
        assert!(printed.ends_with(",\"event\":\"output\",\"from\":\"shop.2\",\"text\":\"hello\"}"), "{printed}");
    }

    #[test]
    fn colours_and_what_is_too_long_are_left_out() {
        assert_eq!(line("\x1b[1;31mred\x1b[0m and \x1bcbare\x1b[").bare(100).text, "red and cbare");
        assert_eq!(line("grün").bare(3).text, "gr ...");
        assert_eq!(line("grün").bare(5).text, "grün");
    }

    #[test]
    fn a_terminal_is_told_nothing_but_colours() {
        for (text, shown) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[1;31mred\x1b[0m \x1b[m", "\x1b[1;31mred\x1b[0m \x1b[m"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            ("\x1b[2J\x1b[H\x1b[31", "\u{fffd}[2J\u{fffd}[H\u{fffd}[31"),
            ("a\rb\u{9b}31mc\x00", "a\u{fffd}b\u{fffd}31mc\u{fffd}"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(Line { plain: true, ..line(text) }.as_text(), shown);
        }
    }
}
