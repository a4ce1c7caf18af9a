//! Why somebody was not let in: each of the usual mistakes has a sentence for the log and one that says what to do.
//! Neither has a token, a key or a person's name in it.

use std::{fmt, time::Duration};

use crate::{keytab, token::Ticket};

/// Why a token was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What came is no token: what is wrong with it.
    Malformed(&'static str),
    /// NTLM, where only Kerberos is offered: the browser has no ticket for this server.
    NtlmNotOffered,
    /// NTLM is allowed, and the library has no mechanism for it.
    NtlmNotInstalled,
    /// The ticket is for a service whose key is not in the keytab.
    WrongService {
        ticket: Option<Ticket>,
        keytab: Vec<String>,
    },
    /// The ticket is encrypted with a version of the key that is not in the keytab.
    WrongKeyVersion {
        ticket: Option<Ticket>,
        keytab: Vec<u32>,
    },
    /// The keytab has a key of that version, and it does not decrypt the ticket.
    WrongKey {
        ticket: Option<Ticket>,
    },
    /// The keytab has no key for the ticket's encryption type.
    WrongEncryption {
        ticket: Option<Ticket>,
        keytab: Vec<String>,
    },
    /// The client's clock and ours differ by more than the library allows (5 minutes).
    ClockSkew,
    Expired,
    NotYetValid,
    /// This very token was accepted before.
    Replay,
    RealmNotAllowed {
        realm: String,
        allowed: Vec<String>,
    },
    /// The keytab has the key, and the settings do not have the service.
    ServiceNotAllowed {
        service: String,
        allowed: Vec<String>,
    },
    /// The ticket was made for another TLS connection.
    BindingsDiffer,
    /// The settings ask for channel bindings, and the client sent none, or the connection has none.
    BindingsMissing,
    /// A ticket that says of nobody that it is theirs.
    Anonymous,
    /// A name with characters that no name has, or a PAC that does not name anybody.
    OddName,
    Keytab(keytab::Problem),
    /// The replay cache can't be written: what the library says.
    ReplayCache(String),
    /// The library can't be loaded: why.
    Library(String),
    /// More legs than any mechanism has.
    TooLong,
    /// The queue is full.
    Busy,
    /// No answer in this time.
    TimedOut(Duration),
    /// What the library says of anything else.
    Other(String),
}

