//! What a process of the model's application is: its connection to the front, the threads that serve and write, and what each of
//! them is about to do. It does nothing by itself: `announcing` and `work` do.

use std::{
    collections::VecDeque,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use http::request::Parts;

use super::{
    database::{Changes, Owner, Statement},
    pages::{Facts, Making, Page},
};
use crate::{caching::auto::observing::Watched, exchange::Exchange};

/// Threads of a process that serve or write.
pub const THREADS: usize = 2;
/// The thread that sees that there is a connection.
pub const JOINER: usize = THREADS;

/// A process as the kernel knows it: the front looks whether it is ending. It is a thread, because /proc has those as well.
pub struct Life {
    pub pid: i32,
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Life {
    fn begin() -> Life {
        let (end, ended) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = ended.recv();
        });
        Life { pid: told.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What lies in a socket.
#[derive(Debug)]
pub enum Frame {
    Connect,
    Say(u8, Vec<u8>),
    End,
}

/// A connection to the front, with what it has not read yet. Each frame has its place in the order in which all were written.
#[derive(Debug)]
pub struct Link {
    pub pid: i32,
    /// The front's number for it.
    pub number: u64,
    pub frames: VecDeque<(u64, Frame)>,
}

/// A process's side of its connection, as gem/lib/paceline/auto_cache/journal.rb has it.
#[derive(Debug, Default)]
pub struct Journal {
    pub link: Option<u64>,
    /// The one that was closed last.
    pub closed: Option<u64>,
    /// Which thread has its lock.
    pub holder: Option<usize>,
    /// What the front is to answer, and whether it has.
    pub awaited: Vec<u8>,
    pub is_answered: bool,
    /// There are descriptors for a socket.
    pub can_open: bool,
    pub missed: bool,
}

#[derive(Debug)]
pub enum Call {
    Join,
    /// Its id, with the NUL, and what is to be written.
    Intend(Vec<u8>, Vec<u8>),
    Done(Vec<u8>),
    /// The id of a reading of the schema, with the NUL.
    Reading(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStage {
    Begins,
    Joins,
    /// It could not connect.
    Outlasts,
    Sent,
}

#[derive(Debug)]
pub struct Calling {
    pub call: Call,
    pub stage: CallStage,
    pub tries: u8,
}

impl Calling {
    pub fn new(call: Call) -> Calling {
        Calling { call, stage: CallStage::Begins, tries: 0 }
    }
}

/// How a process tells the schema.
#[derive(Debug)]
pub enum Telling {
    /// It says that it is about to read, and waits for the answer. `read`: what it has read before, which is a defect.
    Asks {
        calling: Calling,
        id: Vec<u8>,
        read: Option<Vec<u8>>,
    },
    Reads(Vec<u8>),
    /// The id and the schema.
    Says(Vec<u8>),
}

/// Something that a process announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Commit,
    /// A statement outside of a transaction.
    Alone(Statement),
    /// A statement outside of a transaction, and nobody waits for what comes of it.
    Sent(Statement),
    CacheKey(i64, i64),
}

#[derive(Debug)]
pub enum Announcing {
    Intends(Calling),
    /// The database, or the cache, is about to do it.
    Happens,
    Done(Calling),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Run(Statement),
    Savepoint,
    BackToSavepoint,
    RollBack,
    Announced(Effect),
}

/// A program of writes. In the order of `actions` from their end.
#[derive(Debug)]
pub struct Writing {
    pub owner: Owner,
    pub actions: Vec<Action>,
    /// What its transaction has changed, and the statements that did.
    pub own: Changes,
    pub pending: Vec<(Statement, Option<i64>)>,
    pub savepoints: Vec<(Changes, usize)>,
    pub announcing: Option<(Announcing, Effect, String)>,
}

/// A request that is handed to the application.
pub struct PassedRequest {
    pub visitor: usize,
    pub page: Page,
    pub cookie: Option<String>,
    pub facts: Facts,
    pub head: Parts,
    pub exchange: Exchange,
    /// None: it was answered.
    pub watched: Option<Watched>,
}

pub struct Serving {
    pub asked: PassedRequest,
    /// None: it has not begun.
    pub making: Option<Making>,
    /// What it reads is told.
    pub is_recorded: bool,
}

#[derive(Default)]
pub enum Task {
    #[default]
    Idle,
    Serving(Box<Serving>),
    Writing(Box<Writing>),
}

pub struct Process {
    /// Its number among all of the model.
    pub serial: u64,
    pub life: Life,
    /// Which load of the code it has. None: it is a console.
    pub release: Option<String>,
    pub journal: Journal,
    pub tasks: [Task; THREADS],
    /// It connects; true: for the first time.
    pub joining: Option<(Calling, bool)>,
    pub telling: Option<Telling>,
    /// When it tells the schema because nobody knew what came of a change of it (ms).
    pub tells_at: Option<u64>,
    /// Announcements so far.
    pub announced: u64,
    /// It gets requests.
    pub is_ready: bool,
    /// Another load of the code is to take its place.
    pub retires: bool,
}

impl Process {
    pub fn new(serial: u64, release: Option<String>) -> Process {
        let boots = release.is_some().then(|| (Calling::new(Call::Join), true));
        Process {
            serial,
            life: Life::begin(),
            is_ready: release.is_none(),
            release,
            journal: Journal { can_open: true, ..Journal::default() },
            tasks: Default::default(),
            joining: boots,
            telling: None,
            tells_at: None,
            announced: 0,
            retires: false,
        }
    }

    pub fn is_worker(&self) -> bool {
        self.release.is_some()
    }

    pub fn is_idle(&self) -> bool {
        self.joining.is_none() && self.tasks.iter().all(|task| matches!(task, Task::Idle))
    }
}
