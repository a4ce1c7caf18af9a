//! Sees to it that every host has a certificate: from disk, or else from the authority, and a new one ahead of time.
//! It has one task for each host and never lets one wait for another.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::{crypto::CryptoProvider, sign::CertifiedKey};
use tokio::{
    task::AbortHandle,
    time::{sleep, timeout},
};
use units::show_duration;

use super::{
    authority::Authority,
    order, schedule,
    storage::{Storage, StorageError},
    trouble::{Failure, UnusableCertificate},
    validity::Validity,
};
use crate::{
    config::AcmeConfig,
    edge::tls::certificate::{self, Certificate, CertificateError},
    observe::log::{Log, Name},
    support::certificate_store::{CertificateStore, Proof},
};

/// One attempt, with all that an authority may take.
const ATTEMPT: Duration = Duration::from_secs(300);
/// The longest sleep: what is due is due by the clock on the wall, also after the machine was suspended or set right.
const NAP: Duration = Duration::from_secs(600);
/// Between the first attempts of several hosts.
const STAGGER: Duration = Duration::from_millis(100);

pub struct Keeper {
    certificates: Arc<CertificateStore>,
    storage: Storage,
    authority: Authority,
    provider: CryptoProvider,
    hosts: Vec<(String, Option<Validity>)>,
}

impl Keeper {
    /// Takes up what is on disk.
    pub fn open(config: &AcmeConfig) -> Result<Keeper, StorageError> {
        let mut keeper = Keeper {
            certificates: Arc::new(CertificateStore::new(&config.hosts)),
            storage: Storage::open(&config.dir, &config.directory)?,
            authority: Authority::new(config),
            provider: rustls::crypto::ring::default_provider(),
            hosts: Vec::new(),
        };
        let kept = |host: &String| {
            let (key, validity) = keeper.load(host).ok().filter(|(_, validity)| validity.until > now())?;
            keeper.certificates.put(host, key);
            Some(validity)
        };
        keeper.hosts = config.hosts.iter().map(|host| (host.clone(), kept(host))).collect();
        Ok(keeper)
    }

    pub fn certificates(&self) -> &Arc<CertificateStore> {
        &self.certificates
    }

    /// Keeps on until the server ends, or until the tasks are told to. `proofs`: those there are listeners for, the
    /// likeliest first.
    pub fn begin(self, proofs: Vec<Proof>, log: Log) -> Vec<AbortHandle> {
        let keeper = Arc::new(self);
        let hosts = keeper.hosts.iter().cloned().enumerate();
        let begun = hosts.map(|(number, (host, held))| {
            let (keeper, proofs, log) = (keeper.clone(), proofs.clone(), log.clone());
            let task = tokio::spawn(async move {
                sleep(STAGGER * u32::try_from(number).unwrap_or(u32::MAX).min(600)).await;
                keeper.keep(&host, held, &proofs, &log).await;
            });
            task.abort_handle()
        });
        begun.collect()
    }

    async fn keep(&self, host: &str, mut held: Option<Validity>, proofs: &[Proof], log: &Log) {
        let mut failures = 0;
        // A proof that worked is used again; one that did not makes way for the other.
        let mut turn = 0;
        loop {
            if let Some(validity) = held {
                until(schedule::renew_at(&validity, fastrand::f64())).await;
            }
            let Some(proof) = proofs.get(turn % proofs.len().max(1)) else { return };
            let attempt = timeout(ATTEMPT, self.attempt(host, *proof)).await;
            match attempt.unwrap_or(Err(Failure::Late)) {
                Ok(validity) => {
                    let word = if held.is_some() { "renewed" } else { "obtained" };
                    log.event(
                        Name::Certificate,
                        format!("{host}: certificate {word}, valid until {}", validity.until_words()),
                    );
                    (held, failures) = (Some(validity), 0);
                }
                Err(failure) => {
                    failures += 1;
                    turn += 1;
                    if failure.is_lost_account() {
                        self.authority.forget(&self.storage).await;
                    }
                    let pause = schedule::pause(failures, fastrand::f64());
                    let line = failure.line(host, &self.authority.directory);
                    let what = held.map_or_else(
                        || "no certificate yet".into(),
                        |held| format!("certificate not renewed (the old one is valid until {})", held.until_words()),
                    );
                    let again = show_duration(Duration::from_secs(pause.as_secs()));
                    log.event(Name::Certificate, format!("{host}: {what}: {line}; trying again in {again}"));
                    sleep(pause).await;
                }
            }
        }
    }

    async fn attempt(&self, host: &str, proof: Proof) -> Result<Validity, Failure> {
        let account = self.authority.account(&self.storage).await?;
        let text = order::obtain(&account, host, proof, &self.certificates).await?;
        // What is kept was seen to be usable.
        let (key, validity) =
            usable(certificate::parse(&text, &self.provider), host).map_err(Failure::UnusableCertificate)?;
        self.storage.save_certificate(host, &text).map_err(Failure::CertificateNotKept)?;
        self.certificates.put(host, key);
        Ok(validity)
    }

    fn load(&self, host: &str) -> Result<(Arc<CertifiedKey>, Validity), UnusableCertificate> {
        usable(certificate::load(&self.storage.pair(host), &self.provider), host)
    }
}

fn usable(
    loaded: Result<Certificate, CertificateError>,
    host: &str,
) -> Result<(Arc<CertifiedKey>, Validity), UnusableCertificate> {
    let loaded = loaded?;
    if !loaded.names.iter().any(|name| name == host) {
        return Err(UnusableCertificate::OtherHost { host: host.to_owned() });
    }
    let leaf = loaded.key.cert.first();
    let validity = leaf.and_then(|leaf| Validity::of(leaf)).ok_or(UnusableCertificate::NoValidity)?;
    Ok((loaded.key, validity))
}

/// Waits for a second since 1970.
async fn until(second: i64) {
    loop {
        let left = second.saturating_sub(now());
        match u64::try_from(left) {
            Ok(left) if left > 0 => sleep(Duration::from_secs(left).min(NAP)).await,
            _ => return,
        }
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
