//! Which certificates are believed of a server that is spoken to by TLS, but not by HTTP. It opens no connection, and never turns
//! verification off.

use std::{fmt::Display, path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{pem::PemObject, CertificateDer};

/// TLS as a client, with the certificates of a file, else with the system's. It reads files, so no event loop calls it.
///
/// # Errors
/// Why the file can't be read, or that there are no certificates.
pub fn config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let wrong = |error: &dyn Display| format!("ca_file {}: {error}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
                roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"it has no certificate"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system has no certificates: install ca-certificates, or set ca_file".into());
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
