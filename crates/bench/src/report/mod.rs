//! What a run found, in the forms in which people and programs read it.

pub mod ab;
pub mod comparison;
pub mod files;
pub mod html;
pub mod search;
pub mod table;

/// With thousands separators; below 100 with one decimal.
pub fn number(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Milliseconds with three digits that count, and seconds from 10 s.
pub fn ms(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.1} s", value / 1000.0),
        value if value >= 100.0 => format!("{value:.0} ms"),
        value if value >= 10.0 => format!("{value:.1} ms"),
        value => format!("{value:.2} ms"),
    }
}

/// Like 54.2 KB.
pub fn bytes(value: f64) -> String {
    match value {
        value if value < 1024.0 => format!("{value:.0} bytes"),
        value if value < 1024.0 * 1024.0 => format!("{:.1} KB", value / 1024.0),
        value if value < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MB", value / 1024.0 / 1024.0),
        value => format!("{:.1} GB", value / 1024.0 / 1024.0 / 1024.0),
    }
}

/// Like p50, p99.9 and max.
pub fn name_of(percent: f64) -> String {
    match percent {
        100.0 => "max".to_owned(),
        percent => format!("p{percent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_count() {
        assert_eq!([1234567.0, 999.4, 12.34, 5.0].map(number), ["1,234,567", "999", "12.3", "5"]);
        assert_eq!([0.1234, 12.34, 123.4, 12_345.0].map(ms), ["0.12 ms", "12.3 ms", "123 ms", "12.3 s"]);
        assert_eq!([27.0, 55_296.0].map(bytes), ["27 bytes", "54.0 KB"]);
        assert_eq!([50.0, 99.9, 100.0].map(name_of), ["p50", "p99.9", "max"]);
    }
}
