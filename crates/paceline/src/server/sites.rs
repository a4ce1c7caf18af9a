//! The sites that are served: those of the configuration and those found in a folder, as they come, change and go.
//! It never handles a request.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    cluster,
    journals::Journals,
    live_reload::{self, WatchedFiles},
    outbound::Outbound,
    site_pages::KeptPages,
    survey::{Before, Content, Looks, Scan, SitePlan, Survey, Surveyor},
    watched::FolderWatch,
    TakeoverError, BEGINNINGS,
};
use crate::{
    apps::{
        app::App,
        attempts::{Cause, Outcome},
        orders::{Order, State, Wish},
        pages::Pages,
        reaper::Reaper,
        worker_process::Grace,
    },
    caching::{
        auto::{AutoCache, Reporter},
        SiteCache,
    },
    config::{AppKind, Config, SiteConfig},
    content::static_files::Folder,
    observe::log::{Log, Name},
    request::{
        front::Front,
        route::{Routes, Site},
    },
    support::site_files::SiteFiles,
};
use unix_user::RunAs;

/// How long a site's folder may be away before the site ends: a rename, a deployment, a mount that comes back.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// A site that is served, and what is watched of it.
struct ServedSite {
    site: Arc<Site>,
    /// As it was configured or found.
    wanted: SiteConfig,
    /// Its own paceline.toml is wrong.
    problem: Option<String>,
    looks: Looks,
    watched: FolderWatch,
    /// Its files, for live reload. None: nobody wants to know.
    files: Option<WatchedFiles>,
    /// Since when its folder is away; None: it is there.
    away: Option<Instant>,
}

impl ServedSite {
    fn before(&self) -> Before {
        let unknown = self.problem.is_none() && self.site.files.is_none();
        Before { wanted: self.wanted.clone(), problem: self.problem.clone(), looks: self.looks, unknown }
    }

    /// `release`: where its root leads to.
    fn restart(&mut self, cause: Option<Cause>, release: Option<PathBuf>) {
        let is_stopped = self.site.app.as_ref().is_some_and(|app| matches!(app.state(), State::Stopped));
        match (cause, &mut self.files, release) {
            (Some(Cause::Release), Some(files), Some(release)) if !is_stopped => files.follow(release),
            (Some(cause), ..) if !is_stopped => {
                self.site.app.iter().for_each(|app| app.order(Order::Restart(Wish::by(cause.clone()))));
            }
            _ => {}
        }
    }

    fn say_always(&self) {
        self.site.app.iter().for_each(|app| app.load_always(self.watched.always));
    }
}

/// The sites that are served.
pub struct Sites {
    server: Arc<Front>,
    reaper: Reaper,
    known: HashMap<String, ServedSite>,
    outbound: Outbound,
    journals: Journals,
    surveyor: Surveyor,
    /// The look at the folders that is under way.
    scan: Option<JoinHandle<Scan>>,
    config: Arc<Config>,
}

impl Sites {
    pub fn new(server: Arc<Front>, reaper: Reaper) -> Sites {
        let egress = server.egress.clone();
        let config = Arc::new(server.config.clone());
        let (known, outbound, journals) = (HashMap::new(), Outbound::new(egress), Journals::default());
        Sites { server, reaper, known, outbound, journals, surveyor: Surveyor::default(), scan: None, config }
    }

    /// Begins to look at the folders, unless somebody does.
    pub fn look(&mut self) {
        self.outbound.look();
        self.journals.look();
        if self.scan.is_some() {
            return;
        }
        let before = self.known.iter().map(|(name, known)| (name.clone(), known.before())).collect();
        self.scan = Some(tokio::spawn(self.surveyor.clone().scan(self.config.clone(), before)));
    }

    /// Resolves when a look at the folders has come to its end; never where none is under way.
    pub async fn looked(&mut self) -> Scan {
        loop {
            let Some(scan) = &mut self.scan else { return std::future::pending().await };
            let ended = scan.await;
            self.scan = None;
            if let Ok(scan) = ended {
                return scan;
            }
        }
    }

