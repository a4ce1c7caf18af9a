//! All that there is in a run of the model, and its steps. It checks each page that the front shows against what the application
//! would have answered at that moment: no page may be older than a commit, or another visitor's.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use http::{header, request::Parts, Response};
use parking_lot::Mutex;
use unix_user::RunAs;

use super::{
    chance::Chance,
    database::{Database, Dialect, Owner, USERS},
    habits::Habits,
    pages::{marked, Facts, Forgets, Keeps, Page, Session, Sessions, Sight, Visitor},
    process::{Link, PassedRequest, Process},
};
use crate::{
    caching::auto::{
        observed::Observed, observing::Watched, roster, trust::Trust, Answers, AutoCache, Load, Mode, Notice, Policy,
        Reporter, Stage,
    },
    content::body::ResponseBody,
    exchange::Exchange,
};
use ::auto_cache::watch::Watch;

const VISITORS: u8 = 5;
/// What a failure shows of the steps before it.
const SHOWN: usize = 60;

/// A rule that is broken, so that the model has something to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A process commits before the front has answered.
    ProcessWaitsNot,
    /// The front answers an announcement, and drops no page.
    IntentIsNotObeyed,
    /// A page counts as asked for when it was answered.
    BeginsWhenAnswered,
    /// What a process was about to commit when it ended is over.
    EndedWritesCountAsDone,
    /// So is a write of which its process does not know what came of it.
    UnknownCountsAsDone,
    /// The front does not notice that a connection has ended.
    EndIsNotSeen,
    /// Pages are shown although announcements are read late.
    LateFrontIsTrusted,
    /// A worker does not tell that a page depends on the session.
    SessionIsNotRecorded,
    /// It does not tell that a page depends on a cookie.
    CookieIsNotRecorded,
    /// It does not tell that there are tokens in a page.
    TokensAreNotRecorded,
    /// It does not tell that the session is written.
    SessionWritesAreNotRecorded,
    /// A process reads the schema before the front knows that it does.
    SchemaIsReadBefore,
}

impl Broken {
    pub fn forgets(self) -> Forgets {
        match self {
            Broken::SessionIsNotRecorded => Forgets::Session,
            Broken::CookieIsNotRecorded => Forgets::Cookies,
            Broken::TokensAreNotRecorded => Forgets::Tokens,
            Broken::SessionWritesAreNotRecorded => Forgets::SessionWrites,
            _ => Forgets::Nothing,
        }
    }
}

/// What the actor learns.
#[derive(Debug)]
pub enum Event {
    WasForked(u64, i32),
    IsReady(u64),
    HasEnded(u64),
}

#[derive(Debug, Clone, Copy)]
pub struct Asking {
    pub visitor: usize,
    pub page: Page,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub steps: u64,
    pub requests: u64,
    pub hits: u64,
    /// Of these, pages that differ between visitors.
    pub private_hits: u64,
    pub answers: u64,
    pub commits: u64,
    pub rolled_back: u64,
    pub kills: u64,
    pub lost: u64,
    pub late: u64,
    pub given_up: u64,
    pub restarts: u64,
    /// Sessions that got another cookie with a page that can't be kept.
    pub renewed: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        let pairs = [
            (&mut self.steps, other.steps),
            (&mut self.requests, other.requests),
            (&mut self.hits, other.hits),
            (&mut self.private_hits, other.private_hits),
            (&mut self.answers, other.answers),
            (&mut self.commits, other.commits),
            (&mut self.rolled_back, other.rolled_back),
            (&mut self.kills, other.kills),
            (&mut self.lost, other.lost),
            (&mut self.late, other.late),
            (&mut self.given_up, other.given_up),
            (&mut self.restarts, other.restarts),
            (&mut self.renewed, other.renewed),
        ];
        pairs.into_iter().for_each(|(own, other)| *own += other);
    }
}

/// What was wrong, after which step, and what came before it.
#[derive(Debug)]
pub struct Failure {
    pub step: u64,
    pub what: String,
    pub before: Vec<String>,
}

