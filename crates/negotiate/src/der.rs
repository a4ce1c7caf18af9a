//! Reads DER: tags and lengths of what a client or a KDC sent, and nothing of what they mean. Every length is compared
//! with what is there, nothing is copied, and nothing is read twice. It never allocates and never panics.

/// One element, with what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// The identifier octet. Tags above 30 are not in these protocols, and end the reading.
    pub tag: u8,
    pub content: &'a [u8],
}

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next element. None: there is none, or it is cut off.
    pub fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Element { tag, content })
    }

    /// The content of the next element, if it has this tag.
    pub fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|element| element.tag == tag).map(|element| element.content)
    }

    /// The content of the field `[number]` of a SEQUENCE; fields before it are skipped. What comes after it can still
    /// be read.
    pub fn field(&mut self, number: u8) -> Option<&'a [u8]> {
        loop {
            let mut ahead = *self;
            let element = ahead.next()?;
            match element.tag.cmp(&(0xa0 | number)) {
                std::cmp::Ordering::Less => *self = ahead,
                std::cmp::Ordering::Equal => {
                    *self = ahead;
                    return Some(element.content);
                }
                std::cmp::Ordering::Greater => return None,
            }
        }
    }
}

/// A small INTEGER, such as a version or a type.
pub fn integer(content: &[u8]) -> Option<i64> {
    let bytes = Reader(content).expect(0x02)?;
    let (&first, _) = bytes.split_first()?;
    if bytes.len() > 8 {
        return None;
    }
    let sign = if first & 0x80 != 0 { -1 } else { 0 };
    Some(bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
}

/// A GeneralString, as Kerberos writes names. None: it is no UTF-8.
pub fn string(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(Reader(content).expect(0x1b)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_elements_with_short_and_long_lengths() {
        let mut long = vec![0x30, 0x82, 0x01, 0x00];
        long.extend([7; 256]);
        long.extend([0x05, 0x00]);
        let mut reader = Reader(&long);
        assert_eq!(reader.expect(0x30).unwrap().len(), 256);
        assert_eq!(reader.next(), Some(Element { tag: 5, content: b"" }));
        assert_eq!(reader.next(), None);
    }

    #[test]
    fn what_is_cut_off_or_of_no_definite_length_ends_the_reading() {
        for bytes in [
            &b"\x30"[..],
            b"\x30\x05abcd",
            b"\x30\x80\0\0",
            b"\x30\x85\0\0\0\0\0",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x1f\x01a",
        ] {
            assert_eq!(Reader(bytes).next(), None, "{bytes:?}");
        }
    }

    #[test]
    fn finds_a_field_behind_others_and_stops_at_later_ones() {
        let bytes = b"\xa0\x01x\xa2\x01y\xa3\x01z";
        let mut reader = Reader(bytes);
        assert_eq!(reader.field(1), None);
        assert_eq!(reader.field(2), Some(&b"y"[..]));
        assert_eq!(reader.field(3), Some(&b"z"[..]));
    }

    #[test]
    fn integers_have_a_sign() {
        assert_eq!(integer(b"\x02\x01\x17"), Some(23));
        assert_eq!(integer(b"\x02\x02\xff\x7b"), Some(-133));
        assert_eq!(integer(b"\x02\x00"), None);
        assert_eq!(integer(b"\x02\x09\0\0\0\0\0\0\0\0\x01"), None);
    }
}
