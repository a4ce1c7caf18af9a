//! Which form of a page a client wants, by its Accept header (RFC 9110 12.5.1).
//! It never refuses: what can't be had is answered as text.

use cache::fields::split;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Html,
    Text,
    Json,
}

impl Form {
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Html => "text/html; charset=utf-8",
            Form::Text => "text/plain; charset=utf-8",
            Form::Json => "application/json; charset=utf-8",
        }
    }
}

/// HTML for who names it (browsers do), JSON for who names that, text for `*/*` (curl), images and all others.
/// Of several, the one with the highest weight; of equals, the first.
pub fn form(accept: Option<&str>) -> Form {
    let mut best = (Form::Text, 0);
    for range in split(accept.unwrap_or_default().as_bytes(), b',').take(32) {
        let mut parts = split(range, b';').filter_map(|part| std::str::from_utf8(part).ok());
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let form = match media.as_str() {
            "text/html" | "application/xhtml+xml" => Form::Html,
            "text/plain" | "text/*" => Form::Text,
            "application/json" | "application/*" => Form::Json,
            other if other.ends_with("+json") => Form::Json,
            _ => continue,
        };
        let weight =
            parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="))).map_or(1000, weight);
        if weight > best.1 {
            best = (form, weight);
        }
    }
    best.0
}

/// Thousandths; a weight that is no number counts as none.
fn weight(text: &str) -> u32 {
    match text.parse::<f32>() {
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0) as u32,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_accept_header() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", Form::Html),
            ("*/*", Form::Text),
            ("", Form::Text),
            ("image/png, image/*", Form::Text),
            ("application/json", Form::Json),
            ("application/problem+json", Form::Json),
            ("application/json, text/plain, */*", Form::Json),
            ("text/html;q=0.5, application/json", Form::Json),
            ("application/json;q=0, text/html;q=0.1", Form::Html),
            ("TEXT/HTML ; q=1.0", Form::Html),
            ("text/html;q=NaN", Form::Text),
            (r#"image/png;x="a,text/html,b""#, Form::Text),
            (r#"text/html;x=";q=0;", application/json;q=0.5"#, Form::Html),
            (";;;,,,q=,\u{0}", Form::Text),
        ] {
            assert_eq!(form(Some(accept)), expected, "{accept}");
        }
        assert_eq!(form(None), Form::Text);
    }
}
