//! Sizes, times and counts as text: in the notation of the configuration, and for people. It never knows what they are about.

use std::time::Duration;

/// `64KB`, `2GiB`: as the configuration has sizes; 1024 bytes are both 1KB and 1KiB. None: it is none, or too large.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let factor: u64 = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// `500ms`, `30s`, `5m`, `2h`, `1d`, `1y`, as the configuration has times. None: it is none, or too large.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let millis: u64 = match text[digits.len()..].trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "y" => 365 * 86_400_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}

/// A size in the notation of the configuration.
pub fn show_bytes(count: u64) -> String {
    match count {
        0 => "0".into(),
        n if n % (1 << 40) == 0 => format!("{}TB", n >> 40),
        n if n % (1 << 30) == 0 => format!("{}GB", n >> 30),
        n if n % (1 << 20) == 0 => format!("{}MB", n >> 20),
        n if n % (1 << 10) == 0 => format!("{}KB", n >> 10),
        n => format!("{n}B"),
    }
}

/// A time in the notation of the configuration.
pub fn show_duration(time: Duration) -> String {
    match time.as_millis() {
        0 => "0s".into(),
        n if n % 86_400_000 == 0 => format!("{}d", n / 86_400_000),
        n if n % 3_600_000 == 0 => format!("{}h", n / 3_600_000),
        n if n % 60_000 == 0 => format!("{}m", n / 60_000),
        n if n % 1000 == 0 => format!("{}s", n / 1000),
        n => format!("{n}ms"),
    }
}

/// For people: `312 bytes`, `12.5 MB`, `512 MB`.
pub fn bytes(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        None => format!("{bytes} bytes"),
        Some((unit, shift)) => match bytes as f64 / (1_u64 << shift) as f64 {
            few @ ..99.95 => format!("{few:.1} {unit}"),
            many => format!("{many:.0} {unit}"),
        },
    }
}

/// Milliseconds for people, with three digits: `0.42 ms`, `42.4 ms`, `312 ms`, `4.21 s`; from a minute on as an age.
pub fn millis(millis: f64) -> String {
    match millis {
        ..9.995 => format!("{millis:.2} ms"),
        ..99.95 => format!("{millis:.1} ms"),
        ..999.5 => format!("{millis:.0} ms"),
        ..9_995.0 => format!("{:.2} s", millis / 1000.0),
        ..59_950.0 => format!("{:.1} s", millis / 1000.0),
        _ => age((millis / 1000.0).round() as u64),
    }
}

/// Seconds for people: `42 s`, `3 min 5 s`, `2 h`, `3 d 4 h`.
pub fn age(seconds: u64) -> String {
    let (large, name, rest, small) = match seconds {
        0..60 => return format!("{seconds} s"),
        60..3600 => (seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => (seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => (seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    };
    match rest {
        0 => format!("{large} {name}"),
        rest => format!("{large} {name} {rest} {small}"),
    }
}

/// A rate, or a count that need not be whole: `0`, `5`, `12.3`, `1,235`.
pub fn number(value: f64) -> String {
    match value {
        ..99.95 => format!("{value:.1}").trim_end_matches(".0").into(),
        _ => grouped(value.round() as u64),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        for (count, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5 KB"),
            (64 << 20, "64.0 MB"),
            (212 << 20, "212 MB"),
            (5 << 30, "5.0 GB"),
            (u64::MAX, "17179869184 GB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        for (ms, text) in [
            (0.0, "0.00 ms"),
            (0.4242, "0.42 ms"),
            (9.999, "10.0 ms"),
            (42.42, "42.4 ms"),
            (312.4, "312 ms"),
            (999.9, "1.00 s"),
            (4_210.0, "4.21 s"),
            (12_345.0, "12.3 s"),
            (59_990.0, "1 min"),
            (130_000.0, "2 min 10 s"),
        ] {
            assert_eq!(millis(ms), text);
        }
        assert_eq!([59, 60, 61, 7384, 200_000].map(age), ["59 s", "1 min", "1 min 1 s", "2 h 3 min", "2 d 7 h"]);
        let numbers = [0.0, 0.04, 5.0, 12.34, 999.4, 1234.5, 1_234_567.0].map(number);
        assert_eq!(numbers, ["0", "0", "5", "12.3", "999", "1,235", "1,234,567"]);
    }
}
