//! Progress while a run is on: a live view on a terminal, else a line now and then. Never has the result.

use std::{
    cell::RefCell,
    io::{self, IsTerminal, Stdout, Write},
    rc::Rc,
    time::{Duration, Instant},
};

use ratatui::{
    backend::CrosstermBackend,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Gauge, Paragraph, Sparkline},
    Frame, Terminal, TerminalOptions, Viewport,
};
use units::{millis, number};

use crate::{
    recording::SLICE,
    session::{Progress, Watch, Watcher},
};

/// Rows of the live view.
const ROWS: u16 = 12;
/// Lines of progress where there is no terminal, over a whole run.
const LINES: f64 = 10.0;
const SECOND: Duration = Duration::from_secs(1);

/// For standard output if it is a terminal; else plain lines on standard error.
pub fn watcher(quiet: bool) -> Watch {
    if quiet {
        return Rc::new(RefCell::new(Silent));
    }
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    let view = terminal.then(|| {
        let options = TerminalOptions { viewport: Viewport::Inline(ROWS) };
        Terminal::with_options(CrosstermBackend::new(io::stdout()), options)
    });
    match view {
        Some(Ok(terminal)) => Rc::new(RefCell::new(Screen { terminal })),
        _ => Rc::new(RefCell::new(Lines::default())),
    }
}

struct Silent;

impl Watcher for Silent {
    fn show(&mut self, _: &Progress<'_>) {}
}

/// The live view.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Watcher for Screen {
    fn show(&mut self, progress: &Progress<'_>) {
        // A view that can't be drawn is no reason to end a measurement.
        let _ = self.terminal.draw(|frame| draw(frame, progress));
    }

    fn end(&mut self) {
        let _ = self.terminal.clear();
        // Where the view began, the result begins.
        let top = self.terminal.get_frame().area().as_position();
        let _ = self.terminal.set_cursor_position(top);
        let _ = self.terminal.show_cursor();
    }
}

/// Which part of the run is over (0 to 1), and what is left.
fn done(progress: &Progress<'_>) -> (f64, Option<Duration>) {
    let elapsed = progress.elapsed.as_secs_f64();
    let by_time = progress.end.time.map(|time| elapsed / time.as_secs_f64().max(1e-9));
    let answers = progress.recording.answered() + progress.recording.failed();
    let by_count = progress.end.requests.map(|requests| answers as f64 / requests.max(1) as f64);
    let part = by_time.unwrap_or(0.0).max(by_count.unwrap_or(0.0)).clamp(0.0, 1.0);
    let left = (part > 0.01).then(|| Duration::from_secs_f64((elapsed / part - elapsed).max(0.0)));
    (part, left)
}

fn draw(frame: &mut Frame<'_>, progress: &Progress<'_>) {
    let [head, gauge, rates, latencies, figures] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(4),
        Constraint::Length(4),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let label = if progress.label.is_empty() { String::new() } else { format!("  {}", progress.label) };
    let title = Line::from(vec![Span::styled(progress.target.to_string(), bold), Span::raw(label)]);
    frame.render_widget(Paragraph::new(title), head);
    let (part, left) = done(progress);
    let left = left.map_or(String::new(), |left| format!(", {:.0} s left", left.as_secs_f64().ceil()));
    let text = format!("{:.1} s{left}", progress.elapsed.as_secs_f64());
    let bar = Gauge::default().ratio(part).label(text).gauge_style(Style::new().fg(Color::Blue).bg(Color::DarkGray));
    frame.render_widget(bar, gauge);
    let recording = progress.recording;
    // The slice that is being filled is left out.
    let whole = recording.slices.len().saturating_sub(1);
    let slices = &recording.slices[..whole];
    let per_second = |answers: u32| u64::from(answers) * 1_000_000 / SLICE;
    let now = slices.last().map_or(0, |slice| per_second(slice.answers));
    line(frame, rates, &format!("requests/s  {}", number(now as f64)), slices, Color::Green, |slice| {
        per_second(slice.answers)
    });
    let slowest = |slice: &crate::recording::Slice| slice.latencies.iter().copied().max().unwrap_or_default().into();
    let title = format!("slowest  {}", millis(slices.last().map_or(0.0, |slice| slowest(slice) as f64 / 1000.0)));
    line(frame, latencies, &title, slices, Color::Yellow, slowest);
    let at = |percent| millis(recording.percentile(percent) as f64 / 1000.0);
    let mut text = format!(
        "{} answers · p50 {} · p90 {} · p99 {} · {} in flight",
        number(recording.answered() as f64),
        at(50.0),
        at(90.0),
        at(99.0),
        progress.in_flight
    );
    let wrong = recording.failed() + recording.not_2xx();
    if wrong > 0 {
        text.push_str(&format!("\n{} failed or without a 2xx status", number(wrong as f64)));
    }
    frame.render_widget(Paragraph::new(text), figures);
}

/// The last slices that fit, the newest at the right.
fn line<T>(frame: &mut Frame<'_>, area: Rect, title: &str, slices: &[T], color: Color, value: impl Fn(&T) -> u64) {
    let from = slices.len().saturating_sub(usize::from(area.width));
    let data: Vec<u64> = slices[from..].iter().map(value).collect();
    let block = Block::new().title(title);
    frame.render_widget(Sparkline::default().block(block).data(&data).style(Style::new().fg(color)), area);
}

/// A line for each tenth of a run, and at most one a second.
#[derive(Default)]
struct Lines {
    next: f64,
    last: Option<Instant>,
    label: String,
}

impl Watcher for Lines {
    fn show(&mut self, progress: &Progress<'_>) {
        let (part, left) = done(progress);
        if self.label != progress.label {
            progress.label.clone_into(&mut self.label);
            (self.next, self.last) = (0.0, None);
        }
        if part < self.next || self.last.is_some_and(|last| last.elapsed() < SECOND) {
            return;
        }
        self.last = Some(Instant::now());
        self.next = (part * LINES).floor() / LINES + 1.0 / LINES;
        let left = left.map_or(String::new(), |left| format!(", {:.0} s left", left.as_secs_f64().ceil()));
        let label = if progress.label.is_empty() { String::new() } else { format!("{}: ", progress.label) };
        let recording = progress.recording;
        let rate = recording.answered() as f64 / progress.elapsed.as_secs_f64().max(1e-9);
        let line = format!(
            "{label}{:3.0} %{left}: {} answers, {} requests/s, p99 {}\n",
            part * 100.0,
            number(recording.answered() as f64),
            number(rate.round()),
            millis(recording.percentile(99.0) as f64 / 1000.0)
        );
        let _ = io::stderr().write_all(line.as_bytes());
    }
}
