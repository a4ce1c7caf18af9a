//! Whether pages may be shown at all: only while every write is told here before it is committed. That is so while the socket of
//! this server is the only one of its application, the thread that reads it is not late, all processes of the application have
//! joined (`roster`), and all workers have loaded the same code. It reads nothing of what is told.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
        Arc, Weak,
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

use super::{
    file_marks::FRESH,
    roster::{Living, Process, Roster},
    AutoCache, Load,
};
use crate::{
    caching::code::is_each_own,
    support::clock::{self, Micros},
};

/// How often the thread that reads what is told shows that it does.
pub const BEAT: Duration = Duration::from_millis(50);
/// In mode watch, which shows no page, so that it need not know as soon.
pub const WATCHING_BEAT: Duration = Duration::from_millis(200);
/// Microseconds since then, at most. A process waits a second for its answer before it commits without one.
const LATE: Micros = 500_000;
/// What has changed within this time (ns) may have changed once more without another time.
const SAME_TICK: u128 = 50_000_000;

/// Entries of the folder that are read. In one with more nobody looks for the sockets of other servers.
const MAX_ENTRIES: usize = 10_000;

/// A server's socket in an application's folder: `paceline-journal-PID.sock`.
pub const NAME: (&str, &str) = ("paceline-journal-", ".sock");

#[derive(Default)]
pub struct Trust {
    /// None: in tests.
    socket: Option<PathBuf>,
    /// What read the same processes before.
    before: Mutex<Option<Weak<AutoCache>>>,
    /// Everything that was told before this moment (µs) has been read.
    read_until: AtomicU64,
    /// Something was told that nobody understands.
    is_broken: AtomicBool,
    /// Locked before `seen`.
    roster: Mutex<Roster>,
    agree: AtomicBool,
    /// A process may write that has not joined.
    lacks: AtomicBool,
    /// One may have written that had not joined, since pages were last dropped for it. It is set before `lacks` is cleared.
    has_missed: AtomicBool,
    /// When the folder was changed (ns), and whether ours is the only server's socket in it. Locked while it is looked, and while
    /// pages are dropped.
    seen: Mutex<Option<(i64, bool)>>,
    /// Nothing was missing when it was looked last, and pages were dropped since anything was.
    whole: AtomicBool,
    /// When the folder was changed (ns) that has our socket alone. 0: it is not known.
    alone_since: AtomicI64,
    /// When it was looked last whether pages may be shown.
    looked: AtomicU64,
}

/// What came of a worker that says which code it has loaded.
#[derive(Debug, PartialEq, Eq)]
pub enum Agreement {
    /// All have this one, and had not before; or nobody knows whether it is the same as before.
    Begins(String),
    Unchanged,
}

impl Trust {
    pub fn new(socket: PathBuf, before: Option<Weak<AutoCache>>) -> Trust {
        Trust { socket: Some(socket), before: Mutex::new(before), ..Trust::default() }
    }

    /// All that came before `moment` has been read. After a long time in which nothing was, a process may have committed
    /// what it could not announce.
    pub fn beat(&self, moment: Micros) {
        let _seen = self.seen.lock();
        if moment.saturating_sub(self.read_until.load(SeqCst)) > LATE {
            self.whole.store(false, SeqCst);
        }
        self.read_until.store(moment, SeqCst);
    }

    /// True: it was not, before.
    pub fn break_off(&self) -> bool {
        !self.is_broken.swap(true, SeqCst)
    }

    /// A process has connected.
    pub fn came(&self, connection: u64, pid: i32) {
        self.roster.lock().came(connection, pid);
    }

    /// A process announces what it writes from now on. A worker has loaded this code; a preloader says none.
    pub fn joined(&self, connection: u64, release: &str) -> Agreement {
        let mut roster = self.roster.lock();
        roster.joined(connection, release);
        self.weigh(&mut roster);
        self.agreement(&roster)
    }

    /// Some process has written what it could not announce.
    pub fn missed(&self) {
        self.roster.lock().has_written();
    }

    /// A connection is closed.
    pub fn left(&self, connection: u64) -> Agreement {
        let mut roster = self.roster.lock();
        let had_joined = roster.left(connection);
        self.weigh(&mut roster);
        if had_joined {
            self.agreement(&roster)
        } else {
            Agreement::Unchanged
        }
    }

    /// What lives of an application. `reporter`: the number of the one that tells it.
    pub fn lives(&self, reporter: u64, processes: Vec<Process>, forking: usize) {
        let mut roster = self.roster.lock();
        roster.lives(reporter, Living { processes, forking });
        self.weigh(&mut roster);
    }

