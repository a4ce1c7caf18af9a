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

pub(super) fn percent(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_nothing_inline() {
        let page = page("<x>", "wide", None, &html! { main {} });
        assert!(page.contains("<title>&lt;x&gt;</title>") && !page.contains("style=") && !page.contains("<script>"));
    }
}
