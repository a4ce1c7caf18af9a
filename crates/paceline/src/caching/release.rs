//! Which load of its application's code has made the pages that are kept of a site, so that they can go when another one takes
//! over. It compares no files, and purges nothing by itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
};

use cache::store::How;
use parking_lot::Mutex;

use super::{met, Cache, Disk, Purge, Purging};
use crate::support::private_file;

/// In the folder of the cache's disk: the digests of the code, by site.
const FILE: &str = "code.json";
const MAX_FILE: u64 = 1 << 20;
/// A site of more hosts has everything purged on the other fronts: a journal has better uses.
const MAX_HOSTS: usize = 16;

/// When another load of a site's code takes over, what becomes of the pages that the one before has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRestart {
    /// They are purged if the code is another one.
    #[default]
    Changed,
    /// They are purged.
    Always,
    /// They stay.
    Off,
}

impl OnRestart {
    /// The words of the setting.
    pub const WORDS: &'static [&'static str] = &["changed", "always", "off"];

    pub fn named(word: &str) -> OnRestart {
        match word {
            "always" => OnRestart::Always,
            "off" => OnRestart::Off,
            _ => OnRestart::Changed,
        }
    }
}

/// The digests of the code that has made what is kept, by site. None: that can't be said. A site that is not here has loaded no code
/// yet.
pub type Codes = BTreeMap<String, Option<String>>;

/// Which code has made all that is kept of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MadeBy {
    /// The first that it loads: nothing was there before.
    Itself,
    /// Nobody knows.
    Unknown,
    /// The code of this digest.
    Code(String),
}

#[derive(Default)]
pub(super) struct Releases {
    codes: Mutex<Codes>,
    /// Held while they are written.
    writing: Mutex<()>,
    /// Held while a site's code is read.
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// A disk was there before this process. What it does not say nobody knows.
    had_disk: AtomicBool,
}

impl Cache {
    /// If nothing was there before, all is of the code of the digest `now` from here on.
    pub fn made_by(&self, site: &str, now: Option<&str>) -> MadeBy {
        let mut codes = self.releases.codes.lock();
        match codes.get(site) {
            None if self.releases.had_disk.load(Relaxed) => MadeBy::Unknown,
            None => {
                // In one step: what another process gives may come at any time.
                codes.insert(site.to_owned(), now.map(str::to_owned));
                MadeBy::Itself
            }
            Some(None) => MadeBy::Unknown,
            Some(Some(code)) => MadeBy::Code(code.clone()),
        }
    }

    /// Held while the code of a site is read.
    pub fn code_turn(&self, site: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.releases.turns.lock().entry(site.to_owned()).or_default().clone()
    }

    /// The digest of that code, if it is known.
    pub fn code_of(&self, site: &str) -> Option<String> {
        self.releases.codes.lock().get(site).cloned().flatten()
    }

    /// All that is kept of the site was made by this code; None: that can't be said. It writes to the disk's folder: call it where
    /// that may take a moment.
    pub fn note_code(&self, site: &str, code: Option<String>) {
        let before = self.releases.codes.lock().insert(site.to_owned(), code.clone());
        if before != Some(code) {
            self.write_codes();
            // The file of what is prepared says it, too.
            self.changes.save();
        }
    }

    /// What was prepared of a site before this process began was made by this code. Whether what is kept was made by no other.
    pub fn is_made_by(&self, site: &str, code: &str) -> bool {
        let mut codes = self.releases.codes.lock();
        // The pages on disk do not become its.
        if !codes.contains_key(site) && self.releases.had_disk.load(Relaxed) {
            return false;
        }
        codes.entry(site.to_owned()).or_insert_with(|| Some(code.to_owned())).as_deref() == Some(code)
    }

    /// For the process that takes over.
    pub fn codes(&self) -> Codes {
        self.releases.codes.lock().clone()
    }

    /// What was just taken of a site from another process was made by this code. Whether it may be kept beside what is made here:
    /// else it has to be purged. A load of the code that is not compared yet will be compared with it.
    pub fn take_code(&self, site: &str, code: Option<String>) -> bool {
        let mut codes = self.releases.codes.lock();
        match codes.get(site) {
            Some(own) => own.is_some() && *own == code,
            None => {
                codes.insert(site.to_owned(), code);
                true
            }
        }
    }

