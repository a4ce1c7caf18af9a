//! What was measured, over time: a sample each second for ten minutes, and one each ten seconds for two hours.
//! It never asks the clock: every time is handed in. Its memory is bounded.

use std::collections::{BTreeMap, VecDeque};

use crate::observe::metrics::Histogram;

/// Samples of a second that are kept, and of ten.
const FINE: usize = 600;
const COARSE: usize = 720;
/// Seconds of a coarse sample.
pub const COARSE_STEP: f64 = 10.0;
/// Marks that are kept.
const MARKS: usize = 200;
/// Processes whose memory is kept.
const PROCESSES: usize = 64;

/// Counts that only grow, and what is so at the moment.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub requests: u64,
    /// Answered 5xx.
    pub failed: u64,
    /// From head to last byte.
    pub total: Histogram,
    /// In the application.
    pub app: Histogram,
    /// Requests that the page cache answered, and those that it was asked for.
    pub hits: u64,
    pub asked: u64,
    /// Requests that wait for a worker thread, that have one, and threads that have none.
    pub waiting: usize,
    pub busy: usize,
    pub idle: usize,
    /// Threads beside these, which have streams.
    pub streams: usize,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.total.merge(&other.total);
        self.app.merge(&other.app);
        self.hits += other.hits;
        self.asked += other.asked;
        self.waiting += other.waiting;
        self.busy += other.busy;
        self.idle += other.idle;
        self.streams += other.streams;
    }
}

/// One stretch of time. Durations in milliseconds; None: nothing was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Unix seconds of its end.
    pub at: f64,
    /// Per second.
    pub requests: f64,
    /// Per second.
    pub failed: f64,
    pub total_median: Option<f64>,
    pub total_p95: Option<f64>,
    pub app_median: Option<f64>,
    pub app_p95: Option<f64>,
    /// Of requests that the cache was asked for, 0 to 1.
    pub hit_ratio: Option<f64>,
    pub waiting: f64,
    pub busy: f64,
    pub streams: f64,
}

/// Something that happened, for the charts.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Unix seconds.
    pub at: f64,
    pub kind: MarkKind,
    /// A word or two.
    pub label: String,
    /// In a sentence.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A generation took the traffic.
    Generation,
    /// Something went wrong.
    Incident,
}

/// How large the window is that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Span {
    #[default]
    TenMinutes,
    TwoHours,
}

impl Span {
    pub fn seconds(self) -> f64 {
        match self {
            Span::TenMinutes => 600.0,
            Span::TwoHours => 7200.0,
        }
    }

    /// As an address has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Span::TenMinutes => "10m",
            Span::TwoHours => "2h",
        }
    }
}

/// The samples of one site, or of all.
#[derive(Debug, Clone, Default)]
pub struct History {
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
    /// What the last sample of each ended with.
    fine_from: Option<(f64, Counts)>,
    coarse_from: Option<(f64, Counts)>,
    marks: VecDeque<Mark>,
}

impl History {
    /// The counts at this moment (Unix seconds), about once a second.
    pub fn look(&mut self, at: f64, counts: &Counts) {
        if let Some((then, before)) = &self.fine_from {
            // A clock that was set back, or a machine that slept, makes no sample.
            if (0.2..60.0).contains(&(at - then)) {
                push(&mut self.fine, FINE, sample(*then, before, at, counts));
            }
        }
        self.fine_from = Some((at, counts.clone()));
        match &self.coarse_from {
            Some((then, _)) if (0.0..COARSE_STEP - 0.5).contains(&(at - then)) => return,
            Some((then, before)) if (0.0..60.0).contains(&(at - then)) => {
                let mut coarse = sample(*then, before, at, counts);
                // What is so at the moment: on average.
                let since = self.fine.iter().rev().take_while(|sample| sample.at > *then);
                let (many, waiting, busy) = since.fold((0.0, 0.0, 0.0), |(many, waiting, busy), sample| {
                    (many + 1.0, waiting + sample.waiting, busy + sample.busy)
                });
                if many > 0.0 {
                    (coarse.waiting, coarse.busy) = (waiting / many, busy / many);
                }
                push(&mut self.coarse, COARSE, coarse);
            }
            _ => {}
        }
        self.coarse_from = Some((at, counts.clone()));
    }

    pub fn mark(&mut self, mark: Mark) {
        push(&mut self.marks, MARKS, mark);
    }

    pub fn samples(&self, span: Span) -> impl Iterator<Item = &Sample> {
        match span {
            Span::TenMinutes => self.fine.iter(),
            Span::TwoHours => self.coarse.iter(),
        }
    }

    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter()
    }

    /// What the last seconds were, in one: a second with two requests has no percentiles worth telling.
    pub fn last(&self, seconds: usize) -> Sample {
        let mut last = self.fine.back().copied().unwrap_or_default();
        let recent: Vec<&Sample> = self.fine.iter().rev().take(seconds).collect();
        let mean =
            |of: fn(&Sample) -> f64| recent.iter().map(|sample| of(sample)).sum::<f64>() / recent.len().max(1) as f64;
        (last.requests, last.failed) = (mean(|sample| sample.requests), mean(|sample| sample.failed));
        last
    }
}

fn push<T>(ring: &mut VecDeque<T>, most: usize, one: T) {
    ring.push_back(one);
    while ring.len() > most {
        ring.pop_front();
    }
}

