//! Which part of a page a script asks for. Hotwire, htmx, Inertia, Unpoly and others ask for a page's own URL with a field that says so, and
//! get a part of the page, or its data. Few of them have the application say Vary, so the fields are known here: requests that differ in
//! them share no answer. It never looks at what such a part is.

use http::{header, HeaderMap};

use crate::fields::{split, trim};

/// Fields with which a script asks for less than the page.
const FIELDS: [&str; 4] = ["turbo-frame", "x-requested-with", "x-barba", "datastar-request"];
/// Of whole families: htmx, Inertia, Unpoly, pjax, Alpine AJAX.
const FAMILIES: [&str; 5] = ["hx-", "x-inertia", "x-up-", "x-pjax", "x-alpine-"];
/// The type that Turbo puts before the others where a page may answer with changes of the page that is shown.
const TURBO_STREAM: &[u8] = b"text/vnd.turbo-stream.html";

/// Whether this field says which part of a page is asked for.
pub fn names_part(name: &str) -> bool {
    FIELDS.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// What the request says of it, such that requests for the same part say the same. Empty: it is for the page.
pub fn wanted_part(request: &HeaderMap) -> Vec<u8> {
    let mut said: Vec<Vec<u8>> = request
        .iter()
        .filter(|(name, _)| names_part(name.as_str()))
        .map(|(name, value)| [name.as_str().as_bytes(), b":", trim(value.as_bytes()), b"\n"].concat())
        .collect();
    let accepts_stream = request.get_all(header::ACCEPT).iter().any(|line| {
        split(line.as_bytes(), b',')
            .any(|kind| split(kind, b';').next().is_some_and(|kind| trim(kind).eq_ignore_ascii_case(TURBO_STREAM)))
    });
    if accepts_stream {
        said.push([TURBO_STREAM, b"\n"].concat());
    }
    // In any order they mean the same.
    said.sort();
    said.concat()
}

/// What a request accepts, as far as applications look at it: of what a browser sends for a page, Rails only looks that it is a browser's.
/// None: that, or nothing at all.
pub fn wanted_format(request: &HeaderMap) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = request.get_all(header::ACCEPT).iter().map(|line| line.as_bytes()).collect();
    let value = lines.join(&b", "[..]);
    let is_of_browser = is_browsers(&value) && !request.contains_key("x-requested-with");
    (!lines.is_empty() && !is_of_browser).then_some(value)
}

/// A list in which anything will do, too (Rails: `BROWSER_LIKE_ACCEPTS`).
fn is_browsers(accept: &[u8]) -> bool {
    let text = String::from_utf8_lossy(accept);
    text.match_indices("*/*")
        .any(|(at, any)| text[..at].trim_end().ends_with(',') || text[at + any.len()..].trim_start().starts_with(','))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn request(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn parts_are_told_from_the_page_and_from_each_other() {
        let page = request(&[("accept", "text/html,*/*;q=0.8"), ("sec-fetch-dest", "empty"), ("x-csrf-token", "a")]);
        assert_eq!(wanted_part(&page), b"");
        let parts = [
            &[("turbo-frame", "list")][..],
            &[("turbo-frame", "cart")],
            &[("hx-request", "true")],
            &[("hx-request", "true"), ("hx-target", "list")],
            &[("x-inertia", "true"), ("x-inertia-version", "1")],
            &[("x-up-target", ".list")],
            &[("x-pjax", "true"), ("x-pjax-container", "#main")],
            &[("x-requested-with", "XMLHttpRequest")],
            &[("x-alpine-request", "true")],
            &[("accept", "text/vnd.turbo-stream.html, text/html, application/xhtml+xml")],
        ];
        let mut said: Vec<_> = parts.iter().map(|fields| wanted_part(&request(fields))).collect();
        said.push(Vec::new());
        let count = said.len();
        said.sort();
        said.dedup();
        assert_eq!(said.len(), count);
        let turned = request(&[("hx-target", "list"), ("hx-request", " true")]);
        assert_eq!(wanted_part(&turned), wanted_part(&request(&[("hx-request", "true"), ("hx-target", "list")])));
    }

    #[test]
    fn browsers_accept_the_same() {
        let accepts = |fields: &[(&'static str, &'static str)]| wanted_format(&request(fields));
        for page in [&[][..], &[("accept", "text/html,application/xml;q=0.9,*/*;q=0.8")], &[("accept", "*/*, a/b")]] {
            assert_eq!(accepts(page), None, "{page:?}");
        }
        for (fields, other) in [
            (&[("accept", "application/json")][..], "application/json"),
            (&[("accept", "*/*")], "*/*"),
            (&[("accept", "text/html, */*"), ("x-requested-with", "XMLHttpRequest")], "text/html, */*"),
        ] {
            assert_eq!(accepts(fields).as_deref(), Some(other.as_bytes()));
        }
    }
}
