//! Tags by which stored responses are purged together: Cache-Groups (RFC 9875), Surrogate-Key and Cache-Tag.
//! It never purges.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, List, ListEntry, Parser};

use crate::fields::text_tokens;

static CACHE_GROUPS: HeaderName = HeaderName::from_static("cache-groups");
static CACHE_GROUP_INVALIDATION: HeaderName = HeaderName::from_static("cache-group-invalidation");
static SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
static CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");

/// More are not looked at; RFC 9875 section 2.1 wants at least 32 of 32 characters.
const MAX_TAGS: usize = 128;
const LONGEST_TAG: usize = 256;

/// "https://host" of a URL: groups are the origin's own (RFC 9875 section 2).
pub fn origin(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |at| at + 3);
    &url[..url[authority..].find('/').map_or(url.len(), |slash| authority + slash)]
}

/// A group of an origin as a tag.
pub fn group_tag(origin: &str, group: &str) -> String {
    format!("{origin} {group}")
}

/// The tags of a response: groups by origin; keys and tags as they are, for whoever purges by them.
pub fn tags(headers: &HeaderMap, origin: &str) -> Vec<Arc<str>> {
    let mut tags: Vec<Arc<str>> =
        groups(headers, &CACHE_GROUPS).map(|group| group_tag(origin, &group).into()).collect();
    let lines = |name: &HeaderName| headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    tags.extend(lines(&SURROGATE_KEY).flat_map(str::split_ascii_whitespace).filter(fits).map(Arc::from));
    tags.extend(text_tokens(headers, &CACHE_TAG).filter(fits).map(Arc::from));
    tags.truncate(MAX_TAGS);
    tags
}

/// The tags that a response to an unsafe request invalidates (RFC 9875 section 3).
pub fn invalidated(headers: &HeaderMap, origin: &str) -> Vec<String> {
    groups(headers, &CACHE_GROUP_INVALIDATION).map(|group| group_tag(origin, &group)).take(MAX_TAGS).collect()
}

fn fits(tag: &&str) -> bool {
    (1..=LONGEST_TAG).contains(&tag.len())
}

/// A list of strings; what is none is ignored, and so is a list that can't be read.
fn groups(headers: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| line.as_bytes()).collect();
    let list = Parser::new(&lines.join(&b", "[..])).parse::<List>().unwrap_or_default();
    list.into_iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => match item.bare_item {
            BareItem::String(text) if fits(&text.as_str()) => Some(text.as_str().to_owned()),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn tags_of_three_fields() {
        let read = tags(
            &headers(&[
                ("cache-groups", "\"scripts\", token, \"eve ry\""),
                ("surrogate-key", "a  b"),
                ("cache-tag", "c d, e,"),
            ]),
            "https://shop.test",
        );
        let read: Vec<_> = read.iter().map(|tag| &**tag).collect();
        assert_eq!(read, ["https://shop.test scripts", "https://shop.test eve ry", "a", "b", "c d", "e"]);
        assert!(tags(&headers(&[("cache-groups", "\"never closed")]), "x").is_empty());
    }

    #[test]
    fn invalidation_names_the_same_tags() {
        let read = invalidated(&headers(&[("cache-group-invalidation", "\"scripts\"")]), "https://shop.test");
        assert_eq!(read, [group_tag("https://shop.test", "scripts")]);
    }

    #[test]
    fn the_origin_of_a_url() {
        for url in ["https://shop.test/a/b?c=://", "https://shop.test"] {
            assert_eq!(origin(url), "https://shop.test");
        }
    }
}
