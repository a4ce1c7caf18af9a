//! `paceline top`: what the running server does, every second, as a picture on a terminal or as plain lines elsewhere.
//! It never changes anything.
//!
//! Reading order: `figures` (from the server's answers to what is shown), `view` (the picture), `lines` (plain ones).

mod figures;
mod lines;
mod view;

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

use clap::{ArgMatches, Command};
use ratatui::{
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    DefaultTerminal,
};
use signal_hook::consts::{SIGHUP, SIGTERM};

use self::{figures::Figures, view::TopView};
use super::{print, switch, Asker};
use crate::server::control::client::Failed;

const EACH: Duration = Duration::from_secs(1);
/// Memory is read by the server from all its processes, so it is asked for less often.
const MEMORY_EACH: Duration = Duration::from_secs(5);
/// How often signals are looked for.
const BEAT: Duration = Duration::from_millis(100);
/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

const AFTER: &str = "\
On a terminal: a picture that is drawn every second, until q. Elsewhere: a line for each site every second, until Ctrl-C.
Times and shares are those of the last minute. A route's time is what its latest requests took in the application.
Without --control the server is the one of this directory. Exit status: 0 when it answered, 1 when there is none.";

pub fn command() -> Command {
    Command::new("top")
        .bin_name("paceline top")
        .about("Shows requests, times, queue, workers and slow routes of the running server, every second")
        .after_help(AFTER)
        .arg(switch("once").help("Print the lines once, without a terminal view"))
}

pub fn run(server: &Asker, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let mut watch = Watch { server: server.clone(), memory: None, last: None };
    let first = watch.look()?;
    if matches.get_flag("once") {
        return print(&lines::of(&first));
    }
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        on_terminal(watch, first)
    } else {
        plainly(watch, first)
    }
}

/// What is asked, and what was answered last.
struct Watch {
    server: Asker,
    memory: Option<(Instant, serde_json::Value)>,
    /// When, and the counts of each site.
    last: Option<(Instant, Vec<(String, u64)>)>,
}

impl Watch {
    fn look(&mut self) -> Result<Figures, Failed> {
        let status = self.server.ask_patiently("GET", "/status", None, PATIENCE)?;
        let now = Instant::now();
        if self.memory.as_ref().is_none_or(|(read, _)| now.duration_since(*read) >= MEMORY_EACH) {
            // Without it all else is shown.
            let memory = self.server.ask_patiently("GET", "/memory", None, PATIENCE).unwrap_or_default();
            self.memory = Some((now, memory));
        }
        let before = self.last.as_ref().map(|(then, counts)| (now.duration_since(*then), counts.as_slice()));
        let nothing = serde_json::Value::Null;
        let memory = self.memory.as_ref().map_or(&nothing, |(_, memory)| memory);
        let figures = Figures::of(&status, memory, before);
        self.last = Some((now, figures.counts()));
        Ok(figures)
    }
}

fn plainly(mut watch: Watch, first: Figures) -> Result<ExitCode, Failed> {
    let mut figures = first;
    loop {
        let mut out = io::stdout();
        // A reader that went away ends it.
        if out.write_all(lines::of(&figures).as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(EACH);
        figures = watch.look()?;
    }
}

fn on_terminal(watch: Watch, first: Figures) -> Result<ExitCode, Failed> {
    let broken = |error: io::Error| Failed::Broken(format!("the terminal can't be used: {error}"));
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, ended.clone()).map_err(broken)?;
    }
    let looks = look_beside(watch).map_err(broken)?;
    let mut terminal = ratatui::try_init().map_err(|error| {
        // It may have become half of what it should be.
        ratatui::restore();
        broken(error)
    })?;
    let mut shown = TopView::new(first);
    let result = watch_on(&mut terminal, &looks, &ended, &mut shown);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS).map_err(broken)
}

/// Asks each second in a thread of its own: keys and signals don't wait for a server that hangs.
fn look_beside(mut watch: Watch) -> io::Result<Receiver<Result<Figures, Failed>>> {
    let (sender, looks) = mpsc::channel();
    let asking = move || loop {
        thread::sleep(EACH);
        if sender.send(watch.look()).is_err() {
            return;
        }
    };
    thread::Builder::new().name("look".into()).spawn(asking)?;
    Ok(looks)
}

fn watch_on(
    terminal: &mut DefaultTerminal,
    looks: &Receiver<Result<Figures, Failed>>,
    ended: &AtomicBool,
    shown: &mut TopView,
) -> io::Result<()> {
    let mut is_new = true;
    while !ended.load(Relaxed) {
        if is_new {
            terminal.draw(|frame| view::draw(frame, shown))?;
        }
        is_new = false;
        if event::poll(BEAT)? {
            match event::read()? {
                Event::Key(key) if ends(key) => return Ok(()),
                Event::Resize(..) => is_new = true,
                _ => {}
            }
        }
        for look in looks.try_iter() {
            is_new = true;
            match look {
                Ok(figures) => shown.take(figures),
                Err(failed) => shown.lose(&failed),
            }
        }
    }
    Ok(())
}

/// Whether the key ends it. A terminal without signals sends Ctrl-C as one.
fn ends(key: KeyEvent) -> bool {
    let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind != KeyEventKind::Release && (is_control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_end_it() {
        let key = |code, modifiers| ends(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE) && key(KeyCode::Esc, KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE) && !key(KeyCode::Enter, KeyModifiers::NONE));
    }
}
