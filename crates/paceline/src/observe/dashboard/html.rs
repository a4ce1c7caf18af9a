//! Pieces of a page: figures in words, and the frame of all pages.

use maud::{html, Markup, DOCTYPE};

pub use startup_report::html::{visible, with_code};

/// A whole page. All it loads is the server's own; nothing stands inline (CSP). `events` is the address of the stream
/// that keeps it up to date.
pub fn page(title: &str, class: &str, events: Option<&str>, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (visible(title)) }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="/icon.svg";
                link rel="stylesheet" href="/dashboard.css";
                script src="/dashboard.js" defer {}
            }
            body class=(class) data-events=[events] { (body) }
        }
    };
    page.into_string()
}

/// Names and values, each pair a row.
pub fn facts(facts: &[(&str, String)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { dt { (name) } dd { (visible(value)) } } } }
}

/// A head that begins with # is one of numbers.
pub fn table(heads: &[&str], rows: &Markup) -> Markup {
    html! {
        table {
            thead {
                tr {
                    @for head in heads {
                        @if let Some(head) = head.strip_prefix('#') { th.n scope="col" { (head) } }
                        @else { th scope="col" { (head) } }
                    }
                }
            }
            tbody { (rows) }
        }
    }
}

/// Bytes, for people.
pub fn size(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => {
            let value = bytes as f64 / (1_u64 << shift) as f64;
            if value < 100.0 {
                format!("{value:.1} {unit}")
            } else {
                format!("{value:.0} {unit}")
            }
        }
        None => format!("{bytes} B"),
    }
}

/// Milliseconds, for people.
pub fn ms(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.1} ms"),
        value if value < 1000.0 => format!("{value:.0} ms"),
        value if value < 100_000.0 => format!("{:.1} s", value / 1000.0),
        value => format!("{:.0} min", value / 60_000.0),
    }
}

/// A rate or a count that need not be whole.
pub fn number(value: f64) -> String {
    match value {
        value if value < 0.05 => "0".into(),
        value if value < 10.0 => format!("{value:.1}").trim_end_matches(".0").into(),
        value => grouped(value.round() as u64),
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds, roughly.
pub fn since(seconds: f64) -> String {
    match seconds.max(0.0) as u64 {
        seconds @ 0..=59 => format!("{seconds} s"),
        seconds @ 60..=3599 => format!("{} min", seconds / 60),
        seconds @ 3600..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([size(0), size(1536), size(212 << 20), size(5 << 30)], ["0 B", "1.5 KB", "212 MB", "5.0 GB"]);
        assert_eq!([ms(0.42), ms(42.4), ms(4242.0), ms(240_000.0)], ["0.4 ms", "42 ms", "4.2 s", "4 min"]);
        assert_eq!([number(0.0), number(2.0), number(2.34), number(1234.5)], ["0", "2", "2.3", "1,235"]);
        assert_eq!([since(3.9), since(61.0), since(7200.0), since(200_000.0)], ["3 s", "1 min", "2 h", "2 days"]);
    }

    #[test]
    fn a_page_has_nothing_inline() {
        let page = page("<x>", "wide", None, &html! { main {} });
        assert!(page.contains("<title>&lt;x&gt;</title>") && !page.contains("style=") && !page.contains("<script>"));
    }
}
