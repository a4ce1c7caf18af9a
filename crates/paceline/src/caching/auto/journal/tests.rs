//! Frames of an application, whole, cut short and too many, through a socket.

use super::*;
use crate::support::account_share::AccountShare;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes().to_vec();
    frame.push(kind);
    frame.extend(payload);
    frame
}

#[test]
fn an_intent_is_answered_and_damage_ends_the_connection() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (auto, _answers) = AutoCache::for_tests();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let talk = tokio::spawn({
            let auto = auto.clone();
            async move { converse(theirs, 1, &auto).await }
        });
        ours.write_all(&frame(INTENT, b"7-1\0S\0\0DELETE FROM a\x000\0")).await.unwrap();
        let mut ack = vec![0; 9];
        ours.read_exact(&mut ack).await.unwrap();
        assert_eq!(ack, frame(ACK, b"7-1\0"));
        let before = auto.moment.load(Relaxed);
        ours.write_all(&frame(DONE, b"7-1\0commit\0")).await.unwrap();
        ours.write_all(&frame(RELEASE, b"r1\0")).await.unwrap();
        let mut ack = vec![0; 8];
        ours.read_exact(&mut ack).await.unwrap();
        assert_eq!(ack, frame(ACK, b"r1\0"));
        ours.write_all(&frame(SCHEMA, b"nonsense")).await.unwrap();
        ours.write_all(&frame(0x99, b"")).await.unwrap();
        assert!(talk.await.unwrap().is_err());
        // The write, and twice that nobody knows what was before.
        assert_eq!(auto.moment.load(Relaxed), before + 3);
    });
}

#[test]
fn a_schema_that_was_read_before_a_change_of_it_counts_for_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (auto, _answers) = AutoCache::for_tests();
        let says = |kind, process, payload: &[u8]| obey(kind, payload, process, &auto).unwrap().map(<[u8]>::to_vec);
        let knows = || auto.with(|watch| watch.knows_schema());
        let schema = |id: &str| [id.as_bytes(), b"\0D\0sqlite\0T\0a\0C\0id\0INTEGER\0?\0"].concat();
        assert_eq!(says(READING, 1, b"1-1\0"), Some(b"1-1\0".to_vec()));
        assert_eq!(says(INTENT, 2, b"2-1\0S\0\0ALTER TABLE a ADD b\x000\0"), Some(b"2-1\0".to_vec()));
        assert_eq!(says(DONE, 2, b"2-1\0commit\0"), None);
        assert_eq!((says(SCHEMA, 1, &schema("1-1")), knows()), (None, false));
        says(READING, 2, b"2-2\0");
        says(SCHEMA, 2, &schema("2-2"));
        assert!(knows());
        // A connection has ended, and what it began is no other one's.
        auto.processes.fetch_add(1, Relaxed);
        says(INTENT, 2, b"2-3\0S\0\0DROP TABLE a\x000\0");
        says(DONE, 2, b"2-3\0commit\0");
        says(READING, 2, b"2-4\0");
        ended(2, &auto).await;
        says(SCHEMA, 2, &schema("2-4"));
        says(SCHEMA, 3, &schema("2-4"));
        assert!(!knows());
    });
}

#[test]
fn a_write_of_which_nobody_knows_what_came_is_under_way_for_longer() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (auto, _answers) = AutoCache::for_tests();
        let writes = || auto.with(|watch| (watch.has_begun(1), watch.writes()));
        for (id, outcome) in [("1", "commit"), ("2", "unknown")] {
            obey(INTENT, format!("{id}\0S\0\0DELETE FROM a\x000\0").as_bytes(), 1, &auto).unwrap();
            obey(DONE, format!("{id}\0{outcome}\0").as_bytes(), 1, &auto).unwrap();
        }
        assert_eq!(writes(), (true, 1));
        tokio::time::sleep(AFTERMATH - Duration::from_millis(10)).await;
        assert_eq!(writes(), (true, 1));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(writes(), (false, 2));
    });
}

#[test]
fn a_commit_that_nobody_has_announced_drops_pages() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (auto, _answers) = AutoCache::for_tests();
        let path = std::env::temp_dir().join(format!("paceline-{}.sqlite3", uuid::Uuid::new_v4().simple()));
        let commit = |number: u8| {
            let mut header = [0; 28];
            header[..16].copy_from_slice(b"SQLite format 3\0");
            header[27] = number;
            std::fs::OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .and_then(|file| std::os::unix::fs::FileExt::write_all_at(&file, &header, 0))
                .unwrap();
        };
        let says = |kind, payload: &str| assert!(obey(kind, payload.as_bytes(), 1, &auto).is_ok());
        let dropped = || auto.moment.load(Relaxed);
        commit(1);
        says(DATABASE, &format!("{}\0", path.display()));
        says(INTENT, "1\0S\0\0DELETE FROM a\x000\0");
        commit(2);
        auto.look_at_databases();
        assert_eq!(dropped(), 0, "it was announced");
        commit(3);
        says(DONE, "1\0commit\0");
        auto.look_at_databases();
        assert_eq!(dropped(), 1, "the announced one alone");
        commit(4);
        says(INTENT, "2\0S\0\0DELETE FROM a\x000\0");
        assert_eq!(dropped(), 2, "it came before the announcement");
        says(DONE, "2\0commit\0");
        commit(5);
        auto.look_at_databases();
        auto.look_at_databases();
        assert_eq!(dropped(), 4);
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn nothing_is_shown_while_processes_are_not_let_in() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (auto, _answers) = AutoCache::for_tests();
        let path = std::env::temp_dir().join(format!("paceline-{}.sock", uuid::Uuid::new_v4().simple()));
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (places, fails) = (Arc::new(Semaphore::new(1)), AtomicBool::new(true));
        tokio::select! {
            biased;
            () = accept(listener, &auto, &places, &fails) => {}
            () = tokio::task::yield_now() => {}
        }
        assert!(!fails.load(Relaxed), "nobody waits");
        fails.store(true, Relaxed);
        auto.trust.joined(1, "r1");
        auto.trust.agreed();
        tokio::select! {
            () = beat(&auto, &places, &fails) => {}
            () = tokio::time::sleep(3 * BEAT) => {}
        }
        assert!(!auto.is_trusted());
        fails.store(false, Relaxed);
        tokio::select! {
            () = beat(&auto, &places, &fails) => {}
            () = async { while !auto.is_trusted() { tokio::task::yield_now().await } } => {}
        }
    });
}

