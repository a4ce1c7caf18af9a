//! Whether an address belongs to the crawler it says it is: its name is in a domain of that crawler's operator, and the name
//! leads back to the address (as Google and Bing document it). The request does not wait for that: it counts as unverified
//! until it is known. At most a few are looked up at a time, and a bounded number is remembered.

use std::{
    collections::{HashMap, HashSet},
    io::Error,
    net::IpAddr,
    sync::Arc,
    thread,
};

use parking_lot::Mutex;

use super::Seconds;

/// Look-ups at a time; others are begun by a later request. A name server may take many seconds.
const AT_ONCE: usize = 4;
/// Addresses that are remembered.
const MAX_KNOWN: usize = 4096;
/// How long it holds that an address is a crawler's, that it is none, and that nothing could be found out.
const VERIFIED_FOR: Seconds = 6 * 3600;
const FALSE_FOR: Seconds = 3600;
const UNKNOWN_FOR: Seconds = 60;

/// Where names and addresses are looked up.
pub trait Names: Send + Sync + 'static {
    /// Ok(None): it has none.
    fn name(&self, address: IpAddr) -> Result<Option<String>, Error>;
    fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Error>;
}

pub struct Verification(Arc<Shared>);

struct Shared {
    /// In lower case, without a dot at the end.
    domains: Vec<String>,
    names: Arc<dyn Names>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    verdicts: HashMap<IpAddr, Verdict>,
    under_way: HashSet<IpAddr>,
}

#[derive(Debug, Clone, Copy)]
struct Verdict {
    is_verified: bool,
    until: Seconds,
}

impl Verification {
    pub fn new(domains: &[String], names: Arc<dyn Names>) -> Verification {
        let domains = domains.iter().map(|domain| plain(domain)).collect();
        Verification(Arc::new(Shared { domains, names, known: Mutex::default() }))
    }

    /// What is known of it. What is not, or not any more, is looked up for the next request.
    pub fn is_verified(&self, address: IpAddr, now: Seconds) -> bool {
        let mut known = self.0.known.lock();
        let verdict = known.verdicts.get(&address).copied();
        let is_verified = verdict.is_some_and(|verdict| verdict.is_verified);
        let holds = verdict.is_some_and(|verdict| now < verdict.until);
        if holds || known.under_way.len() >= AT_ONCE || !known.under_way.insert(address) {
            return is_verified;
        }
        drop(known);
        let shared = self.0.clone();
        // A thread of its own: the event loop must not wait, nor the server's end.
        let look = move || shared.settle(address, check(&*shared.names, &shared.domains, address), now);
        if thread::Builder::new().name("paceline-names".into()).spawn(look).is_err() {
            self.0.known.lock().under_way.remove(&address);
        }
        is_verified
    }
}

impl Shared {
    fn settle(&self, address: IpAddr, found: Result<bool, Error>, now: Seconds) {
        let mut known = self.known.lock();
        let before = known.verdicts.get(&address).is_some_and(|verdict| verdict.is_verified);
        let (is_verified, time) = match found {
            Ok(true) => (true, VERIFIED_FOR),
            Ok(false) => (false, FALSE_FOR),
            // A name server that is away takes no crawler's name.
            Err(_) => (before, UNKNOWN_FOR),
        };
        if known.verdicts.len() >= MAX_KNOWN {
            known.verdicts.retain(|_, verdict| now < verdict.until);
            let surplus = (known.verdicts.len() + 1).saturating_sub(MAX_KNOWN * 9 / 10);
            let some: Vec<_> = known.verdicts.keys().take(surplus).copied().collect();
            for address in &some {
                known.verdicts.remove(address);
            }
        }
        known.verdicts.insert(address, Verdict { is_verified, until: now + time });
        known.under_way.remove(&address);
    }
}

/// Asks for the name, and for the name's addresses.
fn check(names: &dyn Names, domains: &[String], address: IpAddr) -> Result<bool, Error> {
    let Some(name) = names.name(address)? else { return Ok(false) };
    let name = plain(&name);
    let is_below =
        |domain: &String| name.strip_suffix(domain.as_str()).is_some_and(|host| host.is_empty() || host.ends_with('.'));
    // Anybody may give his address the name of somebody else's host; but not the other way round.
    Ok(domains.iter().any(is_below) && names.addresses(&name)?.contains(&address.to_canonical()))
}

fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::ErrorKind, net::Ipv4Addr, sync::mpsc};

    const GOOGLE: IpAddr = IpAddr::V4(Ipv4Addr::new(66, 249, 66, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const NAME: &str = "crawl-66-249-66-1.googlebot.com";

    /// A name server that says this of each address, and of each name.
    struct Scripted {
        name: Result<Option<&'static str>, ErrorKind>,
        addresses: Result<Vec<IpAddr>, ErrorKind>,
    }

    impl Names for Scripted {
        fn name(&self, _: IpAddr) -> Result<Option<String>, Error> {
            Ok(self.name?.map(str::to_owned))
        }

        fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, Error> {
            Ok(self.addresses.clone()?)
        }
    }

    fn checked(name: Option<&'static str>, addresses: &[IpAddr]) -> bool {
        let names = Scripted { name: Ok(name), addresses: Ok(addresses.to_vec()) };
        let domains = ["googlebot.com", "search.msn.com"].map(str::to_owned);
        check(&names, &domains, GOOGLE).unwrap()
    }

    #[test]
    fn a_name_in_the_domain_that_leads_back() {
        assert!(checked(Some(NAME), &[GOOGLE]) && checked(Some("CRAWL.GoogleBot.com."), &[OTHER, GOOGLE]));
        assert!(checked(Some("googlebot.com"), &[GOOGLE]));
        assert!(!checked(None, &[GOOGLE]));
        assert!(!checked(Some(NAME), &[OTHER]) && !checked(Some(NAME), &[]), "it does not lead back");
        for name in ["crawl.notgooglebot.com", "googlebot.com.evil.example", "msn.com", ""] {
            assert!(!checked(Some(name), &[GOOGLE]), "{name}");
        }
    }

    /// A name server that answers when the test says what.
    struct Slow(Mutex<mpsc::Receiver<Result<bool, ErrorKind>>>, Mutex<mpsc::Sender<IpAddr>>);

    impl Names for Slow {
        fn name(&self, address: IpAddr) -> Result<Option<String>, Error> {
            let _ = self.1.lock().send(address);
            let is_known = self.0.lock().recv().unwrap_or(Ok(false))?;
            Ok(is_known.then(|| NAME.into()))
        }

        fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, Error> {
            Ok(vec![GOOGLE, OTHER])
        }
    }

    fn until_settled(verification: &Verification) {
        while !verification.0.known.lock().under_way.is_empty() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_request_never_waits_and_each_verdict_holds_for_a_while() {
        let ((says, heard), (asks, asked)) = (mpsc::channel(), mpsc::channel());
        let names = Arc::new(Slow(Mutex::new(heard), Mutex::new(asks)));
        let verification = Verification::new(&["GoogleBot.com.".into()], names);
        assert!(!verification.is_verified(GOOGLE, 0) && !verification.is_verified(GOOGLE, 1));
        let answer = |answer| {
            assert_eq!(asked.recv().unwrap(), GOOGLE);
            says.send(answer).unwrap();
            until_settled(&verification);
        };
        answer(Ok(true));
        assert!(verification.is_verified(GOOGLE, VERIFIED_FOR - 1) && asked.try_recv().is_err());

        // The next time the name server is away: what was known holds on.
        assert!(verification.is_verified(GOOGLE, VERIFIED_FOR));
        answer(Err(ErrorKind::TimedOut));
        let later = VERIFIED_FOR + UNKNOWN_FOR;
        assert!(verification.is_verified(GOOGLE, later - 1) && verification.is_verified(GOOGLE, later));
        answer(Ok(false));
        assert!(!verification.is_verified(GOOGLE, later + FALSE_FOR - 1) && asked.try_recv().is_err());
    }

    #[test]
    fn few_are_looked_up_at_a_time_and_memory_is_bounded() {
        let ((says, heard), (asks, asked)) = (mpsc::channel(), mpsc::channel());
        let names = Arc::new(Slow(Mutex::new(heard), Mutex::new(asks)));
        let verification = Verification::new(&["googlebot.com".into()], names);
        for number in 0..20u32 {
            assert!(!verification.is_verified(IpAddr::V4(number.into()), 0));
        }
        assert_eq!(verification.0.known.lock().under_way.len(), AT_ONCE);
        (0..AT_ONCE).for_each(|_| says.send(Ok(false)).unwrap());
        until_settled(&verification);
        assert_eq!(asked.try_iter().count(), AT_ONCE);
        for number in 0..10_000u32 {
            verification.0.settle(IpAddr::V4(number.into()), Ok(number % 2 == 0), 5);
        }
        let known = verification.0.known.lock().verdicts.len();
        assert!(known > MAX_KNOWN / 2 && known <= MAX_KNOWN, "{known}");
    }
}
