//! What the application's processes announce, on a Unix socket of their own: writes before they are committed, answered when
//! no page is kept any more that they touch; which code a worker has loaded; the schema of the database (docs/worker-protocol.md).
//! It believes nothing that is malformed: that connection is closed, and no page is shown any more.

use std::{
    ffi::OsStr,
    future::{poll_fn, Future},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        Arc,
    },
    task::Poll,
    time::Duration,
};

use ::auto_cache::wire::Malformed;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{
    trust::{Agreement, BEAT, WATCHING_BEAT},
    AutoCache, Mode, Notice,
};
use crate::support::clock;

pub(super) const INTENT: u8 = 0x61;
pub(super) const DONE: u8 = 0x62;
pub(super) const READING: u8 = 0x63;
pub(super) const SCHEMA: u8 = 0x64;
pub(super) const RELEASE: u8 = 0x65;
const DATABASE: u8 = 0x66;
const ACK: u8 = 0x71;

/// What a DONE says if it can't tell whether the write was committed.
const UNKNOWN: &[u8] = b"unknown";

/// What a RELEASE says after it if the process could not connect before, and may have written.
const MISSED: &[u8] = b"missed";

/// Bytes of a frame, at most.
const MAX_FRAME: usize = 8 << 20;
/// Bytes of a number, a load of the code or a path that is remembered.
const MAX_FIELD: usize = 4096;
/// Writes of a site of which nobody knows what came, and that are waited for.
pub(super) const MAX_UNKNOWN: usize = 4096;
/// Bytes of all frames of a site that are being read; those of all sites of an account have a bound, too. A frame that finds no room waits.
pub(super) const MAX_READ: usize = 16 << 20;
/// Time for a frame from its first byte to its last, and for its answer. Then the connection is closed.
const FRAME_TIME: Duration = Duration::from_secs(10);
/// Processes of a site that are connected at once. The rest waits in the socket's queue.
const MAX_PROCESSES: usize = 64;
/// A frame up to this size counts as so many bytes.
const SMALL: usize = 64 << 10;

/// Beats between two looks at databases that others may write to.
const LOOK: u64 = 2;
/// In mode watch, which shows no page, so that it need not know as soon.
const WATCHING_LOOK: u64 = 5;

/// How long a write that was announced counts as under way when its process is gone, or does not know what came of it: the
/// database may be about to do it.
const AFTERMATH: Duration = Duration::from_secs(5);

/// What a frame takes of the bytes that may be read, for as long as it is held: of its site's, and of its account's.
type Room = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Listens for as long as the future is polled.
pub async fn serve(listener: UnixListener, auto: Arc<AutoCache>) {
    let (places, fails) = (Arc::new(Semaphore::new(MAX_PROCESSES)), AtomicBool::new(false));
    tokio::join!(accept(listener, &auto, &places, &fails), beat(&auto, &places, &fails));
}

/// `fails`: processes may wait that are not let in, as while there are no descriptors for them.
async fn accept(listener: UnixListener, auto: &Arc<AutoCache>, places: &Arc<Semaphore>, fails: &AtomicBool) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let all = &auto.account.connections;
        fails.store(all.available_permits() == 0, Relaxed);
        let Ok(of_account) = all.clone().acquire_owned().await else { return };
        let accepted = poll_fn(|cx| {
            let accepted = listener.poll_accept(cx);
            fails.store(matches!(accepted, Poll::Ready(Err(_))), Relaxed);
            accepted
        });
        let Ok((stream, _)) = accepted.await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (process, auto) = (auto.next_process(), auto.clone());
        tokio::spawn(async move {
            auto.processes.fetch_add(1, Relaxed);
            if let Some(pid) = stream.peer_cred().ok().and_then(|peer| peer.pid()) {
                auto.trust.came(process, pid);
            }
            if converse(stream, process, &auto).await.is_err_and(|why| why.kind() == io::ErrorKind::InvalidData) {
                misunderstood(&auto);
            }
            ended(process, &auto).await;
            drop((place, of_account));
        });
    }
}

/// Shows that what processes write is read: what they had written before a beat began has had its turn when it ends.
async fn beat(auto: &AutoCache, places: &Semaphore, fails: &AtomicBool) {
    // In mode watch no page is shown, and databases are looked at before each comparison: now and then is for people who ask why.
    let (pause, look) = match auto.policy.mode {
        Mode::Watch => (WATCHING_BEAT, WATCHING_LOOK),
        _ => (BEAT, LOOK),
    };
    for number in 0_u64.. {
        let began = clock::now();
        let was_full = places.available_permits() == 0;
        tokio::time::sleep(pause).await;
        tokio::task::yield_now().await;
        if number % look == 0 {
            auto.look_at_databases();
            auto.name_unwatched();
        }
        if !was_full && places.available_permits() > 0 && !fails.load(Relaxed) {
            auto.trust.beat(began);
        }
    }
}

/// Nobody knows what this process writes.
fn misunderstood(auto: &AutoCache) {
    if auto.trust.break_off() {
        auto.change(|watch| watch.distrust(auto.next()));
        (auto.tell)(Notice::Misunderstood);
    }
}

