//! A few threads for calls that block, and a bounded queue in front of them. It knows nothing of what they do.

use std::{
    io,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{
        mpsc::{sync_channel, Receiver, SyncSender},
        Arc,
    },
    thread,
};

use parking_lot::Mutex;

type Job = Box<dyn FnOnce() + Send>;

/// Its threads end when it is dropped and they have done what waits.
pub struct Pool {
    jobs: SyncSender<Job>,
}

/// More wait than may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Pool {
    /// # Errors
    /// The system gives no thread.
    pub fn start(threads: usize, queue: usize) -> io::Result<Pool> {
        let (jobs, waiting) = sync_channel::<Job>(queue);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 1..=threads.max(1) {
            let waiting = waiting.clone();
            // The kernel keeps 15 bytes of a thread's name.
            thread::Builder::new().name(format!("negotiate {number}")).spawn(move || work(&waiting))?;
        }
        Ok(Pool { jobs })
    }

    /// # Errors
    /// The queue is full; the job was not and will not be run.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Full> {
        self.jobs.try_send(Box::new(job)).map_err(|_| Full)
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        let job = waiting.lock().recv();
        let Ok(job) = job else { return };
        // A panic has been reported by the hook; the next job is none the worse for it.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_a_panic_costs_no_thread() {
        let pool = Pool::start(1, 1).unwrap();
        let (began, begins) = channel();
        let (go, gate) = channel::<()>();
        pool.run(move || {
            began.send(()).unwrap();
            gate.recv().unwrap();
            std::panic::resume_unwind(Box::new("a job that fails"));
        })
        .unwrap();
        begins.recv().unwrap();
        let (done, result) = channel();
        pool.run(move || done.send(7).unwrap()).unwrap();
        assert_eq!(pool.run(|| ()), Err(Full));
        go.send(()).unwrap();
        assert_eq!(result.recv(), Ok(7));
    }
}
