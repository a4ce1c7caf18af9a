//! Where a shadow meets the driver: a Unix socket in a fresh folder of mode 0700, as the application's account makes
//! both, so that nobody else can connect or come in between. The folder is gone when the shadow has come, with all the
//! connections that are expected.
//! It never asks for a shadow.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use unix_user::{acting, RunAs};

use super::peer::Peer;

/// The longest path that fits into a socket's address.
const LONGEST: usize = 107;
/// Within this time a shadow connects: the preloader has to fork, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A socket that waits for one connection.
pub struct ShadowSocket {
    folder: PathBuf,
    listener: UnixListener,
    run_as: RunAs,
}

impl ShadowSocket {
    /// In the first of these folders in which it can be.
    pub fn open(bases: &[PathBuf], run_as: &RunAs) -> io::Result<ShadowSocket> {
        let mut failure = io::Error::new(ErrorKind::NotFound, "no folder for a socket");
        for base in bases {
            match acting(run_as, || listen(base)) {
                Ok((folder, listener)) => return Ok(ShadowSocket { folder, listener, run_as: run_as.clone() }),
                Err(error) => failure = io::Error::new(error.kind(), format!("{}: {error}", base.display())),
            }
        }
        Err(failure)
    }

    pub fn path(&self) -> PathBuf {
        socket(&self.folder)
    }

    /// The shadow's connection.
    pub fn accept(self) -> io::Result<UnixStream> {
        self.accept_one()
    }

    /// So many connections of a shadow.
    pub fn accept_all(self, count: usize) -> io::Result<Vec<UnixStream>> {
        (0..count).map(|_| self.accept_one()).collect()
    }

    fn accept_one(&self) -> io::Result<UnixStream> {
        let mut waiting = [PollFd::new(&self.listener, PollFlags::IN)];
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        if poll(&mut waiting, Some(&patience))? == 0 {
            let why = format!("no shadow process has come within {} s", PATIENCE.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, why));
        }
        let (stream, _) = self.listener.accept()?;
        let peer = Peer::of(&stream)?.uid;
        let own = rustix::process::geteuid().as_raw();
        let expected = self.run_as.account().map_or(own, |account| account.uid);
        if peer != expected && peer != 0 {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "another user's process has connected"));
        }
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

impl Drop for ShadowSocket {
    fn drop(&mut self) {
        acting(&self.run_as, || {
            let _ = fs::remove_file(socket(&self.folder));
            let _ = fs::remove_dir(&self.folder);
        });
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("shadow")
}

fn listen(base: &Path) -> io::Result<(PathBuf, UnixListener)> {
    let name = uuid::Uuid::new_v4().simple().to_string();
    let folder = base.canonicalize()?.join(format!(".paceline-doctor-{}", &name[..12]));
    if socket(&folder).as_os_str().len() > LONGEST {
        return Err(io::Error::new(ErrorKind::InvalidInput, "its path is too long for a socket"));
    }
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let opened = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
        .and_then(|()| UnixListener::bind(socket(&folder)))
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    if opened.is_err() {
        let _ = fs::remove_dir(&folder);
    }
    Ok((folder, opened?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn one_comes_and_the_folder_goes() {
        let bases = [PathBuf::from("/nowhere"), std::env::temp_dir()];
        let waiting = ShadowSocket::open(&bases, &RunAs::own()).unwrap();
        let path = waiting.path();
        let folder = path.parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let theirs = UnixStream::connect(&path).unwrap();
        assert!(waiting.accept().is_ok() && !folder.exists());
        drop(theirs);
    }

    #[test]
    fn a_folder_too_deep_for_a_socket_is_passed_over() {
        let deep =
            std::env::temp_dir().join(format!("paceline-shadow-socket-{}", std::process::id())).join("x".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let bases = [deep.clone(), std::env::temp_dir()];
        assert!(!ShadowSocket::open(&bases, &RunAs::own()).unwrap().path().starts_with(&deep));
        assert!(ShadowSocket::open(&bases[..1], &RunAs::own()).is_err());
        fs::remove_dir_all(deep.parent().unwrap()).unwrap();
    }
}
