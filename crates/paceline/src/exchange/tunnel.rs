//! Connections that have become something else than HTTP (RFC 9110 section 7.8): bytes go both ways until both sides
//! are done. It never interprets them.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        LazyLock,
    },
    time::Duration,
};

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::watch,
};

use crate::{exchange::Upgrade, observe::in_flight::Step, support::clock};

/// Connections that have become something else than HTTP.
static TUNNELS: AtomicUsize = AtomicUsize::new(0);

/// Whether such connections are closed as they are.
static CUT: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::channel(false).0);

/// One that is counted until this is dropped.
struct Tunnel;

impl Tunnel {
    fn begin() -> Tunnel {
        TUNNELS.fetch_add(1, SeqCst);
        Tunnel
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        TUNNELS.fetch_sub(1, SeqCst);
    }
}

/// Closes such connections on both sides, so that the application's code for them ends.
pub fn cut_tunnels() {
    CUT.send_replace(true);
}

/// Resolves when there are no such connections.
pub async fn tunnels_closed() {
    while TUNNELS.load(SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Joins the client's connection and another stream, of which some bytes have been received, until both are done.
pub async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(upgrade: Upgrade, mut stream: S, received: Bytes) {
    let _counted = Tunnel::begin();
    let Upgrade { on, stream: _held, live } = upgrade;
    let Ok(upgraded) = on.await else { return };
    live.step(Step::Upgraded, clock::now());
    let mut client = TokioIo::new(upgraded);
    let mut cut = CUT.subscribe();
    let joined = async {
        client.write_all(&received).await?;
        tokio::io::copy_bidirectional(&mut client, &mut stream).await
    };
    tokio::select! {
        _ = joined => {}
        _ = cut.wait_for(|cut| *cut) => {}
    }
}
