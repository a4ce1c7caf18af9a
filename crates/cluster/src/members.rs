//! The fronts of a cluster: what each says of itself, and which of them have confirmed a purge.
//! It never asks them.

use std::collections::HashMap;

use serde_json::{json, Value};

use crate::{Millis, RestartProgress, Status};

/// What a front says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Member {
    /// A new one for each start of a server.
    pub id: String,
    /// The machine's name.
    pub host: String,
    pub pid: u64,
    pub version: String,
    /// The last entry that it has applied.
    pub applied: u64,
    /// Purges that it could not send yet.
    pub unsent: u64,
    /// It has left, and shows nothing any more.
    pub has_left: bool,
    /// The number of what is closed on all fronts that it has applied. None: its version knows nothing of that.
    pub closed: Option<u64>,
    /// How it is doing. None: its version does not say.
    pub status: Option<Status>,
    /// The last order to restart that it was given.
    pub restart: Option<RestartProgress>,
}

impl Member {
    pub fn to_json(&self) -> String {
        let Member { id, host, pid, version, applied, unsent, has_left, closed, status, restart } = self;
        json!({
            "id": id, "host": host, "pid": pid, "version": version, "applied": applied, "unsent": unsent, "left": has_left,
            "closed": closed, "status": status.as_ref().map(Status::to_json),
            "restart": restart.as_ref().map(RestartProgress::to_json),
        })
        .to_string()
    }

    /// One of any version; what it does not say is empty.
    pub fn from_json(text: &str) -> Option<Member> {
        let said: Value = serde_json::from_str(text).ok()?;
        let text = |key: &str| said[key].as_str().unwrap_or("").to_owned();
        let number = |key: &str| said[key].as_u64().unwrap_or(0);
        Some(Member {
            id: said["id"].as_str()?.to_owned(),
            host: text("host"),
            pid: number("pid"),
            version: text("version"),
            applied: said["applied"].as_u64()?,
            unsent: number("unsent"),
            has_left: said["left"].as_bool().unwrap_or(false),
            closed: said["closed"].as_u64(),
            status: Status::from_json(&said["status"]),
            restart: RestartProgress::from_json(&said["restart"]),
        })
    }

    /// As people are told of it.
    pub fn shown(&self) -> String {
        format!("{} (pid {})", self.host, self.pid)
    }
}

/// A member as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    pub member: Member,
    /// How long its key still lives; 0: it is silent.
    pub left: Millis,
    /// When it said something last, before now.
    pub silent: Millis,
}

impl Sighting {
    /// It has said nothing for longer than it may, and has not left.
    pub fn is_silent(&self) -> bool {
        self.left == 0 && !self.member.has_left
    }
}

/// The outcome of a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All other fronts that could be reached have applied it.
    Confirmed {
        /// How many those are.
        fronts: usize,
        /// Those that fell silent instead: they ask the application before they show anything.
        silent: Vec<String>,
    },
    /// It is in the journal, but who has applied it is not known: why.
    Unconfirmed(String),
    /// It is not in the journal yet: why. It is sent as soon as that is possible.
    Unsent(String),
}

/// The other fronts, as far as they may show pages.
#[derive(Debug, Default)]
pub struct Roll {
    seen: HashMap<String, LastCall>,
}

#[derive(Debug)]
struct LastCall {
    member: Member,
    /// From then on it shows nothing without asking the application.
    until: Millis,
}

impl Roll {
    /// All members as they were seen at `now`. One that is missing may still have its lease: its key may have been lost
    /// together with the journal.
    pub fn called(&mut self, sightings: &[Sighting], me: &str, now: Millis) {
        for Sighting { member, left, .. } in sightings.iter().filter(|seen| seen.member.id != me) {
            let known = self.seen.entry(member.id.clone());
            let seen = known.or_insert_with(|| LastCall { member: member.clone(), until: 0 });
            seen.member = member.clone();
            seen.until = if member.has_left { 0 } else { seen.until.max(now + left) };
        }
    }

    /// The connection is a new one, so perhaps the members are lost together with the journal, and entries have numbers that
    /// they had before. All who were known may show pages until then, and have confirmed nothing until they say so again.
    pub fn start_again(&mut self, until: Millis) {
        for seen in self.seen.values_mut().filter(|seen| !seen.member.has_left) {
            seen.until = seen.until.max(until);
            seen.member.applied = 0;
        }
    }

    /// Who has not confirmed this entry, and may still show pages.
    pub fn is_waiting(&self, number: u64, now: Millis) -> bool {
        self.seen.values().any(|seen| seen.until > now && seen.member.applied < number)
    }

    /// The outcome for the entry, when nobody is waited for. `since`: who has fallen silent before that is no news.
    pub fn outcome(&self, number: u64, since: Millis, now: Millis) -> Outcome {
        let has_applied = |seen: &&LastCall| seen.until > now && seen.member.applied >= number;
        let fell_silent = |seen: &&LastCall| {
            seen.until > since && seen.until <= now && seen.member.applied < number && !seen.member.has_left
        };
        let mut silent: Vec<_> = self.seen.values().filter(fell_silent).map(|seen| seen.member.shown()).collect();
        silent.sort();
        Outcome::Confirmed { fronts: self.seen.values().filter(has_applied).count(), silent }
    }

