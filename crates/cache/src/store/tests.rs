//! The store as a whole: against a model, and within its budget.

mod threads;
mod traces;

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, Ordering::SeqCst},
        Weak,
    },
};

use fastrand::Rng;

use super::*;

struct Page {
    url: Arc<str>,
    tags: Vec<Arc<str>>,
    weight: usize,
    version: u64,
    stale: AtomicBool,
    /// Told when this is dropped while the ledger is locked.
    watch: Option<(Weak<Store<Page>>, Arc<AtomicBool>)>,
}

impl Object for Page {
    fn weight(&self) -> usize {
        self.weight
    }
    fn url(&self) -> &Arc<str> {
        &self.url
    }
    fn tags(&self) -> &[Arc<str>] {
        &self.tags
    }
    fn expire(&self) {
        self.stale.store(true, SeqCst);
    }
    fn counts(&self) -> bool {
        !self.url.ends_with('~')
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let Some((store, locked)) = &self.watch else { return };
        if store.upgrade().is_some_and(|store| store.ledger.is_locked()) {
            locked.store(true, SeqCst);
        }
    }
}

fn page(url: &str, tags: &[&str], weight: usize) -> Page {
    let tags = tags.iter().map(|tag| Arc::from(*tag)).collect();
    Page { url: url.into(), tags, weight, version: 0, stale: AtomicBool::new(false), watch: None }
}

fn put(store: &Store<Page>, key: u64, url: &str, tags: &[&str]) -> Arc<Page> {
    let object = Arc::new(page(url, tags, 300));
    assert_eq!(store.insert(self::key(key), object.clone()), Insertion::Stored);
    object
}

/// A number as a keyed hash would have it.
fn key(n: u64) -> Key {
    let mix = |n: u64| {
        let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        n ^ n >> 31
    };
    Key(u128::from(mix(n.wrapping_add(0x9E37_79B9_7F4A_7C15))) << 64 | u128::from(mix(n ^ 0xD1B5_4A32_D192_ED03)))
}

impl Store<Page> {
    fn check(&self) {
        self.ledger().check(&self.lookup);
    }
}

const MB: u64 = 1 << 20;

#[test]
fn finds_replaces_and_removes() {
    let store = Store::new(MB);
    assert!(store.get(key(1)).is_none());
    let first = put(&store, 1, "/a", &["x"]);
    assert!(Arc::ptr_eq(&store.get(key(1)).unwrap(), &first));
    let second = put(&store, 1, "/b", &["y"]);
    assert!(Arc::ptr_eq(&store.peek(key(1)).unwrap(), &second));
    assert_eq!(store.usage().objects, 1);
    store.check();
    assert_eq!(store.purge_url("/a", How::Drop) + store.purge_tag("x", How::Drop), 0, "the names went with it");
    assert!(!store.remove_if_same(key(1), &first));
    assert!(store.remove_if_same(key(1), &second));
    assert!(store.remove(key(1)).is_none());
    put(&store, 1, "/a", &[]);
    assert!(store.remove(key(1)).is_some());
    assert_eq!(store.usage().objects, 0);
    store.check();
}

#[test]
fn keys_that_share_half_their_bits_are_two() {
    let store = Store::new(MB);
    for high in 1..4 {
        let url = format!("/{high}");
        assert_eq!(store.insert(Key(high << 64 | 7), Arc::new(page(&url, &[], 300))), Insertion::Stored);
    }
    for high in 1..4 {
        assert_eq!(*store.get(Key(high << 64 | 7)).unwrap().url, format!("/{high}"));
    }
    assert_eq!(store.purge_url("/2", How::Drop), 1);
    assert!(store.get(Key(2 << 64 | 7)).is_none() && store.get(Key(1 << 64 | 7)).is_some());
    store.check();
}

