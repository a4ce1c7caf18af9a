//! The record on a terminal: steps, exception, source, backtrace, output, suggestion.
//! It never prints; colours only when asked for, and nothing of the app's reaches the terminal as a command.

use super::{
    backtrace::{self, Frame},
    excerpt,
    phrases::{beyond, cause_beyond, duration, plain, plain_lines},
    place::{place, Root},
    record::Mark,
    suggestion::{self, Suggestion, Surroundings},
    Failure, StartupReport,
};
use std::fmt::Write;

const OUTPUT_SHOWN: usize = 20;
const APP_FRAMES: usize = 12;
const OTHER_FRAMES: usize = 6;
const WIDTH: usize = 96;

/// The record as text, looking at this machine.
pub fn render(report: &StartupReport, colour: bool) -> String {
    render_with(report, colour, &suggestion::Here::of(report))
}

pub fn render_with(report: &StartupReport, colour: bool, seen: &dyn Surroundings) -> String {
    let mut page = Page { out: String::new(), colour };
    page.head(report);
    page.steps(report);
    if let Some(failure) = &report.failure {
        page.failure(report, failure);
    }
    if let Some(suggestion) = suggestion::suggest_with(report, seen) {
        page.what_to_do(&suggestion);
    }
    page.output(report);
    if let Some(Failure::Exception { backtrace, .. }) = &report.failure {
        page.backtrace(&backtrace::frames(backtrace, &Root::of(&report.root)));
    }
    page.out
}

/// The suggestion alone, for a message that has said the rest.
pub fn what_to_do(suggestion: &Suggestion) -> String {
    let mut page = Page { out: String::new(), colour: false };
    page.what_to_do(suggestion);
    page.out
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const BOLD_RED: &str = "1;31";
const GREEN: &str = "32";
const BOLD_GREEN: &str = "1;32";
const YELLOW: &str = "33";

struct Page {
    out: String,
    colour: bool,
}

impl Page {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}", text.trim_end());
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    fn title(&mut self, text: &str) {
        let title = self.paint(BOLD, text);
        self.line("");
        self.line(&title);
    }

    fn what_to_do(&mut self, suggestion: &Suggestion) {
        self.title("What to do");
        for line in wrap(&plain_lines(&suggestion.text).join(" "), WIDTH) {
            self.line(&format!("  {line}"));
        }
        if let Some(command) = &suggestion.command {
            self.line("");
            let command = self.paint(BOLD_GREEN, &plain(command));
            self.line(&format!("      {command}"));
        }
    }

    fn head(&mut self, report: &StartupReport) {
        let site = plain(&report.site);
        let headline = match report.failure {
            Some(_) => self.paint(BOLD_RED, &format!("{site} did not start")),
            None => self.paint(BOLD_GREEN, &format!("{site} started in {}", duration(report.elapsed()))),
        };
        self.line(&headline);
        let root = report.root.display().to_string();
        let facts = [root.as_str(), &report.environment, &report.versions, &report.id];
        let facts: Vec<String> = facts.iter().filter(|fact| !fact.is_empty()).map(|fact| plain(fact)).collect();
        let facts = self.paint(DIM, &facts.join(" · "));
        self.line(&facts);
    }

    fn steps(&mut self, report: &StartupReport) {
        self.line("");
        for (step, mark) in report.marks() {
            let (sign, note, code) = match mark {
                Mark::Done(took) => ("✓", duration(took), GREEN),
                Mark::Running => ("…", "under way".into(), YELLOW),
                Mark::Failed => ("✗", "failed here".into(), RED),
                Mark::Skipped => ("–", "not needed".into(), DIM),
                Mark::NotReached => ("·", "not reached".into(), DIM),
            };
            let text = format!("{sign} {:<8} {:<24} {note:>11}", step.name(), step.meaning());
            let text = match mark {
                Mark::Done(_) => text.replacen(sign, &self.paint(code, sign), 1),
                _ => self.paint(code, &text),
            };
            self.line(&format!("  {text}"));
        }
    }

    fn failure(&mut self, report: &StartupReport, failure: &Failure) {
        let root = report.place();
        let Failure::Exception { class, message, cause, detail, .. } = failure else {
            self.line("");
            for line in wrap(&plain(&failure.headline(&root)), self.width()) {
                let line = self.paint(RED, &line);
                self.line(&line);
            }
            return;
        };
        self.line("");
        let mut said = if message == class { Vec::new() } else { plain_lines(message) }.into_iter();
        let class = plain(class);
        let painted = self.paint(BOLD_RED, &class);
        let first = said.next().unwrap_or_default();
        let told = if first.is_empty() { class.clone() } else { format!("{class}: {first}") };
        self.message([told].into_iter().chain(said.chain(beyond(message, detail.as_deref()))), &|line| {
            line.strip_prefix(&class).map_or_else(|| line.to_string(), |rest| format!("{painted}{rest}"))
        });
        if let Some(cause) = cause_beyond(message, cause.as_deref()) {
            self.message(format!("caused by {cause}").lines().map(str::to_string), &|line| line.to_string());
        }
        if let Some(place) = place(failure, &root) {
            let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
            let shown = self.paint(BOLD, &plain(&format!("{}{line}", place.shown(&root))));
            self.line(&format!("at {shown}"));
            if place.of_app {
                self.source(&root.excerpt(&place));
            }
        }
    }

    /// Characters of a line of a message: on a terminal they are folded between words. In a file a line is what is searched for.
    fn width(&self) -> usize {
        if self.colour {
            WIDTH
        } else {
            usize::MAX
        }
    }

    /// The lines of a message: the first one painted, all others indented, long ones folded.
    fn message(&mut self, lines: impl Iterator<Item = String>, paint_first: &dyn Fn(&str) -> String) {
        for (number, line) in folded(lines.collect(), self.width()).into_iter().enumerate() {
            self.line(&if number == 0 { paint_first(&line) } else { format!("  {line}") });
        }
    }

    fn source(&mut self, lines: &[excerpt::SourceLine]) {
        if !lines.is_empty() {
            self.line("");
        }
        for line in lines {
            let (sign, text) = (if line.marked { "➜" } else { " " }, &line.text);
            let text = format!("  {sign} {:>5} │ {text}", line.number);
            let text = if line.marked { self.paint(RED, &text) } else { self.paint(DIM, &text) };
            self.line(&text);
        }
    }

    fn output(&mut self, report: &StartupReport) {
        if report.output.is_empty() {
            return;
        }
        // Ruby tells the worst first when it crashes.
        let crash = report.output.iter().position(|line| Some(line.as_str()) == report.crash());
        let skipped = crash.unwrap_or_else(|| report.output.len().saturating_sub(OUTPUT_SHOWN));
        self.title(&match (skipped, crash) {
            (_, Some(_)) => format!("What Ruby printed when it crashed (first {OUTPUT_SHOWN} lines)"),
            (0, None) => "What the app printed".to_string(),
            _ => format!("What the app printed (last {OUTPUT_SHOWN} lines)"),
        });
        let lines = report.output.iter().skip(skipped).take(OUTPUT_SHOWN);
        lines.for_each(|line| self.line(&format!("  {}", plain(line))));
    }

    fn backtrace(&mut self, frames: &[Frame]) {
        let (app, other) = backtrace::app_first(frames.to_vec());
        if !frames.is_empty() {
            self.title("Backtrace (the app's own lines first)");
        }
        for frame in app.iter().take(APP_FRAMES) {
            self.line(&format!("  {}", plain(&frame.to_string())));
        }
        for frame in other.iter().take(OTHER_FRAMES) {
            let text = self.paint(DIM, &plain(&frame.to_string()));
            self.line(&format!("  {text}"));
        }
        let more = app.len().saturating_sub(APP_FRAMES) + other.len().saturating_sub(OTHER_FRAMES);
        if more > 0 {
            let text = self.paint(DIM, &format!("… {more} more"));
            self.line(&format!("  {text}"));
        }
    }
}

