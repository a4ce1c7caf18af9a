//! What each store has to do.

use sign_in::{Key, Record, SessionId, Store};

use crate::now;

fn record(text: &str, expires: u64, indexes: &[Key]) -> Record {
    Record { sealed: text.as_bytes().to_vec(), expires, ends: expires + 1_000_000, indexes: indexes.to_vec() }
}

async fn content(store: &dyn Store, key: Key) -> Option<String> {
    let found = store.get(key, now()).await.unwrap()?;
    Some(String::from_utf8(found.sealed).unwrap())
}

/// Logins that the store is opened for.
pub const MAX_LOGINS: usize = 3;

/// Tries all of it.
pub async fn keep(store: &dyn Store) {
    sessions(store).await;
    indexes(store).await;
    logins(store).await;
    marks(store).await;
}

async fn sessions(store: &dyn Store) {
    let key = SessionId::random().key();
    let later = now() + 60_000;
    assert_eq!(content(store, key).await, None);
    assert!(!store.update(key, record("ghost", later, &[]), now()).await.unwrap(), "nothing is there to be replaced");
    assert!(!store.touch(key, later, now()).await.unwrap());
    assert_eq!(content(store, key).await, None);

    store.insert(key, record("first", later, &[])).await.unwrap();
    let found = store.get(key, now()).await.unwrap().unwrap();
    assert_eq!(found.sealed, b"first");
    assert!(found.expires.abs_diff(later) < 2_000, "{} instead of {later}", found.expires);
    assert!(store.update(key, record("second", later, &[]), now()).await.unwrap());
    assert_eq!(content(store, key).await.as_deref(), Some("second"));
    assert!(store.touch(key, later + 60_000, now()).await.unwrap());
    assert!(store.get(key, now()).await.unwrap().unwrap().expires > later + 50_000);
    assert!(store.remove(key, Vec::new()).await.unwrap());
    assert!(!store.remove(key, Vec::new()).await.unwrap());
    assert_eq!(content(store, key).await, None);

    store.insert(key, record("expired", now() - 1, &[])).await.unwrap();
    assert_eq!(content(store, key).await, None, "it has expired");
    assert!(!store.update(key, record("again", later, &[]), now()).await.unwrap(), "and stays so");
    assert!(!store.touch(key, later, now()).await.unwrap());
}

async fn indexes(store: &dyn Store) {
    let (alice, bob) = (SessionId::random().key(), SessionId::random().key());
    let keys: Vec<Key> = (0..4).map(|_| SessionId::random().key()).collect();
    let later = now() + 60_000;
    for (number, indexes) in [(0, &[alice][..]), (1, &[alice, bob]), (2, &[alice]), (3, &[bob])] {
        store.insert(keys[number], record("session", later, indexes)).await.unwrap();
    }
    assert!(store.update(keys[1], record("replaced", later, &[alice, bob]), now()).await.unwrap());
    assert!(store.touch(keys[2], later + 1_000, now()).await.unwrap());
    assert!(store.remove(keys[0], vec![alice]).await.unwrap());

    let mut removed = store.remove_indexed(alice).await.unwrap();
    removed.sort();
    let mut expected = vec![keys[1], keys[2]];
    expected.sort();
    assert_eq!(removed, expected);
    assert_eq!(content(store, keys[1]).await, None);
    assert_eq!(content(store, keys[2]).await, None);
    assert_eq!(content(store, keys[3]).await.as_deref(), Some("session"));
    assert_eq!(store.remove_indexed(alice).await.unwrap(), []);
    assert_eq!(store.remove_indexed(bob).await.unwrap(), [keys[3]]);
}

async fn logins(store: &dyn Store) {
    let keys: Vec<Key> = (0..5).map(|_| SessionId::random().key()).collect();
    let later = now() + 60_000;
    store.insert_login(keys[4], b"expired".to_vec(), now() - 1, now()).await.unwrap();
    assert_eq!(store.take_login(keys[4], now()).await.unwrap(), None);
    // One more than there is place for: the one that expires first makes room.
    for (number, key) in keys[..=MAX_LOGINS].iter().enumerate() {
        store.insert_login(*key, vec![number as u8], later + number as u64, now()).await.unwrap();
    }
    assert_eq!(store.take_login(keys[0], now()).await.unwrap(), None);
    for (number, key) in keys[..=MAX_LOGINS].iter().enumerate().skip(1) {
        assert_eq!(store.take_login(*key, now()).await.unwrap(), Some(vec![number as u8]));
        assert_eq!(store.take_login(*key, now()).await.unwrap(), None, "taken once");
    }
}

async fn marks(store: &dyn Store) {
    let key = SessionId::random().key();
    let later = now() + 60_000;
    assert!(store.mark(key, later, now()).await.unwrap());
    assert!(!store.mark(key, later, now()).await.unwrap());
    store.unmark(key).await.unwrap();
    assert!(store.mark(key, later, now()).await.unwrap());
    assert!(!store.mark(key, later, now()).await.unwrap());
}
