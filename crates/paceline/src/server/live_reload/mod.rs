//! Live reload: has the files of a site watched, restarts its application where a change asks for that, and then tells the
//! pages that are open. It never blocks the main thread: files are watched by a thread of their own.

mod files;
mod repeats;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use http_guard::host;
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::oneshot};

use self::{
    files::Reloading,
    repeats::{Repeats, Restart},
};
use crate::{
    apps::{
        app::App,
        attempts::{Cause, Outcome},
        orders::{Order, State, Wish},
    },
    config::{detect_site, AppKind, SiteConfig},
    content::live_reload::{Change, LiveReload},
    observe::log::{Log, Name},
    request::{front::Front, route::Site},
    support::file_watch::{FileWatch, FolderChange},
};

/// A change may be told so long after it.
const LATE: Duration = Duration::from_secs(1);

/// The files of a site that has live reload, watched until this is dropped.
pub struct WatchedFiles {
    reloader: Arc<Reloader>,
    /// None: it is off, and the log says why.
    _watch: Option<FileWatch>,
}

/// Begins to watch the files of a site that has live reload. It must be called within the event loop of the main thread.
/// `release`: the folder that its root leads to, if that is known.
pub fn watch(front: &Arc<Front>, site: &Site, release: Option<PathBuf>) -> Option<WatchedFiles> {
    let live = site.live_reload.clone()?;
    let reloader = Arc::new(Reloader {
        live,
        app: site.app.as_ref().map(Arc::downgrade),
        purge: Box::new(site.purger()),
        front: Arc::downgrade(front),
        keeps_pages: site.cache.is_some(),
        starts: Mutex::default(),
        site: site.config.clone(),
        log: front.log.of(&site.config.name),
        main: Handle::current(),
    });
    let root = release.unwrap_or_else(|| site.config.root.clone());
    Some(WatchedFiles { _watch: reloader.clone().watch(root), reloader })
}

impl WatchedFiles {
    /// The root leads to another release now: its application is started, and then its files are what pages are made of.
    pub fn follow(&mut self, release: PathBuf) {
        self._watch = self.reloader.clone().watch(release);
        let (reloader, changes) = (self.reloader.clone(), BTreeSet::from([Change::Scripts, Change::Page]));
        match self.reloader.app.as_ref().and_then(Weak::upgrade) {
            Some(app) => reloader.restart(&app, Cause::Release, changes),
            // It waits for the cache's disk.
            None => drop(tokio::task::spawn_blocking(move || reloader.tell(&changes))),
        }
    }
}

/// What acts on the changes of one site. It keeps nothing alive but the streams.
struct Reloader {
    live: Arc<LiveReload>,
    app: Option<Weak<App>>,
    /// Drops pages that are kept beside the page cache.
    purge: Box<dyn Fn() + Send + Sync>,
    front: Weak<Front>,
    /// The site has a page cache.
    keeps_pages: bool,
    starts: Mutex<Starts>,
    site: SiteConfig,
    log: Log,
    main: Handle,
}

/// The restarts that were asked for here.
#[derive(Default)]
struct Starts {
    under_way: usize,
    /// When the last one was over.
    ended: Option<Instant>,
}

impl Reloader {
    /// Watches the files below this folder. A link that leads elsewhere later is not followed.
    fn watch(self: Arc<Self>, root: PathBuf) -> Option<FileWatch> {
        let reloader = self.clone();
        let mut repeats = Repeats::below(root.clone());
        let begun = FileWatch::begin(root, files::is_of_interest, move |seen| reloader.clone().saw(seen, &mut repeats));
        begun.map_err(|why| self.log.event(Name::Notice, format!("{}: live reload is off: {why}", self.site.name))).ok()
    }

