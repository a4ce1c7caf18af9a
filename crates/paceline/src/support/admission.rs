//! How many connections there may be, in all and from one address.
//! It never closes one that is open.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
        Arc,
    },
};

use parking_lot::{Mutex, MutexGuard};

/// The connections there are.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    most_per_address: usize,
    open: AtomicUsize,
    accepted: AtomicU64,
    refused: AtomicU64,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// Why a connection is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    InAll,
    Address(IpAddr),
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub struct Pass {
    connections: Arc<Connections>,
    address: Option<IpAddr>,
}

impl Connections {
    /// None: no bound.
    pub fn new(most: Option<usize>, most_per_address: Option<usize>) -> Arc<Connections> {
        Arc::new(Connections {
            most: most.unwrap_or(usize::MAX),
            most_per_address: most_per_address.unwrap_or(usize::MAX),
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            by_address: Mutex::default(),
        })
    }

    /// Lets a connection in, if there is room. None: it has no address (a Unix socket).
    pub fn enter(self: &Arc<Connections>, address: Option<IpAddr>) -> Result<Pass, Full> {
        if self.open.fetch_add(1, SeqCst) >= self.most {
            self.open.fetch_sub(1, SeqCst);
            self.refused.fetch_add(1, Relaxed);
            return Err(Full::InAll);
        }
        let address = address.filter(|_| self.most_per_address != usize::MAX).map(client);
        let pass = Pass { connections: self.clone(), address };
        if let Some(address) = address {
            let mut by_address = self.by_address();
            let count = by_address.entry(address).or_default();
            *count += 1;
            if *count > self.most_per_address {
                drop(by_address);
                self.refused.fetch_add(1, Relaxed);
                return Err(Full::Address(address));
            }
        }
        self.accepted.fetch_add(1, Relaxed);
        Ok(pass)
    }

    /// Those that are open.
    pub fn open(&self) -> usize {
        self.open.load(SeqCst)
    }

    /// Those that were let in since the server began, and those that were turned away.
    pub fn counted(&self) -> (u64, u64) {
        (self.accepted.load(Relaxed), self.refused.load(Relaxed))
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_address.lock()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, SeqCst);
        let Some(address) = self.address else { return };
        let mut by_address = self.connections.by_address();
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }
}

/// What stands for one client: an IPv4 address, or the /64 that a customer of IPv6 has whole.
pub fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn one_address_leaves_room_for_others_and_all_have_a_bound() {
        let connections = Connections::new(Some(4), Some(2));
        let first = connections.enter(ip("192.0.2.1")).unwrap();
        let _second = connections.enter(ip("192.0.2.1")).unwrap();
        assert_eq!(connections.enter(ip("192.0.2.1")).unwrap_err(), Full::Address("192.0.2.1".parse().unwrap()));
        // As one that came over an IPv6 socket it is the same client.
        assert!(connections.enter(ip("::ffff:192.0.2.1")).is_err());
        let _third = connections.enter(ip("192.0.2.2")).unwrap();
        let _fourth = connections.enter(None).unwrap();
        assert_eq!(connections.enter(ip("192.0.2.3")).unwrap_err(), Full::InAll);
        drop(first);
        let _again = connections.enter(ip("192.0.2.1")).unwrap();
        assert_eq!(connections.by_address().len(), 2);
    }

    #[test]
    fn nothing_is_remembered_of_connections_that_are_over() {
        let connections = Connections::new(None, Some(1));
        for last in 0..100u8 {
            drop(connections.enter(ip(&format!("192.0.2.{last}"))).unwrap());
        }
        assert!(connections.by_address().is_empty());
        assert_eq!(connections.open.load(SeqCst), 0);
    }

    #[test]
    fn a_customer_of_ipv6_is_one_client() {
        assert_eq!(client("2001:db8:1:2:aaaa::1".parse().unwrap()), client("2001:db8:1:2:bbbb::2".parse().unwrap()));
        assert_ne!(client("2001:db8:1:2::1".parse().unwrap()), client("2001:db8:1:3::1".parse().unwrap()));
    }
}
