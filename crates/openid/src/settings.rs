//! What the operator says of the provider and of us as its client. It never asks the provider.

use std::{
    fs::File,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use openidconnect::url::{Host, Url};
use sign_in::Secret;

use crate::Error;

/// The longest secret in bytes.
const MAX_SECRET: u64 = 4_096;

/// The provider, and us as its client.
#[derive(Debug, Clone)]
pub struct Settings {
    /// As the provider writes it, to the letter. https, or http for a loopback address.
    pub issuer: String,
    pub client_id: String,
    /// None: a public client, which has PKCE alone.
    pub client_secret: Option<Secret>,
    /// Besides `openid`.
    pub scopes: Vec<String>,
    /// The claim that has the person's name (`preferred_username`). `email` counts only if it is verified.
    pub name_claim: String,
    /// The claim that has the groups: a claim's name, or a path with dots into objects (`realm_access.roles`).
    pub groups_claim: Option<String>,
    /// Certificates in PEM that are trusted in place of the system's.
    pub ca_file: Option<PathBuf>,
}

impl Settings {
    /// # Errors
    /// What can't be meant.
    pub fn check(&self) -> Result<(), Error> {
        let issuer = Url::parse(&self.issuer)
            .map_err(|error| Error::Setting(format!("issuer = {:?} is no address: {error}", self.issuer)))?;
        if !may_be_asked(&issuer) {
            return Err(Error::Setting(format!(
                "issuer = {:?} must begin with https:// (http:// only for a loopback address)",
                self.issuer
            )));
        }
        if issuer.query().is_some() || issuer.fragment().is_some() || !issuer.username().is_empty() {
            return Err(Error::Setting("issuer has a query, a fragment or a user: leave them out".into()));
        }
        for (name, value) in [("client_id", &self.client_id), ("name_claim", &self.name_claim)] {
            if value.is_empty() || value.chars().any(char::is_control) {
                return Err(Error::Setting(format!("{name} is missing")));
            }
        }
        match self.scopes.iter().find(|scope| !is_scope(scope)) {
            Some(scope) => Err(Error::Setting(format!("{scope:?} is no scope: write one per entry"))),
            None => Ok(()),
        }
    }
}

/// Whether this may be asked: over TLS, or on this machine.
pub(crate) fn may_be_asked(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return false,
    };
    url.scheme() == "https" || url.scheme() == "http" && is_loopback
}

/// RFC 6749 section 3.3.
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

/// Reads the client's secret. The file belongs to this user or to root, and nobody else may read it; a line end at its
/// end does not count.
///
/// # Errors
/// Why it can't be used.
pub fn read_secret_file(path: &Path) -> Result<Secret, Error> {
    let failed = |why: String| Error::SecretFile { path: path.to_owned(), why };
    let mut file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let found = file.metadata().map_err(|error| failed(error.to_string()))?;
    if !found.is_file() {
        return Err(failed("it is no file".into()));
    }
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user && found.uid() != 0 {
        return Err(failed(format!("it belongs to the user {}: chown it to {user} or to root", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        return Err(failed(format!("others may read or write it (mode {:o}): chmod 600 it", found.mode() & 0o777)));
    }
    if found.len() > MAX_SECRET {
        return Err(failed(format!("it has {} bytes, more than a secret of {MAX_SECRET}", found.len())));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(failed("it is empty".into())),
        secret => Ok(Secret::new(secret)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    fn settings() -> Settings {
        Settings {
            issuer: "https://id.example/realms/staff".into(),
            client_id: "shop".into(),
            client_secret: Some(Secret::new("hush")),
            scopes: vec!["profile".into()],
            name_claim: "preferred_username".into(),
            groups_claim: None,
            ca_file: None,
        }
    }

    #[test]
    fn an_issuer_is_asked_over_tls_or_on_this_machine() {
        settings().check().unwrap();
        for (issuer, is_good) in [
            ("http://127.0.0.1:9000", true),
            ("http://[::1]:9000/", true),
            ("http://localhost", true),
            ("http://id.example", false),
            ("http://localhost.id.example", false),
            ("id.example", false),
            ("file:///etc/passwd", false),
            ("https://id.example/?a=b", false),
            ("https://alice@id.example/", false),
        ] {
            assert_eq!(Settings { issuer: issuer.into(), ..settings() }.check().is_ok(), is_good, "{issuer}");
        }
        assert!(Settings { client_id: String::new(), ..settings() }.check().is_err());
        assert!(Settings { scopes: vec!["profile email".into()], ..settings() }.check().is_err());
        assert!(!format!("{:?}", settings()).contains("hush"));
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("paceline-secret-{}", std::process::id()));
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_secret_file(&path)
        };
        assert!(read("open sesame\n", 0o600).unwrap().is("open sesame"));
        assert!(read("open sesame", 0o400).unwrap().is("open sesame"));
        for (text, mode, why) in [
            ("a", 0o640, "chmod 600"),
            ("a", 0o604, "mode 604"),
            ("\n", 0o600, "empty"),
            (&"a".repeat(5_000), 0o600, "5000"),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("paceline-secret"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(read_secret_file(&path).is_err() && read_secret_file(Path::new("/tmp")).is_err());
    }
}
