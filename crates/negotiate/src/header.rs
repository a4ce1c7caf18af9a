//! `Authorization: Negotiate`, and what answers it (RFC 4559). It decodes the token and never looks into it.

use base64::{engine::general_purpose::STANDARD, Engine};

use crate::Refusal;

/// Longest token (bytes). A ticket with the groups of a large Active Directory has some tens of kilobytes (MaxTokenSize
/// is 48,000); what is longer is no ticket.
pub const MAX_TOKEN: usize = 64 << 10;

/// The token of a value of the `Authorization` field. None: its scheme is another one, so it is not ours to judge.
///
/// # Errors
/// `Refusal::Malformed` if the scheme is Negotiate and no token follows, or one that is no base64 or too long.
pub fn token(authorization: &[u8]) -> Option<Result<Vec<u8>, Refusal>> {
    let value = authorization.trim_ascii();
    let end = value.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(value.len());
    let (scheme, rest) = value.split_at(end);
    if !scheme.eq_ignore_ascii_case(b"negotiate") {
        return None;
    }
    Some(decode(rest.trim_ascii()))
}

fn decode(text: &[u8]) -> Result<Vec<u8>, Refusal> {
    if text.is_empty() {
        return Err(Refusal::Malformed("no token follows the scheme"));
    }
    if text.len() > MAX_TOKEN.div_ceil(3) * 4 {
        return Err(Refusal::Malformed("the token is longer than 64 KB"));
    }
    STANDARD.decode(text).map_err(|_| Refusal::Malformed("the token is no base64"))
}

/// The value of `WWW-Authenticate` that offers Negotiate, or that carries the server's token.
pub fn challenge(token: &[u8]) -> String {
    if token.is_empty() {
        return "Negotiate".into();
    }
    format!("Negotiate {}", STANDARD.encode(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_of_any_case_and_other_schemes_are_left_alone() {
        assert_eq!(token(b"negotiate YWJj").unwrap().unwrap(), b"abc");
        assert_eq!(token(b" NEGOTIATE\t YWJj ").unwrap().unwrap(), b"abc");
        for other in [&b""[..], b"Basic YWJj", b"NegotiateYWJj", b"Negotiate2 YWJj", b"\xff"] {
            assert!(token(other).is_none());
        }
    }

    #[test]
    fn what_is_no_token_is_refused_and_says_why() {
        for bad in [&b"Negotiate"[..], b"Negotiate ", b"Negotiate YWJ", b"Negotiate YW Jj", b"Negotiate !!!!"] {
            assert!(matches!(token(bad), Some(Err(Refusal::Malformed(_)))), "{bad:?}");
        }
        let long = [&b"Negotiate "[..], &vec![b'A'; (MAX_TOKEN + 4) * 4 / 3]].concat();
        let refusal = token(&long).unwrap().unwrap_err();
        assert!(refusal.to_string().contains("longer than 64 KB"), "{refusal}");
    }

    #[test]
    fn a_challenge_is_read_back_as_its_token() {
        assert_eq!(challenge(b""), "Negotiate");
        assert_eq!(token(challenge(b"\0\xff!").as_bytes()).unwrap().unwrap(), b"\0\xff!");
    }
}
