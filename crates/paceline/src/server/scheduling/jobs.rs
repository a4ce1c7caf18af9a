//! What is to be done for a time at which pages change, and the queue in which it waits for the thread that does it.
//! It does none of it.

use std::{
    collections::HashSet,
    sync::{
        mpsc::{channel, Receiver, Sender},
        Arc,
    },
};

use cache::Millis;
use parking_lot::Mutex;

use super::keeping::KeepingFile;
use crate::{
    caching::SiteCache,
    observe::{local_time::local_time, log::Log},
    request::route::Site,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    Prepare,
    /// Again: something may have changed since.
    Recheck,
    /// Pages that were asked for since then for the first time.
    Add,
    /// A sample after the change.
    Compare,
    /// Keep what is prepared beyond the process.
    Save,
}

pub struct Job {
    pub site: Arc<Site>,
    pub cache: Arc<SiteCache>,
    pub file: Option<Arc<KeepingFile>>,
    pub log: Log,
    pub at: Millis,
    pub work: Work,
}

/// A job's site, time and work.
type JobKey = (usize, Millis, Work);

impl Job {
    fn key(&self) -> JobKey {
        (Arc::as_ptr(&self.cache) as usize, self.at, self.work)
    }
}

/// Jobs that wait for the thread. The same work waits once, however often something happens that needs it.
pub struct Jobs {
    sender: Sender<Job>,
    waiting: Arc<Mutex<HashSet<JobKey>>>,
}

pub struct JobQueue {
    receiver: Receiver<Job>,
    waiting: Arc<Mutex<HashSet<JobKey>>>,
}

pub fn queue() -> (Jobs, JobQueue) {
    let ((sender, receiver), waiting) = (channel(), Arc::<Mutex<HashSet<JobKey>>>::default());
    (Jobs { sender, waiting: waiting.clone() }, JobQueue { receiver, waiting })
}

impl Jobs {
    pub fn send(&self, job: Job) {
        if self.waiting.lock().insert(job.key()) {
            // Nobody waits for jobs once the server ends.
            let _ = self.sender.send(job);
        }
    }
}

impl JobQueue {
    /// None: there will be no more.
    pub fn next(&self) -> Option<Job> {
        let job = self.receiver.recv().ok()?;
        // What happens while it is done is not part of it.
        self.waiting.lock().remove(&job.key());
        Some(job)
    }
}

/// A time, as the log shows it.
pub fn shown(at: Millis) -> String {
    local_time(at as f64 / 1000.0, "%Y-%m-%d %H:%M:%S %Z")
}
