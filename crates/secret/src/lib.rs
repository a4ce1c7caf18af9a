//! Text that must not be seen: a token, a client secret, a password. It never appears in `Debug` output, has no
//! `Display`, and its memory is overwritten when it is dropped.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Text that must not be seen.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text itself: for a request to the party that gave or checks it, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is this text. How long that takes says nothing about where they differ.
    pub fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_and_is_compared_whole() {
        let secret = Secret::new("open sesame");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[secret] Some([secret])");
        assert!(secret.is("open sesame"));
        assert!(!secret.is("open sesam") && !secret.is("open sesame ") && !secret.is(""));
    }
}
