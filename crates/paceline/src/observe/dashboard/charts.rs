//! The dashboard's charts: what is drawn in each.
//! It never draws.

use maud::Markup;
use units::{millis, number};

use super::{
    chart::{Chart, Fold, Line},
    history::{Mark, Sample, Span},
    view::View,
};

/// The colours of processes, in their order.
const COLOURS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Processes that have a curve of their own.
const MAX: usize = 12;

impl<'a> View<'a> {
    fn marks(&self) -> Vec<&'a Mark> {
        self.history.marks().collect()
    }

    fn line(
        &self,
        name: &str,
        class: &'static str,
        fold: Fold,
        filled: bool,
        of: fn(&Sample) -> Option<f64>,
    ) -> Line<'a> {
        let points = self.history.samples(self.span).filter_map(move |sample| Some((sample.at, of(sample)?)));
        Line { name: name.into(), class, fold, filled, points: Box::new(points) }
    }

    fn most(&self, of: fn(&Sample) -> Option<f64>) -> f64 {
        self.history.samples(self.span).filter_map(of).fold(0.0, f64::max)
    }

    fn within(&self) -> &'static str {
        match self.span {
            Span::TenMinutes => "the last 10 minutes",
            Span::TwoHours => "the last 2 hours",
        }
    }

    /// All of them, by the ids of their figures.
    pub(super) fn charts(&self) -> Vec<(&'static str, Markup)> {
        let charts = [self.requests(), self.times(), self.queue(), self.hits(), self.memory()];
        charts.into_iter().map(|chart| (chart.id, chart.render())).collect()
    }

    fn chart(
        &self,
        id: &'static str,
        title: &'static str,
        said: String,
        lines: Vec<Line<'a>>,
        unit: fn(f64) -> String,
    ) -> Chart<'a> {
        Chart {
            id,
            title,
            said,
            span: self.span,
            now: self.now,
            lines,
            marks: self.marks(),
            unit,
            least: 0.0,
            most: None,
            grain: 1.0,
        }
    }

    fn requests(&self) -> Chart<'a> {
        let now = self.history.last(5);
        let said = format!(
            "{} a second, at most {} in {}",
            number(now.requests),
            number(self.most(|sample| Some(sample.requests))),
            self.within()
        );
        let lines = vec![
            self.line("all", "a", Fold::Mean, true, |sample| Some(sample.requests)),
            self.line("answered 5xx", "bad", Fold::Mean, true, |sample| {
                Some(sample.failed).filter(|failed| *failed > 0.0)
            }),
        ];
        Chart { least: 5.0, ..self.chart("requests", "Requests", said, lines, |value| format!("{}/s", number(value))) }
    }

    fn times(&self) -> Chart<'a> {
        let said = match self.history.samples(self.span).filter(|sample| sample.total_median.is_some()).last() {
            Some(Sample { total_median: Some(total), app_median: Some(app), .. }) => {
                format!("median {}, in the application {}", millis(*total), millis(*app))
            }
            Some(Sample { total_median: Some(total), .. }) => format!("median {}", millis(*total)),
            _ => format!("no requests in {}", self.within()),
        };
        let lines = vec![
            self.line("outside, p95", "a thin", Fold::Mean, false, |sample| sample.total_p95),
            self.line("outside, median", "a", Fold::Mean, false, |sample| sample.total_median),
            self.line("in the app, p95", "b thin", Fold::Mean, false, |sample| sample.app_p95),
            self.line("in the app, median", "b", Fold::Mean, false, |sample| sample.app_median),
        ];
        Chart { least: 1.0, ..self.chart("times", "Time to answer", said, lines, millis) }
    }

    fn queue(&self) -> Chart<'a> {
        let now = self.history.last(1);
        let said = format!("{} waiting, {} with a worker", number(now.waiting), number(now.busy));
        let lines = vec![
            self.line("with a worker", "a", Fold::Mean, false, |sample| Some(sample.busy)),
            self.line("waiting", "c", Fold::Most, true, |sample| Some(sample.waiting)),
        ];
        Chart { least: 4.0, ..self.chart("queue", "Queue", said, lines, number) }
    }

    fn hits(&self) -> Chart<'a> {
        let share = |value: f64| format!("{:.0} %", value * 100.0);
        let said = match self.cache.asked {
            0 => "no requests to the page cache yet".into(),
            asked => format!(
                "{:.1} % of {} requests answered from the page cache",
                self.cache.hits as f64 / asked as f64 * 100.0,
                number(asked as f64)
            ),
        };
        let lines = vec![self.line("hits", "d", Fold::Mean, true, |sample| sample.hit_ratio)];
        Chart { most: Some(1.0), ..self.chart("hits", "Cache hits", said, lines, share) }
    }

    fn memory(&self) -> Chart<'a> {
        let alone = self.sites.len() < 2 || self.site.is_some();
        let series: Vec<_> = self.memories.of_site(self.site).collect();
        let from = series.len().saturating_sub(MAX);
        let lines = series.into_iter().skip(from).enumerate().map(|(nth, (who, samples))| {
            let process = match who.index {
                0 => format!("preloader {}", who.pid),
                index => format!("worker {index} ({})", who.pid),
            };
            let name = if alone { process } else { format!("{} {process}", who.site) };
            let points = Box::new(samples.iter().map(|(at, bytes)| (*at, *bytes as f64)));
            Line { name, class: COLOURS[nth % COLOURS.len()], fold: Fold::Mean, filled: false, points }
        });
        let lines = lines.collect();
        let workers: u64 = self.workers.iter().filter_map(|worker| worker.memory).sum();
        let said = format!(
            "private memory: Ruby processes {}, front {}",
            units::bytes(workers),
            self.front.memory.map_or("?".into(), units::bytes)
        );
        Chart {
            least: (16 << 20) as f64,
            grain: (1 << 20) as f64,
            ..self.chart("memory", "Memory of each process", said, lines, |value| units::bytes(value as u64))
        }
    }
}