#[tokio::test(start_paused = true)]
async fn half_a_frame_is_held_for_ten_seconds_and_all_of_them_have_a_bound() {
    let (auto, _answers) = AutoCache::for_tests();
    let begin = |length: u32| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let auto = auto.clone();
        let talking = tokio::spawn(async move { converse(theirs, 1, &auto).await });
        async move {
            let mut ours = ours;
            ours.write_all(&[&length.to_be_bytes()[..], &[SCHEMA, 0]].concat()).await.unwrap();
            (ours, talking)
        }
    };
    let largest = MAX_FRAME as u32;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(begin(largest).await);
    }
    while auto.reading.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let began = tokio::time::Instant::now();
    for (_ours, talking) in held {
        assert_eq!(talking.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    assert_eq!(began.elapsed().as_secs(), FRAME_TIME.as_secs());
    assert_eq!(auto.reading.available_permits(), MAX_READ, "nothing of them is left");
}

#[tokio::test]
async fn sites_of_an_account_share_what_it_may_have_read_and_connected() {
    let account: &AccountShare = Box::leak(Box::new(AccountShare::new(1, 100 << 10, 0)));
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    ours.write_all(&frame(SCHEMA, &[0; 80 << 10])).await.unwrap();
    let site = || Arc::new(Semaphore::new(MAX_READ));
    let first = theirs.read_u8().await.unwrap();
    let held = super::frame(&mut theirs, first, [&site(), &account.announced]).await.unwrap();
    ours.write_all(&frame(SCHEMA, &[0; 80 << 10])).await.unwrap();
    let first = theirs.read_u8().await.unwrap();
    let of_site = site();
    let mut second = std::pin::pin!(super::frame(&mut theirs, first, [&of_site, &account.announced]));
    let waits = tokio::time::timeout(Duration::from_millis(50), &mut second).await;
    assert!(waits.is_err(), "another site of the account has it");
    drop(held);
    assert_eq!(second.await.unwrap().1.len(), 80 << 10);

    // While no connection is free, a process may be waiting to announce a write: no page is shown.
    let (mut auto, _answers) = AutoCache::for_tests();
    Arc::get_mut(&mut auto).unwrap().account = account;
    let path = std::env::temp_dir().join(format!("paceline-{}.sock", uuid::Uuid::new_v4().simple()));
    let listener = UnixListener::bind(&path).unwrap();
    let (places, fails) = (Arc::new(Semaphore::new(9)), AtomicBool::new(false));
    let taken = auto.account.connections.clone().acquire_owned().await.unwrap();
    let _waiting = UnixStream::connect(&path).await.unwrap();
    let mut accepting = std::pin::pin!(accept(listener, &auto, &places, &fails));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut accepting).await.is_err());
    assert_eq!((fails.load(Relaxed), auto.processes.load(Relaxed)), (true, 0));
    drop(taken);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut accepting).await.is_err());
    assert_eq!(auto.processes.load(Relaxed), 1);
    std::fs::remove_file(path).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_of_a_process_has_a_bound() {
    let (auto, _answers) = AutoCache::for_tests();
    for kind in [INTENT, DONE, READING, RELEASE, DATABASE] {
        let long = format!("/{}\0\0", "x".repeat(MAX_FIELD));
        assert!(obey(kind, long.as_bytes(), 1, &auto).is_err(), "{kind:x}");
    }
    let unknown = |nth: usize| obey(DONE, format!("{nth}\0unknown\0").as_bytes(), 1, &auto).is_ok();
    assert_eq!((0..MAX_UNKNOWN + 9).filter(|nth| unknown(*nth)).count(), MAX_UNKNOWN);
    tokio::time::sleep(2 * AFTERMATH).await;
    assert!(unknown(0), "they are over");
}

#[tokio::test(start_paused = true)]
async fn silence_between_two_frames_is_no_fault() {
    let (auto, _answers) = AutoCache::for_tests();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let talking = tokio::spawn(async move { converse(theirs, 1, &auto).await });
    tokio::time::sleep(100 * FRAME_TIME).await;
    assert!(!talking.is_finished());
    ours.write_all(b"\0\0\0\x03\x65r1\0").await.unwrap();
    ours.read_exact(&mut [0; 8]).await.unwrap();
    drop(ours);
    assert_eq!(talking.await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn what_is_too_long_is_not_read() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (auto, _answers) = AutoCache::for_tests();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[0xff, 0, 0, 0, SCHEMA]).await.unwrap();
        assert_eq!(converse(theirs, 1, &auto).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    });
}
