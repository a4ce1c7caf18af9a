//! What can go wrong between here and a certificate, in one line: what it was, and what to do.
//! It never decides when to try again.

use std::{error::Error as _, io};

use instant_acme::{Error, Problem};

use super::{tls_alpn_01::ProofError, Proof};
use crate::edge::tls::certificate::CertificateError;

/// Why a certificate is not shown to anybody.
#[derive(Debug, thiserror::Error)]
pub enum UnusableCertificate {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("it is not for {host}")]
    OtherHost { host: String },
    #[error("it does not say how long it is valid")]
    NoValidity,
}

/// Characters of an authority's words that are logged.
const LONGEST: usize = 400;

#[derive(Debug)]
pub enum Failure {
    Acme(Error),
    /// The authority looked, and did not find what it was to find.
    Unproved(Proof, Option<Problem>),
    /// The authority asks for a proof that we have no listener for.
    NoWay,
    Late,
    /// What would have proved the host could not be made.
    NoProof(ProofError),
    /// What came is of no use.
    UnusableCertificate(UnusableCertificate),
    UnusableAccount(serde_json::Error),
    CertificateNotKept(io::Error),
    AccountNotKept(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Acme(error)
    }
}

impl Failure {
    /// Whether the authority no longer knows our account.
    pub fn is_lost_account(&self) -> bool {
        self.kind() == Some("accountDoesNotExist")
    }

    /// One line: what happened, and what to do about it.
    pub fn line(&self, host: &str, directory: &str) -> String {
        let ours = |what: String| (what, "look at acme_dir and at the authority".to_owned());
        let (what, remedy) = match self {
            Failure::Acme(Error::Api(problem)) | Failure::Unproved(_, Some(problem)) => {
                let said = problem.detail.as_deref().or(problem.r#type.as_deref()).unwrap_or("no reason given");
                (format!("the authority says: {said}"), self.remedy(host))
            }
            Failure::Unproved(_, None) => ("the authority did not accept the proof".into(), self.remedy(host)),
            Failure::Acme(Error::Timeout(_)) | Failure::Late => {
                (format!("{directory} took too long"), "nothing needs to be done".into())
            }
            Failure::Acme(error) => (
                format!("{directory}: {}", causes(error)),
                "it must be reachable from here; a private authority needs acme_ca_file".into(),
            ),
            Failure::NoWay => (
                "the authority offers no proof that this server can give".into(),
                "listen on an http:// address too".into(),
            ),
            Failure::NoProof(error) => ours(error.to_string()),
            Failure::UnusableCertificate(why) => ours(format!("the certificate can't be used: {why}")),
            Failure::UnusableAccount(error) => ours(error.to_string()),
            Failure::CertificateNotKept(error) => ours(format!("it can't be kept: {error}")),
            Failure::AccountNotKept(error) => ours(format!("the account can't be kept: {error}")),
        };
        format!("{}; {}", plain(&what), plain(&remedy))
    }

    fn remedy(&self, host: &str) -> String {
        let port = match self {
            Failure::Unproved(Proof::TlsAlpn01, _) => "port 443 (TLS-ALPN-01)",
            _ => "port 80 (HTTP-01)",
        };
        match self.kind() {
            Some("dns") => format!("let {host} lead to this server in the DNS"),
            Some("connection" | "tls") => format!("let the internet reach this server at {host}, {port}"),
            Some("unauthorized" | "incorrectResponse") => {
                format!("another server answers for {host} at {port}; let the name lead here")
            }
            Some("caa") => format!("the CAA record of {host} must allow this authority"),
            Some("rateLimited") => "wait, or try things out with a staging acme_directory".into(),
            Some("rejectedIdentifier" | "malformed") => {
                format!("if it gives none for {host}, take the host out or give its site tls = \"files\"")
            }
            Some("externalAccountRequired") => {
                "accounts bound to an external one are not served; use another acme_directory".into()
            }
            Some("invalidContact" | "unsupportedContact") => "mend acme_email".into(),
            Some("userActionRequired") => "agree to its new terms where it says".into(),
            Some("accountDoesNotExist") => "a new account is made".into(),
            _ => format!("{host} must lead to this server, {port}"),
        }
    }

    /// The last part of `urn:ietf:params:acme:error:KIND`.
    fn kind(&self) -> Option<&str> {
        match self {
            Failure::Acme(Error::Api(problem)) | Failure::Unproved(_, Some(problem)) => {
                problem.r#type.as_deref()?.rsplit(':').next()
            }
            _ => None,
        }
    }
}

fn causes(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = error.source();
    }
    words
}

/// One line without control characters, of a length that can be read.
fn plain(words: &str) -> String {
    let line: String = words.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_what_to_do() {
        let problem = |kind: &str, detail: &str| {
            let json = serde_json::json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail, "status": 403 });
            serde_json::from_value::<Problem>(json).unwrap()
        };
        for (failure, told) in [
            (
                Failure::Unproved(Proof::Http01, Some(problem("dns", "NXDOMAIN"))),
                "the authority says: NXDOMAIN; let a.test lead",
            ),
            (
                Failure::Unproved(Proof::TlsAlpn01, Some(problem("connection", "x\r\ny."))),
                "x  y; let the internet reach this server at a.test, port 443",
            ),
            (Failure::Unproved(Proof::Http01, None), "did not accept the proof; a.test must lead"),
            (Failure::Acme(Error::Api(problem("rateLimited", "too many"))), "too many; wait"),
            (Failure::Acme(Error::Str("nonce")), "https://ca.test: missing data: nonce; it must be reachable"),
            (Failure::Late, "https://ca.test took too long"),
        ] {
            let line = failure.line("a.test", "https://ca.test");
            assert!(line.contains(told) && !line.contains('\n'), "{line}");
        }
        assert!(Failure::Acme(Error::Api(problem("accountDoesNotExist", ""))).is_lost_account());
        assert!(plain(&"é".repeat(1000)).len() < 1000);
    }
}
