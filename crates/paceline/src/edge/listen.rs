//! Listening sockets: TCP, Unix and those handed over by a parent (sd_listen_fds(3)).
//! It never reads from a connection.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::config::Bind;

/// Connections the kernel keeps for us while we are busy; it cuts this to net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// An open listening socket, in non-blocking mode.
pub enum Listener {
    Tcp(std::net::TcpListener),
    Unix { listener: std::os::unix::net::UnixListener, path: Option<PathBuf> },
}

/// A bind that failed, with what to say about it.
#[derive(Debug)]
pub struct Unbound {
    pub bind: Bind,
    pub error: io::Error,
}

/// Opens the listening socket of `bind`, beside `others`. `[::]` takes IPv4 too, unless one of the others has the port
/// for that; where the machine has no IPv6 it takes IPv4 alone.
pub fn open<'a>(bind: &Bind, mut others: impl Iterator<Item = &'a Bind>) -> Result<Listener, Unbound> {
    let opened = match bind {
        Bind::Tcp(address) => {
            let is_shared =
                |other: &Bind| matches!(other, Bind::Tcp(other) if other.is_ipv4() && other.port() == address.port());
            let only_v6 = !address.ip().is_unspecified() || others.any(is_shared);
            tcp(*address, only_v6).or_else(|error| {
                match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                    Some(rustix::io::Errno::AFNOSUPPORT | rustix::io::Errno::ADDRNOTAVAIL)
                        if !only_v6 && address.is_ipv6() =>
                    {
                        tcp((std::net::Ipv4Addr::UNSPECIFIED, address.port()).into(), false)
                    }
                    _ => Err(error),
                }
            })
        }
        Bind::Unix { path, umask } => unix(path, *umask),
        Bind::Fd(fd) => inherited(*fd),
    };
    opened.map_err(|error| Unbound { bind: bind.clone(), error })
}

/// A bind as its owner wrote it.
pub fn shown(bind: &Bind) -> String {
    match bind {
        Bind::Tcp(address) => address.to_string(),
        Bind::Unix { path, .. } => path.display().to_string(),
        Bind::Fd(fd) => format!("fd {fd}"),
    }
}

fn tcp(address: SocketAddr, only_v6: bool) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(Listener::Tcp(socket.into()))
}

fn unix(path: &Path, umask: Option<u32>) -> io::Result<Listener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    // A socket file that nobody listens on is a leftover; one that answers belongs to somebody, and so does any other
    // file.
    if let Ok(found) = path.symlink_metadata() {
        if !found.file_type().is_socket() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(path)?,
        }
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    let mode = umask.map_or(0o600, |umask| 0o777 & !umask);
    // The socket itself, whatever somebody has put in its place since.
    let entry = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = rustix::fs::fstat(&entry)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let entry = format!("/proc/self/fd/{}", entry.as_raw_fd());
    std::fs::set_permissions(entry, std::fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix { listener, path: Some(path.to_path_buf()) })
}

#[allow(unsafe_code)]
fn inherited(fd: RawFd) -> io::Result<Listener> {
    if fd < 3 || !Path::new(&format!("/proc/self/fd/{fd}")).exists() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("no socket was handed over as fd {fd}")));
    }
    // SAFETY: the parent handed this descriptor over to us by number (LISTEN_FDS); it was just seen to be open, and
    // `open` is called once for each, before anything else could own it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    given(owned).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => io::Error::new(error.kind(), format!("fd {fd} is no listening socket")),
        _ => error,
    })
}

/// The listener that an open descriptor is.
pub fn given(owned: OwnedFd) -> io::Result<Listener> {
    let socket = Socket::from(owned);
    if !SockRef::from(&socket).is_listener()? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    socket.set_nonblocking(true)?;
    socket.set_cloexec(true)?;
    if socket.domain()? == Domain::UNIX {
        return Ok(Listener::Unix { listener: OwnedFd::from(socket).into(), path: None });
    }
    Ok(Listener::Tcp(socket.into()))
}

impl Listener {
    /// The socket for another thread.
    pub fn try_clone(&self) -> io::Result<Listener> {
        Ok(match self {
            Listener::Tcp(listener) => Listener::Tcp(listener.try_clone()?),
            Listener::Unix { listener, .. } => Listener::Unix { listener: listener.try_clone()?, path: None },
        })
    }

    pub fn fd(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Tcp(listener) => listener.try_clone().map(OwnedFd::from),
            Listener::Unix { listener, .. } => listener.try_clone().map(OwnedFd::from),
        }
    }

    /// Makes the file of a Unix socket ours, to be removed in the end; or, with None, somebody else's.
    pub fn own(&mut self, file: Option<&Path>) {
        if let Listener::Unix { path, .. } = self {
            *path = file.map(Path::to_path_buf);
        }
    }

    /// None: it has no port.
    pub fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Listener::Unix { .. } => None,
        }
    }

    /// Whether it is what `bind` would open. (A manager's socket for any address is one for IPv6 that takes IPv4 too.)
    pub fn is_of(&self, bind: &Bind) -> bool {
        match (self, bind) {
            (Listener::Tcp(listener), Bind::Tcp(address)) => listener.local_addr().is_ok_and(|own| {
                let same = own.ip().to_canonical() == address.ip().to_canonical();
                own.port() == address.port() && (same || (own.ip().is_unspecified() && address.ip().is_unspecified()))
            }),
            (Listener::Unix { listener, .. }, Bind::Unix { path, .. }) => {
                listener.local_addr().is_ok_and(|own| own.as_pathname() == Some(path))
            }
            _ => false,
        }
    }

    /// As `* Listening on` shows it.
    pub fn url(&self, scheme: &str) -> String {
        match self {
            Listener::Tcp(listener) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |address| format!("{scheme}://{address}"))
            }
            Listener::Unix { listener, .. } => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                format!("unix://{}", path.unwrap_or(Path::new("(unnamed)")).display())
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path: Some(path), .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}
