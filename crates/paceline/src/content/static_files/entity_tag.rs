//! Entity tags: parsing, writing and the two comparisons of RFC 9110 section 8.8.3.
//! It never decides what a match means; `conditional` does.

use http::HeaderValue;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    weak: bool,
    opaque: Vec<u8>,
}

impl EntityTag {
    /// `opaque` is what stands between the quotes; bytes that may not stand there are dropped.
    pub fn new(weak: bool, opaque: impl Into<Vec<u8>>) -> EntityTag {
        let mut opaque = opaque.into();
        opaque.retain(|byte| is_etagc(*byte));
        EntityTag { weak, opaque }
    }

    /// A whole field value such as `"x"` or `W/"x"`.
    pub fn parse(value: &[u8]) -> Option<EntityTag> {
        let (tag, rest) = take(value.trim_ascii())?;
        rest.is_empty().then_some(tag)
    }

    pub fn is_weak(&self) -> bool {
        self.weak
    }

    pub fn weak_eq(&self, other: &EntityTag) -> bool {
        self.opaque == other.opaque
    }

    pub fn strong_eq(&self, other: &EntityTag) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    pub fn to_header_value(&self) -> Option<HeaderValue> {
        let mut value = Vec::with_capacity(self.opaque.len() + 4);
        value.extend_from_slice(if self.weak { b"W/\"" } else { b"\"" });
        value.extend_from_slice(&self.opaque);
        value.push(b'"');
        HeaderValue::from_bytes(&value).ok()
    }
}

/// What an If-Match or If-None-Match field asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagCondition {
    Any,
    /// Members that are no entity tags are left out: they match nothing.
    Tags(Vec<EntityTag>),
}

impl TagCondition {
    /// All lines of one field (RFC 9110 section 5.3 joins them).
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a HeaderValue>) -> TagCondition {
        let mut tags = Vec::new();
        for line in lines {
            let mut rest = line.as_bytes().trim_ascii();
            if rest == b"*" {
                return TagCondition::Any;
            }
            while !rest.is_empty() {
                let after = match take(rest) {
                    Some((tag, after)) => {
                        tags.push(tag);
                        after
                    }
                    None => rest,
                };
                let comma = after.iter().position(|byte| *byte == b',');
                rest = comma.map_or(&[][..], |comma| after[comma + 1..].trim_ascii_start());
            }
        }
        TagCondition::Tags(tags)
    }

    /// Whether a representation with this tag, or without one, is among those asked for.
    pub fn names(&self, own: Option<&EntityTag>, same: fn(&EntityTag, &EntityTag) -> bool) -> bool {
        match self {
            TagCondition::Any => true,
            TagCondition::Tags(tags) => own.is_some_and(|own| tags.iter().any(|tag| same(tag, own))),
        }
    }
}

/// One entity tag from the front of `input`; a comma inside its quotes is part of it.
fn take(input: &[u8]) -> Option<(EntityTag, &[u8])> {
    let (weak, quoted) = match input.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, input),
    };
    let inner = quoted.strip_prefix(b"\"")?;
    let end = inner.iter().position(|byte| *byte == b'"')?;
    let opaque = &inner[..end];
    if !opaque.iter().all(|byte| is_etagc(*byte)) {
        return None;
    }
    let tag = EntityTag { weak, opaque: opaque.to_vec() };
    Some((tag, &inner[end + 1..]))
}

fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str) -> EntityTag {
        EntityTag::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    /// The table of RFC 9110 section 8.8.3.2.
    #[test]
    fn compares() {
        for (left, right, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(tag(left).strong_eq(&tag(right)), strong, "{left} {right}");
            assert_eq!(tag(left).weak_eq(&tag(right)), weak, "{left} {right}");
        }
    }

    /// RFC 9110 section 8.8.3.
    #[test]
    fn parses_one() {
        assert_eq!(tag("W/\"x\"").to_header_value().unwrap(), "W/\"x\"");
        assert_eq!(tag("\"\"").to_header_value().unwrap(), "\"\"");
        for bad in ["", "x", "\"x", "x\"", "w/\"x\"", "\"a b\"", "\"a\" b", "W/", "W/x"] {
            assert_eq!(EntityTag::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    /// RFC 9110 sections 13.1.1 and 13.1.2.
    #[test]
    fn parses_lists() {
        for (lines, expected) in [
            (&["\"a\""][..], &["\"a\""][..]),
            (&["\"a\", W/\"b\"", "\"c\""], &["\"a\"", "W/\"b\"", "\"c\""]),
            (&["\"a,b\" ,, \"c\""], &["\"a,b\"", "\"c\""]),
            (&["a, \"b\""], &["\"b\""]),
            (&["\"a"], &[]),
            (&["\"a\" junk, \"b\""], &["\"a\"", "\"b\""]),
            (&[""], &[]),
        ] {
            let values: Vec<_> = lines.iter().map(|line| HeaderValue::from_static(line)).collect();
            let tags = expected.iter().map(|text| tag(text)).collect();
            assert_eq!(TagCondition::parse(&values), TagCondition::Tags(tags), "{lines:?}");
        }
        assert_eq!(TagCondition::parse(&[HeaderValue::from_static(" * ")]), TagCondition::Any);
    }
}
