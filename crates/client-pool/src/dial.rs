//! A TCP connection to a name: its addresses one after another, without waiting long for any of them (RFC 8305, "Happy
//! Eyeballs"). It never speaks on it.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, task::JoinSet, time::sleep};

use super::failure::Failure;

/// How long an address has before the next one is tried as well (RFC 8305 section 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// A connection that is silent for so long is probed: a machine that is gone says nothing.
const PROBED: Duration = Duration::from_secs(60);

/// The first connection that is made. `addresses`: best first.
pub async fn dial(addresses: &[IpAddr], port: u16) -> Result<(TcpStream, SocketAddr), Failure> {
    let mut left = in_turns(addresses).into_iter().map(|address| SocketAddr::new(address, port));
    let mut attempts = JoinSet::new();
    let mut failed = Failure::Resolve("the name has no address".into());
    loop {
        let next = left.next();
        let is_last = next.is_none();
        if let Some(address) = next {
            attempts.spawn(async move { (address, TcpStream::connect(address).await) });
        }
        // The next one begins when this one has had its time, or at once when it has failed.
        tokio::select! {
            Some(ended) = attempts.join_next() => {
                let Ok((address, connected)) = ended else { continue };
                match connected {
                    Ok(stream) => {
                        let _ = stream.set_nodelay(true);
                        let probes = TcpKeepalive::new().with_time(PROBED).with_interval(PROBED / 4);
                        let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
                        return Ok((stream, address));
                    }
                    Err(error) => {
                        let errno = error.raw_os_error().unwrap_or(libc::ECONNREFUSED);
                        failed = Failure::Connect { address: Some(address), errno, message: said(errno) };
                    }
                }
            }
            () = sleep(HEAD_START), if !is_last => {}
            else => return Err(failed),
        }
    }
}

/// What the system says of an error.
pub fn said(errno: i32) -> String {
    let words = std::io::Error::from_raw_os_error(errno).to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The families in turns, beginning with the first one's (RFC 8305 section 4).
fn in_turns(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (own, other): (Vec<_>, Vec<_>) = addresses.iter().copied().partition(|address| address.is_ipv6() == first);
    let mut turns = Vec::with_capacity(addresses.len());
    let (mut own, mut other) = (own.into_iter(), other.into_iter());
    while turns.len() < addresses.len() {
        turns.extend(own.next());
        turns.extend(other.next());
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn addresses(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns() {
        assert_eq!(
            in_turns(&addresses(&["::1", "::2", "::3", "10.0.0.1", "10.0.0.2"])),
            addresses(&["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"])
        );
        assert_eq!(in_turns(&addresses(&["10.0.0.1", "::1"])), addresses(&["10.0.0.1", "::1"]));
        assert!(in_turns(&[]).is_empty());
    }

    #[tokio::test]
    async fn one_that_refuses_leaves_it_to_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (_, address) = dial(&addresses(&["127.0.0.2", "127.0.0.1"]), port).await.unwrap();
        assert_eq!(address, format!("127.0.0.1:{port}").parse().unwrap());
        drop(listener);
        let refused = dial(&addresses(&["127.0.0.1"]), port).await;
        assert!(
            matches!(refused, Err(Failure::Connect { errno: libc::ECONNREFUSED, message, .. }) if message == "Connection refused")
        );
    }

    /// Its queue is full: who comes then hears nothing.
    #[tokio::test]
    async fn one_that_is_silent_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::from(([127, 0, 0, 2], port)).into()).unwrap();
        silent.listen(0).unwrap();
        let _first = std::net::TcpStream::connect(("127.0.0.2", port)).unwrap();
        let (_, address) = dial(&addresses(&["127.0.0.2", "127.0.0.1"]), port).await.unwrap();
        assert_eq!(address.ip(), addresses(&["127.0.0.1"])[0]);
    }
}