#[test]
fn each_purge_drops_what_it_names_and_nothing_else() {
    type Purge = fn(&Store<Page>, How) -> usize;
    let table: [(&str, Purge, &[u64]); 8] = [
        ("url", |store, how| store.purge_url("h/a", how), &[1, 2]),
        ("an unknown url", |store, how| store.purge_url("h/", how), &[]),
        ("tag", |store, how| store.purge_tag("x", how), &[1, 3, 4]),
        ("an unknown tag", |store, how| store.purge_tag("", how), &[]),
        ("prefix", |store, how| store.purge_prefix("h/a", how), &[1, 2, 3, 5]),
        ("an unknown prefix", |store, how| store.purge_prefix("h/c", how), &[]),
        ("empty prefix", |store, how| store.purge_prefix("", how), &[1, 2, 3, 4, 5]),
        ("all", |store, how| store.purge_all(how), &[1, 2, 3, 4, 5]),
    ];
    for (name, purge, meant) in table {
        for how in [How::Drop, How::Expire] {
            let store = Store::new(MB);
            put(&store, 1, "h/a", &["x", "y"]);
            put(&store, 2, "h/a", &["y"]);
            put(&store, 3, "h/a/b", &["x", "x"]);
            put(&store, 4, "h/b", &["x"]);
            put(&store, 5, "h/a?q", &[]);
            assert_eq!(purge(&store, how), meant.len(), "{name} {how:?}");
            assert_eq!(store.usage().purged, meant.len() as u64);
            for n in 1..=5 {
                let found = store.peek(key(n));
                let purged = match how {
                    How::Drop => found.is_none(),
                    How::Expire => found.unwrap().stale.load(SeqCst),
                };
                assert_eq!(purged, meant.contains(&n), "{name} {how:?} {n}");
            }
            store.check();
        }
    }
}

#[test]
fn what_does_not_count_goes_uncounted() {
    for how in [How::Drop, How::Expire] {
        for purge in [|store: &Store<Page>, how| store.purge_prefix("h/", how), Store::purge_all] {
            let store = Store::new(MB);
            for (n, url) in (1..).zip(["h/a", "h/b", "h/a~"]) {
                put(&store, n, url, &[]);
            }
            assert_eq!((purge(&store, how), store.usage().purged), (2, 3), "{how:?}");
            assert_eq!(store.usage().objects, if how == How::Drop { 0 } else { 3 });
        }
    }
}

#[test]
fn a_purge_of_many_takes_several_slices() {
    let store = Store::new(64 * MB);
    for n in 0..1000 {
        put(&store, n, if n % 2 == 0 { "/even" } else { "/odd" }, &["all"]);
    }
    assert_eq!(store.purge_tag("all", How::Expire), 1000);
    assert_eq!(store.purge_url("/odd", How::Drop), 500);
    assert_eq!(store.purge_tag("all", How::Drop), 500);
    assert_eq!(store.usage().objects, 0);
    store.check();
}

#[test]
fn what_was_asked_for_before_its_purge_is_not_stored() {
    let store = Store::new(MB);
    let old = put(&store, 1, "/a", &["x"]);
    let insert = |n, url, tag, moment| store.insert_since(key(n), Arc::new(page(url, &[tag], 300)), moment);
    let before = store.moment();
    store.purge_tag("x", How::Expire);
    assert_eq!(insert(1, "/a", "x", before), Insertion::Purged);
    assert!(Arc::ptr_eq(&store.peek(key(1)).unwrap(), &old), "what is there stays");
    assert_eq!(insert(2, "/b", "y", before), Insertion::Stored);
    assert_eq!(insert(1, "/a", "x", store.moment()), Insertion::Stored);
    let before = store.moment();
    store.purge_all(How::Drop);
    assert_eq!(insert(3, "/c", "z", before), Insertion::Purged);
    assert_eq!(insert(3, "/c", "z", store.moment()), Insertion::Stored);
    let before = store.moment();
    store.refuse_earlier();
    assert_eq!(insert(3, "/c", "z", before), Insertion::Purged);
    assert!(store.peek(key(3)).is_some(), "what is there stays");
    let before = store.moment();
    store.refuse_earlier_of("/c");
    assert_eq!(insert(5, "/d", "z", before), Insertion::Stored, "of another beginning");
    assert_eq!(insert(3, "/c", "z", before), Insertion::Purged);
    let before = store.moment();
    (0..600).for_each(|n| assert_eq!(store.purge_url(&format!("/{n}"), How::Drop), 0));
    assert_eq!(insert(4, "/d", "z", before), Insertion::Purged, "too long ago to know");
    assert_eq!(store.usage().late, 5);
    store.check();
}

