//! The socket on which processes of the machine ask. One call at a time on each connection; who closes it leaves its
//! call. It never makes a call itself.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
};

use super::{
    call::call,
    caller::{Caller, Calls},
    Egress, SWEEP,
};

/// Connections at a time; the kernel lets others wait.
const MAX_CONNECTIONS: usize = 256;
/// A longer head of a request is refused: certificates may be in it.
const BUFFER: usize = 256 << 10;
/// So is one with more fields.
const MAX_FIELDS: usize = 1024;

/// Serves for as long as it is not dropped.
pub async fn serve(listener: UnixListener, egress: Arc<Egress>) {
    let sweeping = tokio::spawn({
        let egress = egress.clone();
        async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                egress.sweep();
            }
        }
    });
    let _ended = TaskGuard(sweeping);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok(of_account) = egress.share.callers.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let egress = egress.clone();
        tokio::spawn(async move {
            converse(stream, &egress).await;
            drop((place, of_account));
        });
    }
}

/// Answers the calls of one process, until it goes or is too slow.
async fn converse(stream: UnixStream, egress: &Arc<Egress>) {
    let calls = Calls::default();
    let stream = Caller::new(stream, calls.clone(), egress.share.heads.clone());
    let service = service_fn(|request| {
        let (egress, under_way) = (egress.clone(), calls.begin());
        async move { Ok::<_, Infallible>(call(&egress, request, under_way).await) }
    });
    let mut connection = http1::Builder::new();
    // A client keeps its connections for as long as it likes. The time for a head is the stream's.
    connection
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(BUFFER)
        .max_headers(MAX_FIELDS)
        .preserve_header_case(true)
        .auto_date_header(false);
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

/// A task that ends with this.
struct TaskGuard(tokio::task::JoinHandle<()>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::Instant,
    };

    use super::*;
    use crate::{Clock, Policy, Share, Surroundings};

    const TIME: Duration = Duration::from_secs(10);
    /// Its answer comes without anybody's being called.
    const REFUSED: &[u8] = b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n";

    fn begin(heads: usize) -> (Arc<Egress>, impl Fn() -> (UnixStream, tokio::task::JoinHandle<()>)) {
        let surroundings =
            Surroundings { clock: Clock { age: || 0, date: || 0 }, left: |_| Box::pin(std::future::pending()) };
        let egress = Egress::new(Policy::default(), surroundings, Share::for_tests(heads), None);
        let connect = {
            let egress = egress.clone();
            move || {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let egress = egress.clone();
                (ours, tokio::spawn(async move { converse(theirs, &egress).await }))
            }
        };
        (egress, connect)
    }

    async fn answer(ours: &mut UnixStream) -> String {
        let mut read = vec![0; 4096];
        let count = ours.read(&mut read).await.unwrap();
        String::from_utf8_lossy(&read[..count]).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_held_for_ten_seconds_and_silence_between_calls_for_ever() {
        let (_egress, connect) = begin(1 << 20);
        let (mut ours, talking) = connect();
        tokio::time::sleep(100 * TIME).await;
        // The first call, a second one that comes in two pieces, and nothing for long after each.
        ours.write_all(REFUSED).await.unwrap();
        assert!(answer(&mut ours).await.starts_with("HTTP/1.1 400 "));
        tokio::time::sleep(100 * TIME).await;
        ours.write_all(&REFUSED[..20]).await.unwrap();
        tokio::time::sleep(TIME / 2).await;
        ours.write_all(&REFUSED[20..]).await.unwrap();
        assert!(answer(&mut ours).await.starts_with("HTTP/1.1 400 "));
        tokio::time::sleep(100 * TIME).await;
        assert!(!talking.is_finished());
        // A byte now and then is no help.
        let began = Instant::now();
        let drops = async {
            for byte in REFUSED.iter().cycle().take(200).filter(|byte| **byte != b'\r' && **byte != b'\n') {
                if ours.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            ended = talking => ended.unwrap(),
            () = drops => panic!("it is still read"),
        }
        assert_eq!(began.elapsed(), TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn large_heads_share_what_the_account_has_for_them() {
        let (egress, connect) = begin(128 << 10);
        let heads = || egress.share.heads.available_permits();
        let half = [b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\nX: ", &[b'x'; 100 << 10][..]].concat();
        let mut held = Vec::new();
        for _ in 0..20 {
            let (mut ours, talking) = connect();
            let half = half.clone();
            let writing = tokio::spawn(async move {
                // What is not read waits in the socket.
                let _ = ours.write_all(&half).await;
                ours
            });
            held.push((writing, talking));
        }
        while heads() >= 16 << 10 {
            tokio::task::yield_now().await;
        }
        // Who has a usual head waits for nobody.
        let (mut ours, talking) = connect();
        ours.write_all(REFUSED).await.unwrap();
        assert!(answer(&mut ours).await.starts_with("HTTP/1.1 400 "));
        for (writing, talking) in held {
            talking.await.unwrap();
            drop(writing.await.unwrap());
        }
        assert_eq!(heads(), 128 << 10, "nothing of them is left");
        // A large one that comes whole is answered, and takes nothing when it is.
        ours.write_all(&half).await.unwrap();
        ours.write_all(b"\r\n\r\n").await.unwrap();
        assert!(answer(&mut ours).await.starts_with("HTTP/1.1 400 "));
        while heads() < 128 << 10 {
            tokio::task::yield_now().await;
        }
        assert!(!talking.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_call_has_no_time() {
        let (_egress, connect) = begin(1 << 20);
        let (mut ours, talking) = connect();
        ours.write_all(b"POST http://127.0.0.1:1/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx").await.unwrap();
        tokio::time::sleep(100 * TIME).await;
        assert!(!talking.is_finished());
    }
}