fn sample(then: f64, before: &Counts, at: f64, now: &Counts) -> Sample {
    let seconds = at - then;
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let (total, app) = (now.total.since(&before.total), now.app.since(&before.app));
    let ms = |histogram: &Histogram, share| histogram.quantile(share).map(|micros| micros / 1000.0);
    let (hits, asked) = (now.hits.saturating_sub(before.hits), now.asked.saturating_sub(before.asked));
    Sample {
        at,
        requests: rate(now.requests, before.requests),
        failed: rate(now.failed, before.failed),
        total_median: ms(&total, 0.5),
        total_p95: ms(&total, 0.95),
        app_median: ms(&app, 0.5),
        app_p95: ms(&app, 0.95),
        hit_ratio: (asked > 0).then(|| hits as f64 / asked as f64),
        waiting: now.waiting as f64,
        busy: now.busy as f64,
        streams: now.streams as f64,
    }
}

/// A process whose memory is watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    pub site: String,
    pub generation: u64,
    /// 0: the preloader.
    pub index: usize,
    pub pid: i32,
}

/// The memory of processes over time, those that are gone for as long as the window is.
#[derive(Debug, Clone, Default)]
pub struct Memories {
    series: BTreeMap<Who, VecDeque<(f64, u64)>>,
}

impl Memories {
    /// Private bytes of each process at this moment, about every ten seconds.
    pub fn look(&mut self, at: f64, processes: impl IntoIterator<Item = (Who, u64)>) {
        for (who, bytes) in processes {
            if self.series.len() < PROCESSES || self.series.contains_key(&who) {
                push(self.series.entry(who).or_default(), COARSE, (at, bytes));
            }
        }
        self.series.retain(|_, samples| samples.back().is_some_and(|(last, _)| at - last < Span::TwoHours.seconds()));
    }

    pub fn of_site<'a>(&'a self, site: Option<&'a str>) -> impl Iterator<Item = (&'a Who, &'a VecDeque<(f64, u64)>)> {
        self.series.iter().filter(move |(who, _)| site.is_none_or(|site| who.site == site))
    }

    pub fn of_process(&self, pid: i32) -> Option<&VecDeque<(f64, u64)>> {
        let newest = self.series.iter().filter(|(who, _)| who.pid == pid);
        newest.map(|(_, samples)| samples).max_by(|one, other| {
            let last = |samples: &VecDeque<(f64, u64)>| samples.back().map_or(0.0, |(at, _)| *at);
            last(one).total_cmp(&last(other))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: u64) -> Counts {
        Counts { requests, failed: requests / 10, hits: requests / 2, asked: requests, waiting: 4, ..Counts::default() }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let mut history = History::default();
        history.look(100.0, &counts(1000));
        assert_eq!(history.samples(Span::TenMinutes).count(), 0, "one look is no rate");
        history.look(102.0, &counts(1100));
        let sample = *history.samples(Span::TenMinutes).next().unwrap();
        assert_eq!((sample.requests, sample.failed, sample.hit_ratio, sample.waiting), (50.0, 5.0, Some(0.5), 4.0));
        assert_eq!((sample.total_median, sample.app_p95), (None, None));
        history.look(103.0, &counts(1100));
        let quiet = *history.samples(Span::TenMinutes).last().unwrap();
        assert_eq!((quiet.requests, quiet.hit_ratio), (0.0, None));
        assert_eq!(history.last(2).requests, 25.0);
    }

    #[test]
    fn memory_is_bounded_and_the_coarse_samples_reach_further_back() {
        let mut history = History::default();
        for second in 0..10_000_u64 {
            history.look(second as f64, &counts(second * 3));
            history.mark(Mark {
                at: second as f64,
                kind: MarkKind::Incident,
                label: String::new(),
                what: String::new(),
            });
        }
        let (fine, coarse): (Vec<_>, Vec<_>) =
            (history.samples(Span::TenMinutes).collect(), history.samples(Span::TwoHours).collect());
        assert_eq!((fine.len(), coarse.len(), history.marks().count()), (FINE, COARSE, MARKS));
        assert!((coarse[719].at - coarse[0].at - 7190.0).abs() < 1.0, "{} {}", coarse[0].at, coarse[719].at);
        assert!(coarse.iter().all(|sample| (sample.requests - 3.0).abs() < 0.01 && sample.waiting == 4.0));
    }

    #[test]
    fn a_clock_that_jumps_makes_no_sample() {
        let mut history = History::default();
        for at in [1000.0, 1001.0, 50.0, 51.0, 5000.0, 5001.0] {
            history.look(at, &counts(at as u64));
        }
        let ats: Vec<_> = history.samples(Span::TenMinutes).map(|sample| sample.at).collect();
        assert_eq!(ats, [1001.0, 51.0, 5001.0]);
    }

    #[test]
    fn processes_that_are_gone_are_forgotten_in_the_end() {
        let mut memories = Memories::default();
        let who = |pid| Who { site: "shop".into(), generation: 1, index: 1, pid };
        memories.look(0.0, [(who(1), 10)]);
        memories.look(10.0, (2..1000).map(|pid| (who(pid), 20)));
        assert_eq!(memories.of_site(Some("shop")).count(), PROCESSES);
        assert_eq!(memories.of_site(Some("blog")).count(), 0);
        assert_eq!(memories.of_process(1).unwrap().len(), 1);
        memories.look(10_000.0, [(who(2), 30)]);
        assert_eq!(memories.of_site(None).count(), 1);
    }
}
