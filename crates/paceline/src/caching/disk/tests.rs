//! The disk's part without a server: damage, the bound, purges, and what is under way between memory and disk.

mod given_up;
mod shortened;

use std::{
    fs,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use cache::{
    freshness::ExchangeTimes,
    store::{How, Key, Moment, Store},
    stored::{Content, Entry, Stored},
    storing::storable,
};
use http::{Request, Response};

use super::*;

const SIZE: u64 = 8 << 20;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        Folder(std::env::temp_dir().join(format!("paceline-disk-{}", uuid::Uuid::new_v4().simple())))
    }

    fn file(&self) -> PathBuf {
        self.0.join(environment::FILE)
    }

    fn open(&self) -> (Disk, Arc<Mutex<Vec<String>>>) {
        let said = Arc::new(Mutex::new(Vec::new()));
        let say = said.clone();
        let disk = Disk::open(&self.0, SIZE, Arc::new(move |line| say.lock().unwrap().push(line)));
        (disk.unwrap_or_else(|| panic!("{:?}", said.lock().unwrap())), said)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn page(url: &str, tags: &str, body: Vec<u8>) -> Arc<Entry> {
    let request = Request::builder().uri("/").body(()).unwrap().into_parts().0;
    let response = Response::builder().header("cache-control", "max-age=60").header("cache-tag", tags);
    let response = response.body(()).unwrap().into_parts().0;
    let at = ExchangeTimes::by_one_clock(1_577_836_800_000, 1_577_836_800_000);
    let storable = storable(&request, &response, at, 0).unwrap();
    let stored = Stored::new(url.into(), response.status, storable, Content::Whole(body.into()), &[]);
    Arc::new(Entry::Response(Arc::new(stored)))
}

fn key(number: u64) -> Key {
    // Spread, as hashes are.
    Key(u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number))
}

/// Does all that waits. The disk's part is not ended by it.
fn flush(disk: &Disk, store: &Store<Entry>) {
    disk.end();
    write(disk, store, &|| ());
    disk.waiting().ended = false;
}

fn put(disk: &Disk, number: u64, kept: &Arc<Entry>, moment: Moment) {
    disk.change(key(number)).write(kept.clone(), moment);
}

fn body(kept: Option<Arc<Entry>>) -> Option<Bytes> {
    match kept.as_deref() {
        Some(Entry::Response(stored)) => stored.whole().cloned(),
        _ => None,
    }
}

fn store() -> Store<Entry> {
    Store::new(64 << 20)
}

/// Ten pages, and a reader of them with an empty memory.
fn ten(disk: &Disk, store: &Store<Entry>) {
    for number in 0..10 {
        let url = format!("http://h/{}/{number}", if number < 5 { "a" } else { "b" });
        let tags = format!("t{},all", number % 2);
        put(disk, number, &page(&url, &tags, format!("body {number}").into()), store.moment());
    }
    flush(disk, store);
}

fn there(disk: &Disk) -> Vec<u64> {
    let memory = store();
    (0..10).filter(|number| body(disk.recall(&memory, key(*number))) == Some(format!("body {number}").into())).collect()
}

fn purge(disk: &Disk, store: &Store<Entry>, what: Purge, how: How) -> u64 {
    let purging = disk.begin_purge(store);
    let mut purged = disk.purge(purging, what, how);
    flush(disk, store);
    purged.try_recv().expect("it was done")
}