pub struct World {
    pub chance: Chance,
    pub counts: Counts,
    pub broken: Option<Broken>,
    /// Each kind of page has a route of its own.
    pub has_own_routes: bool,
    /// Some pages can't be kept, and give sessions other cookies.
    pub has_renewals: bool,
    pub auto: Arc<AutoCache>,
    pub answers: Answers,
    /// What the front has told people.
    pub told: Arc<Mutex<Option<String>>>,
    pub reporter: Reporter,
    pub events: VecDeque<Event>,
    pub living: Vec<(u64, roster::Process)>,
    pub forking: usize,
    pub to_fork: usize,
    pub processes: Vec<Process>,
    pub links: BTreeMap<u64, Link>,
    /// Frames so far, of all.
    pub written: u64,
    pub is_late: bool,
    pub database: Database,
    pub cache: BTreeMap<i64, i64>,
    pub dialect: Dialect,
    pub keeps: Keeps,
    pub sessions: Sessions,
    pub visitors: Vec<Visitor>,
    /// Pages that most requests are for.
    liked: Vec<Page>,
    /// Requests that no thread has taken yet.
    pub waiting: VecDeque<PassedRequest>,
    /// Answers that were not looked at yet, and what was written before.
    pub observed: VecDeque<(u64, Observed)>,
    /// Milliseconds.
    pub time: u64,
    pub releases: u64,
    pub release_ends: &'static str,
    pub last_link: u64,
    pub last_owner: Owner,
    pub last_value: i64,
    last_process: u64,
    load: Arc<Load>,
    pub habits: Habits,
    traced: Option<VecDeque<String>>,
    failure: Option<String>,
}

impl World {
    /// In a runtime whose time stands still.
    pub fn new(seed: u64, broken: Option<Broken>, traced: bool) -> World {
        let mut chance = Chance::new(seed);
        let told = Arc::new(Mutex::new(None));
        let hears = told.clone();
        let tell = move |notice: Notice| match notice {
            Notice::Missing(_) | Notice::Unwatched(..) => {}
            Notice::Differed(alarm) => {
                *hears.lock() = Some(format!("a page differs from the application's: {:?}", alarm.difference));
            }
            other => *hears.lock() = Some(format!("{other:?}")),
        };
        let policy = Policy { mode: Mode::Serve, sampled: 0, ..Policy::default() };
        let watch = Watch::new(policy);
        let (auto, answers) =
            AutoCache::begun(watch, Trust::default(), Default::default(), RunAs::own(), Box::new(tell));
        World {
            counts: Counts::default(),
            broken,
            has_own_routes: false,
            has_renewals: false,
            reporter: Reporter::new(auto.clone()),
            auto,
            answers,
            told,
            events: VecDeque::new(),
            living: Vec::new(),
            forking: 0,
            to_fork: 0,
            processes: Vec::new(),
            links: BTreeMap::new(),
            written: 0,
            is_late: false,
            database: Database::new(),
            cache: BTreeMap::new(),
            dialect: chance.pick(&[Dialect::Sqlite, Dialect::Postgres]),
            keeps: chance.pick(&[Keeps::Browser, Keeps::Browser, Keeps::Expires, Keeps::Server]),
            sessions: Sessions::default(),
            visitors: (0..VISITORS).map(Visitor::new).collect(),
            liked: (0..6).map(|_| Page::by_chance(&mut chance)).collect(),
            waiting: VecDeque::new(),
            observed: VecDeque::new(),
            time: 0,
            releases: 1,
            release_ends: if chance.one_in(12) { "-own" } else { "" },
            last_link: 0,
            last_owner: 0,
            last_value: 100,
            last_process: 0,
            load: Load::for_tests(),
            habits: Habits::of(seed, &mut chance),
            traced: traced.then(VecDeque::new),
            failure: None,
            chance,
        }
    }

    pub async fn run(&mut self, steps: u64) -> Result<(), Failure> {
        self.boot().await;
        for step in 1..=steps {
            self.counts.steps = step;
            self.step().await;
            if let Some(failure) = self.take_failure() {
                return Err(failure);
            }
        }
        Ok(())
    }

    pub fn take_failure(&mut self) -> Option<Failure> {
        let what = self.failure.take()?;
        Some(Failure { step: self.counts.steps, what, before: self.traced.take().unwrap_or_default().into() })
    }

    async fn step(&mut self) {
        if self.chance.one_in(self.habits.writes) {
            self.begin_writing();
        }
        if self.habits.strikes.is_some_and(|many| self.chance.one_in(many)) {
            self.strike();
        }
        match self.chance.below(1000) {
            0..=119 => {
                let visitor = self.chance.below(self.visitors.len());
                let page = if self.chance.one_in(3) {
                    Page::by_chance(&mut self.chance)
                } else {
                    self.chance.pick(&self.liked)
                };
                self.ask(Asking { visitor, page });
            }
            120..=639 => self.work(),
            640..=779 if self.is_late && self.habits.is_still => {}
            640..=779 => self.read().await,
            780..=879 => self.look().await,
            880..=909 => self.act(),
            910..=929 => self.fork(),
            930..=969 => self.join(),
            970..=974 => {
                let visitor = self.chance.below(self.visitors.len());
                self.change_visitor(visitor);
            }
            975..=986 if self.chance.one_in(self.habits.pauses) => {
                let millis = 1 + self.chance.below(self.habits.longest) as u64;
                self.pass(millis).await;
            }
            987 | 988 if self.chance.one_in(3) => self.kill(),
            989 if self.chance.one_in(self.habits.leaves) => self.leave(),
            990 | 991 => self.change_descriptors(),
            992 if !self.is_late && self.chance.one_in(3) => self.stall().await,
            993..=998 if self.is_late => self.stall().await,
            999 => self.act_rarely(),
            _ => {}
        }
    }

