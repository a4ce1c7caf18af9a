//! The last lines of the log in memory, for whoever asks what happened just now: `paceline log`, the page of an
//! incident. It never holds more than its bounds, nor lines of the access log.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use super::{Line, Name};
use crate::support::clock;

/// Lines that are held, at most.
const LINES: usize = 2000;
/// Bytes that they take, at most.
const BYTES: usize = 1 << 20;
/// Bytes of one line's text.
const LONGEST: usize = 64 << 10;

/// Holds lines, and numbers them as they come.
#[derive(Default)]
pub struct Recent {
    held: Mutex<RecentLine>,
}

#[derive(Default)]
struct RecentLine {
    last: u64,
    bytes: usize,
    lines: VecDeque<Arc<Line>>,
}

impl Recent {
    /// Numbers a line, keeps it bare of colours, and gives it back as it is to be written.
    pub fn push(
        &self,
        name: Name,
        site: Option<Arc<str>>,
        from: Option<String>,
        text: String,
        plain: bool,
    ) -> Arc<Line> {
        let line = Line { number: 0, time: clock::unix_seconds(), name, site, from, text, plain };
        let bare = (line.text.len() > LONGEST || line.text.contains('\x1b')).then(|| line.bare(LONGEST));
        let mut held = self.held.lock();
        held.last += 1;
        let number = held.last;
        let line = Arc::new(Line { number, ..line });
        let bare = bare.map_or_else(|| line.clone(), |bare| Arc::new(Line { number, ..bare }));
        held.bytes += bare.bytes();
        held.lines.push_back(bare);
        while held.lines.len() > LINES || held.bytes > BYTES {
            let Some(oldest) = held.lines.pop_front() else { break };
            held.bytes -= oldest.bytes();
        }
        line
    }

    /// The last lines with numbers over `after`, `most` of them, the oldest first.
    pub fn after(&self, after: u64, most: usize) -> Vec<Arc<Line>> {
        let held = self.held.lock();
        let newer = held.lines.partition_point(|line| line.number <= after);
        held.lines.range(newer.max(held.lines.len().saturating_sub(most))..).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(recent: &Recent, text: impl Into<String>) {
        recent.push(Name::Output, Some("shop".into()), Some("shop.1".into()), text.into(), false);
    }

    #[test]
    fn the_last_lines_are_numbered_and_bounded() {
        let recent = Recent::default();
        assert!(recent.after(0, 10).is_empty());
        (1..=LINES + 5).for_each(|number| push(&recent, format!("line {number}")));
        let all = recent.after(0, usize::MAX);
        assert_eq!((all.len(), all[0].number, all[LINES - 1].number), (LINES, 6, LINES as u64 + 5));
        let last = recent.after(2002, 2);
        let texts: Vec<_> = last.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["line 2004", "line 2005"]);
        assert!(recent.after(2005, 2).is_empty());
        (0..100).for_each(|_| push(&recent, "x".repeat(1 << 20)));
        let held: usize = recent.after(0, usize::MAX).iter().map(|line| line.bytes()).sum();
        assert!(held <= BYTES && held > BYTES / 2, "{held}");
    }

    #[test]
    fn colours_are_written_but_not_held() {
        let recent = Recent::default();
        let written = recent.push(Name::StartFailed, None, None, "\x1b[31mred\x1b[0m".into(), true);
        assert_eq!(written.text, "\x1b[31mred\x1b[0m");
        assert_eq!(recent.after(0, 1)[0].text, "red");
    }
}
