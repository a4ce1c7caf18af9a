//! Why somebody can't be signed in or out, told apart by who can do something about it. It never has a token, a code or
//! a secret.

use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The file of the client's secret can't be used.
    #[error("client_secret_file {path}: {why}", path = path.display())]
    SecretFile { path: PathBuf, why: String },
    /// The issuer does not answer, or not as OpenID Connect says. It may do so later.
    #[error("{issuer} can't be asked: {why}")]
    Unavailable { issuer: String, why: String },
    /// What answers under the issuer's address says that it is another one.
    #[error("{issuer} is not the issuer that answers there: {why}: set issuer exactly as the provider writes it")]
    Issuer { issuer: String, why: String },
    /// The browser came back with something that this login has not asked for: an old tab, or an attack.
    #[error("this is not the answer to a login that was begun here: {0}")]
    Response(&'static str),
    /// The login was begun too long ago.
    #[error("the login was begun too long ago: begin again")]
    TooLate,
    /// The provider refuses: the person said no, or may not, or the grant has ended. `code` as in RFC 6749.
    #[error("the provider refuses: {code}{}", described(description))]
    Refused { code: String, description: String },
    /// A token that must not be believed.
    #[error("the provider's token is refused: {0}")]
    Token(String),
    /// The token does not say who it is, in a way that can be used.
    #[error("the provider does not say who it is: {0}")]
    Claim(String),
}

impl Error {
    /// Whether the provider, or what it said, ends the session; otherwise it may be that a later try succeeds.
    pub fn is_final(&self) -> bool {
        match self {
            Error::Unavailable { .. } => false,
            Error::Refused { code, .. } => !matches!(code.as_str(), "server_error" | "temporarily_unavailable"),
            _ => true,
        }
    }
}

fn described(description: &str) -> String {
    match description {
        "" => String::new(),
        text => format!(" ({text})"),
    }
}

/// Text of others for our log and pages: one line of printable ASCII, not long.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|char| char.is_ascii_graphic() || *char == ' ').take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_one_short_line() {
        assert_eq!(plain("no\r\nX-Evil: 1\u{1b}[31mé"), "noX-Evil: 1[31m");
        assert_eq!(plain(&"a".repeat(1_000)).len(), 200);
    }

    #[test]
    fn only_what_may_pass_is_not_final() {
        let away = Error::Unavailable { issuer: "https://id.example".into(), why: "no connection in time".into() };
        assert!(!away.is_final());
        let refused = Error::Refused { code: "invalid_grant".into(), description: String::new() };
        assert!(refused.is_final());
        let busy = Error::Refused { code: "temporarily_unavailable".into(), description: String::new() };
        assert!(!busy.is_final());
        assert_eq!(refused.to_string(), "the provider refuses: invalid_grant");
    }
}
