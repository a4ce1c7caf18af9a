//! The proof in a TLS handshake (RFC 8737): a certificate that signs itself and carries the digest of what was agreed
//! on. It never serves HTTP: the connection ends with its handshake.

use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::{crypto::ring::sign::any_ecdsa_type, sign::CertifiedKey};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The proof could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error("no certificate could be made as a proof: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("no certificate could be made as a proof: {0}")]
    Key(#[from] rustls::Error),
}

/// The certificate that proves the host. `digest`: SHA-256 of the key authorization.
pub fn certificate(host: &str, digest: &[u8]) -> Result<Arc<CertifiedKey>, ProofError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([host.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key)?;
    let signing = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let signing = any_ecdsa_type(&signing)?;
    Ok(Arc::new(CertifiedKey::new(vec![certificate.der().clone()], signing)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_the_host_and_carries_the_digest() {
        let key = certificate("a.test", &[7; 32]).unwrap();
        let der = key.cert[0].as_ref();
        // id-pe-acmeIdentifier, critical, an OCTET STRING in an OCTET STRING.
        let extension = [&[6, 8, 43, 6, 1, 5, 5, 7, 1, 31, 1, 1, 255, 4, 34, 4, 32][..], &[7; 32]].concat();
        assert!(der.windows(extension.len()).any(|part| part == extension));
        assert!(der.windows(6).any(|part| part == b"a.test"));
    }
}
