//! What a successful unsafe request makes invalid (RFC 9111 section 4.4, RFC 9875 section 3). It never drops anything
//! itself.

use http::{header, response, uri::Authority, HeaderMap, Method, Uri};

use crate::{groups, key::Target};

/// Methods that only read (RFC 9110 section 9.2.1): those that IANA's registry of methods calls safe. PRI is none that a client sends.
const SAFE: [&str; 8] = ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"];

pub fn is_safe(method: &Method) -> bool {
    SAFE.contains(&method.as_str())
}

/// What is to be dropped, or marked as stale.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invalidated {
    pub urls: Vec<String>,
    pub tags: Vec<String>,
}

/// After the response to `method` on `target`. "invalidate the target URI when it receives a non-error status code in
/// response to an unsafe request method (including methods whose safety is unknown)"; and, of the same origin, Location
/// and Content-Location.
pub fn invalidated(method: &Method, target: &Target<'_>, response: &response::Parts) -> Option<Invalidated> {
    let non_error = response.status.is_success() || response.status.is_redirection();
    if is_safe(method) || !non_error {
        return None;
    }
    let mut urls = vec![target.url()];
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        urls.extend(named(&response.headers, &name, target).filter(|url| !urls.contains(url)));
    }
    let origin = groups::origin(&urls[0]).to_owned();
    Some(Invalidated { tags: groups::invalidated(&response.headers, &origin), urls })
}

/// The URL that a field names, if it is of the target's origin.
fn named(headers: &HeaderMap, name: &header::HeaderName, target: &Target<'_>) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?.trim();
    let text = text.split('#').next().unwrap_or_default();
    let uri = text.parse::<Uri>().ok();
    let absolute = uri
        .as_ref()
        .and_then(|uri| Some((uri.scheme_str()?, uri.authority()?.as_str(), uri.path_and_query()?.as_str())));
    let (scheme, authority, path) = match absolute {
        Some(absolute) => absolute,
        None if text.starts_with("//") => {
            let (authority, path) = text[2..].split_at(text[2..].find('/')?);
            (target.scheme, authority, path)
        }
        None => return Some(Target { path: &resolved(target.path, text), ..*target }.url()),
    };
    authority.parse::<Authority>().ok()?;
    let named = Target { scheme, authority, path }.url();
    (groups::origin(&named) == groups::origin(&target.url())).then_some(named)
}

/// A relative reference against a path (RFC 3986 section 5.2).
fn resolved(base: &str, reference: &str) -> String {
    let base_path = base.split('?').next().unwrap_or_default();
    if reference.is_empty() {
        return base.to_owned();
    }
    if reference.starts_with('?') {
        return format!("{base_path}{reference}");
    }
    let (path, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
    let merged = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}{path}", &base_path[..base_path.rfind('/').map_or(0, |slash| slash + 1)])
    };
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = merged.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                if last {
                    segments.push("");
                }
            }
            part => segments.push(part),
        }
    }
    format!("/{}{query}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;

    const TARGET: Target<'static> = Target { scheme: "http", authority: "Shop.test:80", path: "/beers/1?x" };

    fn urls(method: &str, status: u16, lines: &[(&'static str, &'static str)]) -> Vec<String> {
        let build =
            lines.iter().fold(Response::builder().status(status), |build, (name, value)| build.header(*name, *value));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        invalidated(&method, &TARGET, &build.body(()).unwrap().into_parts().0)
            .map(|dropped| dropped.urls)
            .unwrap_or_default()
    }

    #[test]
    fn unsafe_methods_that_succeed() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
            for status in [200, 201, 204, 303] {
                assert_eq!(urls(method, status, &[]), ["http://shop.test/beers/1?x"]);
            }
            assert!(urls(method, 500, &[]).is_empty() && urls(method, 404, &[]).is_empty());
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"] {
            assert!(urls(method, 200, &[]).is_empty(), "{method}");
        }
    }

    #[test]
    fn what_the_response_names_of_the_same_origin() {
        for (location, url) in [
            ("/a", Some("http://shop.test/a")),
            ("http://SHOP.test/b?c#d", Some("http://shop.test/b?c")),
            ("//shop.test/b", Some("http://shop.test/b")),
            ("2", Some("http://shop.test/beers/2")),
            ("../x/./y", Some("http://shop.test/x/y")),
            ("?z", Some("http://shop.test/beers/1?z")),
            ("https://shop.test/b", None),
            ("http://evil.test/b", None),
            ("//evil.test/b", None),
        ] {
            for name in ["location", "content-location"] {
                let mut want = vec!["http://shop.test/beers/1?x"];
                want.extend(url);
                assert_eq!(urls("POST", 303, &[(name, location)]), want, "{location}");
            }
        }
    }
}
