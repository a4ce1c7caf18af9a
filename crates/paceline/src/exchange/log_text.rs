//! The text of a log line, written piece after piece into one string. `format!` and the strings between took a sixth of
//! what the front spends on a short request, and most of it in code that nothing else keeps in the processor's cache.
//! It never decides what a line says.

use std::{cell::RefCell, net::IpAddr};

use crate::{
    observe::local_time::local_time,
    support::{clock::Micros, short_text::AddressText},
};

/// Bytes of most lines.
const USUAL: usize = 512;
/// Apache's %t.
const APACHE_TIME: &str = "%d/%b/%Y:%H:%M:%S %z";

/// A line that is being written.
pub struct LogText(String);

impl LogText {
    pub fn new() -> LogText {
        LogText(String::with_capacity(USUAL))
    }

    pub fn finish(self) -> String {
        self.0
    }

    /// As it is.
    pub fn text(&mut self, text: &str) -> &mut LogText {
        self.0.push_str(text);
        self
    }

    pub fn number(&mut self, number: u64) -> &mut LogText {
        self.text(itoa::Buffer::new().format(number))
    }

    /// `12.4ms`, rounded.
    pub fn millis(&mut self, duration: Micros) -> &mut LogText {
        let tenths = duration.saturating_add(50) / 100;
        self.number(tenths / 10).text(".").number(tenths % 10).text("ms")
    }

    /// `-`, if it is not known.
    pub fn address(&mut self, address: Option<IpAddr>) -> &mut LogText {
        match address {
            Some(address) => self.text(AddressText::of(address).as_str()),
            None => self.text("-"),
        }
    }

    /// Unix `seconds` as Apache writes them, in the machine's zone. A thread formats each second once.
    pub fn time(&mut self, seconds: f64) -> &mut LogText {
        thread_local! {
            static LAST: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
        }
        LAST.with_borrow_mut(|(second, text)| {
            let now = seconds.floor() as i64;
            if *second != now {
                (*second, *text) = (now, local_time(seconds, APACHE_TIME));
            }
            self.text(text);
        });
        self
    }

    /// Quotes, backslashes and control characters as Apache's %r escapes them.
    pub fn escaped(&mut self, text: &str) -> &mut LogText {
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
        if text.bytes().all(is_plain) {
            return self.text(text);
        }
        for character in text.chars() {
            match character {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                character if character.is_control() => self.0.extend(character.escape_default()),
                character => self.0.push(character),
            }
        }
        self
    }

    /// A name as one word of the line.
    pub fn word(&mut self, name: &str) -> &mut LogText {
        if name.contains(' ') || name == "-" || name.is_empty() {
            self.text("\"").escaped(name).text("\"")
        } else {
            self.escaped(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut LogText) -> &mut LogText) -> String {
        let mut line = LogText::new();
        write(&mut line);
        line.finish()
    }

    #[test]
    fn durations_have_one_digit_behind_the_point() {
        for (duration, text) in [
            (0, "0.0ms"),
            (49, "0.0ms"),
            (50, "0.1ms"),
            (949, "0.9ms"),
            (950, "1.0ms"),
            (13_100, "13.1ms"),
            (61_234_567, "61234.6ms"),
            (Micros::MAX, "18446744073709551.6ms"),
        ] {
            assert_eq!(written(|line| line.millis(duration)), text, "{duration}");
        }
    }

    #[test]
    fn a_second_is_formatted_once_and_the_next_again() {
        for seconds in [1_700_000_000.25, 1_700_000_000.75, 1_700_000_001.0, 1_700_000_000.5] {
            assert_eq!(written(|line| line.time(seconds)), local_time(seconds, APACHE_TIME), "{seconds}");
        }
    }

    #[test]
    fn what_could_be_taken_for_the_line_s_own_is_escaped() {
        for (text, escaped) in [
            ("", ""),
            ("/a?b=1~", "/a?b=1~"),
            ("curl \"x\"", "curl \\\"x\\\""),
            ("a\\b", "a\\\\b"),
            ("a\nb\u{1b}[31m", "a\\nb\\u{1b}[31m"),
            ("grün\u{85}\u{7f}", "grün\\u{85}\\u{7f}"),
        ] {
            assert_eq!(written(|line| line.escaped(text)), escaped, "{text:?}");
        }
        for (name, word) in [("ada", "ada"), ("ada l", "\"ada l\""), ("-", "\"-\""), ("", "\"\""), ("a\"b", "a\\\"b")] {
            assert_eq!(written(|line| line.word(name)), word, "{name:?}");
        }
    }
}
