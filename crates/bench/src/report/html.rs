//! One page with charts, of one run or several, that needs nothing else: no script, no font, no other file.

use maud::{html, Markup, PreEscaped, DOCTYPE};

use units::{millis, number};

use super::name_of;
use crate::{
    parts::{Part, PARTS},
    recording::SLICE,
    summary::{Shares, Summary},
};

const STYLE: &str = include_str!("page.css");
/// Of charts, in their own units.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
/// Room for the figures at the left, and below.
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 24.0;

/// A line of a chart.
struct Line<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// Where a chart's grid has a figure.
struct Tick {
    at: f64,
    text: String,
}

/// The page. The runs have names; the first one's parts are shown first.
pub fn page(runs: &[(String, &Summary)]) -> String {
    let title = runs.first().map_or("paceline bench", |(_, summary)| summary.url.as_str());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Benchmark of " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "Benchmark of " (title) }
                    (figures(runs))
                    section {
                        h2 { "Latency by percentile" }
                        (legend(runs))
                        (by_percentile(runs))
                    }
                    section {
                        h2 { "Where the time goes" }
                        @for (name, summary) in runs {
                            @if runs.len() > 1 { h3 { (name) } }
                            (bars(summary, longest(runs)))
                        }
                    }
                    section {
                        h2 { "Requests a second over time" }
                        (legend(runs))
                        (over_time("Requests a second over time", runs, rates, &number))
                    }
                    section {
                        h2 { "p99 over time" }
                        (legend(runs))
                        (over_time("p99 over time", runs, p99s, &millis))
                    }
                    footer { "Written by paceline bench " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    }
    .into_string()
}

fn figures(runs: &[(String, &Summary)]) -> Markup {
    html! {
        table {
            thead { tr { th { "Run" } th { "Load" } th.n { "Requests/s" } th.n { "Answers" } th.n { "Failed" } th.n { "Median" } th.n { "p90" } th.n { "p99" } th.n { "Max" } } }
            tbody {
                @for (name, summary) in runs {
                    tr {
                        td { (name) br; small { (summary.url) } }
                        td { (summary.load()) br; small { (format!("{:.1} s, {}", summary.seconds, day(&summary.at))) } }
                        td.n { (number(summary.requests_per_second)) }
                        td.n { (number(summary.answers as f64)) }
                        td.n { (number((summary.failed() + summary.not_2xx()) as f64)) }
                        @for percent in [50.0, 90.0, 99.0, 100.0] { td.n { (millis(summary.percentile(percent))) } }
                    }
                }
            }
        }
        @for (name, summary) in runs {
            @if !summary.remarks.is_empty() {
                ul.remarks { @for remark in &summary.remarks { li { @if runs.len() > 1 { (name) ": " } (remark) } } }
            }
        }
    }
}

