//! Where a redirect of a `[[rule]]` leads: to another path, to another host with the same path, or both. Pure. It never
//! leads to a host that the request has chosen.

use http::StatusCode;
use http_guard::host::split_host;

/// Why a target can't be used. Its words go behind "must have".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetError {
    Form,
    /// `https://shop.example*` could lead to `shop.example.evil.test`.
    StarInHost,
    Stars,
    /// There is nothing that the star could stand for.
    NoRest,
}

/// A redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// `https://shop.example`. None: the host that was asked.
    origin: Option<String>,
    /// None: the path and query of the request.
    path: Option<String>,
    /// None: 301 for GET and HEAD, 308 for all others.
    pub status: Option<StatusCode>,
}

/// What a redirect needs to know of a request.
pub struct RedirectRequest<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// As the client has named it, with a port if there is one.
    pub authority: &'a str,
    pub path: &'a str,
    pub query: Option<&'a str>,
}

impl Redirect {
    /// `paths`: of its rule; where one ends in a star, that is what the target's star stands for.
    pub fn new(target: &str, paths: &[String], status: Option<StatusCode>) -> Result<Redirect, TargetError> {
        let is_plain = target.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte));
        if !is_plain || target.starts_with("//") {
            return Err(TargetError::Form);
        }
        let (origin, path) = if target.starts_with('/') { (None, Some(target)) } else { parted(target)? };
        if origin.is_some_and(|origin| origin.contains('*')) {
            return Err(TargetError::StarInHost);
        }
        match path.map_or(0, |path| path.matches('*').count()) {
            0 => {}
            1 => {
                let has_rest = |path: &String| path.ends_with('*') && path.matches('*').count() == 1;
                if !paths.iter().all(has_rest) {
                    return Err(TargetError::NoRest);
                }
            }
            _ => return Err(TargetError::Stars),
        }
        Ok(Redirect { origin: origin.map(str::to_ascii_lowercase), path: path.map(str::to_owned), status })
    }

    /// The address to go to. None: the request is there already. `pattern`: of the rule's paths the one that the request
    /// matches.
    pub fn location(&self, asked: &RedirectRequest<'_>, pattern: &str) -> Option<String> {
        let path = match &self.path {
            None => asked.path.to_owned(),
            Some(path) => path.replace('*', asked.path.strip_prefix(pattern.trim_end_matches('*')).unwrap_or_default()),
        };
        // Two slashes at the beginning, or a backslash, would be another host for a browser.
        let path = format!("/{}", path.trim_start_matches(['/', '\\']));
        let query = asked.query.filter(|_| !path.contains('?')).map(|query| format!("?{query}")).unwrap_or_default();
        let location = format!("{path}{query}");
        let is_own = |origin: &String| {
            let (scheme, authority) = origin.split_once("://").unwrap_or_default();
            scheme == asked.scheme && plain(scheme, authority) == plain(scheme, asked.authority)
        };
        let is_here = self.origin.as_ref().is_none_or(is_own)
            && location
                == format!("{}{}", asked.path, asked.query.map(|query| format!("?{query}")).unwrap_or_default());
        (!is_here).then(|| format!("{}{location}", self.origin.as_deref().unwrap_or_default()))
    }
}

/// An authority without the scheme's own port and without the dot of the root, in small letters.
fn plain(scheme: &str, authority: &str) -> String {
    let (name, port) = split_host(authority);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let usual = if scheme == "https" { "443" } else { "80" };
    port.filter(|port| *port != usual).map_or(name.clone(), |port| format!("{name}:{port}"))
}

/// `https://shop.example` and `/path`.
fn parted(target: &str) -> Result<(Option<&str>, Option<&str>), TargetError> {
    let rest = target.strip_prefix("https://").or_else(|| target.strip_prefix("http://")).ok_or(TargetError::Form)?;
    let (authority, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]*".contains(&byte);
    if authority.is_empty() || !authority.bytes().all(is_host) {
        return Err(TargetError::Form);
    }
    Ok((Some(&target[..target.len() - rest.len() + authority.len()]), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(paths: &[&str], target: &str, url: &str) -> Option<String> {
        let paths: Vec<String> = paths.iter().map(|path| path.to_string()).collect();
        let redirect = Redirect::new(target, &paths, None).unwrap();
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap());
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        redirect.location(&RedirectRequest { scheme, authority, path, query }, &paths[0])
    }

    #[test]
    fn where_redirects_lead() {
        for (path, target, url, to) in [
            // A canonical host, and no loop there.
            ("/*", "https://shop.test", "http://www.shop.test/a?b=c", Some("https://shop.test/a?b=c")),
            ("/*", "https://shop.test", "http://shop.test/", Some("https://shop.test/")),
            ("/*", "https://Shop.test", "https://SHOP.test/a", None),
            ("/*", "https://shop.test", "https://shop.test:8443/a", Some("https://shop.test/a")),
            ("/*", "https://shop.test", "https://shop.test:443/a", None),
            ("/*", "https://shop.test:443", "https://shop.test./a", None),
            ("/*", "http://shop.test:80", "http://shop.test/a", None),
            ("/*", "https://shop.test", "https://shop.test:80/a", Some("https://shop.test/a")),
            // A moved path.
            ("/old", "/new", "http://a/old?x=1", Some("/new?x=1")),
            ("/old", "/new?y=2", "http://a/old?x=1", Some("/new?y=2")),
            ("/old/*", "/new/*", "http://a/old/1/2?x", Some("/new/1/2?x")),
            ("/old/*", "/new/*", "http://a/old/", Some("/new/")),
            ("/old/*", "https://b.test/archive/*.html", "http://a/old/x", Some("https://b.test/archive/x.html")),
            ("/*", "/", "http://a/", None),
            ("/*", "/", "http://a/x", Some("/")),
        ] {
            assert_eq!(location(&[path], target, url).as_deref(), to, "{path} {target} {url}");
        }
    }

    #[test]
    fn no_request_chooses_the_host() {
        for path in ["/old//evil.test", "/old///evil.test", "/old/\\evil.test", "/old/\\/evil.test"] {
            assert_eq!(
                location(&["/old/*"], "/*", &format!("http://a{path}")).as_deref(),
                Some("/evil.test"),
                "{path}"
            );
        }
        let wrong = |target: &str| Redirect::new(target, &["/old/*".into()], None).unwrap_err();
        assert_eq!(wrong("https://shop.test*"), TargetError::StarInHost);
        assert_eq!(wrong("https://*/x"), TargetError::StarInHost);
        for target in
            ["//evil.test/", "shop.test", "ftp://a/", "https:///a", "https://a b/", "https://u@a/", "", "/a\\b"]
        {
            assert_eq!(wrong(target), TargetError::Form, "{target}");
        }
    }

    #[test]
    fn a_star_needs_one_in_the_path() {
        for (path, target, error) in [
            ("/old", "/new/*", TargetError::NoRest),
            ("/*/old/*", "/new/*", TargetError::NoRest),
            ("/old/*", "/new/*/*", TargetError::Stars),
        ] {
            assert_eq!(Redirect::new(target, &[path.into()], None).unwrap_err(), error);
        }
    }
}
