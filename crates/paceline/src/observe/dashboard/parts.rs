//! The parts of the dashboard's page that change while it is looked at, each by the id of the element that it fills.
//! It never lets what an app or a client chose through unescaped.

use std::fmt::Write;

use super::{
    html::{escape, grouped, ms, number, since, size},
    view::{Live, Trouble, View, Worker},
};

/// Rows of a table.
const MAX_LIVE: usize = 12;
const MAX_TROUBLES: usize = 12;

impl View<'_> {
    /// Everything that changes.
    pub fn parts(&self) -> Vec<(&'static str, String)> {
        let mut parts = vec![
            ("state", self.state()),
            ("figures", self.figures()),
            ("live", self.live()),
            ("workers", self.processes()),
            ("troubles", self.troubles()),
            ("reasons", self.reasons()),
        ];
        parts.append(&mut self.charts());
        parts
    }

    fn shown_sites(&self) -> impl Iterator<Item = &super::view::SiteState> {
        self.sites.iter().filter(|site| self.site.is_none_or(|name| name == site.name))
    }

    fn state(&self) -> String {
        let mut html = String::new();
        for site in self.shown_sites() {
            let generation = match (site.generation, site.boots) {
                (0, _) => String::new(),
                (number, false) => format!("generation {number}"),
                (number, true) => format!("generation {number}, the next one is booting"),
            };
            let facts: Vec<String> =
                [generation, site.versions.clone()].into_iter().filter(|fact| !fact.is_empty()).collect();
            let _ = write!(
                html,
                "<p class=site><b class=\"badge {}\">{}</b> <strong>{}</strong> <span>{}</span></p>",
                site.standing,
                site.standing,
                escape(&site.name),
                escape(&facts.join(" · "))
            );
            if let Some(failure) = &site.failure {
                let serves = if site.standing == "ready" {
                    "The last restart failed; the previous generation still serves. "
                } else {
                    ""
                };
                let page =
                    site.incident.as_ref().map(|id| format!(" <a href=\"/incidents/{id}\">Why</a>", id = escape(id)));
                let _ = write!(html, "<p class=alarm>{serves}{}{}</p>", escape(failure), page.unwrap_or_default());
            }
        }
        html
    }

    fn figures(&self) -> String {
        let (now, quiet) = (self.history.last(5), "–");
        let recent = self
            .history
            .samples(super::history::Span::TenMinutes)
            .filter(|sample| sample.total_median.is_some())
            .last();
        let recent = recent.filter(|sample| self.now - sample.at < 30.0);
        let time = |value: Option<f64>| value.map_or(quiet.into(), ms);
        let of = |median: Option<f64>, p95: Option<f64>| {
            (time(median), p95.map_or("no requests".into(), |p95| format!("p95 {}", ms(p95))))
        };
        let (outside, outside_more) = of(recent.and_then(|s| s.total_median), recent.and_then(|s| s.total_p95));
        let (inside, inside_more) = of(recent.and_then(|s| s.app_median), recent.and_then(|s| s.app_p95));
        let failed = if now.failed > 0.0 {
            format!("{}/s answered 5xx", number(now.failed))
        } else {
            "none answered 5xx".into()
        };
        let ratio = self
            .cache
            .asked
            .checked_sub(1)
            .map_or(quiet.into(), |_| format!("{:.0} %", self.cache.hits as f64 / self.cache.asked as f64 * 100.0));
        let ruby: u64 = self.workers.iter().filter_map(|worker| worker.memory).sum();
        let memory = ruby + self.front.memory.unwrap_or(0);
        let tiles = [
            (
                "Requests",
                format!("{}<small>/s</small>", number(now.requests)),
                failed,
                if now.failed > 0.0 { " bad" } else { "" },
            ),
            ("Outside", outside, outside_more, ""),
            ("In the app", inside, inside_more, ""),
            (
                "Waiting",
                number(now.waiting),
                format!("{} with a worker", number(now.busy)),
                if now.waiting >= 1.0 { " warn" } else { "" },
            ),
            ("Cache hits", ratio, format!("of {} requests", grouped(self.cache.asked)), ""),
            (
                "Memory",
                if memory == 0 { quiet.into() } else { size(memory) },
                format!("front {}", self.front.memory.map_or("?".into(), size)),
                "",
            ),
        ];
        let tile = |(name, value, more, class): (&str, String, String, &str)| {
            format!(
                "<div class=\"tile{class}\"><dt>{name}</dt><dd>{value}</dd><dd class=more>{}</dd></div>",
                escape(&more)
            )
        };
        tiles.into_iter().map(tile).collect()
    }

    fn live(&self) -> String {
        if self.live.is_empty() {
            return "<p class=empty>No requests in progress.</p>".into();
        }
        let row = |live: &Live| {
            let worker =
                live.worker.map_or(String::new(), |(index, thread)| format!("worker {index}, thread {thread}"));
            let slow = if live.age_ms > 5000 { " class=warn" } else { "" };
            format!(
                "<tr{slow}><td class=n>{}</td><td>{}</td><td class=path>{} {}</td><td>{}</td></tr>",
                ms(live.age_ms as f64),
                live.step,
                escape(&live.method),
                escape(&live.path),
                escape(&worker)
            )
        };
        let rows: String = self.live.iter().take(MAX_LIVE).map(row).collect();
        let more = match self.live_count.saturating_sub(self.live.len().min(MAX_LIVE)) {
            0 => String::new(),
            more => format!("<p class=empty>and {} more</p>", grouped(more as u64)),
        };
        table(&["#age", "step", "request", "where"], &rows) + &more
    }

    fn processes(&self) -> String {
        let many = self.sites.len() > 1 && self.site.is_none();
        let row = |worker: &Worker| {
            let who = match worker.index {
                0 => format!("preloader · g{}", worker.generation),
                index => format!("worker {index} · g{}", worker.generation),
            };
            let who = if many { format!("{} {who}", worker.site) } else { who };
            let (busy, answered) = match worker.index {
                0 => (String::new(), String::new()),
                _ => (grouped(worker.busy as u64), grouped(worker.answered)),
            };
            format!(
                "<tr><td>{}</td><td><b class=\"badge {}\">{}</b></td><td class=n>{}</td><td class=n>{busy}</td><td class=n>{answered}</td><td class=n>{}</td><td class=n>{}</td></tr>",
                escape(&who),
                worker.state,
                worker.state,
                worker.memory.map_or("–".into(), size),
                since(worker.age),
                worker.pid
            )
        };
        let rows: String = self.workers.iter().map(row).collect();
        let front = format!(
            "<tr><td>front, Paceline {}</td><td></td><td class=n>{}</td><td></td><td></td><td class=n>{}</td><td class=n>{}</td></tr>",
            self.front.version,
            self.front.memory.map_or("–".into(), size),
            since(self.front.up),
            self.front.pid
        );
        table(&["process", "", "#memory", "#in progress", "#answered", "#age", "#pid"], &(rows + &front))
    }

    fn troubles(&self) -> String {
        if self.troubles.is_empty() {
            return "<p class=empty>No incidents.</p>".into();
        }
        let row = |trouble: &Trouble| {
            let times =
                if trouble.times > 1 { format!(" <b>{} times</b>", grouped(trouble.times)) } else { String::new() };
            let first = trouble.what.lines().next().unwrap_or_default();
            format!(
                "<li><a href=\"{}\"><b class=\"badge kind\">{}</b> <span class=what>{}</span></a>{times} <span class=ago>{} ago</span></li>",
                escape(&trouble.href),
                escape(&trouble.kind),
                escape(first),
                since(self.now - trouble.at)
            )
        };
        let rows: String = self.troubles.iter().take(MAX_TROUBLES).map(row).collect();
        format!("<ul>{rows}</ul>")
    }

    fn reasons(&self) -> String {
        if self.cache.reasons.is_empty() {
            return "<p class=empty>No misses.</p>".into();
        }
        let most = self.cache.reasons.iter().map(|(.., count)| *count).max().unwrap_or(1).max(1);
        let row = |(word, meaning, count): &(String, String, u64)| {
            let share = *count as f64 / most as f64 * 100.0;
            format!(
                "<tr><td><code>{}</code></td><td>{}</td><td class=n>{}</td><td class=bar><svg width=\"100%\" height=8 aria-hidden=true><rect width=\"{share:.1}%\" height=8 rx=2 /></svg></td></tr>",
                escape(word),
                escape(meaning),
                grouped(*count)
            )
        };
        let rows: String = self.cache.reasons.iter().take(8).map(row).collect();
        table(&["why", "", "#requests", ""], &rows)
    }
}

/// A head that begins with # is one of numbers.
fn table(heads: &[&str], rows: &str) -> String {
    let head = |head: &&str| match head.strip_prefix('#') {
        Some(head) => format!("<th scope=col class=n>{head}</th>"),
        None => format!("<th scope=col>{head}</th>"),
    };
    let heads: String = heads.iter().map(head).collect();
    format!("<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
}
