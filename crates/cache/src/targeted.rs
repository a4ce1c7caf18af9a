//! Which field speaks to this cache: a targeted one (RFC 9213), Surrogate-Control (Edge Architecture 1.0) or
//! Cache-Control. It never mixes them: one field alone decides, and with it Expires is not looked at unless it is
//! Cache-Control.

use http::{header, HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use crate::{
    directives::ResponseDirectives,
    fields::{members, pair, seconds, split, trim},
};

/// The name by which responses address this server, in Surrogate-Control and in Surrogate-Capability.
pub const TARGET: &str = "paceline";

pub const PACELINE_CACHE_CONTROL: HeaderName = HeaderName::from_static("paceline-cache-control");
pub const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");
pub const SURROGATE_CONTROL: HeaderName = HeaderName::from_static("surrogate-control");

/// The target list (RFC 9213 section 2.2), most specific first.
const TARGET_LIST: [HeaderName; 2] = [PACELINE_CACHE_CONTROL, CDN_CACHE_CONTROL];

/// Fields that are meant for this server and go no further.
pub const CONSUMED: [HeaderName; 2] = [PACELINE_CACHE_CONTROL, SURROGATE_CONTROL];

/// What the response tells this cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub directives: ResponseDirectives,
    /// A field for caches like this one said it: Expires and Cache-Control do not count.
    pub targeted: bool,
}

impl Policy {
    pub fn of(headers: &HeaderMap) -> Policy {
        for name in TARGET_LIST.iter().filter(|name| headers.contains_key(*name)) {
            if let Some(directives) = structured(headers, name) {
                return Policy { directives, targeted: true };
            }
        }
        match surrogate(headers) {
            Some(directives) => Policy { directives, targeted: true },
            None => Policy { directives: ResponseDirectives::of(headers), targeted: false },
        }
    }
}

/// A targeted field. "If a targeted field in a given response is empty, or a parsing error is encountered, that field
/// MUST be ignored by the cache" (RFC 9213 section 2.2).
fn structured(headers: &HeaderMap, name: &HeaderName) -> Option<ResponseDirectives> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| line.as_bytes()).collect();
    let dictionary = Parser::new(&lines.join(&b", "[..])).parse::<Dictionary>().ok().filter(|read| !read.is_empty())?;
    let mut directives = ResponseDirectives::default();
    for (name, entry) in &dictionary {
        let ListEntry::Item(item) = entry else { continue };
        let value = match &item.bare_item {
            BareItem::Boolean(false) => continue,
            BareItem::Boolean(true) => None,
            BareItem::Integer(number) => Some(number.to_string().into_bytes()),
            BareItem::String(text) => Some(text.as_str().as_bytes().to_vec()),
            BareItem::Token(token) => Some(token.as_str().as_bytes().to_vec()),
            // Of a type that no directive has: there, but without a meaning.
            _ => Some(b"?".to_vec()),
        };
        directives.take(name.as_str().as_bytes(), value.as_deref());
    }
    Some(directives)
}

/// Surrogate-Control: `max-age=600+30, no-store, no-store-remote, content="ESI/1.0"`, each with an optional `;target`.
/// None: it says nothing to this server of how to cache.
fn surrogate(headers: &HeaderMap) -> Option<ResponseDirectives> {
    if !headers.contains_key(SURROGATE_CONTROL) {
        return None;
    }
    let mut directives = ResponseDirectives::default();
    let mut said = false;
    let (ours, any): (Vec<_>, Vec<_>) = members(headers, SURROGATE_CONTROL)
        .filter_map(|member| {
            let mut parts = split(member, b';');
            let directive = parts.next()?;
            let target = parts.next();
            let meant = target.is_none_or(|target| target.eq_ignore_ascii_case(TARGET.as_bytes()));
            meant.then_some((directive, target.is_some()))
        })
        .partition(|(_, targeted)| *targeted);
    // What is addressed goes before what is said to all.
    for (name, value) in ours.into_iter().chain(any).filter_map(|(directive, _)| pair(directive)) {
        match (&name.to_ascii_lowercase()[..], value) {
            (b"max-age", Some(value)) => {
                let (fresh, stale) = age_and_extension(&value);
                directives.take(b"max-age", Some(fresh));
                if let Some(stale) = stale {
                    directives.take(b"stale-while-revalidate", Some(stale));
                    directives.take(b"stale-if-error", Some(stale));
                }
                said = true;
            }
            (b"no-store" | b"no-store-remote", None) => {
                directives.no_store = true;
                said = true;
            }
            _ => {}
        }
    }
    said.then_some(directives)
}

/// `600+30`: fresh for 600 s, and usable for 30 s more.
fn age_and_extension(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(plus) = value.iter().position(|&byte| byte == b'+') else { return (value, None) };
    let extension = trim(&value[plus + 1..]);
    (&value[..plus], seconds(extension).map(|_| extension))
}

