//! Whether pages may be shown at all: only while every write is told here before it is committed. That is so while the socket of
//! this server is the only one of its application, the thread that reads it is not late, and all workers have loaded the same code.
//! It reads nothing of what is told.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
        Weak,
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

use super::AutoCache;
use crate::support::clock::{self, Micros};

/// How often the thread that reads what is told shows that it does.
pub const BEAT: Duration = Duration::from_millis(50);
/// Microseconds since then, at most. A process waits a second for its answer before it commits without one.
const LATE: Micros = 500_000;
/// What has changed within this time (ns) may have changed once more without another time.
const SAME_TICK: u128 = 50_000_000;

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
    /// Which load of the code each worker has.
    releases: Mutex<HashMap<u64, String>>,
    agree: AtomicBool,
    seen: Mutex<Findings>,
}

/// What was found last.
#[derive(Default)]
struct Findings {
    /// When the folder was changed (ns), and whether ours is the only server's socket in it.
    folder: Option<(i128, bool)>,
    /// Nothing was missing.
    whole: bool,
}

/// What came of a worker that says which code it has loaded.
#[derive(Debug, PartialEq, Eq)]
pub enum Agreement {
    /// All have this one, and had not before.
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
        let mut seen = self.seen.lock();
        if moment.saturating_sub(self.read_until.load(Relaxed)) > LATE {
            seen.whole = false;
        }
        self.read_until.store(moment, Relaxed);
    }

    /// True: it was not, before.
    pub fn break_off(&self) -> bool {
        !self.is_broken.swap(true, SeqCst)
    }

    /// A worker has loaded this code.
    pub fn joined(&self, process: u64, release: &str) -> Agreement {
        let mut releases = self.releases.lock();
        releases.insert(process, release.to_owned());
        self.agreement(&releases)
    }

    /// A process is gone.
    pub fn left(&self, process: u64) -> Agreement {
        let mut releases = self.releases.lock();
        match releases.remove(&process) {
            Some(_) => self.agreement(&releases),
            None => Agreement::Unchanged,
        }
    }

    fn agreement(&self, releases: &HashMap<u64, String>) -> Agreement {
        let all: BTreeSet<&String> = releases.values().collect();
        let one = all.first().filter(|_| all.len() == 1);
        if one.is_none() {
            self.agree.store(false, SeqCst);
        }
        match one {
            Some(release) if !self.agree.load(SeqCst) => Agreement::Begins((*release).clone()),
            _ => Agreement::Unchanged,
        }
    }

    /// Pages of this load of the code may be shown.
    pub fn agreed(&self) {
        let releases = self.releases.lock();
        let all: BTreeSet<&String> = releases.values().collect();
        self.agree.store(all.len() == 1, SeqCst);
    }

    /// Whether pages may be shown now. `again`: is called first where they could not be for a while, because nobody knows what was
    /// written in between.
    pub fn holds(&self, again: impl FnOnce()) -> bool {
        if self.is_broken.load(SeqCst) || !self.agree.load(SeqCst) {
            return false;
        }
        let mut seen = self.seen.lock();
        let whole = self.is_alone(&mut seen) && self.is_first();
        if whole && !seen.whole {
            again();
        }
        seen.whole = whole;
        whole && clock::now().saturating_sub(self.read_until.load(Relaxed)) < LATE
    }

    /// Why pages are not shown, for people.
    pub fn obstacle(&self) -> Option<&'static str> {
        if self.is_broken.load(SeqCst) {
            return Some("a process announced something that can't be understood; restart the server");
        }
        if self.releases.lock().is_empty() {
            return Some("no worker is connected");
        }
        if !self.agree.load(SeqCst) {
            return Some("workers of two loads of the code are running");
        }
        let mut seen = self.seen.lock();
        if !self.is_alone(&mut seen) {
            return Some("another server runs in this directory, or the socket below tmp is missing");
        }
        if !self.is_first() {
            return Some("workers of the directory before are still running");
        }
        None
    }

    fn is_first(&self) -> bool {
        let mut before = self.before.lock();
        let runs = before.as_ref().and_then(Weak::upgrade).is_some_and(|before| before.processes() > 0);
        if !runs {
            *before = None;
        }
        !runs
    }

    fn is_alone(&self, seen: &mut Findings) -> bool {
        let Some(socket) = &self.socket else { return true };
        let Some(folder) = socket.parent() else { return false };
        let Ok(changed) = fs::metadata(folder).map(|found| nanos(found.mtime(), found.mtime_nsec())) else {
            seen.folder = None;
            return false;
        };
        if let Some((_, alone)) = seen.folder.filter(|(at, _)| *at == changed) {
            return alone;
        }
        let alone = is_only(folder, socket);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let is_settled = u128::try_from(changed).is_ok_and(|changed| changed + SAME_TICK < now);
        seen.folder = is_settled.then_some((changed, alone));
        alone
    }
}

fn nanos(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// Ours is there, and no other server's.
fn is_only(folder: &Path, own: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let names = entries.flatten().map(|entry| entry.file_name());
    let sockets: Vec<_> = names.filter(|name| name.to_str().is_some_and(is_journal)).collect();
    sockets.len() == 1 && own.file_name() == Some(&sockets[0])
}

/// The name of a server's socket.
pub fn is_journal(name: &str) -> bool {
    let pid = name.strip_prefix(NAME.0).and_then(|rest| rest.strip_suffix(NAME.1));
    pid.is_some_and(|pid| pid.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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
