//! The automatic page cache (`[auto_cache]`): it watches answers of the application with what they were made of, and the writes that
//! its processes announce. A thread of its own does it, so that no visitor waits. In mode serve it answers requests with the pages
//! of routes that have proved to be right. It never changes an answer of the application. The rules are in `crates/auto-cache`.
//!
//! Reading order: `observing` (an answer on its way to the client), `request_parts` and `request_fields` (what its request had), here (the thread),
//! `journal` (what processes announce), `roster` (which processes there are), `trust` (whether all writes are told), `serving` (a page
//! in place of an answer), `prepared` (what is made once of a page), `off_routes` (what is
//! remembered of those that differed), `proven_routes` (what is remembered of those that were right; with which code, says `super::code`), `sqlite_files`
//! (whether others have written).

mod file_marks;
mod journal;
#[cfg(test)]
mod model;
mod observed;
mod observing;
mod off_routes;
mod prepared;
mod proven_routes;
mod request_fields;
mod request_parts;
mod roster;
mod samples;
mod serving;
mod sqlite_files;
mod trust;

use std::{
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        Arc, Weak,
    },
    time::{Duration, Instant},
};

pub use ::auto_cache::watch::{Mode, Policy};
use ::auto_cache::{
    watch::{Alarm, Answer, Cut, OtherAnswer, PageRequest, SetCookie, UnchangedSession, Watch},
    wire,
};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, Semaphore};

use self::{
    file_marks::{AskedFiles, FileMarks},
    observed::Observed,
    off_routes::OffRoutes,
    proven_routes::ProvenRoutes,
    samples::Samples,
    sqlite_files::SqliteFiles,
    trust::Trust,
};
pub use self::{
    journal::serve,
    proven_routes::Memory,
    roster::{Living, Process, Reporter, Stage},
    serving::{AutoHit, NoPage},
    trust::{is_journal, NAME},
};
pub use crate::caching::code::Load;
use crate::{
    caching::code,
    support::{account_share::AccountShare, clock, site_files::SiteFiles},
};
use unix_user::RunAs;

/// Bytes of answers that wait to be looked at. What comes while there are more is not looked at.
const MAX_WAITING: usize = 16 << 20;
/// How long a record is waited for that is not there when its body is, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);

