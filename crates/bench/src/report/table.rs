//! The result on a terminal: rate, latencies, and for each percentile what it is made of. As wide as the terminal.

use std::fmt::Write as _;

use units::{bytes, millis, number};

use super::name_of;
use crate::{
    parts::{Part, PARTS},
    summary::{Shares, Summary, SHOWN},
};

/// Columns that the bars leave for the percentile and its time.
const LABEL: usize = 18;

/// How the text is shown.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Columns.
    pub width: usize,
    pub color: bool,
}

/// All of it.
pub fn text(summary: &Summary, style: Style) -> String {
    let mut text = String::new();
    let (load, time) = (summary.load(), format!("{:.1} s", summary.seconds));
    wrap(&mut text, "", 2, [&*summary.url, &load, &time], " · ", style.width);
    text.push('\n');
    figures(&mut text, summary, style.width);
    if summary.answers > 0 {
        text.push('\n');
        bars(&mut text, summary, style);
    }
    remarks(&mut text, &summary.remarks, style);
    text
}

fn figures(text: &mut String, summary: &Summary, width: usize) {
    let ok = summary.answers - summary.not_2xx();
    let all_ok = if summary.answers == 0 {
        String::new()
    } else if ok == summary.answers {
        ", all 2xx".to_owned()
    } else {
        format!(", {} are 2xx", number(ok as f64))
    };
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    line("requests/s", number(summary.requests_per_second));
    line("answers", format!("{}{all_ok}", number(summary.answers as f64)));
    if summary.failed() > 0 {
        line("failed", number(summary.failed() as f64));
    }
    if summary.answers > 0 {
        let each = summary.body_bytes as f64 / summary.answers as f64;
        let rate = summary.received as f64 / summary.seconds.max(1e-6);
        line("received", format!("{}/s, bodies of {}", bytes(rate as u64), bytes(each as u64)));
        let shown = SHOWN.map(|percent| format!("{} {}", name_of(percent), millis(summary.percentile(percent))));
        wrap(text, "  latency       ", 16, shown.iter().map(String::as_str), " · ", width);
    }
}

/// The letter of a part in a bar: its name's first one where no other part has it.
pub fn letter(part: Part) -> char {
    match part {
        Part::Late => 'L',
        Part::Connect => 'c',
        Part::Tls => 't',
        Part::Upload => 'u',
        Part::Wait => 'w',
        Part::Front => 'f',
        Part::Queue => 'q',
        Part::Sql => 's',
        Part::Views => 'v',
        Part::Gc => 'g',
        Part::Outbound => 'o',
        Part::App => 'a',
        Part::Response => 'r',
    }
}

/// Of the 256 colours of terminals.
pub fn color(part: Part) -> u8 {
    match part {
        Part::Late => 196,
        Part::Connect => 111,
        Part::Tls => 69,
        Part::Upload => 146,
        Part::Wait => 180,
        Part::Front => 151,
        Part::Queue => 215,
        Part::Sql => 74,
        Part::Views => 108,
        Part::Gc => 203,
        Part::Outbound => 176,
        Part::App => 179,
        Part::Response => 250,
    }
}

fn bars(text: &mut String, summary: &Summary, style: Style) {
    let shown: Vec<&Shares> =
        summary.parts.iter().filter(|shares| [50.0, 90.0, 99.0, 99.9].contains(&shares.percent)).collect();
    let longest = shown.iter().map(|shares| shares.ms).fold(0.0, f64::max).max(1e-6);
    let width = style.width.saturating_sub(LABEL + 2).clamp(20, 160);
    let _ = writeln!(text, "  Where the time goes");
    for shares in &shown {
        let bar = bar(shares, (shares.ms / longest * width as f64).round().max(1.0) as usize, style.color);
        let _ = writeln!(text, "  {:<6}{:>9}  {bar}", name_of(shares.percent), millis(shares.ms));
    }
    text.push('\n');
    let parts = known(summary);
    let mut heading = format!("  {:<6}", "ms");
    for part in &parts {
        let _ = write!(heading, "{:>w$}", format!("{} {}", letter(*part), part.name()), w = column(*part));
    }
    // A terminal of 80 columns has room for eight parts.
    let _ = writeln!(text, "{heading}");
    for shares in &shown {
        let _ = write!(text, "  {:<6}", name_of(shares.percent));
        for part in &parts {
            let value = shares.parts.get(part.name()).copied().unwrap_or_default();
            let _ = write!(text, "{:>w$}", figure(value), w = column(*part));
        }
        text.push('\n');
    }
}

