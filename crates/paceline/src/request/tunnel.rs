//! Connections that have become something else than HTTP (RFC 9110 section 7.8): bytes go both ways until both sides
//! are done. It never interprets them.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::{observe::in_flight::Step, request::exchange::Upgrade, support::clock};

/// Connections that have become something else than HTTP.
static TUNNELS: AtomicUsize = AtomicUsize::new(0);

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
    if client.write_all(&received).await.is_ok() {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut stream).await;
    }
}
