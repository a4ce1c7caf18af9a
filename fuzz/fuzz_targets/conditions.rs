//! Range and the conditional fields: parsed ranges lie within the length, and a condition holds only where it may.
//! Input: a line `METHOD LENGTH`, then fields, those of the request and (ETag, Last-Modified, Date) of the
//! representation.
#![cfg_attr(fuzzing, no_main)]

use http::{header, HeaderMap, Method};
use libfuzzer_sys::fuzz_target;
use paceline::content::static_files::{
    conditional::{evaluate, if_range_holds, revalidate, Precondition, Validators},
    entity_tag::{EntityTag, TagCondition},
    ranges::{content_range, decide, RangeDecision},
};
use paceline_fuzz::fields;

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (method, length) = first.split_once(' ').unwrap_or((&first, "10000"));
    let Ok(method) = method.parse::<Method>() else { return };
    let length = length.trim().parse().unwrap_or(10_000);
    let headers = fields(lines);
    let validators = Validators::from_headers(&headers);

    ranges(&method, &headers, &validators, length);
    conditions(&method, &headers, &validators);
    for value in headers.values() {
        entity_tag(value.as_bytes());
    }
});

fn ranges(method: &Method, headers: &HeaderMap, validators: &Validators, length: u64) {
    let decision = decide(method, headers, validators, length);
    let asked: Vec<_> = headers.get_all(header::RANGE).iter().map(|line| line.as_bytes()).collect();
    let chosen = match &decision {
        RangeDecision::Whole => vec![],
        RangeDecision::Unsatisfiable => {
            assert!(length > 0);
            vec![]
        }
        RangeDecision::Single(range) => vec![range.clone()],
        RangeDecision::Multiple(ranges) => {
            assert!((2..=16).contains(&ranges.len()), "{} ranges", ranges.len());
            ranges.clone()
        }
    };
    if decision != RangeDecision::Whole {
        assert!(method == Method::GET && asked.len() == 1 && if_range_holds(headers, validators));
        assert!(asked[0].get(..6).is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes=")));
    }
    for range in &chosen {
        assert!(range.start < range.end && range.end <= length, "{range:?} of {length}");
        let told = content_range(range, length);
        assert_eq!(told.to_str().unwrap(), format!("bytes {}-{}/{length}", range.start, range.end - 1));
    }
    let mut sorted = chosen.clone();
    sorted.sort_by_key(|range| range.start);
    assert!(sorted.windows(2).all(|pair| pair[0].end <= pair[1].start), "ranges overlap: {chosen:?}");
    if let (true, [line], true) = (method == Method::GET, &asked[..], if_range_holds(headers, validators)) {
        if let Some(expected) = plain(line, length) {
            assert_eq!(decision, expected);
        }
    }
}

/// `bytes=FIRST-LAST` with small numbers, in the plainest words.
fn plain(line: &[u8], length: u64) -> Option<RangeDecision> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("bytes=")?;
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (first, last) = (number(first)?, number(last)?);
    Some(match () {
        () if first > last || length == 0 => RangeDecision::Whole,
        () if first >= length => RangeDecision::Unsatisfiable,
        () => RangeDecision::Single(first..last.min(length - 1) + 1),
    })
}

fn conditions(method: &Method, headers: &HeaderMap, validators: &Validators) {
    let asks = |name| headers.contains_key(name);
    let matching = asks(header::IF_MATCH) || asks(header::IF_UNMODIFIED_SINCE);
    let changed = asks(header::IF_NONE_MATCH) || asks(header::IF_MODIFIED_SINCE);
    let is_read = method == Method::GET || method == Method::HEAD;
    let (all, cached) = (evaluate(method, headers, validators), revalidate(method, headers, validators));
    assert!(all != Precondition::NotModified || is_read && changed);
    assert!(all != Precondition::Failed || matching || asks(header::IF_NONE_MATCH));
    assert!(all == cached || matching && all == Precondition::Failed);
    assert!(matching || changed || all == Precondition::Proceed);

    // Whoever names the very tag has the representation, and whoever asks for it gets it.
    let Some(tag) = validators.entity_tag.as_ref() else { return };
    let named = |name: header::HeaderName| {
        let mut headers = HeaderMap::new();
        headers.insert(name, tag.to_header_value().expect("a tag that was parsed can be written"));
        evaluate(method, &headers, validators)
    };
    let unchanged = if is_read { Precondition::NotModified } else { Precondition::Failed };
    assert_eq!(named(header::IF_NONE_MATCH), unchanged);
    let strong = if tag.is_weak() { Precondition::Failed } else { Precondition::Proceed };
    assert_eq!(named(header::IF_MATCH), strong);
}

/// A tag that is parsed is written as it came, and named by a list that holds it.
fn entity_tag(value: &[u8]) {
    let Some(tag) = EntityTag::parse(value) else { return };
    let written = tag.to_header_value().expect("a tag that was parsed can be written");
    assert_eq!(written.as_bytes(), value.trim_ascii());
    assert_eq!(
        EntityTag::new(tag.is_weak(), &written.as_bytes()[written.len() - 1..]),
        EntityTag::new(tag.is_weak(), "")
    );
    assert!(tag.weak_eq(&tag) && tag.strong_eq(&tag) != tag.is_weak());
    let list = [b"\"other,\", junk, ", written.as_bytes(), b" , \"x"].concat();
    let lines = [http::HeaderValue::from_bytes(&list).unwrap()];
    assert!(TagCondition::parse(&lines).names(Some(&tag), EntityTag::weak_eq));
    assert!(!TagCondition::parse(&lines).names(None, EntityTag::weak_eq));
}