fn column(part: Part) -> usize {
    part.name().len().max(5) + 3
}

fn figure(ms: f64) -> String {
    match ms {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// The parts that are seen: at least a hundredth of some bar.
pub fn known(summary: &Summary) -> Vec<Part> {
    let seen = |part: &Part| {
        summary.parts.iter().any(|shares| {
            shares.parts.get(part.name()).is_some_and(|value| *value > 0.0 && *value >= shares.ms / 100.0)
        })
    };
    PARTS.into_iter().filter(seen).collect()
}

fn bar(shares: &Shares, width: usize, color: bool) -> String {
    let mut cells = Vec::new();
    let (mut sum, whole) = (0.0, shares.ms.max(1e-9));
    for part in PARTS {
        sum += shares.parts.get(part.name()).copied().unwrap_or_default();
        let until = (sum / whole * width as f64).round() as usize;
        while cells.len() < until.min(width) {
            cells.push(part);
        }
    }
    let mut bar = String::new();
    for run in cells.chunk_by(|one, other| one == other) {
        let letters: String = run.iter().map(|part| letter(*part)).collect();
        if color {
            let _ = write!(bar, "\x1b[48;5;{}m\x1b[38;5;16m{letters}\x1b[0m", self::color(run[0]));
        } else {
            bar.push_str(&letters)
        }
    }
    bar
}

/// Sentences below the figures, broken at the terminal's width.
pub fn remarks(text: &mut String, remarks: &[String], style: Style) {
    if remarks.is_empty() {
        return;
    }
    text.push('\n');
    for remark in remarks {
        wrap(text, "  ! ", 4, remark.split(' '), " ", style.width);
    }
}

/// Lines with as many of these pieces as fit; those after the first are indented.
fn wrap<'a>(
    text: &mut String,
    start: &str,
    indent: usize,
    pieces: impl IntoIterator<Item = &'a str>,
    between: &str,
    width: usize,
) {
    let (mut line, mut is_new) = (start.to_owned(), true);
    for piece in pieces {
        let space = if is_new { "" } else { between };
        if !is_new && line.chars().count() + space.chars().count() + piece.chars().count() > width {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(indent);
        } else {
            line.push_str(space);
        }
        line.push_str(piece);
        is_new = false;
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_bar_is_as_long_as_it_says_and_divided_in_proportion() {
        let parts = BTreeMap::from([("queue".to_owned(), 5.0), ("app".to_owned(), 4.0), ("response".to_owned(), 1.0)]);
        let shares = Shares { percent: 50.0, ms: 10.0, parts };
        assert_eq!(bar(&shares, 20, false), "qqqqqqqqqqaaaaaaaarr");
        assert!(bar(&shares, 20, true).starts_with("\x1b[48;5;215m\x1b[38;5;16mqqqqqqqqqq\x1b[0m"));
    }

    #[test]
    fn no_two_parts_have_one_letter() {
        let mut letters = PARTS.map(letter);
        letters.sort_unstable();
        assert!(letters.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn long_remarks_are_broken() {
        let mut text = String::new();
        remarks(&mut text, &["one two three four five".into()], Style { width: 16, color: false });
        assert_eq!(text, "\n  ! one two\n    three four\n    five\n");
    }
}
