//! Byte ranges: which parts of a representation a request asks for (RFC 9110 section 14).
//! It never sees the bytes; files and cached pages both ask it.

use std::ops::Range;

use http::{header, HeaderMap, HeaderValue, Method};

use super::conditional::{self, Validators};

/// More ranges than this are not worth a multipart answer (RFC 9110 section 17.15: such requests are abuse or
/// confusion).
const MAX_RANGES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeDecision {
    /// 200: no range asked for, or none to be honoured.
    Whole,
    /// 206 with Content-Range.
    Single(Range<u64>),
    /// 206 as multipart/byteranges, in the order asked for.
    Multiple(Vec<Range<u64>>),
    /// 416.
    Unsatisfiable,
}

/// The last step of RFC 9110 section 13.2.2; to be asked only where the answer would be 200.
pub fn decide(method: &Method, headers: &HeaderMap, validators: &Validators, length: u64) -> RangeDecision {
    let mut lines = headers.get_all(header::RANGE).iter();
    match (lines.next(), lines.next()) {
        // RFC 9110 section 14.2: Range is defined for GET alone.
        (Some(line), None) if method == Method::GET && conditional::if_range_holds(headers, validators) => {
            select(line.as_bytes(), length)
        }
        _ => RangeDecision::Whole,
    }
}

/// `Content-Range: bytes 0-4/10` (RFC 9110 section 14.4).
pub fn content_range(range: &Range<u64>, length: u64) -> HeaderValue {
    let text = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// `Content-Range: bytes */10`, for 416.
pub fn unsatisfied_range(length: u64) -> HeaderValue {
    HeaderValue::try_from(format!("bytes */{length}")).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn select(value: &[u8], length: u64) -> RangeDecision {
    // An empty representation has no range that Content-Range could name; ignoring the field is allowed (14.2).
    if length == 0 {
        return RangeDecision::Whole;
    }
    let Some(asked) = parse(value) else {
        return RangeDecision::Whole;
    };
    let mut ranges: Vec<_> = asked.iter().filter_map(|spec| spec.resolve(length)).collect();
    match ranges.len() {
        0 => RangeDecision::Unsatisfiable,
        1 => RangeDecision::Single(ranges.remove(0)),
        _ if overlap(&ranges) => RangeDecision::Whole,
        _ => RangeDecision::Multiple(ranges),
    }
}

/// Ranges that don't overlap can't add up to more than the whole either.
fn overlap(ranges: &[Range<u64>]) -> bool {
    let mut sorted: Vec<_> = ranges.iter().collect();
    sorted.sort_by_key(|range| range.start);
    sorted.windows(2).any(|pair| pair[1].start < pair[0].end)
}

/// RFC 9110 section 14.1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeSpec {
    Int { first: u64, last: u64 },
    Suffix(u64),
}

impl RangeSpec {
    /// None: unsatisfiable for this length.
    fn resolve(self, length: u64) -> Option<Range<u64>> {
        match self {
            RangeSpec::Int { first, last } if first < length => Some(first..last.min(length - 1) + 1),
            RangeSpec::Suffix(count) if count > 0 && length > 0 => Some(length.saturating_sub(count)..length),
            _ => None,
        }
    }
}

/// None: malformed, another unit or too many ranges; all of them mean that the field is ignored (section 14.2).
fn parse(value: &[u8]) -> Option<Vec<RangeSpec>> {
    let equals = value.iter().position(|byte| *byte == b'=')?;
    if !value[..equals].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut specs = Vec::new();
    for member in value[equals + 1..].split(|byte| *byte == b',') {
        let member = member.trim_ascii();
        if member.is_empty() {
            continue; // Section 5.6.1.2: empty list members are let pass.
        }
        if specs.len() == MAX_RANGES {
            return None;
        }
        specs.push(parse_spec(member)?);
    }
    (!specs.is_empty()).then_some(specs)
}

fn parse_spec(member: &[u8]) -> Option<RangeSpec> {
    let dash = member.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(RangeSpec::Suffix(number(last)?)),
        (false, true) => Some(RangeSpec::Int { first: number(first)?, last: u64::MAX }),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeSpec::Int { first, last })
        }
    }
}

