//! One line of the log that is no access line: an event of the server, or what an app printed.
//! It never decides where it goes.

use std::sync::Arc;

use super::Name;
use crate::local_time::{local_time, RFC_3339};

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
    /// As it has always looked: events begin with `* `, output with who printed it.
    pub fn as_text(&self) -> String {
        match &self.from {
            Some(from) => format!("[{from}] {}", self.text),
            None if self.plain => self.text.clone(),
            None => format!("* {}", self.text),
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
}
