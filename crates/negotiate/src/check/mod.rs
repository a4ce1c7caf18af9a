//! What an operator asks before people sign in: is the keytab right, do the clocks agree, is the site's name the one
//! that browsers ask tickets for, does a ticket of my own work, and what has each browser to be told. Each answer says
//! what to do. It changes nothing, and sends nobody's password.

mod browsers;
mod kdc;
mod names;
mod round_trip;
mod skew;
mod srv;

use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};

pub use browsers::{browsers, Browser};
pub use kdc::{default_realm, kdcs, Address, Configuration};
pub use names::names;
pub use round_trip::{first_token, round_trip, RoundTrip};
pub use skew::{skew, Skew};
pub use srv::lookup as srv_records;

use crate::{keytab::Keytab, Acceptor, Settings};

/// Most that clocks may differ without any harm; the library allows five minutes.
const TOLERATED_SKEW: Duration = Duration::from_secs(60);
/// For a KDC to answer.
const KDC_TIMEOUT: Duration = Duration::from_secs(3);
/// Older encryption: DES and RC4. Windows turns them off.
const WEAK: [i32; 5] = [1, 2, 3, 16, 23];

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Good,
    /// Works, and is worth knowing.
    Note,
    /// Somebody will not be able to sign in, or somebody could who should not.
    Bad,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `keytab`, `clock`, `name`, `ticket`
    pub topic: &'static str,
    pub level: Level,
    pub text: String,
    /// What to do.
    pub advice: Option<String>,
}

impl Finding {
    fn good(topic: &'static str, text: String) -> Finding {
        Finding { topic, level: Level::Good, text, advice: None }
    }

    fn note(topic: &'static str, text: String, advice: &str) -> Finding {
        Finding { topic, level: Level::Note, text, advice: Some(advice.into()) }
    }

    fn bad(topic: &'static str, text: String, advice: Option<String>) -> Finding {
        Finding { topic, level: Level::Bad, text, advice }
    }
}

/// All of it, for a site of this host name. It blocks, on the network too: at most some seconds for each realm.
pub fn all(settings: &Settings, host: &str) -> Vec<Finding> {
    let mut findings = keytab(&settings.keytab, host);
    if let Ok(read) = Keytab::read(&settings.keytab) {
        let realms = if settings.realms.is_empty() { read.realms() } else { settings.realms.clone() };
        findings.extend(realms.iter().flat_map(|realm| clock(realm)));
        findings.extend(names(host, &read));
        findings.push(match Acceptor::open(settings.clone()) {
            Ok(acceptor) => ticket(&acceptor, host),
            Err(refusal) => Finding::bad("ticket", refusal.to_string(), refusal.advice()),
        });
    }
    findings
}

/// Is the keytab readable, by whom, and what is in it?
pub fn keytab(path: &Path, host: &str) -> Vec<Finding> {
    const TOPIC: &str = "keytab";
    let keytab = match Keytab::read(path) {
        Ok(keytab) => keytab,
        Err(problem) => {
            let refusal = crate::Refusal::Keytab(problem);
            return vec![Finding::bad(TOPIC, refusal.to_string(), refusal.advice())];
        }
    };
    let mut findings = vec![];
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        findings.push(Finding::bad(
            TOPIC,
            format!("{} can be read by others than its owner (mode {mode:o})", path.display()),
            Some("With the key one can sign in as anybody: chmod 600.".into()),
        ));
    }
    for service in keytab.services() {
        let own: Vec<_> =
            keytab.entries.iter().filter(|entry| format!("{}@{}", entry.service, entry.realm) == service).collect();
        let newest = own.iter().map(|entry| entry.kvno).max().unwrap_or(0);
        let mut types: Vec<_> =
            own.iter().filter(|entry| entry.kvno == newest).map(|entry| crate::etype_name(entry.etype)).collect();
        types.dedup();
        let older = own.iter().filter(|entry| entry.kvno != newest).count();
        let older = if older > 0 { format!(", and {older} older keys") } else { String::new() };
        let service = service.escape_debug();
        findings.push(Finding::good(TOPIC, format!("{service}: key version {newest} ({}){older}", types.join(", "))));
        if own.iter().filter(|entry| entry.kvno == newest).all(|entry| WEAK.contains(&entry.etype)) {
            findings.push(Finding::note(
                TOPIC,
                format!("{service} has only keys of old encryption"),
                "Allow AES for the account (msDS-SupportedEncryptionTypes = 24), change its password and export the keytab again.",
            ));
        }
    }
    let wanted = format!("HTTP/{host}");
    if !keytab.entries.iter().any(|entry| entry.service.eq_ignore_ascii_case(&wanted)) {
        findings.push(Finding::bad(
            TOPIC,
            format!("there is no key of {wanted}, which browsers ask a ticket for"),
            Some(format!(
                "Create that service and export its key into {}, or open the site by another name.",
                path.display()
            )),
        ));
    }
    findings
}

