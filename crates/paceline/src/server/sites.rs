//! The sites that are served: those of the configuration and those found in a folder, as they come, change and go.
//! It never handles a request.

use std::{
    collections::HashMap,
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::oneshot;

use super::{outbound::Outbound, popular, watched::Watched, Server};
use crate::{
    account,
    caching::SiteCache,
    config::{self, AppKind, SiteConfig},
    log::{Log, Name},
    route::{Routes, Site},
    startup_report,
    static_files::Folder,
    supervisor::{
        actor::{restart::Wish, Popular},
        app::{App, Order, State},
        attempts::{Cause, Outcome},
        found::Found,
        reaper::Reaper,
    },
};

/// How long a site's folder may be away before the site ends: a rename, a deployment, a mount that comes back.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// A site that is served, and what is watched of it.
struct Known {
    site: Arc<Site>,
    /// As it was configured or found.
    wanted: SiteConfig,
    /// Its own paceline.toml is wrong.
    problem: Option<String>,
    looks: Looks,
    watched: Watched,
    /// Since when its folder is away; None: it is there.
    away: Option<Instant>,
}

impl Known {
    fn say_always(&self) {
        self.site.app.iter().for_each(|app| app.load_always(self.watched.always));
    }
}

/// The sites that are served.
pub struct Sites {
    server: Arc<Server>,
    reaper: Reaper,
    adopted: Option<UnixStream>,
    known: HashMap<String, Known>,
    outbound: Outbound,
}

impl Sites {
    pub fn new(server: Arc<Server>, reaper: Reaper, adopted: Option<UnixStream>) -> Sites {
        let egress = server.egress.clone();
        Sites { server, reaper, adopted, known: HashMap::new(), outbound: Outbound::new(egress) }
    }

    /// Makes the routes what the configuration and the folder of sites say now.
    pub fn update(&mut self) {
        let config = &self.server.config;
        let mut wanted: Vec<_> = config.sites.iter().map(|site| (site.clone(), None)).collect();
        if let Some(dir) = &config.sites_dir {
            match config::sites_in(dir, &config.inherited, &config.site_defaults) {
                Ok(found) => {
                    // A name or host of the configuration's own sites is theirs.
                    let free = |site: &SiteConfig| config.sites.iter().all(|own| own.name != site.name);
                    wanted.extend(found.sites.into_iter().filter(&free).map(|site| (site, None)));
                    wanted.extend(
                        found.broken.into_iter().filter(|(site, _)| free(site)).map(|(site, why)| (site, Some(why))),
                    );
                }
                // The folder is away for a moment (a mount, a rename): what is served goes on being served.
                Err(_) if !self.known.is_empty() => return,
                Err(error) => self.server.log.event(Name::Site, format!("{}: {error}", dir.display())),
            }
        }
        let mut changed = self.server.routes().all().is_empty();
        let mut names: Vec<String> = wanted.iter().map(|(site, _)| site.name.clone()).collect();
        names.extend(self.away(&names));
        for (site, problem) in wanted {
            // What serves goes on while its root can't be seen: nothing that is read there now says anything.
            if self.known.contains_key(&site.name) && !site.root.is_dir() {
                continue;
            }
            let looks = match self.known.get_mut(&site.name) {
                Some(known) if problem.is_some() => {
                    if known.problem != problem {
                        say_problem(&self.server.log, &site, &problem);
                    }
                    // What was served before its paceline.toml was broken goes on being served.
                    if known.problem.is_none() || known.problem == problem {
                        continue;
                    }
                    Looks::at(&site)
                }
                Some(known) => {
                    let looks = known.looks.again(&site);
                    if known.problem.is_none() && known.wanted == site && !known.looks.differs(&looks) {
                        known.looks = looks;
                        continue;
                    }
                    looks
                }
                None => {
                    say_problem(&self.server.log, &site, &problem);
                    Looks::at(&site)
                }
            };
            changed = true;
            let made = self.make(site.clone(), looks.content, problem.as_deref());
            let watched = Watched::at(&site.root);
            let known = Known { site: Arc::new(made), wanted: site.clone(), problem, looks, watched, away: None };
            known.say_always();
            match self.known.insert(site.name.clone(), known) {
                Some(old) => {
                    self.server.log.of(&site.name).event(
                        Name::Site,
                        format!("{}: its settings or files have changed; starting it anew", site.name),
                    );
                    stop_app(&old.site);
                }
                None if self.server.config.sites_dir.is_some() => {
                    let text = format!("Site {}: {}", site.name, site.root.display());
                    self.server.log.of(&site.name).event(Name::Site, text);
                }
                None => {}
            }
        }
        let gone: Vec<_> = self.known.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in gone {
            if let Some(known) = self.known.remove(&name) {
                changed = true;
                self.outbound.close(&name);
                self.server.log.of(&name).event(Name::Site, format!("Site {name} is gone"));
                stop_app(&known.site);
            }
        }
        if changed {
            let in_order =
                names.iter().filter_map(|name| self.known.get(name)).map(|known| known.site.clone()).collect();
            *self.server.routes.write().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                Arc::new(Routes::new(in_order));
        }
    }

    /// Sites whose folder is not there, and that are not given up yet.
    fn away(&mut self, there: &[String]) -> Vec<String> {
        let now = Instant::now();
        let mut away = Vec::new();
        for (name, known) in &mut self.known {
            known.away = (!there.contains(name)).then(|| known.away.unwrap_or(now));
            if known.away.is_some_and(|since| now.saturating_duration_since(since) < GONE_AFTER) {
                away.push(name.clone());
            }
        }
        away.sort();
        away
    }

    fn make(&mut self, mut site: SiteConfig, content: Content, problem: Option<&str>) -> Site {
        let metrics = self.server.metrics.site(&site.name);
        if let Some(why) = problem {
            let app = App::broken(site.clone(), "read the site's settings", why);
            return Site::new(site, None, Some(app), None, None, metrics);
        }
        if site.upstream.is_some() {
            let account = account::of_app(site.user.as_deref(), site.group.as_deref(), &site.root).ok().flatten();
            let folder = site.static_files.then(|| Folder::new(site.root.join(&site.public), site.static_max_age));
            let cache = self.cache_of(&site);
            return Site::new(site, folder.map(Folder::glancing), None, account, cache, metrics);
        }
        let is_files = content == Content::Files;
        if is_files {
            site.kind = Some(AppKind::Files);
        }
        // Where the app may not run as root, its start says so.
        let account = Found::at(&site).ok().and_then(|found| found.account(&site).ok()).flatten();
        if !is_files {
            self.outbound.open(&mut site, account.as_deref());
        }
        let folder = Folder::new(files_of(&site, is_files), site.static_max_age);
        let folder = match is_files {
            true => Some(folder),
            false => site.static_files.then(|| folder.glancing()),
        };
        let app = (!is_files).then(|| {
            let app = App::new(
                site.clone(),
                self.adopted.take(),
                self.reaper.clone(),
                self.server.log.clone(),
                metrics.clone(),
                self.server.incidents.clone(),
                self.popular(&site.name),
            );
            if !site.on_demand {
                app.order(Order::Start);
            }
            app
        });
        let cache = self.cache_of(&site).filter(|_| app.is_some());
        Site::new(site, folder, app, account, cache, metrics)
    }

    fn popular(&self, site: &str) -> Popular {
        let (server, site) = (Arc::downgrade(&self.server), site.to_owned());
        Arc::new(move |most| popular::of_site(&server, &site, most))
    }

    fn cache_of(&self, site: &SiteConfig) -> Option<Arc<SiteCache>> {
        let settings = site.cache.clone()?;
        Some(Arc::new(SiteCache::new(self.server.cache.clone(), settings, self.server.log.of(&site.name))))
    }

    /// Looks for sites that came, went or changed, and at what asks for a restart of an app.
    pub fn look(&mut self) {
        self.update();
        self.outbound.look();
        for known in self.known.values_mut() {
            let cause = known.watched.look(&known.wanted.root, Instant::now());
            known.say_always();
            if let (Some(app), Some(cause)) = (&known.site.app, cause) {
                if !matches!(app.state(), State::Stopped) {
                    app.order(Order::Restart(Wish::by(cause)));
                }
            }
        }
    }

    /// Resolves when every app that starts with the server is ready, or has failed.
    pub fn started(&self) -> impl std::future::Future<Output = ()> + use<> {
        let eager = self.known.values().filter(|known| !known.wanted.on_demand);
        let apps: Vec<_> = eager.filter_map(|known| known.site.app.clone()).collect();
        async move {
            for app in apps {
                app.started().await;
            }
        }
    }

    /// Sites whose applications are up.
    pub fn up(&self) -> Vec<String> {
        let is_up = |known: &&Known| matches!(known.site.app.as_ref().map(|app| app.state()), Some(State::Ready));
        self.known.values().filter(is_up).map(|known| known.wanted.name.clone()).collect()
    }

    /// Starts what is up elsewhere, too. Resolves when all that starts is ready or has failed. Err: one of those that are up has, and how.
    pub fn succeed(&self, up: &[String]) -> impl std::future::Future<Output = Result<(), String>> + use<> {
        let missing = up.iter().find(|name| self.known.get(*name).is_some_and(|known| known.site.app.is_none()));
        let missing = missing
            .map(|name| format!("site {name}: the old server runs an application there, and its root has none now"));
        let awaited = self.known.values().filter(|known| !known.wanted.on_demand || up.contains(&known.wanted.name));
        let with_need = |known: &Known| Some((known.site.app.clone()?, up.contains(&known.wanted.name)));
        let apps: Vec<_> = awaited.filter_map(with_need).collect();
        apps.iter().for_each(|(app, _)| app.order(Order::Start));
        async move {
            if let Some(missing) = missing {
                return Err(missing);
            }
            for (app, needed) in apps {
                if let (false, true, State::Failed { report, .. }) = (app.started().await, needed, app.state()) {
                    return Err(startup_report::text::render(&report, false));
                }
            }
            Ok(())
        }
    }

    /// Restarts every application. Told what came of each.
    pub fn restart(&self, by: &'static str) -> Vec<oneshot::Receiver<Outcome>> {
        let restarted = self.apps().map(|app| {
            let (done, ended) = oneshot::channel();
            app.order(Order::Restart(Wish { done: Some(done), ..Wish::by(Cause::Told(by)) }));
            ended
        });
        restarted.collect()
    }

    pub fn order(&self, order: impl Fn() -> Order) {
        self.apps().for_each(|app| app.order(order()));
    }

    fn apps(&self) -> impl Iterator<Item = &Arc<App>> {
        self.known.values().filter_map(|known| known.site.app.as_ref())
    }

    /// Asks what runs beside the apps to end; resolves when all of it has.
    pub fn stop_processes(&self) -> impl std::future::Future<Output = ()> + use<> {
        let all: Vec<_> = self.apps().map(|app| app.processes.clone()).collect();
        all.iter().for_each(|processes| processes.stop());
        async move {
            for processes in all {
                processes.ended().await;
            }
        }
    }

    pub async fn stop(&self, grace: Duration) {
        let mut waiting = Vec::new();
        for app in self.apps() {
            let (done, wait) = oneshot::channel();
            app.order(Order::Stop { grace, done });
            waiting.push(wait);
        }
        for wait in waiting {
            let _ = wait.await;
        }
    }
}

fn say_problem(log: &Log, site: &SiteConfig, problem: &Option<String>) {
    if let Some(why) = problem {
        log.of(&site.name).event(Name::Site, format!("Site {}: {why}", site.name));
    }
}

fn stop_app(site: &Site) {
    if let Some(app) = &site.app {
        app.order(Order::Stop { grace: Duration::from_secs(30), done: oneshot::channel().0 });
    }
}

/// What a site's root holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Of which kind is found out at each start.
    Application,
    Files,
    /// Nothing is recognised, which the start-up page will explain.
    Unknown,
}

/// What was seen in a site's folder, and when it had last changed: a look at two dates spares reading the folder.
#[derive(Clone, Copy)]
struct Looks {
    content: Content,
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
        let mut now = match self.changed == Looks::dates(site) {
            true => *self,
            false => Looks::at(site),
        };
        // A file that is being replaced is away for a moment. What was an application stays one, so that a release that is half
        // unpacked, or without its config.ru for a moment, never becomes a folder of files.
        if self.content == Content::Application {
            now.content = Content::Application;
        }
        now.owners = std::array::from_fn(|index| owners[index].or(self.owners[index]));
        now
    }

    /// Whether it would be served otherwise.
    fn differs(&self, other: &Looks) -> bool {
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
    let found = is_files.then(|| config::detect_site(site, &site.root).ok()).flatten();
    found.filter(|found| found.kind == AppKind::Files).map_or_else(|| site.root.join(&site.public), |found| found.entry)
}
