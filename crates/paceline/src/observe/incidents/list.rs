//! The incidents in memory: the newest so many, and requests that were lost a moment before their worker's incident is
//! known. It never asks the clock: every time is handed in.

use std::collections::VecDeque;

use super::{incident::InHand, Incident, Kind};

/// Incidents that are held.
pub const MAX: usize = 50;
/// Requests that were lost and whose worker nothing is known of yet.
const MAX_LOST: usize = 256;
/// Seconds within which what is told of a worker belongs to its last incident, and a lost request to the next one.
const BELONGS: f64 = 60.0;

struct LostRequests {
    at: f64,
    site: String,
    worker: u64,
    request: InHand,
}

#[derive(Default)]
pub struct List {
    /// The oldest first.
    held: VecDeque<Incident>,
    lost: VecDeque<LostRequests>,
    count: u64,
}

impl List {
    /// `kept`: those of before, the oldest first.
    pub fn new(kept: Vec<Incident>) -> List {
        let mut list = List { held: kept.into(), ..List::default() };
        list.bound();
        list
    }

    fn bound(&mut self) {
        while self.held.len() > MAX {
            self.held.pop_front();
        }
        while self.lost.len() > MAX_LOST {
            self.lost.pop_front();
        }
    }

    pub fn add(&mut self, mut incident: Incident) -> String {
        self.count += 1;
        let starts = |kind| matches!(kind, Kind::StartFailed | Kind::RestartFailed);
        let again = |known: &&mut Incident| known.id == incident.id && starts(known.kind) && starts(incident.kind);
        if let Some(known) = self.held.iter_mut().find(again) {
            known.times += 1;
            known.last = incident.at;
            return known.id.clone();
        }
        let workers = incident.process.as_ref().map_or_else(Vec::new, |process| process.workers.clone());
        if !workers.is_empty() {
            let (own, others) = std::mem::take(&mut self.lost).into_iter().partition(|lost: &LostRequests| {
                workers.contains(&lost.worker) && lost.site == incident.site && incident.at - lost.at < BELONGS
            });
            self.lost = others;
            let own: VecDeque<LostRequests> = own;
            own.into_iter().for_each(|lost| incident.request(lost.request));
        }
        let id = incident.id.clone();
        self.held.push_back(incident);
        self.bound();
        id
    }

    pub fn change(&mut self, id: &str, change: impl FnOnce(&mut Incident)) -> bool {
        self.held.iter_mut().rev().find(|known| known.id == id).map(change).is_some()
    }

    /// The last incident of a worker, if it is young, is changed. Gives its number.
    pub fn change_of(
        &mut self,
        site: &str,
        worker: u64,
        now: f64,
        change: impl FnOnce(&mut Incident),
    ) -> Option<String> {
        let of_worker = |known: &&mut Incident| {
            let same = known.process.as_ref().is_some_and(|process| process.workers.contains(&worker));
            same && known.site == site && now - known.last < BELONGS
        };
        let known = self.held.iter_mut().rev().find(of_worker)?;
        change(known);
        Some(known.id.clone())
    }

    /// A request was lost: it belongs to its worker's incident, or to the one that will be known in a moment.
    pub fn lost(&mut self, site: &str, worker: u64, request: InHand, now: f64) -> Option<String> {
        let mut kept = Some(request);
        let known = self.change_of(site, worker, now, |incident| {
            kept.take().into_iter().for_each(|request| incident.request(request))
        });
        if let Some(request) = kept {
            self.lost.push_back(LostRequests { at: now, site: site.into(), worker, request });
            self.bound();
        }
        known
    }

    /// The newest first.
    pub fn all(&self) -> Vec<Incident> {
        self.held.iter().rev().cloned().collect()
    }

    pub fn get(&self, id: &str) -> Option<Incident> {
        self.held.iter().rev().find(|known| known.id == id).cloned()
    }

    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::incidents::Process;

    fn died(worker: u64, at: f64) -> Incident {
        Incident::new(Kind::WorkerDied, "shop", "it died", at)
            .of(Process { workers: vec![worker], ..Process::default() })
    }

    fn request(id: &str) -> InHand {
        InHand { id: id.into(), ..InHand::default() }
    }

    #[test]
    fn a_lost_request_belongs_to_its_workers_incident_whichever_is_known_first() {
        let mut list = List::default();
        assert_eq!(list.lost("shop", 1, request("early"), 9.9), None);
        list.lost("shop", 2, request("another"), 9.9);
        list.lost("blog", 1, request("elsewhere"), 9.9);
        list.lost("shop", 1, request("long ago"), -100.0);
        let id = list.add(died(1, 10.0));
        assert_eq!(list.lost("shop", 1, request("late"), 10.1), Some(id.clone()));
        let ids: Vec<_> = list.get(&id).unwrap().requests.into_iter().map(|request| request.id).collect();
        assert_eq!(ids, ["early", "late"]);
        assert_eq!(list.lost("shop", 1, request("much later"), 1000.0), None);
    }

    #[test]
    fn it_holds_the_newest_and_counts_all() {
        let mut list = List::new((0..60).map(|n| died(n, n as f64)).collect());
        for n in 60..100 {
            list.add(died(n, n as f64));
        }
        let all = list.all();
        assert_eq!((all.len(), all[0].at, all[49].at, list.count()), (MAX, 99.0, 50.0, 40));
        for n in 0..1000 {
            list.lost("shop", 1 << 40, request(&n.to_string()), 0.0);
        }
        assert_eq!(list.lost.len(), MAX_LOST);
    }

    #[test]
    fn a_start_that_fails_as_before_is_counted() {
        let mut list = List::default();
        let failed = |at| Incident::new(Kind::StartFailed, "shop", "no", at).with_report("1a2b3c4d", "why".into());
        list.add(failed(1.0));
        assert_eq!(list.add(failed(5.0)), "1a2b3c4d");
        let all = list.all();
        assert_eq!((all.len(), all[0].times, all[0].at, all[0].last), (1, 2, 1.0, 5.0));
    }
}