#[test]
fn purges_meet_what_they_name_and_hold_after_reopening() {
    let drops: [(Purge, &[u64]); 6] = [
        (Purge::Url("http://h/a/1".into()), &[1]),
        (Purge::Url("http://h/a".into()), &[]),
        (Purge::Prefix("http://h/b".into()), &[5, 6, 7, 8, 9]),
        (Purge::Prefix("x".repeat(1000)), &[]),
        (Purge::Tag("t1".into()), &[1, 3, 5, 7, 9]),
        (Purge::All, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ];
    for (what, gone) in drops {
        let (folder, memory) = (Folder::new(), store());
        let (disk, _) = folder.open();
        ten(&disk, &memory);
        assert_eq!(there(&disk).len(), 10);
        let secret = disk.secret();
        assert_eq!(purge(&disk, &memory, what.clone(), How::Drop), gone.len() as u64, "{what:?}");
        let left: Vec<u64> = (0..10).filter(|number| !gone.contains(number)).collect();
        assert_eq!(there(&disk), left, "{what:?}");
        drop(disk);
        let (disk, said) = folder.open();
        assert_eq!((there(&disk), disk.usage().responses), (left, 10 - gone.len() as u64), "{what:?}");
        assert_eq!((disk.secret(), said.lock().unwrap().len()), (secret, 0));
    }
}

#[test]
fn origins_are_found_by_their_urls() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    assert!(disk.origins().is_empty());
    let origins = ["http://a", "http://a-b.test", "http://a.test", "http://a.test:81", "https://a"];
    for (number, (origin, path)) in
        (0..).zip(origins.iter().flat_map(|origin| ["/", "/x", "/y?z"].map(|path| (origin, path))))
    {
        put(&disk, number, &page(&format!("{origin}{path}"), "t", "".into()), memory.moment());
    }
    flush(&disk, &memory);
    let found = disk.origins();
    assert!(found.len() == origins.len() && origins.iter().all(|origin| found.contains(*origin)), "{found:?}");
}

#[test]
fn a_soft_purge_leaves_what_is_stale() {
    for (what, met) in [(Purge::Tag("t1".into()), 5), (Purge::All, 10), (Purge::Url("http://h/a/3".into()), 1)] {
        let (folder, memory) = (Folder::new(), store());
        let (disk, _) = folder.open();
        ten(&disk, &memory);
        assert_eq!(purge(&disk, &memory, what.clone(), How::Expire), met);
        drop(disk);
        let (disk, _) = folder.open();
        let expired = (0..10).filter(|number| match disk.recall(&store(), key(*number)).as_deref() {
            Some(Entry::Response(stored)) => stored.is_expired(),
            _ => panic!("it is gone"),
        });
        assert_eq!(expired.count() as u64, met, "{what:?}");
    }
}

#[test]
fn a_purge_of_many_takes_several_transactions() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    for number in 0..2000 {
        put(&disk, number, &page(&format!("http://h/{number}"), "all", b"x".to_vec()), memory.moment());
    }
    flush(&disk, &memory);
    assert_eq!(disk.usage().responses, 2000);
    assert_eq!(purge(&disk, &memory, Purge::Tag("all".into()), How::Expire), 2000);
    assert_eq!(purge(&disk, &memory, Purge::Prefix("http://h/1".into()), How::Drop), 1111);
    assert_eq!(disk.usage().responses, 889);
    assert_eq!(purge(&disk, &memory, Purge::All, How::Drop), 889);
    assert_eq!(disk.usage().responses, 0);
}

#[test]
fn what_was_purged_while_it_waited_is_not_written() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    let moment = memory.moment();
    // As it comes when its sender was held up: after the purge of it, and with the moment from before.
    let purging = disk.begin_purge(&memory);
    memory.purge_url("http://h/a/1", How::Drop);
    let _purged = disk.purge(purging, Purge::Url("http://h/a/1".into()), How::Drop);
    put(&disk, 1, &page("http://h/a/1", "t", b"body 1".to_vec()), moment);
    put(&disk, 2, &page("http://h/a/2", "t", b"body 2".to_vec()), moment);
    flush(&disk, &memory);
    assert_eq!(there(&disk), [2]);
}

