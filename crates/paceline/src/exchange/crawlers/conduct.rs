//! What addresses do: one that asks for many different pages within a minute, and for nothing that browsers ask for beside
//! them, is a crawler's for a while. Pure: the time is an argument. A table of fixed size, in which those that have come
//! last push others out; then a crawler is recognized a minute later.

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
};

use parking_lot::{Mutex, MutexGuard};

use super::Seconds;
use crate::support::admission;

/// Sets of the table, and the addresses in each: 8192 in all, half a megabyte.
const SETS: usize = 1024;
const WAYS: usize = 8;
/// In this time pages are counted.
const PERIOD: Seconds = 60;
/// So long an address is a crawler's after it has asked for that many pages, if it stops.
const CRAWLER_FOR: Seconds = 600;
/// So long it is no crawler's after a browser has shown itself there.
const PERSON_FOR: Seconds = 600;
/// Bits by which pages are told apart. How many there were follows from those that are set (linear counting).
const BITS: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct Visitor {
    /// 0: nobody.
    key: u64,
    pages: [u64; BITS / 64],
    since: Seconds,
    last: Seconds,
    crawler_until: Seconds,
    person_until: Seconds,
}

/// The addresses that have come to a site.
pub struct Conduct {
    sets: Box<[Mutex<[Visitor; WAYS]>]>,
    /// Nobody else can say which addresses share a set.
    hashes: RandomState,
    /// Bits of a crawler's pages.
    bits: u32,
}

impl Conduct {
    /// `pages`: more in a minute are a crawler's.
    pub fn new(pages: u32) -> Conduct {
        let sets = (0..SETS).map(|_| Mutex::default()).collect();
        Conduct { sets, hashes: RandomState::new(), bits: bits_of(pages) }
    }

    /// The address has been given a page.
    pub fn page(&self, address: IpAddr, page: u64, now: Seconds) {
        let (key, mut set) = self.set(address);
        let visitor = enter(&mut set, key, now);
        if now >= visitor.since + PERIOD {
            (visitor.since, visitor.pages) = (now, Default::default());
        }
        let bit = page as usize % BITS;
        visitor.pages[bit / 64] |= 1 << (bit % 64);
        let pages: u32 = visitor.pages.iter().map(|bits| bits.count_ones()).sum();
        if pages > self.bits {
            visitor.crawler_until = now + CRAWLER_FOR;
        }
    }

    /// A browser, or a program that has an account, has shown itself there.
    pub fn person(&self, address: IpAddr, now: Seconds) {
        let (key, mut set) = self.set(address);
        let visitor = enter(&mut set, key, now);
        (visitor.person_until, visitor.crawler_until) = (now + PERSON_FOR, 0);
    }

    pub fn is_crawler(&self, address: IpAddr, now: Seconds) -> bool {
        let (key, set) = self.set(address);
        let found = set.iter().find(|visitor| visitor.key == key);
        found.is_some_and(|visitor| now < visitor.crawler_until && now >= visitor.person_until)
    }

    fn set(&self, address: IpAddr) -> (u64, MutexGuard<'_, [Visitor; WAYS]>) {
        let hash = self.hashes.hash_one(admission::client(address));
        (hash.max(1), self.sets[hash as usize % SETS].lock())
    }
}

/// The visitor's place, which may be another's that has not come for longer than all others of the set.
fn enter(set: &mut [Visitor; WAYS], key: u64, now: Seconds) -> &mut Visitor {
    let known = set.iter().position(|visitor| visitor.key == key);
    let longest = || (0..WAYS).min_by_key(|at| set[*at].last).unwrap_or(0);
    let at = known.unwrap_or_else(longest);
    let visitor = &mut set[at];
    if known.is_none() {
        *visitor = Visitor { key, since: now, ..Visitor::default() };
    }
    visitor.last = now;
    visitor
}

/// How many bits so many pages set.
fn bits_of(pages: u32) -> u32 {
    let all = BITS as f64;
    (all * (1.0 - (-f64::from(pages) / all).exp())).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn hash(page: u64) -> u64 {
        RandomState::new().hash_one(page)
    }

    /// Asks for different pages until it is a crawler's; how many that were.
    fn crawl(conduct: &Conduct, address: IpAddr, now: Seconds) -> Option<u32> {
        (1..=2000).find(|page| {
            conduct.page(address, hash(u64::from(*page)), now);
            conduct.is_crawler(address, now)
        })
    }

    #[test]
    fn many_different_pages_in_a_minute() {
        for pages in [10, 60, 500] {
            let found = crawl(&Conduct::new(pages), A, 7).unwrap();
            assert!(found > pages / 2 && found < pages * 2, "{pages}: {found}");
        }
    }

    #[test]
    fn the_same_page_again_and_again_and_many_pages_in_a_long_time() {
        let conduct = Conduct::new(60);
        let page = hash(1);
        (0..10_000).for_each(|n| conduct.page(A, page, n / 100));
        assert!(!conduct.is_crawler(A, 100));
        for n in 0..3600 {
            conduct.page(B, hash(n), n * 2);
            assert!(!conduct.is_crawler(B, n * 2));
        }
    }

    #[test]
    fn it_is_forgiven_when_it_stops() {
        let conduct = Conduct::new(60);
        crawl(&conduct, A, 1000).unwrap();
        assert!(!conduct.is_crawler(B, 1000));
        assert!(conduct.is_crawler(A, 1000 + CRAWLER_FOR - 1) && !conduct.is_crawler(A, 1000 + CRAWLER_FOR));
        crawl(&conduct, A, 5000).unwrap();
        conduct.page(A, 1, 5100);
        assert!(conduct.is_crawler(A, 5000 + CRAWLER_FOR - 1) && !conduct.is_crawler(A, 5000 + CRAWLER_FOR));
    }

    #[test]
    fn where_a_browser_is_nobody_is_a_crawler() {
        let conduct = Conduct::new(60);
        crawl(&conduct, A, 1000).unwrap();
        conduct.person(A, 1001);
        assert_eq!(crawl(&conduct, A, 1001), None);
        assert!(crawl(&conduct, A, 1001 + PERSON_FOR).is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let conduct = Conduct::new(60);
        let one = |host: u16| IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host));
        for host in 0..200 {
            conduct.page(one(host), hash(host.into()), 5);
        }
        assert!(conduct.is_crawler(one(999), 5));
    }

    #[test]
    fn memory_is_fixed_and_those_that_go_on_are_kept() {
        let conduct = Conduct::new(60);
        let mut now = 1;
        for number in 0..100_000u32 {
            conduct.page(IpAddr::V4(number.into()), 1, now);
            if number % 25 == 0 {
                conduct.page(A, hash(number.into()), now);
                now += u64::from(number % 100 == 0);
            }
        }
        assert_eq!(conduct.sets.len() * WAYS, 8192);
        assert!(conduct.is_crawler(A, now), "four pages each second");
    }
}
