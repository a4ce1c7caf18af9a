//! Who has signed in by a ticket, and the reading of names as Kerberos writes them. It never decides whether somebody
//! may come in.

use std::time::SystemTime;

/// Who has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Without the realm: `alice`, `alice/admin`. In Active Directory the account's own (sAMAccountName), by whatever
    /// other name somebody has asked for the ticket.
    pub name: String,
    /// The realm; of NTLM: the domain, or nothing.
    pub realm: String,
    /// Security identifiers of the groups in the ticket (`S-1-5-21-...`). Empty without Active Directory.
    pub groups: Vec<String>,
    /// The account's own security identifier.
    pub sid: Option<String>,
    /// When the ticket ends. None: it has no end, which is so with NTLM.
    pub expires: Option<SystemTime>,
    pub mechanism: Mechanism,
    /// Whether the ticket was made for this very TLS connection.
    pub bound: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Kerberos,
    Ntlm,
}

impl Mechanism {
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::Kerberos => "kerberos",
            Mechanism::Ntlm => "ntlm",
        }
    }
}

/// Name and realm of what the Kerberos library displays. A backslash escapes what would divide a name
/// (`krb5_unparse_name`). None: it has no realm, or characters that no name of a person has.
pub fn split(displayed: &str) -> Option<(String, String)> {
    let (mut name, mut realm, mut in_realm) = (String::new(), String::new(), false);
    let mut characters = displayed.chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            '\\' => match characters.next()? {
                escaped @ ('@' | '/' | '\\') => escaped,
                // \n \t \b \0: control characters.
                _ => return None,
            },
            '@' if in_realm => return None,
            '@' => {
                in_realm = true;
                continue;
            }
            other => other,
        };
        if literal.is_control() {
            return None;
        }
        if in_realm { &mut realm } else { &mut name }.push(literal);
    }
    (!name.is_empty() && !realm.is_empty()).then_some((name, realm))
}

/// Name and domain of what gss-ntlmssp displays: `DOMAIN\name`, or the name alone.
pub fn split_ntlm(displayed: &str) -> Option<(String, String)> {
    let (domain, name) = displayed.split_once('\\').unwrap_or(("", displayed));
    let odd = |text: &str| text.chars().any(|character| character.is_control() || character == '\\');
    (!name.is_empty() && !odd(name) && !odd(domain)).then(|| (name.into(), domain.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(name: &str, realm: &str) -> Option<(String, String)> {
        Some((name.into(), realm.into()))
    }

    #[test]
    fn the_realm_follows_the_only_bare_at_sign() {
        assert_eq!(split("alice@EXAMPLE.COM"), two("alice", "EXAMPLE.COM"));
        assert_eq!(split("alice/admin@EXAMPLE.COM"), two("alice/admin", "EXAMPLE.COM"));
        assert_eq!(split("alice\\@home.test@EXAMPLE.COM"), two("alice@home.test", "EXAMPLE.COM"));
        assert_eq!(split("a\\\\b@EXAMPLE.COM"), two("a\\b", "EXAMPLE.COM"));
    }

    #[test]
    fn nobody_gets_a_realm_by_its_name() {
        for odd in ["alice", "@EXAMPLE.COM", "alice@", "alice@A@B", "alice\\n@A", "alice\\", "a\nb@A", "root\\0@A"] {
            assert_eq!(split(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn ntlm_has_a_domain_or_none() {
        assert_eq!(split_ntlm("EXAMPLE\\alice"), two("alice", "EXAMPLE"));
        assert_eq!(split_ntlm("alice"), two("alice", ""));
        assert_eq!(split_ntlm("EXAMPLE\\"), None);
        assert_eq!(split_ntlm("A\\B\\alice"), None);
    }
}
