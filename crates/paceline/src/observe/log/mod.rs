//! Where lines go: the access log, the server's events and the app's output, each to the terminal or a file.
//! Lines are written whole by one thread, so that nothing on a request's way waits for a disk or a terminal.

mod destination;
mod line;
mod name;
mod recent;
mod settings;

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError},
        Arc,
    },
    time::Duration,
};

pub use line::Line;
pub use name::Name;
pub use settings::{AccessLogFormat, LogConfig, LogFormat};

use self::{
    destination::{Destination, Rotation},
    recent::Recent,
};

/// Lines that may wait for the writing thread; beyond that they are dropped and counted.
const WAITING: usize = 64 << 10;
/// How long lines are gathered before they are written.
const GATHER: Duration = Duration::from_millis(2);
/// How long, while lines come one after another: nobody has to wake this thread for them.
const GATHER_IN_A_ROW: Duration = Duration::from_millis(10);
/// How long until it is tried again to write what could not be written.
const AGAIN: Duration = Duration::from_millis(500);

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
    /// Lines for which there was no room, until that is told.
    dropped: Arc<AtomicU64>,
    /// What its lines are about. None: the server as a whole.
    site: Option<Arc<str>>,
    colour: bool,
}

impl Log {
    /// Opens the files and starts the writing thread.
    pub fn open(config: &LogConfig) -> io::Result<Log> {
        let rotation = config.max_size.map(|max_size| Rotation { max_size, keep: config.keep });
        let access = Destination::open(config.access_path.as_deref(), io::stdout().as_fd(), rotation)?;
        let app = Destination::open(config.app_path.as_deref(), io::stderr().as_fd(), rotation)?;
        let (messages, receiver) = sync_channel(WAITING);
        let (recent, dropped) = (Arc::new(Recent::default()), Arc::new(AtomicU64::new(0)));
        let writer = Writer { access, app, format: config.format, recent: recent.clone(), dropped: dropped.clone() };
        std::thread::Builder::new().name("log".into()).spawn(move || writer.run(&receiver))?;
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour =
            config.app_path.is_none() && config.format == LogFormat::Text && !plain && io::stderr().is_terminal();
        Ok(Log { messages, recent, dropped, site: None, colour })
    }

    /// This log for what concerns a site.
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

    /// The last lines that were told after the one with the number `after` (0: any), `most` of them, the oldest first:
    /// events and what apps printed, without colours.
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
        // A terminal that is stopped must not stop the server: lines that find no room are lost, and counted.
        match self.messages.try_send(message) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Relaxed);
            }
        }
    }
}

/// What the writing thread has.
struct Writer {
    access: Destination,
    app: Destination,
    format: LogFormat,
    recent: Arc<Recent>,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let stuck = self.access.is_stuck() || self.app.is_stuck();
            let first = if stuck {
                messages.recv_timeout(AGAIN)
            } else {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match first {
                Ok(first) => {
                    // The lines of this moment go out in one write.
                    std::thread::sleep(GATHER);
                    self.take(first);
                    while self.take_all(messages) {
                        std::thread::sleep(GATHER_IN_A_ROW);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.write(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes what waits. False: nothing came, or it can't be written.
    fn take_all(&mut self, messages: &Receiver<Message>) -> bool {
        let count = messages.try_iter().map(|message| self.take(message)).count();
        self.write();
        count > 0 && !self.access.is_stuck() && !self.app.is_stuck()
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Access(line) => self.access.line(&line),
            Message::App(line) => self.event(&line),
            Message::Reopen => {
                self.access.reopen();
                self.app.reopen();
            }
            Message::Flush(done) => {
                self.write();
                let _ = done.send(());
            }
        }
    }

    fn event(&mut self, line: &Line) {
        match self.format {
            LogFormat::Text => self.app.line(&line.as_text()),
            LogFormat::Json => self.app.line(&line.as_json()),
        }
    }

    fn write(&mut self) {
        self.access.write();
        self.app.write();
        let troubles = [self.access.trouble(), self.app.trouble()];
        let dropped = self.dropped.swap(0, Relaxed) + self.access.dropped() + self.app.dropped();
        let words =
            (dropped > 0).then(|| format!("Dropped {dropped} lines: they came faster than they could be written"));
        let mut told = false;
        for text in troubles.into_iter().flatten().chain(words) {
            told = true;
            let line = self.recent.push(Name::Log, None, None, text, false);
            self.event(&line);
        }
        if told {
            self.app.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    /// `flush` gives up after a second, which a busy machine may need.
    fn flushed(log: &Log) {
        let (done, wait) = sync_channel(1);
        log.messages.send(Message::Flush(done)).unwrap();
        wait.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn lines_are_whole_in_order_and_in_the_file_that_is_there_after_reopening() {
        let dir = std::env::temp_dir().join(format!("paceline-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (access, moved, app) = (dir.join("access.log"), dir.join("access.log.1"), dir.join("app.log"));
        let config =
            LogConfig { access_path: Some(access.clone()), app_path: Some(app.clone()), ..LogConfig::nowhere() };
        let log = Log::open(&config).unwrap();
        (0..1000).for_each(|number| log.access(format!("line {number}")));
        log.output("shop.1", "hello");
        flushed(&log);
        std::fs::rename(&access, &moved).unwrap();
        log.reopen();
        log.access("after".into());
        flushed(&log);
        let old = std::fs::read_to_string(&moved).unwrap();
        assert!(old.lines().enumerate().all(|(number, line)| line == format!("line {number}")));
        assert_eq!(old.lines().count(), 1000);
        assert_eq!(std::fs::read_to_string(&access).unwrap(), "after\n");
        assert_eq!(std::fs::read_to_string(&app).unwrap(), "[shop.1] hello\n");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn lines_without_room_are_counted_and_told() {
        let folder = Folder::with(&[]);
        let (pipe, app) = (folder.0.join("pipe"), folder.0.join("app.log"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Both ends, so that opening it waits for nobody.
        let mut reader = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
        // Full, so that the writer waits with its first line whoever runs first.
        io::Write::write_all(&mut reader, &[b'-'; 64 << 10]).unwrap();
        let config = LogConfig { access_path: Some(pipe), app_path: Some(app.clone()), ..LogConfig::nowhere() };
        let log = Log::open(&config).unwrap();
        let sent = 3 * WAITING as u64;
        (0..sent).for_each(|_| log.access("x".repeat(9)));
        let dropped = log.dropped.load(Relaxed);
        assert!(dropped > 0);
        let mut left = (64 << 10) + (sent - dropped) * 10;
        while left > 0 {
            let mut bytes = vec![0; left.min(4096) as usize];
            left -= io::Read::read(&mut reader, &mut bytes).unwrap() as u64;
        }
        log.event(Name::State, "wakes the writer");
        flushed(&log);
        let told = std::fs::read_to_string(&app).unwrap();
        assert!(told.contains(&format!("* Dropped {dropped} lines: they came faster than")), "{told}");
        assert_eq!(log.recent(0, 9).iter().filter(|line| line.name == Name::Log).count(), 1);
    }
}
