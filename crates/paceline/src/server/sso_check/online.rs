//! What others say: KDCs, the DNS, directories and issuers. Each is asked with a time limit. It sends nobody's password
//! but that of the account that searches.

use std::time::{SystemTime, UNIX_EPOCH};

use directory::{Denial, Failure};
use negotiate::{check, keytab::Keytab, Acceptor};

use super::{Line, Visit};
use crate::{
    config::parts::sign_on::{Basic, Bindings, Kerberos, OpenId},
    request::{access_rules::RESERVED, auth::opening},
};

/// Nobody has this name.
const NOBODY: &str = "paceline-sso-check";

pub fn kerberos(kerberos: &Kerberos, hosts: &[String]) -> Vec<Line> {
    let mut settings = opening::kerberos_settings(kerberos);
    if kerberos.bindings == Bindings::Require {
        // The check has no connection that a ticket could be made for.
        settings.bindings = negotiate::BindingPolicy::IfSent;
    }
    let mut findings: Vec<_> = hosts.iter().flat_map(|host| check::keytab(&settings.keytab, host)).collect();
    let keytab = match Keytab::read(&settings.keytab) {
        Ok(keytab) => keytab,
        Err(_) if !hosts.is_empty() => return findings.into_iter().map(Line::from).collect(),
        Err(problem) => {
            let refusal = negotiate::Refusal::Keytab(problem);
            return vec![Line::wrong("keytab", refusal.to_string(), refusal.advice().unwrap_or_default())];
        }
    };
    let realms = if settings.realms.is_empty() { keytab.realms() } else { settings.realms.clone() };
    findings.extend(realms.iter().flat_map(|realm| check::clock(realm)));
    findings.extend(hosts.iter().flat_map(|host| check::names(host, &keytab)));
    let mut lines: Vec<_> = findings.into_iter().map(Line::from).collect();
    match Acceptor::open(settings) {
        Ok(acceptor) => lines.extend(hosts.iter().map(|host| Line::from(check::ticket(&acceptor, host)))),
        Err(refusal) => {
            lines.push(Line::wrong("ticket", refusal.to_string(), refusal.advice().unwrap_or_default()));
        }
    }
    lines
}

pub fn directory(basic: &Basic) -> Line {
    const SUBJECT: &str = "ldap";
    let wrong = |what: String, advice: &str| Line::wrong(SUBJECT, what, advice);
    let (directory, runtime) = match (opening::directory(basic), runtime()) {
        (Ok(directory), Ok(runtime)) => (directory, runtime),
        (Err(closed), _) => return wrong(closed.why, closed.advice.as_deref().unwrap_or("Correct basic = { ... }.")),
        (_, Err(line)) => return line,
    };
    let server = match runtime.block_on(directory.check()) {
        Ok(server) => server,
        Err(failure) => {
            let advice =
                "Look at the address, the port (636 for ldaps://, 389 for ldap://) and the certificate (ca_file).";
            return wrong(failure.to_string(), advice);
        }
    };
    let (url, kind) = (&server.url, server.kind);
    match server.account {
        None => return Line::good(SUBJECT, format!("{url} answers ({kind:?}); people sign in as themselves")),
        Some(false) => {
            let name = basic.account.as_deref().unwrap_or_default();
            let what = format!("{url} answers, and does not let the account {name} in");
            return wrong(what, "Correct account or password_file; the account may be locked or its password expired.");
        }
        Some(true) => {}
    }
    match runtime.block_on(directory.groups(NOBODY)) {
        Ok(_) | Err(Failure::Denied(Denial::Unknown)) => {
            Line::good(SUBJECT, format!("{url} answers ({kind:?}), lets the account in and searches {}", basic.base))
        }
        Err(failure) => {
            wrong(failure.to_string(), "Set base to where people and groups are, such as dc=example,dc=com.")
        }
    }
}

pub fn openid(oidc: &OpenId, hosts: &[String], visit: Option<&Visit>) -> Vec<Line> {
    let (provider, runtime) = match (opening::provider(oidc), runtime()) {
        (Ok(provider), Ok(runtime)) => (provider, runtime),
        (Err(closed), _) => {
            let advice = closed.advice.unwrap_or_else(|| "Correct oidc = { ... }.".into());
            return vec![Line::wrong("issuer", closed.why, advice)];
        }
        (_, Err(line)) => return vec![line],
    };
    let own = visit.and_then(|visit| visit.origin()).or_else(|| Some(format!("https://{}", hosts.first()?)));
    let redirect = format!("{}{RESERVED}callback", own.as_deref().unwrap_or("https://HOST"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    runtime.block_on(provider.check(&redirect, now)).into_iter().map(Line::from).collect()
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Line> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| {
        Line::wrong("network", error.to_string(), "The system refuses what every network program needs.")
    })
}
