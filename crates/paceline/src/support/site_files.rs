//! Files of a site, opened with its account's rights: on the event loop as far as the kernel has all of it in memory and no
//! link is on the way, which takes about a microsecond; everything else on the blocking pool, of which each site has only a few
//! threads. So no account holds up the sites of others by where its names lead. It never looks at what is in a file.

use std::{io, sync::Arc};

use tokio::sync::Semaphore;
use unix_user::{acting, open_at, open_at_once, Reader, RunAs};

/// Threads of the blocking pool that work for one site at once.
const THREADS: usize = 4;

/// With whose rights a site's files are opened, and how many at once.
#[derive(Debug, Clone)]
pub struct SiteFiles {
    run_as: RunAs,
    threads: Arc<Semaphore>,
}

impl SiteFiles {
    pub fn new(run_as: RunAs) -> SiteFiles {
        SiteFiles { run_as, threads: Arc::new(Semaphore::new(THREADS)) }
    }

    pub fn run_as(&self) -> &RunAs {
        &self.run_as
    }

    /// Calls `act` at once, with a reader that waits for nothing. None: the reader had to wait for something, and `wait` has to
    /// be asked.
    pub fn at_once<T>(&self, act: impl FnOnce(Reader) -> io::Result<T>) -> Option<io::Result<T>> {
        let done = acting(&self.run_as, || act(open_at_once(&self.run_as)));
        (!matches!(&done, Err(error) if error.kind() == io::ErrorKind::WouldBlock)).then_some(done)
    }

    /// Calls `act` on the blocking pool, once the site has a thread there.
    pub async fn wait<T: Send + 'static>(
        &self,
        act: impl FnOnce(Reader) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let run_as = self.run_as.clone();
        self.beside(move || acting(&run_as, || act(open_at(&run_as)))).await?
    }

    /// As `wait`, for what becomes the account by itself.
    pub async fn beside<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let thread = self.threads.clone().acquire_owned().await.map_err(io::Error::other)?;
        let working = tokio::task::spawn_blocking(move || {
            let _thread = thread;
            act()
        });
        working.await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{path::Path, sync::mpsc};

    #[tokio::test]
    async fn what_has_to_wait_is_not_done_at_once() {
        let files = SiteFiles::new(RunAs::own());
        assert!(files.at_once(|_| Err::<(), _>(io::ErrorKind::WouldBlock.into())).is_none());
        assert_eq!(files.at_once(|_| Ok(1)).unwrap().unwrap(), 1);
        // A link: /proc/self.
        let read = |reader: Reader| reader(Path::new("/proc/self/status")).map(drop);
        assert!(files.at_once(read).is_none());
        files.wait(read).await.unwrap();
    }

    #[tokio::test]
    async fn a_site_has_a_few_threads_and_no_more() {
        let (site, other) = (SiteFiles::new(RunAs::own()), SiteFiles::new(RunAs::own()));
        let (ends, stays): (Vec<_>, Vec<_>) = (0..=THREADS).map(|_| mpsc::channel::<()>()).unzip();
        let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
        for stay in stays {
            let (site, began) = (site.clone(), began.clone());
            tokio::spawn(async move {
                let held = move |_: Reader| {
                    began.send(()).map_err(io::Error::other)?;
                    stay.recv().map_err(io::Error::other)
                };
                site.wait(held).await
            });
        }
        for _ in 0..THREADS {
            begun.recv().await.unwrap();
        }
        other.wait(|_| Ok(())).await.unwrap();
        assert!(begun.try_recv().is_err(), "the site has another thread");
        ends.iter().for_each(|end| end.send(()).unwrap());
        begun.recv().await.unwrap();
    }
}
