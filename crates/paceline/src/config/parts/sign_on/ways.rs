//! The ways in which people prove who they are: `kerberos`, `basic` and `oidc` of an `[[sso]]`.
//! A password or a client's secret never stands in these tables, only the file that has it.

use std::{path::PathBuf, time::Duration};

use crate::config::table_fields::{Table, TableError};

/// Tickets (Negotiate).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kerberos {
    pub keytab: PathBuf,
    /// Whose people may sign in, the own realm first. Empty: the realms of the keytab.
    pub realms: Vec<String>,
    /// `HTTP/web.example.com`. Empty: HTTP of every host in the keytab.
    pub services: Vec<String>,
    pub bindings: Bindings,
    pub ntlm: bool,
    /// None: by `basic`'s directory if there is one with an account, else those of the ticket.
    pub groups: Option<KerberosGroups>,
}

/// Whether a ticket has to be made for the TLS connection that it comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bindings {
    Off,
    Allow,
    Require,
}

/// Where the groups of somebody with a ticket come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KerberosGroups {
    /// The ticket: security identifiers of Active Directory (`S-1-5-21-...`).
    Ticket,
    /// The directory of `basic`.
    Ldap,
    None,
}

/// Name and password, which a directory checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basic {
    /// URLs of the servers.
    pub ldap: Vec<String>,
    pub base: String,
    pub group_base: Option<String>,
    /// Who searches, with the password in `password_file`.
    pub account: Option<String>,
    pub password_file: Option<PathBuf>,
    /// As whom a person binds where there is no account: `{name}@example.com`.
    pub bind_as: Option<String>,
    pub person_filter: Option<String>,
    pub name_attribute: Option<String>,
    pub group_attribute: Option<String>,
    pub starttls: bool,
    pub ca_file: Option<PathBuf>,
    pub timeout: Duration,
    /// How long an answer of the directory serves again.
    pub cache: Duration,
    /// What browsers show beside name and password (RFC 7617).
    pub prompt: String,
}

/// OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenId {
    pub issuer: String,
    pub client_id: String,
    /// None: a public client.
    pub client_secret_file: Option<PathBuf>,
    /// Besides `openid`.
    pub scopes: Vec<String>,
    pub name_claim: String,
    pub groups_claim: Option<String>,
    pub ca_file: Option<PathBuf>,
    /// Where the browser goes after the logout: a path of the site. None: a page that says so.
    pub after_logout: Option<String>,
}

const KERBEROS: &[&str] = &["keytab", "realms", "service", "bindings", "ntlm", "groups"];
const BASIC: &[&str] = &[
    "ldap",
    "base",
    "group_base",
    "account",
    "password_file",
    "bind_as",
    "person_filter",
    "name_attribute",
    "group_attribute",
    "starttls",
    "ca_file",
    "timeout",
    "cache",
    "prompt",
];
const OIDC: &[&str] =
    &["issuer", "client_id", "client_secret_file", "scopes", "name_claim", "groups_claim", "ca_file", "after_logout"];

/// Every host of the keytab.
const ANY_HOST: &str = "HTTP@any";

pub fn kerberos(table: &Table<'_>) -> Result<Kerberos, TableError> {
    table.check(KERBEROS)?;
    let services = table.texts("service")?.unwrap_or_default();
    let mut named = Vec::new();
    for service in services.into_iter().filter(|service| service != ANY_HOST) {
        let host = service.strip_prefix("HTTP/").or_else(|| service.strip_prefix("HTTP@")).unwrap_or_default();
        if host.is_empty() || host.contains(['/', '@', ' ']) {
            return Err(table.wrong("service", "\"HTTP@any\" or names like \"HTTP/web.example.com\"", service));
        }
        named.push(format!("HTTP/{host}"));
    }
    let realms = table.texts("realms")?.unwrap_or_default();
    if let Some(realm) = realms.iter().find(|realm| realm.contains(['@', '/', ' '])) {
        return Err(table.wrong("realms", "names like \"EXAMPLE.COM\"", realm));
    }
    let bindings = [("off", Bindings::Off), ("allow", Bindings::Allow), ("require", Bindings::Require)];
    let groups = [("ticket", KerberosGroups::Ticket), ("ldap", KerberosGroups::Ldap), ("none", KerberosGroups::None)];
    Ok(Kerberos {
        keytab: table
            .path("keytab")?
            .ok_or_else(|| table.missing("keytab", "keytab = \"/etc/paceline/http.keytab\""))?,
        realms,
        services: named,
        bindings: table.word("bindings", "\"off\", \"allow\" or \"require\"", &bindings)?.unwrap_or(Bindings::Allow),
        ntlm: table.bool("ntlm")?,
        groups: table.word("groups", "\"ticket\", \"ldap\" or \"none\"", &groups)?,
    })
}

