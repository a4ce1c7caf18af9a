//! The thread that has pages rendered, one after the other, those first that are asked for most. What another front of the
//! cluster renders is taken from there, if it comes in time. It never puts a page in its place.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cache::Millis;
use http::HeaderMap;
use scheduled::plan::PageState;
use tokio::runtime::Handle;

use super::{
    comparing,
    jobs::{shown, Job, JobQueue, Work},
    keeping,
};
use crate::{
    apps::app::App,
    caching::{
        scheduled::{Held, Preparation, PreparedPage, Preparer, RenderedPage, ScheduledPage},
        SiteCache,
    },
    observe::log::Name,
    request::preview::rendering::{offering, Ask, RenderError, Rendered, Renderer},
    support::clock,
};

/// Pages that are prepared for one time, at most.
const MAX_PAGES: usize = 2000;
/// So long pages wait for other fronts without that one comes.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Between two looks for such a page.
const PAUSE: Duration = Duration::from_millis(20);
/// So short before its time no page that is not prepared yet waits for another front: this one must have time to render it.
const NEAR: Millis = 10_000;

/// Ends with the one who gives it work.
pub fn run(work: &JobQueue, event_loop: &Handle) {
    while let Some(job) = work.next() {
        match job.work {
            Work::Prepare | Work::Recheck | Work::Add => prepare(&job, event_loop),
            Work::Compare => comparing::compare(&job, event_loop),
            Work::Save => {}
        }
        if !matches!(job.work, Work::Compare) {
            save(&job);
        }
    }
}

fn save(job: &Job) {
    let Some(file) = &job.file else { return };
    if let Err(error) = keeping::save(file, &job.cache, clock::unix_millis()) {
        job.log.event(
            Name::Scheduled,
            format!("Scheduled: {}: {error}: what is prepared does not outlive the server", file.path().display()),
        );
    }
}

fn prepare(job: &Job, event_loop: &Handle) {
    let (cache, at) = (&job.cache, job.at);
    // The job may have waited until the application's own answers are newer.
    if clock::unix_millis() >= at {
        return;
    }
    cache.meet_plain_paths();
    let mut pages = cache.schedule().pages_at(at);
    pages.truncate(MAX_PAGES);
    if matches!(job.work, Work::Add) {
        pages.retain(|page| state(cache, at, page).is_none());
    } else {
        // Those that are forgotten since, or that say other times too often, stay prepared.
        for prepared in cache.prepared_at(at) {
            if !pages.iter().any(|page| Arc::ptr_eq(page, &prepared.page)) {
                pages.push(prepared.page.clone());
            }
        }
    }
    for page in &pages {
        note(cache, at, page, PageState::Waiting, true);
    }
    if pages.is_empty() {
        return;
    }
    let was_prepared = !cache.prepared_at(at).is_empty();
    let Done { changed, taken, failed } = match prepare_all(job, &pages, event_loop) {
        Ok(done) => done,
        Err(why) => {
            let prepared = cache.prepared_at(at);
            for page in pages.iter().filter(|page| !prepared.iter().any(|one| one.page.url == page.url)) {
                note(cache, at, page, PageState::Dynamic { why: why.to_string(), at: String::new() }, false);
            }
            job.log.event(Name::Scheduled, format!("Scheduled {}: pages can't be rendered before: {why}", shown(at)));
            return;
        }
    };
    // What is past has been told with the change.
    if clock::unix_millis() >= at {
        return;
    }
    if let Some((count, why)) = failed {
        let pages = if count == 1 { "1 page".into() } else { format!("{count} pages") };
        job.log.event(
            Name::Scheduled,
            format!("Scheduled {}: {pages} can't be rendered again and stay as they were prepared: {why}", shown(at)),
        );
    }
    let is_worth_a_line = !was_prepared || changed > 0 && !matches!(job.work, Work::Add);
    if is_worth_a_line {
        let again = if was_prepared { format!(", {changed} of them new since the last look") } else { String::new() };
        let others = if taken > 0 { format!(", {taken} rendered by other servers") } else { String::new() };
        job.log.event(Name::Scheduled, format!("Scheduled {}: {}{again}{others}", shown(at), counted(cache, at)));
    }
}

