//! The store with several threads at once.

use std::{
    sync::{atomic::AtomicU64, Barrier},
    thread,
};

use super::*;

#[test]
fn threads_leave_it_consistent() {
    let store = Store::new(MB / 2);
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                let mut random = Rng::with_seed(thread + 1);
                barrier.wait();
                for step in 0..15_000u64 {
                    let n = random.u64(..1500);
                    let tag = format!("t{}", random.u64(..20));
                    match random.u64(..30) {
                        0..=14 => {
                            let object = page(&format!("/{}", n % 100), &[&tag], 1 << random.u64(..14));
                            let _ = store.insert(key(n), Arc::new(object));
                        }
                        15..=22 => drop(store.get(key(n))),
                        23 => drop(store.remove(key(n))),
                        24 => assert!(store.purge_url(&format!("/{}", n % 100), How::Drop) < 1000),
                        25 => assert!(store.purge_tag(&tag, How::Expire) < 10_000),
                        26 if step % 50 == 0 => assert!(store.purge_all(How::Drop) < 10_000),
                        27 if step % 50 == 0 => store.resize(MB / 2 + random.u64(..MB / 4)),
                        _ => {
                            // Nobody else writes this one; others may evict it.
                            let (own, tag) = (key(1 << 40 | thread), format!("own{thread}"));
                            let inserted = store.insert(own, Arc::new(page("/own", &[&tag], 500)));
                            store.purge_tag(&tag, How::Drop);
                            assert!(store.get(own).is_none(), "{inserted:?}, and found after its purge");
                        }
                    }
                }
            });
        }
    });
    store.check();
    assert!(store.usage().evicted > 0);
}

/// Ends the other threads, also when an assertion failed.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// An application that changes pages and purges them, with requests under way: nobody sees a version from before the
/// purge.
#[test]
fn nothing_from_before_a_purge_is_found_after_it() {
    const PAGES: u64 = 8;
    let store = Store::new(MB);
    let truth: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(1)).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (store, truth, done) = (&store, &truth, &done);
            scope.spawn(move || {
                let mut random = Rng::with_seed(thread + 100);
                while !done.load(SeqCst) {
                    let n = random.u64(..PAGES);
                    let moment = store.moment();
                    let mut object = page(&format!("/{n}"), &["all", &format!("t{n}")], 500);
                    object.version = truth[n as usize].load(SeqCst);
                    if random.u64(..2) == 0 {
                        thread::yield_now();
                    }
                    let _ = store.insert_since(key(n), Arc::new(object), moment);
                }
            });
        }
        let _ends = StopOnDrop(&done);
        let mut random = Rng::with_seed(5);
        let mut found = 0;
        for _ in 0..20_000 {
            let n = random.u64(..PAGES);
            let version = truth[n as usize].fetch_add(1, SeqCst) + 1;
            let how = if random.u64(..2) == 0 { How::Drop } else { How::Expire };
            match random.u64(..40) {
                0 => store.purge_all(how),
                1..=13 => store.purge_url(&format!("/{n}"), how),
                14..=26 => store.purge_tag(&format!("t{n}"), how),
                _ => store.purge_prefix(&format!("/{n}"), how),
            };
            if random.u64(..2) == 0 {
                thread::yield_now();
            }
            if let Some(page) = store.get(key(n)) {
                found += 1;
                let stale = page.stale.load(SeqCst);
                assert!(page.version >= version || stale, "version {} after {version} was purged", page.version);
            }
        }
        println!("{found} looks found something");
    });
    store.check();
}
