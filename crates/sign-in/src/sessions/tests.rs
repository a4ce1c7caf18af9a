//! Sessions by their rules, in a file. The stores themselves are tried in `tests/stores`.

use std::{path::PathBuf, sync::atomic::AtomicU32};

use super::*;
use crate::{FileStore, Identity, Mechanism, Secret};

const LIMITS: Limits = Limits { lifetime: 100_000, idle: Some(16_000), ..Limits::DEFAULT };

/// A folder that is removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("paceline-sessions-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(FileStore::open(&self.0.join("sessions"), 100).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn provider() -> Provider {
    Provider { issuer: "https://id.example".into(), client_id: "shop".into() }
}

fn proof(name: &str, sid: &str) -> NewSession {
    NewSession {
        identity: Identity {
            name: name.into(),
            groups: vec!["staff".into()],
            subject: Some(format!("sub-{name}")),
            sid: Some(sid.into()),
        },
        mechanism: Mechanism::OpenId,
        provider: Some(provider()),
        proved_until: Some(10_000),
        refresh_token: Some(Secret::new("refresh")),
        id_token: None,
    }
}

fn logout(subject: Option<&str>, sid: Option<&str>, token: &str) -> Logout {
    Logout {
        provider: provider(),
        subject: subject.map(str::to_owned),
        sid: sid.map(str::to_owned),
        token: token.into(),
        expires: 50_000,
    }
}

#[tokio::test]
async fn a_session_is_found_by_its_id_until_it_ends() {
    let folder = Folder::new();
    let sessions = Sessions::new(folder.store(), LIMITS, "shop");
    let (id, _) = sessions.sign_in(proof("alice", "s1"), 0).await.unwrap();
    assert_eq!(sessions.find_cached(&id, 10).unwrap().identity.name, "alice");
    assert_eq!(sessions.find(&id, 10).await.unwrap().unwrap().identity.groups, ["staff"]);
    assert!(sessions.find(&SessionId::random(), 10).await.unwrap().is_none());
    assert!(sessions.find(&id, 16_000).await.unwrap().is_none(), "idle for too long");
}

#[tokio::test]
async fn use_keeps_a_session_but_not_beyond_its_lifetime() {
    let folder = Folder::new();
    let sessions = Sessions::new(folder.store(), LIMITS, "shop");
    let (id, _) = sessions.sign_in(proof("alice", "s1"), 0).await.unwrap();
    for now in (10_000..100_000).step_by(10_000) {
        assert!(sessions.find(&id, now).await.unwrap().is_some(), "{now}");
    }
    assert!(sessions.find(&id, 99_999).await.unwrap().is_some());
    assert!(sessions.find(&id, 100_000).await.unwrap().is_none());
}

#[tokio::test]
async fn another_process_sees_it_and_ends_it() {
    let folder = Folder::new();
    let store = folder.store();
    const LIMITS: Limits = Limits { idle: None, ..Limits::DEFAULT };
    let (one, other) = (Sessions::new(store.clone(), LIMITS, "shop"), Sessions::new(store, LIMITS, "shop"));
    let (id, _) = one.sign_in(proof("alice", "s1"), 0).await.unwrap();
    assert!(other.find(&id, 1).await.unwrap().is_some());
    assert_eq!(other.sign_out(&id, 1).await.unwrap().unwrap().identity.name, "alice");
    assert!(other.find(&id, 1).await.unwrap().is_none());
    // The first one has it in memory, for as long as the documentation says.
    assert!(one.find(&id, LIMITS.cache_time - 1).await.unwrap().is_some());
    assert!(one.find(&id, LIMITS.cache_time).await.unwrap().is_none());
}

#[tokio::test]
async fn a_session_of_another_site_is_none_here() {
    let folder = Folder::new();
    let store = folder.store();
    let (shop, wiki) = (Sessions::new(store.clone(), LIMITS, "shop"), Sessions::new(store, LIMITS, "wiki"));
    let (id, _) = shop.sign_in(proof("alice", "s1"), 0).await.unwrap();
    assert!(wiki.find(&id, 1).await.unwrap().is_none());
    assert!(wiki.sign_out(&id, 1).await.unwrap().is_none());
    assert!(shop.find(&id, 1).await.unwrap().is_some(), "nor can it be ended there");
}

#[tokio::test]
async fn the_provider_ends_one_session_or_all_of_a_person_and_once() {
    let folder = Folder::new();
    let sessions = Sessions::new(folder.store(), LIMITS, "shop");
    let mut ids = Vec::new();
    for (name, sid) in [("alice", "s1"), ("alice", "s2"), ("alice", "s3"), ("bob", "s4")] {
        ids.push(sessions.sign_in(proof(name, sid), 0).await.unwrap().0);
    }
    let found = async |number: usize| sessions.find(&ids[number], 1).await.unwrap().is_some();
    assert_eq!(sessions.log_out(&logout(Some("sub-alice"), Some("s1"), "t1"), 1).await.unwrap(), Some(1));
    assert!(!found(0).await && found(1).await && found(3).await);
    assert_eq!(sessions.log_out(&logout(Some("sub-alice"), None, "t2"), 1).await.unwrap(), Some(2));
    assert!(!found(1).await && !found(2).await && found(3).await);
    assert_eq!(sessions.log_out(&logout(Some("sub-bob"), None, "t2"), 1).await.unwrap(), None, "a token counts once");
    assert!(found(3).await);
    let foreign =
        Logout { provider: Provider { client_id: "wiki".into(), ..provider() }, ..logout(None, Some("s4"), "t3") };
    assert_eq!(sessions.log_out(&foreign, 1).await.unwrap(), Some(0), "nor is it for another client");
    assert!(found(3).await);
    assert_eq!(sessions.log_out_name("bob").await.unwrap(), 1);
    assert!(!found(3).await);
}

