//! The parts of the dashboard's page that change while it is looked at, each by the id of the element that it fills.

use maud::{html, Markup};
use units::{age, grouped, millis, number};

use super::{
    advice,
    history::Span,
    html::{table, visible},
    view::{Live, Trouble, View, Worker},
};

/// Rows of a table.
const MAX_LIVE: usize = 12;
const MAX_TROUBLES: usize = 12;

impl View<'_> {
    /// Everything that changes.
    pub fn parts(&self) -> Vec<(&'static str, Markup)> {
        let mut parts = vec![
            ("state", self.state()),
            ("figures", self.figures()),
            ("live", self.live()),
            ("workers", self.processes()),
            ("incidents", troubles(&self.incidents, self.now, "No incidents.")),
            ("failed", troubles(&self.failed, self.now, "No request has failed in the application.")),
            ("reasons", self.reasons()),
        ];
        parts.extend(self.cluster().map(|cluster| ("cluster", cluster)));
        parts.append(&mut self.charts());
        parts
    }

    fn shown_sites(&self) -> impl Iterator<Item = &super::view::SiteState> {
        self.sites.iter().filter(|site| self.site.is_none_or(|name| name == site.name))
    }

    fn state(&self) -> Markup {
        html! {
            @for site in self.shown_sites() {
                @let generation = match (site.generation, site.boots) {
                    (0, _) => String::new(),
                    (number, false) => format!("generation {number}"),
                    (number, true) => format!("generation {number}, the next one is booting"),
                };
                @let facts = [&*generation, &*site.versions].into_iter().filter(|fact| !fact.is_empty());
                p.site {
                    (badge(site.standing)) " " strong { (visible(&site.name)) } " "
                    span { (visible(&facts.collect::<Vec<_>>().join(" · "))) }
                    @if !matches!(site.standing, "files" | "upstream") { " " a href=(advice::address(&site.name)) { "Advice" } }
                }
                @for note in &site.notes { p.site { span { (note) } } }
                @if let Some(failure) = &site.failure {
                    p.alarm {
                        @if site.standing == "ready" { "The last restart failed; the previous generation still serves. " }
                        (visible(failure))
                        @if let Some(id) = &site.incident { " " a href={ "/incidents/" (id) } { "Why" } }
                    }
                }
            }
        }
    }

    fn figures(&self) -> Markup {
        let (now, quiet) = (self.history.last(5), "–");
        let recent = self.history.samples(Span::TenMinutes).filter(|sample| sample.total_median.is_some()).last();
        let recent = recent.filter(|sample| self.now - sample.at < 30.0);
        let of = |median: Option<f64>, p95: Option<f64>| {
            (
                median.map_or(quiet.into(), millis),
                p95.map_or("no requests".into(), |p95| format!("p95 {}", millis(p95))),
            )
        };
        let outside = of(recent.and_then(|s| s.total_median), recent.and_then(|s| s.total_p95));
        let inside = of(recent.and_then(|s| s.app_median), recent.and_then(|s| s.app_p95));
        let failed = if now.failed > 0.0 {
            format!("{}/s answered 5xx", number(now.failed))
        } else {
            "none answered 5xx".into()
        };
        let ratio = match self.cache.asked {
            0 => quiet.into(),
            asked => format!("{:.0} %", self.cache.hits as f64 / asked as f64 * 100.0),
        };
        let ruby: u64 = self.workers.iter().filter_map(|worker| worker.memory).sum();
        let memory = ruby + self.front.memory.unwrap_or(0);
        let memory = if memory == 0 { quiet.into() } else { units::bytes(memory) };
        let asked = format!("of {} requests", grouped(self.cache.asked));
        let front = format!("front {}", self.front.memory.map_or("?".into(), units::bytes));
        let tile = |class: &str, name: &str, value: Markup, more: String| {
            html! { div class={ "tile" (class) } { dt { (name) } dd { (value) } dd.more { (more) } } }
        };
        let text = |value: String| html! { (value) };
        let mut with_worker = format!("{} with a worker", number(now.busy));
        if now.streams >= 1.0 {
            with_worker.push_str(&format!(", {} streams", number(now.streams)));
        }
        let waits = if now.waiting >= 1.0 { " warn" } else { "" };
        html! {
            (tile(
                if now.failed > 0.0 { " bad" } else { "" },
                "Requests",
                html! { (number(now.requests)) small { "/s" } },
                failed,
            ))
            (tile("", "Outside", text(outside.0), outside.1))
            (tile("", "In the app", text(inside.0), inside.1))
            (tile(waits, "Waiting", text(number(now.waiting)), with_worker))
            (tile("", "Cache hits", text(ratio), asked))
            (tile("", "Memory", text(memory), front))
        }
    }

    fn live(&self) -> Markup {
        if self.live.is_empty() {
            return empty("No requests in progress.");
        }
        let row = |live: &Live| {
            html! {
                tr class=[(live.age_ms > 5000).then_some("warn")] {
                    td.n { (millis(live.age_ms as f64)) }
                    td { (live.step) }
                    td.path { (visible(&live.method)) " " (visible(&live.path)) }
                    td { @if let Some((index, thread)) = live.worker { "worker " (index) ", thread " (thread) } }
                }
            }
        };
        let more = self.live_count.saturating_sub(self.live.len().min(MAX_LIVE));
        html! {
            (table(
                &["#age", "step", "request", "where"],
                &html! { @for live in self.live.iter().take(MAX_LIVE) { (row(live)) } },
            ))
            @if more > 0 { (empty(&format!("and {} more", grouped(more as u64)))) }
        }
    }

    fn processes(&self) -> Markup {
        let many = self.sites.len() > 1 && self.site.is_none();
        let memory = |bytes: Option<u64>| bytes.map_or("–".into(), units::bytes);
        let row = |worker: &Worker| {
            let counts = worker.index != 0;
            html! {
                tr {
                    td {
                        @if many { (visible(&worker.site)) " " }
                        @if worker.index == 0 { "preloader" } @else { "worker " (worker.index) }
                        " · g" (worker.generation)
                    }
                    td { (badge(worker.state)) }
                    td.n { (memory(worker.memory)) }
                    td.n { @if counts { (grouped(worker.busy as u64)) } }
                    td.n { @if counts { (grouped(worker.answered)) } }
                    td.n { (age(worker.age as u64)) }
                    td.n { (worker.pid) }
                }
            }
        };
        let rows = html! {
            @for worker in &self.workers { (row(worker)) }
            tr {
                td { "front, Paceline " (self.front.version) }
                td {}
                td.n { (memory(self.front.memory)) }
                td {}
                td {}
                td.n { (age(self.front.up as u64)) }
                td.n { (self.front.pid) }
            }
        };
        table(&["process", "", "#memory", "#in progress", "#answered", "#age", "#pid"], &rows)
    }

    fn reasons(&self) -> Markup {
        if self.cache.reasons.is_empty() {
            return empty("No misses.");
        }
        let most = self.cache.reasons.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
        let row = |word: &str, meaning: &str, count: u64| {
            let share = format!("{:.1}%", count as f64 / most as f64 * 100.0);
            html! {
                tr {
                    td { code { (visible(word)) } }
                    td { (visible(meaning)) }
                    td.n { (grouped(count)) }
                    td.bar {
                        svg width="100%" height="8" aria-hidden="true" { rect width=(share) height="8" rx="2" {} }
                    }
                }
            }
        };
        let rows =
            html! { @for (word, meaning, count) in self.cache.reasons.iter().take(8) { (row(word, meaning, *count)) } };
        table(&["why", "", "#requests", ""], &rows)
    }
}

/// A state's word in its colour.
fn badge(state: &str) -> Markup {
    html! { b class={ "badge " (state) } { (state) } }
}

/// Each with its page, the latest first. `none`: said if there are none.
fn troubles(troubles: &[Trouble], now: f64, none: &str) -> Markup {
    if troubles.is_empty() {
        return empty(none);
    }
    let row = |trouble: &Trouble| {
        html! {
            li {
                a href=(trouble.href) {
                    b.badge.kind { (visible(&trouble.kind)) } " "
                    span.what { (visible(trouble.what.lines().next().unwrap_or_default())) }
                }
                @if trouble.times > 1 { " " b { (grouped(trouble.times)) " times" } }
                " " span.ago { (age((now - trouble.at) as u64)) " ago" }
            }
        }
    };
    html! { ul { @for trouble in troubles.iter().take(MAX_TROUBLES) { (row(trouble)) } } }
}

fn empty(words: &str) -> Markup {
    html! { p.empty { (words) } }
}
