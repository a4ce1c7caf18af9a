//! The PAC of an Active Directory ticket: the account's own name and the security identifiers of its groups, which the
//! KDC has signed (MS-PAC 2.5, KERB_VALIDATION_INFO in NDR). Names of groups are not in it: a directory has those. The
//! Kerberos library has checked the signature. Bounded; it never panics.

/// Most groups of one person that are read. Windows itself refuses a ticket with more than 1,015.
const MAX_GROUPS: usize = 4096;
/// A group that is in force (SE_GROUP_ENABLED).
const ENABLED: u32 = 4;

/// Whom a ticket is for, as Active Directory counts people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogonInfo {
    /// The account's name (sAMAccountName). The ticket's name may be another one of the same account.
    pub name: String,
    /// `S-1-5-21-...-1104`
    pub sid: String,
    /// The security identifiers of the groups, nested ones too.
    pub groups: Vec<String>,
}

/// Reads the value of `urn:mspac:logon-info`. None: it is not what MS-PAC describes.
pub fn logon_info(bytes: &[u8]) -> Option<LogonInfo> {
    let mut fixed = Ndr { bytes, at: 0 };
    // The two headers of a serialized type, and the pointer to all of it.
    fixed.skip(20)?;
    // Six times.
    fixed.skip(48)?;
    let names: Vec<bool> = (0..6).map(|_| fixed.unicode()).collect::<Option<_>>()?;
    fixed.skip(4)?;
    let (user, _primary) = (fixed.u32()?, fixed.u32()?);
    let (group_count, group_pointer) = (fixed.u32()?, fixed.u32()?);
    // The user's flags and session key.
    fixed.skip(20)?;
    let servers: Vec<bool> = (0..2).map(|_| fixed.unicode()).collect::<Option<_>>()?;
    let domain_pointer = fixed.u32()?;
    // Two reserved words, the account's flags, and what counts log-ons that failed.
    fixed.skip(40)?;
    let (extra_count, extra_pointer) = (fixed.u32()?, fixed.u32()?);
    let (resource_domain, resource_count, resource_pointer) = (fixed.u32()?, fixed.u32()?, fixed.u32()?);

    // What the pointers lead to follows in their order.
    let mut rest = fixed;
    let (own, others) = names.split_first()?;
    let name = if *own { rest.string()? } else { String::new() };
    others.iter().filter(|there| **there).try_for_each(|_| rest.skip_string())?;
    let groups = if group_pointer == 0 { Vec::new() } else { rest.memberships(group_count)? };
    servers.iter().filter(|there| **there).try_for_each(|_| rest.skip_string())?;
    let domain = if domain_pointer == 0 { return None } else { rest.sid()? };
    let extra = if extra_pointer == 0 { Vec::new() } else { rest.extra_sids(extra_count)? };
    let resource_domain = if resource_domain == 0 { None } else { Some(rest.sid()?) };
    let resources = if resource_pointer == 0 { Vec::new() } else { rest.memberships(resource_count)? };

    let mut sids: Vec<String> = groups.iter().map(|rid| format!("{domain}-{rid}")).collect();
    sids.extend(extra);
    if let Some(domain) = resource_domain {
        sids.extend(resources.iter().map(|rid| format!("{domain}-{rid}")));
    }
    sids.sort();
    sids.dedup();
    Some(LogonInfo { name, sid: format!("{domain}-{user}"), groups: sids })
}

/// Little-endian words, each aligned to its own size.
#[derive(Clone, Copy)]
struct Ndr<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Ndr<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    fn u32(&mut self) -> Option<u32> {
        self.at = self.at.next_multiple_of(4);
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// An RPC_UNICODE_STRING: whether its characters follow.
    fn unicode(&mut self) -> Option<bool> {
        self.skip(4)?;
        Some(self.u32()? != 0)
    }

