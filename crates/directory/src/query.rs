//! Filters and DNs, with everything from outside escaped (RFC 4514, 4515). Pure.

use ldap3::{dn_escape, ldap_escape};

use crate::{failure::Denial, settings::NAME};

/// Longest name (bytes). Active Directory's own are at most 256 long.
const MAX_NAME: usize = 256;
/// The matching rule that follows groups in groups (MS-ADTS, LDAP_MATCHING_RULE_IN_CHAIN).
const IN_CHAIN: &str = "1.2.840.113556.1.4.1941";

/// # Errors
/// `Denial::OddName`
pub fn check_name(name: &str) -> Result<(), Denial> {
    let odd = name.trim().is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control);
    if odd {
        Err(Denial::OddName)
    } else {
        Ok(())
    }
}

/// Which entries are the person's.
pub fn person(template: &str, name: &str) -> String {
    template.replace(NAME, &ldap_escape(name))
}

/// Who has this user principal name, `alice@example.com`.
pub fn principal(name: &str) -> String {
    format!("(userPrincipalName={})", ldap_escape(name))
}

/// As whom a person binds. In a DN the name is escaped; a name of the form `name@domain` is no DN.
///
/// # Errors
/// `Denial::OddName` if the name would leave its place in `{name}@domain`.
pub fn bind_name(template: &str, name: &str) -> Result<String, Denial> {
    if template.contains('=') {
        return Ok(template.replace(NAME, &dn_escape(name)));
    }
    if name.contains(['@', '\\', '/', '"']) {
        Err(Denial::OddName)
    } else {
        Ok(template.replace(NAME, name))
    }
}

/// The groups of an entry in Active Directory, those in groups too, and the primary one, which no group lists.
pub fn groups_in_chain(dn: &str, primary: Option<&str>) -> String {
    let primary = primary.map_or(String::new(), |sid| format!("(objectSid={})", ldap_escape(sid)));
    format!("(&(objectClass=group)(|(member:{IN_CHAIN}:={}){primary}))", ldap_escape(dn))
}

/// The groups that list any of these DNs, or this name as POSIX groups do.
pub fn groups_of(dns: &[&str], name: Option<&str>) -> String {
    let mut alternatives = String::new();
    for dn in dns {
        let dn = ldap_escape(*dn);
        alternatives.push_str(&format!("(member={dn})(uniqueMember={dn})"));
    }
    if let Some(name) = name {
        alternatives.push_str(&format!("(&(objectClass=posixGroup)(memberUid={}))", ldap_escape(name)));
    }
    format!("(|{alternatives})")
}

/// The entries with these security identifiers. What is none is left out. None: no identifier is left.
pub fn sids(sids: &[&str]) -> Option<String> {
    let alternatives: String = sids.iter().filter(|sid| is_sid(sid)).map(|sid| format!("(objectSid={sid})")).collect();
    (!alternatives.is_empty()).then(|| format!("(&(objectClass=group)(|{alternatives}))"))
}

pub fn is_sid(text: &str) -> bool {
    text.len() <= 184
        && text.strip_prefix("S-1-").is_some_and(|rest| {
            rest.split('-').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

/// The primary group's identifier: the account's, with another last number.
pub fn primary_group(account: &[u8], primary: &str) -> Option<String> {
    let sid = sid(account)?;
    let (domain, _) = sid.rsplit_once('-')?;
    primary.parse::<u32>().ok().map(|rid| format!("{domain}-{rid}"))
}

/// A security identifier in its binary form (MS-DTYP 2.4.2).
pub fn sid(bytes: &[u8]) -> Option<String> {
    let (head, rest) = bytes.split_at_checked(8)?;
    let (&[revision, count], authority) = head.split_first_chunk::<2>()?;
    if revision != 1 || rest.len() != usize::from(count) * 4 {
        return None;
    }
    let authority = authority.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let parts = rest.chunks_exact(4).filter_map(|part| Some(u32::from_le_bytes(part.try_into().ok()?)));
    Some(parts.fold(format!("S-1-{authority}"), |text, part| format!("{text}-{part}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_changes_a_filter_or_a_dn_by_a_name() {
        assert_eq!(person("(uid={name})", "*)(uid=root"), r"(uid=\2a\29\28uid=root)");
        assert_eq!(bind_name("uid={name},dc=a", "x,dc=b").unwrap(), r"uid=x\2cdc\3db,dc=a");
        assert_eq!(
            groups_of(&["cn=a)(b"], Some("x*")),
            r"(|(member=cn=a\29\28b)(uniqueMember=cn=a\29\28b)(&(objectClass=posixGroup)(memberUid=x\2a)))"
        );
        for name in ["bob@other.test", "OTHER\\bob"] {
            assert_eq!(bind_name("{name}@example.com", name), Err(Denial::OddName));
        }
        assert_eq!(bind_name("{name}@example.com", "bob").unwrap(), "bob@example.com");
    }

    #[test]
    fn names_are_short_and_visible() {
        assert_eq!(check_name("alice example"), Ok(()));
        for odd in ["", "  ", "a\0b", "a\nb", &"a".repeat(257)] {
            assert_eq!(check_name(odd), Err(Denial::OddName));
        }
    }

    #[test]
    fn identifiers_are_read_and_never_trusted() {
        let bytes = [1, 2, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 0x50, 4, 0, 0];
        assert_eq!(sid(&bytes).as_deref(), Some("S-1-5-21-1104"));
        assert_eq!(primary_group(&bytes, "513").as_deref(), Some("S-1-5-21-513"));
        for end in 0..bytes.len() {
            assert_eq!(sid(&bytes[..end]), None);
        }
        assert_eq!(
            sids(&["S-1-5-21-1", "S-1-5)(cn=*", "S-1-", "x"]).as_deref(),
            Some("(&(objectClass=group)(|(objectSid=S-1-5-21-1)))")
        );
        assert_eq!(sids(&["nothing"]), None);
    }
}
