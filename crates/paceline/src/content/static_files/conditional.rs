//! Conditional requests: what a request's preconditions make of a representation (RFC 9110 section 13).
//! It never reads a clock or a file and never writes a response; files and cached pages both ask it.

use std::time::SystemTime;

use http::{header, HeaderMap, HeaderName, Method};

use super::entity_tag::{EntityTag, TagCondition};

/// What is known about the selected representation (RFC 9110 section 8.8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    pub entity_tag: Option<EntityTag>,
    /// Compared by whole seconds.
    pub last_modified: Option<SystemTime>,
    /// The representation can't have changed twice in that second (RFC 9110 section 8.8.2.2).
    pub last_modified_is_strong: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Answer as if there were none.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

impl Validators {
    /// From a stored or generated response's own head. Its Last-Modified counts as strong when its Date is at least a
    /// second later (RFC 9110 section 8.8.2.2).
    pub fn from_headers(headers: &HeaderMap) -> Validators {
        let last_modified = date(headers, header::LAST_MODIFIED);
        let last_modified_is_strong = match (last_modified, date(headers, header::DATE)) {
            (Some(modified), Some(date)) => unix_seconds(date) > unix_seconds(modified),
            _ => false,
        };
        Validators {
            entity_tag: headers.get(header::ETAG).and_then(|value| EntityTag::parse(value.as_bytes())),
            last_modified,
            last_modified_is_strong,
        }
    }
}

/// All preconditions but If-Range, in the order of RFC 9110 section 13.2.2. For whoever holds the resource itself.
pub fn evaluate(method: &Method, headers: &HeaderMap, validators: &Validators) -> Precondition {
    if headers.contains_key(header::IF_MATCH) {
        let wanted = TagCondition::parse(headers.get_all(header::IF_MATCH));
        if !wanted.names(validators.entity_tag.as_ref(), EntityTag::strong_eq) {
            return Precondition::Failed;
        }
    } else if is_modified_after(headers, header::IF_UNMODIFIED_SINCE, validators) == Some(true) {
        return Precondition::Failed;
    }
    revalidate(method, headers, validators)
}

/// Whether there is anything that `revalidate` evaluates.
pub fn may_revalidate(headers: &HeaderMap) -> bool {
    headers.contains_key(header::IF_NONE_MATCH) || headers.contains_key(header::IF_MODIFIED_SINCE)
}

/// If-None-Match and If-Modified-Since alone: what a cache may evaluate for a stored response (RFC 9111 section 4.3.2).
pub fn revalidate(method: &Method, headers: &HeaderMap, validators: &Validators) -> Precondition {
    let is_read = method == Method::GET || method == Method::HEAD;
    if headers.contains_key(header::IF_NONE_MATCH) {
        let wanted = TagCondition::parse(headers.get_all(header::IF_NONE_MATCH));
        return if !wanted.names(validators.entity_tag.as_ref(), EntityTag::weak_eq) {
            Precondition::Proceed
        } else if is_read {
            Precondition::NotModified
        } else {
            Precondition::Failed
        };
    }
    if is_read && is_modified_after(headers, header::IF_MODIFIED_SINCE, validators) == Some(false) {
        return Precondition::NotModified;
    }
    Precondition::Proceed
}

/// Whether a Range may be honoured (RFC 9110 section 13.1.5): no If-Range, or one that names this very representation.
pub fn if_range_holds(headers: &HeaderMap, validators: &Validators) -> bool {
    let Some(value) = headers.get(header::IF_RANGE) else {
        return true;
    };
    if let Some(tag) = EntityTag::parse(value.as_bytes()) {
        return validators.entity_tag.as_ref().is_some_and(|own| own.strong_eq(&tag));
    }
    match (date(headers, header::IF_RANGE), validators.last_modified) {
        (Some(date), Some(modified)) => {
            validators.last_modified_is_strong && unix_seconds(date) == unix_seconds(modified)
        }
        _ => false,
    }
}

/// None: the field is absent, no valid date, or there is nothing to compare it with (RFC 9110 sections 13.1.3, 13.1.4).
fn is_modified_after(headers: &HeaderMap, name: HeaderName, validators: &Validators) -> Option<bool> {
    let since = date(headers, name)?;
    let modified = validators.last_modified?;
    Some(unix_seconds(modified) > unix_seconds(since))
}

/// The one date of a field; two lines are no valid date.
fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?;
    if lines.next().is_some() {
        return None;
    }
    httpdate::parse_http_date(line.to_str().ok()?).ok()
}

