//! Small pieces of text both renderings share: durations, signals, lines without control characters.
//! It never knows what they are about.

use std::{borrow::Cow, time::Duration};

const LINE_BYTES: usize = 4 * 1024;

pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        15 => "TERM",
        24 => "XCPU",
        25 => "XFSZ",
        31 => "SYS",
        _ => "?",
    }
}

/// `0.42 ms`, `312 ms`, `4.21 s`.
pub fn duration(time: Duration) -> String {
    units::millis(time.as_secs_f64() * 1e3)
}

/// Text without escape sequences and control characters (tabs stay, lines end where they end), bounded.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LINE_BYTES));
    let mut rest = text.trim_end_matches(['\n', '\r']).chars().peekable();
    while let Some(c) = rest.next() {
        if out.len() > LINE_BYTES {
            out.push('…');
            break;
        }
        match c {
            '\x1b' => match rest.next() {
                // CSI: parameters up to a final byte.
                Some('[') => while rest.next().is_some_and(|c| !('\x40'..='\x7e').contains(&c)) {},
                // OSC: up to BEL or ESC \.
                Some(']') => {
                    while let Some(c) = rest.next() {
                        if c == '\x07' || (c == '\x1b' && rest.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\t' => out.push('\t'),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Characters of a line up to which all is shown that Ruby says of an object.
const OBJECTS: usize = 300;

/// A long line without what its objects hold: `#<Configuration:0x00007f @root=...>` becomes `#<Configuration ...>`. What Ruby
/// says of a whole application would fill pages, and there may be secrets in it.
fn without_contents(line: &str) -> Cow<'_, str> {
    if line.len() <= OBJECTS {
        return line.into();
    }
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find("#<") {
        let (before, object) = rest.split_at(start);
        let end = end_of_object(object);
        let (object, after) = object.split_at(end);
        let name = object.find([' ', '>']).map_or(object, |at| &object[..at]);
        let name = name.split_once(":0x").map_or(name, |(name, _)| name);
        out.push_str(before);
        out.push_str(name);
        out.push_str(if object.contains(' ') { " ...>" } else { ">" });
        rest = after;
    }
    out.push_str(rest);
    out.into()
}

/// Behind the `>` of an object that begins the text; its end, if there is none.
fn end_of_object(text: &str) -> usize {
    let (mut depth, mut before) = (0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '<' if before == '#' => depth += 1,
            // Not that of `:key=>value`.
            '>' if before != '=' && before != '-' => depth -= 1,
            _ => {}
        }
        before = c;
        if depth == 0 && c == '>' {
            return at + 1;
        }
    }
    text.len()
}

/// The lines of a text without control characters, blank ones at both ends dropped.
pub fn plain_lines(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.trim_end().lines().map(|line| plain(&without_contents(line))).collect();
    lines.into_iter().skip_while(|line| line.trim().is_empty()).collect()
}

/// Between a cause and its own one in a report.
const CAUSED_BY: &str = "\ncaused by ";

/// An exception's cause, the cause's cause, and so on: `KeyError: key not found`.
pub fn causes(told: Option<&str>) -> impl Iterator<Item = &str> {
    told.unwrap_or_default().split(CAUSED_BY).filter(|cause| !cause.is_empty())
}

/// The causes, as far as the message has not told them already.
pub fn cause_beyond(message: &str, told: Option<&str>) -> Option<String> {
    let mut said = message.to_string();
    let mut kept = Vec::new();
    for cause in causes(told) {
        let words = cause.split_once(": ").map_or(cause, |(_, words)| words).trim();
        if !said.contains(words) {
            kept.push(plain_lines(cause).join("\n"));
            said.push_str(cause);
        }
    }
    (!kept.is_empty()).then(|| kept.join(CAUSED_BY))
}

/// What a report's further text says that its message has not said: Ruby 3.2 repeats the message there, and Bundler
/// too.
pub fn beyond(message: &str, detail: Option<&str>) -> Vec<String> {
    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let one_spaced = spaced(message);
    let said = |line: &str| {
        let line = line.trim().trim_start_matches("Bundler: ").trim_start_matches("cannot load: ");
        let line = match line.rsplit_once(" (") {
            Some((words, class)) if class.ends_with(')') && !class.contains(' ') => words,
            _ => line,
        };
        let is_class = line.starts_with('(') && line.ends_with(')') && !line.contains(' ');
        line == "Bundler:"
            || is_class
            || line.starts_with("Bundler exit status")
            || message.contains(line)
            || one_spaced.contains(&spaced(line))
    };
    let lines = plain_lines(detail.unwrap_or_default());
    // Blank lines stay where they part things, and the indentation of excerpts stays whole.
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        let blank = line.trim().is_empty();
        if blank && kept.last().is_some_and(|last| !last.is_empty()) {
            kept.push(String::new());
        } else if !blank && !said(&line) {
            kept.push(line);
        }
    }
    while kept.last().is_some_and(String::is_empty) {
        kept.pop();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_terminal_commands() {
        for (raw, expected) in [
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;http://x\x1b\\link", "link"),
            ("a\tb\0\x08c\r\n", "a\tbc"),
            ("\x1b", ""),
            ("\x1b[", ""),
            ("grün", "grün"),
        ] {
            assert_eq!(plain(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn further_text_is_not_told_twice() {
        for (message, detail, expected) in [
            ("no way", "no way (RuntimeError)", &[][..]),
            (
                "x",
                "x (NameError)\n\n  foo.x\n     ^^^\nDid you mean?  y",
                &["  foo.x", "     ^^^", "Did you mean?  y"][..],
            ),
            ("pending\n", "pending\n (ActiveRecord::PendingMigrationError)", &[][..]),
            ("Could not find a", "Bundler: Could not find a\nGemfile: /srv/Gemfile", &["Gemfile: /srv/Gemfile"][..]),
            ("cannot load such file -- y", "cannot load: y", &[][..]),
            ("x\nDid you mean?  y", "Did you mean? y", &[][..]),
            ("m", "a\n\n\nb\n\n", &["a", "", "b"][..]),
        ] {
            assert_eq!(beyond(message, Some(detail)), expected);
        }
        assert!(beyond("m", None).is_empty());
    }

    #[test]
    fn what_objects_hold_is_left_out_of_long_lines() {
        let inside = "@key=\"hunter2\", @hash={:a=>#<Pathname:/srv/app>, :b=>#<B:0x01 @c=#<C ...>>}, ".repeat(5);
        let shown = |text: &str| plain_lines(text).join("\n");
        let long = format!("undefined method `x' for #<Rails::Configuration:0x00007f {inside}>\nDid you mean? y");
        assert_eq!(shown(&long), "undefined method `x' for #<Rails::Configuration ...>\nDid you mean? y");
        let cut = format!("for #<A:0x1 {inside}");
        assert_eq!(shown(&cut), "for #<A ...>");
        let two = format!("{} #<A:0x1> and #<B:0x2 @a=1> end", "word ".repeat(60));
        assert!(shown(&two).ends_with("word  #<A> and #<B ...> end"), "{}", shown(&two));
        assert_eq!(shown("for #<A:0x1 @a=1>"), "for #<A:0x1 @a=1>");
    }

    #[test]
    fn a_chain_of_causes_is_told_without_what_was_said() {
        for (told, expected) in [
            (None, None),
            (Some(""), None),
            (Some("A::B: no such table: x"), None),
            (Some("KeyError: K"), Some("KeyError: K")),
            (Some("E: no such table: x\ncaused by KeyError: K\nmore\ncaused by F: K"), Some("KeyError: K\nmore")),
            (Some("E: one\ncaused by F: two"), Some("E: one\ncaused by F: two")),
        ] {
            assert_eq!(cause_beyond("A::B: no such table: x", told).as_deref(), expected);
        }
    }
}
