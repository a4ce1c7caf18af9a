//! Where the server is that the fronts of a cluster share, and how long they trust what they know. It never connects,
//! and never shows a password.

use std::{fmt, path::PathBuf, time::Duration};

use redis::IntoConnectionInfo;

/// `[cluster]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub url: Url,
    /// The password, if it is not in the URL.
    pub password_file: Option<PathBuf>,
    /// Certificates in PEM that are trusted in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// Fronts with the same name belong together.
    pub name: String,
    /// How long a front that can't reach the server shows pages without asking the application.
    pub partition_ttl: Duration,
    /// Pages are shared, too.
    pub shared_cache: Option<SharedCache>,
}

/// How fronts share pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedCache {
    /// Bytes of a page, at most.
    pub object: u64,
    /// How long a request waits for an answer.
    pub time: Duration,
}

/// An address that may have a password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Url(String);

impl Url {
    /// None: the client can't read it.
    pub fn parse(text: &str) -> Option<Url> {
        let info = text.into_connection_info().ok()?;
        // The client takes any text for a path.
        let is_socket = matches!(info.addr(), redis::ConnectionAddr::Unix(path) if !path.is_absolute());
        (!is_socket).then(|| Url(text.to_owned()))
    }

    /// With its password: for the client and for nothing else.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Host and port, or the path of the socket.
    pub fn place(&self) -> String {
        let info = self.0.as_str().into_connection_info();
        info.map_or_else(|_| "an address that can't be read".into(), |info| info.addr().to_string())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_their_secrets() {
        for (text, place) in [
            ("redis://10.0.0.5:6379", "10.0.0.5:6379"),
            ("redis://paceline:secret@valkey.internal", "valkey.internal:6379"),
            ("valkey://:secret@valkey.internal/3", "valkey.internal:6379"),
            ("rediss://:secret@valkey.internal:6380", "valkey.internal:6380"),
            ("unix:///run/valkey.sock?pass=secret", "/run/valkey.sock"),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!((url.place().as_str(), format!("{url:?}").contains("secret")), (place, false), "{text}");
        }
        for text in ["", "10.0.0.5", "http://10.0.0.5", "redis://", "unix://valkey.sock", "redis-sentinel://a:1"] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }
}
