//! Where lines go: the access log, the server's events and the app's output, each to the terminal or a file.
//! Lines are written whole by one thread, so that nothing on a request's way waits for a disk or a terminal.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError},
};

use crate::config::LogConfig;

/// Lines that may wait for the writing thread; beyond that they are dropped and counted.
const WAITING: usize = 64 << 10;

enum Message {
    Access(String),
    App(String),
    Reopen,
    /// Everything before this has been written when the sender hears back.
    Flush(SyncSender<()>),
}

/// A handle to the log; cheap to clone.
#[derive(Clone)]
pub struct Log {
    messages: SyncSender<Message>,
}

impl Log {
    /// Opens the files and starts the writing thread.
    pub fn open(config: &LogConfig) -> io::Result<Log> {
        let access = Output::open(config.access_path.as_deref(), || Box::new(io::stdout()))?;
        let app = Output::open(config.app_path.as_deref(), || Box::new(io::stderr()))?;
        let (messages, receiver) = sync_channel(WAITING);
        std::thread::Builder::new().name("log".into()).spawn(move || write_lines(receiver, access, app))?;
        Ok(Log { messages })
    }

    /// A line of the access log.
    pub fn access(&self, line: String) {
        self.send(Message::Access(line));
    }

    /// An event of the server: `* ` and the text.
    pub fn event(&self, text: impl AsRef<str>) {
        self.send(Message::App(format!("* {}", text.as_ref())));
    }

    /// Text of several lines, as it is.
    pub fn text(&self, text: impl Into<String>) {
        self.send(Message::App(text.into()));
    }

    /// A line an app printed.
    pub fn output(&self, who: &str, line: &str) {
        self.send(Message::App(format!("[{who}] {line}")));
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
}

impl Output {
    fn open(path: Option<&Path>, standard: impl FnOnce() -> Box<dyn Write + Send>) -> io::Result<Output> {
        let writer = match path {
            Some(path) => Box::new(append(path)?),
            None => standard(),
        };
        Ok(Output { path: path.map(Path::to_path_buf), writer })
    }

    fn reopen(&mut self) {
        if let Some(file) = self.path.as_deref().and_then(|path| append(path).ok()) {
            self.writer = Box::new(file);
        }
    }

    fn line(&mut self, mut line: String) {
        line.push('\n');
        let _ = self.writer.write_all(line.as_bytes()).and_then(|()| self.writer.flush());
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
    for message in messages {
        match message {
            Message::Access(line) => access.line(line),
            Message::App(line) => app.line(line),
            Message::Reopen => {
                access.reopen();
                app.reopen();
            }
            Message::Flush(done) => drop(done.send(())),
        }
    }
}
