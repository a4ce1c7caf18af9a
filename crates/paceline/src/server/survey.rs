//! What is found in the folders of the sites, looked at away from the main thread: a folder that lets its reader wait
//! keeps nobody else waiting, and a site of which nothing was heard stays as it is. It starts and serves nothing.

use std::{
    collections::{HashMap, HashSet},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::watched::FolderState;
use crate::{
    apps::startable_app::StartableApp,
    config::{self, AppKind, Config, SiteConfig},
};
use parking_lot::Mutex;
use unix_user::{self, AccountRequest, RunAs};

/// How long the folders that answer wait for the others.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of a site already.
#[derive(Clone)]
pub struct Before {
    pub wanted: SiteConfig,
    pub problem: Option<String>,
    pub looks: Looks,
    /// It was not known whose rights its files are read with.
    pub unknown: bool,
}

/// A site as its folder is now.
pub struct Survey {
    pub wanted: SiteConfig,
    /// Its own paceline.toml is wrong.
    pub problem: Option<String>,
    pub looks: Looks,
    pub seen: FolderState,
    /// None: nothing has changed by which it would be served otherwise.
    pub prepared: Option<SitePlan>,
}

/// What a site is served with.
pub struct SitePlan {
    /// Who its application runs as, and with whose rights its files are read. None: that could not be determined.
    pub run_as: Option<RunAs>,
    /// Why that could not be determined.
    pub refused: Option<String>,
    /// The folder that files are served from.
    pub files: PathBuf,
}

/// What came of all folders.
pub struct Scan {
    /// In the order of the configuration, then of their names. None: nothing was heard of the site in time.
    pub sites: Vec<(String, Option<Box<Survey>>)>,
    /// Why the folder of sites could not be read.
    pub failed: Option<String>,
}

/// Looks at the folders.
#[derive(Clone, Default)]
pub struct Surveyor {
    /// Folders that somebody is still looking at.
    busy: Arc<Mutex<HashSet<String>>>,
}

impl Surveyor {
    /// Looks at all folders once.
    pub async fn scan(self, config: Arc<Config>, mut before: HashMap<String, Before>) -> Scan {
        let dir = config.sites_dir.clone();
        let names = match &dir {
            None => Ok(Vec::new()),
            Some(dir) => {
                let dir = dir.clone();
                let names = tokio::task::spawn_blocking(move || config::folders_in(&dir)).await;
                names.unwrap_or_else(|error| Err(error.into())).map_err(|error| error.to_string())
            }
        };
        let (names, failed) = match (names, dir) {
            (Ok(names), _) => (names, None),
            (Err(error), dir) => (Vec::new(), Some(format!("{}: {error}", dir.unwrap_or_default().display()))),
        };
        // A name or host of the configuration's own sites is theirs.
        let free = |name: &String| config.sites.iter().all(|own| own.name != *name);
        let own = config.sites.iter().map(|site| (site.name.clone(), Some(site.clone())));
        let found = names.into_iter().filter(free).map(|name| (name, None));
        let mut underway = Vec::new();
        for (name, site) in own.chain(found) {
            let before = before.remove(&name);
            let task = self.enter(&name).then(|| {
                let (surveyor, config, name) = (self.clone(), config.clone(), name.clone());
                tokio::task::spawn_blocking(move || {
                    let _left = FolderLease(surveyor, name.clone());
                    let (wanted, problem) = match (site, &config.sites_dir) {
                        (Some(site), _) => (site, None),
                        (None, dir) => {
                            match config::site_in(dir.as_deref()?, &name, &config.inherited, &config.site_defaults) {
                                Ok(site) => (*site, None),
                                Err(broken) => (broken.0, Some(broken.1)),
                            }
                        }
                    };
                    Some(Box::new(survey(wanted, problem, before)))
                })
            });
            underway.push((name, task));
        }
        let until = tokio::time::Instant::now() + PATIENCE;
        let mut sites = Vec::with_capacity(underway.len());
        for (name, task) in underway {
            let found = match task {
                Some(task) => tokio::time::timeout_at(until, task).await.ok().and_then(Result::ok).flatten(),
                None => None,
            };
            sites.push((name, found));
        }
        Scan { sites, failed }
    }

    fn enter(&self, name: &str) -> bool {
        self.busy.lock().insert(name.to_owned())
    }
}

/// Takes a folder out of those that are looked at, however that ends.
struct FolderLease(Surveyor, String);

impl Drop for FolderLease {
    fn drop(&mut self) {
        self.0.busy.lock().remove(&self.1);
    }
}

fn survey(wanted: SiteConfig, problem: Option<String>, before: Option<Before>) -> Survey {
    // What serves goes on while its root can't be seen: nothing that is read there now says anything.
    let (wanted, problem) = match &before {
        Some(before) if !wanted.root.is_dir() => {
            let Before { wanted, problem, looks, .. } = before.clone();
            return Survey { seen: FolderState::at(&wanted.root), wanted, problem, looks, prepared: None };
        }
        _ => (wanted, problem),
    };
    let looks = before.as_ref().map_or_else(|| Looks::at(&wanted), |before| before.looks.again(&wanted));
    let same = |before: &Before| {
        before.problem == problem && before.wanted == wanted && !before.looks.differs(&looks) && !before.unknown
    };
    let prepared = (!before.as_ref().is_some_and(same)).then(|| prepared(&wanted, looks.content));
    Survey { seen: FolderState::at(&wanted.root), wanted, problem, looks, prepared }
}

fn prepared(site: &SiteConfig, content: Content) -> SitePlan {
    let is_files = content == Content::Files;
    let run_as = if is_files || site.upstream.is_some() {
        let (user, group) = (site.user.as_deref(), site.group.as_deref());
        unix_user::of_files(&AccountRequest { user, group, provenance: site.provenance }, &site.root)
            .map_err(|refused| refused.to_string())
    } else {
        StartableApp::at(site).and_then(|found| Ok(found.run_as(site)?)).map_err(|why| why.to_string())
    };
    let files = files_of(site, is_files);
    match run_as {
        Ok(run_as) => SitePlan { run_as: Some(run_as), refused: None, files },
        Err(why) => SitePlan { run_as: None, refused: Some(why), files },
    }
}

/// What a site's root holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Of which kind is found out at each start.
    Application,
    Files,
    /// Nothing is recognised, which the start-up page will explain.
    Unknown,
}

