//! What crawlers got of a site since the server began, in a line of the dashboard. It never recognizes one.

use units::grouped;

use crate::{
    observe::metrics::{CrawlerOutcome, Snapshot},
    request::route::Site,
};

/// None: they do not come last.
pub fn panel(site: &Site) -> Option<String> {
    site.crawlers.as_ref()?;
    let waiting = site.app.as_ref().map_or(0, |app| app.queue.crawlers().0);
    Some(in_words(&site.metrics.snapshot(), waiting as u64))
}

fn in_words(counts: &Snapshot, waiting: u64) -> String {
    let share = counts.crawlers() as f64 / counts.requests().max(1) as f64 * 100.0;
    let mut words = format!("Crawlers: {share:.1} % of requests");
    for (count, what) in [
        (waiting, "waiting"),
        (counts.of_crawlers(CrawlerOutcome::Stale), "answered with a stale page"),
        (counts.of_crawlers(CrawlerOutcome::Refused), "refused"),
    ] {
        if count > 0 {
            words.push_str(&format!(" · {} {what}", grouped(count)));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::{Kind, RequestOutcome, Site};

    #[test]
    fn only_what_there_is_has_words() {
        let site = Site::new("shop");
        for crawler in [None, None, None, Some(CrawlerOutcome::Stale)] {
            let (kind, aborted) = (Kind::App, false);
            site.count(&RequestOutcome {
                kind,
                status: 200,
                bytes: 0,
                total: 1,
                queue: None,
                app: None,
                aborted,
                crawler,
            });
        }
        let words = "Crawlers: 25.0 % of requests · 2 waiting · 1 answered with a stale page";
        assert_eq!(in_words(&site.snapshot(), 2), words);
    }
}