#[test]
fn an_eighth_of_the_budget_always_fits_and_more_never() {
    let budget = 16 * MB;
    let store = Store::new(budget);
    let largest = (budget / 8) as usize;
    for n in 0..60_000 {
        put(&store, n, &format!("/{n}"), &["x"]);
        (0..3).for_each(|_| drop(store.get(key(n))));
    }
    assert!(store.usage().evicted > 1000, "the cache is full of what is in use");
    for n in 0..20 {
        let object = Arc::new(page("/large", &[], largest));
        assert_eq!(store.insert(key(n << 32), object), Insertion::Stored);
        assert!(store.peek(key(n << 32)).is_some());
        store.check();
    }
    let refused = key(19 << 32);
    assert_eq!(store.insert(refused, Arc::new(page("/large", &[], largest + 1))), Insertion::TooLarge);
    assert!(store.peek(refused).is_none(), "what it supersedes is gone");
    assert_eq!(store.usage().refused, 1);
    store.check();
}

#[test]
fn what_gets_heavier_does_not_evict_itself() {
    let store = Store::new(4 * MB);
    for n in 0..20_000 {
        put(&store, n, &format!("/{n}"), &[]);
        if n < 19_999 {
            store.get(key(n));
        }
    }
    let heavy = Arc::new(page("/19999", &[], MB as usize / 2));
    assert_eq!(store.insert(key(19_999), heavy.clone()), Insertion::Stored);
    assert!(store.peek(key(19_999)).is_some_and(|found| Arc::ptr_eq(&found, &heavy)));
    store.check();
}

#[test]
fn without_room_nothing_is_stored() {
    for budget in [0, 1, 100_000] {
        let store = Store::new(budget);
        assert_eq!(store.insert(key(1), Arc::new(page("/", &[], 1))), Insertion::TooLarge);
        store.check();
    }
    let store = Store::new(MB);
    let many: Vec<_> = (0..20_000).map(|n| n.to_string()).collect();
    let tags: Vec<_> = many.iter().map(|tag| &**tag).collect();
    assert_eq!(store.insert(key(1), Arc::new(page("/", &tags, 1))), Insertion::TooLarge, "tags take room too");
}

#[test]
fn the_budget_holds_for_all_sizes() {
    let mut random = Rng::with_seed(7);
    for budget in [MB, 5 * MB, 40 * MB] {
        let store = Store::new(budget);
        for n in 0..40_000 {
            let weight = 1usize << random.u64(..18);
            let tags: Vec<_> = (0..random.u64(..4)).map(|_| random.u64(..50).to_string()).collect();
            let tags: Vec<_> = tags.iter().map(|tag| &**tag).collect();
            let object = page(&format!("/{}", random.u64(..5000)), &tags, weight + random.u64(..100) as usize);
            let _ = store.insert(key(random.u64(..20_000)), Arc::new(object));
            store.get(key(random.u64(..20_000)));
            assert!(store.usage().bytes <= budget);
            if n % 5000 == 0 {
                store.check();
            }
        }
        let usage = store.usage();
        assert!(usage.bytes > budget * 8 / 10, "{usage:?}");
        assert!(usage.evicted > 0 && usage.objects > 0);
        store.resize(budget / 2);
        store.check();
        assert!(store.usage().bytes > budget * 3 / 10);
        store.resize(0);
        assert_eq!(store.usage().objects, 0);
    }
}

#[test]
fn an_empty_store_has_given_all_back() {
    let store = Store::new(64 * MB);
    let empty = store.usage().bytes;
    for n in 0..50_000 {
        put(&store, n, &format!("/{n}"), &["x"]);
    }
    (0..50_000).for_each(|n| drop(store.remove(key(n))));
    assert_eq!(store.usage().bytes, empty);
    for n in 0..50_000 {
        put(&store, n, &format!("/{n}"), &["x"]);
    }
    store.purge_all(How::Drop);
    assert!(store.usage().bytes < empty + 200);
}

