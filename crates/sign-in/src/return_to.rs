//! Where a browser goes after it has signed in: a path of the same site. It never is another site's address, however the
//! browser reads it, so nobody's link to a login leads elsewhere.

/// The longest path with its query in bytes. A longer one is not kept: the browser goes to `/`.
const MAX: usize = 4096;

/// A path of the same site, with its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnTo(String);

impl ReturnTo {
    /// The path, if it leads nowhere else. Browsers read `\` as `/`, leave out tabs and line ends, and take `//host` for
    /// another host (WHATWG URL, section 4.4): a path with any of these is refused, also where they are escaped at its
    /// beginning, since proxies and applications decode paths.
    pub fn parse(path: &str) -> Option<ReturnTo> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        if path.len() > MAX || !path.starts_with('/') || !path.bytes().all(is_plain) {
            return None;
        }
        let decoded = path[1..].get(..3).map(str::to_ascii_lowercase).unwrap_or_default();
        let is_slash = path[1..].starts_with('/') || ["%2f", "%5c", "%09", "%0a", "%0d"].contains(&decoded.as_str());
        // `/.//host` and `/x/..//host` become `//host` where dots are resolved before the path is joined.
        let end = path.find(['?', '#']).unwrap_or(path.len());
        let has_empty_segment = path[..end].contains("//");
        (!is_slash && !has_empty_segment).then(|| ReturnTo(path.to_owned()))
    }

    /// The path, or `/` if it can't be gone to.
    pub fn parse_or_root(path: &str) -> ReturnTo {
        ReturnTo::parse(path).unwrap_or_else(ReturnTo::root)
    }

    pub fn root() -> ReturnTo {
        ReturnTo("/".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_site_are_gone_to() {
        for path in
            ["/", "/issues?set_filter=1&sort=id", "/a/b.html#c", "/?next=https://example.com//x", "/%2e/a", "/a%2fb"]
        {
            assert_eq!(ReturnTo::parse(path).map(|path| path.0).as_deref(), Some(path));
        }
    }

    #[test]
    fn nothing_leads_to_another_site() {
        for path in [
            "",
            "a",
            "https://evil.example/",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            "/a\r\nset-cookie: x=y",
            "/%2fevil.example",
            "/%2Fevil.example",
            "/%5Cevil.example",
            "/%09/evil.example",
            "/.//evil.example",
            "/a/..//evil.example",
            " /a",
            "/a b",
            "/é",
            "/\u{7f}",
        ] {
            assert_eq!(ReturnTo::parse(path), None, "{path:?}");
            assert_eq!(ReturnTo::parse_or_root(path).as_str(), "/");
        }
        assert_eq!(ReturnTo::parse(&format!("/{}", "a".repeat(MAX))), None);
    }
}
