//! Who has failed to sign in too often: by address and by name. Bounded memory, and a clock that the caller has. It
//! keeps no names, only their hashes with a random key.

use std::{
    collections::{hash_map::RandomState, HashMap},
    hash::{BuildHasher, Hash},
    net::IpAddr,
};

use parking_lot::Mutex;

use crate::UnixMillis;

/// So many failures within so many milliseconds. They are forgotten one by one, evenly over that time.
#[derive(Debug, Clone, Copy)]
pub struct FailureLimit {
    pub failures: u32,
    pub within: u64,
}

/// How many milliseconds somebody has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter(pub u64);

/// The failures of the last time.
pub struct Failures {
    by_address: Option<Mutex<Table>>,
    by_name: Option<Mutex<Table>>,
    hasher: RandomState,
}

impl Failures {
    /// 20 failures in 10 minutes from an address: several people may share it.
    pub const BY_ADDRESS: FailureLimit = FailureLimit { failures: 20, within: 600_000 };
    /// 10 failures in 10 minutes for a name. Who knows a name can lock it for a while: keep the time short.
    pub const BY_NAME: FailureLimit = FailureLimit { failures: 10, within: 600_000 };
    /// Addresses, and names, that are kept at the same time: at most 4 MiB for each.
    pub const MAX: usize = 65_536;

    /// Counts failures. A limit of none, or of 0 failures, does not limit. `max`: entries of each kind.
    pub fn new(by_address: Option<FailureLimit>, by_name: Option<FailureLimit>, max: usize) -> Failures {
        let table = |limit: Option<FailureLimit>| {
            limit.filter(|limit| limit.failures > 0).map(|limit| Mutex::new(Table::new(limit, max)))
        };
        Failures { by_address: table(by_address), by_name: table(by_name), hasher: RandomState::new() }
    }

    /// Whether somebody may try now.
    ///
    /// # Errors
    /// There were too many failures: how long to wait.
    pub fn check(&self, address: IpAddr, name: Option<&str>, now: UnixMillis) -> Result<(), RetryAfter> {
        let mut wait = 0;
        for (table, key) in self.entries(address, name) {
            wait = table.lock().wait(key, now).max(wait);
        }
        match wait {
            0 => Ok(()),
            wait => Err(RetryAfter(wait)),
        }
    }

    /// Counts a failure before it is one, if somebody may try now: of tries at the same time, no more than the limit
    /// pass. One that succeeds is taken back.
    ///
    /// # Errors
    /// There were too many failures: how long to wait. Nothing is counted.
    pub fn attempt(&self, address: IpAddr, name: Option<&str>, now: UnixMillis) -> Result<(), RetryAfter> {
        let mut counted = None;
        for (table, key) in self.entries(address, name) {
            let mut entries = table.lock();
            let wait = entries.wait(key, now);
            if wait > 0 {
                drop(entries);
                if let Some((table, key)) = counted {
                    let table: &Mutex<Table> = table;
                    table.lock().take_back(key);
                }
                return Err(RetryAfter(wait));
            }
            entries.count(key, now);
            counted = Some((table, key));
        }
        Ok(())
    }

    /// What was counted before it was tried was no failure.
    pub fn take_back(&self, address: IpAddr, name: Option<&str>) {
        self.entries(address, name).for_each(|(table, key)| table.lock().take_back(key));
    }

    /// It has failed.
    pub fn failed(&self, address: IpAddr, name: Option<&str>, now: UnixMillis) {
        self.entries(address, name).for_each(|(table, key)| table.lock().count(key, now));
    }

    /// It has succeeded: the name's failures are forgotten. Those of the address stay, for one good name would let it
    /// try all others.
    pub fn succeeded(&self, name: &str) {
        if let Some(table) = &self.by_name {
            table.lock().forget(self.name_key(name));
        }
    }

    fn entries<'a>(&'a self, address: IpAddr, name: Option<&str>) -> impl Iterator<Item = (&'a Mutex<Table>, u64)> {
        let by_address = self.by_address.as_ref().map(|table| (table, self.hasher.hash_one(network(address))));
        let by_name = self.by_name.as_ref().zip(name.map(|name| self.name_key(name)));
        by_address.into_iter().chain(by_name)
    }

    /// Names differ in case for some directories, and not for others, and most ignore spaces around and between their
    /// words (RFC 4518 section 2.6.1): here no two spellings have failures of their own.
    fn name_key(&self, name: &str) -> u64 {
        let words: Vec<String> = name.split_whitespace().map(str::to_lowercase).collect();
        self.hasher.hash_one(words)
    }
}

/// What one subscriber has: an address, or of IPv6 a network of 64 bits.
fn network(address: IpAddr) -> impl Hash {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        // Never that of an IPv4 address, which has no higher bits.
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 | 1 << 63,
    }
}

/// When each key's failures are forgotten (the generic cell rate algorithm, ITU-T I.371). A key that has not failed for
/// `within` needs no entry: the entries live in two halves, and the older one is dropped when that time has passed.
struct Table {
    /// Milliseconds after which one failure is forgotten.
    interval: u64,
    within: u64,
    max: usize,
    recent: HashMap<u64, UnixMillis>,
    older: HashMap<u64, UnixMillis>,
    since: UnixMillis,
}

impl Table {
    fn new(limit: FailureLimit, max: usize) -> Table {
        let interval = (limit.within / u64::from(limit.failures)).max(1);
        Table {
            interval,
            within: interval * u64::from(limit.failures),
            max: max.div_ceil(2).max(1),
            recent: HashMap::new(),
            older: HashMap::new(),
            since: 0,
        }
    }