    /// What the disk's part says of it, for a process that has loaded no code yet.
    pub(super) fn recall_codes(&self) {
        let Some(file) = self.codes_file() else { return };
        *self.releases.codes.lock() = read(&file).unwrap_or_default();
        self.releases.had_disk.store(true, Relaxed);
    }

    /// Has the disk's part say it. It waits for the disk: call it where that may be.
    pub fn write_codes(&self) {
        if let Some(file) = self.codes_file() {
            self.releases.write(&file);
        }
    }

    pub(super) fn codes_file(&self) -> Option<PathBuf> {
        self.disk().and_then(|disk| codes_file(&disk))
    }

    /// Does it again for a disk that was away.
    pub(super) fn codes_writer(&self, disk: &Disk) -> impl Fn() + Send + use<> {
        let (releases, file) = (self.releases.clone(), codes_file(disk));
        move || file.iter().for_each(|file| releases.write(file))
    }

    /// Drops all that is kept of a site: of the authorities ("host:port") that `is_its_own` says are its, in memory and on disk.
    /// Where fronts share pages, also what the others have of `hosts`, the site's, if it has any. How many there were here. It
    /// waits for the disk: call it where that may be.
    pub fn purge_site(&self, hosts: &[String], is_its_own: impl Fn(&str) -> bool) -> usize {
        let mut purging = Vec::new();
        if self.tier.get().is_some() {
            // Another front may have shared what no page here is of.
            let whats = prefixes(hosts).unwrap_or_else(|| vec![Purge::All]);
            purging.extend(whats.iter().map(|what| self.purge_soon(what, How::Drop)));
        }
        let done = purging.into_iter().map(|(count, Purging { on_disk, .. })| met(count, on_disk)).sum::<usize>();
        // A page that is under way may be the first of its host. Other sites keep what they have under way.
        match named(hosts) {
            None => self.store.refuse_earlier(),
            Some(hosts) => {
                for scheme in ["http", "https"] {
                    hosts.iter().for_each(|host| self.store.refuse_earlier_of(&format!("{scheme}://{host}")));
                }
            }
        }
        done + self.drop_kept(is_its_own)
    }
}

fn codes_file(disk: &Disk) -> Option<PathBuf> {
    Some(disk.folder()?.join(FILE))
}

impl Releases {
    fn write(&self, file: &Path) {
        // One at a time: the last one counts. Nobody else waits for the disk, as long as the codes are only read.
        let _turn = self.writing.lock();
        let codes = self.codes.lock().clone();
        write(file, &codes);
    }
}

/// All hosts of a site. None: there are many, or it is not known which.
fn named(hosts: &[String]) -> Option<&[String]> {
    let are_known = !hosts.is_empty() && hosts.len() <= MAX_HOSTS && hosts.iter().all(|host| !host.starts_with('*'));
    are_known.then_some(hosts)
}

/// The beginnings of all URLs of these hosts, with any port. None: not all are known.
fn prefixes(hosts: &[String]) -> Option<Vec<Purge>> {
    let of = |host: &String| {
        ["http", "https"].map(|scheme| ["/", ":"].map(|end| Purge::Prefix(format!("{scheme}://{host}{end}")))).concat()
    };
    named(hosts).map(|hosts| hosts.iter().flat_map(of).collect())
}

fn read(file: &Path) -> Option<Codes> {
    serde_json::from_slice(&private_file::read(file, MAX_FILE).ok()?).ok()
}

