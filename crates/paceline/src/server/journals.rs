//! The sockets on which applications' processes announce their writes, for the automatic page cache, and the thread that
//! reads them. Each front has its own, so that the processes of another front, during an upgrade, announce to that one. It
//! never looks into what is announced.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime::Handle, task::JoinHandle};

use super::thread_with_loop;
use crate::{
    caching::auto::{self, AutoCache},
    config::SiteConfig,
    support::private_socket::{self, NoSocket, SocketFile},
};
use unix_user::{acting, RunAs};

/// How applications learn where it is; where there is none, nothing is recorded.
const VARIABLE: &str = "PACELINE_AUTO_CACHE";
/// Below a site's root.
const FOLDER: &str = "tmp";
/// Of a socket's name, before and after the front's process id.
const NAME: (&str, &str) = ("paceline-journal-", ".sock");
/// How often it is tried to have a socket whose file was lost.
const TRY_AGAIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Journals {
    /// The thread's event loop. None: nobody has needed it.
    event_loop: Option<Handle>,
    sites: HashMap<String, Journal>,
}

/// One site's.
struct Journal {
    path: PathBuf,
    run_as: RunAs,
    auto: Arc<AutoCache>,
    open: Option<(SocketFile, JoinHandle<()>)>,
    tried: Instant,
    running: JoinHandle<()>,
}

impl Journals {
    /// Opens the site's socket and tells its processes where it is. None: it is not watched.
    pub fn open(&mut self, site: &mut SiteConfig, run_as: Option<&RunAs>) -> Result<Option<Arc<AutoCache>>, NoSocket> {
        let Some(run_as) = run_as.filter(|_| site.auto_cache) else {
            self.close(&site.name);
            return Ok(None);
        };
        let path = site.root.join(FOLDER).join(format!("{}{}{}", NAME.0, std::process::id(), NAME.1));
        let is_known = |journal: &&mut Journal| journal.path == path && journal.run_as == *run_as;
        if let Some(journal) = self.sites.get_mut(&site.name).filter(is_known) {
            site.env.insert(VARIABLE.into(), path.display().to_string());
            return Ok(Some(journal.auto.clone()));
        }
        self.close(&site.name);
        let event_loop = self.event_loop()?;
        acting(run_as, || sweep(&site.root.join(FOLDER)));
        let (auto, answers) = AutoCache::new();
        let running = event_loop.spawn(auto.clone().run(answers));
        let mut journal =
            Journal { path, run_as: run_as.clone(), auto: auto.clone(), open: None, tried: Instant::now(), running };
        journal.try_open(&event_loop)?;
        site.env.insert(VARIABLE.into(), journal.path.display().to_string());
        self.sites.insert(site.name.clone(), journal);
        Ok(Some(auto))
    }

    pub fn close(&mut self, site: &str) {
        self.sites.remove(site);
    }

    /// Sees that the sockets are where they are looked for.
    pub fn look(&mut self) {
        let Some(event_loop) = self.event_loop.clone() else { return };
        for journal in self.sites.values_mut() {
            let lost = journal.open.as_ref().is_none_or(|(file, _)| !file.is_there());
            if lost && journal.tried.elapsed() >= TRY_AGAIN {
                // It is tried again: processes that are connected stay so.
                let _ = journal.try_open(&event_loop);
            }
        }
    }

    fn event_loop(&mut self) -> io::Result<Handle> {
        if let Some(event_loop) = &self.event_loop {
            return Ok(event_loop.clone());
        }
        let event_loop = thread_with_loop("auto-cache")?;
        self.event_loop = Some(event_loop.clone());
        Ok(event_loop)
    }
}

impl Journal {
    fn try_open(&mut self, event_loop: &Handle) -> Result<(), NoSocket> {
        self.tried = Instant::now();
        self.stop();
        let (listener, file) = private_socket::listen(&self.path, &self.run_as, false)?;
        let _within = event_loop.enter();
        let listener = tokio::net::UnixListener::from_std(listener)?;
        self.open = Some((file, event_loop.spawn(auto::serve(listener, self.auto.clone()))));
        Ok(())
    }

    fn stop(&mut self) {
        if let Some((_, serving)) = self.open.take() {
            serving.abort();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
        self.running.abort();
    }
}

/// Removes the sockets of fronts that were killed.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_journal = name.strip_prefix(NAME.0).and_then(|rest| rest.strip_suffix(NAME.1));
        if is_journal.is_some_and(|pid| pid.parse::<u32>().is_ok()) {
            let refused = private_socket::connect(&entry.path());
            if refused.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_of_fronts_that_were_killed_are_removed() {
        let folder = Folder::with(&[("paceline-journal-3.sock", "no socket"), ("other.sock", "")]);
        let path = |pid: u32| folder.0.join(format!("paceline-journal-{pid}.sock"));
        drop(UnixListener::bind(path(1)).unwrap());
        let _listening = UnixListener::bind(path(2)).unwrap();
        sweep(&folder.0);
        assert_eq!([1, 2, 3].map(|pid| path(pid).exists()), [false, true, false]);
        assert!(folder.0.join("other.sock").exists());
    }
}
