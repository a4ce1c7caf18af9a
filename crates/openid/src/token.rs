//! A signed token (JWS in compact form, RFC 7515) that is no ID token: taken apart, and its signature checked by the
//! issuer's keys. It never looks at the claims.

use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine};
use openidconnect::{
    core::{CoreJsonWebKey, CoreJwsSigningAlgorithm},
    JsonWebKey, JsonWebKeyAlgorithm, JsonWebKeyUse, JwsSigningAlgorithm,
};
use serde_json::{Map, Value};

use crate::{claims::Claims, provider::ALGORITHMS};

/// The longest token in bytes.
const MAX: usize = 64 << 10;

/// A token of which nothing is known to be true yet.
#[derive(Debug)]
pub struct SignedToken<'a> {
    header: Map<String, Value>,
    pub claims: Claims,
    signed: &'a [u8],
    signature: Vec<u8>,
}

/// Why a signature is not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureProblem {
    /// No key of the issuer has this id: there may be newer ones.
    UnknownKey,
    Refused(&'static str),
}

impl SignedToken<'_> {
    /// None: it is no such token.
    pub fn parse(text: &str) -> Option<SignedToken<'_>> {
        if text.len() > MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let object = |part: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        Some(SignedToken {
            header: object(header)?,
            claims: object(claims)?,
            signed: signed.as_bytes(),
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// What kind of token it says it is (RFC 8725 section 3.11), in small letters and without `application/`.
    pub fn kind(&self) -> Option<String> {
        let kind = self.header.get("typ")?.as_str()?.to_ascii_lowercase();
        Some(kind.strip_prefix("application/").map(str::to_owned).unwrap_or(kind))
    }

    /// Whether one of these keys has signed it.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn verify(&self, keys: &[CoreJsonWebKey]) -> Result<(), SignatureProblem> {
        let algorithm = self.header.get("alg").cloned().unwrap_or_default();
        // `none` is no algorithm of the library's, and HS256 is none of ours.
        let algorithm = serde_json::from_value::<CoreJwsSigningAlgorithm>(algorithm)
            .ok()
            .filter(|algorithm| ALGORITHMS.contains(algorithm))
            .ok_or(SignatureProblem::Refused("it is not signed with a public key"))?;
        // We know no extensions that must be understood (RFC 7515 section 4.1.11).
        if self.header.contains_key("crit") {
            return Err(SignatureProblem::Refused("it asks for extensions"));
        }
        let id = self.header.get("kid").map(|id| id.as_str().unwrap_or_default());
        let fits = |key: &&CoreJsonWebKey| {
            id.is_none_or(|id| key.key_id().is_some_and(|own| own.as_str() == id))
                && algorithm.key_type().as_ref() == Some(key.key_type())
                && key.key_use().is_none_or(|allowed| allowed.allows_signature())
                && match key.signing_alg() {
                    JsonWebKeyAlgorithm::Unspecified => true,
                    JsonWebKeyAlgorithm::Unsupported => false,
                    JsonWebKeyAlgorithm::Algorithm(own) => *own == algorithm,
                }
        };
        let mut fitting = keys.iter().filter(fits).peekable();
        if fitting.peek().is_none() {
            return Err(SignatureProblem::UnknownKey);
        }
        if fitting.any(|key| key.verify_signature(&algorithm, self.signed, &self.signature).is_ok()) {
            Ok(())
        } else {
            Err(SignatureProblem::Refused("its signature is wrong"))
        }
    }
}

/// The claims of a token whose signature has been checked already.
pub fn claims_of(text: &str) -> Option<Claims> {
    SignedToken::parse(text).map(|token| token.claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str, signature: &[u8]) -> String {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        format!("{}.{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()), encode(signature))
    }

    #[test]
    fn only_three_parts_of_json_and_bytes_are_a_token() {
        let good = token(r#"{"alg":"ES256","typ":"application/Logout+JWT"}"#, r#"{"iss":"a"}"#, b"x");
        let parsed = SignedToken::parse(&good).unwrap();
        assert_eq!(parsed.kind().as_deref(), Some("logout+jwt"));
        assert_eq!(parsed.claims["iss"], "a");
        for bad in
            ["", ".", "..", "a.b.c", &format!("{good}."), &good[1..], &token("[]", "{}", b""), &"a".repeat(MAX + 1)]
        {
            assert!(SignedToken::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn without_a_public_key_nothing_is_believed() {
        let refused = |header: &str| SignedToken::parse(&token(header, "{}", b"x")).unwrap().verify(&[]).unwrap_err();
        for header in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"HS256"}"#,
            r#"{"alg":"HS512","kid":"1"}"#,
            r#"{"alg":"nonsense"}"#,
            r#"{"alg":7}"#,
            "{}",
            r#"{"alg":"ES256","crit":["b64"]}"#,
        ] {
            assert!(matches!(refused(header), SignatureProblem::Refused(_)), "{header}");
        }
        assert_eq!(refused(r#"{"alg":"ES256","kid":"1"}"#), SignatureProblem::UnknownKey);
    }
}