#[test]
fn nothing_is_found_from_the_beginning_of_its_purge() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    ten(&disk, &memory);
    let purging = disk.begin_purge(&memory);
    assert!(disk.recall(&memory, key(1)).is_some(), "memory has not been purged yet, and will be");
    memory.purge_tag("t1", How::Drop);
    assert!(memory.peek(key(1)).is_none());
    assert!(disk.recall(&memory, key(1)).is_none(), "it is on disk, and refused");
    assert!(disk.recall(&memory, key(2)).is_some());
    let _purged = disk.purge(purging, Purge::Tag("t1".into()), How::Drop);
    assert!(disk.recall(&memory, key(3)).is_none());
    flush(&disk, &memory);
    assert!(disk.recall(&memory, key(3)).is_none());
}

#[test]
fn a_key_that_changes_is_not_looked_for() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    ten(&disk, &memory);
    let change = disk.change(key(1));
    assert!(disk.recall(&memory, key(1)).is_none());
    drop(change);
    assert_eq!(body(disk.recall(&memory, key(1))), Some("body 1".into()), "nothing has changed");
    memory.remove(key(1));
    disk.change(key(1)).remove();
    assert!(disk.recall(&memory, key(1)).is_none(), "its removal waits");
    flush(&disk, &memory);
    assert!(disk.recall(&memory, key(1)).is_none());
    assert!(disk.waiting().changing.is_empty());
}

#[test]
fn what_finds_no_place_in_the_queue_takes_its_forerunner_along() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    ten(&disk, &memory);
    for number in 100..120 {
        put(&disk, number, &page("http://h/big", "", vec![0; 1 << 20]), memory.moment());
    }
    put(&disk, 1, &page("http://h/a/1", "", vec![1; 1 << 20]), memory.moment());
    flush(&disk, &memory);
    assert!(disk.usage().unwritten > 0);
    assert!(disk.recall(&memory, key(1)).is_none());
    assert_eq!(disk.waiting().bytes, 0);
}

#[test]
fn when_too_much_waits_all_begins_anew() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    ten(&disk, &memory);
    (0..=MAX_JOBS as u64).for_each(|number| disk.change(key(number + 1000)).remove());
    assert!(disk.waiting().jobs.len() < 10);
    assert!(disk.recall(&memory, key(1)).is_none());
    flush(&disk, &memory);
    assert!(there(&disk).is_empty());
    ten(&disk, &memory);
    assert_eq!(there(&disk).len(), 10);
}

#[test]
fn the_bound_holds_for_all_sizes_and_what_is_in_use_stays() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, said) = folder.open();
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let used = page("http://h/used", "", b"used".to_vec());
    let _ = memory.insert(key(7), used.clone());
    put(&disk, 7, &used, memory.moment());
    for round in 0..60 {
        for _ in 0..20 {
            let length = [100, 2000, 5000, 70_000, 600_000][next() as usize % 5];
            let number = 100 + next() % 400;
            put(&disk, number, &page(&format!("http://h/{number}"), "a,b", vec![round; length]), memory.moment());
        }
        flush(&disk, &memory);
        if round % 7 == 0 {
            purge(&disk, &memory, Purge::Prefix(format!("http://h/{}", next() % 10)), How::Drop);
        }
        let usage = disk.usage();
        assert!(usage.bytes <= SIZE && fs::metadata(folder.file()).unwrap().len() <= SIZE);
    }
    let usage = disk.usage();
    assert!(usage.evicted > 100 && usage.bytes > SIZE / 2 && !usage.given_up, "{usage:?}");
    assert!(usage.written > 1000 && usage.unwritten < 20, "{usage:?}");
    drop(disk);
    let (disk, _) = folder.open();
    assert_eq!(said.lock().unwrap().len(), 0);
    assert_eq!(disk.usage().responses, usage.responses);
    assert_eq!(body(disk.recall(&store(), key(7))), Some("used".into()));
}

#[test]
fn a_second_one_is_refused() {
    let folder = Folder::new();
    let (_disk, _) = folder.open();
    let said = Arc::new(Mutex::new(Vec::new()));
    let say = said.clone();
    assert!(Disk::open(&folder.0, SIZE, Arc::new(move |line| say.lock().unwrap().push(line))).is_none());
    assert!(said.lock().unwrap()[0].ends_with("another server has it"), "{said:?}");
}

