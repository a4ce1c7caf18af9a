//! One certificate with its key, from two PEM files, and the host names it is for.
//! It never asks whether a client would trust it.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

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

/// Why a certificate can't be used with its key. Each is one line that names the file, if there is one.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{}: cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: {fault}", path.display())]
    File { path: PathBuf, fault: PemFault },
    /// Of a text that is in no file yet.
    #[error(transparent)]
    Text(#[from] PemFault),
    #[error("{}: is not the key of {}", key.display(), cert.display())]
    OtherKey { key: PathBuf, cert: PathBuf },
    #[error("{}: no valid certificate: {error:?}", cert.display())]
    Invalid { cert: PathBuf, error: rustls::CertificateError },
    #[error("{}: cannot be used as a key: {error}", key.display())]
    UnusableKey { key: PathBuf, error: Error },
    /// The two of a text don't go together, or the key can't be used.
    #[error("{0}")]
    Unusable(Error),
}

/// What is wrong with a text in PEM.
#[derive(Debug, thiserror::Error)]
pub enum PemFault {
    #[error("no PEM: {0}")]
    NotPem(pem::Error),
    #[error("holds no certificate in PEM")]
    NoCertificate,
    #[error("holds no private key in PEM")]
    NoKey,
    #[error("the key has a passphrase, which nobody could type when the server starts by itself; remove it")]
    Passphrase,
}

/// Reads the pair.
pub fn load(pair: &CertificatePair, provider: &CryptoProvider) -> Result<Certificate, CertificateError> {
    let in_file = |path: &Path| {
        let path = path.to_owned();
        move |fault| CertificateError::File { path, fault }
    };
    let chain = chain(&read(&pair.cert)?).map_err(in_file(&pair.cert))?;
    let key = key(&read(&pair.key)?).map_err(in_file(&pair.key))?;
    let names = names(&chain[0]);
    let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            CertificateError::OtherKey { key: pair.key.clone(), cert: pair.cert.clone() }
        }
        Error::InvalidCertificate(error) => CertificateError::Invalid { cert: pair.cert.clone(), error },
        error => CertificateError::UnusableKey { key: pair.key.clone(), error },
    })?;
    Ok(Certificate { names, key: Arc::new(key) })
}

/// A certificate with its chain and its key in one text.
pub fn parse(text: &str, provider: &CryptoProvider) -> Result<Certificate, CertificateError> {
    let chain = chain(text.as_bytes())?;
    let names = names(&chain[0]);
    let key = CertifiedKey::from_der(chain, key(text.as_bytes())?, provider).map_err(CertificateError::Unusable)?;
    Ok(Certificate { names, key: Arc::new(key) })
}

/// A key that any user of the machine can read.
pub fn is_exposed(key: &Path) -> bool {
    fs::metadata(key).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    unix_user::read(&RunAs::Ourselves, path, LARGEST)
        .map_err(|error| CertificateError::Unreadable { path: path.to_owned(), error })
}

fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(PemFault::NotPem)?;
    if chain.is_empty() {
        return Err(PemFault::NoCertificate);
    }
    Ok(chain)
}

fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemFault> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound if text.windows(9).any(|word| word == b"ENCRYPTED") => PemFault::Passphrase,
        pem::Error::NoItemsFound => PemFault::NoKey,
        error => PemFault::NotPem(error),
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
            let error = load(&CertificatePair { cert, key }, &rustls::crypto::ring::default_provider())
                .unwrap_err()
                .to_string();
            assert!(error.contains(told) && error.starts_with('/') && !error.contains('\n'), "{error}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
