//! TLS towards upstreams: whom we believe, and who we are. Verification is as strict as Net::HTTP's unless a call says otherwise;
//! sessions are resumed. It never opens a connection.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use rustls::{
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        WebPkiServerVerifier,
    },
    crypto::CryptoProvider,
    version::{TLS12, TLS13},
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{
    failure::Failure,
    wanted::{certificates, private_key, TlsVersion, Trust, Verify},
};

/// Configurations in memory. Each has its own sessions.
const MOST: usize = 256;

/// The configurations of calls that want the same, made once: to read the system's certificates takes milliseconds.
#[derive(Default)]
pub struct Trusts {
    made: Mutex<HashMap<(Trust, bool), Made>>,
    /// The system's certificates.
    system: Mutex<Option<Arc<Roots>>>,
}

struct Made {
    config: Arc<ClientConfig>,
    /// When the file of certificates was changed.
    changed: Option<SystemTime>,
}

struct Roots {
    store: Arc<RootCertStore>,
    /// The certificates themselves.
    der: Vec<CertificateDer<'static>>,
}

impl Trusts {
    /// The configuration for this trust, which offers HTTP/2 or not. It may read files: they are small.
    pub fn config(&self, trust: &Trust, only_http1: bool) -> Result<Arc<ClientConfig>, Failure> {
        let changed = trust.ca_file.as_deref().and_then(changed);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
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
        if made.len() >= MOST {
            made.clear();
        }
        made.insert(key, Made { config: config.clone(), changed });
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

    fn verifier(&self, trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
        let any_name = trust.verify != Verify::All;
        if trust.verify == Verify::Nothing {
            return Ok(Arc::new(AsNetHttp { strict: None, any_name, provider }));
        }
        let roots = self.roots(trust)?;
        let strict = WebPkiServerVerifier::builder_with_provider(roots.store.clone(), provider.clone())
            .build()
            .map_err(|error| Failure::Tls(format!("no trusted certificates: {error}")))?;
        Ok(Arc::new(AsNetHttp { strict: Some((strict, roots)), any_name, provider }))
    }

    fn roots(&self, trust: &Trust) -> Result<Arc<Roots>, Failure> {
        let (file, folder) = (trust.ca_file.as_deref(), trust.ca_path.as_deref());
        if file.is_none() && folder.is_none() && trust.ca.is_empty() {
            let mut system = self.system.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(system.get_or_insert_with(|| Roots::of(rustls_native_certs::load_native_certs().certs)).clone());
        }
        let system = if trust.system { rustls_native_certs::load_native_certs().certs } else { Vec::new() };
        let bad = |why: String| Failure::Tls(why);
        let mut found =
            certificates(&trust.ca).ok_or_else(|| bad("the certificates to be trusted can't be read".into()))?;
        if file.is_some() || folder.is_some() {
            let read = rustls_native_certs::load_certs_from_paths(file, folder);
            if let Some(error) = read.errors.first() {
                return Err(bad(error.to_string()));
            }
            found.extend(read.certs);
        }
        found.extend(system);
        Ok(Roots::of(found))
    }
}

impl Roots {
    fn of(der: Vec<CertificateDer<'static>>) -> Arc<Roots> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(der.iter().cloned());
        Arc::new(Roots { store: Arc::new(store), der })
    }
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

/// webpki's verification, and where it is stricter than OpenSSL's in what people rely on, OpenSSL's: a self-signed certificate that is itself
/// among those trusted is good although it is an authority's (as of development servers).
#[derive(Debug)]
struct AsNetHttp {
    /// None: any certificate will do (VERIFY_NONE), of somebody who has its key.
    strict: Option<(Arc<WebPkiServerVerifier>, Arc<Roots>)>,
    any_name: bool,
    provider: Arc<CryptoProvider>,
}

impl std::fmt::Debug for Roots {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} certificates", self.der.len())
    }
}

/// Whether webpki refuses it because it is an authority's, which is one of those trusted.
fn is_trusted_itself(certificate: &CertificateDer<'_>, error: &CertificateError, roots: &Roots) -> bool {
    // Its time has been looked at before this (webpki's `check_issuer_independent_properties`).
    let is_authority = match error {
        CertificateError::Other(other) => {
            matches!(other.0.downcast_ref::<webpki::Error>(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    };
    is_authority && roots.der.iter().any(|root| root == certificate)
}

impl ServerCertVerifier for AsNetHttp {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((strict, roots)) = &self.strict else { return Ok(ServerCertVerified::assertion()) };
        match strict.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name comes last, when the chain has been found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            Err(Error::InvalidCertificate(error)) if is_trusted_itself(end_entity, &error, roots) => {
                let parsed = webpki::EndEntityCert::try_from(end_entity);
                let named = parsed.and_then(|parsed| parsed.verify_is_valid_for_subject_name(server_name));
                match named {
                    Err(_) if !self.any_name => Err(Error::InvalidCertificate(CertificateError::NotValidForName)),
                    _ => Ok(ServerCertVerified::assertion()),
                }
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
