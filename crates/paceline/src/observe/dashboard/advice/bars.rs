//! A route's time as it is and with the change: two bars, and across the second a line, the interval that holds the true
//! mean. Its figures come from a file: what is no number is drawn as nothing.

use doctor::{
    candidate::Trial,
    units,
    verdict::{Bound, Gain, Verdict},
};
use maud::{html, Markup};

use super::{
    clipped,
    gain::{amount, sure},
    more,
};
use crate::observe::dashboard::html::visible;

const MAX_ROUTES: usize = 6;
/// Height of a bar, and of its line's ends.
const HIGH: u32 = 12;

/// Nothing, where no times are known.
pub fn chart(verdict: &Verdict) -> Markup {
    let known: Vec<&Gain> = verdict.gains.iter().filter(|gain| gain.of_us > 0.0).collect();
    let shown = || known.iter().copied().take(MAX_ROUTES);
    let highest = shown().flat_map(|gain| [gain.of_us, changed(gain), ends(gain).map_or(0.0, |(_, high)| high)]);
    let scale = highest.filter(|us| us.is_finite()).fold(0.0, f64::max);
    let after = match &verdict.candidate.trial {
        Trial::WhatIf { .. } => "if it were free",
        _ => "with it",
    };
    html! {
        @if scale > 0.0 {
            table.bars {
                @for gain in shown() { (route(gain, scale, after, known.len() > 1)) }
            }
            (more(known.len(), MAX_ROUTES))
        }
    }
}

fn route(gain: &Gain, scale: f64, after: &str, is_named: bool) -> Markup {
    let part = |us: f64| if us.is_finite() { (us / scale).clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    let at = |us: f64| format!("{:.1}%", part(us));
    let time = changed(gain);
    let class = match () {
        () if time > gain.of_us => "bad",
        () if gain.bound == Bound::AtMost => "most",
        () => "good",
    };
    html! {
        tbody {
            @if is_named {
                tr {
                    th.route colspan="3" scope="rowgroup" {
                        code { (visible(&clipped(&gain.route))) } " " (facts(gain))
                    }
                }
            }
            tr {
                th scope="row" { "as it is" }
                td.bar {
                    svg width="100%" height=(HIGH) aria-hidden="true" {
                        rect.now width=(at(gain.of_us)) height=(HIGH) rx="2" {}
                    }
                }
                td.n { (units::millis(gain.of_us)) }
            }
            tr {
                th scope="row" { (after) }
                td.bar {
                    svg width="100%" height=(HIGH) aria-hidden="true" {
                        rect class=(class) width=(at(time)) height=(HIGH) rx="2" {}
                        @if let Some((low, high)) = ends(gain) {
                            g.sure {
                                title { (units::bare_millis(low)) " to " (units::millis(high)) ", 95 % sure" }
                                line x1=(at(low)) x2=(at(high)) y1=(HIGH / 2) y2=(HIGH / 2) {}
                                @for end in [low, high] { line x1=(at(end)) x2=(at(end)) y1="2" y2=(HIGH - 2) {} }
                            }
                        }
                    }
                }
                td.n { (units::millis(time)) }
            }
        }
    }
}

/// The time with the change.
fn changed(gain: &Gain) -> f64 {
    (gain.of_us - gain.gain_us).max(0.0)
}

/// Between which times it is.
fn ends(gain: &Gain) -> Option<(f64, f64)> {
    let (low, high) = gain.interval_us?;
    Some(((gain.of_us - high).max(0.0), (gain.of_us - low).max(0.0)))
}

/// `10 % of the requests, −17 ms (61 %, 95 % sure: 58 to 64)`.
fn facts(gain: &Gain) -> String {
    let share = (gain.share > 0.0).then(|| format!("{} of the requests, ", units::percent(gain.share)));
    format!("{}{} ({})", share.unwrap_or_default(), amount(gain), sure(gain))
}