impl Refusal {
    /// A short name, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Refusal::Malformed(_) => "malformed",
            Refusal::NtlmNotOffered => "ntlm",
            Refusal::NtlmNotInstalled => "ntlm-not-installed",
            Refusal::WrongService { .. } => "wrong-service",
            Refusal::WrongKeyVersion { .. } => "wrong-key-version",
            Refusal::WrongKey { .. } => "wrong-key",
            Refusal::WrongEncryption { .. } => "wrong-encryption",
            Refusal::ClockSkew => "clock-skew",
            Refusal::Expired => "expired",
            Refusal::NotYetValid => "not-yet-valid",
            Refusal::Replay => "replay",
            Refusal::RealmNotAllowed { .. } => "realm-not-allowed",
            Refusal::ServiceNotAllowed { .. } => "service-not-allowed",
            Refusal::BindingsDiffer => "bindings-differ",
            Refusal::BindingsMissing => "bindings-missing",
            Refusal::Anonymous => "anonymous",
            Refusal::OddName => "odd-name",
            Refusal::Keytab(_) => "keytab",
            Refusal::ReplayCache(_) => "replay-cache",
            Refusal::Library(_) => "library",
            Refusal::TooLong => "too-long",
            Refusal::Busy => "busy",
            Refusal::TimedOut(_) => "timed-out",
            Refusal::Other(_) => "other",
        }
    }

    /// Whether it is this server's fault: then 503 is the answer, and not 401.
    pub fn is_ours(&self) -> bool {
        matches!(
            self,
            Refusal::Keytab(_)
                | Refusal::ReplayCache(_)
                | Refusal::Library(_)
                | Refusal::NtlmNotInstalled
                | Refusal::Busy
                | Refusal::TimedOut(_)
        )
    }

    /// What to do about it. None: nothing, or nobody knows.
    pub fn advice(&self) -> Option<String> {
        let text = match self {
            Refusal::NtlmNotOffered => {
                "The browser could not get a ticket for this server. Open the site by the name that the keytab has, not by its address or another name; \
                 add that name to the browser's list of trusted servers; check that the machine has signed in to the domain (klist)."
            }
            Refusal::NtlmNotInstalled => "Install gss-ntlmssp, or do not allow NTLM.",
            Refusal::WrongService { ticket: Some(ticket), .. } => {
                return Some(format!(
                    "Create the service {0} and export its key into the keytab (ktadd {0}; samba-tool domain exportkeytab --principal={0}; \
                     ktpass /princ {0}@{1}), or open the site by a name that the keytab has. A name that is an alias (CNAME) may become another one in the browser.",
                    ticket.service.escape_debug(),
                    ticket.realm.escape_debug()
                ));
            }
            Refusal::WrongService { ticket: None, .. } => "Open the site by a name that the keytab has.",
            Refusal::WrongKeyVersion { .. } => {
                "The key was changed and the keytab was not. Export the keytab again; keep the old keys in it until old tickets have expired (10 hours). \
                 A keytab that is newer than the ticket helps itself: the browser gets a new ticket when it signs in again (klist purge)."
            }
            Refusal::WrongKey { .. } => {
                "The keytab has another key under the same version: it was made for another account or from another password, or the service is \
                 registered twice (setspn -X). Export the keytab again."
            }
            Refusal::WrongEncryption { .. } => {
                "Export the keytab again with all encryption types that the KDC uses, and allow AES for the account (msDS-SupportedEncryptionTypes = 24)."
            }
            Refusal::ClockSkew => "Set the clocks of client, server and KDC by NTP. `paceline sso check` measures the server's.",
            Refusal::Expired => "Sign in again (kinit, or lock and unlock the screen).",
            Refusal::NotYetValid => "Set the clocks of client, server and KDC by NTP.",
            Refusal::Replay => {
                "Some proxy sent the request twice, or somebody recorded it. If it is regular, look for a proxy that repeats requests."
            }
            Refusal::RealmNotAllowed { .. } => "Add the realm to `realms` if its people may sign in here.",
            Refusal::ServiceNotAllowed { .. } => "Add the service to the settings if the site is reached by that name.",
            Refusal::BindingsDiffer => {
                "TLS ends before this server, or somebody is in between. If a proxy of yours ends it, do not check channel bindings."
            }
            Refusal::BindingsMissing => "The browser sends no channel bindings. Check them only if they are sent, or use TLS.",
            Refusal::Keytab(keytab::Problem::NotThere(_)) => "Export it, or correct the path.",
            Refusal::Keytab(keytab::Problem::Permission(_)) => {
                "Give it to the account that Paceline runs as, and to nobody else (chown, chmod 600)."
            }
            Refusal::Keytab(_) => "Export it again.",
            Refusal::ReplayCache(_) => "Look at the free space and the owner of /var/tmp/krb5_*.rcache2, or set KRB5RCACHENAME.",
            Refusal::Library(_) => "Install it (Debian: libgssapi-krb5-2).",
            Refusal::Malformed(_)
            | Refusal::Anonymous
            | Refusal::OddName
            | Refusal::TooLong
            | Refusal::Busy
            | Refusal::TimedOut(_)
            | Refusal::Other(_) => return None,
        };
        Some(text.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(what) => write!(f, "no token of Negotiate: {what}"),
            Refusal::NtlmNotOffered => write!(f, "an NTLM token, and only Kerberos is offered"),
            Refusal::NtlmNotInstalled => write!(f, "NTLM is allowed, and gss-ntlmssp is not installed"),
            Refusal::WrongService { ticket, keytab } => {
                write!(
                    f,
                    "{} is for a service whose key is not in the keytab, which has {}",
                    ticket_of(ticket),
                    list(keytab)
                )
            }
            Refusal::WrongKeyVersion { ticket, keytab } => {
                let versions: Vec<_> = keytab.iter().map(u32::to_string).collect();
                write!(f, "{}, and the keytab has key version {} of that service", ticket_of(ticket), list(&versions))
            }
            Refusal::WrongKey { ticket } => {
                write!(f, "{} can't be decrypted: the keytab's key is not the one that the KDC uses", ticket_of(ticket))
            }
            Refusal::WrongEncryption { ticket, keytab } => {
                write!(f, "{}, and the keytab has only {} for that service", ticket_of(ticket), list(keytab))
            }
            Refusal::ClockSkew => write!(f, "the client's clock and this server's differ by more than 5 minutes"),
            Refusal::Expired => write!(f, "the ticket has expired"),
            Refusal::NotYetValid => write!(f, "the ticket is not valid yet"),
            Refusal::Replay => write!(f, "this token was used before"),
            Refusal::RealmNotAllowed { realm, allowed } => {
                write!(f, "the realm {} may not sign in here; allowed: {}", realm.escape_debug(), list(allowed))
            }
            Refusal::ServiceNotAllowed { service, allowed } => {
                write!(
                    f,
                    "the ticket is for {}, which is not among the allowed services: {}",
                    service.escape_debug(),
                    list(allowed)
                )
            }
            Refusal::BindingsDiffer => write!(f, "the ticket was made for another TLS connection"),
            Refusal::BindingsMissing => write!(f, "the ticket is not bound to a TLS connection"),
            Refusal::Anonymous => write!(f, "an anonymous ticket"),
            Refusal::OddName => write!(f, "the ticket's name has characters that no name has"),
            Refusal::Keytab(problem) => problem.fmt(f),
            Refusal::ReplayCache(what) => write!(f, "the replay cache can't be used: {what}"),
            Refusal::Library(why) => write!(f, "Kerberos' library can't be loaded: {why}"),
            Refusal::TooLong => write!(f, "the conversation has more legs than any mechanism needs"),
            Refusal::Busy => write!(f, "too many tokens wait to be checked"),
            Refusal::TimedOut(time) => write!(f, "the token was not checked within {} s", time.as_secs()),
            Refusal::Other(what) => write!(f, "the Kerberos library refuses the token: {what}"),
        }
    }
}

