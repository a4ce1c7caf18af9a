//! What the store keeps of traces of requests, beside a plain LRU.

use std::collections::BTreeMap;

use super::*;

/// Hit ratio of a plain LRU of so many objects.
fn lru(trace: &[u64], capacity: usize) -> f64 {
    let (mut last, mut order, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (now, n) in trace.iter().enumerate() {
        if let Some(before) = last.insert(*n, now) {
            hits += 1;
            order.remove(&before);
        }
        order.insert(now, *n);
        if last.len() > capacity {
            let (_, oldest) = order.pop_first().unwrap();
            last.remove(&oldest);
        }
    }
    hits as f64 / trace.len() as f64
}

/// The store's hit ratio, with the number of objects that it came to hold.
fn ours(trace: &[u64], budget: u64) -> (f64, usize) {
    let store = Store::new(budget);
    let mut hits = 0;
    for n in trace {
        match store.get(key(*n)) {
            Some(_) => hits += 1,
            None => {
                let object = Arc::new(page(&format!("/{n}"), &[], 4000));
                assert_eq!(store.insert(key(*n), object), Insertion::Stored);
            }
        }
    }
    store.check();
    (hits as f64 / trace.len() as f64, store.usage().objects as usize)
}

/// Requests for `pages` by a Zipf law (exponent 0.9); in each 1000, `crawled` of them are for pages that nobody asks
/// for again.
fn trace(pages: u64, requests: usize, crawled: usize) -> Vec<u64> {
    let mut random = Rng::with_seed(3);
    let weights: Vec<f64> = (1..=pages)
        .scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-0.9);
            Some(*sum)
        })
        .collect();
    let total = weights[weights.len() - 1];
    let mut ask = |n: usize| {
        if n % 1000 < crawled {
            return 1_000_000 + n as u64;
        }
        let point = random.u64(..1 << 52) as f64 / (1u64 << 52) as f64 * total;
        weights.partition_point(|sum| *sum < point) as u64
    };
    (0..requests).map(&mut ask).collect()
}

#[test]
fn a_scan_does_not_flush_what_is_used() {
    for (crawled, gain) in [(0, 0.03), (300, 0.04), (600, 0.04)] {
        let trace = trace(20_000, 200_000, crawled);
        let (ours, objects) = ours(&trace, 4 * MB);
        let lru = lru(&trace, objects);
        println!("{crawled} of 1000 crawled, {objects} objects: hit ratio {ours:.3}, LRU {lru:.3}");
        assert!(ours > lru + gain, "{crawled} of 1000: {ours} against {lru}");
    }
}

#[test]
fn one_long_scan_leaves_the_main_queue_alone() {
    let store = Store::new(4 * MB);
    let insert = |n: u64| {
        let inserted = store.insert(key(n), Arc::new(page(&format!("/{n}"), &[], 4000)));
        assert_eq!(inserted, Insertion::Stored);
    };
    for _ in 0..3 {
        (0..500).filter(|n| store.get(key(*n)).is_none()).for_each(insert);
    }
    (1_000_000..1_050_000).for_each(insert);
    let left = (0..500).filter(|n| store.peek(key(*n)).is_some()).count();
    // A few go because the search for an unused one is bounded: here all are used when it begins.
    assert!(left > 490, "{left} of 500");
    let scanned = (1_000_000..1_050_000).filter(|n| store.peek(key(*n)).is_some()).count();
    assert!(scanned > 100, "the rest of the room is not left empty: {scanned}");
}

#[test]
fn who_comes_back_soon_is_kept() {
    let store = Store::new(4 * MB);
    let insert = |n: u64| {
        let inserted = store.insert(key(n), Arc::new(page(&format!("/{n}"), &[], 4000)));
        assert_eq!(inserted, Insertion::Stored);
    };
    (0..1500).for_each(insert);
    assert!(store.peek(key(400)).is_none());
    insert(400);
    (2000..8000).for_each(insert);
    assert!(store.peek(key(400)).is_some());
}
