//! What the application's processes announce, on a Unix socket of their own: writes before they are committed, answered when
//! no page is kept any more that they touch; which code a worker has loaded; the schema of the database (docs/worker-protocol.md).
//! It believes nothing that is malformed: that connection is closed, and no page is shown any more.

use std::{
    io,
    sync::{atomic::Ordering::Relaxed, Arc},
    time::Duration,
};

use ::auto_cache::wire::Malformed;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
};

use super::{
    trust::{Agreement, BEAT},
    AutoCache, Told,
};
use crate::support::clock;

const INTENT: u8 = 0x61;
const DONE: u8 = 0x62;
const SCHEMA: u8 = 0x64;
const RELEASE: u8 = 0x65;
const ACK: u8 = 0x71;

/// Bytes of a frame, at most.
const MAX_FRAME: usize = 8 << 20;
/// Processes that are connected at once. The rest waits in the socket's queue.
const MAX_PROCESSES: usize = 1000;

/// How long a write that was announced counts as under way when its process is gone: the database may be about to do it.
const AFTERMATH: Duration = Duration::from_secs(5);

/// Listens for as long as the future is polled.
pub async fn serve(listener: UnixListener, auto: Arc<AutoCache>) {
    let places = Arc::new(Semaphore::new(MAX_PROCESSES));
    tokio::join!(accept(listener, &auto, &places), beat(&auto, &places));
}

async fn accept(listener: UnixListener, auto: &Arc<AutoCache>, places: &Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (process, auto) = (auto.next_process(), auto.clone());
        tokio::spawn(async move {
            auto.processes.fetch_add(1, Relaxed);
            if converse(stream, process, &auto).await.is_err_and(|why| why.kind() == io::ErrorKind::InvalidData) {
                misunderstood(&auto);
            }
            ended(process, &auto).await;
            drop(place);
        });
    }
}

/// Shows that what processes write is read: what they had written before a beat began has had its turn when it ends.
async fn beat(auto: &AutoCache, places: &Semaphore) {
    loop {
        let began = clock::now();
        let was_full = places.available_permits() == 0;
        tokio::time::sleep(BEAT).await;
        tokio::task::yield_now().await;
        if !was_full && places.available_permits() > 0 {
            auto.trust.beat(began);
        }
    }
}

/// Nobody knows what this process writes.
fn misunderstood(auto: &AutoCache) {
    if auto.trust.break_off() {
        auto.change(|watch| watch.distrust(auto.next()));
        (auto.tell)(Told::Misunderstood);
    }
}

/// However it has ended: what was announced and not done may have happened, or may happen yet.
async fn ended(process: u64, auto: &AutoCache) {
    let agreement = auto.trust.left(process);
    agreed(agreement, auto);
    auto.processes.fetch_sub(1, Relaxed);
    if auto.change(|watch| watch.has_begun(process)) {
        tokio::time::sleep(AFTERMATH).await;
        auto.change(|watch| watch.lost(process, auto.next()));
    }
}

fn agreed(agreement: Agreement, auto: &AutoCache) {
    if let Agreement::Begins(release) = agreement {
        auto.change(|watch| watch.begin_release(&release, auto.next()));
        auto.trust.agreed();
        // What is missing is missed from the beginning on, and not when the first page is there.
        auto.is_trusted();
    }
}

async fn converse(mut stream: UnixStream, process: u64, auto: &AutoCache) -> io::Result<()> {
    let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
    loop {
        let length = stream.read_u32().await? as usize;
        let kind = stream.read_u8().await?;
        if length > MAX_FRAME {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut payload = Vec::with_capacity(length.min(64 << 10));
        if (&mut stream).take(length as u64).read_to_end(&mut payload).await? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(ack) = obey(kind, &payload, process, auto).map_err(malformed)? {
            let mut frame = u32::try_from(ack.len()).unwrap_or(0).to_be_bytes().to_vec();
            frame.push(ACK);
            frame.extend(ack);
            stream.write_all(&frame).await?;
        }
    }
}

/// Does what a frame says. Some: the payload of its ACK.
fn obey<'a>(kind: u8, payload: &'a [u8], process: u64, auto: &AutoCache) -> Result<Option<&'a [u8]>, Malformed> {
    let now = clock::unix_millis();
    match kind {
        INTENT => {
            let (id, entries) = first_field(payload)?;
            auto.change(|watch| watch.intend(process, text(id)?, entries, now))?;
            // With the NUL that ends it.
            Ok(Some(&payload[..=id.len()]))
        }
        DONE => {
            let (id, _) = first_field(payload)?;
            let id = text(id)?;
            auto.change(|watch| watch.done(process, id, auto.next(), now));
            Ok(None)
        }
        RELEASE => {
            let (release, _) = first_field(payload)?;
            agreed(auto.trust.joined(process, text(release)?), auto);
            Ok(Some(&payload[..=release.len()]))
        }
        SCHEMA => {
            // Without one that can be read, every statement reads and writes everything.
            let _ = auto.change(|watch| watch.learn_schema(payload));
            Ok(None)
        }
        _ => Err(Malformed),
    }
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