pub fn basic(table: &Table<'_>) -> Result<Basic, TableError> {
    if let Some(key) = ["password", "secret", "account_password"].into_iter().find(|key| table.item(key).is_some()) {
        return Err(table.refused(key, "write it into a file of mode 600 and name that: password_file = \"...\""));
    }
    table.check(BASIC)?;
    let ldap = table.texts("ldap")?.filter(|urls| !urls.is_empty());
    let ldap = ldap.ok_or_else(|| table.missing("ldap", "ldap = \"ldaps://dc1.example.com\""))?;
    let (account, password_file) = (table.text("account")?, table.path("password_file")?);
    let base = table.text("base")?.ok_or_else(|| table.missing("base", "base = \"dc=example,dc=com\""))?;
    let bind_as = match (table.text("bind_as")?, &account) {
        (None, None) => of_domain(&base),
        (bind_as, _) => bind_as,
    };
    match (&account, &password_file, &bind_as) {
        (Some(_), None, _) => {
            return Err(table.missing("password_file", "password_file = \"/etc/paceline/ldap.password\", the account's"))
        }
        (None, Some(_), _) => {
            return Err(table.missing("account", "account = \"paceline@example.com\", whose password it is"))
        }
        (None, None, None) => return Err(table.missing(
            "account",
            "account = \"paceline@example.com\" and password_file, who searches; or bind_as = \"{name}@example.com\"",
        )),
        _ => {}
    }
    let prompt = table.text("prompt")?.unwrap_or_else(|| "Sign in".into());
    if !prompt.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\') {
        return Err(table.wrong("prompt", "letters, digits and signs of ASCII without quotes", prompt));
    }
    let times = Duration::from_millis(100)..=Duration::from_secs(60);
    let keeps = Duration::ZERO..=Duration::from_secs(3600);
    Ok(Basic {
        ldap,
        base,
        group_base: table.text("group_base")?,
        account,
        password_file,
        bind_as,
        person_filter: table.text("person_filter")?,
        name_attribute: table.text("name_attribute")?,
        group_attribute: table.text("group_attribute")?,
        starttls: table.bool("starttls")?,
        ca_file: table.path("ca_file")?,
        timeout: table.time("timeout", "a time like \"5s\", at most 60s", times)?.unwrap_or(Duration::from_secs(5)),
        cache: table.time("cache", "a time like \"60s\", at most 1h", keeps)?.unwrap_or(Duration::from_secs(60)),
        prompt,
    })
}

/// As people sign in where nothing is said of it: by the name that Active Directory gives each of them (the user principal
/// name) in the domain that the base names.
fn of_domain(base: &str) -> Option<String> {
    let parts = base.split(',').map(|part| part.trim().split_once('=').unwrap_or_default());
    let parts: Vec<&str> =
        parts.filter(|(kind, _)| kind.trim().eq_ignore_ascii_case("dc")).map(|(_, name)| name.trim()).collect();
    (!parts.is_empty()).then(|| format!("{{name}}@{}", parts.join(".")))
}

pub fn oidc(table: &Table<'_>) -> Result<OpenId, TableError> {
    if table.item("client_secret").is_some() {
        let why = "write it into a file of mode 600 and name that: client_secret_file = \"...\"";
        return Err(table.refused("client_secret", why));
    }
    table.check(OIDC)?;
    let after_logout = table.text("after_logout")?;
    if let Some(wrong) = after_logout.as_ref().filter(|path| sign_in::ReturnTo::parse(path).is_none()) {
        return Err(table.wrong("after_logout", "a path of the site like \"/goodbye\"", wrong));
    }
    let oidc = OpenId {
        issuer: table
            .text("issuer")?
            .ok_or_else(|| table.missing("issuer", "issuer = \"https://login.example.com\""))?,
        client_id: table.text("client_id")?.ok_or_else(|| table.missing("client_id", "client_id = \"shop\""))?,
        client_secret_file: table.path("client_secret_file")?,
        scopes: table.texts("scopes")?.unwrap_or_else(|| vec!["profile".into(), "email".into()]),
        name_claim: table.text("name_claim")?.unwrap_or_else(|| "preferred_username".into()),
        groups_claim: table.text("groups_claim")?,
        ca_file: table.path("ca_file")?,
        after_logout,
    };
    let tried = openid::Settings {
        issuer: oidc.issuer.clone(),
        client_id: oidc.client_id.clone(),
        client_secret: None,
        scopes: oidc.scopes.clone(),
        name_claim: oidc.name_claim.clone(),
        groups_claim: oidc.groups_claim.clone(),
        ca_file: None,
    };
    tried.check().map_err(|error| TableError::Other(format!("is wrong in {}: {error}", table.name)))?;
    Ok(oidc)
}