/// However it has ended: what was announced and not done may have happened, or may happen yet.
pub(super) async fn ended(process: u64, auto: &AutoCache) {
    let agreement = auto.trust.left(process);
    agreed(agreement, auto);
    auto.catch_up();
    auto.processes.fetch_sub(1, Relaxed);
    if auto.change(|watch| watch.left(process)) {
        tokio::time::sleep(AFTERMATH).await;
        auto.change(|watch| watch.lost(process, auto.next()));
        auto.doubt_databases();
    }
}

fn agreed(agreement: Agreement, auto: &AutoCache) {
    if let Agreement::Begins(release) = agreement {
        auto.begin_release(&release);
        auto.trust.agreed();
        // What is missing is missed from the beginning on, and not when the first page is there.
        auto.is_trusted();
    }
}

async fn converse(mut stream: UnixStream, process: u64, auto: &Arc<AutoCache>) -> io::Result<()> {
    let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
    loop {
        // Between two frames a process may be silent for as long as it likes.
        let first = stream.read_u8().await?;
        let (kind, payload, _room) =
            within(FRAME_TIME, frame(&mut stream, first, [&auto.reading, &auto.account.announced])).await?;
        if let Some(ack) = obey(kind, &payload, process, auto).map_err(malformed)? {
            let mut frame = u32::try_from(ack.len()).unwrap_or(0).to_be_bytes().to_vec();
            frame.push(ACK);
            frame.extend(ack);
            within(FRAME_TIME, stream.write_all(&frame)).await?;
        }
    }
}

/// The rest of a frame that begins with `first`: its kind, its payload, and the room that it takes while it is held.
async fn frame(
    stream: &mut UnixStream,
    first: u8,
    [of_site, of_account]: [&Arc<Semaphore>; 2],
) -> io::Result<(u8, Vec<u8>, Room)> {
    let mut rest = [0; 4];
    stream.read_exact(&mut rest).await?;
    let [second, third, fourth, kind] = rest;
    let length = u32::from_be_bytes([first, second, third, fourth]) as usize;
    if length > MAX_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let bytes = u32::try_from(length.max(SMALL)).unwrap_or(u32::MAX);
    let room = of_site.clone().acquire_many_owned(bytes).await.map_err(io::Error::other)?;
    let room = (room, of_account.clone().acquire_many_owned(bytes).await.map_err(io::Error::other)?);
    let mut payload = Vec::with_capacity(length.min(SMALL));
    if stream.take(length as u64).read_to_end(&mut payload).await? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, payload, room))
}

async fn within<T>(time: Duration, act: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    // As if the process had gone: it joins again, and what it has announced counts as under way.
    tokio::time::timeout(time, act).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Does what a frame says. Some: the payload of its ACK.
pub(super) fn obey<'a>(
    kind: u8,
    payload: &'a [u8],
    process: u64,
    auto: &Arc<AutoCache>,
) -> Result<Option<&'a [u8]>, Malformed> {
    if first_field(payload).is_ok_and(|(field, _)| field.len() > MAX_FIELD) {
        return Err(Malformed);
    }
    match kind {
        INTENT => {
            let (id, entries) = first_field(payload)?;
            auto.look_at_databases();
            auto.change(|watch| watch.intend(process, text(id)?, entries, clock::unix_millis()))?;
            // With the NUL that ends it.
            Ok(Some(&payload[..=id.len()]))
        }
        DONE => {
            let (id, rest) = first_field(payload)?;
            let (id, outcome) = (text(id)?.to_owned(), first_field(rest)?.0);
            if outcome == UNKNOWN {
                let waits = auto.unknown.clone().try_acquire_owned().map_err(|_| Malformed)?;
                tokio::spawn(done_later(process, id, auto.clone(), waits));
            } else {
                done(process, &id, auto)
            }
            Ok(None)
        }
        RELEASE => {
            let (release, rest) = first_field(payload)?;
            if first_field(rest).is_ok_and(|(said, _)| said == MISSED) {
                auto.trust.missed();
            }
            agreed(auto.trust.joined(process, text(release)?), auto);
            auto.catch_up();
            Ok(Some(&payload[..=release.len()]))
        }
        READING => {
            let id = text(first_field(payload)?.0)?;
            auto.change(|watch| watch.begin_schema(process, id));
            Ok(Some(&payload[..=id.len()]))
        }
        SCHEMA => {
            // Without one that can be read, every statement reads and writes everything.
            let told = first_field(payload).and_then(|(id, schema)| Ok((text(id)?, schema)));
            if let Ok((id, schema)) = told {
                let _ = auto.change(|watch| watch.learn_schema(process, id, schema));
            }
            Ok(None)
        }
        DATABASE => {
            auto.add_database(Path::new(OsStr::from_bytes(first_field(payload)?.0)));
            Ok(None)
        }
        _ => Err(Malformed),
    }
}

fn done(process: u64, id: &str, auto: &AutoCache) {
    auto.look_at_databases();
    auto.change(|watch| watch.done(process, id, auto.next(), clock::unix_millis()));
}

async fn done_later(process: u64, id: String, auto: Arc<AutoCache>, _waits: OwnedSemaphorePermit) {
    tokio::time::sleep(AFTERMATH).await;
    done(process, &id, &auto);
    auto.doubt_databases();
}

fn first_field(payload: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = payload.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
    Ok((&payload[..end], &payload[end + 1..]))
}

fn text(field: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(field).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
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
}