/// All that is left of a Surrogate-Control that asks for ESI (Edge Architecture 1.0 section 2.2.3): who gives the
/// response to a client takes this out too.
pub const ASKS_FOR_ESI: HeaderValue = HeaderValue::from_static("content=\"ESI/1.0\"");

/// Takes out what was meant for this cache alone.
pub fn consume(headers: &mut HeaderMap) {
    let asks = asks_for_esi(headers);
    CONSUMED.iter().for_each(|name| drop(headers.remove(name)));
    if asks {
        headers.insert(SURROGATE_CONTROL, ASKS_FOR_ESI);
    }
}

/// Whether it is a template that sets a cookie. Who writes a template has told apart what is everybody's: a cookie is not,
/// and would be given to all.
pub fn gives_all_a_cookie(headers: &HeaderMap) -> bool {
    headers.contains_key(header::SET_COOKIE) && asks_for_esi(headers)
}

/// Whether the response is a template that ESI makes the page of, another for each request.
pub fn asks_for_esi(headers: &HeaderMap) -> bool {
    if !headers.contains_key(SURROGATE_CONTROL) {
        return false;
    }
    let lines: Vec<_> = headers.get_all(SURROGATE_CONTROL).iter().filter_map(|line| line.to_str().ok()).collect();
    esi::asks_for_esi(&lines.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::Delta;

    fn policy(lines: &[(&'static str, &'static str)]) -> Policy {
        let headers =
            lines.iter().map(|(name, value)| (HeaderName::from_static(name), http::HeaderValue::from_static(value)));
        Policy::of(&headers.collect())
    }

    #[test]
    fn the_most_specific_field_alone_decides() {
        let ours = ("paceline-cache-control", "max-age=1");
        let cdn = ("cdn-cache-control", "max-age=2");
        let surrogate = ("surrogate-control", "max-age=3");
        let plain = ("cache-control", "max-age=4, no-store");
        for (lines, seconds) in
            [(&[plain, surrogate, cdn, ours][..], 1), (&[plain, surrogate, cdn], 2), (&[plain, surrogate], 3)]
        {
            let read = policy(lines);
            assert_eq!(
                (read.targeted, read.directives.max_age, read.directives.no_store),
                (true, Delta::Seconds(seconds), false)
            );
        }
        assert!(!policy(&[plain]).targeted);
    }

    #[test]
    fn a_targeted_field_that_is_empty_or_damaged_is_ignored() {
        for value in ["", "max-age==1", "MAX-AGE=1", "max-age=1,", "\"x\""] {
            let read = policy(&[("cdn-cache-control", value), ("cache-control", "max-age=9")]);
            assert_eq!((read.targeted, read.directives.max_age), (false, Delta::Seconds(9)), "{value}");
        }
    }

    #[test]
    fn structured_values() {
        let read = policy(&[(
            "cdn-cache-control",
            "max-age=60;x=1, no-store=?0, private, stale-if-error=\"5\", s-maxage=1.5",
        )])
        .directives;
        assert_eq!((read.max_age, read.no_store), (Delta::Seconds(60), false));
        assert_eq!(read.private, crate::directives::FieldScope::Everything);
        assert_eq!(read.stale_if_error, Delta::Seconds(5));
        assert_eq!(read.s_maxage, Delta::Invalid);
    }

    #[test]
    fn surrogate_control() {
        let read = policy(&[("surrogate-control", "MaX-aGe=600+30, content=\"ESI/1.0\"")]).directives;
        assert_eq!((read.max_age, read.stale_while_revalidate), (Delta::Seconds(600), Delta::Seconds(30)));
        assert!(policy(&[("surrogate-control", "no-store, max-age=9")]).directives.no_store);
        // Other surrogates' directives are not ours; ours go before everybody's.
        assert!(!policy(&[("surrogate-control", "max-age=3600;not-for-you")]).targeted);
        let both = policy(&[("surrogate-control", "max-age=1, max-age=2;paceline")]).directives;
        assert_eq!(both.max_age, Delta::Seconds(2));
        assert!(!policy(&[("surrogate-control", "content=\"ESI/1.0\"")]).targeted);
    }

    #[test]
    fn that_it_is_a_template_is_kept() {
        let left = |lines: &[&'static str]| {
            let line = |line: &&'static str| (SURROGATE_CONTROL, HeaderValue::from_static(line));
            let mut headers: HeaderMap = lines.iter().map(line).collect();
            headers.insert(PACELINE_CACHE_CONTROL, HeaderValue::from_static("max-age=1"));
            consume(&mut headers);
            headers.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(left(&["max-age=60, content=\"ESI/1.0\""]), [ASKS_FOR_ESI]);
        assert_eq!(left(&["max-age=60", "content=\"ESI/1.0\";paceline"]), [ASKS_FOR_ESI]);
        assert!(left(&["max-age=60"]).is_empty() && left(&[]).is_empty());
        assert!(left(&["content=\"ESI/1.0\";other"]).is_empty());
    }
}
