//! The sockets on which applications' processes announce their writes, for the automatic page cache, and of each site the thread
//! that reads them: no site waits for what another's processes say. Each front has its own, so that the processes of another front, during an upgrade, announce to that one. It
//! never looks into what is announced.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cache::record::checksum;
use tokio::task::JoinHandle;

use super::site_thread::SiteThread;
use crate::{
    caching::auto::{self, is_journal, AutoCache, Memory, Mode, Notice, Policy, Setup, Tell, NAME},
    config::SiteConfig,
    observe::{
        incidents::{Incident, Incidents, Kind},
        log::{self, Log},
    },
    support::{
        clock,
        private_socket::{self, NoSocket, SocketFile},
        state_folder,
    },
};
use unix_user::{acting, RunAs};

/// How applications learn where it is; where there is none, nothing is recorded.
const VARIABLE: &str = "PACELINE_AUTO_CACHE";
/// That not all requests need to be recorded.
const SAMPLES: &str = "PACELINE_AUTO_CACHE_SAMPLES";
/// Below a site's root.
const FOLDER: &str = "tmp";
/// How often it is tried to have a socket whose file was lost.
const TRY_AGAIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Journals {
    sites: HashMap<String, Journal>,
}

/// One site's.
struct Journal {
    path: PathBuf,
    run_as: RunAs,
    policy: Policy,
    auto: Arc<AutoCache>,
    open: Option<(SocketFile, JoinHandle<()>)>,
    tried: Instant,
    running: JoinHandle<()>,
    thread: SiteThread,
}

impl Journals {
    /// Opens the site's socket and tells its processes where it is. None: it is not watched.
    pub fn open(
        &mut self,
        site: &mut SiteConfig,
        run_as: Option<&RunAs>,
        log: &Log,
        incidents: &Arc<Incidents>,
    ) -> Result<Option<Arc<AutoCache>>, NoSocket> {
        let Some((run_as, policy)) = run_as.zip(site.parts.auto_cache) else {
            self.close(&site.name);
            return Ok(None);
        };
        if policy.mode == Mode::Watch {
            site.env.insert(SAMPLES.into(), "1".into());
        }
        let path = site.root.join(FOLDER).join(format!("{}{}{}", NAME.0, std::process::id(), NAME.1));
        let is_known =
            |journal: &&mut Journal| journal.path == path && journal.run_as == *run_as && journal.policy == policy;
        if let Some(journal) = self.sites.get_mut(&site.name).filter(is_known) {
            site.env.insert(VARIABLE.into(), path.display().to_string());
            return Ok(Some(journal.auto.clone()));
        }
        // Its processes may go on for a while, and announce their writes to it.
        let before = self.sites.remove(&site.name).map(|journal| Arc::downgrade(&journal.auto));
        let thread = SiteThread::begin("auto-cache")?;
        acting(run_as, || sweep(&site.root.join(FOLDER)));
        let tell = tell(&site.name, log.of(&site.name), incidents.clone());
        let (auto, answers) = AutoCache::new(Setup {
            policy,
            socket: path.clone(),
            run_as: run_as.clone(),
            off_routes: file(site, ""),
            proven: memory(site, run_as),
            before,
            tell,
        });
        let running = thread.event_loop().spawn(auto.clone().run(answers));
        let mut journal = Journal {
            path,
            run_as: run_as.clone(),
            policy,
            auto: auto.clone(),
            open: None,
            tried: Instant::now(),
            running,
            thread,
        };
        journal.try_open()?;
        site.env.insert(VARIABLE.into(), journal.path.display().to_string());
        self.sites.insert(site.name.clone(), journal);
        Ok(Some(auto))
    }

    pub fn close(&mut self, site: &str) {
        self.sites.remove(site);
    }

    /// Sees that the sockets are where they are looked for.
    pub fn look(&mut self) {
        for journal in self.sites.values_mut() {
            let lost = journal.open.as_ref().is_none_or(|(file, _)| !file.is_there());
            if lost {
                // It has to be seen before the socket is there once more: writes in between were not announced.
                acting(&journal.run_as, || journal.auto.is_trusted());
            }
            if lost && journal.tried.elapsed() >= TRY_AGAIN {
                // It is tried again: processes that are connected stay so.
                let _ = journal.try_open();
            }
            if journal.auto.obstacle().is_some() {
                // A server that was killed is no other server.
                let folder = journal.path.parent().unwrap_or(Path::new("."));
                acting(&journal.run_as, || sweep(folder));
            }
            acting(&journal.run_as, || journal.auto.is_trusted());
            journal.auto.name_absentees();
            if journal.auto.begin_recall() {
                let auto = journal.auto.clone();
                journal.thread.event_loop().spawn_blocking(move || auto.recall());
            }
        }
    }
}

