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
mod tests;