/// How many are ready, and why not the others.
fn counted(cache: &SiteCache, at: Millis) -> String {
    let plans = cache.schedule().plans.lock();
    let Some(plan) = plans.get(&at) else { return "nothing is prepared".into() };
    let (ready, dynamic) = (plan.count("ready"), plan.count("dynamic"));
    let pages = if ready == 1 { "1 page ready".into() } else { format!("{ready} pages ready") };
    let first = plan.pages.values().find_map(|state| match state {
        PageState::Dynamic { why, at } if at.is_empty() => Some(why.clone()),
        PageState::Dynamic { why, at } => Some(format!("{why}: {at}")),
        _ => None,
    });
    match first {
        Some(why) => format!("{pages}, {dynamic} stay dynamic ({why})"),
        None => pages,
    }
}

/// What came of preparing pages.
#[derive(Default)]
struct Done {
    /// How many are other than they were prepared before.
    changed: usize,
    /// How many of these another front has rendered.
    taken: usize,
    /// How many the application failed to render, while they were prepared before, and why the first of them.
    failed: Option<(usize, String)>,
}

/// Copies of the application, one at a time, from when a page needs one.
struct Copies<'a> {
    app: &'a App,
    event_loop: &'a Handle,
    /// With how many loads of the code had taken over when it was forked.
    copy: Option<(u64, Renderer)>,
}

impl Copies<'_> {
    fn render(&mut self, ask: &Ask) -> Result<Rendered, RenderError> {
        // Pages of the code before are purged when another load takes over; a copy of that code must not render more of them.
        let loads = self.app.loads();
        drop(self.copy.take_if(|(had, _)| *had != loads));
        let (_, copy) = match &mut self.copy {
            Some(copy) => copy,
            none => none.insert((loads, Renderer::fork(self.app, self.event_loop)?)),
        };
        copy.render(ask)
    }

    /// In place of one that a page may have ended.
    fn replace(&mut self) -> Result<(), RenderError> {
        self.copy = None;
        // Should another load take over while it is forked, it is forked once more.
        let loads = self.app.loads();
        self.copy = Some((loads, Renderer::fork(self.app, self.event_loop)?));
        Ok(())
    }
}

fn prepare_all(job: &Job, pages: &[Arc<ScheduledPage>], event_loop: &Handle) -> Result<Done, RenderError> {
    let Some(app) = &job.site.app else {
        return Err(RenderError::OtherServer);
    };
    let (mut copies, mut done) = (Copies { app, event_loop, copy: None }, Done::default());
    let mut left: Vec<&Arc<ScheduledPage>> = pages.iter().collect();
    let mut until: Option<Instant> = None;
    while !left.is_empty() {
        let (count, waits) = (left.len(), until.is_none_or(|until| Instant::now() < until));
        let mut elsewhere = Vec::new();
        for page in left {
            if !prepare_one(job, page, waits && may_wait(job, page), &mut copies, &mut done)? {
                elsewhere.push(page);
            }
        }
        left = elsewhere;
        if left.len() < count {
            until = None;
        } else {
            // All that are left are rendered elsewhere. A front that hangs is not waited for.
            until = until.or_else(|| Some(Instant::now() + longest_wait(job.at, clock::unix_millis())));
            thread::sleep(PAUSE);
        }
    }
    Ok(done)
}

/// For how long other fronts are waited for: half of the time that is left is for what they don't render.
fn longest_wait(at: Millis, wall: Millis) -> Duration {
    Duration::from_millis(at.saturating_sub(wall) / 2).min(LONGEST_WAIT)
}

/// Whether a page may be left to another front. One that is prepared is there at the time in any case.
fn may_wait(job: &Job, page: &Arc<ScheduledPage>) -> bool {
    job.at.saturating_sub(clock::unix_millis()) > NEAR || is_prepared(job, page)
}

fn is_prepared(job: &Job, page: &Arc<ScheduledPage>) -> bool {
    job.cache.prepared_at(job.at).iter().any(|prepared| Arc::ptr_eq(&prepared.page, page))
}

