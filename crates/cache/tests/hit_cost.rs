//! Prints what a hit costs, by the number of keys and threads. It asserts nothing: run it by hand, in release mode,
//! `cargo test -p cache --release --test hit_cost -- --ignored --nocapture`.

mod keys;

use std::{
    hint::black_box,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
    thread,
    time::Instant,
};

use cache::store::{How, Insertion, Object, Store};
use keys::{key, mix};

/// As small as an object can be: one URL for all, no tags.
struct Tiny(Arc<str>);

impl Object for Tiny {
    fn weight(&self) -> usize {
        48
    }
    fn url(&self) -> &Arc<str> {
        &self.0
    }
    fn tags(&self) -> &[Arc<str>] {
        &[]
    }
    fn expire(&self) {}
}

const GETS: u64 = 5_000_000;

/// Nanoseconds of one of `GETS` calls.
fn timed(call: impl Fn(u64)) -> f64 {
    let begin = Instant::now();
    (0..GETS).for_each(call);
    begin.elapsed().as_nanos() as f64 / GETS as f64
}

#[test]
#[ignore = "prints figures; takes a minute and 3 GB"]
fn of_a_hit() {
    for keys in [10u64, 10_000, 1_000_000, 10_000_000] {
        let store = Store::new(1 << 40);
        let begin = Instant::now();
        for n in 0..keys {
            assert_eq!(store.insert(key(n), Arc::new(Tiny(format!("/{n:08}").into()))), Insertion::Stored);
        }
        let insert = begin.elapsed().as_nanos() as f64 / keys as f64;
        let pick = |n: u64| key(mix(n) % keys);
        let bare = timed(|n| {
            black_box(pick(n));
        });
        let random = timed(|n| drop(black_box(store.get(pick(n)))));
        let few = timed(|n| drop(black_box(store.get(key(mix(n) % keys.min(1000))))));
        let miss = timed(|n| drop(black_box(store.get(key(n + keys)))));
        let two = thread::scope(|scope| {
            let run = |thread: u64| timed(|n| drop(black_box(store.get(pick(n * 2 + thread)))));
            let threads = [0, 1].map(|thread| scope.spawn(move || run(thread)));
            threads.map(|thread| thread.join().unwrap()).into_iter().fold(0.0, f64::max)
        });
        println!(
            "{keys:>9} keys: hit {:.0} ns (one of 1000 keys: {:.0}), miss {:.0}, two threads {:.0} each; insert {insert:.0}",
            random - bare,
            few - bare,
            miss - bare,
            two - bare,
        );
        let begin = Instant::now();
        let purged = store.purge_prefix("/000000", How::Drop);
        println!("{:>9} purged by prefix in {} us", purged, begin.elapsed().as_micros());
        let begin = Instant::now();
        let bytes = store.usage().bytes;
        let purged = store.purge_all(How::Drop);
        println!("{purged:>9} purged in {} ms ({} bytes each)", begin.elapsed().as_millis(), bytes / keys);
    }
}

#[test]
#[ignore = "prints figures"]
fn of_others_during_a_purge() {
    let store = Store::new(1 << 40);
    let url: Arc<str> = "/".into();
    let insert = |n: u64| {
        assert_eq!(store.insert(key(n), Arc::new(Tiny(format!("/{n:08}").into()))), Insertion::Stored);
    };
    for name in ["prefix", "all"] {
        (0..500_000).for_each(insert);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let purge = scope.spawn(|| {
                let begin = Instant::now();
                let purged =
                    if name == "all" { store.purge_all(How::Drop) } else { store.purge_prefix(&url, How::Drop) };
                done.store(true, Relaxed);
                (purged, begin.elapsed())
            });
            let (mut inserts, mut gets) = (Vec::new(), Vec::new());
            for n in 1_000_000.. {
                if done.load(Relaxed) {
                    break;
                }
                let begin = Instant::now();
                insert(n);
                inserts.push(begin.elapsed());
                let begin = Instant::now();
                black_box(store.get(key(n - 500_000)));
                gets.push(begin.elapsed());
            }
            let (purged, took) = purge.join().unwrap();
            inserts.sort();
            gets.sort();
            println!(
                "{purged} purged ({name}) in {took:?}; meanwhile {} insertions: median {:?}, p99 {:?}, longest {:?}; \
                 get: p99 {:?}, longest {:?}",
                inserts.len(),
                inserts[inserts.len() / 2],
                inserts[inserts.len() * 99 / 100],
                inserts[inserts.len() - 1],
                gets[gets.len() * 99 / 100],
                gets[gets.len() - 1],
            );
        });
        store.purge_all(How::Drop);
    }
}
