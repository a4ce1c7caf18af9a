//! How two answers differ, for people: what changed, with a little of what stands around it. It never decides whether a
//! difference counts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{align::Span, tokens::Tokens};
use crate::units;

/// Bytes of what stands before and after a change.
const AROUND: usize = 60;
/// Bytes of a change itself.
const SHOWN: usize = 400;
/// Letters of a change in one line.
const IN_LINE: usize = 60;

/// What a trial answered differently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Difference {
    /// Control's and trial's.
    pub status: Option<(u16, u16)>,
    pub headers: Vec<HeaderChange>,
    /// The first ones.
    pub body: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderChange {
    /// In lower case.
    pub name: String,
    /// None: the field is missing.
    pub control: Option<String>,
    pub trial: Option<String>,
}

/// A place of the body. Text that is not UTF-8 is shown with replacement characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Bytes from the beginning of control's body.
    pub offset: usize,
    pub before: String,
    /// Control's text; empty: trial has something more.
    pub control: String,
    pub trial: String,
    pub after: String,
}

impl Difference {
    /// Nothing but headers differs.
    pub fn is_of_headers(&self) -> bool {
        self.status.is_none() && self.body.is_empty() && !self.headers.is_empty()
    }

    pub(super) fn is_none(&self) -> bool {
        self.status.is_none() && self.headers.is_empty() && self.body.is_empty()
    }
}

impl Change {
    pub(super) fn new(a: &Tokens, b: &Tokens, span: &Span) -> Change {
        let (start, end) = (a.offset(span.a.start), a.offset(span.a.end));
        let text = a.text();
        Change {
            offset: start,
            before: shown(&text[start.saturating_sub(AROUND)..start]),
            control: shown(a.bytes(span.a.start, span.a.end)),
            trial: shown(b.bytes(span.b.start, span.b.end)),
            after: shown(&text[end..(end + AROUND).min(text.len())]),
        }
    }

    pub(super) fn of_lengths(control: usize, trial: usize) -> Change {
        Change {
            offset: 0,
            before: String::new(),
            control: format!("({})", units::figures(control as u64, "byte", "bytes")),
            trial: format!("({})", units::figures(trial as u64, "byte", "bytes")),
            after: String::new(),
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    if bytes.len() > SHOWN {
        text.push('…');
    }
    text
}

/// In one line, without control characters.
fn line(text: &str) -> String {
    let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = folded.chars().filter(|letter| !letter.is_control()).collect();
    if plain.chars().count() > IN_LINE {
        plain.chars().take(IN_LINE).chain(['…']).collect()
    } else {
        plain
    }
}

impl fmt::Display for Difference {
    /// The first thing that differs, in a few words.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((control, trial)) = self.status {
            return write!(formatter, "status {control} became {trial}");
        }
        if let Some(change) = self.headers.first() {
            let value = |value: &Option<String>| value.as_deref().map(line);
            return match (value(&change.control), value(&change.trial)) {
                (Some(control), Some(trial)) => {
                    write!(formatter, "header {}: {control} became {trial}", change.name)
                }
                (Some(control), None) => write!(formatter, "header {}: {control} is missing", change.name),
                (None, trial) => write!(formatter, "header {}: {} is new", change.name, trial.unwrap_or_default()),
            };
        }
        let Some(change) = self.body.first() else { return write!(formatter, "nothing differs") };
        let place = units::grouped(change.offset as u64);
        if change.control.is_empty() {
            write!(formatter, "{} is new at byte {place}", line(&change.trial))
        } else if change.trial.is_empty() {
            write!(formatter, "{} is missing at byte {place}", line(&change.control))
        } else {
            write!(formatter, "{} became {} at byte {place}", line(&change.control), line(&change.trial))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(control: &str, trial: &str) -> Difference {
        let change = Change {
            offset: 1204,
            before: String::new(),
            control: control.into(),
            trial: trial.into(),
            after: String::new(),
        };
        Difference { body: vec![change], ..Difference::default() }
    }

    #[test]
    fn it_is_said_in_a_few_words() {
        let header = |control: Option<&str>, trial: Option<&str>| Difference {
            headers: vec![HeaderChange {
                name: "vary".into(),
                control: control.map(Into::into),
                trial: trial.map(Into::into),
            }],
            ..Difference::default()
        };
        let status = Difference { status: Some((200, 500)), ..change("a", "b") };
        for (difference, text) in [
            (status, "status 200 became 500"),
            (header(Some("a"), Some("b")), "header vary: a became b"),
            (header(Some("a"), None), "header vary: a is missing"),
            (header(None, Some("b")), "header vary: b is new"),
            (change("3", "4"), "3 became 4 at byte 1,204"),
            (change("<p>\n  Alt\u{7}\n</p>", ""), "<p> Alt </p> is missing at byte 1,204"),
            (change("", "new"), "new is new at byte 1,204"),
        ] {
            assert_eq!(difference.to_string(), text);
        }
        assert!(change(&"x".repeat(1000), "").to_string().len() < 120);
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let (long, short) = ("x ".repeat(5000), "y");
        let (a, b) = (Tokens::new(long.as_bytes()), Tokens::new(short.as_bytes()));
        let change = Change::new(&a, &b, &Span { a: 0..a.len(), b: 0..1 });
        assert!(change.control.len() <= SHOWN + 4 && change.control.ends_with('…'));
    }
}
