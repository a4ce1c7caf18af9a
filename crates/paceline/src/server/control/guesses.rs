//! How often an address has given a wrong token: after some it has to wait, whatever it gives.
//! Pure: the time is an argument.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

/// Wrong tokens that an address may give before it has to wait.
const MAX: u32 = 10;
/// After so long without one they are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Addresses that are remembered; when there are more, all have to wait.
const ADDRESSES: usize = 4096;

#[derive(Default)]
pub struct Guesses {
    wrong: HashMap<IpAddr, (u32, Instant)>,
}

impl Guesses {
    /// How long the address has to wait; None: it need not.
    pub fn wait(&mut self, from: IpAddr, now: Instant) -> Option<Duration> {
        let full = self.wrong.len() >= ADDRESSES;
        if full {
            self.wrong.retain(|_, (_, last)| now.duration_since(*last) < FORGOTTEN);
        }
        let still_full = self.wrong.len() >= ADDRESSES;
        match self.wrong.get(&network(from)) {
            Some((count, last)) if *count >= MAX => FORGOTTEN.checked_sub(now.duration_since(*last)),
            None if still_full => Some(FORGOTTEN),
            _ => None,
        }
    }

    /// It has given a wrong one.
    pub fn wrong(&mut self, from: IpAddr, now: Instant) {
        let (count, last) = self.wrong.entry(network(from)).or_insert((0, now));
        if now.duration_since(*last) >= FORGOTTEN {
            *count = 0;
        }
        (*count, *last) = (*count + 1, now);
    }
}

/// Of IPv6 a client has a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !0 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_has_to_wait_and_others_need_not() {
        let mut guesses = Guesses::default();
        let (one, other): (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let neighbour = "2001:db8::ffff".parse().unwrap();
        let now = Instant::now();
        for _ in 0..MAX {
            assert_eq!(guesses.wait(one, now), None);
            guesses.wrong(one, now);
        }
        assert_eq!((guesses.wait(neighbour, now), guesses.wait(other, now)), (Some(FORGOTTEN), None));
        let later = now + FORGOTTEN;
        assert_eq!(guesses.wait(one, later + Duration::from_secs(1)), None);
        guesses.wrong(one, later);
        assert_eq!(guesses.wait(one, later), None, "it begins anew");
    }

    #[test]
    fn memory_is_bounded() {
        let mut guesses = Guesses::default();
        let now = Instant::now();
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        (0..ADDRESSES as u32).for_each(|n| guesses.wrong(address(n), now));
        assert_eq!(guesses.wait(address(1 << 30), now), Some(FORGOTTEN));
        assert_eq!(guesses.wait(address(1 << 30), now + FORGOTTEN), None);
        assert!(guesses.wrong.is_empty());
    }
}
