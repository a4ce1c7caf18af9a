//! Prints what a request with a cookie costs: from the fields to the session in memory, and how long a file takes. It
//! asserts nothing: run it by hand, `cargo test -p sign-in --release --test hit_cost -- --ignored --nocapture`.

use std::{hint::black_box, sync::Arc, time::Instant};

use sign_in::{CookieName, FileStore, Identity, Limits, Mechanism, NewSession, Secret, SessionId, Sessions};

const REQUESTS: usize = 1_000_000;
/// All of them are in memory: 12 KB each.
const STORED: usize = 300;

#[tokio::test]
#[ignore = "prints figures"]
async fn of_a_request() {
    let folder = std::env::temp_dir().join(format!("paceline-hit-cost-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let store = Arc::new(FileStore::open(&folder.join("sessions"), 100).unwrap());
    let sessions = Sessions::new(store.clone(), Limits::default(), "shop");
    // As a person of a large provider: 200 groups and tokens of 8 KB.
    let proof = NewSession {
        identity: Identity {
            name: "alice".into(),
            groups: (0..200).map(|number| format!("00000000-0000-0000-0000-{number:012}")).collect(),
            subject: Some("1".into()),
            sid: Some("s".into()),
        },
        mechanism: Mechanism::OpenId,
        provider: None,
        proved_until: None,
        refresh_token: Some(Secret::new("r".repeat(1_000))),
        id_token: Some(Secret::new("t".repeat(8_000))),
    };
    let name = CookieName::of_session("shop");
    let begin = Instant::now();
    let mut ids: Vec<SessionId> = Vec::new();
    for _ in 0..STORED {
        ids.push(sessions.sign_in(proof.clone(), 0).await.unwrap().0);
    }
    let stored = begin.elapsed() / STORED as u32;
    let fields: Vec<String> = ids
        .iter()
        .map(|id| format!("theme=dark; _app_session=0123456789abcdef; {}={}", name.as_str(), &*id.to_text()))
        .collect();
    let begin = Instant::now();
    for number in 0..REQUESTS {
        let id = name.find([fields[number % STORED].as_bytes()]).unwrap();
        black_box(sessions.find_cached(&id, 1).unwrap());
    }
    let hit = begin.elapsed() / REQUESTS as u32;
    let begin = Instant::now();
    for number in 0..REQUESTS {
        black_box(name.remove_from(fields[number % STORED].as_bytes()));
    }
    let removed = begin.elapsed() / REQUESTS as u32;
    let cold = Sessions::new(store, Limits::default(), "shop");
    let begin = Instant::now();
    for id in &ids {
        black_box(cold.find(id, 1).await.unwrap().unwrap());
    }
    let read = begin.elapsed() / STORED as u32;
    println!("a cookie and its session in memory {hit:?}, taking the cookie out {removed:?}");
    println!("from the file {read:?}, a new session into the file {stored:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
