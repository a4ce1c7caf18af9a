//! The thread that waits for the times at which pages change, by the time of day, and has done what is due.
//! It never renders: another thread does, so that a slow page delays no change.

use std::{
    collections::HashMap,
    io,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc, Weak,
    },
    thread,
};

use scheduled::{
    plan::{Plan, Step},
    rule::PREPARE,
    Millis,
};
use tokio::runtime::Handle;

use super::{
    jobs::{self, shown, Job, Jobs, Work},
    keeping::{self, KeepingFile},
    preparing,
};
use crate::{
    caching::{scheduled::MAX_TIMES, SiteCache},
    observe::log::{Log, Name},
    request::{front::Front, route::Site},
    support::{
        clock, signal_mask,
        wall_timer::{Wake, WallTimer},
    },
};

/// The threads end with this.
pub struct Scheduling {
    wake: Arc<Wake>,
    is_over: Arc<AtomicBool>,
    front: Weak<Front>,
}

impl Scheduling {
    /// Must be called within the event loop of the main thread.
    pub fn begin(front: &Arc<Front>) -> io::Result<Scheduling> {
        let (wake, timer) = (Arc::new(Wake::new()?), WallTimer::new()?);
        let is_over = Arc::new(AtomicBool::new(false));
        let (jobs, work) = jobs::queue();
        let event_loop = Handle::current();
        let preparing = thread::Builder::new().name("preparing".into());
        preparing.spawn(move || {
            signal_mask::block();
            preparing::run(&work, &event_loop);
        })?;
        let driver = Driver { front: Arc::downgrade(front), jobs, known: HashMap::new() };
        let (waking, over) = (wake.clone(), is_over.clone());
        let driving = thread::Builder::new().name("scheduling".into());
        driving.spawn(move || {
            signal_mask::block();
            driver.run(&timer, &waking, &over);
        })?;
        front.cache.changes().set_wake(Some(wake.clone()));
        Ok(Scheduling { wake, is_over, front: Arc::downgrade(front) })
    }
}

impl Drop for Scheduling {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.wake.wake();
        if let Some(front) = self.front.upgrade() {
            front.cache.changes().set_wake(None);
        }
    }
}

struct Driver {
    front: Weak<Front>,
    jobs: Jobs,
    /// By the site's name. Another cache of the same name is another site.
    known: HashMap<String, (Weak<SiteCache>, Option<Arc<KeepingFile>>)>,
}

impl Driver {
    fn run(mut self, timer: &WallTimer, wake: &Wake, is_over: &AtomicBool) {
        while !is_over.load(Relaxed) {
            let Some(front) = self.front.upgrade() else { return };
            let next = self.turn(&front, clock::unix_millis());
            drop(front);
            if timer.wait(next, wake).is_err() {
                return;
            }
        }
    }

    /// Does what is due. Returns when the next thing may be.
    fn turn(&mut self, front: &Arc<Front>, wall: Millis) -> Option<Millis> {
        let changes = front.cache.changes();
        let (is_purged, is_dropped, is_met) = (changes.take_purged(), changes.take_dropped(), changes.take_met());
        let news = News { is_purged, is_dropped, is_met };
        let sites = front.routes().all().to_vec();
        let mut next: Option<Millis> = None;
        for (site, cache) in sites.iter().filter_map(|site| Some((site, site.cache.as_ref()?))) {
            let file = self.file_of(front, site, cache, wall);
            let log = front.log.of(&site.config.name);
            let served = Served { site, cache, file, log, jobs: &self.jobs };
            if let Some(at) = served.turn(&news, wall) {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        let caches: Vec<&Arc<SiteCache>> = sites.iter().filter_map(|site| site.cache.as_ref()).collect();
        changes.keep_of(&caches);
        next
    }

    /// Where the site's prepared pages are kept. What was kept there before is taken up when the site is met.
    fn file_of(
        &mut self,
        front: &Front,
        site: &Arc<Site>,
        cache: &Arc<SiteCache>,
        wall: Millis,
    ) -> Option<Arc<KeepingFile>> {
        let name = &site.config.name;
        if let Some((known, file)) = self.known.get(name) {
            if std::ptr::eq(known.as_ptr(), Arc::as_ptr(cache)) {
                return file.clone();
            }
        }
        let file = KeepingFile::of(&site.config).map(Arc::new);
        // In a cluster nobody knows whether they were purged while this server was away.
        if let (Some(file), None) = (&file, &front.cluster) {
            keeping::take_up(file, cache, wall);
        }
        self.known.insert(name.clone(), (Arc::downgrade(cache), file.clone()));
        file
    }
}

/// What has happened since the last turn.
struct News {
    /// A purge has met something that was prepared.
    is_purged: bool,
    /// Something that was prepared is not good any more.
    is_dropped: bool,
    /// A page was asked for that may not be prepared.
    is_met: bool,
}

/// A site, and all that its pages are prepared with.
struct Served<'a> {
    site: &'a Arc<Site>,
    cache: &'a Arc<SiteCache>,
    file: Option<Arc<KeepingFile>>,
    log: Log,
    jobs: &'a Jobs,
}

impl Served<'_> {
    fn turn(&self, news: &News, wall: Millis) -> Option<Millis> {
        let (due, late, next) = self.plan(news, wall);
        for (at, step) in due {
            self.take(at, step, wall);
        }
        for at in late {
            self.send(at, Work::Add);
        }
        if news.is_dropped {
            self.send(wall, Work::Save);
        }
        next
    }

