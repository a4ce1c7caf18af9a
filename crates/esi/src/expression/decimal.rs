//! Compares decimal numbers of any length by their digits. It never rounds.

use std::cmp::Ordering;

/// Compares, if both are numbers: digits with an optional minus and an optional fraction.
pub(super) fn compare(left: &[u8], right: &[u8]) -> Option<Ordering> {
    let (left, right) = (Decimal::parse(left)?, Decimal::parse(right)?);
    Some(match (left.is_negative(), right.is_negative()) {
        (false, false) => left.magnitude(&right),
        (true, true) => right.magnitude(&left),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    })
}

struct Decimal<'a> {
    minus: bool,
    /// Without zeros before.
    whole: &'a [u8],
    /// Without zeros after.
    fraction: &'a [u8],
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a [u8]) -> Option<Decimal<'a>> {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let (whole, fraction) = match digits.iter().position(|byte| *byte == b'.') {
            Some(point) => (&digits[..point], Some(&digits[point + 1..])),
            None => (digits, None),
        };
        let good = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        if !good(whole) || !fraction.is_none_or(good) {
            return None;
        }
        let fraction = fraction.unwrap_or_default();
        let zeros = whole.iter().take_while(|byte| **byte == b'0').count();
        let end = fraction.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last + 1);
        Some(Decimal { minus: digits.len() < text.len(), whole: &whole[zeros..], fraction: &fraction[..end] })
    }

    /// -0 is 0.
    fn is_negative(&self) -> bool {
        self.minus && !(self.whole.is_empty() && self.fraction.is_empty())
    }

    fn magnitude(&self, other: &Decimal<'_>) -> Ordering {
        let whole = self.whole.len().cmp(&other.whole.len()).then_with(|| self.whole.cmp(other.whole));
        whole.then_with(|| self.fraction.cmp(other.fraction))
    }
}
