//! One thread's event loop: connections are accepted and served until the server stops.
//! It never decides when that is.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::Server;
use crate::{
    accepted::{self, Entrance},
    listen::Listener,
};

/// One thread's event loop: accepts and serves until told to stop, then until its connections are closed.
pub fn all(listeners: Vec<(Listener, Entrance)>, server: Arc<Server>, stop: watch::Receiver<bool>) {
    let Ok(runtime) = super::event_loop() else { return };
    server.know(runtime.handle().clone());
    runtime.block_on(async move {
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|(listener, entrance)| tokio::spawn(accept(listener, entrance, server.clone(), stop.clone())))
            .collect();
        drop(stop);
        for task in accepting {
            let _ = task.await;
        }
        // Connections that are finishing, conversations and upgraded streams end with the process at the latest.
        std::future::pending::<()>().await
    });
}

async fn accept(listener: Listener, entrance: Entrance, server: Arc<Server>, stop: watch::Receiver<bool>) {
    let mut stopped = stop.clone();
    macro_rules! serve_from {
        ($listener:expr, $address:expr) => {
            loop {
                // Without room nothing is accepted: the kernel keeps new clients waiting, and those being served go on.
                let place = tokio::select! {
                    place = server.room.place(&server.log) => place,
                    _ = until(&mut stopped) => return,
                };
                tokio::select! {
                    accepted = $listener.accept() => match accepted {
                        Ok((stream, peer)) => {
                            let peers = $address(&stream, peer);
                            let (entrance, server, stop) = (entrance.clone(), server.clone(), stop.clone());
                            tokio::spawn(async move {
                                let _place = place;
                                accepted::serve(stream, peers, entrance, server, stop).await
                            });
                        }
                        // Out of descriptors all the same (the whole machine is), or a client that left again.
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    },
                    _ = until(&mut stopped) => return,
                }
            }
        };
    }
    match &listener {
        Listener::Tcp(listener) => {
            let Ok(listener) = listener.try_clone().and_then(tokio::net::TcpListener::from_std) else { return };
            serve_from!(listener, |stream: &tokio::net::TcpStream, peer: SocketAddr| {
                let _ = stream.set_nodelay(true);
                (Some(peer), stream.local_addr().ok())
            })
        }
        Listener::Unix { listener, .. } => {
            let Ok(listener) = listener.try_clone().and_then(tokio::net::UnixListener::from_std) else { return };
            serve_from!(listener, |_: &tokio::net::UnixStream, _| (None, None))
        }
    }
}

/// Resolves when told to stop.
async fn until(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
