//! The id of a session, which only the browser holds, and the key under which the store has it. It never stores
//! anything.

use std::fmt;

use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine};
use ring::{
    digest::{Context, SHA256},
    rand::{SecureRandom, SystemRandom},
};
use zeroize::Zeroizing;

/// 32 random bytes that make their holder the owner of a session.
#[derive(Clone)]
pub struct SessionId(Zeroizing<[u8; 32]>);

impl SessionId {
    /// A new one, from the system's random numbers.
    ///
    /// # Panics
    /// If the system gives no random numbers: then nothing that has to be secret can be made.
    pub fn random() -> SessionId {
        let mut bytes = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(&mut bytes[..]).expect("the system gives no random numbers");
        SessionId(bytes)
    }

    /// The id in the value of a cookie: 43 characters of base64url without padding (RFC 4648 section 5). None: it is
    /// not the text of an id.
    pub fn parse(text: &str) -> Option<SessionId> {
        // Longer text is not decoded at all.
        if text.len() != 43 {
            return None;
        }
        let mut bytes = Zeroizing::new([0; 32]);
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes[..]).ok()?;
        (length == 32).then_some(SessionId(bytes))
    }

    /// The text that `parse` reads.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(&self.0[..]))
    }

    /// Where the store has the session.
    pub fn key(&self) -> Key {
        Key::of(&[&self.0[..]])
    }

    /// Where the store has the login that this browser has begun with this `state` parameter. A callback of somebody
    /// else's login, in this browser, finds nothing (RFC 6749 section 10.12).
    pub fn login_key(&self, state: &str) -> Key {
        Key::of(&[b"login\0", &self.0[..], state.as_bytes()])
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[session id]")
    }
}

/// A SHA-256: of a session's id, or of what sessions are looked up by. It gives nobody a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// The digest of the parts one after another. All but the last have a fixed length, or end with a NUL.
    pub fn of(parts: &[&[u8]]) -> Key {
        let mut context = Context::new(&SHA256);
        parts.iter().for_each(|part| context.update(part));
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        Key(key)
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Key> {
        bytes.try_into().ok().map(Key)
    }

    /// 64 hexadecimal digits.
    pub(crate) fn to_hex(self) -> String {
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
            .collect()
    }

    pub(crate) fn from_hex(text: &str) -> Option<Key> {
        let digits: Vec<u8> =
            text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
        Key::from_slice(&bytes).filter(|_| text.len() == 64)
    }
}

impl fmt::Debug for Key {
    /// The beginning is enough to tell two apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", &self.to_hex()[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_text_and_no_other_text_is_one() {
        let id = SessionId::random();
        let text = id.to_text();
        assert_eq!(text.len(), 43);
        assert_eq!(SessionId::parse(&text).unwrap().key(), id.key());
        assert_ne!(SessionId::random().key(), id.key());
        let padded = format!("{}=", &*text);
        // The last character has two bits that mean nothing: only zeros are allowed.
        let spare = format!("{}B", "A".repeat(42));
        for other in ["", "A", &text[..42], &padded, &spare, &"+".repeat(43), &"é".repeat(21), &"A".repeat(4000)] {
            assert!(SessionId::parse(other).is_none(), "{other}");
        }
        assert!(SessionId::parse(&"A".repeat(43)).is_some());
    }

    #[test]
    fn nothing_of_an_id_is_shown() {
        let id = SessionId::random();
        assert_eq!(format!("{id:?}"), "[session id]");
        assert!(!format!("{:?}", id.key()).contains(&*id.to_text()));
    }

    #[test]
    fn a_login_belongs_to_its_browser_and_its_state() {
        let (one, other) = (SessionId::random(), SessionId::random());
        assert_eq!(one.login_key("a"), one.login_key("a"));
        assert_ne!(one.login_key("a"), one.login_key("b"));
        assert_ne!(one.login_key("a"), other.login_key("a"));
        assert_ne!(one.login_key(""), one.key());
    }

    #[test]
    fn a_key_comes_back_from_its_digits() {
        let key = SessionId::random().key();
        assert_eq!(Key::from_hex(&key.to_hex()), Some(key));
        assert_eq!(Key::from_hex("zz"), None);
        assert_eq!(Key::from_hex(&format!("{}0", key.to_hex())), None);
    }
}
