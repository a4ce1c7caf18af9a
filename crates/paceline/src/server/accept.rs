//! One thread's event loop: connections are accepted and served until the server stops.
//! It never decides when that is.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::opening::BoundListener;
use crate::{
    edge::{
        listen::Listener,
        negotiate::{self as accepted, ConnectionSetup},
    },
    request::front::{drain::Stop, Front},
    support::{
        event_loops::{self, ClientSocket, EventLoops},
        signal_mask, time_slice,
    },
};

/// Connections that are accepted after the server was told to stop: the kernel holds no more than this (`BACKLOG`).
const LAST_ACCEPTED: usize = 4096;

/// One thread's event loop: accepts and serves until told to stop, then until its connections are closed.
pub fn all(listeners: Vec<BoundListener>, server: Arc<Front>, stop: Stop, loops: Arc<EventLoops>, number: usize) {
    // Signals are the main thread's.
    signal_mask::block();
    time_slice::shorten();
    let Ok(runtime) = super::event_loop() else { return };
    server.know(runtime.handle().clone());
    loops.enter(number, runtime.handle());
    runtime.block_on(async move {
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|BoundListener { listener, entrance }| {
                let gate = Gate { loops: loops.clone(), number };
                tokio::spawn(accept(listener, entrance, server.clone(), stop.clone(), gate))
            })
            .collect();
        drop(stop);
        for task in accepting {
            let _ = task.await;
        }
        // Connections that are finishing, conversations and upgraded streams end with the process at the latest.
        std::future::pending::<()>().await
    });
}

/// Whether this loop takes connections at the moment.
struct Gate {
    loops: Arc<EventLoops>,
    number: usize,
}

async fn accept(listener: Listener, entrance: ConnectionSetup, server: Arc<Front>, stop: Stop, gate: Gate) {
    macro_rules! serve_from {
        ($own:expr, $register:expr, $of:ty, $address:expr) => {{
            let serve = |stream: $of, peer, place| {
                let peers = $address(&stream, peer);
                let (entrance, server, stop) = (entrance.clone(), server.clone(), stop.clone());
                event_loops::serve(async move {
                    let _place = place;
                    accepted::serve(ClientSocket::new(stream), peers, entrance, server, stop).await
                });
            };
            let mut stopped = stop.clone();
            'gate: loop {
                tokio::select! {
                    () = gate.loops.opened(gate.number) => {}
                    _ = stopped.asked_to_stop() => break,
                }
                // Not registered before: a loop that takes none is not woken for them.
                let Ok(accepting) = $own.try_clone().and_then($register) else { return };
                let mut closed = std::pin::pin!(gate.loops.closed(gate.number));
                loop {
                    // Without room nothing is accepted: the kernel keeps new clients waiting, and those being served go on.
                    let place = tokio::select! {
                        place = server.slots.place(&server.log) => place,
                        () = &mut closed => continue 'gate,
                        _ = stopped.asked_to_stop() => break 'gate,
                    };
                    tokio::select! {
                        accepted = accepting.accept() => match accepted {
                            Ok((stream, peer)) => serve(stream, peer.into(), place),
                            // Out of descriptors all the same (the whole machine is), or a client that left again.
                            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                        },
                        () = &mut closed => continue 'gate,
                        _ = stopped.asked_to_stop() => break 'gate,
                    }
                }
            }
            // The kernel has taken some for us already: closed unaccepted they would be reset.
            for _ in 0..LAST_ACCEPTED {
                let Ok((stream, peer)) = $own.accept() else { break };
                let Ok(stream) = stream.set_nonblocking(true).and_then(|()| stream.try_into()) else { continue };
                serve(stream, peer.into(), server.slots.free_place());
            }
        }};
    }
    match &listener {
        Listener::Tcp(own) => {
            let local = settle_all(own);
            serve_from!(own, TcpListener::from_std, TcpStream, |stream: &TcpStream, peer: Peer| {
                (peer.0, local.or_else(|| stream.local_addr().ok()))
            })
        }
        Listener::Unix { listener: own, .. } => {
            serve_from!(own, UnixListener::from_std, UnixStream, |_: &UnixStream, _: Peer| (None, None))
        }
    }
}

/// Settles once what would take a system call for each connection: they have TCP_NODELAY from their listener (Linux),
/// and its address is theirs. None: it listens on all addresses.
fn settle_all(listener: &std::net::TcpListener) -> Option<SocketAddr> {
    let _ = rustix::net::sockopt::set_tcp_nodelay(listener, true);
    listener.local_addr().ok().filter(|address| !address.ip().is_unspecified())
}

/// Who connected; of a Unix socket that says nothing.
struct Peer(Option<SocketAddr>);

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Peer {
        Peer(Some(address))
    }
}

impl From<tokio::net::unix::SocketAddr> for Peer {
    fn from(_: tokio::net::unix::SocketAddr) -> Peer {
        Peer(None)
    }
}

impl From<std::os::unix::net::SocketAddr> for Peer {
    fn from(_: std::os::unix::net::SocketAddr) -> Peer {
        Peer(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_what_was_settled_for_their_listener() {
        for (bind, known) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
            let listener = std::net::TcpListener::bind(bind).unwrap();
            let local = settle_all(&listener);
            let port = listener.local_addr().unwrap().port();
            let _client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (stream, _) = listener.accept().unwrap();
            assert!(stream.nodelay().unwrap());
            assert_eq!(local, known.then(|| stream.local_addr().unwrap()));
        }
    }
}
