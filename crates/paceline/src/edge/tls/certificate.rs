//! One certificate with its key, from two PEM files, and the host names it is for.
//! It never asks whether a client would trust it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use rustls::{crypto::CryptoProvider, sign::CertifiedKey, Error, InconsistentKeys};
use rustls_pki_types::{
    pem::{self, PemObject},
    CertificateDer, PrivateKeyDer,
};

use crate::config::CertificatePair;
use unix_user::{self, RunAs};

/// Bytes of a file, at most.
const LARGEST: u64 = 4 << 20;

/// What a server shows and signs with.
#[derive(Debug)]
pub struct Certificate {
    /// DNS names of its subjectAltName (RFC 6125), lower case; `*.example.org` among them. None: it is only a default.
    pub names: Vec<String>,
    pub key: Arc<CertifiedKey>,
}

/// Reads the pair. Err: one line that names the file.
pub fn load(pair: &CertificatePair, provider: &CryptoProvider) -> Result<Certificate, String> {
    let chain = chain(&read(&pair.cert)?).map_err(|why| format!("{}: {why}", pair.cert.display()))?;
    let key = key(&read(&pair.key)?).map_err(|why| format!("{}: {why}", pair.key.display()))?;
    let names = names(&chain[0]);
    let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            format!("{}: is not the key of {}", pair.key.display(), pair.cert.display())
        }
        Error::InvalidCertificate(why) => format!("{}: no valid certificate: {why:?}", pair.cert.display()),
        other => format!("{}: cannot be used as a key: {other}", pair.key.display()),
    })?;
    Ok(Certificate { names, key: Arc::new(key) })
}

/// A certificate with its chain and its key in one text.
pub fn parse(text: &str, provider: &CryptoProvider) -> Result<Certificate, String> {
    let chain = chain(text.as_bytes())?;
    let names = names(&chain[0]);
    let key = CertifiedKey::from_der(chain, key(text.as_bytes())?, provider).map_err(|error| error.to_string())?;
    Ok(Certificate { names, key: Arc::new(key) })
}

/// A key that any user of the machine can read.
pub fn is_exposed(key: &Path) -> bool {
    fs::metadata(key).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    unix_user::read(&RunAs::Ourselves, path, LARGEST)
        .map_err(|error| format!("{}: cannot be read: {error}", path.display()))
}

fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|error| format!("no PEM: {error}"))?;
    if chain.is_empty() {
        return Err("holds no certificate in PEM".into());
    }
    Ok(chain)
}

fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound if text.windows(9).any(|word| word == b"ENCRYPTED") => {
            "the key has a passphrase, which nobody could type when the server starts by itself; remove it".into()
        }
        pem::Error::NoItemsFound => "holds no private key in PEM".into(),
        error => format!("no PEM: {error}"),
    })
}

fn names(certificate: &CertificateDer) -> Vec<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    parsed.map_or_else(|_| Vec::new(), |parsed| parsed.valid_dns_names().map(str::to_ascii_lowercase).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pair_is_told_in_a_line() {
        let folder = std::env::temp_dir().join(format!("paceline-certificate-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let plain = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (cert, key, told) in [
            (folder.join("none"), folder.join("none"), "cannot be read"),
            (file("cert", garbage), folder.join("none"), "cannot be read"),
            (file("empty", ""), folder.join("none"), "no certificate in PEM"),
            (file("empty", "x"), file("key", plain), "no certificate in PEM"),
            (file("cert", garbage), file("nokey", "x"), "no private key in PEM"),
            (file("cert", garbage), file("locked", locked), "passphrase"),
            (file("cert", garbage), file("key", plain), "cannot be used as a key"),
        ] {
            let error = load(&CertificatePair { cert, key }, &rustls::crypto::ring::default_provider()).unwrap_err();
            assert!(error.contains(told) && error.starts_with('/') && !error.contains('\n'), "{error}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
