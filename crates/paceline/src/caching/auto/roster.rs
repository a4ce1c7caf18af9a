//! The processes of the application: those that live, as its actor tells, and those that have joined, whose writes are announced.
//! It says whether one is missing, and whether a missing one may have written. Of a process it reads only whether it is ending.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
    sync::Arc,
};

use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    io::Errno,
    process::{pidfd_open, Pid, PidfdFlags},
};

use super::{AutoCache, Load};

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It loads the application, and nothing sees what that writes.
    Loading,
    /// It announces what it writes, and joins before it is ready.
    Booting,
    /// It has to have joined.
    Ready,
}

/// A process that may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// A worker's number. None: the preloader.
    pub worker: Option<usize>,
    pub stage: Stage,
    pub load: Arc<Load>,
}

/// What lives of one application.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Living {
    pub processes: Vec<Process>,
    /// Workers that were asked for: they may be there before they are told of.
    pub forking: usize,
}

/// By which an application's actor tells what lives. What it told ends with it.
pub struct Reporter {
    auto: Arc<AutoCache>,
    number: u64,
    told: Option<Living>,
}

impl Reporter {
    pub fn new(auto: Arc<AutoCache>) -> Reporter {
        let number = auto.next_process();
        Reporter { auto, number, told: None }
    }

    pub fn tell(&mut self, living: Living) {
        if self.told.as_ref() != Some(&living) {
            self.auto.trust.lives(self.number, living.processes.clone(), living.forking);
            self.auto.catch_up();
            self.told = Some(living);
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.auto.trust.lives(self.number, Vec::new(), 0);
        self.auto.catch_up();
    }
}

#[derive(Debug, Default)]
pub struct Roster {
    /// By the number of the reporter.
    living: BTreeMap<u64, Living>,
    /// Connections, and the process of each.
    pids: HashMap<u64, i32>,
    /// Which load of the code each has that has joined; a preloader serves with none, and says an empty one.
    releases: HashMap<u64, String>,
    /// They were ending when their connection was closed, and their actor has not told it yet.
    ended: BTreeSet<i32>,
    /// One that was missing may have written what nobody was told.
    may_have_written: bool,
    /// Were missing when it was looked last, and have been told.
    absent: BTreeSet<i32>,
    named: BTreeSet<i32>,
}

impl Roster {
    pub fn came(&mut self, connection: u64, pid: i32) {
        self.pids.insert(connection, pid);
    }

    pub fn joined(&mut self, connection: u64, release: &str) {
        self.releases.insert(connection, release.to_owned());
    }

    /// The connection is closed. True: the process had joined.
    pub fn left(&mut self, connection: u64) -> bool {
        let had_joined = self.releases.remove(&connection).is_some();
        let Some(pid) = self.pids.remove(&connection) else { return had_joined };
        if !self.processes().any(|process| process.pid == pid) {
            return had_joined;
        }
        if is_ending(pid, Path::new(PROC)) {
            self.ended.insert(pid);
        } else if had_joined {
            self.may_have_written = true;
        }
        had_joined
    }

    pub fn lives(&mut self, reporter: u64, living: Living) {
        let booting: Vec<i32> = self.missing().filter(|one| one.stage == Stage::Booting).map(|one| one.pid).collect();
        if living == Living::default() {
            drop(self.living.remove(&reporter))
        } else {
            drop(self.living.insert(reporter, living))
        }
        let pids: BTreeSet<i32> = self.processes().map(|process| process.pid).collect();
        // What it wrote without a connection it would have told when it joined.
        self.may_have_written |= booting.iter().any(|pid| !pids.contains(pid));
        self.ended.retain(|pid| pids.contains(pid));
    }

    /// It has written what it could not announce.
    pub fn has_written(&mut self) {
        self.may_have_written = true;
    }

    /// Whether anybody is missing; and once nobody is any more, whether somebody who was may have written.
    pub fn weigh(&mut self) -> (bool, bool) {
        let is_forking = self.living.values().any(|living| living.forking > 0);
        let (mut lacks, mut writes) = (is_forking, false);
        for process in self.missing() {
            lacks = true;
            writes |= process.stage != Stage::Booting;
        }
        self.may_have_written |= writes;
        (lacks, !lacks && std::mem::take(&mut self.may_have_written))
    }

