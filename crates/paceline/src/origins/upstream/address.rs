//! Where an upstream listens, from its URL. It never resolves a name or connects.

use std::{fmt, path::PathBuf};

use http::uri::Authority;

/// An upstream's address: `http://HOST[:PORT]`, `https://HOST[:PORT]` or `http://unix:/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A name or an IP address (of IPv6 without its brackets), and a port.
    Tcp {
        https: bool,
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

/// Why a URL is no address of an upstream. Its words go behind the setting's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a URL like http://127.0.0.1:8000, https://app.example or http://unix:/run/app.sock, not {url:?}{why}")]
pub struct AddressError {
    url: String,
    /// With its colon. Empty: it is no URL at all.
    why: &'static str,
}

impl Address {
    pub fn parse(url: &str) -> Result<Address, AddressError> {
        let wrong = |why: &'static str| AddressError { url: url.to_owned(), why };
        let scheme = |scheme: &str| url.get(..scheme.len()).filter(|found| found.eq_ignore_ascii_case(scheme));
        let https = scheme("https://").is_some();
        let found = scheme("http://").or(scheme("https://"));
        let rest = found.and_then(|scheme| url.get(scheme.len()..)).ok_or_else(|| wrong(""))?;
        if let Some(path) = rest.strip_prefix("unix:") {
            if https {
                return Err(wrong(": https works over TCP only"));
            }
            let fine = path.len() > 1 && path.starts_with('/') && !path.contains(['\0', '?', '#', ':']);
            return if fine { Ok(Address::Unix(path.into())) } else { Err(wrong(": the socket has no absolute path")) };
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(wrong(": remove the path: requests keep their own path"));
        }
        if authority.contains('@') {
            return Err(wrong(": remove the user name"));
        }
        let authority: Authority = authority.parse().map_err(|_| wrong(""))?;
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => default_port(https),
            Some(port) => port[1..].parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong(": no such port"))?,
            None => return Err(wrong("")),
        };
        let host = authority.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if host.is_empty() || bare.is_some_and(|bare| bare.parse::<std::net::Ipv6Addr>().is_err()) {
            return Err(wrong(": no such host"));
        }
        Ok(Address::Tcp { https, host: bare.unwrap_or(host).to_ascii_lowercase(), port })
    }

    /// Whether TLS is spoken with it.
    pub fn is_https(&self) -> bool {
        matches!(self, Address::Tcp { https: true, .. })
    }

    /// As a Host field would name it, for requests that name no host themselves.
    pub fn authority(&self) -> String {
        match self {
            Address::Tcp { https, host, port } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                if *port == default_port(*https) {
                    host
                } else {
                    format!("{host}:{port}")
                }
            }
            Address::Unix(_) => "localhost".into(),
        }
    }
}

fn default_port(https: bool) -> u16 {
    if https {
        443
    } else {
        80
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { https, .. } => {
                write!(out, "{}://{}", if *https { "https" } else { "http" }, self.authority())
            }
            Address::Unix(path) => write!(out, "http://unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_they_are_written() {
        for (url, shown) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("HTTP://App.Test/", "http://app.test"),
            ("http://app:80", "http://app"),
            ("http://[::1]:8000", "http://[::1]:8000"),
            ("http://[::1]", "http://[::1]"),
            ("https://App.test:443/", "https://app.test"),
            ("https://app.test:80", "https://app.test:80"),
            ("http://unix:/run/app.sock", "http://unix:/run/app.sock"),
        ] {
            assert_eq!(Address::parse(url).map(|address| address.to_string()).as_deref(), Ok(shown), "{url}");
        }
        assert_eq!(Address::parse("http://[::1]:81"), Ok(Address::Tcp { https: false, host: "::1".into(), port: 81 }));
        assert_eq!(Address::Unix("/x".into()).authority(), "localhost");
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (url, told) in [
            ("https://app.test/blog", "remove the path: requests keep their own path"),
            ("https://unix:/run/app.sock", "https works over TCP only"),
            ("http://app.test/blog", "remove the path: requests keep their own path"),
            ("http://app.test?x", "remove the path: requests keep their own path"),
            ("http://me@app.test", "remove the user name"),
            ("http://unix:app.sock", "no absolute path"),
            ("http://unix:/run/app.sock:/x", "no absolute path"),
            ("http://", "must be a URL like"),
            ("http://:80", "must be a URL like"),
            ("http://[::g]", "must be a URL like"),
            ("http://[app]:80", "must be a URL like"),
            ("http://app:", "no such port"),
            ("http://app:0", "no such port"),
            ("http://app:65536", "must be a URL like"),
            ("http://app:x", "must be a URL like"),
            ("127.0.0.1:8000", "must be a URL like"),
            ("", "must be a URL like"),
            ("http:/ü", "must be a URL like"),
        ] {
            let error = Address::parse(url).expect_err(url);
            assert!(error.to_string().contains(told), "{url}: {error}");
        }
    }
}
