//! Who is at the other end of a Unix socket, as the kernel says. It never asks the other end.

use std::{
    io, mem,
    os::{fd::AsRawFd, unix::net::UnixStream},
};

use rustix::process::Pid;

/// The process that has connected.
pub struct Peer {
    /// None: it is in a process namespace that this one does not see.
    pub pid: Option<Pid>,
    pub uid: u32,
}

impl Peer {
    // rustix has no type for a peer that can't be seen: the kernel names it 0.
    #[allow(unsafe_code)]
    pub fn of(stream: &UnixStream) -> io::Result<Peer> {
        let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: both pointers are to locals that live through the call, and `length` is the size of `found`.
        let done = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        match done {
            0 => Ok(Peer { pid: Pid::from_raw(found.pid).filter(|_| found.pid > 0), uid: found.uid }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_who_it_is() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid.map(|pid| pid.as_raw_nonzero().get() as u32), Some(std::process::id()));
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    }
}
