//! After the disk's part was given up: nothing of its file stays on the disk, and it begins again with an empty one.

use std::{
    sync::mpsc::{channel, Receiver},
    time::Duration,
};

use super::{super::writer::try_again, *};
use crate::caching::{Cache, MadeBy};

const WITHIN: Duration = Duration::from_secs(60);

/// Files below the folder that this process has open although they were deleted.
fn deleted_files(folder: &Path) -> Vec<PathBuf> {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    let targets = open.filter_map(|link| fs::read_link(link).ok());
    targets.filter(|to| to.starts_with(folder) && to.to_string_lossy().ends_with(" (deleted)")).collect()
}

fn no_space() -> heed::Error {
    heed::Error::Io(std::io::Error::from_raw_os_error(28))
}

fn cache(folder: &Folder) -> (Arc<Cache>, Receiver<String>) {
    let (say, said) = channel();
    let disk = Disk::open(&folder.0, SIZE, Arc::new(move |line| say.send(line).unwrap())).unwrap();
    (Cache::with_disk(64 << 20, disk).unwrap(), said)
}

fn keep(cache: &Cache, number: u64, tag: &str) {
    let url = format!("http://h/{number}");
    let _ = cache.put(key(number), page(&url, tag, format!("body {number}").into()), cache.store.moment(), false);
}

/// All that waits is done by then.
fn purge_nothing(cache: &Cache) {
    assert_eq!(cache.purge(&Purge::Url("http://h/none".into()), How::Drop), 0);
}

#[test]
fn a_file_that_is_given_up_takes_no_room_on_the_disk() {
    let folder = Folder::new();
    let (disk, said) = folder.open();
    let memory = store();
    for number in 0..100 {
        put(&disk, number, &page(&format!("http://h/{number}"), "", vec![1; 20_000]), memory.moment());
    }
    flush(&disk, &memory);
    give_up(&disk, &no_space());
    let line = said.lock().unwrap()[0].clone();
    assert!(line.contains("No space left on device (os error 28). Free disk space. It begins again, empty,"), "{line}");
    assert!(disk.recovery.lock().needed() > 2_000_000, "what the file had is not enough");
    flush(&disk, &memory);
    assert_eq!((folder.file().exists(), deleted_files(&folder.0)), (false, Vec::new()));
    // It goes on, without the file.
    put(&disk, 1, &page("http://h/1", "", vec![1; 30]), memory.moment());
    flush(&disk, &memory);
    assert!(disk.recall(&memory, key(1)).is_none() && disk.origins().is_empty());
    let usage = disk.usage();
    assert!(usage.bytes == 0 && usage.given_up && usage.again_in.is_some(), "{usage:?}");
}

#[test]
fn it_begins_again_with_an_empty_file() {
    let folder = Folder::new();
    let (cache, said) = cache(&folder);
    cache.note_code("shop", Some("one".into()));
    keep(&cache, 1, "");
    purge_nothing(&cache);
    let disk = cache.disk().unwrap();
    assert!(cache.may_recall() && disk.recall(&store(), key(1)).is_some());
    for _ in 0..2 {
        give_up(&disk, &no_space());
        assert!(said.recv_timeout(WITHIN).unwrap().starts_with("The cache's disk is off now: No space left on device"));
        assert!(!cache.may_recall());
        // There is no room for these, either.
        fs::remove_file(cache.codes_file().unwrap()).unwrap();
        keep(&cache, 2, "a");
        keep(&cache, 3, "b");
        assert_eq!(cache.purge(&Purge::Tag("a".into()), How::Drop), 1);
        disk.recovery.lock().bring_forward();
        disk.wake.notify_all();
        assert_eq!(said.recv_timeout(WITHIN).unwrap(), "The cache's disk is on again, with an empty file");
        assert!(cache.may_recall() && disk.usage().again_in.is_none());
        assert!([1, 2, 3].iter().all(|number| disk.recall(&store(), key(*number)).is_none()));
        keep(&cache, 4, "");
        purge_nothing(&cache);
        assert!(disk.recall(&store(), key(4)).is_some());
    }
    cache.close();
    drop((disk, cache));
    // The same keys, and of the same code.
    let (cache, said) = self::cache(&folder);
    assert!(cache.disk().unwrap().recall(&store(), key(4)).is_some());
    assert_eq!(cache.made_by("shop", None), MadeBy::Code("one".into()));
    cache.close();
    assert_eq!(said.try_iter().count(), 0);
}

#[test]
fn a_purge_of_everything_has_it_tried_at_once() {
    let folder = Folder::new();
    let (cache, said) = cache(&folder);
    let disk = cache.disk().unwrap();
    give_up(&disk, &no_space());
    said.recv_timeout(WITHIN).unwrap();
    disk.recovery.lock().forget_last_attempt();
    cache.purge(&Purge::Prefix("http://h/".into()), How::Drop);
    assert!(!disk.is_on());
    cache.purge(&Purge::All, How::Drop);
    assert_eq!(said.recv_timeout(WITHIN).unwrap(), "The cache's disk is on again, with an empty file");
    cache.close();
}

#[test]
fn an_attempt_that_fails_says_nothing_and_the_next_one_comes_later() {
    let folder = Folder::new();
    let (disk, said) = folder.open();
    give_up(&disk, &no_space());
    flush(&disk, &store());
    disk.recovery.lock().off(Instant::now(), u64::MAX);
    let before = disk.usage().again_in.unwrap();
    try_again(&disk, &|| panic!("it has begun"));
    assert!(!disk.is_on() && disk.usage().again_in.unwrap() > before + before / 2);
    assert!(!folder.file().exists());
    // There is room, but no folder.
    disk.recovery.lock().off(Instant::now(), 0);
    fs::remove_dir_all(&folder.0).unwrap();
    fs::write(&folder.0, "").unwrap();
    try_again(&disk, &|| panic!("it has begun"));
    assert!(!disk.is_on());
    fs::remove_file(&folder.0).unwrap();
    try_again(&disk, &|| ());
    assert!(disk.is_on());
    assert_eq!(said.lock().unwrap().len(), 2, "{said:?}");
    // This one's folder, though it is not the one of the start.
    let (say, said) = channel();
    assert!(Disk::open(&folder.0, SIZE, Arc::new(move |line| say.send(line).unwrap())).is_none());
    assert!(said.recv().unwrap().ends_with("another server has it"));
}
