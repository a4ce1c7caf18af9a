//! A store alone: what is written and read, how it grows and how far, and what becomes of one that is damaged.

use super::*;
use std::fs;

/// A folder that goes with the test.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("paceline-store-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.join("records")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Change<'a> {
    Change { key, value: Some(value) }
}

#[test]
fn records_are_there_after_a_commit_and_as_they_were_in_a_snapshot() {
    let folder = Folder::new("records");
    let store = Store::open(&folder.file(), &Options::default()).unwrap();
    store.commit(&[put(b"a", b"1"), put(b"b", b"")], false).unwrap();
    let before = store.snapshot(true).unwrap();
    store
        .commit(&[put(b"a", b"2"), Change { key: b"b", value: None }, Change { key: b"none", value: None }], true)
        .unwrap();
    let after = store.snapshot(true).unwrap();
    let all = |snapshot: &Snapshot, from: &[u8]| {
        let mut found = Vec::new();
        snapshot
            .scan(from, |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                true
            })
            .unwrap();
        found
    };
    assert_eq!(
        (before.get(b"a").unwrap(), before.get(b"b").unwrap(), before.len().unwrap()),
        (Some(&b"1"[..]), Some(&b""[..]), 2)
    );
    assert_eq!((after.get(b"a").unwrap(), after.get(b"b").unwrap(), after.len().unwrap()), (Some(&b"2"[..]), None, 1));
    assert_eq!(all(&before, b""), [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), Vec::new())]);
    assert_eq!(all(&before, b"aa"), [(b"b".to_vec(), Vec::new())]);
    assert_eq!((after.get(b"").unwrap(), after.get(&[b'k'; 600]).unwrap()), (None, None));
}

#[test]
fn what_was_read_is_written_only_if_it_is_still_so() {
    let folder = Folder::new("expected");
    let store = Store::open(&folder.file(), &Options::default()).unwrap();
    store.commit(&[put(b"a", b"1"), put(b"empty", b"")], false).unwrap();
    let expected = |key, value| Expected { key, value };
    let new = [put(b"a", b"2"), put(b"b", b"2")];
    for changed in [
        expected(b"a", Some(&b"0"[..])),
        expected(b"a", Some(b"12")),
        expected(b"a", Some(b"")),
        expected(b"a", None),
        expected(b"empty", None),
        expected(b"none", Some(b"")),
    ] {
        let as_it_is = expected(b"empty", Some(b""));
        assert!(!store.commit_if(&[as_it_is, changed], &new, false).unwrap(), "{changed:?}");
        let now = store.snapshot(true).unwrap();
        assert_eq!((now.get(b"a").unwrap(), now.len().unwrap()), (Some(&b"1"[..]), 2));
    }
    let all = [expected(b"a", Some(b"1")), expected(b"empty", Some(b"")), expected(b"none", None)];
    assert!(store.commit_if(&all, &new, false).unwrap());
    let now = store.snapshot(true).unwrap();
    assert_eq!((now.get(b"a").unwrap(), now.get(b"b").unwrap()), (Some(&b"2"[..]), Some(&b"2"[..])));
    assert!(store.commit_if(&[expected(&[b'k'; 600], None)], &new, false).unwrap(), "no record has such a key");
}

#[test]
fn a_key_that_is_too_long_changes_nothing() {
    let folder = Folder::new("keys");
    let store = Store::open(&folder.file(), &Options::default()).unwrap();
    let error = store.commit(&[put(b"a", b"1"), put(&[b'k'; 600], b"2")], false).unwrap_err();
    assert_eq!(error.kind, Kind::Key);
    assert!(store.snapshot(true).unwrap().is_empty().unwrap());
}

#[test]
fn a_store_grows_by_itself_and_others_follow() {
    let folder = Folder::new("growth");
    let small = Options { map_size: 1 << 20, ..Options::default() };
    let store = Arc::new(Store::open(&folder.file(), &small).unwrap());
    store.commit(&[put(b"a", b"1")], false).unwrap();
    let reading = store.snapshot(true).unwrap();
    let writer = std::thread::spawn({
        let store = store.clone();
        // Waits for the snapshot to end.
        move || store.commit(&[put(b"b", &vec![7; 5 << 20])], false)
    });
    assert_eq!(reading.get(b"a").unwrap(), Some(&b"1"[..]));
    drop(reading);
    writer.join().unwrap().unwrap();
    assert_eq!(store.snapshot(true).unwrap().get(b"b").unwrap().map(<[u8]>::len), Some(5 << 20));
    assert_eq!(store.snapshot(true).unwrap().get(b"a").unwrap(), Some(&b"1"[..]));
}

#[test]
fn a_file_stays_below_its_bound_and_what_is_freed_is_used_again() {
    let folder = Folder::new("bound");
    let store = Store::open(&folder.file(), &Options { most: Some(1 << 20), ..Options::default() }).unwrap();
    let value = vec![7; 4000];
    let mut written = 0u32;
    let full = loop {
        match store.commit(&[put(&written.to_be_bytes(), &value)], false) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind, Kind::Full);
    let used = store.snapshot(true).unwrap().used().unwrap();
    assert!(written > 200 && used > u64::from(written) * 4096 && used < 1 << 20, "{written} in {used}");
    for number in 0..100u32 {
        store.commit(&[Change { key: &number.to_be_bytes(), value: None }], false).unwrap();
    }
    assert!(store.snapshot(true).unwrap().used().unwrap() <= used - 100 * 4096);
    for number in 0..50u32 {
        store.commit(&[put(&number.to_be_bytes(), &value)], false).unwrap();
    }
    assert!(fs::metadata(folder.file()).unwrap().len() <= 1 << 20);
}

#[test]
fn what_is_damaged_is_named_and_stays() {
    let folder = Folder::new("damaged");
    let options = Options::default();
    let store = Store::open(&folder.file(), &options).unwrap();
    store.commit(&[put(b"key", b"a value that can be found in the file"), put(b"other", b"sound")], true).unwrap();
    drop(store);
    let sound = fs::read(folder.file()).unwrap();
    let at = sound.windows(7).rposition(|bytes| bytes == b"a value").unwrap();

    let mut flipped = sound.clone();
    flipped[at] ^= 1;
    fs::write(folder.file(), &flipped).unwrap();
    let store = Store::open(&folder.file(), &options).unwrap();
    let snapshot = store.snapshot(true).unwrap();
    assert_eq!(snapshot.get(b"key").unwrap_err().kind, Kind::Damaged);
    assert_eq!(snapshot.get(b"other").unwrap(), Some(&b"sound"[..]));
    drop((snapshot, store));

    for (damaged, verify_up_to) in
        [(&sound[..sound.len() - 4096], u64::MAX), (&sound[..sound.len() - 4096], 0), (&sound[..5000], 0)]
    {
        fs::write(folder.file(), damaged).unwrap();
        let error = Store::open(&folder.file(), &Options { verify_up_to, ..options.clone() }).err().unwrap();
        assert_eq!(error.kind, Kind::Damaged, "{} bytes: {error}", damaged.len());
        assert_eq!(fs::read(folder.file()).unwrap(), damaged);
    }

    fs::write(folder.file(), b"\x04\x08{\x00 and some more that is no store").unwrap();
    assert_eq!(Store::open(&folder.file(), &options).err().unwrap().kind, Kind::Foreign);
}