    pub fn is_empty(&self) -> bool {
        self.living.is_empty()
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.living.values().flat_map(|living| &living.processes)
    }

    fn missing(&self) -> impl Iterator<Item = &Process> {
        let has_joined = |pid: i32| self.releases.keys().any(|connection| self.pids.get(connection) == Some(&pid));
        self.processes().filter(move |process| !self.ended.contains(&process.pid) && !has_joined(process.pid))
    }

    /// Which loads of the code serve.
    pub fn releases(&self) -> BTreeSet<&String> {
        self.releases.values().filter(|release| !release.is_empty()).collect()
    }

    pub fn load_of(&self, release: &str) -> Option<Arc<Load>> {
        let serves = |connection: &u64| self.releases.get(connection).is_some_and(|own| own == release);
        let mut pids = self.pids.iter().filter(|(connection, _)| serves(connection)).map(|(_, pid)| *pid);
        pids.find_map(|pid| Some(self.processes().find(|process| process.pid == pid)?.load.clone()))
    }

    /// Why nobody knows all writes, for people.
    pub fn obstacle(&self) -> Option<String> {
        let missing = |stage: Stage| self.missing().find(|process| process.stage == stage);
        if let Some(process) = missing(Stage::Ready) {
            return Some(format!("{} does not announce what it writes: it has not joined", name(process)));
        }
        if missing(Stage::Loading).is_some() {
            return Some("the application is being loaded".into());
        }
        let is_forking = self.living.values().any(|living| living.forking > 0);
        (is_forking || missing(Stage::Booting).is_some()).then(|| "a worker is being started".into())
    }

