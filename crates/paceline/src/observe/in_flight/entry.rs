//! One exchange that is under way, as others see it.
//! It never decides how the exchange goes on.

use std::{
    net::IpAddr,
    sync::{
        atomic::{
            AtomicU64, AtomicU8,
            Ordering::{Acquire, Relaxed, Release},
        },
        Arc, OnceLock,
    },
};

use http::{Method, Uri};

use super::registry::{Place, Registry};
use crate::{observe::metrics, support::clock::Micros};

/// What is being done for an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Step {
    /// The front looks for what answers it: a file, a page on disk.
    #[default]
    Front,
    /// It waits for what another exchange has asked for.
    Waiting,
    ReadingBody,
    Queued,
    /// A worker thread has it.
    App,
    Upstream,
    /// The answer goes out.
    Sending,
    /// The connection was given to the app: a WebSocket, a hijack.
    Upgraded,
}

impl Step {
    const ALL: [Step; 8] = [
        Step::Front,
        Step::Waiting,
        Step::ReadingBody,
        Step::Queued,
        Step::App,
        Step::Upstream,
        Step::Sending,
        Step::Upgraded,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Step::Front => "front",
            Step::Waiting => "waiting",
            Step::ReadingBody => "reading-body",
            Step::Queued => "queued",
            Step::App => "app",
            Step::Upstream => "upstream",
            Step::Sending => "sending",
            Step::Upgraded => "upgraded",
        }
    }
}

/// What became of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Client {
    #[default]
    Waits,
    /// It has its whole answer; the app still has something to do.
    Answered,
    /// It left before.
    Gone,
}

impl Client {
    const ALL: [Client; 3] = [Client::Waits, Client::Answered, Client::Gone];

    pub fn as_str(self) -> &'static str {
        match self {
            Client::Waits => "waits",
            Client::Answered => "answered",
            Client::Gone => "gone",
        }
    }
}

/// An exchange that is under way.
#[derive(Debug)]
pub struct Entry {
    /// Counts the exchanges that were listed, from 1.
    pub number: u64,
    /// X-Request-Id.
    pub id: String,
    pub site: Option<Arc<metrics::Site>>,
    pub method: Method,
    pub uri: Uri,
    /// None on a Unix socket.
    pub client: Option<IpAddr>,
    /// When its head was read.
    pub since: Micros,
    step: AtomicU8,
    stepped: AtomicU64,
    left: AtomicU8,
    /// The worker's number and, in the lower 16 bits, its thread; 0: none has it.
    held: AtomicU64,
    /// Who has signed in.
    user: OnceLock<Box<str>>,
    place: Place,
    registry: &'static Registry,
}

impl Entry {
    pub(super) fn new(about: About, number: u64, place: Place, registry: &'static Registry) -> Entry {
        let About { id, site, method, uri, client, since } = about;
        Entry {
            number,
            id,
            site,
            method,
            uri,
            client,
            since,
            step: AtomicU8::new(0),
            stepped: AtomicU64::new(since),
            left: AtomicU8::new(0),
            held: AtomicU64::new(0),
            user: OnceLock::new(),
            place,
            registry,
        }
    }

    /// What is being done, and since when.
    pub fn step(&self) -> (Step, Micros) {
        let step = Step::ALL.get(usize::from(self.step.load(Acquire))).copied();
        (step.unwrap_or_default(), self.stepped.load(Relaxed))
    }

    pub fn client_is(&self) -> Client {
        Client::ALL.get(usize::from(self.left.load(Relaxed))).copied().unwrap_or_default()
    }

    /// The name of somebody who has signed in.
    pub fn user(&self) -> Option<&str> {
        self.user.get().map(Box::as_ref)
    }

    /// The number of the worker that has it, and the index of its thread, from 1.
    pub fn held(&self) -> Option<(u64, usize)> {
        let held = self.held.load(Relaxed);
        (held != 0).then_some((held >> 16, (held & 0xffff) as usize))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.remove(self.place);
    }
}

/// What does not change of an exchange.
pub struct About {
    pub id: String,
    pub site: Option<Arc<metrics::Site>>,
    pub method: Method,
    pub uri: Uri,
    pub client: Option<IpAddr>,
    pub since: Micros,
}

/// An exchange's hold on its entry, which goes when the last one goes. Nothing: it is not listed.
#[derive(Debug, Clone, Default)]
pub struct Listed(Option<Arc<Entry>>);

impl Listed {
    pub(super) fn new(entry: Arc<Entry>) -> Listed {
        Listed(Some(entry))
    }

    pub fn is_listed(&self) -> bool {
        self.0.is_some()
    }

    /// From now on this is being done.
    pub fn step(&self, step: Step, now: Micros) {
        if let Some(entry) = &self.0 {
            entry.stepped.store(now, Relaxed);
            entry.step.store(step as u8, Release);
        }
    }

    /// Somebody has signed in.
    pub fn signed_in(&self, name: &str) {
        if let Some(entry) = &self.0 {
            let _ = entry.user.set(name.into());
        }
    }

    /// The client has left, or has all it asked for: then what is done from `now` on is done after the reply. It
    /// is listed as long as somebody works on it.
    pub fn left(&self, client: Client, now: Micros) {
        if let Some(entry) = &self.0 {
            if client == Client::Answered {
                entry.stepped.store(now, Relaxed);
            }
            entry.left.store(client as u8, Relaxed);
        }
    }

    /// A worker thread has it from `now` until this is dropped. Its step is [`Step::App`], with which the thread is
    /// seen too.
    pub fn hold(&self, worker: u64, thread: usize, now: Micros) -> Held {
        if let Some(entry) = &self.0 {
            entry.held.store(worker << 16 | (thread as u64).min(0xffff), Relaxed);
            self.step(Step::App, now);
        }
        Held(self.clone())
    }
}

/// That a worker thread has an exchange.
#[derive(Debug, Default)]
pub struct Held(Listed);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(entry) = &self.0 .0 {
            entry.held.store(0, Relaxed);
        }
    }
}
