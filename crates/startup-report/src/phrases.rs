//! Small pieces of text both renderings share: durations, signals, lines without control characters.
//! It never knows what they are about.

use std::time::Duration;

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

/// `0.4 ms`, `312 ms`, `4.21 s`.
pub fn duration(time: Duration) -> String {
    match time.as_micros() {
        0..=9_999 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        10_000..=999_999 => format!("{} ms", time.as_millis()),
        1_000_000..=59_999_999 => format!("{:.2} s", time.as_secs_f64()),
        _ => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    }
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

/// The lines of a text without control characters, blank ones at both ends dropped.
pub fn plain_lines(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.trim_end().lines().map(plain).collect();
    lines.into_iter().skip_while(|line| line.trim().is_empty()).collect()
}

/// The cause, when the message has not told it already.
pub fn cause_beyond(message: &str, cause: Option<&str>) -> Option<String> {
    let cause = cause.filter(|cause| !cause.is_empty())?;
    let words = cause.split_once(": ").map_or(cause, |(_, words)| words).trim();
    (!message.contains(words)).then(|| plain_lines(cause).join("\n"))
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
    fn durations_have_the_unit_that_reads_well() {
        for (us, text) in
            [(0, "0.0 ms"), (412, "0.4 ms"), (312_400, "312 ms"), (4_210_000, "4.21 s"), (130_000_000, "2 min 10 s")]
        {
            assert_eq!(duration(Duration::from_micros(us)), text);
        }
    }
}
