//! Where a benchmark sends its requests: a URL, taken apart. Never connects.

use std::{fmt, net::IpAddr, path::PathBuf};

use http::Uri;

/// A URL, and a Unix socket in place of its host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub https: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// Path and query.
    pub path: String,
    pub socket: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("{0}: not a URL; write http://HOST:PORT/PATH or https://HOST:PORT/PATH")]
    NoUrl(String),
    #[error("{0}: only http:// and https:// can be measured")]
    Scheme(String),
}

impl Target {
    /// Of a URL, whose scheme may be missing (http) and whose path may be empty (`/`).
    pub fn parse(text: &str, socket: Option<PathBuf>) -> Result<Target, TargetError> {
        let wrong = || TargetError::NoUrl(text.to_owned());
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let full = full.split('#').next().unwrap_or_default();
        let uri: Uri = full.parse().map_err(|_| wrong())?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(TargetError::Scheme(text.to_owned())),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        // http::Uri takes a port that is no number for none at all.
        let behind_host = uri.authority().and_then(|all| all.as_str().rsplit_once(host)).map_or("", |(_, rest)| rest);
        let port = match (behind_host, uri.port_u16()) {
            ("", _) if https => 443,
            ("", _) => 80,
            (_, Some(port)) => port,
            (_, None) => return Err(wrong()),
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Target { https, host, port, path, socket })
    }

    /// Another path of this server.
    pub fn with_path(&self, path: &str) -> Target {
        Target { path: path.to_owned(), ..self.clone() }
    }

    /// Whether only this machine can be meant.
    pub fn is_loopback(&self) -> bool {
        self.socket.is_some()
            || self.host.eq_ignore_ascii_case("localhost")
            || self.host.to_ascii_lowercase().ends_with(".localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// As in a Host field: the port only where it is not the scheme's.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.https, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.https { "https" } else { "http" }, self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (text, shown, loopback) in [
            ("http://127.0.0.1:3000/beers?page=2", "http://127.0.0.1:3000/beers?page=2", true),
            ("localhost:3000", "http://localhost:3000/", true),
            ("https://shop.localhost", "https://shop.localhost/", true),
            ("http://[::1]:80/x#part", "http://[::1]/x", true),
            ("https://example.org:443", "https://example.org/", false),
            ("http://example.org?q=1", "http://example.org/?q=1", false),
        ] {
            let target = Target::parse(text, None).unwrap();
            assert_eq!((target.to_string().as_str(), target.is_loopback()), (shown, loopback), "{text}");
        }
        for text in ["", "ftp://a/", "http://", "http://a b/", "http://a:x/", "http://a:99999/"] {
            assert!(Target::parse(text, None).is_err(), "{text}");
        }
    }
}
