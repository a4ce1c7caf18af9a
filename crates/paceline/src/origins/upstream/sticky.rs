//! Visitors who stay with their host, by a cookie of the front's own. It names the host by a keyed hash, so that it tells
//! nobody an address. It is no secret and proves nothing: one that is made up is as good as none.

use std::{io::ErrorKind, path::Path, time::SystemTime};

use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine};
use http::{header, HeaderMap, HeaderValue};
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use crate::support::{private_file, state_folder};

/// The cookie's name.
const COOKIE: &str = "paceline_host";
const KEY_BYTES: usize = 32;
/// So many bytes of the hash are enough to keep hosts apart.
const TOKEN_BYTES: usize = 9;

/// What makes tokens of hosts' names.
pub struct Tokens(hmac::Key);

impl Tokens {
    /// With the key of this machine, which lasts: visitors stay where they are when the server is restarted. Where that can't
    /// be had, with one of this process, and the problem is told. A key is made only where there is none: another one might
    /// be that of all servers before the same hosts.
    pub fn open() -> (Tokens, Option<String>) {
        match state_folder::path() {
            Some(folder) => Tokens::kept_in(&folder.join("upstream-cookie.key")),
            None => (Tokens::with(&new_key()), None),
        }
    }

    fn kept_in(path: &Path) -> (Tokens, Option<String>) {
        let why = match private_file::read(path, KEY_BYTES as u64 + 1) {
            Ok(key) if key.len() == KEY_BYTES => return (Tokens::with(&key), None),
            Ok(_) => format!("is not {KEY_BYTES} bytes long; without the file a new one is made"),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let key = new_key();
                let written = private_file::replace(path, &key);
                return (
                    Tokens::with(&key),
                    written.err().map(|error| problem(path, &format!("can't be written: {error}"))),
                );
            }
            Err(error) => format!("can't be read: {error}"),
        };
        (Tokens::with(&new_key()), Some(problem(path, &why)))
    }

    pub fn with(key: &[u8]) -> Tokens {
        Tokens(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    pub fn of(&self, host: &str) -> String {
        URL_SAFE_NO_PAD.encode(&hmac::sign(&self.0, host.as_bytes()).as_ref()[..TOKEN_BYTES])
    }
}

fn new_key() -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    // Without random numbers tokens can be guessed, which only tells who guesses a host's address.
    let _ = SystemRandom::new().fill(&mut key);
    key
}

fn problem(path: &Path, why: &str) -> String {
    format!("upstream_sticky: visitors lose their host when the server is restarted: {} {why}", path.display())
}

/// Takes the cookie out of a request, which no cache and no host is to see.
pub fn take(headers: &mut HeaderMap) -> Option<String> {
    let is_there = |line: &HeaderValue| line.as_bytes().windows(COOKIE.len()).any(|part| part == COOKIE.as_bytes());
    if !headers.get_all(header::COOKIE).iter().any(is_there) {
        return None;
    }
    let lines: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    headers.remove(header::COOKIE);
    let mut token = None;
    for line in lines {
        let mut kept: Vec<&[u8]> = Vec::new();
        for pair in line.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
            match pair.strip_prefix(COOKIE.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
                Some(value) => token = std::str::from_utf8(value).ok().map(str::to_owned),
                None => kept.push(pair),
            }
        }
        if let Some(line) = HeaderValue::from_bytes(&kept.join(&b"; "[..])).ok().filter(|line| !line.is_empty()) {
            headers.append(header::COOKIE, line);
        }
    }
    token
}

/// The Set-Cookie field for a host.
pub fn field(token: &str, is_https: bool) -> String {
    format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax{}", if is_https { "; Secure" } else { "" })
}

/// Whether other caches may give a response to others: then it must not have one visitor's cookie.
pub fn is_shared(headers: &HeaderMap) -> bool {
    let of = |name: &str| Directives::of(headers, name);
    let lives = headers.get(header::EXPIRES).and_then(|value| httpdate::parse_http_date(value.to_str().ok()?).ok());
    let lives = lives.is_some_and(|until| until > SystemTime::now());
    let surrogate = of("surrogate-control");
    of("cache-control").allow_sharing(lives)
        || of("cdn-cache-control").allow_sharing(false)
        || surrogate.has_age && surrogate.allow_sharing(false)
}

/// What a field like Cache-Control says of caches that several use.
#[derive(Default)]
struct Directives {
    is_public: bool,
    is_refused: bool,
    /// There is a max-age, which has priority over Expires.
    has_age: bool,
    /// It is not 0.
    ages: bool,
}

