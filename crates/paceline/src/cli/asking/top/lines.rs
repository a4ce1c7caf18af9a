//! `paceline top` where there is no terminal: a line for each site. Pure; it never prints.

use units::{grouped, millis};

use super::figures::{Figures, SiteFigures};

pub fn of(figures: &Figures) -> String {
    figures.sites.iter().map(|site| format!("{}: {}\n", site.name, facts(site).join(", "))).collect()
}

fn facts(site: &SiteFigures) -> Vec<String> {
    let mut facts = vec![site.state.clone(), format!("{} requests/s", rate(site.per_second))];
    if let Some([median, p95, p99]) = site.times {
        facts.push(format!("median {}, p95 {}, p99 {}", millis(median), millis(p95), millis(p99)));
    }
    if site.threads > 0 {
        facts.push(format!("{} waiting, {} of {} threads busy", grouped(site.waiting), site.busy, site.threads));
        let memory = site.memory().map(|bytes| format!(" with {}", units::bytes(bytes))).unwrap_or_default();
        let several = if site.workers.len() == 1 { "" } else { "s" };
        facts.push(format!("{} worker{several}{memory}", site.workers.len()));
    }
    facts.extend(site.hits().map(|share| format!("{share:.1} % from the cache")));
    facts.extend(site.failed().filter(|share| *share > 0.0).map(|share| format!("{share:.1} % failed (5xx)")));
    facts.extend(site.routes.first().map(|(route, time)| format!("slowest {route} {}", millis(*time))));
    facts
}

/// Requests per second: with a digit behind the point where there are few.
pub fn rate(per_second: f64) -> String {
    match per_second {
        ..10.0 => format!("{per_second:.1}"),
        _ => grouped(per_second.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::figures::sample, *};

    #[test]
    fn a_line_for_each_site() {
        let wanted = "\
docs: files, 0.0 requests/s
shop: ready, 100 requests/s, median 1.50 ms, p95 20.2 ms, p99 1.23 s, 4 waiting, 2 of 10 threads busy, 2 workers with 96.0 MB, \
75.0 % from the cache, 1.0 % failed (5xx), slowest GET /reports/*\u{fffd} 812 ms
";
        let lines = of(&sample());
        let mut sorted: Vec<&str> = lines.lines().collect();
        sorted.sort_unstable();
        assert_eq!(sorted.join("\n") + "\n", wanted);
    }

    #[test]
    fn rates() {
        assert_eq!([0.04, 9.95, 10.4, 12_345.6].map(rate), ["0.0", "9.9", "10", "12,346"]);
    }
}