/// Without the file the next process does not know the code, and purges.
fn write(file: &Path, codes: &Codes) {
    let written = serde_json::to_vec(codes).map_err(std::io::Error::from);
    let _ = written.and_then(|bytes| private_file::replace_or_remove(file, &bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_knows_with_which_code_its_pages_were_made() {
        let folder = std::env::temp_dir().join(format!("paceline-release-{}", uuid::Uuid::new_v4().simple()));
        let open = || super::super::Disk::open(&folder, 8 << 20, Arc::new(|line| panic!("{line}"))).unwrap();
        let cache = Cache::with_disk(1 << 20, open()).unwrap();
        assert_eq!(cache.made_by("shop", None), MadeBy::Unknown, "there may be pages of another server");
        cache.note_code("shop", Some("one".into()));
        cache.note_code("blog", Some("two".into()));
        cache.note_code("blog", None);
        cache.close();
        drop(cache);
        let after = Cache::with_disk(1 << 20, open()).unwrap();
        assert_eq!(after.codes(), Codes::from([("shop".into(), Some("one".into())), ("blog".into(), None)]));
        after.close();
        drop(after);
        std::fs::write(folder.join(FILE), "{").unwrap();
        let damaged = Cache::with_disk(1 << 20, open()).unwrap();
        assert!(!damaged.is_made_by("shop", "one"), "what is prepared says nothing of the disk");
        assert_eq!(damaged.made_by("shop", Some("one")), MadeBy::Unknown);
        damaged.close();
        drop(damaged);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn pages_from_before_are_of_the_code_that_they_say_unless_another_is_known() {
        let cache = Cache::new(1 << 20);
        assert_eq!(cache.made_by("blog", Some("two")), MadeBy::Itself);
        assert_eq!(cache.made_by("blog", Some("three")), MadeBy::Code("two".into()));
        assert!(cache.is_made_by("shop", "one") && cache.is_made_by("shop", "one"));
        assert!(!cache.is_made_by("shop", "two"));
        assert_eq!(cache.code_of("shop").as_deref(), Some("one"));
        cache.note_code("shop", None);
        assert!(!cache.is_made_by("shop", "one"));
    }

    #[test]
    fn what_another_process_gives_stays_if_the_code_is_the_same() {
        let cache = Cache::new(1 << 20);
        let code = |code: &str| Some(code.to_owned());
        assert!(cache.take_code("shop", code("one")), "its own load is compared later");
        assert_eq!(cache.code_of("shop"), code("one"));
        cache.note_code("shop", code("two"));
        assert!(cache.take_code("shop", code("two")) && !cache.take_code("shop", code("one")));
        assert!(!cache.take_code("shop", None));
        cache.note_code("shop", None);
        assert!(!cache.take_code("shop", None) && !cache.take_code("shop", code("two")));
    }

    struct Tier;

    impl super::super::SharedTier for Tier {
        fn session(self: Arc<Self>) -> Option<Arc<dyn super::super::TierSession>> {
            None
        }
    }

    #[test]
    fn other_fronts_hear_of_it_only_where_pages_are_shared() {
        let cache = Cache::new(1 << 20);
        let (publish, mut published) = tokio::sync::mpsc::unbounded_channel();
        cache.share(publish);
        let hosts = ["shop.test".to_owned()];
        cache.purge_site(&hosts, |_| true);
        assert!(published.try_recv().is_err(), "each has pages of its own");
        let tier: Arc<dyn super::super::SharedTier> = Arc::new(Tier);
        cache.share_pages(Arc::downgrade(&tier));
        let moment = cache.store().moment();
        cache.purge_site(&hosts, |_| true);
        let told: Vec<_> = std::iter::from_fn(|| published.try_recv().ok()).map(|told| told.what).collect();
        assert_eq!(told, prefixes(&hosts).unwrap());
        let is_refused = |moment, url: &str| cache.store().purged_since(moment, url, &[]);
        assert!(is_refused(moment, "https://shop.test:3000/"), "what is under way may be its first page");
        assert!(!is_refused(moment, "http://other.test/"), "another site is not its business");
        let moment = cache.store().moment();
        cache.purge_site(&["*.shop.test".to_owned()], |_| true);
        assert!(is_refused(moment, "http://other.test/"), "nobody knows which hosts it has");
    }

    #[test]
    fn other_fronts_drop_the_hosts_of_a_site_or_everything() {
        let hosts = |hosts: &[&str]| prefixes(&hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>());
        let named = hosts(&["shop.test"]).unwrap();
        assert_eq!(named.len(), 4);
        let is_meant = |url: &str| named.iter().any(|what| what.covers(url, &[]));
        assert!(is_meant("http://shop.test/a") && is_meant("https://shop.test:3000/"));
        assert!(!is_meant("http://shop.test.example/"));
        for unknown in [&[][..], &["*.shop.test"], &["shop.test"; MAX_HOSTS + 1]] {
            assert_eq!(hosts(unknown), None);
        }
    }
}
