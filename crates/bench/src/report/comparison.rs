//! Two runs beside each other, in words. Says nothing that chance could explain.

use units::{millis, number};

use super::table::{remarks, Style};
use crate::{
    compare::{percentiles, rates, rates_apart, Ratio, SliceFigures},
    summary::Summary,
};

/// What two runs say of each other.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    pub rate: Option<Ratio>,
    pub median: Option<Ratio>,
    pub p99: Option<Ratio>,
}

impl Verdict {
    /// Of slices that were measured in turn.
    pub fn paired(a: &[SliceFigures], b: &[SliceFigures]) -> Verdict {
        Verdict { rate: rates(a, b), median: percentiles(a, b, 50.0), p99: percentiles(a, b, 99.0) }
    }

    /// Of runs that were not measured together: only the rate has an interval.
    pub fn apart(a: &Summary, b: &Summary) -> Verdict {
        Verdict { rate: rates_apart(&a.rates(), &b.rates()), median: None, p99: None }
    }

    /// One sentence, like "B is 31 % faster (29 to 33); p99: no difference".
    pub fn sentence(&self, name: &str) -> String {
        let rate = match self.rate {
            None => "The run was too short to compare the rates".to_owned(),
            Some(ratio) if ratio.is_different() => format!("{name} is {}", ratio.words("faster", "slower")),
            Some(ratio) => format!("Requests/s: {}", ratio.words("faster", "slower")),
        };
        let of = |label: &str, ratio: Option<Ratio>| match ratio {
            None => format!("; {label}: too few requests to say"),
            Some(ratio) => format!("; {label}: {}", ratio.words("higher", "lower")),
        };
        match (self.median, self.p99) {
            (None, None) => format!("{rate}."),
            (median, p99) => format!("{rate}{}{}.", of("median", median), of("p99", p99)),
        }
    }
}

/// A and B, measured in turn.
pub fn text(a: &Summary, b: &Summary, slices: &[Vec<SliceFigures>; 2], style: Style) -> String {
    let pairs = slices[0].len().min(slices[1].len());
    let mut text = format!("A  {}\nB  {}\n{}, in turn, {pairs} slices each\n\n", a.url, b.url, a.load());
    rows(&mut text, &[("A", a), ("B", b)]);
    text.push_str(&format!("\n  {}\n", Verdict::paired(&slices[0], &slices[1]).sentence("B")));
    text.push_str("  In parentheses: the range in which the true figure is in 99 of 100 cases.\n");
    for (name, summary) in [("A", a), ("B", b)] {
        let named: Vec<_> = summary.remarks.iter().map(|remark| format!("{name}: {remark}")).collect();
        remarks(&mut text, &named, style);
    }
    text
}

/// This run beside a saved one.
pub fn against(saved: &Summary, now: &Summary, style: Style) -> String {
    let mut text = format!("\nsaved  {} · {} · {}\n\n", saved.url, saved.load(), super::html::day(&saved.at));
    rows(&mut text, &[("saved", saved), ("now", now)]);
    text.push_str(&format!("\n  {}\n", Verdict::apart(saved, now).sentence("This run")));
    let mut doubts = vec![
        "The two were not measured at the same time: the machine may have changed in between. `paceline bench A B` measures in turn."
            .to_owned(),
    ];
    if saved.load() != now.load() || saved.clients != now.clients {
        doubts.push("The two were not measured with the same load.".into());
    }
    remarks(&mut text, &doubts, style);
    text
}

fn rows(text: &mut String, runs: &[(&str, &Summary)]) {
    text.push_str(&format!("  {:<8}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "", "requests/s", "median", "p90", "p99", "max"));
    for (name, summary) in runs {
        let at = |percent| millis(summary.percentile(percent));
        let rate = number(summary.requests_per_second);
        text.push_str(&format!(
            "  {name:<8}{rate:>12}{:>12}{:>12}{:>12}{:>12}\n",
            at(50.0),
            at(90.0),
            at(99.0),
            at(100.0)
        ));
    }
}
