//! Tells the service manager how far the server is (sd_notify(3)).
//! It never waits for it.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// Sends a state such as `READY=1` to the socket that NOTIFY_SOCKET names, if there is one.
pub fn manager(state: &str) {
    // A manager that is gone is no reason to stop.
    let _ = send(state);
}

fn send(state: &str) -> io::Result<usize> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(0) };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)
}