#[test]
fn another_version_begins_anew() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    ten(&disk, &memory);
    drop(disk);
    let mut bytes = fs::read(folder.file()).unwrap();
    let version = [b"mversion".as_slice(), &cache::record::VERSION.to_le_bytes()].concat();
    let versions: Vec<usize> = (0..bytes.len() - 12).filter(|at| bytes[*at..].starts_with(&version)).collect();
    assert!(!versions.is_empty());
    versions.into_iter().for_each(|at| bytes[at + 8] = 0xfe);
    fs::write(folder.file(), bytes).unwrap();
    let (disk, said) = folder.open();
    assert!(there(&disk).is_empty());
    assert!(said.lock().unwrap()[0].contains("another version"), "{said:?}");
}

/// Whatever is done to the file: nothing wrong comes out of it, and LMDB, which would take the process with it, is
/// never given what it can't read.
#[test]
fn damage_anywhere() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    ten(&disk, &memory);
    for number in 10..150 {
        let length = if number % 3 == 0 { 9000 } else { 30 };
        put(&disk, number, &page(&format!("http://h/c/{number}"), "c", vec![number as u8; length]), memory.moment());
    }
    flush(&disk, &memory);
    purge(&disk, &memory, Purge::Tag("t1".into()), How::Drop);
    (10..40).for_each(|number| disk.change(key(number)).remove());
    flush(&disk, &memory);
    drop(disk);
    let sound = fs::read(folder.file()).unwrap();
    // All of it takes minutes: of each kind some.
    let some: usize = std::env::var("PACELINE_DAMAGES").ok().and_then(|some| some.parse().ok()).unwrap_or(40);
    let heads: Vec<usize> = (16..160).chain(4096 + 16..4096 + 160).collect();
    let pages: Vec<usize> = (2..sound.len() / 4096).flat_map(|page| (0..40).map(move |at| page * 4096 + at)).collect();
    let bytes: Vec<usize> = (8192..sound.len()).filter(|at| sound[*at] != 0).collect();
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    for places in [heads, pages, bytes] {
        for at in places.iter().step_by(places.len().div_ceil(some)) {
            let mut bytes = sound.clone();
            bytes[*at] ^= 1 << (at % 7);
            damaged.push(bytes);
        }
    }
    (0..some / 2).for_each(|part| damaged.push(sound[..sound.len() * part * 2 / some + part % 3].to_vec()));
    let (mut seen, mut harmless) = (0, 0);
    for bytes in damaged {
        fs::write(folder.file(), &bytes).unwrap();
        let (disk, said) = folder.open();
        let memory = store();
        for number in 0..150 {
            let Some(found) = body(disk.recall(&memory, key(number))) else { continue };
            let length = if number % 3 == 0 { 9000 } else { 30 };
            let right = if number < 10 { format!("body {number}").into_bytes() } else { vec![number as u8; length] };
            assert_eq!(found, right);
            let dropped = if number < 10 { number % 2 == 1 } else { number < 40 };
            assert!(!dropped, "{number} was dropped");
        }
        put(&disk, 1, &page("http://h/new", "n", vec![1; 20_000]), memory.moment());
        purge(&disk, &memory, Purge::Prefix("http://h/c/1".into()), How::Drop);
        purge(&disk, &memory, Purge::Tag("c".into()), How::Expire);
        assert!(!disk.usage().given_up, "{said:?}");
        if said.lock().unwrap().is_empty() {
            harmless += 1;
        } else {
            seen += 1;
        }
    }
    // Free pages, unused bytes, and bodies, which are looked at when they are wanted.
    assert!(seen > 20 && harmless > 5, "{seen} {harmless}");
}