    fn weigh(&self, roster: &mut Roster) {
        let (lacks, has_missed) = roster.weigh();
        if has_missed {
            self.has_missed.store(true, SeqCst);
        }
        self.lacks.store(lacks, SeqCst);
    }

    /// Where the code of a load comes from, by the process that serves with it.
    pub fn load_of(&self, release: &str) -> Option<Arc<Load>> {
        self.roster.lock().load_of(release)
    }

    /// Processes that have not joined, by name; each once.
    pub fn absentees(&self) -> Vec<String> {
        self.roster.lock().absentees()
    }

    /// Nothing of an application lives that may write.
    pub fn is_over(&self) -> bool {
        self.roster.lock().is_empty()
    }

    fn agreement(&self, roster: &Roster) -> Agreement {
        let all = roster.releases();
        let one = all.first().filter(|_| all.len() == 1);
        if one.is_none() {
            self.agree.store(false, SeqCst);
        }
        match one {
            // Each that comes may have loaded other code than those before, and one that leaves may have been the last with its own.
            Some(release) if !self.agree.load(SeqCst) || is_each_own(release) => Agreement::Begins((*release).clone()),
            _ => Agreement::Unchanged,
        }
    }

    /// Pages of this load of the code may be shown.
    pub fn agreed(&self) {
        let roster = self.roster.lock();
        self.agree.store(roster.releases().len() == 1, SeqCst);
    }

    /// Whether pages may be shown, as it was when `holds` was asked last, without looking at anything. None: that is too long ago.
    pub fn held_lately(&self) -> Option<bool> {
        if self.is_broken.load(SeqCst) || !self.agree.load(SeqCst) || self.lacks.load(SeqCst) {
            return Some(false);
        }
        let is_fresh = clock::now().saturating_sub(self.looked.load(SeqCst)) < FRESH;
        if !is_fresh || self.has_missed.load(SeqCst) {
            return None;
        }
        let read_until = self.read_until.load(SeqCst);
        Some(self.whole.load(SeqCst) && is_in_time(read_until))
    }

    /// Whether pages may be shown now. `again`: is called first where they could not be for a while, because nobody knows what was
    /// written in between.
    pub fn holds(&self, again: impl FnMut()) -> bool {
        let began = clock::now();
        let holds = self.look(again);
        self.looked.store(began, SeqCst);
        holds
    }

    fn look(&self, mut again: impl FnMut()) -> bool {
        if self.is_broken.load(SeqCst) || !self.agree.load(SeqCst) {
            return false;
        }
        if self.still_holds() {
            return true;
        }
        let mut seen = self.seen.lock();
        // Also while somebody is missing: a socket that was lost in that time is there again when nobody is any more.
        let whole = self.is_alone(&mut seen) && self.is_first();
        if !whole {
            self.whole.store(false, SeqCst);
        }
        if !self.is_complete(&mut again) {
            return false;
        }
        if whole && !self.whole.load(SeqCst) {
            again();
        }
        self.whole.store(whole, SeqCst);
        whole && is_in_time(self.read_until.load(SeqCst))
    }

    /// Without a lock, for hits: whether nothing has changed since pages could be shown. `whole` is read last: it is cleared before one of the
    /// others is taken back, until pages are dropped.
    fn still_holds(&self) -> bool {
        let read_until = self.read_until.load(SeqCst);
        let holds =
            !self.lacks.load(SeqCst) && !self.has_missed.load(SeqCst) && self.is_unchanged() && self.whole.load(SeqCst);
        // Looking at the folder may have taken long.
        holds && is_in_time(read_until)
    }

    /// The folder is the one in which our socket was found alone.
    fn is_unchanged(&self) -> bool {
        let Some(folder) = self.socket.as_deref().and_then(Path::parent) else { return self.socket.is_none() };
        let known = self.alone_since.load(SeqCst);
        known != 0 && changed(folder) == Some(known)
    }

    /// Whether pages may be kept and compared: nobody is missing who may write. `again`: as above.
    pub fn may_compare(&self, again: impl FnMut()) -> bool {
        let _seen = self.seen.lock();
        self.is_complete(again)
    }

    /// With `seen` locked, so that nobody goes on before pages are dropped.
    fn is_complete(&self, mut again: impl FnMut()) -> bool {
        if self.lacks.load(SeqCst) {
            return false;
        }
        if self.has_missed.load(SeqCst) {
            // No hit finds a page meanwhile.
            let was_whole = self.whole.swap(false, SeqCst);
            self.has_missed.store(false, SeqCst);
            again();
            self.whole.store(was_whole, SeqCst);
        }
        true
    }