/// What was seen in a site's folder, and when it had last changed: a look at two dates spares reading the folder.
#[derive(Clone, Copy)]
pub struct Looks {
    pub content: Content,
    changed: [Option<SystemTime>; 2],
    /// Owners of the files that decide who the app runs as, where that is asked.
    owners: [Option<u32>; 4],
}

impl Looks {
    fn at(site: &SiteConfig) -> Looks {
        let (changed, owners) = (Looks::dates(site), Looks::owners(site));
        let detected = || config::detect_site(site, &site.root).ok().map(|detected| detected.kind);
        let content = match (&site.upstream, site.upstream.is_none().then(detected).flatten()) {
            (Some(_), _) | (None, None) => Content::Unknown,
            (None, Some(AppKind::Files)) => Content::Files,
            (None, Some(_)) => Content::Application,
        };
        Looks { content, changed, owners }
    }

    fn again(&self, site: &SiteConfig) -> Looks {
        let owners = Looks::owners(site);
        let mut now = if self.changed == Looks::dates(site) { *self } else { Looks::at(site) };
        // A file that is being replaced is away for a moment. What was an application stays one, so that a release that
        // is half unpacked, or without its config.ru for a moment, never becomes a folder of files.
        if self.content == Content::Application {
            now.content = Content::Application;
        }
        now.owners = std::array::from_fn(|index| owners[index].or(self.owners[index]));
        now
    }

    /// Whether it would be served otherwise.
    pub fn differs(&self, other: &Looks) -> bool {
        let given_away =
            std::iter::zip(self.owners, other.owners).any(|pair| matches!(pair, (Some(old), Some(new)) if old != new));
        let appeared = self.owners[0].is_none() && other.owners[0].is_some();
        self.content != other.content || given_away || appeared
    }

    fn dates(site: &SiteConfig) -> [Option<SystemTime>; 2] {
        [site.root.clone(), site.root.join("config")]
            .map(|dir| std::fs::metadata(dir).and_then(|found| found.modified()).ok())
    }

    fn owners(site: &SiteConfig) -> [Option<u32>; 4] {
        if !rustix::process::geteuid().is_root() || site.user.is_some() {
            return [None; 4];
        }
        let rackup = site.rackup.clone().unwrap_or_else(|| site.root.join("config.ru"));
        [site.root.clone(), site.root.join("config/environment.rb"), rackup, site.root.join("app.rb")]
            .map(|path| std::fs::metadata(path).map(|found| found.uid()).ok())
    }
}

/// The folder that files are served from: `public`, or what a site of plain files consists of.
fn files_of(site: &SiteConfig, is_files: bool) -> PathBuf {
    let found = (is_files && site.upstream.is_none()).then(|| config::detect_site(site, &site.root).ok()).flatten();
    found.filter(|found| found.kind == AppKind::Files).map_or_else(|| site.root.join(&site.public), |found| found.entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        load,
        test_folder::{around, Folder},
        Flags,
    };

    #[tokio::test]
    async fn a_folder_that_is_still_looked_at_keeps_nobody_waiting() {
        let folder = Folder::with(&[
            ("paceline.toml", "sites = \"all\""),
            ("all/slow/index.html", ""),
            ("all/shop/config.ru", ""),
            ("all/wrong/paceline.toml", "x = 1"),
            ("all/wrong/index.html", ""),
        ]);
        let config = Arc::new(around(&folder.0, &[], |around| load(Flags::default(), around)).expect("fine"));
        let surveyor = Surveyor::default();
        let slow = surveyor.enter("slow").then(|| FolderLease(surveyor.clone(), "slow".into()));
        let scan = surveyor.clone().scan(config.clone(), HashMap::new()).await;
        let seen = |scan: &Scan| {
            let kind = |survey: &Survey| (survey.looks.content, survey.problem.is_some());
            scan.sites.iter().map(|(name, survey)| (name.clone(), survey.as_deref().map(kind))).collect::<Vec<_>>()
        };
        let files = Content::Files;
        let expected = |slow| {
            let shop = Some((Content::Application, false));
            [("shop", shop), ("slow", slow), ("wrong", Some((files, true)))]
                .map(|(name, seen)| (name.to_string(), seen))
        };
        assert_eq!(seen(&scan), expected(None));
        drop(slow);
        assert_eq!(seen(&surveyor.scan(config, HashMap::new()).await), expected(Some((files, false))));
    }
}
