//! `[[sso]]`: which paths need somebody who has signed in, how people prove who they are, and who may come in.
//! It reads the tables; it never opens a keytab, a file of a secret or a connection.
//!
//! Reading order: `SignOn`, `parse` (the table), `ways` (kerberos, basic and oidc).

mod options;
mod parse;
mod ways;

use std::{path::PathBuf, time::Duration};

use ipnet::IpNet;

pub use self::{
    options::OPTIONS,
    ways::{Basic, Bindings, Kerberos, KerberosGroups, OpenId},
};
use crate::config::{parts::rules::Rule, SiteConfig};

/// One `[[sso]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignOn {
    /// Paths that need somebody who has signed in, with `*` for anything. Never empty.
    pub paths: Vec<String>,
    /// Of these the ones that do not.
    pub except: Vec<String>,
    pub kerberos: Option<Kerberos>,
    pub basic: Option<Basic>,
    pub oidc: Option<OpenId>,
    pub otherwise: Otherwise,
    /// Who may come in. Empty: everybody who has signed in.
    pub allow: Vec<Allow>,
    pub local: LocalName,
    /// The addresses that are offered Negotiate. Empty: all.
    pub intranet: Vec<IpNet>,
    /// A session ends so long after it began.
    pub lifetime: Duration,
    /// A session ends so long after its last use. None: only `lifetime` ends it.
    pub idle: Option<Duration>,
    pub store: Store,
}

/// What becomes of a visitor who has proved nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// The application gets the request, without a user.
    App,
    /// The browser is sent to the identity provider.
    OpenId,
    /// It is asked for name and password.
    Basic,
    /// A page that says so.
    Refuse,
}

/// Somebody who may come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow {
    User(String),
    Group(String),
    Realm(String),
}

/// What becomes of the realm in REMOTE_USER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalName {
    /// `alice@EXAMPLE.COM` is `alice`, if EXAMPLE.COM is the first of the realms.
    StripRealm,
    Keep,
}

/// Where sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// A file in the server's state directory.
    Usual,
    File(PathBuf),
    Redis {
        url: String,
        password_file: Option<PathBuf>,
        ca_file: Option<PathBuf>,
    },
}

impl SignOn {
    /// Names the table for people.
    pub fn shown(&self) -> String {
        format!("[[sso]] path = {:?}", self.paths.join(", "))
    }
}

impl std::fmt::Display for Allow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Allow::User(name) => write!(f, "user:{name}"),
            Allow::Group(name) => write!(f, "group:{name}"),
            Allow::Realm(name) => write!(f, "realm:{name}"),
        }
    }
}

/// What does not go together with a `[[rule]]`.
pub fn check(sites: &[SiteConfig]) -> Vec<String> {
    let asks = |site: &&SiteConfig| site.parts.rules.iter().any(|rule| rule.basic_auth.is_some());
    let reads = |site: &&SiteConfig| site.parts.sign_on.iter().any(|one| one.basic.is_some() || one.kerberos.is_some());
    let both = sites.iter().filter(asks).filter(reads).map(|site| {
        format!(
            "site {:?} has a [[rule]] with basic_auth and an [[sso]] with kerberos or basic: a browser sends only one of both in \
             Authorization, so nobody could come in; remove one of them",
            site.name
        )
    });
    both.chain(sites.iter().filter(|site| !site.parts.sign_on.is_empty()).flat_map(passed_users)).collect()
}

/// A name of a file of passwords would stand for somebody who has signed in by [[sso]].
fn passed_users(site: &SiteConfig) -> impl Iterator<Item = String> + '_ {
    let passes = |rule: &&Rule| rule.basic_auth.as_ref().is_some_and(|basic| basic.pass_user);
    site.parts.rules.iter().filter(passes).map(|rule| {
        format!(
            "{} of site {:?} has pass_user, and the site has an [[sso]]: the application could not tell the names of both apart; \
             remove pass_user, or the [[sso]]",
            rule.shown(),
            site.name
        )
    })
}

#[cfg(test)]
mod tests;
