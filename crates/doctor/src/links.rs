//! The files that a page links to, from its HTML. It never fetches anything, and takes only links to the same site.

/// Of one page, at most.
const MAX: usize = 50;
/// Bytes of a page that are looked at.
const MAX_BYTES: usize = 1 << 20;

/// Paths (with their queries) of the style sheets, scripts and images, each once, in the order of the page. `path`: of the
/// page, for links relative to it.
pub fn assets(html: &[u8], path: &str) -> Vec<String> {
    let html = String::from_utf8_lossy(&html[..html.len().min(MAX_BYTES)]);
    let mut found: Vec<String> = Vec::new();
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let Some(link) = link_of(tag).and_then(|link| resolved(link, path)) else { continue };
        if !found.contains(&link) && found.len() < MAX {
            found.push(link);
        }
    }
    found
}

fn link_of(tag: &str) -> Option<&str> {
    let name = tag.split(|letter: char| letter.is_ascii_whitespace()).next()?.to_ascii_lowercase();
    match name.as_str() {
        "script" | "img" => attribute(tag, "src"),
        "link" if attribute(tag, "rel")?.split_whitespace().any(|word| word.eq_ignore_ascii_case("stylesheet")) => {
            attribute(tag, "href")
        }
        _ => None,
    }
}

/// A quoted attribute's value.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let lower = tag.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower.get(from..)?.find(name).map(|at| at + from) {
        let is_start = at > 0 && tag.as_bytes().get(at - 1).is_some_and(u8::is_ascii_whitespace);
        let rest = tag.get(at + name.len()..)?.trim_start();
        if let Some(value) = rest.strip_prefix('=').filter(|_| is_start) {
            let value = value.trim_start();
            let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
            return value.get(1..)?.split(quote).next();
        }
        from = at + name.len();
    }
    None
}

fn resolved(link: &str, path: &str) -> Option<String> {
    let link = link.split('#').next()?.trim().replace("&amp;", "&");
    if link.is_empty() || link.starts_with("//") || link.split(['/', '?']).next()?.contains(':') {
        return None;
    }
    if link.starts_with('/') {
        return Some(link);
    }
    let folder = &path[..path.rfind('/').map_or(0, |at| at + 1)];
    let folder = if folder.is_empty() { "/" } else { folder };
    Some(format!("{folder}{link}"))
}

/// Whether a file's name carries a digest of its content: eight or more hexadecimal figures behind a dash or a dot, with
/// a letter and a figure among them; or a version in the query.
pub fn is_fingerprinted(path: &str) -> bool {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_digest = |part: &str| {
        part.len() >= 8
            && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            && part.bytes().any(|byte| byte.is_ascii_digit())
            && (part.len() >= 32 || part.bytes().any(|byte| byte.is_ascii_alphabetic()))
    };
    // Vite's and esbuild's: eight signs of base64 behind a dash.
    let stem = name.split('.').next().unwrap_or(name);
    let is_mixed = stem.rsplit_once('-').is_some_and(|(_, hash)| {
        hash.len() == 8
            && hash.bytes().any(|byte| byte.is_ascii_uppercase())
            && hash.bytes().any(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    });
    is_mixed || name.split(['-', '.']).any(is_digest) || !query.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_sheets_scripts_and_images_of_this_site() {
        let html = br#"<html><head><link rel="stylesheet" media='all' href="/assets/app-1.css?x=1&amp;y=2">
            <LINK href='print.css' rel='alternate StyleSheet'><link rel="icon" href="/favicon.ico">
            <script src="/app.js" defer></script><script>var src = "/no.js"</script><script src="https://cdn.example/x.js">
            </script><script data-src="/no.js"></script><img alt="src" src = "logo.png#x"><img src="/app.js">
            <img src="//cdn.example/y.png"><img src="data:image/png;base64,xx"><img src=""><img src><img"#;
        assert_eq!(
            assets(html, "/beers/42"),
            ["/assets/app-1.css?x=1&y=2", "/beers/print.css", "/app.js", "/beers/logo.png"]
        );
        assert_eq!(assets(b"<img src='a.png'>", ""), ["/a.png"]);
        assert!(assets(b"\xff<\xff=<img src='", "/").is_empty());
    }

    #[test]
    fn digests_in_names() {
        for (path, expected) in [
            ("/assets/application-0123abcd.css", true),
            ("/assets/application-dd3df3dccdd6e83e9d3a48e1e5e8f2a0.js", true),
            ("/vite/index-BcD3xYz9.js", true),
            ("/app.3f2a9c01.js", true),
            ("/app.css?1700000000", true),
            ("/app.css", false),
            ("/report-20240131.css", false),
            ("/jquery-3.6.0.min.js", false),
            ("/application.css", false),
        ] {
            assert_eq!(is_fingerprinted(path), expected, "{path}");
        }
    }
}
