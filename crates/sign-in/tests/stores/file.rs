//! Sessions in a file.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use sign_in::{FileStore, Record, SessionId, Store, Swept};

use crate::law::{self, MAX_LOGINS};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("paceline-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("sessions")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(expires: u64) -> Record {
    Record { sealed: vec![7; 100], expires, ends: expires, indexes: vec![SessionId::random().key()] }
}

#[tokio::test]
async fn it_keeps_the_law_and_what_is_in_it() {
    let folder = Folder::new("file-law");
    let key = SessionId::random().key();
    let store = FileStore::open(&folder.file(), MAX_LOGINS).unwrap();
    law::keep(&store).await;
    store.insert(key, record(u64::MAX)).await.unwrap();
    drop(store);
    let again = FileStore::open(&folder.file(), MAX_LOGINS).unwrap();
    assert!(again.get(key, 0).await.unwrap().is_some(), "it survives the end of the process");
}

#[tokio::test]
async fn sweeping_removes_what_has_expired_with_all_that_belongs_to_it() {
    let folder = Folder::new("file-sweep");
    let store = FileStore::open(&folder.file(), 1_000).unwrap();
    let key = || SessionId::random().key();
    for number in 0..10 {
        store.insert(key(), record(100 + number)).await.unwrap();
        store.insert_login(key(), vec![1], 100 + number, 0).await.unwrap();
        assert!(store.mark(key(), 100 + number, 0).await.unwrap());
    }
    let kept = key();
    store.insert(kept, record(150)).await.unwrap();
    assert!(store.touch(kept, 500, 0).await.unwrap());
    assert_eq!(store.sweep(104).await.unwrap(), Swept { sessions: 5, logins: 5, marks: 5 });
    assert_eq!(store.sweep(104).await.unwrap(), Swept::default());
    assert_eq!(store.sweep(200).await.unwrap(), Swept { sessions: 5, logins: 5, marks: 5 });
    assert!(store.get(kept, 200).await.unwrap().is_some(), "it was used meanwhile");
    assert_eq!(store.sweep(500).await.unwrap(), Swept { sessions: 1, ..Swept::default() });
    // Nothing is left, no index either.
    drop(store);
    let left = paceline_store::Store::open(&folder.file(), &paceline_store::Options::default()).unwrap();
    assert_eq!(left.snapshot(true).unwrap().len().unwrap(), 0);
}

#[tokio::test]
async fn many_at_once_take_a_login_and_one_gets_it() {
    let folder = Folder::new("file-many");
    let stores: Vec<Arc<FileStore>> = (0..1).map(|_| Arc::new(FileStore::open(&folder.file(), 10).unwrap())).collect();
    let key = SessionId::random().key();
    stores[0].insert_login(key, vec![1], 100, 0).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let store = stores[number % stores.len()].clone();
            tokio::spawn(async move { store.take_login(key, 1).await.unwrap() })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        taken += usize::from(task.await.unwrap().is_some());
    }
    assert_eq!(taken, 1);
}

#[test]
fn a_file_that_others_can_read_is_not_used() {
    let folder = Folder::new("file-mode");
    drop(FileStore::open(&folder.file(), 1).unwrap());
    assert_eq!(fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let error = FileStore::open(&folder.file(), 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("chmod 600") && error.contains("sessions"), "{error}");
}