    fn skip_string(&mut self) -> Option<()> {
        let (_max, _offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        self.skip(usize::try_from(count).ok()?.checked_mul(2)?)
    }

    /// UTF-16. What is none ends the reading: a name must not become another one.
    fn string(&mut self) -> Option<String> {
        let (_max, _offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        let bytes = self.take(usize::try_from(count).ok()?.checked_mul(2)?)?;
        let units: Vec<u16> =
            bytes.chunks_exact(2).filter_map(|pair| Some(u16::from_le_bytes(pair.try_into().ok()?))).collect();
        String::from_utf16(&units).ok()
    }

    /// The relative identifiers of groups that are in force.
    fn memberships(&mut self, count: u32) -> Option<Vec<u32>> {
        let count = self.count(count)?;
        let mut rids = Vec::new();
        for _ in 0..count {
            let (rid, attributes) = (self.u32()?, self.u32()?);
            if attributes & ENABLED != 0 {
                rids.push(rid);
            }
        }
        Some(rids)
    }

    fn extra_sids(&mut self, count: u32) -> Option<Vec<String>> {
        let count = self.count(count)?;
        let mut heads = Vec::new();
        for _ in 0..count {
            heads.push((self.u32()?, self.u32()?));
        }
        let mut sids = Vec::new();
        for (_, attributes) in heads.into_iter().filter(|(pointer, _)| *pointer != 0) {
            let sid = self.sid()?;
            if attributes & ENABLED != 0 {
                sids.push(sid);
            }
        }
        Some(sids)
    }

    /// The length of an array, which is there twice.
    fn count(&mut self, said: u32) -> Option<usize> {
        let count = self.u32()?;
        usize::try_from(count).ok().filter(|number| count == said && *number <= MAX_GROUPS)
    }

    fn sid(&mut self) -> Option<String> {
        let count = self.u32()?;
        let head: [u8; 8] = self.take(8)?.try_into().ok()?;
        let [revision, inner, authority @ ..] = head;
        if revision != 1 || u32::from(inner) != count || count > 15 {
            return None;
        }
        let authority = authority.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let mut text = format!("S-1-{authority}");
        for _ in 0..count {
            text.push_str(&format!("-{}", self.u32()?));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn sid(parts: &[u32]) -> Vec<u8> {
        let mut bytes = words(&[parts.len() as u32]);
        bytes.extend([1, parts.len() as u8, 0, 0, 0, 0, 0, 5]);
        bytes.extend(words(parts));
        bytes
    }

    /// A ticket of Bob, with two groups, one of them not in force, one group of a trusted
    /// domain, and one of the resource's domain.
    fn sample() -> Vec<u8> {
        let mut bytes = vec![0; 20 + 48];
        bytes.extend(words(&[0x0006_0006, 1]));
        bytes.extend(vec![0; 40]);
        bytes.extend(words(&[0, 1104, 513, 3, 1]));
        bytes.extend(vec![0; 20 + 16]);
        bytes.extend(words(&[1]));
        bytes.extend(vec![0; 40]);
        bytes.extend(words(&[1, 1, 1, 1, 1]));
        bytes.extend(words(&[3, 0, 3]));
        bytes.extend(b"b\0o\0b\0");
        bytes.extend([0; 2]);
        bytes.extend(words(&[3, 513, 7, 1105, 7, 1106, 3]));
        bytes.extend(sid(&[21, 1, 2, 3]));
        bytes.extend(words(&[1, 9, 7]));
        bytes.extend(sid(&[21, 7, 7, 7, 600]));
        bytes.extend(sid(&[21, 8, 8, 8]));
        bytes.extend(words(&[1, 700, 0x2000_0007]));
        bytes
    }

    #[test]
    fn has_the_groups_in_force_of_all_domains() {
        let info = logon_info(&sample()).unwrap();
        assert_eq!((info.name.as_str(), info.sid.as_str()), ("bob", "S-1-5-21-1-2-3-1104"));
        assert_eq!(
            info.groups,
            ["S-1-5-21-1-2-3-1105", "S-1-5-21-1-2-3-513", "S-1-5-21-7-7-7-600", "S-1-5-21-8-8-8-700"]
        );
    }

    #[test]
    fn what_is_cut_off_or_counts_wrongly_is_nothing() {
        let whole = sample();
        for end in 0..whole.len() {
            assert_eq!(logon_info(&whole[..end]), None);
        }
        for at in 0..whole.len() / 4 {
            let mut damaged = whole.clone();
            damaged[at * 4..at * 4 + 4].copy_from_slice(&[0xff; 4]);
            // A word that is no count and no pointer may change the names, and nothing else.
            let _ = logon_info(&damaged);
        }
        let mut groups = whole.clone();
        groups[20 + 48 + 48 + 4 + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(logon_info(&groups), None);
    }
}
