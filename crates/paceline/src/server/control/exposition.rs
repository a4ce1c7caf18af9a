//! Prometheus' text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/): families of samples, each with
//! its HELP and TYPE. It never knows what is measured.

use std::fmt::{Display, Write};

use crate::observe::metrics::Histogram;

/// What the answer is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets that are told, in microseconds, and as they are written. Each is a bound of `Histogram`,
/// too.
const BOUNDS: [(u64, &str); 20] = [
    (50, "5e-05"),
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1000, "0.001"),
    (2500, "0.0025"),
    (5000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
    (25_000_000, "25"),
    (50_000_000, "50"),
    (100_000_000, "100"),
];

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Counter,
    Gauge,
    Histogram,
}

pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text, as it grows.
#[derive(Default)]
pub struct Exposition(String);

/// A family; its samples follow.
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Exposition {
    pub fn family(&mut self, name: &'static str, kind: Type, help: &str) -> Family<'_> {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { text: &mut self.0, name }
    }

    pub fn text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels, value: impl Display) {
        self.line("", labels, value);
    }

    /// Seconds.
    pub fn histogram(&mut self, labels: Labels, histogram: &Histogram) {
        for (bound, written) in BOUNDS {
            self.line("_bucket", &[labels, &[("le", written)]].concat(), histogram.within(bound));
        }
        let count = histogram.count();
        self.line("_bucket", &[labels, &[("le", "+Inf")]].concat(), count);
        self.line("_sum", labels, histogram.sum() as f64 / 1e6);
        self.line("_count", labels, count);
    }

    fn line(&mut self, suffix: &str, labels: Labels, value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (nth, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"{}\"", if nth == 0 { "{" } else { "," }, escaped(value));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::{Kind, RequestOutcome, Site};

    #[test]
    fn families_and_samples() {
        let mut text = Exposition::default();
        let mut family = text.family("a_total", Type::Counter, "What a is.");
        family.sample(&[], 3);
        family.sample(&[("site", "a\"b\\c\nd"), ("kind", "é")], 1.5);
        let wanted = "# HELP a_total What a is.\n# TYPE a_total counter\na_total 3\na_total{site=\"a\\\"b\\\\c\\nd\",kind=\"é\"} 1.5\n";
        assert_eq!(text.text(), wanted);
    }

    #[test]
    fn a_histogram_tells_how_many_were_within_each_bound() {
        let site = Site::new("shop");
        for total in [50, 51, 1_000_000, 200_000_000] {
            let kind = Kind::App;
            site.count(&RequestOutcome {
                kind,
                status: 200,
                bytes: 0,
                total,
                queue: None,
                app: None,
                aborted: false,
                crawler: None,
            });
        }
        let mut text = Exposition::default();
        text.family("t_seconds", Type::Histogram, "Time.").histogram(&[("site", "shop")], &site.snapshot().total());
        let text = text.text();
        for line in [
            "t_seconds_bucket{site=\"shop\",le=\"5e-05\"} 1",
            "t_seconds_bucket{site=\"shop\",le=\"0.0001\"} 2",
            "t_seconds_bucket{site=\"shop\",le=\"0.5\"} 2",
            "t_seconds_bucket{site=\"shop\",le=\"1\"} 3",
            "t_seconds_bucket{site=\"shop\",le=\"100\"} 3",
            "t_seconds_bucket{site=\"shop\",le=\"+Inf\"} 4",
            "t_seconds_sum{site=\"shop\"} 201.000101",
            "t_seconds_count{site=\"shop\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
