//! `paceline maintenance on`: a site that is closed for a while, with a page that says so: by this server alone, or on all
//! servers of its cluster. It is remembered in the server's state folder, so a restart does not open the site. It makes no
//! response.

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
};

use cache::record::checksum;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::{
    config::{SiteConfig, TrustedProxies},
    support::{private_file, state_folder},
};

/// Bytes of a file, at most.
const MAX_FILE: u64 = 1 << 20;
/// Asked for by load balancers and monitoring, so it is answered by the application all the same.
const USUAL_CHECK: &str = "/up";

/// What visitors are told, and who is let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Seconds since the Unix epoch.
    pub since: u64,
    /// Seconds after which clients may try again.
    pub retry_after: u64,
    /// A page of HTML. None: the server's own.
    pub page: Option<String>,
    /// Addresses and networks, as in `[[rule]]`.
    pub allow: Vec<String>,
}

/// Whether a site is closed.
#[derive(Debug, Default)]
pub struct Maintenance {
    is_on: AtomicBool,
    closed: RwLock<ClosedBy>,
    /// Where it is remembered. None: there is no state folder.
    file: Option<PathBuf>,
    /// Paths that are checked from outside.
    checks: Vec<String>,
}

/// By what a site is closed. One does not open what the other has closed.
#[derive(Debug, Clone, Default)]
pub struct ClosedBy {
    /// This server alone.
    pub here: Option<Arc<Closed>>,
    /// All servers of the cluster.
    pub cluster: Option<Arc<Closed>>,
}

/// A site that is closed.
#[derive(Debug)]
pub struct Closed {
    pub notice: Notice,
    allow: TrustedProxies,
}

impl Maintenance {
    /// As it was when the server ended.
    pub fn of(site: &SiteConfig) -> Maintenance {
        let root = checksum(&[site.root.as_os_str().as_encoded_bytes()]);
        let name = format!("maintenance-{}-{root:016x}.json", state_folder::file_name(&site.name));
        // The usual `/` among them is what visitors see.
        let checks = site.ready_paths.iter().filter(|path| *path != "/").cloned().chain([USUAL_CHECK.into()]).collect();
        Maintenance::in_file(state_folder::path().map(|folder| folder.join(name)), checks)
    }

    /// As it is remembered now: another process may have turned it since this one began.
    pub fn read_again(&self) {
        if let Some(file) = &self.file {
            self.show(remembered(file));
        }
    }

    /// As it is at the same site before its settings changed, whether that could be remembered or not.
    pub fn continue_from(&self, before: &Maintenance) {
        let closed = before.closed.read().clone();
        self.change(|own| *own = closed);
    }

    fn in_file(file: Option<PathBuf>, checks: Vec<String>) -> Maintenance {
        let maintenance = Maintenance { file, checks, ..Maintenance::default() };
        maintenance.read_again();
        maintenance
    }

    fn show(&self, notice: Option<Notice>) {
        self.change(|closed| closed.here = notice.map(Closed::new));
    }

    fn change(&self, change: impl FnOnce(&mut ClosedBy)) {
        let mut closed = self.closed.write();
        change(&mut closed);
        self.is_on.store(closed.here.is_some() || closed.cluster.is_some(), Relaxed);
    }

    /// As all servers of the cluster have it. Whether that is another state than before.
    pub fn set_for_cluster(&self, notice: Option<Notice>) -> bool {
        let mut has_turned = false;
        self.change(|closed| {
            has_turned = closed.cluster.is_some() != notice.is_some();
            closed.cluster = notice.map(Closed::new);
        });
        has_turned
    }

    /// Closes the site, or opens it, from now on. It writes a file. Whether that is remembered over a restart.
    ///
    /// # Errors
    /// The file can't be written; the site is as it was told to be all the same.
    pub fn set(&self, notice: Option<Notice>) -> io::Result<bool> {
        let bytes = notice.as_ref().map(serde_json::to_vec).transpose()?;
        self.show(notice);
        let Some(file) = &self.file else { return Ok(false) };
        match bytes {
            Some(bytes) => private_file::replace(file, &bytes)?,
            None => match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
        }
        Ok(true)
    }

    /// By what the site is closed. None: it is open.
    pub fn closed(&self) -> Option<ClosedBy> {
        self.is_on.load(Relaxed).then(|| self.closed.read().clone())
    }

    /// Whether load balancers and monitoring ask for this path.
    pub fn is_check(&self, path: &str) -> bool {
        self.checks.iter().any(|check| check == path)
    }