#[test]
fn a_damaged_body_is_dropped_and_counted() {
    let (folder, memory) = (Folder::new(), store());
    let (disk, _) = folder.open();
    put(&disk, 1, &page("http://h/1", "", vec![0xaa; 20_000]), memory.moment());
    put(&disk, 2, &page("http://h/2", "", vec![0xbb; 20_000]), memory.moment());
    flush(&disk, &memory);
    drop(disk);
    let bytes = fs::read(folder.file()).unwrap();
    let at = bytes.windows(9000).position(|window| window.iter().all(|byte| *byte == 0xaa)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(folder.file()).unwrap();
    file.write_all_at(&[0xab], at as u64).unwrap();
    let (disk, said) = folder.open();
    assert!(disk.recall(&memory, key(1)).is_none());
    assert_eq!(body(disk.recall(&memory, key(2))).unwrap().len(), 20_000);
    flush(&disk, &memory);
    let usage = disk.usage();
    assert_eq!((usage.damaged, usage.responses, usage.hits), (1, 1, 1));
    assert_eq!(said.lock().unwrap().len(), 0);
}

/// A child that is being started has a copy of every descriptor until its exec.
#[test]
fn a_closed_folder_is_free_at_once() {
    let folder = Folder::new();
    let (disk, _) = folder.open();
    let of_a_child = disk.lock.lock().0.try_clone().unwrap();
    drop(disk);
    folder.open();
    drop(of_a_child);
}

/// Writers, an evictor and readers at the same keys: nobody sees what had been replaced, dropped or purged when he
/// began to look.
#[test]
fn what_is_past_never_comes_back() {
    use crate::caching::Cache;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    const KEYS: u64 = 8;
    let folder = Folder::new();
    let (disk, _) = folder.open();
    let cache = Cache::with_disk(64 << 20, disk).unwrap();
    // Versions below this are past.
    let least: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let over = Arc::new(AtomicBool::new(false));
    let url = |number: u64| format!("http://h/{number}");
    let version = |kept: &Entry| match kept {
        Entry::Response(stored) => String::from_utf8_lossy(stored.whole().unwrap()).parse::<u64>().unwrap(),
        _ => panic!("no response"),
    };

    let looking = (0..3).map(|nth| {
        let (cache, least, over) = (cache.clone(), least.clone(), over.clone());
        std::thread::spawn(move || {
            let mut found = 0_u64;
            for number in (0..KEYS).cycle() {
                if over.load(SeqCst) {
                    return found;
                }
                let past = least[number as usize].load(SeqCst);
                let disk = cache.disk().unwrap();
                let found_now = cache.store.get(key(number)).or_else(|| disk.recall(&cache.store, key(number)));
                if nth == 0 {
                    // As if memory had needed the room.
                    cache.store.remove(key(number));
                }
                if let Some(kept) = found_now {
                    assert!(version(&kept) >= past, "{} of {number} is past {past}", version(&kept));
                    found += 1;
                }
            }
            found
        })
    });
    let looking: Vec<_> = looking.collect();
    let writing = (0..2).map(|half| {
        let (cache, least) = (cache.clone(), least.clone());
        std::thread::spawn(move || {
            for round in 1..1500_u64 {
                let number = half + 2 * (round % (KEYS / 2));
                let moment = cache.store.moment();
                let _ = cache.put(key(number), page(&url(number), "t", round.to_string().into()), moment, false);
                least[number as usize].store(round, SeqCst);
                match round % 7 {
                    1 => cache.take(key(number), false),
                    2 => drop(cache.purge_soon(&Purge::Url(url(number)), How::Drop)),
                    3 => drop(cache.purge(&Purge::Url(url(number)), How::Drop)),
                    _ => continue,
                }
                least[number as usize].store(round + 1, SeqCst);
            }
        })
    });
    writing.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    over.store(true, SeqCst);
    let found: u64 = looking.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(found > 0);
    cache.close();
    drop(cache);
    let (disk, _) = folder.open();
    for number in 0..KEYS {
        if let Some(kept) = disk.recall(&store(), key(number)) {
            assert!(version(&kept) >= least[number as usize].load(SeqCst));
        }
    }
}