#[tokio::test]
async fn one_request_alone_confirms_a_session() {
    let folder = Folder::new();
    let sessions = Sessions::new(folder.store(), LIMITS, "shop");
    let (id, session) = sessions.sign_in(proof("alice", "s1"), 0).await.unwrap();
    assert!(session.refresh_token.is_none(), "a request has no use for it");
    assert!(sessions.confirm(&id, &session, 9_999).await.unwrap().is_none(), "it is not time yet");
    let full = sessions.confirm(&id, &session, 10_000).await.unwrap().unwrap();
    assert!(full.refresh_token.as_ref().is_some_and(|token| token.is("refresh")));
    assert!(sessions.confirm(&id, &session, 10_001).await.unwrap().is_none());
    let mut newer = proof("alice", "s1");
    newer.proved_until = Some(20_000);
    newer.refresh_token = Some(Secret::new("newer"));
    let renewed = sessions.renew(&id, &full, newer, 10_001).await.unwrap().unwrap();
    assert_eq!(renewed.confirm_at, Some(20_000));
    let found = sessions.find(&id, 10_002).await.unwrap().unwrap();
    let full = sessions.confirm(&id, &found, 20_000).await.unwrap().expect("the next time counts again");
    assert!(full.refresh_token.as_ref().is_some_and(|token| token.is("newer")));
}

#[tokio::test]
async fn who_has_an_older_session_in_memory_does_not_confirm_it_again() {
    let folder = Folder::new();
    let store = folder.store();
    let (one, other) = (Sessions::new(store.clone(), LIMITS, "shop"), Sessions::new(store, LIMITS, "shop"));
    let (id, old) = one.sign_in(proof("alice", "s1"), 0).await.unwrap();
    let full = other.confirm(&id, &old, 10_000).await.unwrap().unwrap();
    let mut newer = proof("alice", "s1");
    newer.proved_until = Some(90_000);
    other.renew(&id, &full, newer, 10_000).await.unwrap().unwrap();
    assert!(other.find(&id, 20_000).await.unwrap().is_some());
    // The mark of the first time has expired.
    assert!(one.confirm(&id, &old, 10_000 + CONFIRMING).await.unwrap().is_none());
}

#[tokio::test]
async fn a_renewal_does_not_bring_back_what_was_ended() {
    let folder = Folder::new();
    let store = folder.store();
    let sessions = Sessions::new(store.clone(), LIMITS, "shop");
    let (id, session) = sessions.sign_in(proof("alice", "s1"), 0).await.unwrap();
    let ended = Sessions::new(store, LIMITS, "shop").sign_out(&id, 1).await.unwrap().unwrap();
    assert!(ended.refresh_token.is_some(), "the provider can be told");
    assert!(sessions.renew(&id, &session, proof("alice", "s1"), 2).await.unwrap().is_none());
    assert!(sessions.find(&id, 3).await.unwrap().is_none());
}

#[tokio::test]
async fn a_login_is_taken_once_by_the_browser_that_began_it() {
    let folder = Folder::new();
    let sessions = Sessions::new(folder.store(), LIMITS, "shop");
    let (browser, other) = (SessionId::random(), SessionId::random());
    sessions.begin_login(&browser, "state-1", b"first tab", 0).await.unwrap();
    sessions.begin_login(&browser, "state-2", b"second tab", 0).await.unwrap();
    assert!(sessions.take_login(&other, "state-1", 1).await.unwrap().is_none());
    assert!(sessions.take_login(&browser, "state-3", 1).await.unwrap().is_none());
    let taken = sessions.take_login(&browser, "state-1", 1).await.unwrap();
    assert_eq!(taken.as_deref().map(Vec::as_slice), Some(&b"first tab"[..]));
    assert!(sessions.take_login(&browser, "state-1", 1).await.unwrap().is_none(), "once");
    assert!(sessions.take_login(&browser, "state-2", LIMITS.login_time).await.unwrap().is_none(), "too late");
}

#[tokio::test]
async fn the_file_gives_away_neither_ids_nor_names_nor_tokens() {
    let folder = Folder::new();
    let sessions = Sessions::new(folder.store(), LIMITS, "shop");
    let (id, _) = sessions.sign_in(proof("alice.of.wonderland", "sid-of-alice"), 0).await.unwrap();
    sessions.begin_login(&id, "the-state-of-it", b"the verifier", 0).await.unwrap();
    let bytes = std::fs::read(folder.0.join("sessions")).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(&id.key().0), "this is what is looked for");
    for text in ["alice", "sid-of-alice", "refresh", "staff", "the-state-of-it", "the verifier", &id.to_text()] {
        assert!(!has(text.as_bytes()), "{text}");
    }
    assert!(!has(id.bytes()));
}
