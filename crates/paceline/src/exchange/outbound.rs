//! A request's outbound calls, as its worker has counted them: for the log, and a sentence about connections that it opened by itself,
//! once for each route and upstream. It never makes a call, and never says anything of connections that were reused.

use std::collections::HashSet;

use parking_lot::Mutex;
use serde_json::Value;
use units::grouped;

use crate::{exchange::Counters, observe::log::Name, support::clock::Micros};

/// Calls of the request, and how long they took.
pub const CALLS: &str = "outbound";
/// Connections that were opened for them.
const OPENED: &str = "outbound_new";
/// Connections by upstream, where the application opened them by itself: `connect:tls:HOST` or `connect:tcp:HOST`.
const OWN: &str = "connect:";
/// As many to one upstream in one request are worth a word.
const WORTH_SAYING: u32 = 3;
/// Routes that are remembered; of more nothing is said.
const MAX: usize = 1000;

/// The calls of a request.
pub struct Calls {
    count: u32,
    opened: u32,
    time: Micros,
}

impl Calls {
    /// None: there were none.
    pub fn of(counters: &Counters) -> Option<Calls> {
        let named = |wanted: &str| counters.spans.iter().find(|(name, ..)| name == wanted);
        let (_, time, count) = named(CALLS)?;
        Some(Calls { count: *count, opened: named(OPENED).map_or(0, |(.., count)| *count), time: *time })
    }

    /// Whether they have the span of this name.
    pub fn have(name: &str) -> bool {
        name == CALLS || name == OPENED || name.starts_with(OWN)
    }

    pub fn text(&self) -> String {
        let Calls { count, opened, time } = self;
        format!(" outbound={count} new_conn={opened} outbound_ms={:.0}", *time as f64 / 1000.0)
    }

    pub fn fields(&self) -> [(String, Value); 3] {
        let time = self.time as f64 / 1000.0;
        [("outbound", self.count.into()), ("new_conn", self.opened.into()), ("outbound_ms", time.into())]
            .map(|(name, value)| (name.to_owned(), value))
    }
}

/// What has been said.
#[derive(Default)]
pub struct Advice {
    said: Mutex<HashSet<(String, String)>>,
}

impl Advice {
    /// The sentence for a request that opened several connections to one upstream, if it has not been said of its
    /// route. `total`: of the request, microseconds.
    pub fn of(&self, counters: &Counters, total: u64, route: impl FnOnce() -> String) -> Option<(Name, String)> {
        let own = |(name, time, count): &(String, u64, u32)| {
            let (kind, host) = name.strip_prefix(OWN)?.split_once(':')?;
            (*count >= WORTH_SAYING).then(|| (kind.to_owned(), host.to_owned(), *time, *count))
        };
        let (kind, host, time, count) = counters.spans.iter().filter_map(own).max_by_key(|one| one.3)?;
        let route = route();
        let mut said = self.said.lock();
        if said.len() >= MAX || !said.insert((route.clone(), host.clone())) {
            return None;
        }
        let kind = if kind == "tls" { "TLS " } else { "" };
        let said = format!(
            "{route} opened {count} {kind}connections to {host} ({} of {}); one line would reuse them: \
             `require \"paceline/http\"; Paceline::HTTP.install!` in an initializer (docs/outbound.md)",
            millis(time),
            millis(total)
        );
        Some((Name::Outbound, said))
    }
}

/// As `1,120 ms`.
fn millis(micros: u64) -> String {
    format!("{} ms", grouped(micros / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(spans: &[(&str, u64, u32)]) -> Counters {
        let spans = spans.iter().map(|(name, time, count)| (name.to_string(), *time, *count)).collect();
        Counters { spans, ..Counters::default() }
    }

    #[test]
    fn it_is_said_once_of_each_route_and_upstream() {
        let advice = Advice::default();
        let slow = counters(&[("connect:tls:api.example", 1_120_400, 15), ("connect:tcp:db", 1, 3), ("view", 1, 50)]);
        let (_, said) = advice.of(&slow, 1_600_000, || "GET /orders".into()).unwrap();
        assert!(
            said.starts_with("GET /orders opened 15 TLS connections to api.example (1,120 ms of 1,600 ms); one line"),
            "{said}"
        );
        assert_eq!(advice.of(&slow, 1_600_000, || "GET /orders".into()), None);
        assert!(advice.of(&slow, 1_600_000, || "GET /other".into()).is_some());
    }

    #[test]
    fn few_connections_are_nobodys_fault() {
        let advice = Advice::default();
        assert_eq!(advice.of(&counters(&[("connect:tls:api.example", 9, 2)]), 10, || "GET /".into()), None);
        assert_eq!(advice.of(&counters(&[("outbound", 9, 20)]), 10, || "GET /".into()), None);
        assert_eq!(advice.of(&counters(&[("connect:odd", 9, 20)]), 10, || "GET /".into()), None);
    }

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!([0, 999_999, 1_000_000, 1_234_567_000].map(millis), ["0 ms", "999 ms", "1,000 ms", "1,234,567 ms"]);
    }
}
