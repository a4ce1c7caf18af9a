//! After the disk's part was given up: nothing of its file stays on the disk.

use std::os::unix::fs::MetadataExt;

use super::*;

/// Files below the folder that this process has open although they were deleted, and the bytes that they take.
fn deleted_files(folder: &Path) -> Vec<u64> {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    let is_deleted = |link: &PathBuf| {
        let target = fs::read_link(link).unwrap_or_default();
        target.starts_with(folder) && target.to_string_lossy().ends_with(" (deleted)")
    };
    open.filter(is_deleted).filter_map(|link| Some(fs::metadata(link).ok()?.blocks() * 512)).collect()
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
    assert!(fs::metadata(folder.file()).unwrap().blocks() * 512 > 1 << 20);
    give_up(&disk, &heed::Error::Io(std::io::Error::from_raw_os_error(28)));
    assert!(said.lock().unwrap()[0].contains("No space left on device"));
    flush(&disk, &memory);
    let taken = deleted_files(&folder.0);
    assert!(!taken.is_empty() && taken.iter().all(|bytes| *bytes == 0), "{taken:?}");
    // It goes on, without the file.
    put(&disk, 1, &page("http://h/1", "", vec![1; 30]), memory.moment());
    flush(&disk, &memory);
    assert!(disk.recall(&memory, key(1)).is_none() && disk.origins().is_empty());
    assert_eq!((disk.usage().bytes, disk.usage().given_up), (0, true));
}
