//! The exchanges that are under way: what each asks for, how far it is and which worker thread has it. One is listed
//! from the moment that more is needed than a look into the cache until nobody works on it any more, also when its
//! client has left. It never keeps one alive, and never waits.
//! Each thread enters its own exchanges in a list of its own, so that none waits for another.

use std::{
    net::IpAddr,
    sync::{
        atomic::{
            AtomicU64, AtomicU8,
            Ordering::{Acquire, Relaxed, Release},
        },
        Arc, OnceLock, Weak,
    },
};

use http::{Method, Uri};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    observe::metrics,
    support::{
        clock::Micros,
        sharded::{here, STRIPES},
    },
};

/// Those of this server.
pub static EXCHANGES: Registry = Registry::new();

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
    fn new(about: About, number: u64, place: Place, registry: &'static Registry) -> Entry {
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
    fn new(entry: Arc<Entry>) -> Listed {
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

/// Where an entry stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    list: usize,
    slot: usize,
}

#[derive(Debug)]
#[repr(align(128))]
struct List {
    slots: Vec<Weak<Entry>>,
    free: Vec<usize>,
    entered: u64,
}

/// The exchanges that are under way.
#[derive(Debug)]
pub struct Registry {
    lists: [Mutex<List>; STRIPES],
}

impl Registry {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Registry {
        let lists = [const { Mutex::new(List { slots: Vec::new(), free: Vec::new(), entered: 0 }) }; STRIPES];
        Registry { lists }
    }

    fn list(&self, list: usize) -> MutexGuard<'_, List> {
        self.lists[list].lock()
    }

    /// Lists an exchange until all that this returns is dropped.
    pub fn enter(&'static self, about: About) -> Listed {
        let at = here();
        let mut list = self.list(at);
        let number = list.entered * STRIPES as u64 + at as u64 + 1;
        list.entered += 1;
        let slot = list.free.pop().unwrap_or_else(|| {
            list.slots.push(Weak::new());
            list.slots.len() - 1
        });
        let entry = Arc::new(Entry::new(about, number, Place { list: at, slot }, self));
        list.slots[slot] = Arc::downgrade(&entry);
        Listed::new(entry)
    }

    fn remove(&self, Place { list, slot }: Place) {
        let mut list = self.list(list);
        list.slots[slot] = Weak::new();
        list.free.push(slot);
        // After a crowd its room is given back.
        if list.free.len() == list.slots.len() && list.slots.len() > 1024 {
            (list.slots, list.free) = (Vec::new(), Vec::new());
        }
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        // What is held here may turn out to be the last hold, and its end needs the list: so it is dropped without the
        // lock.
        let mut all: Vec<_> = (0..STRIPES)
            .flat_map(|list| self.list(list).slots.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
            .collect();
        all.sort_by_key(|entry| (entry.since, entry.number));
        all
    }

    pub fn find(&self, number: u64) -> Option<Arc<Entry>> {
        self.all().into_iter().find(|entry| entry.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Uri};
    use std::{hint::black_box, time::Instant};

    fn about(path: &'static str, since: u64) -> About {
        let uri = Uri::from_static(path);
        About { id: "id-1".into(), site: None, method: Method::GET, uri, client: None, since }
    }

    fn registry() -> &'static Registry {
        Box::leak(Box::new(Registry::new()))
    }

    #[test]
    fn listed_until_nobody_works_on_it() {
        let registry = registry();
        let listed = registry.enter(about("/slow", 20));
        let older = std::thread::spawn(|| registry.enter(about("/older", 10))).join().unwrap();
        let paths = || registry.all().iter().map(|entry| entry.uri.path().to_owned()).collect::<Vec<_>>();
        assert_eq!(paths(), ["/older", "/slow"]);
        drop(older);
        assert_eq!(paths(), ["/slow"]);

        listed.step(Step::Queued, 20);
        let held = listed.hold(7, 3, 30);
        listed.left(Client::Gone, 40);
        drop(listed);
        let entry = registry.all().remove(0);
        assert_eq!((entry.step(), entry.held(), entry.client_is()), ((Step::App, 30), Some((7, 3)), Client::Gone));
        assert_eq!(registry.find(entry.number).unwrap().id, "id-1");
        drop(held);
        assert_eq!(entry.held(), None);
        drop(entry);
        assert!(paths().is_empty());
    }

    #[test]
    fn places_are_used_again_and_numbers_are_not() {
        let registry = registry();
        let first = registry.enter(about("/", 1));
        let number = registry.all()[0].number;
        drop(first);
        let _second = registry.enter(about("/", 1));
        assert!(registry.all()[0].number > number);
        assert_eq!(registry.list(here()).slots.len(), 1);
        assert!(registry.find(number).is_none());
    }

    #[test]
    fn one_that_is_not_listed_takes_marks_without_a_word() {
        let listed = Listed::default();
        listed.step(Step::Queued, 1);
        drop(listed.hold(1, 1, 1));
        listed.left(Client::Answered, 1);
        assert!(!listed.is_listed());
    }

    /// `cargo test -p paceline --release --lib in_flight::tests::cost -- --ignored --nocapture`
    #[test]
    #[ignore = "prints a figure"]
    fn cost() {
        const TIMES: u32 = 2_000_000;
        let registry = registry();
        let id = uuid::Uuid::new_v4().to_string();
        let begin = Instant::now();
        for n in 0..u64::from(TIMES) {
            let listed = registry.enter(About { id: id.clone(), ..about("/orders/1", n) });
            listed.step(Step::ReadingBody, n);
            listed.step(Step::Queued, n);
            drop(black_box(listed.hold(1, 1, n)));
            listed.step(Step::Sending, n);
            drop(black_box(listed));
        }
        println!("{:.1} ns for an exchange to be listed", begin.elapsed().as_nanos() as f64 / f64::from(TIMES));
    }
}
