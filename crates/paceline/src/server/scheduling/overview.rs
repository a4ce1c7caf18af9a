//! What is scheduled, as JSON, for `paceline schedule`. It never changes anything.

use scheduled::{
    plan::{PageState, Plan},
    Millis,
};
use serde_json::{json, Map, Value};

use crate::request::front::Front;

/// Of all sites that have something scheduled.
pub fn overview(front: &Front, wall: Millis) -> Value {
    let mut sites = Map::new();
    for site in front.routes().all() {
        let Some(cache) = &site.cache else { continue };
        let mut plans: Vec<Plan> = cache.schedule().plans.lock().values().cloned().collect();
        // Before its time to be prepared a plan has no pages of its own.
        for plan in plans.iter_mut().filter(|plan| !plan.is_prepared()) {
            for page in cache.schedule().pages_at(plan.at) {
                plan.pages.entry(page.url.to_string()).or_insert(PageState::Waiting);
            }
        }
        let plans: Vec<Value> = plans.iter().map(|plan| shown(plan, wall)).collect();
        if !plans.is_empty() {
            sites.insert(site.config.name.clone(), plans.into());
        }
    }
    json!({ "now": wall, "sites": sites })
}

/// Times in milliseconds.
fn shown(plan: &Plan, wall: Millis) -> Value {
    let pages: Vec<Value> = plan.pages.iter().map(|(url, state)| page(url, state)).collect();
    json!({
        "at": plan.at,
        "in": plan.at as i64 - wall as i64,
        "prepared_from": plan.at.saturating_sub(plan.prepare),
        "is_prepared": plan.is_prepared(),
        "has_changed": plan.is_swapped(),
        "pages": pages,
    })
}

fn page(url: &str, state: &PageState) -> Value {
    let mut value = json!({ "url": url, "state": state.as_str() });
    match state {
        PageState::Dynamic { why, at } => {
            value["why"] = why.as_str().into();
            value["at"] = at.as_str().into();
        }
        PageState::Differs(what) => value["why"] = what.as_str().into(),
        _ => {}
    }
    value
}