/// Without parts of a second.
pub(super) fn day(at: &str) -> String {
    at.parse::<jiff::Timestamp>().map_or_else(|_| at.to_owned(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

fn legend(runs: &[(String, &Summary)]) -> Markup {
    html! {
        @if runs.len() > 1 {
            p.legend { @for (index, (name, _)) in runs.iter().enumerate() { span { i class={ "line " (line_class(index)) } {} (name) } } }
        }
    }
}

fn line_class(index: usize) -> String {
    format!("l{}", index % 6)
}

/// The slowest percentile that has a bar, milliseconds. The bars of all runs have one scale.
fn longest(runs: &[(String, &Summary)]) -> f64 {
    let all = runs.iter().flat_map(|(_, summary)| &summary.parts).filter(|shares| shares.percent <= 99.9);
    all.map(|shares| shares.ms).fold(1e-9, f64::max)
}

fn bars(summary: &Summary, longest: f64) -> Markup {
    let shown: Vec<&Shares> = summary.parts.iter().filter(|shares| shares.percent <= 99.9).collect();
    let known = super::table::known(summary);
    html! {
        p.legend { @for part in &known { span { i class=(part.name()) {} (part.name()) } } }
        @for shares in &shown {
            div.bar {
                b { (name_of(shares.percent)) }
                svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=(aria(shares)) {
                    @for (part, from, to) in pieces(shares) {
                        @let scale = 1000.0 / longest;
                        rect class=(part.name()) x=(format!("{:.2}", from * scale)) y="0" height="20" width=(format!("{:.2}", (to - from) * scale)) {
                            title { (part.name()) " " (millis(to - from)) }
                        }
                    }
                }
                span { (millis(shares.ms)) }
            }
        }
        details {
            summary { "As figures" }
            table {
                thead { tr { th { "ms" } @for part in &known { th.n { (part.name()) } } th.n { "total" } } }
                tbody {
                    @for shares in &shown {
                        tr {
                            td { (name_of(shares.percent)) }
                            @for part in &known { td.n { (format!("{:.2}", shares.parts.get(part.name()).copied().unwrap_or_default())) } }
                            td.n { (format!("{:.2}", shares.ms)) }
                        }
                    }
                }
            }
        }
    }
}

fn pieces(shares: &Shares) -> Vec<(Part, f64, f64)> {
    let mut at = 0.0;
    let mut pieces = Vec::new();
    for part in PARTS {
        let value = shares.parts.get(part.name()).copied().unwrap_or_default();
        if value > 0.0 {
            pieces.push((part, at, at + value));
        }
        at += value;
    }
    pieces
}

fn aria(shares: &Shares) -> String {
    let parts: Vec<_> =
        pieces(shares).iter().map(|(part, from, to)| format!("{} {}", part.name(), millis(to - from))).collect();
    format!("{}: {}, of which {}", name_of(shares.percent), millis(shares.ms), parts.join(", "))
}

/// The horizontal axis halves what is left above: 50 %, 90 %, 99 % are as far apart as 99 % and 99.9 %.
fn by_percentile(runs: &[(String, &Summary)]) -> Markup {
    let place = |percent: f64| -((100.0 - percent).max(1e-3) / 100.0).log10();
    let end = runs.iter().flat_map(|(_, summary)| summary.percentiles.iter()).filter(|point| point.percent < 100.0);
    let end = end.map(|point| place(point.percent)).fold(1.0, f64::max);
    let lines: Vec<_> = runs
        .iter()
        .map(|(name, summary)| Line {
            name,
            points: summary.percentiles.iter().map(|point| (place(point.percent).min(end), point.ms)).collect(),
        })
        .collect();
    let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99].into_iter().filter(|percent| place(*percent) <= end + 1e-9);
    let ticks = ticks
        .map(|percent| Tick { at: place(percent), text: if percent == 0.0 { "min".into() } else { name_of(percent) } });
    chart("Latency by percentile", &lines, end, ticks.collect(), &millis)
}

fn rates(summary: &Summary) -> Vec<(f64, f64)> {
    // Points of a second, or of a slice if the run was short.
    let per = if summary.slices.len() > 50 { 5 } else { 1 };
    let width = per as f64 * SLICE as f64 / 1e6;
    let whole = (summary.seconds / width).floor().max(1.0) as usize;
    let point = |(index, slices): (usize, &[crate::summary::SliceSummary])| {
        let answers: u32 = slices.iter().map(|slice| slice.answers).sum();
        ((index as f64 + 0.5) * width, f64::from(answers) / width)
    };
    summary.slices.chunks(per).take(whole).enumerate().map(point).collect()
}

fn p99s(summary: &Summary) -> Vec<(f64, f64)> {
    let at = |index: usize| (index as f64 + 0.5) * SLICE as f64 / 1e6;
    let answered = summary.slices.iter().enumerate().filter(|(_, slice)| slice.answers > 0);
    answered.map(|(index, slice)| (at(index), slice.p99)).collect()
}

fn over_time(
    title: &str,
    runs: &[(String, &Summary)],
    points: impl Fn(&Summary) -> Vec<(f64, f64)>,
    shown: &dyn Fn(f64) -> String,
) -> Markup {
    let lines: Vec<_> = runs.iter().map(|(name, summary)| Line { name, points: points(summary) }).collect();
    let end = runs.iter().map(|(_, summary)| summary.seconds).fold(0.1, f64::max);
    let step = nice(end / 6.0);
    let count = (end / step) as usize;
    let ticks =
        (0..=count).map(|index| Tick { at: index as f64 * step, text: format!("{} s", number(index as f64 * step)) });
    chart(title, &lines, end, ticks.collect(), shown)
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|nice| *nice >= step).unwrap_or(power * 10.0)
}

fn chart(title: &str, lines: &[Line<'_>], end: f64, ticks: Vec<Tick>, shown: &dyn Fn(f64) -> String) -> Markup {
    let top = lines.iter().flat_map(|line| line.points.iter()).map(|point| point.1).fold(0.0, f64::max).max(1e-9);
    let step = nice(top / 4.0);
    let top = (top / step).ceil() * step;
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - 8.0);
    let y = |value: f64| 8.0 + (1.0 - value / top) * (HEIGHT - BOTTOM - 8.0);
    let levels = (0..=(top / step).round() as usize).map(|index| index as f64 * step);
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
            @for level in levels {
                line.grid x1=(LEFT) x2=(WIDTH - 8.0) y1=(format!("{:.1}", y(level))) y2=(format!("{:.1}", y(level))) {}
                text.y x=(LEFT - 6.0) y=(format!("{:.1}", y(level) + 4.0)) { (shown(level)) }
            }
            @for tick in &ticks {
                line.grid x1=(format!("{:.1}", x(tick.at))) x2=(format!("{:.1}", x(tick.at))) y1="8" y2=(HEIGHT - BOTTOM) {}
                text.x x=(format!("{:.1}", x(tick.at))) y=(HEIGHT - 6.0) { (tick.text) }
            }
            @for (index, line) in lines.iter().enumerate() {
                polyline class=(line_class(index)) points=(line.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect::<Vec<_>>().join(" ")) {
                    title { (line.name) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_axes_are_round() {
        assert_eq!([0.9, 1.1, 3.0, 7.0, 120.0].map(nice), [1.0, 2.0, 5.0, 10.0, 200.0]);
    }
}