    /// Makes the routes what the configuration and the folder of sites say now, and restarts what asks for it.
    pub fn update(&mut self, scan: Scan) {
        match scan.failed {
            // The folder is away for a moment (a mount, a rename): what is served goes on being served.
            Some(_) if !self.known.is_empty() => return,
            Some(why) => self.server.log.event(Name::Site, why),
            None => {}
        }
        let mut changed = self.server.routes().all().is_empty();
        let mut names: Vec<String> = scan.sites.iter().map(|(name, _)| name.clone()).collect();
        names.extend(self.away(&names));
        for survey in scan.sites.into_iter().filter_map(|(_, survey)| survey) {
            changed |= self.take(*survey);
        }
        let gone: Vec<_> = self.known.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in gone {
            if let Some(known) = self.known.remove(&name) {
                changed = true;
                self.outbound.close(&name);
                self.journals.close(&name);
                self.server.log.of(&name).event(Name::Site, format!("Site {name} is gone"));
                stop(&known.site);
            }
        }
        if changed {
            let in_order: Vec<_> =
                names.iter().filter_map(|name| self.known.get(name)).map(|known| known.site.clone()).collect();
            // Before visitors come, and once more: it may have changed between.
            cluster::close_as_all(&self.server, &in_order);
            *self.server.routes.write() = Arc::new(Routes::new(in_order));
            cluster::close_as_all(&self.server, self.server.routes().all());
            self.server.cache.changes().wake();
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

    /// Takes what was found of a site. Whether it is served otherwise now.
    fn take(&mut self, survey: Survey) -> bool {
        let Survey { wanted: site, problem, looks, seen, prepared } = survey;
        if let Some(known) = self.known.get_mut(&site.name) {
            let cause = known.watched.take(seen.clone(), Instant::now());
            known.say_always();
            known.restart(cause, seen.release());
            if problem.is_some() && known.problem != problem {
                say_problem(&self.server.log, &site, &problem);
            }
            let found_out = known.site.files.is_none() && prepared.as_ref().is_some_and(|now| now.run_as.is_some());
            let same = match &problem {
                // What was served before its paceline.toml was broken goes on being served.
                Some(_) => known.problem.is_none() || known.problem == problem,
                None => known.problem.is_none() && known.wanted == site && !known.looks.differs(&looks) && !found_out,
            };
            if same {
                if problem.is_none() {
                    known.looks = looks;
                }
                return false;
            }
        } else {
            say_problem(&self.server.log, &site, &problem);
        }
        let Some(prepared) = prepared else { return false };
        let made = self.make(site.clone(), looks.content, prepared, problem.as_deref());
        let files = live_reload::watch(&self.server, &made, seen.release());
        let watched = FolderWatch::new(seen);
        let (made, wanted) = (Arc::new(made), site.clone());
        let known = ServedSite { site: made, wanted, problem, looks, watched, files, away: None };
        known.say_always();
        match self.known.insert(site.name.clone(), known) {
            Some(old) => {
                self.known[&site.name].site.maintenance.continue_from(&old.site.maintenance);
                self.server
                    .log
                    .of(&site.name)
                    .event(Name::Site, format!("{}: its settings or files have changed; starting it again", site.name));
                stop(&old.site);
            }
            None if self.server.config.sites_dir.is_some() => {
                let text = format!("Site {}: {}", site.name, site.root.display());
                self.server.log.of(&site.name).event(Name::Site, text);
            }
            None => {}
        }
        true
    }

    fn make(&mut self, mut site: SiteConfig, content: Content, prepared: SitePlan, problem: Option<&str>) -> Site {
        let SitePlan { run_as, refused, files: public } = prepared;
        // Of an application its start says so.
        if let Some(why) = refused.filter(|_| content == Content::Files || site.upstream.is_some()) {
            let text = format!("Site {}: no files are served: {why}", site.name);
            self.server.log.of(&site.name).event(Name::Site, text);
        }
        let is_files = content == Content::Files;
        if is_files {
            site.kind = Some(AppKind::Files);
        }
        let metrics = self.server.metrics.site(&site.name);
        let files = run_as.clone().map(SiteFiles::new);
        let folder = files.clone().map(|files| Folder::new(public, files, site.static_max_age));
        if let Some(why) = problem {
            let app = App::broken(site.clone(), "read the site's settings", why);
            return Site::new(site, None, Some(app), None, None, metrics);
        }
        if site.upstream.is_some() {
            let folder = folder.filter(|_| site.static_files);
            let cache = self.cache_of(&site);
            return self.guarded(Site::new(site, folder.map(Folder::glancing), None, files, cache, metrics));
        }
        let mut auto_cache = None;
        if !is_files {
            self.warn_of_root(&site, run_as.as_ref());
            self.outbound.open(&mut site, run_as.as_ref());
            auto_cache = self.watch_pages(&mut site, run_as.as_ref());
        }
        let folder = if is_files { folder } else { folder.filter(|_| site.static_files).map(Folder::glancing) };
        let app = (!is_files).then(|| {
            let app = App::new(
                site.clone(),
                self.config.reader.take(),
                self.reaper.clone(),
                self.server.log.clone(),
                metrics.clone(),
                self.server.incidents.clone(),
                self.pages(&site),
            );
            if let Some(auto_cache) = &auto_cache {
                app.order(Order::Report(Reporter::new(auto_cache.clone())));
            }
            if !site.on_demand {
                app.order(Order::Start);
            }
            app
        });
        let cache = self.cache_of(&site).filter(|_| app.is_some());
        self.guarded(Site { auto_cache, ..Site::new(site, folder, app, files, cache, metrics) })
    }

    /// Has what its pages are made of watched, where its settings say so.
    fn watch_pages(&mut self, site: &mut SiteConfig, run_as: Option<&RunAs>) -> Option<Arc<AutoCache>> {
        let (log, incidents) = (&self.server.log, &self.server.incidents);
        self.journals.open(site, run_as, log, incidents).unwrap_or_else(|why| {
            let text =
                format!("{}: auto_cache: there is no socket below tmp, so pages are not watched: {why}", site.name);
            self.server.log.of(&site.name).event(Name::Site, text);
            None
        })
    }

    /// Has the site's single sign-on opened, its sessions tidied, and the hosts of its upstream watched; says what its rules need.
    fn guarded(&self, site: Site) -> Site {
        if let Some(upstream) = &site.upstream {
            let host = site.config.hosts.iter().find(|host| !host.starts_with('*')).cloned();
            upstream.watch(host, self.server.log.of(&site.config.name));
        }
        let log = self.server.log.of(&site.config.name);
        BEGINNINGS.iter().for_each(|begin| begin(&self.config, &site, log.clone()));
        site
    }

    fn pages(&self, site: &SiteConfig) -> Pages {
        Arc::new(KeptPages::of(&self.server, site))
    }

    fn cache_of(&self, site: &SiteConfig) -> Option<Arc<SiteCache>> {
        let settings = site.parts.cache.clone()?;
        let (cache, log) = (self.server.cache.clone(), self.server.log.of(&site.name));
        Some(Arc::new(SiteCache::new(cache, settings, log)))
    }

    /// That an application runs as root is said once, where nobody has asked for it.
    fn warn_of_root(&self, site: &SiteConfig, run_as: Option<&RunAs>) {
        if site.user.is_none() && matches!(run_as, Some(RunAs::Root(_))) {
            let text = format!(
                "WARNING: {} runs as root, the owner of {}: a security hole in it gives away this machine. \
                 Set `user = \"deploy\"` (--user deploy), or `user = \"root\"` to silence this warning",
                site.name,
                site.root.display()
            );
            self.server.log.of(&site.name).event(Name::Notice, text);
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
        let is_up = |known: &&ServedSite| matches!(known.site.app.as_ref().map(|app| app.state()), Some(State::Ready));
        self.known.values().filter(is_up).map(|known| known.wanted.name.clone()).collect()
    }

    /// Starts what is up elsewhere, too. Resolves when all that starts is ready or has failed. Err: one of those that
    /// are up has, and how.
    pub fn take_over(&self, up: &[String]) -> impl std::future::Future<Output = Result<(), TakeoverError>> + use<> {
        let missing = up.iter().find(|name| self.known.get(*name).is_some_and(|known| known.site.app.is_none()));
        let missing = missing.map(|site| TakeoverError::NoApplication { site: site.clone() });
        let awaited = self.known.values().filter(|known| !known.wanted.on_demand || up.contains(&known.wanted.name));
        let with_need = |known: &ServedSite| Some((known.site.app.clone()?, up.contains(&known.wanted.name)));
        let apps: Vec<_> = awaited.filter_map(with_need).collect();
        apps.iter().for_each(|(app, _)| app.order(Order::Start));
        async move {
            if let Some(missing) = missing {
                return Err(missing);
            }
            for (app, needed) in apps {
                if let (false, true, State::Failed { report, .. }) = (app.started().await, needed, app.state()) {
                    return Err(TakeoverError::FailedStart(startup_report::text::render(&report, false)));
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

    /// What runs beside the apps and has not ended, as the log names it.
    pub fn processes(&self) -> Vec<String> {
        let views = self.apps().flat_map(|app| app.processes.views());
        views.filter(|view| view.pid.is_some()).map(|view| view.who).collect()
    }

    pub async fn stop(&self, grace: Grace) {
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

/// Ends what works for a site that is not served any more.
fn stop(site: &Site) {
    if let Some(upstream) = &site.upstream {
        upstream.unwatch();
    }
    site.end_streams();
    if let Some(app) = &site.app {
        app.order(Order::Stop { grace: Duration::from_secs(30).into(), done: oneshot::channel().0 });
    }
}