    /// Called by the thread that watches.
    fn saw(self: Arc<Self>, changed: FolderChange, repeats: &mut Repeats) {
        let (reloading, now) = (Reloading::of(&self.site, self.kind()), Instant::now());
        let files = match changed {
            FolderChange::Files(files) => {
                let files = files.into_iter().filter(|file| !reloading.is_bundled(file)).collect();
                let news = repeats.news(files, now);
                news.ignored.iter().for_each(|file| self.say_ignored(file));
                news.files
            }
            // Whatever it was.
            FolderChange::Much => {
                repeats.forget_contents();
                vec![PathBuf::from("config.ru")]
            }
            FolderChange::Limited(why) => return self.notice(&why),
        };
        // Of a folder that was moved away it is not known what was in it.
        let change = |file: &Path| files::change(file).unwrap_or(Change::Page);
        let changes: BTreeSet<Change> = files.iter().map(|file| change(file)).collect();
        if changes.is_empty() {
            return;
        }
        let app = self.app.as_ref().and_then(Weak::upgrade);
        let Some(app) = app.filter(|app| !app.loads_always()) else { return self.tell(&changes) };
        let does_not_run = matches!(app.state(), State::Failed { .. }) || app.is_outdated();
        let needs_it = files.iter().filter(|file| reloading.restarts_for(file));
        let may_mend = files.iter().filter(|file| does_not_run && change(file) == Change::Page);
        let is_starting = self.is_starting(&app);
        let cause = needs_it.chain(may_mend).find(|file| match repeats.restart(file, is_starting, now) {
            Restart::Yes => true,
            Restart::No => false,
            Restart::NoMore => {
                self.say_restarts_nothing(file);
                false
            }
        });
        match cause {
            Some(file) => self.restart(&app, Cause::Changed(file.clone()), changes),
            None => self.tell(&changes),
        }
    }

    /// Whether what is told now may have been written by a start.
    fn is_starting(&self, app: &App) -> bool {
        let starts = self.starts.lock();
        let was = starts.ended.is_some_and(|at| at.elapsed() < LATE);
        was || starts.under_way > 0 || matches!(app.state(), State::Starting)
    }

    fn say_ignored(&self, file: &Path) {
        self.notice(&format!(
            "{} changes all the time, perhaps whenever a page is made. It is ignored until it has not changed for a \
             minute; what is written so often belongs into tmp/ or storage/",
            file.display()
        ));
    }

    fn say_restarts_nothing(&self, file: &Path) {
        self.notice(&format!(
            "{} has changed during each of the last starts, which seem to write it. It restarts nothing until it has \
             not changed for a minute; what a start writes belongs into tmp/ or storage/",
            file.display()
        ));
    }

    fn notice(&self, what: &str) {
        self.log.event(Name::Notice, format!("{}: live reload: {what}", self.site.name));
    }

    fn kind(&self) -> AppKind {
        self.site.kind.unwrap_or_else(|| {
            // A folder that nothing starts has no application.
            detect_site(&self.site, &self.site.root).map_or(AppKind::Files, |detected| detected.kind)
        })
    }

    /// Pages are told when the new code runs, or has failed to: then they show why.
    fn restart(self: Arc<Self>, app: &Arc<App>, cause: Cause, mut changes: BTreeSet<Change>) {
        changes.insert(Change::Page);
        let (done, ended) = oneshot::channel();
        self.starts.lock().under_way += 1;
        app.order(Order::Restart(Wish { done: Some(done), ..Wish::by(cause) }));
        let (app, main) = (Arc::downgrade(app), self.main.clone());
        main.spawn(async move {
            let outcome = ended.await;
            {
                let mut starts = self.starts.lock();
                (starts.under_way, starts.ended) = (starts.under_way - 1, Some(Instant::now()));
            }
            if let (Some(app), Ok(outcome)) = (app.upgrade(), &outcome) {
                match outcome {
                    // What serves is not what the files say.
                    Outcome::Failed(_) => app.set_outdated(matches!(app.state(), State::Ready)),
                    Outcome::Serves { .. } => app.set_outdated(false),
                    Outcome::RolledBack(_) | Outcome::Refused(_) => {}
                }
            }
            // It waits for the cache's disk.
            drop(tokio::task::spawn_blocking(move || self.tell(&changes)));
        });
    }

    /// Pages that are kept are of the old files.
    fn tell(&self, changes: &BTreeSet<Change>) {
        (self.purge)();
        if let Some(front) = self.front.upgrade().filter(|_| self.keeps_pages) {
            let routes = front.routes();
            front.cache.drop_origins(|authority| {
                routes.find(host::split_host(authority).0).is_some_and(|site| site.config.name == self.site.name)
            });
        }
        self.live.tell(changes);
    }
}