/// What people should know of it.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A page differed from the application's.
    Differed(&'a Alarm),
    /// A process announced what nobody understands.
    Misunderstood,
    /// This process of the application has not joined.
    Missing(&'a str),
    /// What other programs write to this database is not seen, and why.
    Unwatched(&'a Path, &'a str),
    /// The routes that are off, or were proven, can't be remembered.
    Forgetful(std::io::Error),
}

pub type Tell = Box<dyn Fn(Notice) + Send + Sync>;

/// How a site's cache begins.
pub struct Setup {
    pub policy: Policy,
    /// The socket on which processes announce their writes.
    pub socket: PathBuf,
    /// With whose rights its databases are looked at.
    pub run_as: RunAs,
    /// Where it is remembered which routes are off.
    pub off_routes: Option<PathBuf>,
    /// Where it is remembered which routes were proven.
    pub proven: Option<Memory>,
    /// The site's cache before this one, whose processes may still run.
    pub before: Option<Weak<AutoCache>>,
    pub tell: Tell,
}

/// One site's.
pub struct AutoCache {
    policy: Policy,
    trust: Trust,
    off_routes: Mutex<OffRoutes>,
    /// Locked before `watch`.
    proven: Mutex<ProvenRoutes>,
    run_as: RunAs,
    account: &'static AccountShare,
    /// The files that pages were made of.
    marks: FileMarks,
    /// Locked before `watch`.
    databases: Mutex<SqliteFiles>,
    tell: Tell,
    /// Hits read it, and all else changes it.
    watch: RwLock<Watch>,
    /// Grows with each answer that is whole, and each write that is done.
    moment: AtomicU64,
    answers: mpsc::UnboundedSender<Observed>,
    waiting: AtomicUsize,
    /// Answers that were not looked at, because too many waited.
    passed_over: AtomicU64,
    /// In mode watch.
    samples: Samples,
    /// Bytes of what processes say that may be read now.
    reading: Arc<Semaphore>,
    /// Writes of which nobody knows what came, and that may be waited for now.
    unknown: Arc<Semaphore>,
    /// Processes of the application that are connected.
    processes: AtomicUsize,
    /// Numbers of their connections.
    last_process: AtomicU64,
}

/// Answers that wait to be looked at.
pub type Answers = mpsc::UnboundedReceiver<Observed>;

impl AutoCache {
    pub fn new(setup: Setup) -> (Arc<AutoCache>, Answers) {
        let Setup { policy, socket, run_as, off_routes, proven, before, tell } = setup;
        let off_routes = OffRoutes::load(off_routes.filter(|_| policy.mode != Mode::Watch));
        let proven = ProvenRoutes::new(proven.filter(|_| policy.mode != Mode::Watch));
        let mut watch = Watch::new(policy);
        off_routes.all().for_each(|(route, why)| watch.turn_off(route, why));
        AutoCache::begun(watch, Trust::new(socket, before), (off_routes, proven), run_as, tell)
    }

    /// Grows when pages are dropped because nobody knows what was written.
    #[cfg(test)]
    pub fn moment(&self) -> u64 {
        self.moment.load(Relaxed)
    }

    #[cfg(test)]
    fn for_tests() -> (Arc<AutoCache>, Answers) {
        AutoCache::begun(Watch::default(), Trust::default(), Default::default(), RunAs::own(), Box::new(|_| ()))
    }

    fn begun(
        watch: Watch,
        trust: Trust,
        (off_routes, proven): (OffRoutes, ProvenRoutes),
        run_as: RunAs,
        tell: Tell,
    ) -> (Arc<AutoCache>, Answers) {
        let (answers, waiting) = mpsc::unbounded_channel();
        let account = AccountShare::of(&run_as);
        let auto = AutoCache {
            policy: watch.policy(),
            trust,
            off_routes: Mutex::new(off_routes),
            proven: Mutex::new(proven),
            marks: FileMarks::new(SiteFiles::new(run_as.clone())),
            account,
            run_as,
            databases: Mutex::default(),
            tell,
            watch: RwLock::new(watch.within(account.pages.clone())),
            moment: AtomicU64::new(0),
            answers,
            waiting: AtomicUsize::new(0),
            passed_over: AtomicU64::new(0),
            samples: Samples::default(),
            reading: Arc::new(Semaphore::new(journal::MAX_READ)),
            unknown: Arc::new(Semaphore::new(journal::MAX_UNKNOWN)),
            processes: AtomicUsize::new(0),
            last_process: AtomicU64::new(0),
        };
        (Arc::new(auto), waiting)
    }

    /// Looks at answers as they come; until the site is gone.
    pub async fn run(self: Arc<AutoCache>, mut answers: Answers) {
        while let Some(observed) = answers.recv().await {
            // What processes have written to their sockets before the answer was complete is read first.
            tokio::task::yield_now().await;
            if observed.is_incomplete() {
                tokio::spawn(self.clone().await_record(observed));
                continue;
            }
            self.waiting.fetch_sub(observed.size, Relaxed);
            self.look_at_files(&observed).await;
            self.look_at(&observed);
        }
    }

    /// Looks at what the answer, and pages in its place, were made of.
    async fn look_at_files(self: &Arc<AutoCache>, observed: &Observed) {
        let record = observed.record.lock().clone().filter(|_| observed.status.is_none());
        let mut files = record.as_deref().map_or_else(Vec::new, wire::files);
        files.extend(self.with(|watch| watch.files_of(&observed.url)));
        files.sort_unstable();
        files.dedup();
        if !files.is_empty() {
            self.look(&files).await;
        }
    }

    async fn await_record(self: Arc<AutoCache>, observed: Observed) {
        let until = Instant::now() + PATIENCE;
        while observed.is_incomplete() && Instant::now() < until {
            tokio::time::sleep(STEP).await;
        }
        self.waiting.fetch_sub(observed.size, Relaxed);
        self.look_at_files(&observed).await;
        self.look_at(&observed);
    }

    fn offer(&self, mut observed: Observed) {
        observed.size = observed.measured();
        observed.ended = self.next();
        if self.waiting.load(Relaxed) + observed.size > MAX_WAITING {
            self.passed_over.fetch_add(1, Relaxed);
            return;
        }
        self.waiting.fetch_add(observed.size, Relaxed);
        let _ = self.answers.send(observed);
    }

    fn look_at(&self, observed: &Observed) {
        if !self.catch_up() {
            return;
        }
        self.look_at_databases();
        let files = AskedFiles::new(&self.marks);
        let view = observed.asked.view(&files);
        let record = observed.record.lock().clone();
        let cookies: Vec<SetCookie> = observed
            .cookies
            .iter()
            .map(|cookie| SetCookie { name: &cookie.name, value: &cookie.value, until: cookie.until })
            .collect();
        let learn_session = || {
            if let Some(session) = record.as_deref().and_then(UnchangedSession::of) {
                self.change(|watch| watch.learn_session(&session, &cookies, clock::unix_millis(), &view));
            }
        };
        if let Some(status) = observed.status {
            if observed.is_for_pages {
                let now = clock::unix_millis();
                let answer = OtherAnswer { url: &observed.url, began: observed.began, now, status };
                self.raise(self.change(|watch| watch.answered_otherwise(&answer, &view)));
            }
            return learn_session();
        }
        let whole = match &observed.body[..] {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        };
        if record.is_none() && self.policy.mode == Mode::Watch && self.samples.are_few() {
            // The application did not begin it within the second.
            return;
        }
        let answer = Answer {
            url: &observed.url,
            route: &observed.route,
            began: observed.began,
            ended: observed.ended,
            now: clock::unix_millis(),
            record: record.as_deref(),
            refused: observed.refused.as_deref(),
            cookies: &cookies,
            head: &observed.head,
            etag: observed.etag.as_deref(),
            vary: &observed.vary,
            visitor: observed.visitor,
            nonce: observed.nonce.as_deref(),
            body: &whole,
        };
        // The long part of it is done without the lock, for which hits wait.
        let cut = self.change(|watch| watch.understand(&answer)).and_then(|made| Ok(Cut::of(&answer, made)?));
        if cut.is_err() {
            learn_session();
        }
        let is_refused = cut.is_err() && observed.is_for_pages;
        let (alarm, newly_proven) = self.change(|watch| {
            let alarm = watch.compare(&answer, &view, cut);
            if is_refused {
                watch.drop_fitting(&PageRequest { url: answer.url, now: answer.now }, &view);
            }
            (alarm, watch.newly_proven())
        });
        for route in newly_proven {
            let added = self.proven.lock().add(&route);
            self.say_if_forgetful(added);
        }
        self.raise(alarm);
    }

    fn raise(&self, alarm: Option<Alarm>) {
        if let Some(alarm) = alarm {
            self.remember(&alarm.route, Some("a page differed from the application's"));
            (self.tell)(Notice::Differed(&alarm));
        }
    }

    /// Turns a route off, or lets it begin once more.
    pub fn turn(&self, route: &str, off: Option<&str>) {
        self.change(|watch| match off {
            Some(why) => watch.turn_off(route, why),
            None => watch.turn_on(route),
        });
        self.remember(route, off);
    }

    fn remember(&self, route: &str, off: Option<&str>) {
        let remembered = self.off_routes.lock().set(route, off);
        self.say_if_forgetful(remembered);
        let removed = self.proven.lock().remove(route);
        self.say_if_forgetful(removed);
    }

    fn say_if_forgetful(&self, done: std::io::Result<()>) {
        if let Err(why) = done {
            (self.tell)(Notice::Forgetful(why));
        }
    }

    /// Another load of the code answers from now on.
    fn begin_release(&self, release: &str) {
        let mut proven = self.proven.lock();
        if proven.release.as_deref() != Some(release) {
            proven.forget_code();
        }
        self.change(|watch| {
            if code::is_each_own(release) {
                watch.end_release();
            }
            watch.begin_release(release, self.next());
        });
    }

    /// Whether it is to be found out which code answers, and so which of its routes were proven before: then `recall` is to be
    /// called. Called now and then.
    pub fn begin_recall(&self) -> bool {
        let mut proven = self.proven.lock();
        let is_new = self.with(|watch| watch.release() != proven.release.as_deref());
        let begins = proven.memory.is_some() && is_new && !proven.is_asked;
        proven.is_asked |= begins;
        begins
    }

    /// Finds it out. It reads the application's files, and takes a moment.
    pub fn recall(&self) {
        self.find_code();
        self.proven.lock().is_asked = false;
    }

    fn find_code(&self) {
        let Some(release) = self.with(|watch| watch.release().map(str::to_owned)) else { return };
        let Some(load) = self.trust.load_of(&release) else { return };
        let run_as = self.proven.lock().memory.as_ref().map(|memory| memory.run_as.clone());
        let Some(run_as) = run_as else { return };
        let digest = code::began(&release).and_then(|began| code::digest(&load, began, &run_as).ok());
        let mut proven = self.proven.lock();
        if self.with(|watch| watch.release() != Some(&release)) {
            return;
        }
        proven.release = Some(release.clone());
        let Some(digest) = digest else { return };
        let before = proven.begin(digest);
        let all = self.change(|watch| {
            watch.remember(&release, before.iter().map(String::as_str));
            let proven = watch.routes().filter(|(_, route)| route.life.is_proven());
            proven.map(|(label, _)| label.to_owned()).collect::<Vec<_>>()
        });
        let added = all.iter().try_for_each(|route| proven.add(route));
        drop(proven);
        self.say_if_forgetful(added);
    }

    /// A process of the application has this database of SQLite open.
    fn add_database(&self, path: &Path) {
        self.databases.lock().add(path, &self.run_as);
    }

    /// Says which databases are not watched. Called now and then.
    fn name_unwatched(&self) {
        let next = || self.databases.lock().unwatched(&self.run_as, Instant::now());
        for (path, why) in std::iter::from_fn(next) {
            (self.tell)(Notice::Unwatched(&path, &why));
        }
    }

    /// Drops pages if a database was written to without an announcement. While an announced write is under way, the two can't be told
    /// apart. Called before any is, before it counts as done, and now and then.
    fn look_at_databases(&self) {
        let mut databases = self.databases.lock();
        if databases.have_changed(&self.run_as) && !self.with(Watch::is_written_to) {
            self.change(|watch| watch.was_written_to(self.next(), clock::unix_millis()));
        }
    }

    /// An announced write was under way for so long that others may have written meanwhile.
    fn doubt_databases(&self) {
        if !self.databases.lock().is_empty() {
            self.change(|watch| watch.was_written_to(self.next(), clock::unix_millis()));
        }
    }

    /// Drops all pages.
    pub fn purge(&self) {
        self.change(|watch| watch.purge(self.next(), clock::unix_millis()));
    }

    /// Whether all writes are told here. It is looked at also while nobody asks for a page.
    pub fn is_trusted(&self) -> bool {
        self.trust.holds(|| self.distrust())
    }

    /// Drops pages at once if something may have been written unannounced, so that those of later requests are kept. False: a
    /// process is missing that may write.
    fn catch_up(&self) -> bool {
        let is_complete = self.trust.may_compare(|| self.distrust());
        if is_complete {
            self.is_trusted();
        }
        is_complete
    }

    fn distrust(&self) {
        self.change(|watch| watch.distrust(self.next()));
    }

    /// Why no pages are shown now. None: they may be.
    pub fn obstacle(&self) -> Option<String> {
        self.trust.obstacle()
    }

    /// Says which processes do not announce what they write. Called now and then.
    pub fn name_absentees(&self) {
        self.trust.absentees().iter().for_each(|process| (self.tell)(Notice::Missing(process)));
    }

    fn next(&self) -> u64 {
        self.moment.fetch_add(1, Relaxed) + 1
    }

    fn next_process(&self) -> u64 {
        self.last_process.fetch_add(1, Relaxed) + 1
    }

    fn change<T>(&self, act: impl FnOnce(&mut Watch) -> T) -> T {
        act(&mut self.watch.write())
    }

    /// What was counted, for people.
    pub fn with<T>(&self, see: impl FnOnce(&Watch) -> T) -> T {
        see(&self.watch.read())
    }

    pub fn passed_over(&self) -> u64 {
        self.passed_over.load(Relaxed)
    }

    pub fn processes(&self) -> usize {
        self.processes.load(Relaxed)
    }

    /// Processes of the application may write yet.
    fn has_processes(&self) -> bool {
        self.processes() > 0 || !self.trust.is_over()
    }
}
