//! What an error of the library means to people: its number, with what stands on the ticket and in the keytab, names
//! one of the usual mistakes. Pure.

use std::path::Path;

use crate::{
    gss::GssError,
    keytab::{Keytab, Problem},
    token::{etype_name, Ticket},
    Refusal,
};

/// The number of KRB5KDC_ERR_NONE in krb5.h; the others follow.
const FIRST: i32 = -1_765_328_384;
/// GSS_S_BAD_BINDINGS, GSS_S_CREDENTIALS_EXPIRED and GSS_S_CONTEXT_EXPIRED.
const BAD_BINDINGS: u32 = 4;
const CREDENTIALS_EXPIRED: u32 = 11;
const CONTEXT_EXPIRED: u32 = 12;

/// What went wrong, as far as the error alone tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// None of the keytab's keys fits.
    Key,
    Keytab,
    ReplayCache,
    Replay,
    ClockSkew,
    Expired,
    NotYetValid,
    Bindings,
    Unknown,
}

/// The refusal that this error is.
pub fn explain(error: &GssError, ticket: Option<Ticket>, keytab: &Keytab, path: &Path) -> Refusal {
    match cause(error) {
        Cause::Key => key(ticket, keytab),
        Cause::Keytab => Refusal::Keytab(Problem::Unreadable(path.into(), error.text.clone())),
        Cause::ReplayCache => Refusal::ReplayCache(error.text.clone()),
        Cause::Replay => Refusal::Replay,
        Cause::ClockSkew => Refusal::ClockSkew,
        Cause::Expired => Refusal::Expired,
        Cause::NotYetValid => Refusal::NotYetValid,
        Cause::Bindings => Refusal::BindingsDiffer,
        Cause::Unknown => Refusal::Other(error.text.clone()),
    }
}

fn cause(error: &GssError) -> Cause {
    match error.code.wrapping_sub(FIRST) {
        32 => Cause::Expired,
        33 => Cause::NotYetValid,
        34 => Cause::Replay,
        37 => Cause::ClockSkew,
        // KDC_ERR_ETYPE_NOSUPP, AP_ERR_BAD_INTEGRITY, AP_ERR_NOT_US, AP_ERR_MODIFIED, AP_ERR_BADKEYVER, AP_ERR_NOKEY,
        // AP_WRONG_PRINC, KT_NOTFOUND, BAD_ENCTYPE, KT_KVNONOTFOUND.
        14 | 31 | 35 | 41 | 44 | 45 | 144 | 181 | 188 | 230 => Cause::Key,
        // KRB5_RC_*
        159..=172 | 215 => Cause::ReplayCache,
        // KRB5_KT_*
        179 | 180 | 182 | 184 | 235 => Cause::Keytab,
        _ => by_words(error),
    }
}

/// Within SPNEGO the library gives a mechanism's number away for one of its own (100001, ...), which means something
/// else in each process. Its words stay: those of rd_req_dec.c and of krb5_err.et, which are translated only in a
/// program that asks for that.
fn by_words(error: &GssError) -> Cause {
    const WORDS: [(&str, Cause); 11] = [
        ("Clock skew too great", Cause::ClockSkew),
        ("Ticket expired", Cause::Expired),
        ("Ticket not yet valid", Cause::NotYetValid),
        ("Request is a replay", Cause::Replay),
        ("replay cache", Cause::ReplayCache),
        ("Request ticket server", Cause::Key),
        ("Server principal", Cause::Key),
        ("Cannot decrypt ticket", Cause::Key),
        ("Decrypt integrity check failed", Cause::Key),
        ("Wrong principal in request", Cause::Key),
        ("Key table entry not found", Cause::Key),
    ];
    let by_words = WORDS.iter().find(|(words, _)| error.text.contains(words)).map(|(_, cause)| *cause);
    match error.routine {
        BAD_BINDINGS => Cause::Bindings,
        CREDENTIALS_EXPIRED | CONTEXT_EXPIRED => by_words.unwrap_or(Cause::Expired),
        _ => by_words.unwrap_or(Cause::Unknown),
    }
}

/// Which key is missing, by the ticket's label.
fn key(ticket: Option<Ticket>, keytab: &Keytab) -> Refusal {
    let Some(label) = &ticket else { return Refusal::WrongKey { ticket } };
    let own: Vec<_> = keytab.of(&label.service, &label.realm).collect();
    if own.is_empty() {
        return Refusal::WrongService { ticket, keytab: keytab.services() };
    }
    let of_version: Vec<_> = own.iter().filter(|entry| label.kvno.is_none_or(|kvno| kvno == entry.kvno)).collect();
    if of_version.is_empty() {
        let mut versions: Vec<_> = own.iter().map(|entry| entry.kvno).collect();
        versions.sort_unstable();
        versions.dedup();
        return Refusal::WrongKeyVersion { ticket, keytab: versions };
    }
    if !of_version.iter().any(|entry| entry.etype == label.etype) {
        let types = of_version.iter().map(|entry| etype_name(entry.etype)).collect();
        return Refusal::WrongEncryption { ticket, keytab: types };
    }
    Refusal::WrongKey { ticket }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keytab::Entry;

    fn keytab() -> Keytab {
        let (service, realm) = ("HTTP/web.example.com".into(), "EXAMPLE.COM".into());
        Keytab { entries: vec![Entry { service, realm, kvno: 2, etype: 18, written: 0 }] }
    }

    fn explained(code: i32, service: &str, kvno: u32, etype: i32) -> &'static str {
        let ticket = Ticket { service: service.into(), realm: "EXAMPLE.COM".into(), kvno: Some(kvno), etype };
        let error = GssError { routine: 13, code: FIRST + code, text: "said".into() };
        explain(&error, Some(ticket), &keytab(), Path::new("/k")).kind()
    }

    #[test]
    fn the_tickets_label_tells_the_mistakes_with_keys_apart() {
        for code in [31, 44, 181, 230] {
            assert_eq!(explained(code, "HTTP/www.example.com", 2, 18), "wrong-service");
            assert_eq!(explained(code, "HTTP/web.example.com", 3, 18), "wrong-key-version");
            assert_eq!(explained(code, "HTTP/web.example.com", 2, 23), "wrong-encryption");
            assert_eq!(explained(code, "HTTP/web.example.com", 2, 18), "wrong-key");
        }
    }

    #[test]
    fn each_number_has_its_mistake_and_others_keep_their_text() {
        for (code, kind) in
            [(32, "expired"), (33, "not-yet-valid"), (34, "replay"), (37, "clock-skew"), (169, "replay-cache")]
        {
            assert_eq!(explained(code, "HTTP/web.example.com", 2, 18), kind);
        }
        let within_spnego = GssError { routine: 13, code: 100_001, text: "Clock skew too great".into() };
        assert_eq!(explain(&within_spnego, None, &keytab(), Path::new("/k")), Refusal::ClockSkew);
        let error = GssError { routine: 13, code: 22, text: "Invalid argument".into() };
        assert_eq!(explain(&error, None, &keytab(), Path::new("/k")), Refusal::Other("Invalid argument".into()));
        let error = GssError { routine: BAD_BINDINGS, code: 0, text: String::new() };
        assert_eq!(explain(&error, None, &keytab(), Path::new("/k")), Refusal::BindingsDiffer);
    }
}