#[test]
fn objects_are_dropped_when_nothing_is_locked() {
    let store = Arc::new(Store::new(MB));
    let locked = Arc::new(AtomicBool::new(false));
    let watched = |n: u64, weight| {
        let mut page = page(&format!("/{n}"), &["x"], weight);
        page.watch = Some((Arc::downgrade(&store), locked.clone()));
        Arc::new(page)
    };
    let fill = |from: u64| {
        (from..from + 2000).for_each(|n| assert_eq!(store.insert(key(n), watched(n, 2000)), Insertion::Stored))
    };
    fill(0);
    assert!(store.usage().evicted > 0);
    fill(0);
    let before = store.moment();
    store.purge_tag("x", How::Drop);
    assert_eq!(store.insert_since(key(1), watched(1, 2000), before), Insertion::Purged);
    assert_eq!(store.insert(key(1), watched(1, 1 << 30)), Insertion::TooLarge);
    fill(0);
    store.purge_prefix("/", How::Drop);
    fill(0);
    store.purge_all(How::Drop);
    fill(0);
    store.remove(key(1999));
    let last = store.peek(key(1998)).unwrap();
    store.remove_if_same(key(1998), &last);
    drop(last);
    store.resize(MB / 2);
    assert!(!locked.load(SeqCst));
}

type PageFilter<'a> = dyn Fn(&Page) -> bool + 'a;

#[test]
fn agrees_with_a_map_while_there_is_room() {
    let store = Store::new(1 << 40);
    let mut model: HashMap<u64, Arc<Page>> = HashMap::new();
    let mut random = Rng::with_seed(42);
    for step in 0..60_000 {
        let n = random.u64(..300);
        let url = format!("h/{}/{}", random.u64(..6), random.u64(..6));
        let tag = format!("t{}", random.u64(..12));
        match random.u64(..40) {
            0..=19 => {
                let other = format!("t{}", random.u64(..12));
                model.insert(n, put(&store, n, &url, &[&*tag, &*other][..random.u64(..3) as usize]));
            }
            20..=29 => {
                let (found, expected) = (store.get(key(n)), model.get(&n));
                assert_eq!(found.as_ref().map(Arc::as_ptr), expected.map(Arc::as_ptr));
            }
            30..=32 => assert_eq!(store.remove(key(n)).is_some(), model.remove(&n).is_some()),
            33 => {
                let other = model.get(&random.u64(..300)).cloned();
                let same = other.as_ref().is_some_and(|other| model.get(&n).is_some_and(|it| Arc::ptr_eq(it, other)));
                let removed = other.is_some_and(|other| store.remove_if_same(key(n), &other));
                assert_eq!(removed, same);
                if same {
                    model.remove(&n);
                }
            }
            purge => {
                let how = if random.u64(..2) == 0 { How::Drop } else { How::Expire };
                let prefix = format!("h/{}", random.u64(..6));
                let (count, meant): (_, Box<PageFilter>) = match purge {
                    34 | 35 => (store.purge_url(&url, how), Box::new(|page| *page.url == *url)),
                    36 | 37 => (store.purge_tag(&tag, how), Box::new(|page| page.tags.iter().any(|it| **it == *tag))),
                    38 => (store.purge_prefix(&prefix, how), Box::new(|page| page.url.starts_with(&prefix))),
                    _ if random.u64(..20) > 0 => continue,
                    _ => (store.purge_all(how), Box::new(|_| true)),
                };
                assert_eq!(count, model.values().filter(|page| meant(page)).count());
                match how {
                    How::Drop => model.retain(|_, page| !meant(page)),
                    How::Expire => assert!(model.values().filter(|it| meant(it)).all(|it| it.stale.load(SeqCst))),
                }
            }
        }
        if step % 500 == 0 {
            store.check();
            let mut seen = 0;
            store.each(|found, object| {
                seen += 1;
                assert!(model.iter().any(|(n, expected)| key(*n) == found && Arc::ptr_eq(object, expected)));
            });
            assert_eq!(seen, model.len());
        }
    }
}
