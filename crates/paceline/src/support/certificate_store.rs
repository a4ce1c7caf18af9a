//! What handshakes and requests are answered from: the certificates there are, and the proofs that are asked for right
//! now. It never reads a file or waits.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustls::sign::CertifiedKey;

/// The protocol (ALPN) of a connection that validates a host, and of no other (RFC 8737 section 4).
pub const VALIDATION_PROTOCOL: &[u8] = b"acme-tls/1";

/// How a host proves to the authority that it is served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A file over http, port 80.
    Http01,
    /// A certificate in a TLS handshake, port 443.
    TlsAlpn01,
}

/// Shared by all connections.
#[derive(Debug)]
pub struct CertificateStore {
    hosts: Vec<String>,
    certificates: RwLock<HashMap<String, Arc<CertifiedKey>>>,
    proofs: Mutex<Proofs>,
    refused: Mutex<Refused>,
}

#[derive(Debug, Default)]
struct Proofs {
    /// Key authorizations by token.
    http: HashMap<String, String>,
    /// Certificates by host.
    tls: HashMap<String, Arc<CertifiedKey>>,
}

/// Hosts that were asked for before they had a certificate.
#[derive(Debug, Default)]
struct Refused {
    told: HashSet<String>,
    untold: Vec<String>,
}

impl CertificateStore {
    pub fn new(hosts: &[String]) -> CertificateStore {
        CertificateStore {
            hosts: hosts.to_vec(),
            certificates: RwLock::default(),
            proofs: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Whether the host is one of those that get a certificate.
    pub fn has_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|one| one == host)
    }

    pub fn certificate(&self, host: &str) -> Option<Arc<CertifiedKey>> {
        self.certificates.read().get(host).cloned()
    }

    /// That of the first host which has one, for clients that name none.
    pub fn first(&self) -> Option<Arc<CertifiedKey>> {
        self.hosts.iter().find_map(|host| self.certificate(host))
    }

    pub fn put(&self, host: &str, key: Arc<CertifiedKey>) {
        self.certificates.write().insert(host.into(), key);
    }

    /// What is to be answered to whoever asks for the token over http.
    pub fn http_proof(&self, token: &str) -> Option<String> {
        self.proofs().http.get(token).cloned()
    }

    /// What is to be shown to an authority that validates the host.
    pub fn tls_proof(&self, host: &str) -> Option<Arc<CertifiedKey>> {
        self.proofs().tls.get(host).cloned()
    }

    /// Answers the token until what is returned is dropped.
    pub fn offer_http(self: &Arc<CertificateStore>, token: &str, authorization: &str) -> ProofGuard {
        self.proofs().http.insert(token.into(), authorization.into());
        ProofGuard { certificates: self.clone(), proof: Proof::Http01, key: token.into() }
    }

    /// Shows the certificate until what is returned is dropped.
    pub fn offer_tls(self: &Arc<CertificateStore>, host: &str, key: Arc<CertifiedKey>) -> ProofGuard {
        self.proofs().tls.insert(host.into(), key);
        ProofGuard { certificates: self.clone(), proof: Proof::TlsAlpn01, key: host.into() }
    }

    /// Notes that a handshake for the host had to be refused.
    pub fn refuse(&self, host: &str) {
        let mut refused = self.refused.lock();
        if refused.told.insert(host.into()) {
            refused.untold.push(host.into());
        }
    }

    /// What to log since the last time: each host once.
    pub fn take_news(&self) -> Vec<String> {
        let mut refused = self.refused.lock();
        let lines = refused.untold.drain(..);
        lines.map(|host| format!("{host}: connections over https are refused until it has a certificate")).collect()
    }

    fn proofs(&self) -> MutexGuard<'_, Proofs> {
        self.proofs.lock()
    }
}

/// A proof that is on the certificates as long as this lives.
#[must_use]
pub struct ProofGuard {
    certificates: Arc<CertificateStore>,
    proof: Proof,
    key: String,
}

impl Drop for ProofGuard {
    fn drop(&mut self) {
        let mut proofs = self.certificates.proofs();
        match self.proof {
            Proof::Http01 => drop(proofs.http.remove(&self.key)),
            Proof::TlsAlpn01 => drop(proofs.tls.remove(&self.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_offered_for_a_while() {
        let certificates = Arc::new(CertificateStore::new(&["a.test".into()]));
        let offered = certificates.offer_http("token", "token.thumb");
        assert_eq!(certificates.http_proof("token").as_deref(), Some("token.thumb"));
        assert_eq!(certificates.http_proof("other"), None);
        drop(offered);
        assert_eq!(certificates.http_proof("token"), None);
    }

    #[test]
    fn a_refused_host_is_told_once() {
        let certificates = CertificateStore::new(&["a.test".into()]);
        certificates.refuse("a.test");
        certificates.refuse("a.test");
        assert_eq!(certificates.take_news().len(), 1);
        certificates.refuse("a.test");
        assert!(certificates.take_news().is_empty());
    }
}
