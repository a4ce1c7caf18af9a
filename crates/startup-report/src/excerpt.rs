//! Reads the few lines of source around a place, for error pages.
//! It never reads more than a bounded part of a regular file, and never fails: a file it can't show has no excerpt.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
};

use unix_user::{self, RunAs};

const READ_BYTES: u64 = 2 * 1024 * 1024;
const LINE_CHARS: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    pub number: u32,
    pub text: String,
    /// The line the error points at.
    pub marked: bool,
}

/// The lines from `around` before to `around` after `line` (1-based). Empty when there is nothing to show.
pub fn read(run_as: &RunAs, file: &Path, line: u32, around: u32) -> Vec<SourceLine> {
    read_lines(run_as, file, line, around).unwrap_or_default()
}

fn read_lines(run_as: &RunAs, file: &Path, line: u32, around: u32) -> Option<Vec<SourceLine>> {
    if line == 0 {
        return None;
    }
    let file = unix_user::open(run_as, file).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut source = BufReader::new(file.take(READ_BYTES));
    let (first, last) = (line.saturating_sub(around).max(1), line.saturating_add(around));
    let mut lines = Vec::new();
    let mut raw = Vec::new();
    for number in 1..=last {
        raw.clear();
        if source.read_until(b'\n', &mut raw).ok()? == 0 {
            break;
        }
        if raw.contains(&0) {
            return None;
        }
        if number >= first {
            lines.push(SourceLine { number, text: shown(&raw), marked: number == line });
        }
    }
    // A syntax error at the end of a file may point one line past it.
    let end = lines.last().map_or(0, |last: &SourceLine| last.number);
    if end + 1 == line {
        lines.push(SourceLine { number: line, text: String::new(), marked: true });
    }
    lines.iter().any(|line| line.marked).then_some(lines)
}

fn shown(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let text: String = text.trim_end().chars().map(|c| if c == '\t' || !c.is_control() { c } else { ' ' }).collect();
    let text = text.replace('\t', "    ");
    match text.char_indices().nth(LINE_CHARS) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &Path, line: u32, around: u32) -> Vec<SourceLine> {
        super::read(&RunAs::own(), file, line, around)
    }

    fn file(name: &str, content: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("paceline-excerpt-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        path
    }

    fn numbers(path: &Path, line: u32) -> Vec<u32> {
        read(path, line, 2).into_iter().map(|line| line.number).collect()
    }

    #[test]
    fn lines_around_are_bounded_by_the_file() {
        let path = file("ten", (1..=10).map(|n| format!("line {n}\n")).collect::<String>().as_bytes());
        assert_eq!(numbers(&path, 5), [3, 4, 5, 6, 7]);
        assert_eq!(numbers(&path, 1), [1, 2, 3]);
        assert_eq!(numbers(&path, 10), [8, 9, 10]);
        assert_eq!(numbers(&path, 11), [9, 10, 11]);
        assert!(numbers(&path, 12).is_empty());
        assert!(numbers(&path, 0).is_empty());
        assert!(numbers(&path, u32::MAX).is_empty());
        assert_eq!(read(&path, 5, 2)[2], SourceLine { number: 5, text: "line 5".into(), marked: true });
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn missing_binary_odd_and_huge_files_are_harmless() {
        assert!(read("/nonexistent/x.rb".as_ref(), 1, 2).is_empty());
        assert!(read("/tmp".as_ref(), 1, 2).is_empty());
        assert!(read("/dev/zero".as_ref(), 1, 2).is_empty());
        let binary = file("binary", b"\x7fELF\0\0\n");
        assert!(read(&binary, 1, 2).is_empty());
        std::fs::remove_file(binary).unwrap();
        let huge = file("huge", &b"x".repeat(5 << 20));
        assert_eq!(read(&huge, 1, 2)[0].text.chars().count(), LINE_CHARS + 1);
        std::fs::remove_file(huge).unwrap();
        let latin = file("latin", b"caf\xe9 \x1b[31m\tx\n");
        assert_eq!(read(&latin, 1, 2)[0].text, "caf\u{fffd}  [31m    x");
        std::fs::remove_file(latin).unwrap();
    }
}
