//! Times, sizes and counts as people read them. It never knows what they are about.

/// Microseconds as `1,120 ms`, `17 ms`, `1.7 ms`, `0.42 ms`, without a sign.
pub fn millis(us: f64) -> String {
    format!("{} ms", bare_millis(us))
}

/// The same without the unit.
pub fn bare_millis(us: f64) -> String {
    let ms = us.abs() / 1000.0;
    match ms {
        _ if !ms.is_finite() => "?".into(),
        _ if ms < 0.95 => format!("{ms:.2}"),
        _ if ms < 9.95 => format!("{ms:.1}"),
        _ => grouped(ms.round() as u64),
    }
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `312 bytes`, `3.8 KB`, `64 MB`.
pub fn bytes(bytes: u64) -> String {
    let scaled = |unit: f64, name: &str| {
        let value = bytes as f64 / unit;
        if value < 9.95 {
            format!("{value:.1} {name}")
        } else {
            format!("{value:.0} {name}")
        }
    };
    match bytes {
        0..=999 => format!("{bytes} bytes"),
        1_000..=999_999 => scaled(1024.0, "KB"),
        1_000_000..=999_999_999 => scaled(1_048_576.0, "MB"),
        _ => scaled(1_073_741_824.0, "GB"),
    }
}

/// A part (0 to 1) as `61 %`, below ten as `6.1 %`.
pub fn percent(part: f64) -> String {
    format!("{} %", bare_percent(part))
}

/// The same without the sign of percent.
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
        for (number, text) in [(312, "312 bytes"), (3_900, "3.8 KB"), (67_108_864, "64 MB"), (4_000_000_000, "3.7 GB")]
        {
            assert_eq!(bytes(number), text);
        }
        assert_eq!([0.61, 0.0612, -0.004].map(percent), ["61 %", "6.1 %", "-0.4 %"]);
        assert_eq!(count(3, "change is", "changes are"), "three changes are");
        assert_eq!(count(0, "change is", "changes are"), "no changes are");
        assert_eq!(count(21, "x", "xs"), "21 xs");
        assert_eq!(figures(1, "query", "queries"), "1 query");
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