/// Whether nothing is left to do for a page. Else another front renders it.
fn prepare_one(
    job: &Job,
    page: &Arc<ScheduledPage>,
    may_wait: bool,
    copies: &mut Copies,
    done: &mut Done,
) -> Result<bool, RenderError> {
    // What is there by now has to do.
    if clock::unix_millis() >= job.at {
        return Ok(true);
    }
    if !job.cache.schedule().changes_at(page, job.at) {
        called_off(job, page);
        return Ok(true);
    }
    if matches!(state(&job.cache, job.at, page), Some(PageState::Waiting)) {
        note(&job.cache, job.at, page, PageState::Preparing, false);
    }
    let failure = match prepare_page(job, page, may_wait, copies) {
        Ok(Prepared::Page { is_new, is_taken }) => {
            done.changed += usize::from(is_new);
            done.taken += usize::from(is_new && is_taken);
            None
        }
        Ok(Prepared::Elsewhere) => return Ok(false),
        Ok(Prepared::Failed { why, at }) => Some((why, at)),
        Err(error) => {
            // One page may end a copy; the others get another.
            if let Err(none) = copies.replace() {
                failed(job, page, error.to_string(), String::new());
                return Err(none);
            }
            Some((error.to_string(), String::new()))
        }
    };
    if let Some(why) = failure.and_then(|(why, at)| failed(job, page, why, at)) {
        done.failed.get_or_insert((0, why)).0 += 1;
    }
    Ok(true)
}

/// What came of one page.
enum Prepared {
    /// It is ready, or stays dynamic, which is noted. `is_new`: it is another than before; `is_taken`: another front has
    /// rendered it.
    Page { is_new: bool, is_taken: bool },
    /// Another front renders it.
    Elsewhere,
    /// The application has failed.
    Failed { why: String, at: String },
}

impl Prepared {
    /// It stays as it is.
    const UNCHANGED: Prepared = Prepared::Page { is_new: false, is_taken: false };
}

fn prepare_page(
    job: &Job,
    page: &Arc<ScheduledPage>,
    may_wait: bool,
    copies: &mut Copies,
) -> Result<Prepared, RenderError> {
    let before = job.cache.prepared_at(job.at);
    let (mut is_new, mut is_taken) = (false, false);
    for number in 0.. {
        // Visitors in another language may come while the page is rendered.
        let sample = match page.sample(number) {
            Some(sample) => sample,
            None if number == 0 => HeaderMap::new(),
            None => break,
        };
        let wanted = Preparation { page, request: &sample, at: job.at, due: due(job) };
        let (taken, lease) = match job.cache.ask_others(&wanted) {
            Preparer::Done(prepared) => (Some(prepared), None),
            Preparer::Another if may_wait => return Ok(Prepared::Elsewhere),
            Preparer::Another => (None, None),
            Preparer::This(lease) => (None, lease),
        };
        let is_others = taken.is_some();
        let prepared = match taken.map_or_else(|| render(job, page, sample, copies), |taken| Ok(Ok(taken)))? {
            Ok(prepared) => prepared,
            Err(Unready::Dynamic { why, at }) => {
                lease.into_iter().for_each(|lease| lease.decline());
                dynamic(job, page, why, at);
                return Ok(Prepared::UNCHANGED);
            }
            Err(Unready::Failed { why, at }) => {
                lease.into_iter().for_each(|lease| lease.fail());
                return Ok(Prepared::Failed { why, at });
            }
        };
        // From the time on the application's own answers are newer.
        if clock::unix_millis() >= job.at {
            return Ok(Prepared::Page { is_new, is_taken });
        }
        let varies = SiteCache::varies(&prepared);
        let same = |one: &RenderedPage| one.status == prepared.rendered.status && one.body == prepared.rendered.body;
        let is_other = !before.iter().any(|one| one.name() == prepared.name() && same(&one.rendered));
        match job.cache.cache().changes().hold(prepared.clone()) {
            Held::Kept => {}
            // The next round renders it.
            Held::Purged => return Ok(Prepared::Page { is_new, is_taken }),
            Held::Full => {
                let why = "the pages that are prepared take as much memory as the page cache may have";
                dynamic(job, page, why.into(), String::new());
                return Ok(Prepared::Page { is_new, is_taken });
            }
        }
        if !job.cache.schedule().changes_at(page, job.at) {
            // The application has said another time while the page was rendered.
            called_off(job, page);
            return Ok(Prepared::Page { is_new, is_taken });
        }
        lease.into_iter().for_each(|lease| lease.share(&prepared));
        is_new |= is_other;
        is_taken |= is_others;
        if !varies {
            break;
        }
    }
    note(&job.cache, job.at, page, PageState::Ready, false);
    Ok(Prepared::Page { is_new, is_taken })
}

