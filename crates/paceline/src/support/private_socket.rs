//! The file of a private Unix socket (control, egress): made with mode 0600 from its first moment, by the account that
//! is to use it, and removed in the end. It never takes the place of a living server's, nor of any other file, and
//! never follows a link as root.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{chownat, fchmod, fstat, open, AtFlags, Gid, Mode, OFlags, Uid};
use socket2::{Domain, SockAddr, Socket, Type};

use unix_user::{acting, others_than_root, Account, RunAs};

/// The longest path that fits into a socket's address.
const LONGEST: usize = 107;
/// Who finds it full waits, and comes again: Ruby 3.1 takes it for a connection (`http/front.rb`).
const BACKLOG: i32 = 1024;
const OTHERS_WRITE: u32 = 0o022;

/// The file of a socket that we listen on.
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    made: (u64, u64),
    made_folder: bool,
    maker: RunAs,
    /// Another server's: it is not removed.
    foreign: bool,
}

/// Why there is no socket.
#[derive(Debug)]
pub enum NoSocket {
    /// A server listens there.
    Taken,
    /// Not without being told: its folder could be made to lead elsewhere by whoever else may write there.
    Unsafe(PathBuf),
    Failed(io::Error),
}

impl From<io::Error> for NoSocket {
    fn from(error: io::Error) -> NoSocket {
        NoSocket::Failed(error)
    }
}

impl std::fmt::Display for NoSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoSocket::Taken => f.write_str("another server has it"),
            NoSocket::Unsafe(folder) => write!(f, "others may write in {}", folder.display()),
            NoSocket::Failed(error) => error.fmt(f),
        }
    }
}

/// Opens the socket, as `run_as` says. `named`: somebody asked for this very path; otherwise its folder is made,
/// and has to be one that nobody else can write in.
pub fn listen(path: &Path, run_as: &RunAs, named: bool) -> Result<(UnixListener, SocketFile), NoSocket> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (opened, made_folder) = acting(run_as, || {
        let made_folder = !named && !folder.exists() && fs::create_dir(folder).is_ok();
        if !named {
            trusted(folder)?;
        }
        Ok::<_, NoSocket>((bind(path, path), made_folder))
    })?;
    let mut maker = run_as.clone();
    let listener = match (opened, run_as.account()) {
        (Err(NoSocket::Failed(error)), Some(account)) if named && error.kind() == io::ErrorKind::PermissionDenied => {
            maker = RunAs::Root(None);
            for_account(folder, path, account)?
        }
        (opened, _) => opened?,
    };
    let found = fs::symlink_metadata(path)?;
    Ok((
        listener,
        SocketFile { path: path.to_path_buf(), made: (found.dev(), found.ino()), made_folder, maker, foreign: false },
    ))
}

/// In a folder where the account may not write, such as /run/paceline: only root may write there, so that nobody can
/// put anything in the socket's place before it is the account's.
fn for_account(folder: &Path, path: &Path, account: &Account) -> Result<UnixListener, NoSocket> {
    let folder_fd =
        open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)?;
    let found = fstat(&folder_fd).map_err(io::Error::from)?;
    if found.st_uid != 0 || found.st_mode & OTHERS_WRITE != 0 {
        return Err(NoSocket::Unsafe(folder.to_path_buf()));
    }
    let name = path.file_name().unwrap_or(OsStr::new(""));
    let listener = bind(&through(&folder_fd, name), path)?;
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    chownat(&folder_fd, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
    Ok(listener)
}

/// The folder is ours, and ours alone.
fn trusted(folder: &Path) -> Result<(), NoSocket> {
    if let Some(by) = others_than_root(folder)? {
        return Err(NoSocket::Unsafe(by));
    }
    let found = fs::metadata(folder)?;
    let me = rustix::process::geteuid();
    // Another account's folder is a danger to root alone.
    if found.mode() & 0o002 == 0 && (found.uid() == me.as_raw() || !me.is_root()) {
        Ok(())
    } else {
        Err(NoSocket::Unsafe(folder.to_path_buf()))
    }
}

/// `path` as it is to be opened; `shown` as its owner knows it.
fn bind(path: &Path, shown: &Path) -> Result<UnixListener, NoSocket> {
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(NoSocket::Failed(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} is there and is no socket", shown.display()),
            )));
        }
        if answers(path) {
            return Err(NoSocket::Taken);
        }
        fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The kernel gives the file the mode that the socket has: at no moment can others connect.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
    short(path, |path| socket.bind(&SockAddr::unix(path)?)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => NoSocket::Taken,
        _ => NoSocket::Failed(error),
    })?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

/// Whether a server listens there. One that may not be asked does.
fn answers(path: &Path) -> bool {
    match short(path, |path| UnixStream::connect(path)) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound),
    }
}

