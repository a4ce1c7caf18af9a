//! What handshakes and requests are answered from: the certificates there are, and the proofs that are asked for right now.
//! It never reads a file or waits.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, RwLock},
};

use rustls::sign::CertifiedKey;

use super::Proof;

/// Shared by all connections.
#[derive(Debug)]
pub struct Shelf {
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

impl Shelf {
    pub fn new(hosts: &[String]) -> Shelf {
        Shelf {
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
        self.certificates.read().unwrap_or_else(|poisoned| poisoned.into_inner()).get(host).cloned()
    }

    /// That of the first host which has one, for clients that name none.
    pub fn first(&self) -> Option<Arc<CertifiedKey>> {
        self.hosts.iter().find_map(|host| self.certificate(host))
    }

    pub fn put(&self, host: &str, key: Arc<CertifiedKey>) {
        self.certificates.write().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(host.into(), key);
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
    pub fn offer_http(self: &Arc<Shelf>, token: &str, authorization: &str) -> Offered {
        self.proofs().http.insert(token.into(), authorization.into());
        Offered { shelf: self.clone(), proof: Proof::Http01, key: token.into() }
    }

    /// Shows the certificate until what is returned is dropped.
    pub fn offer_tls(self: &Arc<Shelf>, host: &str, key: Arc<CertifiedKey>) -> Offered {
        self.proofs().tls.insert(host.into(), key);
        Offered { shelf: self.clone(), proof: Proof::TlsAlpn01, key: host.into() }
    }

    /// Notes that a handshake for the host had to be refused.
    pub fn refuse(&self, host: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if refused.told.insert(host.into()) {
            refused.untold.push(host.into());
        }
    }

    /// What to log since the last time: each host once.
    pub fn told(&self) -> Vec<String> {
        let mut refused = self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let lines = refused.untold.drain(..);
        lines.map(|host| format!("{host}: connections over https are refused until it has a certificate")).collect()
    }

    fn proofs(&self) -> MutexGuard<'_, Proofs> {
        self.proofs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A proof that is on the shelf as long as this lives.
#[must_use]
pub struct Offered {
    shelf: Arc<Shelf>,
    proof: Proof,
    key: String,
}

impl Drop for Offered {
    fn drop(&mut self) {
        let mut proofs = self.shelf.proofs();
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
        let shelf = Arc::new(Shelf::new(&["a.test".into()]));
        let offered = shelf.offer_http("token", "token.thumb");
        assert_eq!(shelf.http_proof("token").as_deref(), Some("token.thumb"));
        assert_eq!(shelf.http_proof("other"), None);
        drop(offered);
        assert_eq!(shelf.http_proof("token"), None);
    }

    #[test]
    fn a_refused_host_is_told_once() {
        let shelf = Shelf::new(&["a.test".into()]);
        shelf.refuse("a.test");
        shelf.refuse("a.test");
        assert_eq!(shelf.told().len(), 1);
        shelf.refuse("a.test");
        assert!(shelf.told().is_empty());
    }
}
