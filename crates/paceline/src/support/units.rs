//! Sizes and times as text: in the notation of the configuration, and for people.

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

/// `12.5 MB`, for the log.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / (1 << 20) as f64)
}