fn unix_seconds(time: SystemTime) -> i128 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i128::from(since.as_secs()),
        Err(error) => -i128::from(error.duration().as_secs()) - 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::{Precondition::*, *};

    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn validators(weak: bool) -> Validators {
        Validators {
            entity_tag: Some(EntityTag::new(weak, "v1")),
            // Half a second past: HTTP dates have no fractions, so this still is AT.
            last_modified: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_500)),
            last_modified_is_strong: !weak,
        }
    }

    #[test]
    fn evaluates_in_the_order_of_13_2_2() {
        let (get, put) = (Method::GET, Method::PUT);
        type Fields = &'static [(&'static str, &'static str)];
        let table: &[(&Method, Fields, Precondition)] = &[
            (&get, &[], Proceed),
            // 13.1.1 If-Match: strong comparison.
            (&get, &[("if-match", "\"v1\"")], Proceed),
            (&get, &[("if-match", "\"v0\", \"v1\"")], Proceed),
            (&get, &[("if-match", "*")], Proceed),
            (&get, &[("if-match", "\"v0\"")], Failed),
            (&get, &[("if-match", "W/\"v1\"")], Failed),
            (&get, &[("if-match", "garbage")], Failed),
            (&put, &[("if-match", "\"v0\"")], Failed),
            // 13.1.2 If-None-Match: weak comparison; 412 for methods that are no reads.
            (&get, &[("if-none-match", "\"v1\"")], NotModified),
            (&get, &[("if-none-match", "W/\"v1\"")], NotModified),
            (&get, &[("if-none-match", "\"v0\"")], Proceed),
            (&get, &[("if-none-match", "*")], NotModified),
            (&get, &[("if-none-match", "garbage")], Proceed),
            (&Method::HEAD, &[("if-none-match", "\"v0\", \"v1\"")], NotModified),
            (&put, &[("if-none-match", "*")], Failed),
            // 13.1.3 If-Modified-Since, in each form of 5.6.7; invalid dates and other methods ignore it.
            (&get, &[("if-modified-since", AT)], NotModified),
            (&get, &[("if-modified-since", AFTER)], NotModified),
            (&get, &[("if-modified-since", BEFORE)], Proceed),
            (&get, &[("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT")], NotModified),
            (&get, &[("if-modified-since", "Sun Nov  6 08:49:37 1994")], NotModified),
            (&get, &[("if-modified-since", "yesterday")], Proceed),
            (&get, &[("if-modified-since", AT), ("if-modified-since", AT)], Proceed),
            (&put, &[("if-modified-since", AT)], Proceed),
            // 13.1.4 If-Unmodified-Since.
            (&get, &[("if-unmodified-since", AT)], Proceed),
            (&get, &[("if-unmodified-since", BEFORE)], Failed),
            (&get, &[("if-unmodified-since", "yesterday")], Proceed),
            // 13.2.2: tags win over dates; If-Match is looked at before If-None-Match.
            (&get, &[("if-none-match", "\"v0\""), ("if-modified-since", AT)], Proceed),
            (&get, &[("if-match", "\"v1\""), ("if-unmodified-since", BEFORE)], Proceed),
            (&get, &[("if-match", "\"v0\""), ("if-none-match", "\"v1\"")], Failed),
            (&get, &[("if-match", "\"v1\""), ("if-none-match", "\"v1\"")], NotModified),
            (&get, &[("if-unmodified-since", BEFORE), ("if-none-match", "\"v1\"")], Failed),
        ];
        for (method, fields, expected) in table {
            let outcome = evaluate(method, &headers(fields), &validators(false));
            assert_eq!(outcome, *expected, "{method} {fields:?}");
        }
    }

    /// 13.1.1: a weak tag never matches strongly. 13.1.3, 13.1.4: without a date there is nothing to compare.
    #[test]
    fn knows_what_it_cannot_compare() {
        let get = Method::GET;
        let asked = headers(&[("if-match", "\"v1\"")]);
        assert_eq!(evaluate(&get, &asked, &validators(true)), Failed);
        let nothing = Validators::default();
        for name in ["if-modified-since", "if-unmodified-since"] {
            assert_eq!(evaluate(&get, &headers(&[(name, AT)]), &nothing), Proceed, "{name}");
        }
        assert_eq!(evaluate(&get, &headers(&[("if-none-match", "\"v1\"")]), &nothing), Proceed);
        assert_eq!(evaluate(&get, &headers(&[("if-match", "*")]), &nothing), Proceed);
    }

    /// RFC 9111 section 4.3.2: a cache leaves If-Match and If-Unmodified-Since alone.
    #[test]
    fn revalidates_for_caches() {
        let asked = headers(&[("if-match", "\"v0\""), ("if-none-match", "\"v1\"")]);
        assert_eq!(revalidate(&Method::GET, &asked, &validators(false)), NotModified);
    }

    /// 13.1.5.
    #[test]
    fn if_range() {
        for (value, strong, weak) in [
            ("\"v1\"", true, false),
            ("W/\"v1\"", false, false),
            ("\"v0\"", false, false),
            (AT, true, false),
            (BEFORE, false, false),
            (AFTER, false, false),
            ("garbage", false, false),
        ] {
            let asked = headers(&[("if-range", value)]);
            assert_eq!(if_range_holds(&asked, &validators(false)), strong, "{value}");
            assert_eq!(if_range_holds(&asked, &validators(true)), weak, "{value}");
        }
        assert!(if_range_holds(&HeaderMap::new(), &validators(true)));
    }

    /// 8.8.2.2.
    #[test]
    fn reads_validators_from_a_head() {
        let stored = headers(&[("etag", "W/\"x\""), ("last-modified", AT), ("date", AFTER)]);
        let validators = Validators::from_headers(&stored);
        assert_eq!(validators.entity_tag, Some(EntityTag::new(true, "x")));
        assert!(validators.last_modified.is_some() && validators.last_modified_is_strong);
        let at_once = headers(&[("last-modified", AT), ("date", AT)]);
        assert!(!Validators::from_headers(&at_once).last_modified_is_strong);
    }
}
