//! How field values are read: lists with quoted strings, numbers of seconds, dates (RFC 9110 section 5.6, RFC 9111
//! section 1.2.2). It never knows what a field means.

use std::{borrow::Cow, time::UNIX_EPOCH};

use http::{header::AsHeaderName, HeaderMap};

use crate::Millis;

/// The members of a list-based field over all of its lines, without the space around them. Empty ones are left out
/// (RFC 9110 section 5.6.1.2). A comma in a quoted string parts nothing.
pub fn members(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).iter().flat_map(|line| split(line.as_bytes(), b',')).filter(|member| !member.is_empty())
}

/// The members of a list whose grammar has no quoted strings, as `members` otherwise: Connection, Upgrade, Vary,
/// Accept-Encoding. There a `"` is a mistake, and what comes after it counts all the same: who took it for the
/// beginning of a quoted string would overlook fields that Connection takes back, and see another message than those
/// before and behind it.
pub fn tokens(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &[u8]> {
    let parts = headers.get_all(name).iter().flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    parts.map(trim).filter(|member| !member.is_empty())
}

/// Those of `tokens` that are ASCII, as text: all that can be a token, a coding or an address.
pub fn text_tokens(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
    tokens(headers, name).filter(|member| member.is_ascii()).filter_map(|member| std::str::from_utf8(member).ok())
}

/// Parts at `separator`, but not within quoted strings; trimmed.
pub fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    // Most have none: then a byte is looked at once.
    let has_quotes = text.contains(&b'"');
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = text.iter().position(|&byte| {
            if !has_quotes {
                return byte == separator;
            }
            if escaped {
                escaped = false;
            } else if quoted && byte == b'\\' {
                escaped = true;
            } else if byte == b'"' {
                quoted = !quoted;
            }
            byte == separator && !quoted
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(trim(&text[..end.unwrap_or(text.len())]))
    })
}

/// Without the optional whitespace around it.
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// A name, and its value if there is one.
pub type Pair<'a> = (&'a [u8], Option<Cow<'a, [u8]>>);

/// A member as `name` or `name=value`; a quoted value without its quotes. None: it is neither.
pub fn pair(member: &[u8]) -> Option<Pair<'_>> {
    let Some(equals) = member.iter().position(|&byte| byte == b'=') else {
        return is_token(member).then_some((member, None));
    };
    let (name, value) = (&member[..equals], &member[equals + 1..]);
    is_token(name).then(|| (name, Some(unquote(value).map_or(Cow::Borrowed(value), Cow::Owned))))
}

/// RFC 9110 section 5.6.2.
pub fn is_token(text: &[u8]) -> bool {
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(good)
}

/// What a quoted string says. None: it is not one.
pub fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"").filter(|_| text.len() > 1)?;
    let mut said = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => said.push(*bytes.next()?),
            b'"' => return None,
            byte => said.push(byte),
        }
    }
    Some(said)
}

/// A number of seconds (RFC 9111 section 1.2.2): one too large to hold is as good as the largest. None: it is none.
pub fn seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    Some(number.unwrap_or(u64::MAX).min(crate::FOREVER / 1000))
}

/// A date in any of HTTP's three forms (RFC 9110 section 5.6.7); one before 1970 is 1970.
pub fn date(text: &[u8]) -> Option<Millis> {
    let time = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    Some(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis))
}

/// The date in a field that has one line. None: absent, or not a date.
pub fn date_in(headers: &HeaderMap, name: impl AsHeaderName) -> Option<Millis> {
    let mut lines = headers.get_all(name).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    date(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_outside_of_quotes() {
        let all = |text: &'static str| split(text.as_bytes(), b',').map(String::from_utf8_lossy).collect::<Vec<_>>();
        assert_eq!(all(r#"a, b="1,2" ,c="\",", ,d"#), ["a", r#"b="1,2""#, r#"c="\",""#, "", "d"]);
        assert_eq!(all(r#"a="never closed, b"#), [r#"a="never closed, b"#]);
    }

    #[test]
    fn quotes_count_only_where_the_grammar_has_them() {
        for (line, as_members, as_tokens) in [
            ("a, b", &["a", "b"][..], &["a", "b"][..]),
            (",a ,\t b,,", &["a", "b"], &["a", "b"]),
            (r#"x="a, no-store", b"#, &[r#"x="a, no-store""#, "b"], &[r#"x="a"#, r#"no-store""#, "b"]),
            (r#"x="\", close", b"#, &[r#"x="\", close""#, "b"], &[r#"x="\""#, r#"close""#, "b"]),
            (r#"", cookie"#, &[r#"", cookie"#], &["\"", "cookie"]),
            ("a, \u{fc}", &["a", "\u{fc}"], &["a", "\u{fc}"]),
        ] {
            let headers = HeaderMap::from_iter([("x".parse().unwrap(), line.parse().unwrap())]);
            let text = |member: &[u8]| String::from_utf8(member.to_vec()).unwrap();
            let name = http::HeaderName::from_static("x");
            assert_eq!(members(&headers, &name).map(text).collect::<Vec<_>>(), as_members, "{line}");
            assert_eq!(tokens(&headers, &name).map(text).collect::<Vec<_>>(), as_tokens, "{line}");
        }
    }

    #[test]
    fn pairs() {
        let read = |text: &'static str| {
            pair(text.as_bytes()).map(|(name, value)| (name, value.map(|v| String::from_utf8(v.into_owned()).unwrap())))
        };
        assert_eq!(read("no-store"), Some((&b"no-store"[..], None)));
        assert_eq!(read(r#"no-cache="a, b""#), Some((&b"no-cache"[..], Some("a, b".into()))));
        assert_eq!(read(r#"x="a\"b""#), Some((&b"x"[..], Some(r#"a"b"#.into()))));
        assert_eq!(read("max-age =3"), None);
        assert_eq!(read("max-age= 3"), Some((&b"max-age"[..], Some(" 3".into()))));
        assert_eq!(read(""), None);
    }

    #[test]
    fn numbers_of_seconds() {
        for (text, number) in [
            ("0", Some(0)),
            ("003600", Some(3600)),
            ("99999999999999999999999", Some(1 << 31)),
            ("2147483649", Some(1 << 31)),
        ] {
            assert_eq!(seconds(text.as_bytes()), number, "{text}");
        }
        for text in ["", "-1", "1.0", " 1", "1a", "'1'", "+1"] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn dates() {
        let newyear = Some(1_577_836_800_000);
        for text in ["Wed, 01 Jan 2020 00:00:00 GMT", "Wednesday, 01-Jan-20 00:00:00 GMT", "Wed Jan  1 00:00:00 2020"] {
            assert_eq!(date(text.as_bytes()), newyear, "{text}");
        }
        for text in ["0", "", "-1", "Wed, 01 Jan 2020 00:00:00 AEST", "2020-01-01"] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }
}
