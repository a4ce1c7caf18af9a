//! A chart as SVG: lines over time, a scale, marks. It fills the width it is given; only its curves are stretched,
//! never its words.

use std::fmt::Write;

use maud::{html, Markup};

use super::{
    history::{Mark, MarkKind, Span},
    html::visible,
};

/// Stretches of time that a curve is drawn of.
const COLUMNS: usize = 200;
/// Units of the stretched drawing.
const WIDE: f64 = 1000.0;
const HIGH: f64 = 100.0;
/// Share of the width that a mark's words need.
const ROOM: f64 = 0.13;

/// How several samples become one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    Mean,
    Most,
}

/// A curve.
pub struct Line<'a> {
    /// What it is called in the legend.
    pub name: String,
    /// Its class, which has its colour.
    pub class: &'static str,
    pub fold: Fold,
    /// The space below it is filled.
    pub filled: bool,
    /// Moments (Unix seconds) and values, the oldest first.
    pub points: Box<dyn Iterator<Item = (f64, f64)> + 'a>,
}

/// What a chart shows.
pub struct Chart<'a> {
    /// The element's id in the page.
    pub id: &'static str,
    pub title: &'static str,
    /// One sentence for who does not see it, and below the title.
    pub said: String,
    pub span: Span,
    /// Unix seconds at its right edge.
    pub now: f64,
    pub lines: Vec<Line<'a>>,
    pub marks: Vec<&'a Mark>,
    /// A value in words.
    pub unit: fn(f64) -> String,
    /// The scale's end is no lower than this.
    pub least: f64,
    /// The scale's end, whatever the values.
    pub most: Option<f64>,
    /// The scale's end is 1, 2 or 5 times a power of ten of these.
    pub grain: f64,
}

impl Chart<'_> {
    /// The figure's inside.
    pub fn render(self) -> Markup {
        let seconds = self.span.seconds();
        let step = seconds / COLUMNS as f64;
        // Columns stand on the clock, so that a curve moves and does not shimmer.
        let end = (self.now / step).floor() * step;
        let begin = end - seconds;
        let x = |at: f64| (at - begin) / seconds;
        let curves: Vec<_> = self
            .lines
            .into_iter()
            .map(|line| {
                let columns = columns(line.points, line.fold, begin, step);
                (line.name, line.class, line.filled, columns)
            })
            .collect();
        let highest =
            curves.iter().flat_map(|(.., columns)| columns.iter().flatten()).copied().fold(self.least, f64::max);
        let top = self.most.unwrap_or_else(|| round(highest / self.grain) * self.grain);

        let marks: Vec<_> = self.marks.iter().filter(|mark| (0.0..=1.0).contains(&x(mark.at))).collect();
        let marks = marks.iter().enumerate().map(|(nth, mark)| {
            // Of several at one place the last has room for its words.
            let alone = marks.get(nth + 1).is_none_or(|next| (x(next.at) - x(mark.at)).abs() > ROOM);
            marked(mark, x(mark.at) * 100.0, alone)
        });
        let (half, whole) = match self.span {
            Span::TenMinutes => ("5 min", "10 min ago"),
            Span::TwoHours => ("1 h", "2 h ago"),
        };
        html! {
            figcaption { h2 { (self.title) } p { (visible(&self.said)) } }
            svg.plot role="img" aria-label={ (self.title) ": " (self.said) } width="100%" height="170" {
                @for (share, y) in [(1.0, 12.0), (0.5, 77.0), (0.0, 142.0)] {
                    line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                    @if share > 0.0 { text.scale x="0" y=(y - 3.0) { ((self.unit)(top * share)) } }
                }
                @for mark in marks { (mark) }
                svg x="0" y="12" width="100%" height="130" viewBox={ "0 0 " (WIDE) " " (HIGH) } preserveAspectRatio="none" {
                    @for (_, class, filled, columns) in &curves { (drawn(class, *filled, columns, top)) }
                }
                text.time x="0" y="168" { (whole) }
                text.time x="50%" y="168" text-anchor="middle" { (half) }
                text.time x="100%" y="168" text-anchor="end" { "now" }
            }
            @if curves.len() > 1 {
                ul.legend { @for (name, class, ..) in &curves { li class=(class) { (visible(name)) } } }
            }
        }
    }
}

/// A mark at `at` percent of the width, with its words or only their tooltip.
fn marked(mark: &Mark, at: f64, words: bool) -> Markup {
    let class = match mark.kind {
        MarkKind::Generation => "mark generation",
        MarkKind::Incident => "mark incident",
    };
    let x = format!("{at:.2}%");
    html! {
        g class=(class) {
            title { (visible(&mark.what)) }
            line x1=(x) x2=(x) y1="12" y2="142" {}
            text x=(x) y="154" text-anchor=(if at > 85.0 { "end" } else { "start" }) { @if words { (visible(&mark.label)) } }
        }
    }
}

/// A value for each column; None: nothing was measured.
fn columns(points: impl Iterator<Item = (f64, f64)>, fold: Fold, begin: f64, step: f64) -> Vec<Option<f64>> {
    let mut columns: Vec<(f64, u32)> = vec![(0.0, 0); COLUMNS];
    for (at, value) in points.filter(|(at, value)| *at > begin && value.is_finite()) {
        if let Some((sum, many)) = columns.get_mut(((at - begin) / step) as usize) {
            *many += 1;
            *sum = match fold {
                Fold::Mean => *sum + value,
                Fold::Most => sum.max(value),
            };
        }
    }
    let value = |(sum, many): (f64, u32)| match fold {
        _ if many == 0 => None,
        Fold::Mean => Some(sum / f64::from(many)),
        Fold::Most => Some(sum),
    };
    columns.into_iter().map(value).collect()
}