    fn act_rarely(&mut self) {
        match self.chance.below(16) {
            0 => self.restart(),
            1 => self.auto.purge(),
            _ => {}
        }
    }

    /// Signs in or out, or sets something else that pages depend on.
    pub fn change_visitor(&mut self, at: usize) {
        // It sends a form for that.
        let (head, exchange) = self.request(at, "/visitors");
        self.do_change_visitor(at);
        self.auto.has_acted(&head, &exchange);
    }

    fn do_change_visitor(&mut self, at: usize) {
        let visitor = &mut self.visitors[at];
        match self.chance.below(6) {
            0 => visitor.locale = self.chance.pick(&[None, Some("de"), Some("en")]),
            1 => visitor.tenant = self.chance.pick(&[None, Some("one"), Some("two")]),
            2 => visitor.cookie = None,
            change => {
                let cookie = visitor.cookie.clone();
                let mut session = self.sessions.of(cookie.as_ref());
                match change {
                    3 => session.theme = Some(self.chance.id(2)),
                    4 => session = Session { secret: session.secret, ..Session::default() },
                    _ => session = Session { user: Some(self.chance.id(USERS)), ..Session::default() },
                }
                if let Some(cookie) = self.keep_session(cookie, session) {
                    self.visitors[at].cookie = Some(cookie);
                }
            }
        }
    }

    /// A process closes its connection, as before it is forked from, or loses it.
    fn leave(&mut self) {
        let at = self.chance.below(self.processes.len());
        if self.processes[at].journal.holder.is_none() {
            self.note(|| format!("process at {at} closes its connection"));
            self.counts.lost += 1;
            self.close(at);
        }
    }

    /// A worker has used up its open files, or has some again.
    fn change_descriptors(&mut self) {
        let at = self.chance.below(self.processes.len());
        let process = &mut self.processes[at];
        if process.is_worker() {
            let can = !process.journal.can_open || !self.chance.one_in(4);
            process.journal.can_open = can;
        }
    }

    pub fn release(&self) -> String {
        format!("r{}{}", self.releases, self.release_ends)
    }

    pub fn new_process(&mut self, release: Option<String>) -> Process {
        self.last_process += 1;
        Process::new(self.last_process, release)
    }

    pub fn open_console(&mut self) {
        let console = self.new_process(None);
        self.processes.push(console);
    }

    pub fn process(&self, pid: i32, stage: Stage) -> roster::Process {
        roster::Process { pid, worker: Some(1), stage, load: self.load.clone() }
    }

    pub fn asked(&self, asking: Asking, head: Parts, exchange: Exchange, watched: Option<Watched>) -> PassedRequest {
        let Asking { visitor, page } = asking;
        let cookie = self.visitors[visitor].cookie.clone();
        PassedRequest { visitor, page, cookie, facts: self.facts(visitor), head, exchange, watched }
    }

    /// What a page has to show of this visitor now.
    fn facts(&self, visitor: usize) -> Facts {
        let visitor = &self.visitors[visitor];
        let release = self.processes.iter().filter_map(|process| process.release.clone()).next();
        Facts {
            release: release.unwrap_or_else(|| self.release()),
            session: self.sessions.of(visitor.cookie.as_ref()),
            locale: visitor.locale,
            tenant: visitor.tenant,
            address: visitor.address,
        }
    }

    /// A page that was shown.
    pub fn check(&mut self, asking: Asking, response: &Response<ResponseBody>) {
        let Asking { visitor, page } = asking;
        let ResponseBody::Whole(body) = response.body() else {
            return self.fails(format!("{} has no body", page.name()));
        };
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let nonce = text(header::CONTENT_SECURITY_POLICY).split('\'').nth(1).and_then(|own| own.strip_prefix("nonce-"));
        let facts = self.facts(visitor);
        let shown = marked(&String::from_utf8_lossy(body), facts.session.secret.as_ref(), nonce);
        let sight = Sight { state: &self.database.committed, cache: &self.cache, facts: &facts };
        let expected = page.expected(&sight);
        if shown != expected {
            self.fails(format!("visitor {visitor} is shown {}: {shown}\nand it is {expected}", page.name()));
        } else if page.is_private() && !text(header::CACHE_CONTROL).contains("private") {
            self.fails(format!("other caches may keep {}", page.name()));
        }
        self.counts.private_hits += u64::from(page.is_private());
    }

    pub fn fails(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }

    /// For people, if they look.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        let step = self.counts.steps;
        if let Some(traced) = &mut self.traced {
            traced.push_back(format!("{step}: {}", text()));
            if traced.len() > SHOWN {
                traced.pop_front();
            }
        }
    }
}
