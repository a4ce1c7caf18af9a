//! The usual mistakes that files and settings show by themselves. It asks nothing of the network, so that a server may
//! say it when it starts.

use negotiate::keytab::Keytab;

use super::{Level, Line};
use crate::config::{
    parts::sign_on::{Allow, Bindings, Kerberos, KerberosGroups, OpenId, Otherwise, SignOn},
    Bind, Config, SiteConfig,
};

const HTTPS: &str = "https";

/// What of a site's `[[sso]]` is worth a line in the log of a start: as one text each, with what to do. That a file can't
/// be read is said when it is opened, and that there is no https by the server itself.
pub fn warnings(config: &Config, site: &SiteConfig) -> Vec<String> {
    let said = |sign_on: &SignOn, line: Line| {
        let advice = line.advice.map_or(String::new(), |advice| format!(" {advice}"));
        format!("{}: {}: {}.{advice}", sign_on.shown(), line.subject, line.text)
    };
    let of = |sign_on: &SignOn| -> Vec<String> {
        let lines =
            of_settings(config, sign_on).into_iter().filter(|line| line.level != Level::Good && line.subject != HTTPS);
        lines.map(|line| said(sign_on, line)).collect()
    };
    site.parts.sign_on.iter().flat_map(of).collect()
}

/// What is wrong with an `[[sso]]` beside what its own parser refuses.
pub fn of_settings(config: &Config, sign_on: &SignOn) -> Vec<Line> {
    let mut lines = of_listeners(config, sign_on);
    if let Some(kerberos) = &sign_on.kerberos {
        lines.extend(of_keytab(kerberos));
        lines.extend(of_groups(sign_on, kerberos));
    }
    lines.extend(sign_on.oidc.iter().flat_map(|oidc| of_claims(sign_on, oidc)));
    lines
}

/// http in place of https, and proxies in front.
fn of_listeners(config: &Config, sign_on: &SignOn) -> Vec<Line> {
    let has_tls = config.tls.automatic.is_some() || config.binds.iter().any(|listening| listening.tls.is_some());
    if has_tls {
        return Vec::new();
    }
    let is_local = |bind: &Bind| match bind {
        Bind::Tcp(address) => address.ip().is_loopback(),
        Bind::Unix { .. } => true,
        Bind::Fd(_) => false,
    };
    let behind = config.binds.iter().all(|listening| is_local(&listening.bind));
    let mut lines = Vec::new();
    if sign_on.kerberos.as_ref().is_some_and(|kerberos| kerberos.bindings == Bindings::Require) {
        lines.push(Line::wrong(
            "proxy",
            "bindings = \"require\", and no address of this server is https: TLS ends elsewhere, and nobody can sign in",
            "Set bindings = \"off\" behind a proxy, or serve https here ([[tls]] or tls = \"auto\").",
        ));
    }
    if !behind {
        lines.push(Line::wrong(
            HTTPS,
            "people reach this server by http: tickets, passwords and sessions are sent in the clear, and browsers take no session cookie",
            "Serve https: [[tls]] with cert and key, or tls = \"auto\".",
        ));
        return lines;
    }
    lines.push(Line::warning(
        HTTPS,
        "no address of this server is https: a session cookie is only taken by https",
        "Serve https here, or by a proxy in front that sends X-Forwarded-Proto: https, and Authorization and WWW-Authenticate as they are.",
    ));
    if sign_on.kerberos.as_ref().is_some_and(|kerberos| kerberos.ntlm) {
        lines.push(Line::warning(
            "proxy",
            "ntlm = true, and TLS ends elsewhere: behind a proxy that shares connections NTLM signs in nobody",
            "Set ntlm = false.",
        ));
    }
    lines
}

