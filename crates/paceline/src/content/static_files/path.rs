//! Which files below the public folder a URL's path may mean, in the order they are to be tried.
//! It never touches the file system, and never names anything outside the folder or hidden in it.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

use percent_encoding::percent_decode;

/// The one directory with a leading dot that is public (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// Relative paths for `url_path`, as Rails' public file server tries them: the exact file, then `.html`, then
/// `/index.html`. None: no file may answer this path.
///
/// The two fallbacks are left out where the name already has an extension that means something (`/app.js` is never
/// `app.js.html`). With a trailing slash the directory's index comes first and the exact file is not considered.
pub fn candidates(url_path: &str) -> Option<Vec<PathBuf>> {
    let (relative, is_directory) = decode(url_path)?;
    if relative.is_empty() {
        return Some(vec![PathBuf::from("index.html")]);
    }
    let with = |suffix: &str| {
        let mut bytes = relative.clone();
        bytes.extend_from_slice(suffix.as_bytes());
        PathBuf::from(OsStr::from_bytes(&bytes))
    };
    if is_directory {
        return Some(vec![with("/index.html"), with(".html")]);
    }
    let exact = with("");
    if mime_guess::from_path(&exact).is_empty() {
        Some(vec![exact, with(".html"), with("/index.html")])
    } else {
        Some(vec![exact])
    }
}

const SETTINGS: &[u8] = b"paceline.toml";
/// What the names of password files end with (docs/from-nginx.md).
const PASSWORDS: &[u8] = b"htpasswd";

/// Segments are split before they are decoded, so that `%2F` is a byte in a name (which no file has), never a
/// separator (RFC 3986 section 2.2). Empty segments are dropped, as the kernel and Rack both do.
fn decode(url_path: &str) -> Option<(Vec<u8>, bool)> {
    let inner = url_path.strip_prefix('/')?;
    let mut relative = Vec::with_capacity(inner.len());
    for raw in inner.split('/').filter(|raw| !raw.is_empty()) {
        if !is_well_escaped(raw.as_bytes()) {
            return None;
        }
        let start = relative.len();
        if start > 0 {
            relative.push(b'/');
        }
        let name_at = relative.len();
        relative.extend(percent_decode(raw.as_bytes()));
        let name = &relative[name_at..];
        // The server's own settings may hold secrets (`env`), and a folder of plain files may hold them at its top.
        let hidden = name.starts_with(b".") && !(start == 0 && name == WELL_KNOWN)
            || name == SETTINGS
            || name.ends_with(PASSWORDS);
        if hidden || name.iter().any(|byte| matches!(byte, 0 | b'/' | b'\\')) {
            return None;
        }
    }
    Some((relative, inner.ends_with('/')))
}

/// Every `%` is followed by two hex digits.
fn is_well_escaped(raw: &[u8]) -> bool {
    raw.iter().enumerate().all(|(at, byte)| {
        *byte != b'%' || matches!(raw.get(at + 1..at + 3), Some(hex) if hex.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(url_path: &str) -> Vec<String> {
        candidates(url_path).into_iter().flatten().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn follows_rails() {
        let table: &[(&str, &[&str])] = &[
            ("/", &["index.html"]),
            ("//", &["index.html"]),
            ("/about", &["about", "about.html", "about/index.html"]),
            ("/dir/", &["dir/index.html", "dir.html"]),
            ("/app.js", &["app.js"]),
            ("/posts/1", &["posts/1", "posts/1.html", "posts/1/index.html"]),
            ("/v1.2", &["v1.2", "v1.2.html", "v1.2/index.html"]),
            ("//assets//app.css", &["assets/app.css"]),
            ("/caf%C3%A9.txt", &["café.txt"]),
            ("/a%20b.txt", &["a b.txt"]),
            ("/100%25.txt", &["100%.txt"]),
            ("/.well-known/security.txt", &[".well-known/security.txt"]),
        ];
        for (url_path, expected) in table {
            assert_eq!(names(url_path), *expected, "{url_path}");
        }
    }

    #[test]
    fn refuses_what_is_outside_or_hidden() {
        for url_path in [
            "",
            "*",
            "about",
            "/..",
            "/../etc/passwd",
            "/staging.htpasswd",
            "/a/%68tpasswd",
            "/a/../b.txt",
            "/%2e%2e/etc/passwd",
            "/.%2E/x.txt",
            "/./a.txt",
            "/.env",
            "/.git/config",
            "/paceline.toml",
            "/a/.htaccess",
            "/%2egit/config",
            "/a/.well-known/b.txt",
            "/.well-known/.env",
            "/.well-known.txt",
            "/a%2Fb.txt",
            "/a%2fb.txt",
            "/..%2f..%2fetc/passwd",
            "/..%5c..%5cx.txt",
            "/a\\b.txt",
            "/a%5Cb.txt",
            "/a%00.txt",
            "/a.txt%00",
            "/a%",
            "/a%4",
            "/a%zz.txt",
            "/a%%41",
        ] {
            assert_eq!(candidates(url_path), None, "{url_path}");
        }
    }
}