impl Journal {
    fn try_open(&mut self) -> Result<(), NoSocket> {
        self.tried = Instant::now();
        self.stop();
        let (listener, file) = private_socket::listen(&self.path, &self.run_as, false)?;
        let _within = self.thread.enter();
        let listener = tokio::net::UnixListener::from_std(listener)?;
        self.open = Some((file, self.thread.event_loop().spawn(auto::serve(listener, self.auto.clone()))));
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

/// Where it is remembered which routes of a site are turned off; `more`: something else of it. None: the server's account has no
/// state folder.
fn file(site: &SiteConfig, more: &str) -> Option<PathBuf> {
    let root = checksum(&[site.root.as_os_str().as_encoded_bytes()]);
    Some(
        state_folder::path()?
            .join(format!("auto-cache-{}-{root:016x}{more}.json", state_folder::file_name(&site.name))),
    )
}

/// Where it is remembered which routes of a site were proven.
fn memory(site: &SiteConfig, run_as: &RunAs) -> Option<Memory> {
    Some(Memory { file: file(site, "-proven")?, run_as: run_as.clone() })
}

/// How people learn of it: from the log, and by an incident.
fn tell(site: &str, log: Log, incidents: Arc<Incidents>) -> Tell {
    let site = site.to_owned();
    Box::new(move |told| {
        let text = match told {
            Notice::Differed(alarm) => {
                let difference = &alarm.difference;
                let was = if alarm.was_serving { "was served" } else { "would have been served" };
                let what = format!(
                    "a page of {} that {was} differed from the application's, and the route was turned off. kept: {}; the application: {}",
                    alarm.route, difference.kept, difference.application
                );
                let mut incident = Incident::new(Kind::PageDiffered, &site, what, clock::unix_seconds());
                let on = format!("find what the page depends on by `paceline cache advise`; then `paceline cache serve \"{}\"`", alarm.route);
                incident.after.push(on);
                let id = incidents.record(incident);
                format!("auto_cache: {} is off: a page differed from the application's (incident {id})", alarm.route)
            }
            Notice::Misunderstood => {
                "auto_cache: a process announced a write that can't be understood: no pages are shown until the server is restarted".into()
            }
            Notice::Missing(process) => format!(
                "auto_cache: {process} does not announce what it writes, so no pages are shown until it has joined or ended. \
                 It says why in its output (its open files may be used up)"
            ),
            Notice::Unwatched(path, why) => format!(
                "auto_cache: what other programs write to {} is not seen, because {why}: a page may show for up to max_ttl what was there before. \
                 Programs that announce their writes are not affected",
                path.display()
            ),
            Notice::Forgetful(why) => format!("auto_cache: could not save which routes are turned off or proven: {why}"),
        };
        log.event(log::Name::AutoCache, text);
    })
}

/// Removes the sockets of fronts that were killed.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_journal(name) {
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
    use std::{
        io::{Read, Write},
        os::unix::net::{UnixListener, UnixStream},
    };

    #[test]
    fn a_socket_that_was_lost_is_noticed_before_it_is_there_again() {
        let folder = Folder::with(&[("tmp/keep", "")]);
        let path = folder.0.join("tmp/paceline-journal-1.sock");
        let mut journals = Journals::default();
        let thread = SiteThread::begin("auto-cache").unwrap();
        let setup = Setup {
            policy: Policy::default(),
            socket: path.clone(),
            run_as: RunAs::Ourselves,
            off_routes: None,
            proven: None,
            before: None,
            tell: Box::new(|_| ()),
        };
        let (auto, answers) = AutoCache::new(setup);
        let mut journal = Journal {
            path: path.clone(),
            run_as: RunAs::Ourselves,
            policy: Policy::default(),
            auto: auto.clone(),
            open: None,
            tried: Instant::now(),
            running: thread.event_loop().spawn(auto.clone().run(answers)),
            thread,
        };
        journal.try_open().unwrap();
        let mut worker = UnixStream::connect(&path).unwrap();
        worker.write_all(b"\0\0\0\x03\x65r1\0").unwrap();
        worker.read_exact(&mut [0; 8]).unwrap();
        // Until the first beat.
        while !auto.is_trusted() {
            std::thread::yield_now();
        }
        let before = auto.moment();
        fs::remove_file(&path).unwrap();
        journal.tried = Instant::now().checked_sub(TRY_AGAIN).unwrap();
        journals.sites.insert("shop".into(), journal);
        journals.look();
        assert!(path.exists() && auto.moment() > before, "nobody knows what was written in between");
    }

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
