//! A link that shows a page as it will be, for people whom somebody has given it: signed with a key in the server's state
//! folder, and good for a while. It never says what is wrong with a signature.

use std::{io, path::PathBuf};

use base64::{prelude::BASE64_URL_SAFE_NO_PAD, Engine};
use parking_lot::Mutex;
use ring::{hmac, rand::SecureRandom};
use scheduled::Millis;

use crate::{
    request::access_rules,
    support::{private_file, state_folder},
};

/// The parameter of the link's query.
pub const PARAMETER: &str = access_rules::PREVIEW;
const KEY_BYTES: usize = 32;

/// What a link says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub at: Millis,
    pub expires: Millis,
}

/// Why a link shows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLink {
    Forged,
    Expired,
}

impl Link {
    /// `target`: path and query without the parameter.
    pub fn sign(self, key: &[u8], site: &str, target: &str) -> String {
        let mut bytes = self.bytes().to_vec();
        bytes.extend(hmac::sign(&hmac_key(key), &self.message(site, target)).as_ref());
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    pub fn verify(token: &str, key: &[u8], site: &str, target: &str, now: Millis) -> Result<Link, BadLink> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| BadLink::Forged)?;
        let (said, signature) = bytes.split_first_chunk::<16>().ok_or(BadLink::Forged)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        let link = Link { at: number(&said[..8]), expires: number(&said[8..]) };
        hmac::verify(&hmac_key(key), &link.message(site, target), signature).map_err(|_| BadLink::Forged)?;
        if now < link.expires {
            Ok(link)
        } else {
            Err(BadLink::Expired)
        }
    }

    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.at.to_be_bytes());
        bytes[8..].copy_from_slice(&self.expires.to_be_bytes());
        bytes
    }

    fn message(self, site: &str, target: &str) -> Vec<u8> {
        [&b"paceline preview\0"[..], site.as_bytes(), b"\0", target.as_bytes(), b"\0", &self.bytes()].concat()
    }
}

fn hmac_key(key: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}

/// The target without the parameter, and its value. None: there is no such parameter.
pub fn taken_out(target: &str) -> Option<(String, &str)> {
    let (path, query) = target.split_once('?')?;
    let value = |pair: &'_ str| pair.strip_prefix(PARAMETER).and_then(|rest| rest.strip_prefix('=')).map(str::len);
    let token = query.split('&').find(|pair| value(pair).is_some())?;
    let others: Vec<&str> = query.split('&').filter(|pair| value(pair).is_none()).collect();
    let target = if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) };
    Some((target, &token[PARAMETER.len() + 1..]))
}

static KEY: Mutex<Option<Vec<u8>>> = Mutex::new(None);

fn path() -> Option<PathBuf> {
    Some(state_folder::path()?.join("preview.key"))
}

/// The key, if a link was ever signed.
pub fn known_key() -> Option<Vec<u8>> {
    let mut known = KEY.lock();
    if known.is_none() {
        *known = private_file::read(&path()?, KEY_BYTES as u64 + 1).ok().filter(|key| key.len() == KEY_BYTES);
    }
    known.clone()
}

/// The key; where there is none it is made.
pub fn key() -> io::Result<Vec<u8>> {
    if let Some(key) = known_key() {
        return Ok(key);
    }
    let path =
        path().ok_or_else(|| io::Error::other("the server's account has no state folder: set XDG_STATE_HOME"))?;
    let mut key = vec![0; KEY_BYTES];
    ring::rand::SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("there are no random numbers"))?;
    private_file::replace_or_remove(&path, &key)?;
    *KEY.lock() = Some(key.clone());
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { at: 1_795_780_800_000, expires: 1_000 };

    #[test]
    fn a_link_shows_one_page_at_one_time_for_a_while() {
        let token = LINK.sign(b"key", "shop", "/sales?a=1");
        let verify = |key: &[u8], site: &str, target: &str, now| Link::verify(&token, key, site, target, now);
        assert_eq!(verify(b"key", "shop", "/sales?a=1", 999), Ok(LINK));
        assert_eq!(verify(b"key", "shop", "/sales?a=1", 1_000), Err(BadLink::Expired));
        for (key, site, target) in
            [(&b"other"[..], "shop", "/sales?a=1"), (b"key", "other", "/sales?a=1"), (b"key", "shop", "/sales?a=2")]
        {
            assert_eq!(verify(key, site, target, 0), Err(BadLink::Forged));
        }
        let later = Link { expires: 2_000, ..LINK }.sign(b"key", "shop", "/sales?a=1");
        let mixed = format!("{}{}", &later[..22], &token[22..]);
        for token in ["", "!", "AAAA", &mixed, &token[..30]] {
            assert_eq!(Link::verify(token, b"key", "shop", "/sales?a=1", 0), Err(BadLink::Forged), "{token}");
        }
    }

    #[test]
    fn the_parameter_is_no_part_of_the_page() {
        for (target, page) in [
            ("/sales?paceline-preview=abc", Some(("/sales", "abc"))),
            ("/sales?a=1&paceline-preview=abc&b=2", Some(("/sales?a=1&b=2", "abc"))),
            ("/sales?paceline-preview", None),
            ("/sales?xpaceline-preview=abc", None),
            ("/sales", None),
        ] {
            let page = page.map(|(target, token)| (target.to_owned(), token));
            assert_eq!(taken_out(target), page, "{target}");
        }
    }
}
