//! A page as the fronts of a cluster share it: its record, and what another front has to know to trust it. It never
//! looks into the record, and trusts no bytes.

use std::fmt::Write;

use crate::{Millis, Position};

/// Another version: another word.
const MAGIC: &[u8; 4] = b"PLP1";
/// Behind it the time of the permission, in hexadecimal digits.
const TIME: usize = 16;
/// And what tells a page from all others.
const SERIAL: usize = 16;
const ID: usize = MAGIC.len() + TIME + SERIAL;
const LONGEST_MARK: usize = 64;

/// A page on its way from front to front. All times are those of the server that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPage<'a> {
    /// When the front that stored it was allowed to render it, in microseconds. Of two pages the later is shown.
    pub granted: u64,
    /// Another for each: 16 letters or digits.
    pub serial: &'a str,
    /// All orders up to here were applied when the application was asked.
    pub since: Position,
    /// The page had this age at this time.
    pub age: Millis,
    pub as_of: Millis,
    pub record: &'a [u8],
}

impl<'a> SharedPage<'a> {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mark = &self.since.mark.as_bytes()[..self.since.mark.len().min(LONGEST_MARK)];
        let mut bytes = Vec::with_capacity(ID + 3 * 8 + 1 + mark.len() + self.record.len());
        bytes.extend(MAGIC);
        let mut time = String::with_capacity(TIME);
        // Writing to a string does not fail.
        let _ = write!(time, "{:016x}", self.granted);
        bytes.extend(time.as_bytes());
        bytes.extend(self.serial.as_bytes().iter().chain(std::iter::repeat(&b'0')).take(SERIAL));
        for number in [self.since.number, self.age, self.as_of] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.push(mark.len() as u8);
        bytes.extend(mark);
        bytes.extend(self.record);
        bytes
    }

    /// None: it is damaged, or of another version.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<SharedPage<'a>> {
        let (id, rest) = bytes.split_at_checked(ID)?;
        let id = std::str::from_utf8(id.strip_prefix(MAGIC)?).ok()?;
        let (time, serial) = id.split_at_checked(TIME)?;
        let (since, rest) = number(rest)?;
        let (age, rest) = number(rest)?;
        let (as_of, rest) = number(rest)?;
        let (length, rest) = rest.split_first()?;
        let (mark, record) = rest.split_at_checked(usize::from(*length))?;
        let since = Position::new(since, std::str::from_utf8(mark).ok()?);
        Some(SharedPage { granted: u64::from_str_radix(time, 16).ok()?, serial, since, age, as_of, record })
    }

    /// How old it is at `time`.
    pub fn age_at(&self, time: Millis) -> Millis {
        self.age.saturating_add(time.saturating_sub(self.as_of))
    }

    /// The bytes that tell any value from others, of this version or not.
    pub fn id(bytes: &[u8]) -> &[u8] {
        &bytes[..bytes.len().min(ID)]
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(granted: u64) -> SharedPage<'static> {
        let since = Position::new(57, "9f3c");
        SharedPage { granted, serial: "0123456789abcdef", since, age: 5, as_of: 1000, record: b"\0record" }
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        for page in [page(0), page(1 << 50), SharedPage { since: Position::default(), record: b"", ..page(1) }] {
            assert_eq!(SharedPage::from_bytes(&page.to_bytes()), Some(page));
        }
        assert_eq!((page(1).age_at(1007), page(1).age_at(0)), (12, 5));
    }

    #[test]
    fn later_pages_have_later_bytes() {
        let (early, late) = (page(255).to_bytes(), page(256).to_bytes());
        assert!(early[..MAGIC.len() + TIME] < late[..MAGIC.len() + TIME]);
        assert_ne!(SharedPage::id(&early), SharedPage::id(&late));
        assert_eq!(SharedPage::id(b"PLP1"), b"PLP1");
    }

    #[test]
    fn what_is_damaged_is_none() {
        let bytes = page(1).to_bytes();
        let head = bytes.len() - b"\0record".len();
        for length in 0..head {
            assert_eq!(SharedPage::from_bytes(&bytes[..length]), None, "cut at {length}");
        }
        for at in 0..bytes.len() {
            for with in [0, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = with;
                // Whatever it is: no panic. The record has a checksum of its own.
                let _ = SharedPage::from_bytes(&damaged).map(|page| page.age_at(u64::MAX));
            }
        }
    }
}
