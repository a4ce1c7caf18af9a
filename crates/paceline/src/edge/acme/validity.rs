//! From when until when a certificate is valid (RFC 5280 section 4.1.2.5), read from its DER.
//! It never looks at the clock, and what is no certificate has no validity.

use jiff::{civil::DateTime, tz::TimeZone, Timestamp};

/// Seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: i64,
    pub until: i64,
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

impl Validity {
    pub fn of(certificate: &[u8]) -> Option<Validity> {
        let (mut certificate, _) = expect(certificate, SEQUENCE)?;
        (certificate, _) = expect(certificate, SEQUENCE)?;
        let mut rest = match element(certificate)? {
            (VERSION, _, rest) => rest,
            _ => certificate,
        };
        // Serial number, signature algorithm, issuer.
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            (_, rest) = expect(rest, tag)?;
        }
        let (validity, _) = expect(rest, SEQUENCE)?;
        let (tag, from, rest) = element(validity)?;
        let from = time(tag, from)?;
        let (tag, until, _) = element(rest)?;
        Some(Validity { from, until: time(tag, until)? }).filter(|validity| validity.from < validity.until)
    }

    /// The end, for people.
    pub fn until_words(&self) -> String {
        Timestamp::from_second(self.until)
            .map_or_else(|_| "?".into(), |until| until.strftime("%Y-%m-%d %H:%M UTC").to_string())
    }
}

/// Tag, content and what follows of the first element.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = der.split_first_chunk::<2>()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.is_empty() || bytes.len() > 4 {
            return None;
        }
        length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

/// Content and what follows, if it is an element of this tag.
fn expect(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    element(der).filter(|(tag, ..)| *tag == wanted).map(|(_, content, rest)| (content, rest))
}

fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let (year, rest) = match (tag, digits.len()) {
        // Two digits: 1950 to 2049.
        (UTC_TIME, 12) => (number(&digits[..2]) + if digits[0] < b'5' { 2000 } else { 1900 }, &digits[2..]),
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| number(&rest[at..at + 2]) as i8;
    let time = DateTime::new(year, part(0), part(2), part(4), part(6), part(8), 0).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// At most four digits.
fn number(digits: &[u8]) -> i16 {
    digits.iter().fold(0, |number, digit| number * 10 + i16::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn of_certificates() {
        for (from, until) in
            [((2025, 1, 2), (2026, 12, 31)), ((1999, 2, 3), (2051, 4, 5)), ((2049, 12, 31), (2050, 1, 1))]
        {
            let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
            params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
            params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            let second = |(year, month, day): (i32, u8, u8)| {
                let date = DateTime::new(year as i16, month as i8, day as i8, 0, 0, 0, 0).unwrap();
                date.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second()
            };
            assert_eq!(Validity::of(&der), Some(Validity { from: second(from), until: second(until) }));
            // Cut off anywhere, or with any byte changed: no panic.
            for at in 0..der.len() {
                let _ = Validity::of(&der[..at]);
                for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                    let mut broken = der.clone();
                    broken[at] = byte;
                    let _ = Validity::of(&broken);
                }
            }
        }
        assert_eq!(Validity { from: 0, until: 86_400 }.until_words(), "1970-01-02 00:00 UTC");
    }
}
