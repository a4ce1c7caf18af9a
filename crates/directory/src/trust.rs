//! Which certificates of a directory are believed. It opens no connection, and never turns verification off.

use std::{path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{pem::PemObject, CertificateDer};

use crate::Failure;

/// TLS as a client, with the certificates of a file, else with the system's.
///
/// # Errors
/// The file can't be read, or there are no certificates.
pub fn config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Failure> {
    let wrong = |what: String| Failure::Settings(what);
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let at = |error: &dyn std::fmt::Display| wrong(format!("certificates in {}: {error}", path.display()));
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| at(&error))?;
            for certificate in certificates {
                roots.add(certificate.map_err(|error| at(&error))?).map_err(|error| at(&error))?;
            }
            if roots.is_empty() {
                return Err(at(&"there are none"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(wrong("the system has no certificates: install ca-certificates, or name a file".into()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