impl std::error::Error for Refusal {}

fn ticket_of(ticket: &Option<Ticket>) -> String {
    ticket.as_ref().map_or("the ticket".into(), |ticket| format!("the ticket for {ticket}"))
}

/// At most eight of them: a keytab may have hundreds.
fn list(items: &[String]) -> String {
    const MAX: usize = 8;
    if items.is_empty() {
        return "nothing".into();
    }
    let shown = items.iter().take(MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match items.len() {
        ..=MAX => shown,
        more => format!("{shown} and {} more", more - MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn ticket() -> Option<Ticket> {
        Some(Ticket { service: "HTTP/www.example.com".into(), realm: "EXAMPLE.COM".into(), kvno: Some(3), etype: 18 })
    }

    /// The ten mistakes that are made most: a word that the sentence must have, and one that the advice must have.
    #[test]
    fn each_usual_mistake_says_what_it_is_and_what_to_do() {
        let keytab = vec!["HTTP/web.example.com@EXAMPLE.COM".to_owned()];
        let path = PathBuf::from("/etc/paceline/http.keytab");
        let mistakes = [
            (Refusal::NtlmNotOffered, "NTLM", "trusted servers"),
            (Refusal::WrongService { ticket: ticket(), keytab }, "HTTP/web.example.com@", "ktadd HTTP/www.example.com"),
            (
                Refusal::WrongKeyVersion { ticket: ticket(), keytab: vec![1, 2] },
                "key version 1, 2",
                "Export the keytab again",
            ),
            (Refusal::WrongKey { ticket: ticket() }, "can't be decrypted", "setspn -X"),
            (
                Refusal::WrongEncryption { ticket: ticket(), keytab: vec!["arcfour-hmac".into()] },
                "only arcfour-hmac",
                "AES",
            ),
            (Refusal::ClockSkew, "5 minutes", "NTP"),
            (Refusal::Expired, "expired", "kinit"),
            (
                Refusal::RealmNotAllowed { realm: "OTHER.TEST".into(), allowed: vec!["EXAMPLE.COM".into()] },
                "OTHER.TEST may not sign in here; allowed: EXAMPLE.COM",
                "`realms`",
            ),
            (Refusal::Keytab(keytab::Problem::Permission(path.clone())), "/etc/paceline/http.keytab", "chmod 600"),
            (Refusal::Keytab(keytab::Problem::NotThere(path)), "does not exist", "path"),
            (Refusal::BindingsDiffer, "another TLS connection", "proxy"),
        ];
        for (refusal, sentence, advice) in mistakes {
            assert!(refusal.to_string().contains(sentence), "{refusal}");
            let said = refusal.advice().expect("advice");
            assert!(said.contains(advice), "{said}");
        }
    }

    #[test]
    fn a_long_keytab_is_cut() {
        let services: Vec<_> = (0..30).map(|number| format!("HTTP/{number}")).collect();
        assert!(list(&services).ends_with("HTTP/7 and 22 more"));
        assert_eq!(list(&[]), "nothing");
    }

    #[test]
    fn only_what_the_operator_must_correct_is_ours() {
        assert!(Refusal::Busy.is_ours());
        assert!(!Refusal::Expired.is_ours());
    }
}