    /// Why pages are not shown, for people.
    pub fn obstacle(&self) -> Option<String> {
        if self.is_broken.load(SeqCst) {
            return Some("a process announced something that can't be understood; restart the server".into());
        }
        let roster = self.roster.lock();
        if let Some(why) = roster.obstacle() {
            return Some(why);
        }
        if roster.releases().is_empty() {
            return Some("no worker is connected".into());
        }
        drop(roster);
        if !self.agree.load(SeqCst) {
            return Some("workers of two loads of the code are running".into());
        }
        let mut seen = self.seen.lock();
        if !self.is_alone(&mut seen) {
            return Some(format!(
                "another server runs in this directory, the socket below tmp is missing, or tmp has more than {MAX_ENTRIES} entries"
            ));
        }
        if !self.is_first() {
            return Some("workers of the directory before are still running".into());
        }
        None
    }

    fn is_first(&self) -> bool {
        let mut before = self.before.lock();
        let runs = before.as_ref().and_then(Weak::upgrade).is_some_and(|before| before.has_processes());
        if !runs {
            *before = None;
        }
        !runs
    }

    fn is_alone(&self, seen: &mut Option<(i64, bool)>) -> bool {
        let Some(socket) = &self.socket else { return true };
        let Some(folder) = socket.parent() else { return false };
        let Some(changed) = changed(folder) else {
            *seen = None;
            self.alone_since.store(0, SeqCst);
            self.whole.store(false, SeqCst);
            return false;
        };
        if let Some((_, alone)) = seen.filter(|(at, _)| *at == changed) {
            return alone;
        }
        let alone = is_only(folder, socket);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let is_settled = u128::try_from(changed).is_ok_and(|changed| changed + SAME_TICK < now);
        *seen = is_settled.then_some((changed, alone));
        self.alone_since.store(if is_settled && alone { changed } else { 0 }, SeqCst);
        if !alone {
            self.whole.store(false, SeqCst);
        }
        alone
    }
}

/// What processes said up to `read_until` is known, and none has given up waiting since.
fn is_in_time(read_until: Micros) -> bool {
    clock::now().saturating_sub(read_until) < LATE
}

/// When the folder's entries were changed last (Unix nanoseconds).
fn changed(folder: &Path) -> Option<i64> {
    let found = fs::metadata(folder).ok()?;
    Some(found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec()))
}

/// Ours is there, and no other server's.
fn is_only(folder: &Path, own: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let mut is_there = false;
    for (nth, entry) in entries.flatten().enumerate() {
        let name = entry.file_name();
        let is_own = own.file_name() == Some(&name);
        // Nobody waits for an account that fills the folder.
        if nth >= MAX_ENTRIES || !is_own && name.to_str().is_some_and(is_journal) {
            return false;
        }
        is_there |= is_own;
    }
    is_there
}

