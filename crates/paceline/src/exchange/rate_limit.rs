//! How often one client may ask for a path: token buckets, one for each client and rule (RFC 6585 section 4).
//! Pure: the time is an argument. It never answers, and asks nobody; what other servers count comes in by `correct`.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use parking_lot::Mutex;
use path_patterns::{Areas, Paths, Readings};

use crate::support::admission;

/// Buckets that are remembered. One that has filled up again need not be; when there are too many others, some are
/// forgotten: a client then has a full bucket too early, and memory stays bounded.
const BUCKETS: usize = 50_000;

/// A `[[rate_limit]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// How the paths begin that it is for, with `*` for anything. As everywhere `/a/*` has `/a`, too.
    pub path: String,
    /// The time in which one token comes back.
    pub each: Duration,
    /// How many requests may come at once.
    pub burst: u32,
}

/// Why a rule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("must be a path, a rate and a burst like \"/login 5/s 10\", not {0:?}")]
    Form(String),
    #[error("must have a rate like \"5/s\", \"100/m\" or \"1000/h\", not {0:?}")]
    Rate(String),
    #[error("must have a burst from 1 to 1000000, not {0:?}")]
    Burst(String),
}

impl Rule {
    /// The time in which an empty bucket is full again.
    pub fn at_once(&self) -> Duration {
        self.each * self.burst
    }

    /// `/login 5/s 10`: path, rate, and burst if it is another number than the rate's.
    pub fn parse(text: &str) -> Result<Rule, RuleError> {
        let mut words = text.split_ascii_whitespace();
        let (path, rate, burst) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next());
        if !path.starts_with('/') || words.next().is_some() {
            return Err(RuleError::Form(text.to_owned()));
        }
        let wrong = || RuleError::Rate(rate.to_owned());
        let (count, unit) = rate.split_once('/').ok_or_else(wrong)?;
        let seconds = match unit {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3600,
            _ => return Err(wrong()),
        };
        let count: u32 = count.parse().ok().filter(|count| (1..=1_000_000).contains(count)).ok_or_else(wrong)?;
        let wrong = || RuleError::Burst(burst.unwrap_or("").to_owned());
        let burst = burst.map(|burst| burst.parse().ok().filter(|burst| (1..=1_000_000).contains(burst)));
        let burst = burst.map_or(Some(count), |burst| burst).ok_or_else(wrong)?;
        Ok(Rule { path: path.into(), each: Duration::from_secs(seconds) / count, burst })
    }
}

/// The bucket of a client and a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bucket {
    rule: usize,
    client: Option<IpAddr>,
}

/// The rules of a site and their buckets.
#[derive(Debug)]
pub struct RateLimits {
    rules: Vec<Rule>,
    /// Their paths: a limit counts each reading of a path.
    areas: Areas,
    /// When each bucket will be full again.
    full_at: Mutex<HashMap<Bucket, Duration>>,
}