    /// Processes that have been missing since the last look, by name; each once.
    pub fn absentees(&mut self) -> Vec<String> {
        let missing = self.missing().filter(|process| process.stage == Stage::Ready);
        let missing: BTreeMap<i32, String> = missing.map(|process| (process.pid, name(process))).collect();
        self.named.retain(|pid| missing.contains_key(pid));
        let still = missing.iter().filter(|(pid, _)| self.absent.contains(pid) && !self.named.contains(pid));
        let found: Vec<(i32, String)> = still.map(|(pid, name)| (*pid, name.clone())).collect();
        self.absent = missing.into_keys().collect();
        self.named.extend(found.iter().map(|(pid, _)| *pid));
        found.into_iter().map(|(_, name)| name).collect()
    }
}

fn name(process: &Process) -> String {
    match process.worker {
        Some(number) => format!("worker {number} (process {})", process.pid),
        None => format!("the preloader (process {})", process.pid),
    }
}

const PROC: &str = "/proc";
/// What a process's line in /proc says while it ends (PF_EXITING): it runs nothing of its own any more.
const EXITING: u64 = 4;

/// True: it writes nothing any more. One of which that can't be known may write.
fn is_ending(pid: i32, proc: &Path) -> bool {
    // What is not there may be hidden (`hidepid`).
    let Ok(stat) = fs::read_to_string(proc.join(format!("{pid}/stat"))) else { return has_ended(pid) };
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let state = fields.next();
    let flags: u64 = fields.nth(5).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    matches!(state, Some("Z" | "X")) || flags & EXITING != 0
}

/// As the kernel says without /proc.
fn has_ended(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&Timespec::default())) == Ok(1),
        Err(why) => why == Errno::SRCH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(pid: i32, stage: Stage) -> Process {
        Process { pid, worker: Some(1), stage, load: Load::for_tests() }
    }

    fn living(processes: &[Process]) -> Living {
        Living { processes: processes.to_vec(), forking: 0 }
    }

    #[test]
    fn one_that_is_ready_and_has_not_joined_may_write() {
        let mut roster = Roster::default();
        roster.lives(1, living(&[worker(7, Stage::Ready)]));
        assert_eq!(roster.weigh(), (true, false));
        assert_eq!(
            roster.obstacle().as_deref(),
            Some("worker 1 (process 7) does not announce what it writes: it has not joined")
        );
        roster.came(3, 7);
        assert_eq!(roster.weigh(), (true, false), "it is connected, and has said nothing");
        roster.joined(3, "r1");
        assert_eq!((roster.weigh(), roster.weigh()), ((false, true), (false, false)));
        assert_eq!(roster.obstacle(), None);
    }

    #[test]
    fn one_that_boots_is_waited_for() {
        let mut roster = Roster::default();
        roster.lives(1, Living { processes: Vec::new(), forking: 1 });
        assert_eq!((roster.weigh(), roster.obstacle().as_deref()), ((true, false), Some("a worker is being started")));
        roster.lives(1, living(&[worker(7, Stage::Booting)]));
        assert_eq!(roster.weigh(), (true, false));
        roster.came(3, 7);
        roster.joined(3, "r1");
        assert_eq!(roster.weigh(), (false, false), "all that it wrote was announced");
        roster.lives(1, living(&[worker(7, Stage::Ready), worker(8, Stage::Booting)]));
        assert_eq!(roster.weigh(), (true, false));
        roster.lives(1, living(&[worker(7, Stage::Ready)]));
        assert_eq!(
            roster.weigh(),
            (false, true),
            "it ended before it joined, and may have written without a connection"
        );
        // Another had to write something that it could not announce.
        roster.has_written();
        assert_eq!(roster.weigh(), (false, true));
    }

    #[test]
    fn one_that_loads_may_write_and_then_it_is_gone() {
        let mut roster = Roster::default();
        roster.lives(1, living(&[Process { worker: None, ..worker(7, Stage::Loading) }]));
        assert_eq!(
            (roster.weigh(), roster.obstacle().as_deref()),
            ((true, false), Some("the application is being loaded"))
        );
        roster.lives(1, Living::default());
        assert!(roster.is_empty());
        assert_eq!(roster.weigh(), (false, true));
    }

    #[test]
    fn a_connection_that_ends_before_its_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = i32::try_from(child.id()).unwrap();
        let proc = Path::new(PROC);
        while !is_ending(ended, proc) {
            std::thread::yield_now();
        }
        assert!(!is_ending(own, proc));
        let mut roster = Roster::default();
        roster.lives(1, living(&[worker(own, Stage::Ready), worker(ended, Stage::Ready)]));
        for (connection, pid) in [(1, own), (2, ended), (3, ended + 1_000_000)] {
            roster.came(connection, pid);
            roster.joined(connection, "r1");
        }
        assert_eq!(roster.weigh(), (false, false));
        assert!(roster.left(2) && roster.left(3) && !roster.left(9));
        assert_eq!(roster.weigh(), (false, false), "it has ended, and a console is not known");
        roster.lives(1, living(&[worker(own, Stage::Ready)]));
        assert!(roster.ended.is_empty());
        assert!(roster.left(1));
        assert_eq!(roster.weigh(), (true, false));
        roster.came(4, own);
        roster.joined(4, "r1");
        assert_eq!(roster.weigh(), (false, true));
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_proc_hides_has_not_ended_for_that() {
        let nothing = Path::new("/nonexistent");
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!is_ending(own, nothing) && !is_ending(pid, nothing));
        drop(child.stdin.take());
        while !is_ending(pid, nothing) {
            std::thread::yield_now();
        }
        assert!(
            is_ending(i32::MAX, nothing) && !is_ending(0, nothing),
            "no such process; the one of a peer that can't be told"
        );
        child.wait().unwrap();
    }

    #[test]
    fn who_is_missing_is_told_once() {
        let mut roster = Roster::default();
        roster.lives(1, living(&[worker(7, Stage::Ready), worker(8, Stage::Booting)]));
        assert_eq!(roster.absentees(), Vec::<String>::new(), "it may be about to join");
        assert_eq!(roster.absentees(), ["worker 1 (process 7)"]);
        assert_eq!(roster.absentees(), Vec::<String>::new());
    }

    #[test]
    fn loads_of_the_code_that_serve() {
        let mut roster = Roster::default();
        for (connection, release) in [(1, "r1"), (2, ""), (3, "r1"), (4, "r2")] {
            roster.joined(connection, release);
        }
        assert_eq!(roster.releases().into_iter().collect::<Vec<_>>(), ["r1", "r2"]);
        assert_eq!(roster.load_of("r1"), None, "nobody has told of that process");
        roster.came(3, 7);
        roster.lives(1, living(&[worker(7, Stage::Ready)]));
        assert_eq!((roster.load_of("r1"), roster.load_of("r2")), (Some(Load::for_tests()), None));
    }
}