/// Lines that are too long as several of the same indentation. A piece of source above a caret that points into it stays whole.
fn folded(lines: Vec<String>, width: usize) -> Vec<String> {
    let points = |line: &String| line.contains('^') && line.chars().all(|c| matches!(c, '^' | '~' | '|' | ' ' | '\t'));
    let mut all = Vec::new();
    let mut rest = lines.into_iter().peekable();
    while let Some(line) = rest.next() {
        let text = line.trim_start();
        let (indent, _) = line.split_at(line.len() - text.len());
        if line.chars().count() <= width || rest.peek().is_some_and(points) {
            all.push(line);
        } else {
            all.extend(
                wrap(text, width - indent.len().min(width / 2)).into_iter().map(|part| format!("{indent}{part}")),
            );
        }
    }
    all
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_of_a_message_are_folded_and_drawn_ones_are_not() {
        let long = "word ".repeat(30).trim_end().to_string();
        let source = format!("    {long}");
        let shown =
            folded(vec![long.clone(), source.clone(), "         ^^^^".into(), source.clone(), "short".into()], WIDTH);
        assert_eq!(shown.concat().matches("word").count(), 90);
        assert_eq!(shown[2..4], [source, "         ^^^^".into()]);
        let widths = shown.iter().map(|line| line.chars().count()).filter(|width| *width > WIDTH).count();
        assert_eq!((widths, shown.len()), (1, 7));
        assert!(shown[4].starts_with("    word") && shown[5].starts_with("    word"));
        assert_eq!(folded(vec![long.clone()], usize::MAX), [long], "in a file");
    }
}