/// Since when the page is to be rendered as it is now.
fn due(job: &Job) -> Millis {
    let wall = clock::unix_millis();
    job.cache.schedule().plans.lock().get(&job.at).map_or(wall, |plan| plan.due_since(wall))
}

/// Why this front has no page.
enum Unready {
    /// It can't be known before.
    Dynamic { why: String, at: String },
    /// The application has failed.
    Failed { why: String, at: String },
}

/// Has a copy of the application render a page.
fn render(
    job: &Job,
    page: &Arc<ScheduledPage>,
    sample: HeaderMap,
    copies: &mut Copies,
) -> Result<Result<Arc<PreparedPage>, Unready>, RenderError> {
    let (scheme, host) = page.origin();
    let moment = job.cache.cache().moment();
    let headers = offering(&job.site, &sample);
    let ask = Ask { scheme, host, target: page.target(), headers: &headers, at: job.at };
    let rendered = match copies.render(&ask)? {
        Rendered::Page(rendered) => rendered,
        Rendered::Dynamic { why, at } => return Ok(Err(Unready::Dynamic { why, at })),
        Rendered::Failed { why, at } => return Ok(Err(Unready::Failed { why, at })),
    };
    let prepared = job.cache.prepared(page, sample, rendered, job.at, moment);
    Ok(prepared.map(Arc::new).map_err(|why| Unready::Dynamic { why: why.to_string(), at: String::new() }))
}

/// A database that is away says nothing of the page: what was prepared before stays, and why is returned. Otherwise the
/// page stays dynamic.
fn failed(job: &Job, page: &Arc<ScheduledPage>, why: String, at: String) -> Option<String> {
    if is_prepared(job, page) {
        return Some(if at.is_empty() { why } else { format!("{why}: {at}") });
    }
    dynamic(job, page, why, at);
    None
}

fn dynamic(job: &Job, page: &ScheduledPage, why: String, at: String) {
    job.cache.drop_prepared(page, job.at);
    note(&job.cache, job.at, page, PageState::Dynamic { why, at }, false);
}

/// The page does not change at this time any more.
fn called_off(job: &Job, page: &ScheduledPage) {
    job.cache.drop_prepared(page, job.at);
    if let Some(plan) = job.cache.schedule().plans.lock().get_mut(&job.at) {
        plan.pages.remove(&*page.url);
    }
}

fn state(cache: &SiteCache, at: Millis, page: &ScheduledPage) -> Option<PageState> {
    cache.schedule().plans.lock().get(&at)?.pages.get(&*page.url).cloned()
}

/// `if_new`: a state that is known stays.
fn note(cache: &SiteCache, at: Millis, page: &ScheduledPage, state: PageState, if_new: bool) {
    if let Some(plan) = cache.schedule().plans.lock().get_mut(&at) {
        let known = plan.pages.contains_key(&*page.url);
        // A page that came late belongs to the other side of the change.
        if !(plan.is_swapped() || known && if_new) {
            plan.pages.insert(page.url.to_string(), state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_time_is_left_for_what_others_do_not_render() {
        let waits = |left: Millis| longest_wait(600_000, 600_000 - left).as_millis();
        assert_eq!([600_000, 10_000, 2_000, 1, 0].map(waits), [5_000, 5_000, 1_000, 0, 0]);
        assert_eq!(longest_wait(5, 9), Duration::ZERO, "its time is over");
    }
}
