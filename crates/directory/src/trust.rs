//! Which certificates are believed of a server that is spoken to by TLS, but not by HTTP. It opens no connection, and never turns
//! verification off.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{pem::PemObject, CertificateDer};

/// Why there are no certificates by which a server could be believed.
#[derive(Debug, Clone)]
pub enum TrustError {
    /// `ca_file` can't be read, or has something else in it than certificates.
    Unreadable { file: PathBuf, why: Arc<dyn Error + Send + Sync> },
    /// `ca_file` has no certificate.
    Empty(PathBuf),
    /// There is no `ca_file`, and the system has no certificates.
    NoneOnSystem,
    /// TLS can't be set up.
    Unsupported(rustls::Error),
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustError::Unreadable { file, why } => write!(f, "ca_file {}: {why}", file.display()),
            TrustError::Empty(file) => write!(f, "ca_file {}: it has no certificate", file.display()),
            TrustError::NoneOnSystem => {
                f.write_str("the system has no certificates: install ca-certificates, or set ca_file")
            }
            TrustError::Unsupported(why) => write!(f, "{why}"),
        }
    }
}

impl Error for TrustError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            TrustError::Unreadable { why, .. } => Some(&**why),
            TrustError::Unsupported(why) => Some(why),
            TrustError::Empty(_) | TrustError::NoneOnSystem => None,
        }
    }
}

/// TLS as a client, with the certificates of a file, else with the system's. It reads files, so no event loop calls it.
///
/// # Errors
/// The file can't be read, or there are no certificates.
pub fn config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable(file))? {
                roots.add(certificate.map_err(unreadable(file))?).map_err(unreadable(file))?;
            }
            if roots.is_empty() {
                return Err(TrustError::Empty(file.to_owned()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(TrustError::NoneOnSystem);
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(TrustError::Unsupported)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn unreadable<E: Error + Send + Sync + 'static>(file: &Path) -> impl Fn(E) -> TrustError + '_ {
    move |why| TrustError::Unreadable { file: file.to_owned(), why: Arc::new(why) }
}
