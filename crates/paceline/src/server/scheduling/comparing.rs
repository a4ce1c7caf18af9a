//! After a change: whether the application says what was prepared. A sample of the pages is rendered once more, with the
//! clock as it is. What differs between two such answers (tokens, times, ids) is no difference.
//! It never changes a page.

use std::cmp::Reverse;

use doctor::mask::{Answer, Difference, Mask};
use scheduled::plan::PageState;
use tokio::runtime::Handle;

use super::jobs::{shown, Job};
use crate::{
    caching::scheduled::{PreparedPage, RenderedPage},
    observe::log::Name,
    request::preview::rendering::{offering, Ask, RenderError, Rendered, Renderer},
    support::clock,
};

/// Pages of a sample.
const SAMPLE: usize = 10;

pub fn compare(job: &Job, event_loop: &Handle) {
    let mut prepared = job.cache.prepared_at(job.at);
    prepared.sort_by_key(|one| Reverse(one.page.rank()));
    prepared.truncate(SAMPLE);
    let Some(app) = job.site.app.as_ref().filter(|_| !prepared.is_empty()) else { return };
    let mut found = Vec::new();
    // Two, so that what only tells one process from another is no difference.
    let copies = || Ok::<_, RenderError>((Renderer::fork(app, event_loop)?, Renderer::fork(app, event_loop)?));
    let compared = copies().and_then(|(mut one_copy, mut other_copy)| {
        for one in &prepared {
            if let Some(difference) = differs(job, one, &mut one_copy, &mut other_copy)? {
                found.push((one.page.url.to_string(), difference));
            }
        }
        Ok(())
    });
    if let Err(why) = compared {
        return job.log.event(Name::Scheduled, format!("Scheduled {}: no sample was compared: {why}", shown(job.at)));
    }
    let say = |text: String| job.log.event(Name::Scheduled, format!("Scheduled {}: {text}", shown(job.at)));
    match found.first() {
        None => say(format!("the application says the same as the pages, {} compared", prepared.len())),
        Some((url, difference)) => say(format!(
            "{} of {} pages compared differ from what the application now says, such as {url}: {difference}",
            found.len(),
            prepared.len()
        )),
    }
    if let Some(plan) = job.cache.schedule().plans.lock().get_mut(&job.at) {
        for (url, difference) in found {
            plan.pages.insert(url, PageState::Differs(difference));
        }
    }
}

/// What the application says otherwise, in a line.
fn differs(
    job: &Job,
    prepared: &PreparedPage,
    copy: &mut Renderer,
    other: &mut Renderer,
) -> Result<Option<String>, RenderError> {
    let (scheme, host) = prepared.page.origin();
    let now = clock::unix_millis();
    let headers = offering(&job.site, &prepared.request);
    let ask = Ask { scheme, host, target: prepared.page.target(), headers: &headers, at: now };
    let (one, other) = match (copy.render(&ask)?, other.render_otherwise(&ask)?) {
        (Rendered::Page(one), Rendered::Page(other)) => (one, other),
        (Rendered::Dynamic { why, .. } | Rendered::Failed { why, .. }, _)
        | (_, Rendered::Dynamic { why, .. } | Rendered::Failed { why, .. }) => return Ok(Some(why)),
    };
    let mask = Mask::learn(&[(answer(&one), answer(&other))]);
    if mask.is_too_noisy() {
        return Ok(None);
    }
    Ok(mask.equal(answer(&prepared.rendered), answer(&one)).err().map(|difference| line(&difference)))
}

/// What is compared of a page: its headers are the server's business, too.
fn answer(page: &RenderedPage) -> Answer<'_> {
    Answer { status: page.status.as_u16(), headers: &[], body: &page.body }
}

fn line(difference: &Difference) -> String {
    difference.to_string().split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}
