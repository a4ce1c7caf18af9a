//! Where lines go: the access log, the server's events and the app's output, each to the terminal or a file.
//! Lines are written whole by one thread, so that nothing on a request's way waits for a disk or a terminal.

mod line;
mod name;
mod recent;

use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{
        mpsc::{sync_channel, Receiver, SyncSender, TrySendError},
        Arc,
    },
};

pub use line::Line;
pub use name::Name;

use self::recent::Recent;
use crate::config::LogConfig;

/// Lines that may wait for the writing thread; beyond that they are dropped and counted.
const WAITING: usize = 64 << 10;

/// How long lines are gathered before they are written.
const GATHER: std::time::Duration = std::time::Duration::from_millis(2);
/// Bytes after which they are written at once.
const ONE_WRITE: usize = 64 << 10;

enum Message {
    Access(String),
    App(Arc<Line>),
    Reopen,
    /// Everything before this has been written when the sender hears back.
    Flush(SyncSender<()>),
}

/// A handle to the log; cheap to clone.
#[derive(Clone)]
pub struct Log {
    messages: SyncSender<Message>,
    recent: Arc<Recent>,
    /// What its lines are about. None: the server as a whole.
    site: Option<Arc<str>>,
    colour: bool,
}

impl Log {
    /// Opens the files and starts the writing thread.
    pub fn open(config: &LogConfig) -> io::Result<Log> {
        let access = Output::open(config.access_path.as_deref(), || Box::new(io::stdout()))?;
        let app = Output::open(config.app_path.as_deref(), || Box::new(io::stderr()))?;
        let (messages, receiver) = sync_channel(WAITING);
        std::thread::Builder::new().name("log".into()).spawn(move || write_lines(receiver, access, app))?;
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = config.app_path.is_none() && !plain && io::stderr().is_terminal();
        Ok(Log { messages, recent: Arc::default(), site: None, colour })
    }

    /// The same log for what concerns a site.
    pub fn of(&self, site: &str) -> Log {
        Log { site: Some(site.into()), ..self.clone() }
    }

    /// Whether events go to somebody who sees colours.
    pub fn colour(&self) -> bool {
        self.colour
    }

    /// A line of the access log.
    pub fn access(&self, line: String) {
        self.send(Message::Access(line));
    }

    /// An event of the server: `* ` and the text.
    pub fn event(&self, name: Name, text: impl Into<String>) {
        self.tell(name, None, text.into(), false);
    }

    /// One that is told in several lines, as they are.
    pub fn text(&self, name: Name, text: impl Into<String>) {
        self.tell(name, None, text.into(), true);
    }

    /// A line an app printed.
    pub fn output(&self, who: &str, line: &str) {
        self.tell(Name::Output, Some(who.into()), line.into(), false);
    }

    fn tell(&self, name: Name, from: Option<String>, text: String, plain: bool) {
        self.send(Message::App(self.recent.push(name, self.site.clone(), from, text, plain)));
    }

    /// The last lines that were told after the one with the number `after` (0: any), `most` of them, the oldest first: events
    /// and what apps printed, without colours.
    pub fn recent(&self, after: u64, most: usize) -> Vec<Arc<Line>> {
        self.recent.after(after, most)
    }

    /// Opens the log files anew (SIGHUP), so that they can be rotated.
    pub fn reopen(&self) {
        self.send(Message::Reopen);
    }

    /// Waits until everything so far is written, at most a second.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.messages.send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(std::time::Duration::from_secs(1));
        }
    }

    fn send(&self, message: Message) {
        // A terminal that is stopped must not stop the server: lines that find no room are lost.
        match self.messages.try_send(message) {
            Ok(()) | Err(TrySendError::Full(_)) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

struct Output {
    path: Option<PathBuf>,
    writer: Box<dyn Write + Send>,
    /// Lines that go out with the next write.
    gathered: Vec<u8>,
}

impl Output {
    fn open(path: Option<&Path>, standard: impl FnOnce() -> Box<dyn Write + Send>) -> io::Result<Output> {
        let writer = match path {
            Some(path) => Box::new(append(path)?),
            None => standard(),
        };
        Ok(Output { path: path.map(Path::to_path_buf), writer, gathered: Vec::new() })
    }

    fn reopen(&mut self) {
        self.write();
        if let Some(file) = self.path.as_deref().and_then(|path| append(path).ok()) {
            self.writer = Box::new(file);
        }
    }

    fn line(&mut self, line: &str) {
        self.gathered.extend_from_slice(line.as_bytes());
        self.gathered.push(b'\n');
        if self.gathered.len() > ONE_WRITE {
            self.write();
        }
    }

    fn write(&mut self) {
        if !self.gathered.is_empty() {
            let _ = self.writer.write_all(&self.gathered).and_then(|()| self.writer.flush());
            self.gathered.clear();
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn write_lines(messages: Receiver<Message>, mut access: Output, mut app: Output) {
    while let Ok(first) = messages.recv() {
        // Under load the lines of this moment go out in one write, and nobody has to wake this thread for each.
        std::thread::sleep(GATHER);
        for message in std::iter::once(first).chain(messages.try_iter()) {
            match message {
                Message::Access(line) => access.line(&line),
                Message::App(line) => app.line(&line.as_text()),
                Message::Reopen => {
                    access.reopen();
                    app.reopen();
                }
                Message::Flush(done) => {
                    access.write();
                    app.write();
                    let _ = done.send(());
                }
            }
        }
        access.write();
        app.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AccessLogFormat;

    #[test]
    fn lines_are_whole_in_order_and_in_the_file_that_is_there_after_reopening() {
        let dir = std::env::temp_dir().join(format!("paceline-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (access, moved, app) = (dir.join("access.log"), dir.join("access.log.1"), dir.join("app.log"));
        let config = LogConfig {
            access_format: AccessLogFormat::Combined,
            access_path: Some(access.clone()),
            app_path: Some(app.clone()),
        };
        let log = Log::open(&config).unwrap();
        (0..1000).for_each(|number| log.access(format!("line {number}")));
        log.output("shop.1", "hello");
        log.flush();
        std::fs::rename(&access, &moved).unwrap();
        log.reopen();
        log.access("after".into());
        log.flush();
        let old = std::fs::read_to_string(&moved).unwrap();
        assert!(old.lines().enumerate().all(|(number, line)| line == format!("line {number}")));
        assert_eq!(old.lines().count(), 1000);
        assert_eq!(std::fs::read_to_string(&access).unwrap(), "after\n");
        assert_eq!(std::fs::read_to_string(&app).unwrap(), "[shop.1] hello\n");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
