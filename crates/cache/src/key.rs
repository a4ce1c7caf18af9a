//! What a response is kept under: a keyed hash of the target URI, and of what the request says in the nominated fields.
//! It never joins what HTTP keeps apart: no path is normalised, no parameter is sorted unless the origin said that it
//! may be.

use std::hash::Hasher;

use http::HeaderMap;
use siphasher::sip128::{Hasher128, SipHasher13};

pub use crate::store::Key;
use crate::vary::VaryNames;

/// Makes keys. Its secret makes them such that nobody outside can find two targets with one key.
#[derive(Debug, Clone)]
pub struct KeyMaker {
    hasher: SipHasher13,
}

/// A request's target URI (RFC 9110 section 7.1), as this server understood it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    pub scheme: &'a str,
    /// As the client sent it; case and a default port do not matter.
    pub authority: &'a str,
    /// Path and query.
    pub path: &'a str,
}

impl Target<'_> {
    /// The URI in the form that purges name it by.
    pub fn url(&self) -> String {
        let mut url = String::with_capacity(self.scheme.len() + self.authority.len() + self.path.len() + 3);
        url.push_str(self.scheme);
        url.push_str("://");
        url.push_str(self.host());
        url.make_ascii_lowercase();
        url.push_str(self.path);
        url
    }

    /// The authority without a port that the scheme implies.
    fn host(&self) -> &str {
        let default = if self.scheme == "https" { ":443" } else { ":80" };
        self.authority.strip_suffix(default).unwrap_or(self.authority).trim_end_matches(':')
    }
}

impl KeyMaker {
    pub fn new(secret: [u64; 2]) -> KeyMaker {
        KeyMaker { hasher: SipHasher13::new_with_keys(secret[0], secret[1]) }
    }

    /// The key of a target, whatever the method. `partition`: what an owner's rule adds, such as cookies; usually
    /// empty.
    pub fn primary(&self, target: &Target<'_>, partition: &[u8]) -> Key {
        let mut hasher = self.hasher;
        hasher.write(target.scheme.as_bytes());
        hasher.write(b"\0");
        // In pieces, so that nothing is allocated.
        let mut lower = [0; 64];
        for piece in target.host().as_bytes().chunks(lower.len()) {
            let lower = &mut lower[..piece.len()];
            lower.copy_from_slice(piece);
            lower.make_ascii_lowercase();
            hasher.write(lower);
        }
        hasher.write(b"\0");
        hasher.write(target.path.as_bytes());
        hasher.write(b"\0");
        hasher.write(partition);
        finish(hasher)
    }

    /// The key of one of the responses of a target that varies; if no field is nominated, the target's own.
    pub fn variant(&self, primary: Key, nominated: &VaryNames, request: &HeaderMap) -> Key {
        if nominated.is_empty() {
            return primary;
        }
        let mut hasher = self.hasher;
        hasher.write(b"\x02");
        hasher.write(&primary.0.to_be_bytes());
        nominated.selecting(request, |bytes| hasher.write(bytes));
        finish(hasher)
    }

    /// The key of what is known of a visitor, by what he says of himself.
    pub fn visitor(&self, said: &[u8]) -> Key {
        let mut hasher = self.hasher;
        hasher.write(b"\x04");
        hasher.write(said);
        finish(hasher)
    }

    /// The key of something made from what is kept under `key`, as it was at `version`.
    pub fn derived(&self, key: Key, version: u64, what: &str) -> Key {
        let mut hasher = self.hasher;
        hasher.write(b"\x03");
        hasher.write(&key.0.to_be_bytes());
        hasher.write(&version.to_be_bytes());
        hasher.write(what.as_bytes());
        finish(hasher)
    }
}

fn finish(hasher: SipHasher13) -> Key {
    let hash = hasher.finish128();
    Key(u128::from(hash.h1) << 64 | u128::from(hash.h2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn target<'a>(scheme: &'a str, authority: &'a str, path: &'a str) -> Target<'a> {
        Target { scheme, authority, path }
    }

    fn key(target: Target<'_>) -> Key {
        KeyMaker::new([1, 2]).primary(&target, b"")
    }

    #[test]
    fn host_has_no_case_and_default_ports_go_without_saying() {
        let one = key(target("http", "shop.test", "/a?b"));
        assert_eq!(one, key(target("http", "SHOP.test:80", "/a?b")));
        assert_eq!(target("https", "Shop.test:443", "/a").url(), "https://shop.test/a");
        assert_eq!(target("http", "shop.test:8080", "/a").url(), "http://shop.test:8080/a");
        let long = "X".repeat(200);
        assert_eq!(key(target("http", &long, "/")), key(target("http", &long.to_lowercase(), "/")));
    }

    #[test]
    fn what_differs_in_anything_else_is_another() {
        let one = key(target("http", "shop.test", "/a"));
        for other in [
            target("https", "shop.test", "/a"),
            target("http", "shop.test:443", "/a"),
            target("http", "shop.tes", "t/a"),
            target("http", "shop.test", "/A"),
            target("http", "shop.test", "/a?"),
            target("http", "shop.test", "/%61"),
            target("http", "shop.test", "//a"),
            target("http", "shop.test", "/./a"),
        ] {
            assert_ne!(one, key(other), "{other:?}");
        }
        assert_ne!(one, KeyMaker::new([1, 3]).primary(&target("http", "shop.test", "/a"), b""), "the secret");
        assert_ne!(one, KeyMaker::new([1, 2]).primary(&target("http", "shop.test", "/a"), b"x"), "the partition");
    }

    #[test]
    fn variants_of_one_target() {
        let maker = KeyMaker::new([1, 2]);
        let primary = key(target("http", "shop.test", "/a"));
        let headers = |name: &'static str, value: &'static str| -> HeaderMap {
            [(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect()
        };
        let nominated = VaryNames::of(&headers("vary", "accept-language")).unwrap();
        let variant = |request: &HeaderMap| maker.variant(primary, &nominated, request);
        assert_eq!(variant(&headers("accept-language", "en, de")), variant(&headers("accept-language", "de,EN")));
        assert_ne!(variant(&headers("accept-language", "en")), variant(&headers("accept-language", "de")));
        assert_ne!(variant(&HeaderMap::new()), primary);
    }
}
