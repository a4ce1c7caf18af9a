//! TLS towards upstreams: whom we believe, and who we are. Verification is as strict as Net::HTTP's unless a call says
//! otherwise; sessions are resumed. It never opens a connection.

use std::{collections::HashMap, path::Path, sync::Arc, time::SystemTime};

use parking_lot::Mutex;
use rustls::{
    crypto::CryptoProvider,
    version::{TLS12, TLS13},
    ClientConfig, SupportedProtocolVersion,
};

use rustls_pki_types::{
    pem::{self, PemObject},
    CertificateDer,
};

use super::{
    failure::Failure,
    verifier::{Roots, Verifier},
    way::{certificates, private_key, TlsVersion, Trust, Verify},
};

/// Configurations in memory. Each has its own sessions.
const MAX: usize = 256;

/// The configurations of calls that want the same, made once: to read the system's certificates takes milliseconds.
#[derive(Default)]
pub struct Trusts {
    made: Mutex<HashMap<(Trust, bool), BuiltTrust>>,
    /// The system's certificates.
    system: Mutex<Option<Arc<Roots>>>,
}

struct BuiltTrust {
    config: Arc<ClientConfig>,
    /// When the file of certificates was changed.
    changed: Option<SystemTime>,
}

impl Trusts {
    /// The configuration for this trust, which offers HTTP/2 or not. It may read files, so no event loop calls
    /// it.
    pub fn config(&self, trust: &Trust, only_http1: bool) -> Result<Arc<ClientConfig>, Failure> {
        let changed = trust.ca_file.as_deref().and_then(changed);
        let mut made = self.made.lock();
        let key = (trust.clone(), only_http1);
        if let Some(found) = made.get(&key).filter(|found| found.changed == changed) {
            return Ok(found.config.clone());
        }
        let mut config = self.make(trust)?;
        config.alpn_protocols = match only_http1 {
            true => vec![b"http/1.1".to_vec()],
            false => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let config = Arc::new(config);
        if made.len() >= MAX {
            made.clear();
        }
        made.insert(key, BuiltTrust { config: config.clone(), changed });
        Ok(config)
    }

    fn make(&self, trust: &Trust) -> Result<ClientConfig, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = versions(trust)?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| Failure::Unsupported(error.to_string()))?;
        let verifier = self.verifier(trust, provider)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        match &trust.identity {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => {
                let bad = |what: &str| Failure::Unsupported(format!("the client's {what} can't be read"));
                let chain = certificates(chain).ok_or_else(|| bad("certificate"))?;
                let key = private_key(key).ok_or_else(|| bad("private key"))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| Failure::Unsupported(error.to_string()))
            }
        }
    }

    fn verifier(&self, trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Arc<Verifier>, Failure> {
        let roots = match trust.verify {
            Verify::Nothing => None,
            Verify::All | Verify::Chain => Some(self.roots(trust)?),
        };
        Ok(Arc::new(Verifier { roots, any_name: trust.verify != Verify::All, provider }))
    }

    fn roots(&self, trust: &Trust) -> Result<Arc<Roots>, Failure> {
        let (file, folder) = (trust.ca_file.as_deref(), trust.ca_path.as_deref());
        if file.is_none() && folder.is_none() && trust.ca.is_empty() {
            let mut known = self.system.lock();
            return Ok(known.get_or_insert_with(|| Arc::new(Roots::new(system()))).clone());
        }
        let mut found = certificates(&trust.ca)
            .ok_or_else(|| Failure::Tls("the certificates to be trusted can't be read".into()))?;
        if let Some(file) = file {
            let unreadable =
                |error| Failure::Tls(format!("the certificates of {} can't be read: {error}", file.display()));
            found.extend(in_file(file).map_err(unreadable)?);
        }
        if let Some(folder) = folder {
            found.extend(std::env::split_paths(folder).flat_map(|folder| in_folder(&folder)));
        }
        if trust.system {
            found.extend(system());
        }
        Ok(Arc::new(Roots::new(found)))
    }
}

/// The certificates that OpenSSL trusts unless told otherwise.
fn system() -> Vec<CertificateDer<'static>> {
    let found = openssl_probe::probe();
    let mut all = found.cert_file.and_then(|file| in_file(&file).ok()).unwrap_or_default();
    all.extend(found.cert_dir.iter().flat_map(|folder| in_folder(folder)));
    all.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    all.dedup();
    all
}

/// Err: why this file's certificates can't be trusted ones.
pub fn check_ca_file(path: &Path) -> Result<(), String> {
    match in_file(path) {
        Ok(found) if found.is_empty() => Err("it has no certificate".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn in_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_file_iter(path)?.collect()
}

/// The certificates of a folder as OpenSSL finds them, by the hash of their subject (`openssl rehash`): files of other
/// names are not looked at, and may be anything.
fn in_folder(path: &Path) -> Vec<CertificateDer<'static>> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_hash));
    named.filter_map(|entry| in_file(&entry.path()).ok()).flatten().collect()
}

/// Whether this is a name as `openssl rehash` gives it: `8cb5ee0f.0`.
fn is_hash(name: &str) -> bool {
    let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.split_once('.').is_some_and(|(hash, number)| {
        hash.len() == 8
            && hash.bytes().all(is_lower_hex)
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

fn versions(trust: &Trust) -> Result<Vec<&'static SupportedProtocolVersion>, Failure> {
    let (min, max) = (trust.min.unwrap_or(TlsVersion::Tls12), trust.max.unwrap_or(TlsVersion::Tls13));
    let both = [(TlsVersion::Tls12, &TLS12), (TlsVersion::Tls13, &TLS13)];
    let within: Vec<_> =
        both.into_iter().filter(|(version, _)| (min..=max).contains(version)).map(|(_, one)| one).collect();
    match within.is_empty() {
        true => Err(Failure::Unsupported("tls_min is above tls_max".into())),
        false => Ok(within),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_rehash_are_certificates() {
        assert!(is_hash("8cb5ee0f.0") && is_hash("00000000.12"));
        for name in ["8cb5ee0f.r0", "8cb5ee0f", "8cb5ee0f.", "8CB5EE0F.0", "8cb5ee0.0", "server.pem", "8cb5ee0f.0.pem"]
        {
            assert!(!is_hash(name), "{name}");
        }
    }
}
