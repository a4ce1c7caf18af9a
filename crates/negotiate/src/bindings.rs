//! Channel bindings: what ties a ticket to the TLS connection that it came by (RFC 5929, tls-server-end-point), so that
//! a machine in between can't hand it on. It never sees a private key.

use ring::digest::{digest, Algorithm, SHA256, SHA384, SHA512};
use x509_parser::prelude::{FromDer, X509Certificate};

/// What is compared with the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelBindings(Vec<u8>);

impl ChannelBindings {
    /// Those of a server that shows this certificate (DER). None: it can't be read, or is signed by an algorithm
    /// without one hash function, for which RFC 5929 defines no bindings.
    pub fn tls_server_end_point(certificate: &[u8]) -> Option<ChannelBindings> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let hash = digest(hash_of(&parsed.signature_algorithm.algorithm.to_id_string())?, certificate);
        Some(ChannelBindings([&b"tls-server-end-point:"[..], hash.as_ref()].concat()))
    }

    /// With the prefix of their type.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The hash function of a signature algorithm; SHA-256 for those with MD5 or SHA-1 (RFC 5929, 4.1).
fn hash_of(algorithm: &str) -> Option<&'static Algorithm> {
    match algorithm {
        // RSA with MD5, SHA-1 and SHA-256; ECDSA with SHA-1 and SHA-256.
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.113549.1.1.11" => Some(&SHA256),
        "1.2.840.10045.4.1" | "1.2.840.10045.4.3.2" => Some(&SHA256),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(&SHA384),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(&SHA512),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_signature_and_never_a_weak_one() {
        let length = |algorithm| hash_of(algorithm).map(|hash| hash.output_len());
        assert_eq!(length("1.2.840.113549.1.1.5"), Some(32));
        assert_eq!(length("1.2.840.10045.4.3.3"), Some(48));
        assert_eq!(length("1.2.840.113549.1.1.13"), Some(64));
        // Ed25519.
        assert_eq!(length("1.3.101.112"), None);
    }

    #[test]
    fn what_is_no_certificate_has_none() {
        assert_eq!(ChannelBindings::tls_server_end_point(b"-----BEGIN CERTIFICATE-----"), None);
    }
}