/// Columns next to each other make a curve; a gap of a few is bridged, since samples need not come in each.
fn drawn(class: &str, filled: bool, columns: &[Option<f64>], top: f64) -> Markup {
    const BRIDGED: usize = 5;
    let (mut path, mut area) = (String::new(), String::new());
    let mut last: Option<(usize, f64)> = None;
    let close = |area: &mut String, last: Option<(usize, f64)>| {
        if let Some((_, x)) = last {
            let _ = write!(area, "V{HIGH}H{x:.0}Z");
        }
    };
    let mut started = 0.0;
    for (nth, value) in columns.iter().enumerate() {
        let Some(value) = value else { continue };
        let x = (nth + 1) as f64 / COLUMNS as f64 * WIDE;
        let y = HIGH - (value / top).clamp(0.0, 1.0) * HIGH;
        if last.is_some_and(|(before, _)| nth - before <= BRIDGED) {
            let _ = write!(path, "L{x:.0},{y:.1}");
            let _ = write!(area, "L{x:.0},{y:.1}");
        } else {
            close(&mut area, last.map(|(nth, _)| (nth, started)));
            // A point of its own is seen, too.
            let _ = write!(path, "M{:.0},{y:.1}h2", x - 2.0);
            let _ = write!(area, "M{:.0},{HIGH}V{y:.1}H{x:.0}", x - 2.0);
            started = x - 2.0;
        }
        last = Some((nth, x));
    }
    close(&mut area, last.map(|(nth, _)| (nth, started)));
    html! {
        @if !path.is_empty() {
            @if filled { path class={ "area " (class) } d=(area) {} }
            path class={ "line " (class) } d=(path) {}
        }
    }
}

/// The next 1, 2 or 5 of its power of ten.
fn round(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|end| *end >= value * 0.999).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart<'a>(points: Vec<(f64, f64)>, marks: Vec<&'a Mark>) -> Chart<'a> {
        let line = Line {
            name: "all <of> it".into(),
            class: "a",
            fold: Fold::Most,
            filled: true,
            points: Box::new(points.into_iter()),
        };
        let other = Line {
            name: "none".into(),
            class: "b",
            fold: Fold::Mean,
            filled: false,
            points: Box::new(std::iter::empty()),
        };
        Chart {
            id: "requests",
            title: "Requests",
            said: "3 \"a\" second".into(),
            span: Span::TenMinutes,
            now: 6000.0,
            lines: vec![line, other],
            marks,
            unit: |value| format!("{value:.0}/s"),
            least: 0.0,
            most: None,
            grain: 1.0,
        }
    }

    #[test]
    fn a_curve_goes_from_the_left_to_now_and_its_scale_is_round() {
        let svg = chart((0..600).map(|n| (5400.5 + f64::from(n), 37.0)).collect(), vec![]).render().into_string();
        assert!(svg.contains("d=\"M3,26.0h2L10,26.0"), "{svg}");
        assert!(svg.contains("L1000,26.0\""), "{svg}");
        assert!(svg.contains(">50/s<") && svg.contains(">25/s<"), "{svg}");
        assert!(svg.contains("aria-label=\"Requests: 3 &quot;a&quot; second\""), "{svg}");
        assert!(svg.contains("<li class=\"a\">all &lt;of&gt; it</li>"), "{svg}");
    }

    #[test]
    fn gaps_stay_gaps_and_nothing_is_drawn_of_nothing() {
        let svg = chart(vec![(5500.0, 1.0), (5501.0, 2.0), (5900.0, 1.0), (1.0, 99.0), (9e9, 99.0)], vec![])
            .render()
            .into_string();
        assert_eq!(svg.matches("class=\"line").count(), 1, "{svg}");
        let line = svg.split("class=\"line a\" d=\"").nth(1).unwrap();
        assert_eq!(line.split('"').next().unwrap().matches('M').count(), 2, "{svg}");
        let nothing = chart(vec![], vec![]).render().into_string();
        assert!(!nothing.contains("<path"), "{nothing}");
    }

    #[test]
    fn marks_are_within_the_window_and_escaped() {
        let mark = |at, label: &str| Mark { at, kind: MarkKind::Incident, label: label.into(), what: "<b>".into() };
        let marks = [mark(5700.0, "<i>"), mark(1.0, "long ago")];
        let svg = chart(vec![], marks.iter().collect()).render().into_string();
        assert!(
            svg.contains("x1=\"50.00%\"") && svg.contains("&lt;i&gt;") && svg.contains("<title>&lt;b&gt;"),
            "{svg}"
        );
        assert!(!svg.contains("long ago"));
    }

    #[test]
    fn scales_end_at_1_2_or_5() {
        for (value, end) in
            [(0.0, 1.0), (0.03, 0.05), (1.0, 1.0), (1.2, 2.0), (4.9, 5.0), (700.0, 1000.0), (f64::NAN, 1.0)]
        {
            assert!((round(value) - end).abs() < 1e-9, "{value}: {}", round(value));
        }
    }
}