impl Directives {
    fn of(headers: &HeaderMap, name: &str) -> Directives {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        let mut said = Directives::default();
        for word in lines.flat_map(|line| line.split(',')) {
            let word = word.trim().to_ascii_lowercase();
            let (name, value) = word.split_once('=').map_or((word.as_str(), ""), |(name, value)| (name.trim(), value));
            match name {
                "public" | "s-maxage" => said.is_public = true,
                "private" | "no-store" => said.is_refused = true,
                "max-age" => {
                    said.has_age = true;
                    said.ages |= value.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
                }
                _ => {}
            }
        }
        said
    }

    /// `lives`: Expires is a time to come.
    fn allow_sharing(&self, lives: bool) -> bool {
        !self.is_refused && (self.is_public || self.ages || lives && !self.has_age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name.clone(), line.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_cookie_is_taken_out_and_others_stay() {
        for (lines, token, left) in [
            (&["a=b; paceline_host=abc; c=d"][..], Some("abc"), &["a=b; c=d"][..]),
            (&["paceline_host=abc"], Some("abc"), &[]),
            (&["a=b;paceline_host=", "c=\"d; e\""], Some(""), &["a=b", "c=\"d; e\""]),
            (&["xpaceline_host=abc; paceline_host2=x"], None, &["xpaceline_host=abc; paceline_host2=x"]),
            (&["a=b;c=d"], None, &["a=b;c=d"]),
            (&[], None, &[]),
        ] {
            let mut headers = headers(header::COOKIE, lines);
            assert_eq!(take(&mut headers).as_deref(), token, "{lines:?}");
            let found: Vec<_> = headers.get_all(header::COOKIE).iter().map(|line| line.to_str().unwrap()).collect();
            assert_eq!(found, left, "{lines:?}");
        }
    }

    #[test]
    fn tokens_are_opaque_and_follow_from_the_key() {
        let (one, other) = (Tokens::with(b"one"), Tokens::with(b"other"));
        assert_eq!(one.of("http://10.0.0.1"), Tokens::with(b"one").of("http://10.0.0.1"));
        assert_ne!(one.of("http://10.0.0.1"), one.of("http://10.0.0.2"));
        assert_ne!(one.of("http://10.0.0.1"), other.of("http://10.0.0.1"));
        assert_eq!(one.of("http://10.0.0.1").len(), 12);
        assert_eq!(field("x", true), "paceline_host=x; Path=/; HttpOnly; SameSite=Lax; Secure");
    }

    #[test]
    fn a_page_for_all_gets_no_cookie() {
        for (lines, shared) in [
            (&["max-age=0, private, must-revalidate"][..], false),
            (&["Public, max-age=60"], true),
            (&["max-age=5", "s-maxage=60"], true),
            (&["max-age=60"], true),
            (&["must-revalidate, Max-Age=\"60\""], true),
            (&["max-age=0"], false),
            (&["max-age=60", "private"], false),
            (&["public, max-age=60, no-store"], false),
            (&["s-maxage=60, private"], false),
            (&["no-store"], false),
            (&[], false),
        ] {
            assert_eq!(is_shared(&headers(header::CACHE_CONTROL, lines)), shared, "{lines:?}");
        }
    }

    #[test]
    fn other_fields_that_let_caches_share_a_page() {
        let later = httpdate::fmt_http_date(SystemTime::now() + std::time::Duration::from_secs(3600));
        let past = "Thu, 19 Nov 1981 08:52:00 GMT";
        for (lines, shared) in [
            (&[("expires", later.as_str())][..], true),
            (&[("expires", past)], false),
            (&[("expires", "0")], false),
            (&[("expires", &later), ("cache-control", "max-age=0")], false),
            (&[("expires", &later), ("cache-control", "private")], false),
            (&[("surrogate-control", "content=\"ESI/1.0\"")], false),
            (&[("surrogate-control", "no-store")], false),
            (&[("surrogate-control", "max-age=60, content=\"ESI/1.0\""), ("cache-control", "private")], true),
            (&[("cdn-cache-control", "max-age=60"), ("cache-control", "no-store")], true),
            (&[("cdn-cache-control", "no-store")], false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            assert_eq!(is_shared(&headers), shared, "{lines:?}");
        }
    }

    #[test]
    fn a_key_is_made_only_where_there_is_none() {
        let folder = std::env::temp_dir().join(format!("paceline-sticky-{}", std::process::id()));
        let path = folder.join("state").join("upstream-cookie.key");
        let (made, problem) = Tokens::kept_in(&path);
        assert_eq!(problem, None);
        assert_eq!(Tokens::kept_in(&path).0.of("host"), made.of("host"), "it is kept");
        for bytes in [&b"too short"[..], b""] {
            std::fs::write(&path, bytes).unwrap();
            let (other, problem) = Tokens::kept_in(&path);
            assert!(problem.is_some_and(|why| why.contains("is not 32 bytes long")));
            assert_ne!(other.of("host"), made.of("host"));
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "it stays as it was");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(Tokens::kept_in(&path).1.is_some_and(|why| why.contains("can't be read")));
        assert!(path.is_dir());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