/// Connects to the socket at `path`, however long that is.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    short(path, |path| UnixStream::connect(path))
}

/// Calls `act` with a path that fits into an address and leads to the same.
fn short<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= LONGEST {
        return act(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return act(path) };
    let folder = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    act(&through(&folder, name))
}

fn through(folder: &impl AsFd, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_fd().as_raw_fd().to_string()).join(name)
}

impl SocketFile {
    /// That of a socket which another front has made, and which stays its own for now. `made_folder`: so it did.
    pub fn of_another(path: &Path, run_as: &RunAs, made_folder: bool) -> io::Result<SocketFile> {
        let found = fs::symlink_metadata(path)?;
        if !found.file_type().is_socket() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let made = (found.dev(), found.ino());
        Ok(SocketFile { path: path.to_path_buf(), made, made_folder, maker: run_as.clone(), foreign: true })
    }

    pub fn set_foreign(&mut self, foreign: bool) {
        self.foreign = foreign;
    }

    pub fn made_folder(&self) -> bool {
        self.made_folder
    }

    /// It is where it was made, and leads to us.
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.made)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.foreign {
            return;
        }
        acting(&self.maker, || {
            if self.is_there() {
                let _ = fs::remove_file(&self.path);
            }
            if let (true, Some(folder)) = (self.made_folder, self.path.parent()) {
                // Unless something else is in it by now.
                let _ = fs::remove_dir(folder);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("paceline-control-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_leftover_is_replaced_and_a_living_one_is_not() {
        let folder = Folder::new("leftover");
        let path = folder.0.join("tmp/paceline.sock");
        let (listener, file) = listen(&path, &RunAs::own(), false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(listen(&path, &RunAs::own(), false), Err(NoSocket::Taken)));
        assert!(connect(&path).is_ok() && file.is_there());
        // Killed: nobody listens, and the file stays.
        drop(listener);
        std::mem::forget(file);
        let (_listener, file) = listen(&path, &RunAs::own(), false).unwrap();
        assert!(file.is_there());
        drop(file);
        assert!(!path.exists());
        assert!(folder.0.join("tmp").exists(), "a folder that was there stays");
    }

    #[test]
    fn what_it_made_it_removes_and_nothing_else() {
        let folder = Folder::new("made");
        let path = folder.0.join("tmp/paceline.sock");
        drop(listen(&path, &RunAs::own(), false).unwrap());
        assert!(!folder.0.join("tmp").exists());
        let (_listener, file) = listen(&path, &RunAs::own(), false).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "somebody's").unwrap();
        assert!(!file.is_there());
        drop(file);
        assert!(path.exists());
        assert!(listen(&path, &RunAs::own(), true).is_err(), "a file is no socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    }

    #[test]
    fn a_path_may_be_long() {
        let folder = Folder::new("long");
        let long = folder.0.join("x".repeat(120));
        fs::create_dir(&long).unwrap();
        let path = long.join("paceline.sock");
        let (_listener, file) = listen(&path, &RunAs::own(), true).unwrap();
        assert!(connect(&path).is_ok() && file.is_there());
        assert!(matches!(listen(&path, &RunAs::own(), true), Err(NoSocket::Taken)));
    }

    #[test]
    fn a_folder_that_others_write_in_has_to_be_named() {
        let folder = Folder::new("open");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
        let path = folder.0.join("paceline.sock");
        assert!(matches!(listen(&path, &RunAs::own(), false), Err(NoSocket::Unsafe(_))));
        assert!(listen(&path, &RunAs::own(), true).is_ok());
    }

    #[test]
    fn it_belongs_to_the_account_that_uses_it() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("only root can make it for somebody else");
        }
        let account = Account { uid: 65534, gid: 65534, groups: vec![65534], name: None, home: "/".into() };
        let account = RunAs::Account(account.into());
        let folder = Folder::new("account");
        let path = folder.0.join("paceline.sock");
        // In root's own folder.
        let (_listener, file) = listen(&path, &account, true).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (65534, 65534, 0o600));
        drop(file);
        // In a folder of its own, which leads where only root may write.
        let own = folder.0.join("own");
        fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink("/etc", own.join("tmp")).unwrap();
        std::os::unix::fs::chown(&own, Some(65534), Some(65534)).unwrap();
        let refused = listen(&own.join("tmp/paceline.sock"), &account, false);
        assert!(refused.is_err() && !Path::new("/etc/paceline.sock").exists());
        fs::remove_file(own.join("tmp")).unwrap();
        let (_listener, _file) = listen(&own.join("tmp/paceline.sock"), &account, false).unwrap();
        assert_eq!(fs::metadata(own.join("tmp/paceline.sock")).unwrap().uid(), 65534);
    }
}