    /// What this visitor gets in place of the page. None: the page. If both have closed the site, they have to let the visitor
    /// in both; the page is this server's own then.
    pub fn refuses(&self, path: &str, address: Option<IpAddr>) -> Option<Arc<Closed>> {
        let ClosedBy { here, cluster } = self.closed()?;
        if self.is_check(path) {
            return None;
        }
        [here, cluster].into_iter().flatten().find(|closed| !closed.allow.trusts(address))
    }
}

impl Closed {
    fn new(notice: Notice) -> Arc<Closed> {
        let allow = TrustedProxies::new(&notice.allow, true);
        Arc::new(Closed { notice, allow })
    }
}

impl ClosedBy {
    /// What is shown of it first.
    pub fn first(&self) -> Option<&Arc<Closed>> {
        self.here.as_ref().or(self.cluster.as_ref())
    }
}

fn remembered(file: &Path) -> Option<Notice> {
    serde_json::from_slice(&private_file::read(file, MAX_FILE).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    fn notice() -> Notice {
        let allow = vec!["192.0.2.0/24".into()];
        Notice { since: 1, retry_after: 300, page: Some("<p>back soon".into()), allow }
    }

    fn here(maintenance: &Maintenance) -> Option<Notice> {
        Some(maintenance.closed()?.here?.notice.clone())
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_closed_site_lets_in_some() {
        let maintenance = Maintenance::in_file(None, vec!["/up".into()]);
        assert!(maintenance.refuses("/", address("198.51.100.1")).is_none());
        assert!(!maintenance.set(Some(notice())).unwrap(), "there is nowhere to remember it");
        assert_eq!(maintenance.refuses("/", address("198.51.100.1")).unwrap().notice, notice());
        assert!(maintenance.refuses("/", None).is_some());
        assert!(maintenance.refuses("/", address("192.0.2.7")).is_none());
        assert!(maintenance.refuses("/up", address("198.51.100.1")).is_none());
        maintenance.set(None).unwrap();
        assert!(maintenance.closed().is_none());
    }

    #[test]
    fn a_site_that_its_cluster_has_closed_too_lets_in_whom_both_let_in() {
        let maintenance = Maintenance::in_file(None, vec!["/up".into()]);
        let page = |who: &str| maintenance.refuses("/", address(who)).map(|closed| closed.notice.page.clone());
        let of_all = Notice { page: None, allow: vec!["192.0.2.7".into(), "10.0.0.0/8".into()], ..notice() };
        assert!(maintenance.set_for_cluster(Some(of_all.clone())) && !maintenance.set_for_cluster(Some(of_all)));
        assert_eq!((page("10.0.0.1"), page("192.0.2.8")), (None, Some(None)));
        maintenance.set(Some(notice())).unwrap();
        assert_eq!((page("192.0.2.7"), page("10.0.0.1"), page("192.0.2.8")), (None, Some(notice().page), Some(None)));
        assert!(maintenance.refuses("/up", address("198.51.100.1")).is_none());
        maintenance.set(None).unwrap();
        assert_eq!(page("192.0.2.8"), Some(None), "the cluster's stays");
        maintenance.set(Some(notice())).unwrap();
        assert!(maintenance.set_for_cluster(None));
        assert_eq!(here(&maintenance), Some(notice()), "its own stays");
    }

    #[test]
    fn a_site_whose_settings_change_stays_closed() {
        let before = Maintenance::in_file(None, Vec::new());
        before.set(Some(notice())).unwrap();
        let after = Maintenance::in_file(None, vec!["/up".into()]);
        after.continue_from(&before);
        assert_eq!(here(&after), Some(notice()));
        before.set(None).unwrap();
        after.continue_from(&before);
        assert!(after.closed().is_none());
    }

    #[test]
    fn it_is_remembered() {
        let folder = Folder::with(&[]);
        let file = folder.0.join("state/maintenance-shop.json");
        let again = || Maintenance::in_file(Some(file.clone()), Vec::new());
        assert!(again().closed().is_none());
        assert!(again().set(Some(notice())).unwrap());
        assert_eq!(here(&again()), Some(notice()));
        assert!(again().set(None).unwrap() && again().set(None).unwrap());
        assert!(again().closed().is_none());
        let earlier = again();
        again().set(Some(notice())).unwrap();
        assert!(earlier.closed().is_none());
        earlier.read_again();
        assert!(earlier.closed().is_some(), "another process has closed it");
        std::fs::write(&file, "{\"since\":").unwrap();
        assert!(again().closed().is_none());
    }
}