/// How far is this machine's clock from the KDCs' of a realm?
pub fn clock(realm: &str) -> Vec<Finding> {
    const TOPIC: &str = "clock";
    let (configured, problem) = Configuration::read();
    let addresses = kdcs(&configured, realm);
    if addresses.is_empty() {
        let advice = format!("Set kdc for {realm} in /etc/krb5.conf, or the DNS records _kerberos._tcp.{realm}.");
        let because = problem.map_or(String::new(), |problem| format!(" ({problem})"));
        return vec![Finding::note(TOPIC, format!("no KDC of {realm} is known{because}"), &advice)];
    }
    let measure = |address: &Address| match skew(address, realm, KDC_TIMEOUT) {
        Ok(skew) if skew.size() <= TOLERATED_SKEW => {
            Finding::good(TOPIC, format!("{address}, a KDC of {realm}: the clocks differ by {skew}"))
        }
        Ok(skew) => Finding::bad(
            TOPIC,
            format!("{address}, a KDC of {realm}: this machine's clock differs by {skew}"),
            Some("Set both by NTP. Beyond 5 minutes nobody can sign in.".into()),
        ),
        Err(why) => Finding::note(
            TOPIC,
            format!("{address}, a KDC of {realm}, does not tell the time: {why}"),
            "People need it for a ticket; this server does not need it to accept one.",
        ),
    };
    addresses.iter().take(4).map(measure).collect()
}

/// Does a ticket of the caller's own work? It blocks, on the network too.
pub fn ticket(acceptor: &Acceptor, host: &str) -> Finding {
    const TOPIC: &str = "ticket";
    match round_trip(acceptor, host) {
        RoundTrip::Accepted { name, realm, groups } => Finding::good(
            TOPIC,
            format!(
                "your ticket signs you in as {} of {}, with {groups} groups",
                name.escape_debug(),
                realm.escape_debug()
            ),
        ),
        // MIT's words for KDC_ERR_S_PRINCIPAL_UNKNOWN; "Client ..." would be the caller.
        RoundTrip::NoTicket(why) if why.contains("Server ") && why.contains("not found in Kerberos database") => {
            Finding::bad(
                TOPIC,
                format!("the KDC knows no service HTTP/{host}: browsers get no ticket, and send NTLM or nothing"),
                Some(format!(
                    "Create it and export its key into the keytab (kadmin: addprinc -randkey HTTP/{host}, ktadd; Active Directory: setspn -S HTTP/{host} ACCOUNT), \
                     or open the site by a name that it knows."
                )),
            )
        }
        RoundTrip::NoTicket(why) => Finding::note(
            TOPIC,
            format!("no ticket for HTTP/{host} to try: {why}"),
            "Run `kinit` as somebody who may sign in, then this again.",
        ),
        RoundTrip::Refused(refusal) => Finding::bad(TOPIC, refusal.to_string(), refusal.advice()),
        RoundTrip::ServerNotProved(why) => {
            Finding::bad(TOPIC, format!("the server accepts your ticket and can't prove itself: {why}"), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keytab_that_is_not_there_is_one_finding_with_advice() {
        let findings = keytab(Path::new("/nonexistent/http.keytab"), "web.example.com");
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, Level::Bad);
        assert!(findings[0].advice.is_some());
    }
}