    /// What is due, the times for which pages came late, and when something may be due next.
    fn plan(&self, news: &News, wall: Millis) -> (Vec<(Millis, Step)>, Vec<Millis>, Option<Millis>) {
        let (mut due, mut late) = (Vec::new(), Vec::new());
        let (times, prepared) = (self.cache.schedule().times(wall), self.cache.prepared_times());
        let mut plans = self.cache.schedule().plans.lock();
        // A time that nobody says any more is of no use.
        plans.retain(|at, _| *at <= wall || times.contains_key(at) || prepared.contains(at));
        for at in &prepared {
            plans.entry(*at).or_insert_with(|| Plan::new(*at, PREPARE));
        }
        for (at, prepare) in times {
            plans.entry(at).or_insert_with(|| Plan::new(at, prepare)).prepare = prepare;
        }
        for plan in plans.values_mut() {
            if news.is_purged {
                plan.prepare_again();
            }
            // What is prepared from now on has all pages that are known.
            let was_prepared = plan.is_prepared();
            while let Some(step) = plan.due(wall) {
                plan.took(step, wall);
                due.push((plan.at, step));
                if step == Step::Forget {
                    break;
                }
            }
            if news.is_met && was_prepared && !plan.is_swapped() {
                late.push(plan.at);
            }
        }
        let is_over = |at: &Millis| due.contains(&(*at, Step::Forget));
        plans.retain(|at, _| !is_over(at));
        let past: Vec<Millis> = plans.range(..=wall).map(|(at, _)| *at).filter(|at| !prepared.contains(at)).collect();
        past.iter().rev().skip(MAX_TIMES).for_each(|at| drop(plans.remove(at)));
        (due, late, plans.values().map(|plan| plan.wake_at(wall)).min())
    }

    fn send(&self, at: Millis, work: Work) {
        let (site, cache, file, log) = (self.site.clone(), self.cache.clone(), self.file.clone(), self.log.clone());
        self.jobs.send(Job { site, cache, file, log, at, work });
    }

    fn say(&self, at: Millis, text: &str) {
        self.log.event(Name::Scheduled, format!("Scheduled {}: {text}", shown(at)));
    }

    fn take(&self, at: Millis, step: Step, wall: Millis) {
        match step {
            Step::Prepare => self.send(at, Work::Prepare),
            Step::Recheck => self.send(at, Work::Recheck),
            Step::Compare => self.send(at, Work::Compare),
            Step::Swap => {
                let count = self.cache.swap(at, wall);
                let dynamic = mark_swapped(self.cache, at);
                if count + dynamic > 0 {
                    let pages = if count == 1 { "1 page has".into() } else { format!("{count} pages have") };
                    let rest =
                        if dynamic == 0 { String::new() } else { format!(", {dynamic} rendered when asked for") };
                    self.say(at, &format!("{pages} changed{rest}"));
                }
                self.send(at, Work::Save);
            }
            Step::Undo => {
                self.cache.undo(at);
                self.say(at, "the clock was set back; the pages are those of before again");
                self.send(at, Work::Recheck);
            }
            Step::Forget => self.cache.forget(at),
        }
    }
}

/// The states of the pages after the change. Returns how many stay dynamic.
fn mark_swapped(cache: &SiteCache, at: Millis) -> usize {
    use scheduled::plan::PageState;
    let mut plans = cache.schedule().plans.lock();
    let Some(plan) = plans.get_mut(&at) else { return 0 };
    for state in plan.pages.values_mut() {
        match state {
            PageState::Ready => *state = PageState::Swapped,
            PageState::Waiting | PageState::Preparing => {
                *state = PageState::Dynamic { why: "there was no time to render it".into(), at: String::new() };
            }
            _ => {}
        }
    }
    plan.count("dynamic")
}