    fn forgotten_at(&self, key: u64) -> UnixMillis {
        self.recent.get(&key).or_else(|| self.older.get(&key)).copied().unwrap_or(0)
    }

    fn wait(&self, key: u64, now: UnixMillis) -> u64 {
        (self.forgotten_at(key).saturating_sub(now) + self.interval).saturating_sub(self.within)
    }

    fn count(&mut self, key: u64, now: UnixMillis) {
        let forgotten_at = (self.forgotten_at(key).max(now) + self.interval).min(now + self.within);
        if now.saturating_sub(self.since) >= self.within || self.recent.len() >= self.max {
            self.older = std::mem::take(&mut self.recent);
            self.since = now;
        }
        self.older.remove(&key);
        self.recent.insert(key, forgotten_at);
    }

    fn take_back(&mut self, key: u64) {
        for half in [&mut self.recent, &mut self.older] {
            if let Some(forgotten_at) = half.get_mut(&key) {
                *forgotten_at = forgotten_at.saturating_sub(self.interval);
            }
        }
    }

    fn forget(&mut self, key: u64) {
        self.recent.remove(&key);
        self.older.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: FailureLimit = FailureLimit { failures: 10, within: 1_000 };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ten_failures_are_allowed_and_one_is_forgotten_each_tenth_of_the_time() {
        let failures = Failures::new(Some(TEN), None, 100);
        let one = address("192.0.2.1");
        for _ in 0..10 {
            assert_eq!(failures.check(one, None, 5_000), Ok(()));
            failures.failed(one, None, 5_000);
        }
        assert_eq!(failures.check(one, None, 5_000), Err(RetryAfter(100)));
        assert_eq!(failures.check(one, None, 5_099), Err(RetryAfter(1)));
        assert_eq!(failures.check(one, None, 5_100), Ok(()));
        failures.failed(one, None, 5_100);
        assert_eq!(failures.check(one, None, 5_100), Err(RetryAfter(100)));
        assert_eq!(failures.check(address("192.0.2.2"), None, 5_100), Ok(()));
    }

    #[test]
    fn a_try_counts_until_it_is_taken_back() {
        let failures = Failures::new(Some(TEN), None, 100);
        let one = address("192.0.2.1");
        assert_eq!((0..20).filter(|_| failures.attempt(one, None, 5_000).is_ok()).count(), 10);
        assert_eq!(failures.check(one, None, 5_000), Err(RetryAfter(100)));
        failures.take_back(one, None);
        assert_eq!(
            (failures.attempt(one, None, 5_000), failures.attempt(one, None, 5_000)),
            (Ok(()), Err(RetryAfter(100)))
        );
        (0..10).for_each(|_| failures.take_back(one, None));
        assert_eq!((0..20).filter(|_| failures.attempt(one, None, 5_000).is_ok()).count(), 10, "no more than before");
    }

    #[test]
    fn a_try_that_one_limit_refuses_counts_for_none() {
        let failures = Failures::new(Some(FailureLimit { failures: 1000, ..TEN }), Some(TEN), 100);
        let (one, alice) = (address("192.0.2.1"), Some("alice"));
        assert_eq!((0..900).filter(|_| failures.attempt(one, alice, 0).is_ok()).count(), 10);
        assert_eq!((0..2000).filter(|_| failures.attempt(one, None, 0).is_ok()).count(), 990);
    }

    #[test]
    fn a_name_is_limited_wherever_it_is_tried_and_forgiven_when_it_succeeds() {
        let failures = Failures::new(Some(FailureLimit { failures: 1000, ..TEN }), Some(TEN), 100);
        for number in 0..10 {
            failures.failed(address(&format!("192.0.2.{number}")), Some("Alice"), 0);
        }
        let other = address("198.51.100.1");
        assert!(failures.check(other, Some("alice"), 0).is_err());
        assert_eq!(failures.check(other, Some("bob"), 0), Ok(()));
        assert_eq!(failures.check(other, None, 0), Ok(()));
        assert!(failures.check(other, Some(" alice "), 0).is_err(), "a directory takes it for the same name");
        failures.succeeded("ALICE");
        assert_eq!(failures.check(other, Some("alice"), 0), Ok(()));
    }

    #[test]
    fn an_address_of_ipv6_is_its_network() {
        let failures = Failures::new(Some(TEN), None, 100);
        for number in 0..10 {
            failures.failed(address(&format!("2001:db8:1:1::{number:x}")), None, 0);
        }
        assert!(failures.check(address("2001:db8:1:1:ffff::"), None, 0).is_err());
        assert!(failures.check(address("2001:db8:1:2::"), None, 0).is_ok());
        for _ in 0..10 {
            failures.failed(address("::ffff:192.0.2.1"), None, 0);
        }
        assert!(failures.check(address("192.0.2.1"), None, 0).is_err());
    }

    #[test]
    fn it_is_bounded_and_without_limits_nobody_is_limited() {
        let failures = Failures::new(Some(TEN), None, 1_000);
        let attacker = address("192.0.2.1");
        for number in 0..100_000_u32 {
            if number % 400 == 0 {
                failures.failed(attacker, None, 0);
            }
            failures.failed(IpAddr::V4(number.into()), None, 0);
        }
        let table = failures.by_address.as_ref().unwrap().lock();
        assert!(table.recent.len() + table.older.len() <= 1_000);
        drop(table);
        assert!(failures.check(attacker, None, 0).is_err(), "who fails often is not pushed out by who fails once");
        let unlimited = Failures::new(None, Some(FailureLimit { failures: 0, within: 1 }), 10);
        (0..100).for_each(|_| unlimited.failed(attacker, Some("alice"), 0));
        assert_eq!(unlimited.check(attacker, Some("alice"), 0), Ok(()));
    }
}
