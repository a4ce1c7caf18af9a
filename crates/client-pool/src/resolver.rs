//! Names to addresses, as the system resolves them, kept for a while. It never connects, and never judges an address.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{net::lookup_host, time::Instant};

use super::failure::Failure;

/// For so long an answer is taken as it is: the system does not tell how long it holds.
const FRESH: Duration = Duration::from_secs(30);
/// For so long it serves while it is asked for anew.
const USABLE: Duration = Duration::from_secs(120);
/// Names in memory.
const MAX: usize = 4096;

/// Answers of the system.
#[derive(Default)]
pub struct Resolver {
    names: Mutex<HashMap<String, Arc<tokio::sync::Mutex<CachedAddresses>>>>,
}

#[derive(Default)]
struct CachedAddresses {
    addresses: Arc<[IpAddr]>,
    since: Option<Instant>,
}

impl Resolver {
    /// The addresses of a name, best first (RFC 6724, by the system), and at least one. Calls for the same name ask
    /// once.
    pub async fn resolve(&self, host: &str) -> Result<Arc<[IpAddr]>, Failure> {
        if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok([address].into());
        }
        let name = self.name(host);
        let mut known = name.lock().await;
        match known.since.map(|since| since.elapsed()) {
            Some(age) if age < FRESH => Ok(known.addresses.clone()),
            Some(age) if age < USABLE => {
                let (name, host) = (name.clone(), host.to_owned());
                tokio::spawn(async move { drop(refresh(&mut *name.lock().await, &host).await) });
                Ok(known.addresses.clone())
            }
            _ => refresh(&mut known, host).await,
        }
    }

    fn name(&self, host: &str) -> Arc<tokio::sync::Mutex<CachedAddresses>> {
        let mut names = self.names.lock();
        if let Some(known) = names.get(host) {
            return known.clone();
        }
        if names.len() >= MAX {
            // Those that somebody waits for stay.
            names.retain(|_, known| Arc::strong_count(known) > 1);
        }
        names.entry(host.to_owned()).or_default().clone()
    }
}

async fn refresh(known: &mut CachedAddresses, host: &str) -> Result<Arc<[IpAddr]>, Failure> {
    if known.since.is_some_and(|since| since.elapsed() < FRESH) {
        return Ok(known.addresses.clone());
    }
    let found = lookup_host((host, 0)).await.map_err(|error| Failure::Resolve(words(&error.to_string())))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    found.map(|found| found.ip()).for_each(|one| {
        if !addresses.contains(&one) {
            addresses.push(one);
        }
    });
    if addresses.is_empty() {
        return Err(Failure::Resolve("the name has no address".into()));
    }
    known.addresses = addresses.into();
    known.since = Some(Instant::now());
    Ok(known.addresses.clone())
}

/// What getaddrinfo says, without what Rust says of it.
fn words(error: &str) -> String {
    error.strip_prefix("failed to lookup address information: ").unwrap_or(error).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_is_its_own_answer_and_a_name_is_kept() {
        let resolver = Resolver::default();
        assert_eq!(*resolver.resolve("127.0.0.9").await.unwrap(), ["127.0.0.9".parse::<IpAddr>().unwrap()]);
        assert_eq!(*resolver.resolve("[::1]").await.unwrap(), ["::1".parse::<IpAddr>().unwrap()]);
        let (one, other) = tokio::join!(resolver.resolve("localhost"), resolver.resolve("localhost"));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!(one.iter().all(IpAddr::is_loopback) && !one.is_empty());
        assert!(Arc::ptr_eq(&one, &other), "asked once");
    }

    #[tokio::test]
    async fn a_name_that_is_none_is_told_as_the_system_does() {
        let failed = Resolver::default().resolve("no-such-host.invalid").await;
        assert!(matches!(&failed, Err(Failure::Resolve(words)) if !words.contains("lookup address")), "{failed:?}");
    }
}
