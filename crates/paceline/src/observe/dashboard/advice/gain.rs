//! A gain in words: how much time, and how sure that is. It never decides whether a gain is worth anything.

use doctor::{
    units,
    verdict::{Bound, Gain},
};

/// `−1,120 ms`, `up to −41 ms`.
pub(super) fn amount(gain: &Gain) -> String {
    let before = match gain.bound {
        Bound::AtMost => "up to ",
        Bound::AtLeast => "at least ",
        Bound::Measured | Bound::Computed => "",
    };
    let sign = if gain.gain_us < 0.0 { "+" } else { "−" };
    format!("{before}{sign}{}", units::millis(gain.gain_us))
}

/// `61 %, 95 % sure: 58 to 64`, `37 % slower, 95 % sure: 27 to 46`.
pub(super) fn sure(gain: &Gain) -> String {
    let is_slower = gain.gain_us < 0.0;
    let part = |us: f64| if is_slower { -us / gain.of_us } else { us / gain.of_us };
    let all = format!("{}{}", units::percent(part(gain.gain_us)), if is_slower { " slower" } else { "" });
    let interval = gain.interval_us.filter(|_| gain.bound != Bound::AtMost);
    match interval.map(|(low, high)| if is_slower { (high, low) } else { (low, high) }) {
        Some((low, high)) => {
            format!("{all}, 95 % sure: {} to {}", units::bare_percent(part(low)), units::bare_percent(part(high)))
        }
        None => all,
    }
}
