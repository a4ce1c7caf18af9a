//! Incidents: what went wrong with an application's processes (a crash, a time-out, a memory limit, a start that
//! failed), each with what is known of it, for a post-mortem; and requests that failed in it. Bounded in memory,
//! incidents also in a folder if there is one. It never decides what an incident is: those who notice one record it.

mod errors;
mod folder;
mod incident;
mod list;
pub mod text;

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use self::{
    errors::Errors,
    folder::{Folder, FolderError},
    list::List,
};
pub use self::{
    errors::Failed,
    incident::{Backtrace, InHand, Incident, Kind, Process, Sample},
};
use crate::support::clock;

/// How long after an incident the log still tells of it; what a process printed last is read a moment after its end.
const SETTLE: Duration = Duration::from_millis(700);
/// Lines of the log that an incident shows.
const LINES: usize = 60;

/// The last lines of the log about a site, at most so many, the oldest first.
type Lines = Box<dyn Fn(&str, usize) -> Vec<String> + Send + Sync>;

/// The incidents of all sites.
pub struct Incidents {
    list: Mutex<List>,
    errors: Mutex<Errors>,
    folder: Option<Folder>,
    lines: Lines,
}

impl Incidents {
    /// With those that the folder holds. `lines` gives the last lines of the log. The text says why the folder is not
    /// used.
    pub fn open(
        dir: Option<PathBuf>,
        lines: impl Fn(&str, usize) -> Vec<String> + Send + Sync + 'static,
    ) -> (Arc<Incidents>, Option<FolderError>) {
        let (folder, kept, trouble) = match dir.map(Folder::open) {
            Some(Ok((folder, kept))) => (Some(folder), kept, None),
            Some(Err(why)) => (None, Vec::new(), Some(why)),
            None => (None, Vec::new(), None),
        };
        let incidents =
            Incidents { list: Mutex::new(List::new(kept)), errors: Mutex::default(), folder, lines: Box::new(lines) };
        (Arc::new(incidents), trouble)
    }

    /// Incidents in memory alone, without lines of a log.
    pub fn forgetful() -> Arc<Incidents> {
        Incidents::open(None, |_, _| Vec::new()).0
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock()
    }

    /// Keeps one, and gives back its number. Requests that its worker is known to have lost are added, the last lines
    /// of the log in a moment. One that happened before just so (a start that fails in the same way) is counted.
    /// Must be called within an event loop.
    pub fn record(self: &Arc<Self>, incident: Incident) -> String {
        let site = incident.site.clone();
        let log = (self.lines)(&site, LINES);
        let id = self.list().add(Incident { log, ..incident });
        let (incidents, about) = (self.clone(), id.clone());
        tokio::spawn(async move {
            tokio::time::sleep(SETTLE).await;
            let lines = (incidents.lines)(&site, LINES);
            incidents.list().change(&about, |incident| incident.log = lines);
            incidents.keep(about);
        });
        id
    }

    /// A worker had this request in its hands when it ended or was given up.
    pub fn lost(self: &Arc<Self>, site: &str, worker: u64, request: InHand) {
        let known = self.list().lost(site, worker, request, clock::unix_seconds());
        known.into_iter().for_each(|id| self.keep(id));
    }

    /// Where a thread of a worker is, if there is an incident of it.
    pub fn backtrace(self: &Arc<Self>, site: &str, worker: u64, thread: &str, lines: &str) {
        let backtrace =
            Backtrace { thread: thread.into(), lines: lines.lines().map(|line| incident::cut(line.into())).collect() };
        self.of_worker(site, worker, |incident| incident.backtrace(backtrace));
    }

    /// What came of a worker that there is an incident of. False: there is none.
    pub fn after(self: &Arc<Self>, site: &str, worker: u64, what: impl Into<String>) -> bool {
        self.of_worker(site, worker, |incident| incident.after.push(what.into()))
    }

    /// The memory of the process that it is about, where nobody has told it yet.
    pub fn measured(self: &Arc<Self>, id: &str, samples: impl IntoIterator<Item = Sample>) {
        let changed = self.list().change(id, |incident| {
            if incident.memory.is_empty() {
                *incident = incident.clone().with_memory(samples);
            }
        });
        if changed {
            self.keep(id.into());
        }
    }

    fn of_worker(self: &Arc<Self>, site: &str, worker: u64, change: impl FnOnce(&mut Incident)) -> bool {
        let found = self.list().change_of(site, worker, clock::unix_seconds(), change);
        found.into_iter().map(|id| self.keep(id)).count() > 0
    }

    fn errors(&self) -> MutexGuard<'_, Errors> {
        self.errors.lock()
    }

    /// A request failed in the application.
    pub fn failed(&self, failed: Failed) {
        self.errors().add(failed, clock::unix_seconds());
    }

    /// Requests that failed in the application, the newest first.
    pub fn all_failed(&self) -> Vec<Failed> {
        self.errors().all()
    }

    pub fn get_failed(&self, id: &str) -> Option<Failed> {
        self.errors().get(id)
    }

    /// The newest first.
    pub fn all(&self) -> Vec<Incident> {
        self.list().all()
    }

    pub fn get(&self, id: &str) -> Option<Incident> {
        self.list().get(id)
    }

    /// How many there were since the server began.
    pub fn count(&self) -> u64 {
        self.list().count()
    }

    /// Writes one to the folder, away from the event loop.
    fn keep(self: &Arc<Self>, id: String) {
        if self.folder.is_none() {
            return;
        }
        let incidents = self.clone();
        let write = move || incidents.write(&id);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }

    /// As it is by now, so that the order of writes does not matter.
    fn write(&self, id: &str) {
        let Some(folder) = &self.folder else { return };
        let mut writing = folder.writing();
        // What can't be written is in memory still, and in the log.
        if let Some(incident) = self.get(id) {
            let _ = writing.write(&incident);
        }
    }

    /// Writes what has not been written yet: the server ends.
    pub fn close(&self) {
        let unsettled: Vec<_> =
            self.list().all().into_iter().filter(|one| one.last > clock::unix_seconds() - 5.0).collect();
        unsettled.iter().for_each(|incident| self.write(&incident.id));
    }
}