/// Digits only; more of them than a u64 holds mean "past any end".
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::{RangeDecision::*, *};
    use crate::content::static_files::entity_tag::EntityTag;

    #[test]
    fn selects() {
        let sixteen = (0..16).map(|at| format!("{}-{}", at * 2, at * 2)).collect::<Vec<_>>().join(",");
        let all = Multiple((0..16).map(|at| at * 2..at * 2 + 1).collect());
        let max = u64::MAX;
        let table = [
            // 14.1.2, its own examples for a length of 10000.
            ("bytes=0-499".into(), 10_000, Single(0..500)),
            ("bytes=500-999".into(), 10_000, Single(500..1000)),
            ("bytes=-500".into(), 10_000, Single(9500..10_000)),
            ("bytes=9500-".into(), 10_000, Single(9500..10_000)),
            ("bytes=0-0,-1".into(), 10_000, Multiple(vec![0..1, 9999..10_000])),
            ("bytes= 0-999, 4500-5499, -1000".into(), 10_000, Multiple(vec![0..1000, 4500..5500, 9000..10_000])),
            // 14.1.2: beyond the end, open-ended, longer than the whole.
            ("bytes=5-99".into(), 10, Single(5..10)),
            ("bytes=-99".into(), 10, Single(0..10)),
            ("bytes=0-".into(), 10, Single(0..10)),
            (format!("bytes=0-{max}"), 10, Single(0..10)),
            ("bytes=0-99999999999999999999999".into(), 10, Single(0..10)),
            // 15.5.17: nothing satisfiable.
            ("bytes=10-".into(), 10, Unsatisfiable),
            ("bytes=99999999999999999999999-".into(), 10, Unsatisfiable),
            ("bytes=-0".into(), 10, Unsatisfiable),
            ("bytes=10-11,20-".into(), 10, Unsatisfiable),
            // 15.3.7.2: one left of several.
            ("bytes=0-1,50-60".into(), 10, Single(0..2)),
            // 14.2: other units and malformed sets are ignored; units compare without case (14.1).
            ("lines=0-4".into(), 10, Whole),
            ("BYTES=0-4".into(), 10, Single(0..5)),
            ("bytes=4-2".into(), 10, Whole),
            ("bytes=0-1,4-2".into(), 10, Whole),
            ("bytes=a-b".into(), 10, Whole),
            ("bytes=+1-2".into(), 10, Whole),
            ("bytes=1 - 2".into(), 10, Whole),
            ("bytes=1-2-3".into(), 10, Whole),
            ("bytes=-".into(), 10, Whole),
            ("bytes=".into(), 10, Whole),
            ("bytes=,".into(), 10, Whole),
            ("bytes".into(), 10, Whole),
            ("0-4".into(), 10, Whole),
            // 5.6.1.2: empty members.
            ("bytes=,0-1,,3-4,".into(), 10, Multiple(vec![0..2, 3..5])),
            // 17.15: overlapping or too many.
            ("bytes=0-5,5-6".into(), 10, Whole),
            ("bytes=0-,0-,0-".into(), 10, Whole),
            ("bytes=5-6,0-1".into(), 10, Multiple(vec![5..7, 0..2])),
            (format!("bytes={sixteen}"), 100, all),
            (format!("bytes={sixteen},50-50"), 100, Whole),
            // Nothing to name.
            ("bytes=0-".into(), 0, Whole),
            ("bytes=-5".into(), 0, Whole),
            (format!("bytes={}-", max - 1), max, Single(max - 1..max)),
        ];
        for (value, length, expected) in table {
            assert_eq!(select(value.as_bytes(), length), expected, "{value} of {length}");
        }
    }

    #[test]
    fn decides() {
        let validators = Validators { entity_tag: Some(EntityTag::new(false, "v1")), ..Validators::default() };
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-1"));
        assert_eq!(decide(&Method::GET, &headers, &validators, 10), Single(0..2));
        // 14.2: GET alone.
        assert_eq!(decide(&Method::HEAD, &headers, &validators, 10), Whole);
        // 13.1.5.
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"v0\""));
        assert_eq!(decide(&Method::GET, &headers, &validators, 10), Whole);
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"v1\""));
        assert_eq!(decide(&Method::GET, &headers, &validators, 10), Single(0..2));
        // Two lines are no valid field.
        headers.append(header::RANGE, HeaderValue::from_static("bytes=4-5"));
        assert_eq!(decide(&Method::GET, &headers, &validators, 10), Whole);
    }

    /// 14.4.
    #[test]
    fn writes_content_range() {
        assert_eq!(content_range(&(0..5), 10), "bytes 0-4/10");
        assert_eq!(unsatisfied_range(10), "bytes */10");
    }
}