    /// Forgets those who fell silent before `then`.
    pub fn forget(&mut self, then: Millis) {
        self.seen.retain(|_, seen| seen.until > then);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RestartState;

    fn sighting(id: &str, applied: u64, left: Millis) -> Sighting {
        let member = Member { id: id.into(), host: format!("host-{id}"), pid: 7, applied, ..Member::default() };
        Sighting { member, left, silent: 0 }
    }

    fn confirmed(fronts: usize, silent: &[&str]) -> Outcome {
        Outcome::Confirmed { fronts, silent: silent.iter().map(|name| name.to_string()).collect() }
    }

    #[test]
    fn a_member_is_read_as_it_was_written() {
        let member = Member {
            id: "a".into(),
            host: "web \"1\"".into(),
            pid: 12,
            version: "0.1.0".into(),
            applied: 57,
            unsent: 2,
            has_left: true,
            closed: Some(3),
            status: Some(Status { workers: 4, ..Status::default() }),
            restart: Some(RestartProgress::new("a-1", RestartState::Watching, "it serves")),
        };
        assert_eq!(Member::from_json(&member.to_json()), Some(member));
        assert_eq!(Member::from_json(r#"{"id": "a", "applied": 1, "new": 2}"#).map(|member| member.applied), Some(1));
        for text in ["", "{}", "[]", r#"{"id": "a"}"#, r#"{"applied": 1}"#] {
            assert_eq!(Member::from_json(text), None, "{text}");
        }
    }

    #[test]
    fn a_purge_is_confirmed_by_all_who_may_show_pages() {
        let mut roll = Roll::default();
        assert!(!roll.is_waiting(5, 0));
        assert_eq!(roll.outcome(5, 0, 0), confirmed(0, &[]));
        roll.called(&[sighting("me", 1, 1000), sighting("a", 5, 1000), sighting("b", 4, 1000)], "me", 100);
        assert!(roll.is_waiting(5, 100) && !roll.is_waiting(4, 100));
        roll.called(&[sighting("a", 5, 1000), sighting("b", 6, 1000)], "me", 200);
        assert!(!roll.is_waiting(5, 200));
        assert_eq!(roll.outcome(5, 100, 200), confirmed(2, &[]));
    }

    #[test]
    fn who_was_known_before_the_journal_was_lost_is_waited_for() {
        let mut roll = Roll::default();
        roll.called(&[sighting("a", 500, 100), sighting("b", 500, 100), sighting("c", 500, 100)], "me", 0);
        let gone = Member { has_left: true, ..sighting("c", 500, 100).member };
        roll.called(&[Sighting { member: gone, left: 100, silent: 0 }], "me", 10);
        roll.start_again(2000);
        assert!(roll.is_waiting(1, 1000), "their old numbers count no more");
        roll.called(&[sighting("a", 1, 1500)], "me", 1000);
        assert!(roll.is_waiting(1, 1999));
        assert!(!roll.is_waiting(1, 2000));
        assert_eq!(roll.outcome(1, 900, 2000), confirmed(1, &["host-b (pid 7)"]));
        roll.called(&[sighting("a", 1, 2000), sighting("b", 2, 2000)], "me", 1500);
        assert_eq!((roll.is_waiting(1, 1500), roll.outcome(1, 900, 1500)), (false, confirmed(2, &[])));
    }

    #[test]
    fn who_falls_silent_is_waited_for_until_it_shows_nothing() {
        let mut roll = Roll::default();
        roll.called(&[sighting("a", 5, 1000), sighting("b", 4, 1000)], "me", 100);
        // Its key is lost, perhaps not by its silence.
        roll.called(&[sighting("a", 5, 1000)], "me", 200);
        roll.called(&[sighting("a", 5, 1000), sighting("b", 4, 0)], "me", 300);
        assert!(roll.is_waiting(5, 1099) && !roll.is_waiting(5, 1100));
        assert_eq!(roll.outcome(5, 100, 1100), confirmed(1, &["host-b (pid 7)"]));
        assert_eq!(roll.outcome(6, 1100, 1100), confirmed(0, &[]), "the next purge has nothing to say of it");
        roll.forget(1100);
        assert_eq!(roll.seen.len(), 1);
    }

    #[test]
    fn who_leaves_is_not_waited_for() {
        let mut roll = Roll::default();
        roll.called(&[sighting("a", 4, 1000)], "me", 100);
        let mut left = sighting("a", 4, 900);
        left.member.has_left = true;
        roll.called(&[left], "me", 200);
        assert!(!roll.is_waiting(5, 200));
        assert_eq!(roll.outcome(5, 100, 200), confirmed(0, &[]));
    }
}
