//! Where the directory is, and how people and groups are found in it. It reads no file.

use std::{path::PathBuf, time::Duration};

use url::{Host, Url};

use crate::{Failure, Secret};

/// What stands for the person's name in a template or filter.
pub const NAME: &str = "{name}";

/// The products differ in how people are found, how groups contain groups, and what failures are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Asks the server.
    #[default]
    Detect,
    ActiveDirectory,
    /// OpenLDAP, 389 Directory Server, FreeIPA.
    Ldap,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// `ldaps://dc1.example.com`, or `ldap://` with `starttls`. Of several, those that answer are asked in this order.
    pub urls: Vec<String>,
    pub starttls: bool,
    /// PEM file of the certificates that are trusted. None: the system's.
    pub ca_file: Option<PathBuf>,
    /// Where people are found: `dc=example,dc=com`.
    pub base: String,
    /// Where groups are found. None: `base`. To name one keeps groups out that others may create elsewhere.
    pub group_base: Option<String>,
    /// Who searches: a DN or, in Active Directory, `name@domain`, and the password. None: the person, by `person_dn`.
    pub account: Option<(String, Secret)>,
    /// As whom a person binds where there is no account: `{name}@example.com`, `uid={name},ou=people,dc=example,dc=com`.
    pub person_dn: Option<String>,
    /// Which entry is the person's. None: by the kind, `(sAMAccountName={name})` or `(uid={name})`.
    pub person_filter: Option<String>,
    /// Which attribute is the person's name for applications. None: `sAMAccountName` or `uid`.
    pub name_attribute: Option<String>,
    /// Which attribute is a group's name. None: `sAMAccountName`, which is unique in a domain, or `cn`.
    pub group_attribute: Option<String>,
    pub kind: Kind,
    /// For one answer, all its questions together.
    pub timeout: Duration,
    /// How long an answer serves again. A password that was changed works for so long, and a group is left for so long.
    pub cache_ttl: Duration,
    /// Answers in memory, of each sort.
    pub cache_entries: usize,
    /// Whether passwords may go over `ldap://` without TLS to other machines. Only for tests.
    pub insecure: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            urls: Vec::new(),
            starttls: false,
            ca_file: None,
            base: String::new(),
            group_base: None,
            account: None,
            person_dn: None,
            person_filter: None,
            name_attribute: None,
            group_attribute: None,
            kind: Kind::Detect,
            timeout: Duration::from_secs(5),
            cache_ttl: Duration::from_secs(60),
            cache_entries: 10_000,
            insecure: false,
        }
    }
}

impl Settings {
    /// The parsed URLs.
    ///
    /// # Errors
    /// What makes no sense, or would send passwords in the clear.
    pub(crate) fn check(&self) -> Result<Vec<Url>, Failure> {
        let wrong = |what: String| Err(Failure::Settings(what));
        if self.urls.is_empty() {
            return wrong("no server: set a URL, such as ldaps://dc1.example.com".into());
        }
        if self.base.is_empty() {
            return wrong("no base: set where people are found, such as dc=example,dc=com".into());
        }
        if self.account.is_none() && self.person_dn.is_none() {
            return wrong(
                "nobody to search as: set an account, or as whom a person binds, such as {name}@example.com".into(),
            );
        }
        if self.account.as_ref().is_some_and(|(name, password)| name.is_empty() || password.expose().is_empty()) {
            return wrong("the account needs a name and a password: without one the server lets everybody in".into());
        }
        for (what, template) in [("the person's DN", &self.person_dn), ("the person's filter", &self.person_filter)] {
            if template.as_ref().is_some_and(|template| !template.contains(NAME)) {
                return wrong(format!("{what} has no {NAME}: everybody would be the same person"));
            }
        }
        self.urls.iter().map(|text| self.check_url(text)).collect()
    }

    fn check_url(&self, text: &str) -> Result<Url, Failure> {
        let wrong = |what: String| Err(Failure::Settings(format!("{text}: {what}")));
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => return wrong(error.to_string()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("name and password do not belong in the URL".into());
        }
        let Some(host) = url.host() else { return wrong("it has no host".into()) };
        let loopback = match host {
            // The schemes are not the web's, so an address is a name to the parser.
            Host::Domain(name) => {
                name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
            Host::Ipv4(ip) => ip.is_loopback(),
            Host::Ipv6(ip) => ip.is_loopback(),
        };
        match url.scheme() {
            "ldaps" => Ok(url),
            "ldap" if self.starttls || loopback || self.insecure => Ok(url),
            "ldap" => wrong("passwords would be sent in the clear: use ldaps://, or starttls".into()),
            _ => wrong("the scheme is ldaps or ldap".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Settings {
        Settings {
            urls: vec![url.into()],
            base: "dc=example,dc=com".into(),
            person_dn: Some("{name}@example.com".into()),
            ..Settings::default()
        }
    }

    fn complaint(settings: &Settings) -> String {
        settings.check().expect_err("a complaint").to_string()
    }

    #[test]
    fn passwords_leave_the_machine_only_encrypted() {
        assert!(complaint(&settings("ldap://dc1.example.com")).contains("in the clear"));
        assert!(settings("ldaps://dc1.example.com").check().is_ok());
        assert!(settings("ldap://127.0.0.1:389").check().is_ok());
        assert!(settings("ldap://[::1]:389").check().is_ok());
        let starttls = Settings { starttls: true, ..settings("ldap://dc1.example.com") };
        assert!(starttls.check().is_ok());
    }

    #[test]
    fn what_would_let_everybody_in_is_refused() {
        let everybody = Settings { person_dn: Some("cn=web".into()), ..settings("ldaps://dc1") };
        assert!(complaint(&everybody).contains("everybody would be the same person"));
        let account = Some(("cn=web".into(), Secret::new(String::new())));
        assert!(complaint(&Settings { account, ..settings("ldaps://dc1") }).contains("a name and a password"));
        assert!(complaint(&Settings { person_dn: None, ..settings("ldaps://dc1") }).contains("nobody to search as"));
    }

    #[test]
    fn urls_are_read_at_once() {
        assert!(complaint(&settings("https://dc1")).contains("scheme"));
        assert!(complaint(&settings("ldaps://web:secret@dc1")).contains("do not belong"));
        assert!(complaint(&settings("dc1.example.com")).contains("dc1.example.com"));
    }
}
