//! Live reload: has the files of a site watched, restarts its application where a change asks for that, and then tells the
//! pages that are open. It never blocks the main thread: files are watched by a thread of their own.

mod files;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use cache::store::How;
use tokio::{runtime::Handle, sync::oneshot};

use self::files::Reloading;
use super::handover::mask;
use crate::{
    apps::{
        actor::restart::Wish,
        app::{App, Order, State},
        attempts::{Cause, Outcome},
    },
    caching::{auto::AutoCache, Cache, Purge},
    config::{detect_site, AppKind, SiteConfig},
    content::live_reload::{Change, LiveReload},
    front::Front,
    observe::log::{Log, Name},
    request::route::Site,
    support::file_watch::{FileWatch, Seen},
};

/// Begins to watch the files of a site that has live reload. It must be called within the event loop of the main thread.
pub fn watch(front: &Front, site: &Site) -> Option<FileWatch> {
    let live = site.live_reload.clone()?;
    let log = front.log.of(&site.config.name);
    let reloader = Arc::new(Reloader {
        live,
        app: site.app.as_ref().map(Arc::downgrade),
        auto_cache: site.auto_cache.as_ref().map(Arc::downgrade),
        cache: site.cache.as_ref().map(|_| Arc::downgrade(&front.cache)),
        site: site.config.clone(),
        log: log.clone(),
        main: Handle::current(),
    });
    // A link that leads elsewhere later is a release, which restarts the application by itself.
    let root = site.config.root.canonicalize().unwrap_or_else(|_| site.config.root.clone());
    // Its thread takes none of the server's signals.
    mask::block();
    let begun = FileWatch::begin(root, files::is_of_interest, move |seen| reloader.clone().saw(seen));
    mask::unblock();
    begun.map_err(|why| log.event(Name::Notice, format!("{}: live reload is off: {why}", site.config.name))).ok()
}

/// Ends the streams to all pages that are open.
pub fn close(front: &Front) {
    front.routes().all().iter().filter_map(|site| site.live_reload.as_ref()).for_each(|live| live.close());
}

/// What acts on the changes of one site. It keeps nothing alive but the streams.
struct Reloader {
    live: Arc<LiveReload>,
    app: Option<Weak<App>>,
    auto_cache: Option<Weak<AutoCache>>,
    cache: Option<Weak<Cache>>,
    site: SiteConfig,
    log: Log,
    main: Handle,
}

impl Reloader {
    /// Called by the thread that watches.
    fn saw(self: Arc<Self>, seen: Seen) {
        let files = match seen {
            Seen::Files(files) => files,
            // Whatever it was.
            Seen::Much => [PathBuf::from("config.ru")].into(),
            Seen::Limited(why) => {
                return self.log.event(Name::Notice, format!("{}: live reload: {why}", self.site.name));
            }
        };
        let reloading = Reloading::of(&self.site, self.kind());
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).filter(|file| !reloading.is_bundled(file)).collect();
        let changes: BTreeSet<Change> = files.iter().filter_map(|file| files::change(file)).collect();
        let app = self.app.as_ref().and_then(Weak::upgrade);
        let Some(app) = app.filter(|app| !app.loads_always()) else { return self.tell(&changes) };
        let does_not_run = matches!(app.state(), State::Failed { .. }) || app.is_outdated();
        let may_mend = |file: &&&Path| does_not_run && files::change(file) == Some(Change::Page);
        let cause = files.iter().find(|file| reloading.needs_restart(file)).or_else(|| files.iter().find(may_mend));
        match cause {
            Some(file) => self.restart(&app, file, changes),
            None => self.tell(&changes),
        }
    }

    fn kind(&self) -> AppKind {
        self.site.kind.unwrap_or_else(|| {
            // A folder that nothing starts has no application.
            detect_site(&self.site, &self.site.root).map_or(AppKind::Files, |detected| detected.kind)
        })
    }

    /// Pages are told when the new code runs, or has failed to: then they show why.
    fn restart(self: Arc<Self>, app: &Arc<App>, file: &Path, mut changes: BTreeSet<Change>) {
        changes.insert(Change::Page);
        let (done, ended) = oneshot::channel();
        app.order(Order::Restart(Wish { done: Some(done), ..Wish::by(Cause::Changed(file.to_path_buf())) }));
        let (app, main) = (Arc::downgrade(app), self.main.clone());
        main.spawn(async move {
            let outcome = ended.await;
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
        if let Some(auto_cache) = self.auto_cache.as_ref().and_then(Weak::upgrade) {
            auto_cache.purge();
        }
        if let Some(cache) = self.cache.as_ref().and_then(Weak::upgrade) {
            for purge in self.kept() {
                cache.purge(&purge, How::Drop);
            }
        }
        self.live.tell(changes);
    }

    /// All that may be kept of the site.
    fn kept(&self) -> Vec<Purge> {
        if self.site.hosts.is_empty() || self.site.hosts.iter().any(|host| host.starts_with('*')) {
            return vec![Purge::All];
        }
        let of = |host: &String| {
            let begins = |scheme: &str| ['/', ':'].map(|after| Purge::Prefix(format!("{scheme}://{host}{after}")));
            ["http", "https"].map(begins).concat()
        };
        self.site.hosts.iter().flat_map(of).collect()
    }
}
