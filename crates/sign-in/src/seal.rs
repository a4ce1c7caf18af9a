//! Seals what the store keeps, with a key that only the holder of the session's id can make (HKDF-SHA256, AES-256-GCM).
//! What was changed does not open. It never keeps a key.

use ring::{
    aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, NONCE_LEN},
    hkdf::{Salt, HKDF_SHA256},
    rand::{SecureRandom, SystemRandom},
};

use crate::SessionId;

/// Where a sealed text belongs. One that was moved elsewhere does not open.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    Session,
    Login,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Purpose::Session => b"paceline sign-in session 1",
            Purpose::Login => b"paceline sign-in login 1",
        }
    }
}

/// The text, readable only by who has the id. `place`: the key of the record, to which it is bound.
pub fn seal(id: &SessionId, purpose: Purpose, place: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).ok()?;
    let mut sealed = nonce.to_vec();
    let mut rest = text.to_vec();
    key(id, purpose)?
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), &mut rest)
        .ok()?;
    sealed.append(&mut rest);
    Some(sealed)
}

/// The text again. None: it was sealed with another id, for another place, or was changed.
pub fn unseal(id: &SessionId, purpose: Purpose, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut rest = rest.to_vec();
    let length =
        key(id, purpose)?.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(place), &mut rest).ok()?.len();
    rest.truncate(length);
    Some(rest)
}

fn key(id: &SessionId, purpose: Purpose) -> Option<LessSafeKey> {
    let derived = Salt::new(HKDF_SHA256, b"paceline").extract(id.bytes());
    let info = [purpose.label()];
    let material = derived.expand(&info, &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(material)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_id_opens_what_was_sealed() {
        let id = SessionId::random();
        let sealed = seal(&id, Purpose::Session, b"here", b"alice").unwrap();
        assert!(!sealed.windows(5).any(|window| window == b"alice"));
        assert_eq!(unseal(&id, Purpose::Session, b"here", &sealed).unwrap(), b"alice");
        assert_eq!(unseal(&SessionId::random(), Purpose::Session, b"here", &sealed), None);
        assert_eq!(unseal(&id, Purpose::Login, b"here", &sealed), None);
        assert_eq!(unseal(&id, Purpose::Session, b"there", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(unseal(&id, Purpose::Session, b"here", &changed), None, "byte {at}");
            assert_eq!(unseal(&id, Purpose::Session, b"here", &sealed[..at]), None, "{at} bytes");
        }
    }
}
