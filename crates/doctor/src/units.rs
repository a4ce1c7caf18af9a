//! Times, sizes and counts as advice has them: times in milliseconds only, so that a gain and what it is of can be
//! compared at a glance. It never knows what they are about.

pub use ::units::{bytes, grouped};

/// Microseconds as `1,120 ms`, `17 ms`, `1.7 ms`, `0.42 ms`, without a sign.
pub fn millis(us: f64) -> String {
    format!("{} ms", bare_millis(us))
}

/// Microseconds as `millis` shows them, without the unit.
pub fn bare_millis(us: f64) -> String {
    let ms = us.abs() / 1000.0;
    match ms {
        _ if !ms.is_finite() => "?".into(),
        _ if ms < 0.95 => format!("{ms:.2}"),
        _ if ms < 9.95 => format!("{ms:.1}"),
        _ => grouped(ms.round() as u64),
    }
}

/// A part (0 to 1) as `61 %`, below ten as `6.1 %`.
pub fn percent(part: f64) -> String {
    format!("{} %", bare_percent(part))
}

/// A part as `percent` shows it, without the sign of percent.
pub fn bare_percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent.abs() < 9.95 {
        format!("{percent:.1}")
    } else {
        format!("{percent:.0}")
    }
}

/// `one change`, `three changes`, `21 changes`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    const WORDS: [&str; 13] =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let word = WORDS.get(number).map_or_else(|| number.to_string(), |word| (*word).to_string());
    format!("{word} {}", if number == 1 { one } else { many })
}

/// `1 query`, `31 queries`: in figures.
pub fn figures(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        for (us, text) in [
            (1_120_400.0, "1,120 ms"),
            (-17_000.0, "17 ms"),
            (9_960.0, "10 ms"),
            (1_740.0, "1.7 ms"),
            (420.0, "0.42 ms"),
            (f64::NAN, "? ms"),
        ] {
            assert_eq!(millis(us), text);
        }
        assert_eq!([0.61, 0.0612, -0.004].map(percent), ["61 %", "6.1 %", "-0.4 %"]);
        assert_eq!(count(3, "change is", "changes are"), "three changes are");
        assert_eq!(count(0, "change is", "changes are"), "no changes are");
        assert_eq!(count(21, "x", "xs"), "21 xs");
        assert_eq!(figures(1, "query", "queries"), "1 query");
    }
}