/// The realms and services of the settings beside those of the keytab.
fn of_keytab(kerberos: &Kerberos) -> Vec<Line> {
    let Ok(keytab) = Keytab::read(&kerberos.keytab) else { return Vec::new() };
    let mut lines = Vec::new();
    if keytab.entries.iter().all(|entry| !entry.service.starts_with("HTTP/")) {
        lines.push(Line::wrong(
            "keytab",
            format!("{} has no key of an HTTP service", kerberos.keytab.display()),
            "Export the key of HTTP/HOST into it, HOST being the site's name: HTTP in capitals, also for https.",
        ));
    }
    let own = keytab.realms();
    for realm in kerberos.realms.iter().filter(|realm| !own.contains(realm)) {
        lines.push(match own.iter().find(|own| own.eq_ignore_ascii_case(realm)) {
            Some(meant) => Line::wrong(
                "realm",
                format!("realms has {realm:?}, and the keytab's realm is {meant:?}: nobody of it can sign in"),
                format!("Write realms = [{meant:?}]: capitals count."),
            ),
            None if kerberos.realms.iter().any(|one| own.contains(one)) => Line::warning(
                "realm",
                format!("{realm} is no realm of the keytab ({})", own.join(", ")),
                format!("Its people can sign in only if {} trusts it.", own.join(", ")),
            ),
            None => Line::wrong(
                "realm",
                format!(
                    "no realm of realms = {:?} is one of the keytab, which has {}",
                    kerberos.realms,
                    own.join(", ")
                ),
                format!("Write realms = [{:?}], or export the key from the right realm.", own.join("\", \"")),
            ),
        });
    }
    for service in &kerberos.services {
        if !keytab.entries.iter().any(|entry| entry.service.eq_ignore_ascii_case(service)) {
            lines.push(Line::wrong(
                "keytab",
                format!("service = {service:?}, and the keytab has no key of it"),
                "Export it into the keytab, or leave `service` out.",
            ));
        }
    }
    lines
}

/// Groups that nobody with a ticket is ever in.
fn of_groups(sign_on: &SignOn, kerberos: &Kerberos) -> Vec<Line> {
    let has_directory = sign_on.basic.as_ref().is_some_and(|basic| basic.account.is_some());
    let from = kerberos.groups.unwrap_or(if has_directory { KerberosGroups::Ldap } else { KerberosGroups::Ticket });
    let named = groups(sign_on).filter(|group| !group.starts_with("S-1-")).cloned().collect::<Vec<_>>();
    let only_groups = !named.is_empty() && sign_on.allow.iter().all(|allow| matches!(allow, Allow::Group(_)));
    match from {
        KerberosGroups::Ldap => Vec::new(),
        _ if !only_groups => Vec::new(),
        KerberosGroups::Ticket => vec![Line::warning(
            "allow",
            format!("allow names {}, and the groups of a ticket are numbers like S-1-5-21-...", named.join(", ")),
            "Add basic = { ldap, base, account, password_file }: the directory has the names.",
        )],
        KerberosGroups::None => vec![Line::wrong(
            "allow",
            format!("allow names {}, and groups = \"none\": nobody with a ticket may come in", named.join(", ")),
            "Set groups = \"ldap\" or \"ticket\".",
        )],
    }
}

fn of_claims(sign_on: &SignOn, oidc: &OpenId) -> Vec<Line> {
    let named: Vec<_> = groups(sign_on).cloned().collect();
    let only_groups = !named.is_empty() && sign_on.allow.iter().all(|allow| matches!(allow, Allow::Group(_)));
    if oidc.groups_claim.is_none() && only_groups && sign_on.otherwise == Otherwise::OpenId {
        vec![Line::wrong(
            "allow",
            format!("allow names {}, and nothing says which claim has the groups", named.join(", ")),
            "Set groups_claim = \"groups\" in oidc (Keycloak: \"realm_access.roles\"), and its scope in scopes.",
        )]
    } else {
        Vec::new()
    }
}

fn groups(sign_on: &SignOn) -> impl Iterator<Item = &String> {
    sign_on.allow.iter().filter_map(|allow| match allow {
        Allow::Group(name) => Some(name),
        _ => None,
    })
}
