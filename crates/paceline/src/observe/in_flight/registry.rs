//! Where the exchanges that are under way are found. Each thread enters its own in a list of its own, so that none
//! waits for another. It never lists what nobody holds.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use super::entry::{About, Entry, Listed};
use crate::support::sharded::{here, STRIPES};

/// Where an entry stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    list: usize,
    slot: usize,
}

#[derive(Debug)]
#[repr(align(128))]
struct List {
    slots: Vec<Weak<Entry>>,
    free: Vec<usize>,
    entered: u64,
}

/// The exchanges that are under way.
#[derive(Debug)]
pub struct Registry {
    lists: [Mutex<List>; STRIPES],
}

impl Registry {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Registry {
        let lists = [const { Mutex::new(List { slots: Vec::new(), free: Vec::new(), entered: 0 }) }; STRIPES];
        Registry { lists }
    }

    fn list(&self, list: usize) -> MutexGuard<'_, List> {
        self.lists[list].lock()
    }

    /// Lists an exchange until all that this returns is dropped.
    pub fn enter(&'static self, about: About) -> Listed {
        let at = here();
        let mut list = self.list(at);
        let number = list.entered * STRIPES as u64 + at as u64 + 1;
        list.entered += 1;
        let slot = list.free.pop().unwrap_or_else(|| {
            list.slots.push(Weak::new());
            list.slots.len() - 1
        });
        let entry = Arc::new(Entry::new(about, number, Place { list: at, slot }, self));
        list.slots[slot] = Arc::downgrade(&entry);
        Listed::new(entry)
    }

    pub(super) fn remove(&self, Place { list, slot }: Place) {
        let mut list = self.list(list);
        list.slots[slot] = Weak::new();
        list.free.push(slot);
        // After a crowd its room is given back.
        if list.free.len() == list.slots.len() && list.slots.len() > 1024 {
            (list.slots, list.free) = (Vec::new(), Vec::new());
        }
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        // What is held here may turn out to be the last hold, and its end needs the list: so it is dropped without the
        // lock.
        let mut all: Vec<_> = (0..STRIPES)
            .flat_map(|list| self.list(list).slots.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
            .collect();
        all.sort_by_key(|entry| (entry.since, entry.number));
        all
    }

    pub fn find(&self, number: u64) -> Option<Arc<Entry>> {
        self.all().into_iter().find(|entry| entry.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::in_flight::{Client, Step};
    use http::{Method, Uri};
    use std::{hint::black_box, time::Instant};

    fn about(path: &'static str, since: u64) -> About {
        let uri = Uri::from_static(path);
        About { id: "id-1".into(), site: None, method: Method::GET, uri, client: None, since }
    }

    fn registry() -> &'static Registry {
        Box::leak(Box::new(Registry::new()))
    }

    #[test]
    fn listed_until_nobody_works_on_it() {
        let registry = registry();
        let listed = registry.enter(about("/slow", 20));
        let older = std::thread::spawn(|| registry.enter(about("/older", 10))).join().unwrap();
        let paths = || registry.all().iter().map(|entry| entry.uri.path().to_owned()).collect::<Vec<_>>();
        assert_eq!(paths(), ["/older", "/slow"]);
        drop(older);
        assert_eq!(paths(), ["/slow"]);

        listed.step(Step::Queued, 20);
        let held = listed.hold(7, 3, 30);
        listed.left(Client::Gone, 40);
        drop(listed);
        let entry = registry.all().remove(0);
        assert_eq!((entry.step(), entry.held(), entry.client_is()), ((Step::App, 30), Some((7, 3)), Client::Gone));
        assert_eq!(registry.find(entry.number).unwrap().id, "id-1");
        drop(held);
        assert_eq!(entry.held(), None);
        drop(entry);
        assert!(paths().is_empty());
    }

    #[test]
    fn places_are_used_again_and_numbers_are_not() {
        let registry = registry();
        let first = registry.enter(about("/", 1));
        let number = registry.all()[0].number;
        drop(first);
        let _second = registry.enter(about("/", 1));
        assert!(registry.all()[0].number > number);
        assert_eq!(registry.list(here()).slots.len(), 1);
        assert!(registry.find(number).is_none());
    }

    #[test]
    fn one_that_is_not_listed_takes_marks_without_a_word() {
        let listed = Listed::default();
        listed.step(Step::Queued, 1);
        drop(listed.hold(1, 1, 1));
        listed.left(Client::Answered, 1);
        assert!(!listed.is_listed());
    }

    /// `cargo test -p paceline --release --lib live::registry::tests::cost -- --ignored --nocapture`
    #[test]
    #[ignore = "prints a figure"]
    fn cost() {
        const TIMES: u32 = 2_000_000;
        let registry = registry();
        let id = uuid::Uuid::new_v4().to_string();
        let begin = Instant::now();
        for n in 0..u64::from(TIMES) {
            let listed = registry.enter(About { id: id.clone(), ..about("/orders/1", n) });
            listed.step(Step::ReadingBody, n);
            listed.step(Step::Queued, n);
            drop(black_box(listed.hold(1, 1, n)));
            listed.step(Step::Sending, n);
            drop(black_box(listed));
        }
        println!("{:.1} ns for an exchange to be listed", begin.elapsed().as_nanos() as f64 / f64::from(TIMES));
    }
}
