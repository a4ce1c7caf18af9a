//! Why a directory does not answer, or denies somebody: for logs, without passwords. It decides nothing.

use std::{fmt, time::Duration};

/// Why somebody is not let in. Strangers must not be told which: it would say who exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// An empty password: many servers take it for a visit without a name, and say yes.
    EmptyPassword,
    /// A name that is empty, too long, or has control characters.
    OddName,
    Unknown,
    /// More than one entry has this name.
    Ambiguous,
    WrongPassword,
    LockedOut,
    Disabled,
    AccountExpired,
    PasswordExpired,
    /// It has to be changed before it is used.
    PasswordMustChange,
    /// Not at this hour, or not from here.
    NotNow,
}

impl Denial {
    /// What a server says of a bind that failed. Active Directory has a number in the text ("data 52e"), whichever
    /// language it speaks.
    pub(crate) fn of_bind(text: &str) -> Denial {
        let number = text.split("data ").nth(1).and_then(|rest| rest.split([',', ' ']).next());
        match number {
            Some("525") => Denial::Unknown,
            Some("530" | "531") => Denial::NotNow,
            Some("532") => Denial::PasswordExpired,
            Some("533") => Denial::Disabled,
            Some("701") => Denial::AccountExpired,
            Some("773") => Denial::PasswordMustChange,
            Some("775") => Denial::LockedOut,
            _ => Denial::WrongPassword,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denial::EmptyPassword => "the password is empty",
            Denial::OddName => "the name is empty, too long, or has control characters",
            Denial::Unknown => "the directory has nobody of this name",
            Denial::Ambiguous => "the directory has several people of this name: make the filter or the base narrower",
            Denial::WrongPassword => "the password is wrong",
            Denial::LockedOut => "the account is locked out",
            Denial::Disabled => "the account is disabled",
            Denial::AccountExpired => "the account has expired",
            Denial::PasswordExpired => "the password has expired",
            Denial::PasswordMustChange => "the password has to be changed first",
            Denial::NotNow => "the account may not sign in at this hour, or from this machine",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The person's own: 401.
    Denied(Denial),
    /// The settings make no sense.
    Settings(String),
    /// No server answers: each one's reason.
    Unreachable(Vec<(String, String)>),
    /// The account that searches is not let in.
    Account(String),
    /// The server refuses a search: what it says.
    Search(String),
    /// No answer in this time.
    TimedOut(Duration),
    /// The directory's own thread has ended.
    Stopped,
}

impl Failure {
    /// Whether the directory is at fault: then 503 is the answer, and not 401.
    pub fn is_ours(&self) -> bool {
        !matches!(self, Failure::Denied(_))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Denied(denial) => denial.fmt(f),
            Failure::Settings(what) => write!(f, "the directory's settings: {what}"),
            Failure::Unreachable(reasons) => {
                write!(f, "no directory answers")?;
                reasons.iter().try_for_each(|(url, why)| write!(f, "; {url}: {why}"))
            }
            Failure::Account(what) => {
                write!(
                    f,
                    "the directory does not let the account in that searches: {what}; check its name and password"
                )
            }
            Failure::Search(what) => {
                write!(f, "the directory refuses a search: {what}; check the base and the account's rights")
            }
            Failure::TimedOut(time) => write!(f, "the directory did not answer within {:.1} s", time.as_secs_f64()),
            Failure::Stopped => write!(f, "the directory's thread has ended"),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_directory_says_why_by_a_number() {
        let said = |number: &str| {
            Denial::of_bind(&format!(
                "80090308: LdapErr: DSID-0C090439, comment: AcceptSecurityContext error, data {number}, v4563"
            ))
        };
        assert_eq!(said("52e"), Denial::WrongPassword);
        assert_eq!(said("775"), Denial::LockedOut);
        assert_eq!(said("533"), Denial::Disabled);
        assert_eq!(said("773"), Denial::PasswordMustChange);
        assert_eq!(Denial::of_bind(""), Denial::WrongPassword);
    }

    #[test]
    fn only_a_denial_is_the_persons_own() {
        assert!(!Failure::Denied(Denial::Unknown).is_ours());
        assert!(Failure::TimedOut(Duration::from_secs(5)).is_ours());
    }
}