/// The name of a server's socket.
pub fn is_journal(name: &str) -> bool {
    let pid = name.strip_prefix(NAME.0).and_then(|rest| rest.strip_suffix(NAME.1));
    pid.is_some_and(|pid| pid.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caching::auto::roster::Stage;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn trusted(socket: PathBuf) -> Trust {
        let trust = Trust::new(socket, None);
        trust.joined(1, "r1");
        trust.agreed();
        trust.beat(clock::now());
        trust
    }

    #[test]
    fn only_one_server_of_a_folder() {
        let folder = Folder(std::env::temp_dir().join(format!("paceline-trust-{}", uuid::Uuid::new_v4().simple())));
        fs::create_dir(&folder.0).unwrap();
        fs::write(folder.0.join("paceline-journal-1.sock"), "").unwrap();
        fs::write(folder.0.join("other"), "").unwrap();
        let trust = trusted(folder.0.join("paceline-journal-1.sock"));
        let mut again = 0;
        assert!(trust.holds(|| again += 1) && trust.holds(|| again += 1));
        assert_eq!(again, 1);
        fs::write(folder.0.join("paceline-journal-2.sock"), "").unwrap();
        assert!(!trust.holds(|| again += 1));
        assert!(trust.obstacle().unwrap().starts_with("another server"));
        fs::remove_file(folder.0.join("paceline-journal-2.sock")).unwrap();
        assert!(trust.holds(|| again += 1));
        assert_eq!(again, 2, "nobody knows what was written in between");
        fs::remove_file(folder.0.join("paceline-journal-1.sock")).unwrap();
        assert!(!trust.holds(|| ()));
    }

    #[test]
    fn a_socket_that_is_lost_while_a_worker_is_started() {
        let folder = Folder(std::env::temp_dir().join(format!("paceline-trust-{}", uuid::Uuid::new_v4().simple())));
        fs::create_dir(&folder.0).unwrap();
        let socket = folder.0.join("paceline-journal-1.sock");
        fs::write(&socket, "").unwrap();
        let trust = trusted(socket.clone());
        let mut again = 0;
        assert!(trust.holds(|| again += 1));
        trust.lives(1, Vec::new(), 1);
        fs::remove_file(&socket).unwrap();
        assert!(!trust.holds(|| again += 1));
        fs::write(&socket, "").unwrap();
        trust.lives(1, Vec::new(), 0);
        assert!(trust.holds(|| again += 1));
        assert_eq!(again, 2, "a console had nobody to announce to in between");
    }

    #[test]
    fn workers_have_to_agree() {
        let trust = Trust::default();
        trust.beat(clock::now());
        assert!(!trust.holds(|| ()), "there is none");
        assert_eq!(trust.joined(1, "r1"), Agreement::Begins("r1".into()));
        trust.agreed();
        assert!(trust.holds(|| ()));
        assert_eq!(trust.joined(2, "r1"), Agreement::Unchanged);
        assert_eq!(trust.joined(3, "r2"), Agreement::Unchanged);
        trust.agreed();
        assert!(!trust.holds(|| ()));
        assert_eq!((trust.left(1), trust.left(9)), (Agreement::Unchanged, Agreement::Unchanged));
        assert_eq!(trust.left(2), Agreement::Begins("r2".into()));
        trust.agreed();
        assert!(trust.holds(|| ()) && trust.break_off() && !trust.break_off());
        assert!(!trust.holds(|| ()));
    }

    #[test]
    fn workers_that_load_the_code_by_themselves_begin_from_nothing() {
        let trust = Trust::default();
        let begins = || Agreement::Begins("r1-own".into());
        assert_eq!(trust.joined(1, "r1-own"), begins());
        trust.agreed();
        trust.beat(clock::now());
        assert_eq!(trust.joined(2, "r1-own"), begins(), "its code may be another one");
        assert_eq!(trust.left(1), begins(), "its code may be gone");
        assert!(trust.holds(|| ()), "the others go on");
        assert_eq!((trust.left(2), trust.holds(|| ())), (Agreement::Unchanged, false));
    }

    #[test]
    fn who_has_not_joined_may_write() {
        let trust = trusted_without_folder();
        let mut again = 0;
        assert!(trust.holds(|| ()));
        let worker = |stage| Process { pid: 7, worker: Some(1), stage, load: Load::for_tests() };
        for (stage, drops) in [(Stage::Booting, 1), (Stage::Ready, 2), (Stage::Loading, 3)] {
            trust.lives(1, vec![worker(stage)], 0);
            assert!(!trust.holds(|| again += 1) && !trust.may_compare(|| again += 1), "{stage:?}");
            trust.lives(1, Vec::new(), 0);
            assert!(trust.is_over() && trust.may_compare(|| again += 1) && trust.holds(|| again += 1));
            assert_eq!(again, drops, "{stage:?}");
        }
        trust.lives(1, vec![worker(Stage::Booting)], 0);
        trust.came(3, 7);
        trust.missed();
        assert!(!trust.holds(|| again += 1));
        assert_eq!(trust.joined(3, "r1"), Agreement::Unchanged);
        assert!(trust.holds(|| again += 1) && trust.holds(|| again += 1));
        assert_eq!(again, 4, "it had written before it could join");
    }

    #[test]
    fn a_late_reader_shows_nothing() {
        let trust = trusted_without_folder();
        assert!(trust.holds(|| ()));
        trust.beat(clock::now().saturating_sub(LATE));
        assert!(!trust.holds(|| ()));
        assert_eq!(trust.obstacle(), None, "it passes");
        let mut again = 0;
        trust.beat(clock::now() + 1);
        assert!(trust.holds(|| again += 1) && trust.holds(|| again += 1));
        assert_eq!(again, 1, "a process may have waited in vain, and has committed");
    }

    fn trusted_without_folder() -> Trust {
        let trust = Trust::default();
        trust.joined(1, "r1");
        trust.agreed();
        trust.beat(clock::now());
        trust
    }
}
