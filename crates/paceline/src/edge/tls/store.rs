//! The certificates of one listener: loaded at the start, looked at again and again, exchanged when their files change.
//! It never gives up a certificate for one that can't be loaded, and never touches a connection that is open.

use std::{os::unix::fs::MetadataExt, path::Path, sync::Arc};

use parking_lot::{Mutex, RwLock};
use rustls::{
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{
    certificate::{self, Certificate, CertificateError},
    names::Names,
};
use crate::{
    config::CertificatePair,
    support::certificate_store::{CertificateStore, VALIDATION_PROTOCOL},
};

type ByName = Names<Arc<CertifiedKey>>;

/// Certificates by name.
#[derive(Debug)]
pub struct Store {
    provider: Arc<CryptoProvider>,
    by_name: RwLock<Arc<ByName>>,
    watched: Mutex<Vec<CertificateFiles>>,
    /// The certificates that the server gets by itself.
    automatic: Option<Arc<CertificateStore>>,
}

#[derive(Debug)]
struct CertificateFiles {
    pair: CertificatePair,
    loaded: Certificate,
    /// The files as they were when they were last read, whatever came of it.
    read: Stamp,
    /// The files as they were at the last look: a pair is read when it has been left alone for the time between two.
    seen: Stamp,
}

/// What tells that a file has changed: time, size and inode of both files, through symbolic links.
type Stamp = [Option<(i64, i64, u64, u64)>; 2];

impl Store {
    /// Loads all pairs.
    pub fn load(
        pairs: &[CertificatePair],
        automatic: Option<Arc<CertificateStore>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Store, CertificateError> {
        let load = |pair: &CertificatePair| {
            let stamp = stamp(pair);
            let loaded = certificate::load(pair, &provider)?;
            Ok::<_, CertificateError>(CertificateFiles { pair: pair.clone(), loaded, read: stamp, seen: stamp })
        };
        let watched = pairs.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let by_name = RwLock::new(Arc::new(by_name(&watched)));
        Ok(Store { provider, by_name, watched: Mutex::new(watched), automatic })
    }

    /// Reads again what has changed; returns what to log. Every connection made from now on gets the new certificate.
    pub fn look(&self) -> Vec<String> {
        let mut watched = self.watched.lock();
        let mut told = self.automatic.as_ref().map_or_else(Vec::new, |certificates| certificates.take_news());
        let mut changed = false;
        for one in watched.iter_mut() {
            let now = stamp(&one.pair);
            let settled = now == one.seen;
            one.seen = now;
            if now == one.read || !settled {
                continue;
            }
            one.read = now;
            match certificate::load(&one.pair, &self.provider) {
                Ok(loaded) => {
                    one.loaded = loaded;
                    changed = true;
                    told.push(format!("{}: changed, and used from now on", one.pair.cert.display()));
                }
                Err(why) => told.push(format!("{why}; the certificate read before stays in use")),
            }
        }
        if changed {
            *self.by_name.write() = Arc::new(by_name(&watched));
        }
        told
    }
}

fn by_name(watched: &[CertificateFiles]) -> ByName {
    Names::new(watched.iter().map(|one| (one.loaded.names.clone(), one.loaded.key.clone())))
}

fn stamp(pair: &CertificatePair) -> Stamp {
    let of = |path: &Path| {
        std::fs::metadata(path).ok().map(|found| (found.mtime(), found.mtime_nsec(), found.size(), found.ino()))
    };
    [of(&pair.cert), of(&pair.key)]
}

impl Store {
    /// The certificate that a client which asked for this name was shown.
    pub fn shown(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        self.named(name.map(str::to_ascii_lowercase), false)
    }

    /// `tells`: a name without a certificate is told in the log.
    fn named(&self, name: Option<String>, tells: bool) -> Option<Arc<CertifiedKey>> {
        let by_name = self.by_name.read().clone();
        let Some(certificates) = &self.automatic else { return by_name.find(name.as_deref()).cloned() };
        match name {
            Some(name) if certificates.has_host(&name) => {
                let found = certificates.certificate(&name).or_else(|| by_name.named(&name).cloned());
                if found.is_none() && tells {
                    certificates.refuse(&name);
                }
                found
            }
            Some(name) => by_name.find(Some(&name)).cloned(),
            None => by_name.find(None).cloned().or_else(|| certificates.first()),
        }
    }
}

impl ResolvesServerCert for Store {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        let Some(certificates) = &self.automatic else { return self.named(name, true) };
        // RFC 8737 section 3: this protocol and no other. A client that offers it among others is none that validates.
        if hello
            .alpn()
            .is_some_and(|mut offered| offered.next() == Some(VALIDATION_PROTOCOL) && offered.next().is_none())
        {
            return name.and_then(|name| certificates.tls_proof(&name));
        }
        self.named(name, true)
    }
}