impl RateLimits {
    pub fn new(rules: Vec<Rule>) -> RateLimits {
        let begins = |rule: &Rule| if rule.path.ends_with('*') { rule.path.clone() } else { format!("{}*", rule.path) };
        let patterns: Vec<[String; 1]> = rules.iter().map(|rule| [begins(rule)]).collect();
        let areas = Areas::new(patterns.iter().map(|paths| Paths { paths, except: &[] }));
        RateLimits { rules, areas, full_at: Mutex::default() }
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Takes a token for each rule that the path falls under. Err: none is left; so long until there is one. `now` is
    /// the time since any fixed moment. All clients without an address (on a Unix socket, with no proxy's word)
    /// share their buckets.
    pub fn admit(&self, address: Option<IpAddr>, path: &str, now: Duration) -> Result<(), Duration> {
        if self.rules.is_empty() {
            return Ok(());
        }
        self.take(address, path, now).map(drop)
    }

    /// As `admit`. Ok: the buckets that a token was taken from.
    pub fn take(&self, address: Option<IpAddr>, path: &str, now: Duration) -> Result<Vec<Bucket>, Duration> {
        let (covering, client) = (self.areas.of(&Readings::of(path)), address.map(admission::client));
        let mut full_at = self.full_at.lock();
        let mut taken = Vec::new();
        for (number, rule) in covering.into_iter().map(|number| (number, &self.rules[number])) {
            let bucket = Bucket { rule: number, client };
            let next = full_at.get(&bucket).copied().unwrap_or_default().max(now) + rule.each;
            if next > now + rule.at_once() {
                return Err(next - now - rule.at_once());
            }
            taken.push((bucket, next));
        }
        if full_at.len() + taken.len() > BUCKETS {
            full_at.retain(|_, full_at| *full_at > now);
            let surplus = (full_at.len() + taken.len()).saturating_sub(BUCKETS * 9 / 10);
            let some: Vec<_> = full_at.keys().take(surplus).copied().collect();
            for key in &some {
                full_at.remove(key);
            }
        }
        let buckets = taken.iter().map(|(bucket, _)| *bucket).collect();
        full_at.extend(taken);
        Ok(buckets)
    }

    /// The rule of a bucket, and a name that the bucket has on all servers with this rule.
    pub fn named(&self, bucket: Bucket) -> Option<(&Rule, String)> {
        let rule = self.rules.get(bucket.rule)?;
        let client = bucket.client.map_or_else(|| "-".to_owned(), |client| client.to_string());
        Some((rule, format!("{} {}us {} {client}", rule.path, rule.each.as_micros(), rule.burst)))
    }

    /// All servers together have taken so much from a bucket that it is full again at `full_at`. Until they say otherwise
    /// that is what is in it here.
    pub fn correct(&self, bucket: Bucket, full_at: Duration) {
        if let Some(known) = self.full_at.lock().get_mut(&bucket) {
            *known = full_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn limits(rules: &[&str]) -> RateLimits {
        RateLimits::new(rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect())
    }

    fn at(millis: u64) -> Duration {
        Duration::from_secs(1000) + Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_is_let_in_and_then_as_many_as_the_rate_says() {
        let limits = limits(&["/login 5/s 3"]);
        for _ in 0..3 {
            assert_eq!(limits.admit(Some(A), "/login", at(0)), Ok(()));
        }
        assert_eq!(limits.admit(Some(A), "/login", at(0)), Err(Duration::from_millis(200)));
        // Being refused costs nothing.
        assert_eq!(limits.admit(Some(A), "/login", at(150)), Err(Duration::from_millis(50)));
        assert_eq!(limits.admit(Some(A), "/login", at(200)), Ok(()));
        assert!(limits.admit(Some(A), "/login", at(200)).is_err());
        assert_eq!(limits.admit(Some(B), "/login", at(200)), Ok(()), "another client has its own");
        assert_eq!(limits.admit(Some(A), "/", at(200)), Ok(()), "another path has none");
        for _ in 0..3 {
            assert_eq!(limits.admit(Some(A), "/login", at(5000)), Ok(()));
        }
        assert!(limits.admit(Some(A), "/login", at(5000)).is_err());
    }

    #[test]
    fn what_all_servers_have_taken_counts() {
        let limits = limits(&["/ 100/s", "/login 5/s 3"]);
        let buckets = limits.take(Some(A), "/login", at(0)).unwrap();
        let names: Vec<_> = buckets.iter().filter_map(|bucket| Some(limits.named(*bucket)?.1)).collect();
        assert_eq!(names, ["/ 10000us 100 192.0.2.1", "/login 200000us 3 192.0.2.1"]);
        // Others have emptied it.
        limits.correct(buckets[1], at(600));
        assert_eq!(limits.admit(Some(A), "/login", at(100)), Err(Duration::from_millis(100)));
        assert_eq!(limits.admit(Some(A), "/login", at(200)), Ok(()));
        // They have taken less than was thought here.
        limits.correct(buckets[1], at(0));
        for _ in 0..3 {
            assert_eq!(limits.admit(Some(A), "/login", at(200)), Ok(()));
        }
        assert!(limits.admit(Some(A), "/login", at(200)).is_err());
        assert_eq!(limits.take(Some(A), "/login", at(200)), Err(Duration::from_millis(200)));
    }

    #[test]
    fn a_bucket_that_is_forgotten_stays_so() {
        let limits = limits(&["/ 1/h"]);
        limits.correct(Bucket { rule: 0, client: Some(A) }, at(60_000));
        assert!(limits.full_at.lock().is_empty());
    }

    #[test]
    fn clients_without_an_address_share_a_bucket() {
        let limits = limits(&["/ 1/h"]);
        assert_eq!(limits.admit(None, "/", at(0)), Ok(()));
        assert!(limits.admit(None, "/", at(0)).is_err());
        assert_eq!(limits.admit(Some(A), "/", at(0)), Ok(()));
    }

    #[test]
    fn other_spellings_are_the_same_path() {
        for path in [
            "/login",
            "/login.json",
            "/login/",
            "/%6cogin",
            "//login",
            "/%2Flogin",
            "/login?x",
            "/x/../login",
            "/./login",
            "/\\login",
            "/x%2f..%2flogin",
            "/x/%2e%2e/login",
            "/%256cogin",
            "/x;a/../login",
            "/LOGIN",
        ] {
            let limits = limits(&["/login 1/h"]);
            assert_eq!(limits.admit(Some(A), path, at(0)), Ok(()));
            assert!(limits.admit(Some(A), path, at(0)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, counted, other) in [
            ("/login/*", &["/login", "/login/", "/login/new", "/login.json"][..], "/logins"),
            ("/users/*/password", &["/users/1/password", "/users/1/password/edit"], "/users/1"),
        ] {
            for path in counted {
                let limits = limits(&[&format!("{pattern} 1/h")]);
                assert_eq!(limits.admit(Some(A), path, at(0)), Ok(()));
                assert!(limits.admit(Some(A), path, at(0)).is_err(), "{pattern} {path}");
                assert_eq!(limits.admit(Some(A), other, at(0)), Ok(()), "{pattern} {other}");
            }
        }
    }

    #[test]
    fn all_rules_of_a_path_count() {
        let limits = limits(&["/ 100/s", "/login 1/m"]);
        assert_eq!(limits.admit(Some(A), "/login", at(0)), Ok(()));
        assert_eq!(limits.admit(Some(A), "/login", at(0)), Err(Duration::from_secs(60)));
        assert_eq!((0..200).filter(|_| limits.admit(Some(A), "/x", at(0)).is_ok()).count(), 99);
    }

    #[test]
    fn memory_is_bounded_whatever_the_number_of_clients() {
        let limits = limits(&["/ 1/h"]);
        for client in 0..120_000u32 {
            assert_eq!(limits.admit(Some(IpAddr::V4(client.into())), "/", at(client.into())), Ok(()));
        }
        assert!(limits.full_at.lock().len() <= BUCKETS);
    }

    #[test]
    fn rules() {
        let rule = Rule::parse("/login 120/m 10").unwrap();
        assert_eq!(rule, Rule { path: "/login".into(), each: Duration::from_millis(500), burst: 10 });
        assert_eq!(Rule::parse("/ 5/s").unwrap().burst, 5);
        for bad in ["", "login 5/s", "/login", "/login 5", "/login 0/s", "/login 5/x", "/login 5/s 0", "/login 5/s 1 2"]
        {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
    }
}
