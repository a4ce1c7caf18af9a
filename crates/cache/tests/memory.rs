//! Holds the store's sums against what the process really has: private memory as Linux counts it, glibc's allocator.
//!
//! Each case runs in a process of its own: this test starts itself again.
#![cfg(target_os = "linux")]

mod keys;

use std::{env, fs, process::Command, sync::Arc, thread};

use cache::store::{allocated, How, Insertion, Object, Store};
use keys::{key, mix};

const MB: u64 = 1 << 20;

struct Page {
    url: Arc<str>,
    tags: Box<[Arc<str>]>,
    body: Box<[u8]>,
}

impl Object for Page {
    fn weight(&self) -> usize {
        let names: usize = self.tags.iter().map(|tag| allocated(16 + tag.len())).sum();
        allocated(16 + size_of::<Page>())
            + allocated(16 + self.url.len())
            + allocated(self.tags.len() * size_of::<Arc<str>>())
            + names
            + allocated(self.body.len())
    }
    fn url(&self) -> &Arc<str> {
        &self.url
    }
    fn tags(&self) -> &[Arc<str>] {
        &self.tags
    }
    fn expire(&self) {}
}

/// Bytes of memory that belong to this process alone.
fn private() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with("Private_Dirty:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn insert(store: &Store<Page>, n: u64, url: &str, body: usize, tags: usize) {
    let tags = (0..tags).map(|tag| format!("issue-{}", n * 3 % 1000 + tag as u64).into()).collect();
    let page = Page { url: url.into(), tags, body: vec![7; body].into() };
    assert_eq!(store.insert(key(n), Arc::new(page)), Insertion::Stored);
}

/// A body of 100 bytes to 100 KB, most of them small.
fn body(n: u64) -> usize {
    100 << (mix(n) % 10).min(mix(n + 7) % 11)
}

/// What is done to a store, by name: its budget, and how to fill it.
type Case = (&'static str, u64, fn(&Store<Page>));

const CASES: &[Case] = &[
    ("1e6 tiny, in order", 4096 * MB, |store| {
        (0..1_000_000).for_each(|n| insert(store, n, &format!("https://example.org/{n:09}"), 10, 0));
    }),
    ("3e5 tiny, at random, tagged", 4096 * MB, |store| {
        (0..300_000).for_each(|n| insert(store, n, &format!("https://example.org/{}", mix(n)), 10, 2));
    }),
    ("2e4 of 10 KB", 4096 * MB, |store| {
        (0..20_000).for_each(|n| insert(store, n, &format!("https://example.org/{}", mix(n)), 10_000, 1));
    }),
    ("500 of 400 KB", 4096 * MB, |store| {
        (0..500).for_each(|n| insert(store, n, &format!("https://example.org/{n}"), 400_000, 1));
    }),
    ("5e5 tiny through 64 MB", 64 * MB, |store| {
        (0..500_000).for_each(|n| insert(store, n, &format!("https://example.org/{}", mix(n)), 10, 1));
    }),
    ("2e5 of all sizes through 64 MB", 64 * MB, |store| {
        for n in 0..200_000 {
            insert(store, n, &format!("https://example.org/{}", mix(n)), body(n), (n % 3) as usize);
            store.get(key(mix(n) % (n + 1)));
        }
    }),
    ("tiny, then large, through 64 MB", 64 * MB, |store| {
        (0..300_000).for_each(|n| insert(store, n, &format!("https://example.org/{}", mix(n)), 10, 1));
        (300_000..302_000).for_each(|n| insert(store, n, &format!("https://example.org/{}", mix(n)), 100_000, 1));
    }),
    ("purged by tag again and again, 64 MB", 64 * MB, |store| {
        for n in 0..200_000 {
            insert(store, n, &format!("https://example.org/{}", mix(n)), body(n), 1);
            if n % 50 == 0 {
                store.purge_tag(&format!("issue-{}", n % 1000), How::Drop);
            }
        }
    }),
    ("2e5 of all sizes through 64 MB by four threads", 64 * MB, |store| {
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for n in (thread..200_000).step_by(4) {
                        insert(store, n, &format!("https://example.org/{}", mix(n)), body(n), (n % 3) as usize);
                        store.get(key(mix(n) % (n + 1)));
                    }
                });
            }
        });
    }),
];

#[test]
fn the_sums_are_what_the_process_has() {
    for (name, ..) in CASES {
        // One arena: what is free in one thread's is no use to another, and which they get is chance.
        let arguments = ["--exact", "measured", "--ignored", "--nocapture"];
        let output = Command::new(env::current_exe().unwrap())
            .args(arguments)
            .env("CASE", name)
            .env("MALLOC_ARENA_MAX", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
        println!("{}", text.lines().find(|line| line.contains("MB")).unwrap_or("nothing was measured"));
    }
}

#[test]
#[ignore = "one case, in a process of its own"]
fn measured() {
    let wanted = env::var("CASE").expect("CASE");
    let (name, budget, fill) = CASES.iter().find(|(name, ..)| *name == wanted).expect("a case of this name");
    let before = private();
    let store = Store::new(*budget);
    fill(&store);
    let (usage, untrimmed) = (store.usage(), private() - before);
    // SAFETY: gives free pages back to the kernel; takes no pointer.
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
    let real = private() - before;
    let ratio = real as f64 / usage.bytes as f64;
    let index = (usage.bytes - usage.object_bytes) as f64 / usage.objects as f64;
    println!(
        "{name}: counted {} MB, private {} MB ({} before malloc_trim), ratio {ratio:.3}; {} objects, {index:.0} \
         bytes of index each",
        usage.bytes / MB,
        real / MB,
        untrimmed / MB,
        usage.objects,
    );
    assert!(usage.bytes <= *budget && ratio < 1.15, "{ratio}");
    if usage.evicted + usage.purged == 0 {
        assert!(ratio > 0.85, "{ratio}");
    }
}
