//! Content-Type by file name.
//! It never looks at a file's bytes.

use std::path::Path;

use http::HeaderValue;

/// A name without extension is text, as on Rails' file server; an unknown extension is bytes, for nothing may be
/// guessed about somebody's upload.
pub(super) fn content_type(path: &Path) -> HeaderValue {
    let Some(guess) = mime_guess::from_path(path).first() else {
        return HeaderValue::from_static(match path.extension() {
            None => "text/plain; charset=utf-8",
            Some(_) => "application/octet-stream",
        });
    };
    let essence = guess.essence_str();
    // XML names its encoding itself, and a charset here would overrule it (RFC 7303 section 3).
    let text = guess.type_() == mime_guess::mime::TEXT && guess.subtype() != mime_guess::mime::XML;
    let value = if text || essence == "application/javascript" {
        HeaderValue::try_from(format!("{essence}; charset=utf-8"))
    } else {
        HeaderValue::try_from(essence)
    };
    value.unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("app.css", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "application/javascript; charset=utf-8"),
            ("robots.txt", "text/plain; charset=utf-8"),
            ("app.js.map", "text/plain; charset=utf-8"),
            ("feed.xml", "text/xml"),
            ("logo.svg", "image/svg+xml"),
            ("a.json", "application/json"),
            ("a.webmanifest", "application/manifest+json"),
            ("LOGO.PNG", "image/png"),
            ("a.woff2", "font/woff2"),
            ("a.wasm", "application/wasm"),
            ("a.tar.gz", "application/gzip"),
            ("LICENSE", "text/plain; charset=utf-8"),
            ("a.unheard", "application/octet-stream"),
        ] {
            assert_eq!(content_type(Path::new(name)), expected, "{name}");
        }
    }
}
