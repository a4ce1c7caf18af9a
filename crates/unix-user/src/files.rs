//! Files that are read for a site: with its account's rights, never waiting for one, and never more of one than asked
//! for. What only root can change is read as root, everything else of root's as nobody.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, fd::AsRawFd, fd::OwnedFd},
    path::Path,
};

use rustix::{
    fs::{openat2, Mode, OFlags, ResolveFlags, CWD},
    io::Errno,
};

use super::{acting::try_acting, passwd, walk::walk, RunAs};

/// O_NONBLOCK, so that a FIFO or a device can't make the open wait.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// How a file is opened, by whoever reads it.
pub type Reader = fn(&Path) -> io::Result<File>;

/// Opens a file for reading; what it is the caller asks the descriptor. Links are followed, with the rights of the
/// account.
pub fn open(run_as: &RunAs, path: &Path) -> io::Result<File> {
    match run_as {
        RunAs::Ourselves => plain(path),
        RunAs::Root(_) => as_root(path),
        RunAs::Account(account) => try_acting(account, || plain(path))?,
    }
}

/// How the thread that calls it opens a file for `run_as`: an account's is opened while the thread acts as it.
pub fn open_at(run_as: &RunAs) -> Reader {
    match run_as {
        RunAs::Root(_) => as_root,
        RunAs::Ourselves | RunAs::Account(_) => plain,
    }
}

/// As `open_at`, from what the kernel has in memory alone (`RESOLVE_CACHED`), and through no link: forty of them, each with
/// thousands of segments, take milliseconds of the thread. The error is WouldBlock where only `open_at` can tell.
pub fn open_at_once(run_as: &RunAs) -> Reader {
    match run_as {
        RunAs::Root(_) => at_once_as_root,
        RunAs::Ourselves | RunAs::Account(_) => at_once,
    }
}

fn at_once(path: &Path) -> io::Result<File> {
    match openat2(CWD, path, READ, Mode::empty(), ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS) {
        Ok(file) => Ok(File::from(file)),
        // A link; not in memory; a kernel or a sandbox that has no such call.
        Err(Errno::LOOP | Errno::AGAIN | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn at_once_as_root(path: &Path) -> io::Result<File> {
    match try_acting(&passwd::nobody(), || at_once(path)) {
        Ok(Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        Ok(Ok(file)) => Ok(file),
        _ => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// The content of a regular file of at most `max` bytes. The error is InvalidData where it is something else, or
/// larger.
pub fn read(run_as: &RunAs, path: &Path, max: u64) -> io::Result<Vec<u8>> {
    content(open(run_as, path)?, max)
}

/// The beginning of a regular file, of at most `max` bytes.
pub fn beginning(run_as: &RunAs, path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = open(run_as, path)?;
    let mut content = Vec::new();
    if file.metadata()?.is_file() {
        file.take(max).read_to_end(&mut content)?;
    }
    Ok(content)
}

fn content(file: File, max: u64) -> io::Result<Vec<u8>> {
    let wrong = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let found = file.metadata()?;
    if !found.is_file() {
        return wrong("it is no regular file".into());
    }
    let mut content = Vec::new();
    if found.len() <= max {
        file.take(max + 1).read_to_end(&mut content)?;
    }
    if found.len() > max || content.len() as u64 > max {
        wrong(format!("it is larger than {} KB", max >> 10))
    } else {
        Ok(content)
    }
}

/// Opens a file with the rights that the thread has at the moment.
pub fn plain(path: &Path) -> io::Result<File> {
    Ok(File::from(rustix::fs::open(path, READ, Mode::empty())?))
}

/// As nobody, whom a link in a directory that others write leads no further than themselves; or as root, where no such
/// directory is on the way.
fn as_root(path: &Path) -> io::Result<File> {
    match try_acting(&passwd::nobody(), || plain(path)) {
        // Also where we can't become nobody.
        Ok(Err(error)) | Err(error) if error.kind() != io::ErrorKind::PermissionDenied && !is_no_switch(&error) => {
            Err(error)
        }
        Ok(Ok(file)) => Ok(file),
        _ => {
            let found = walk(&std::path::absolute(path)?)?;
            if found.others_above(0).is_some() {
                return Err(Errno::ACCESS.into());
            }
            again(&found.entry)
        }
    }
}

/// A user namespace without the number of nobody.
fn is_no_switch(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// Opens what O_PATH has found.
fn again(entry: &OwnedFd) -> io::Result<File> {
    plain(format!("/proc/self/fd/{}", entry.as_fd().as_raw_fd()).as_ref())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{lchown, symlink, PermissionsExt},
        path::PathBuf,
    };

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("paceline-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("sub")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn what_is_no_small_regular_file_is_an_error_at_once() {
        let dir = folder("small");
        let run_as = RunAs::own();
        fs::write(dir.join("small"), "text").unwrap();
        fs::File::create(dir.join("large")).unwrap().set_len(700 << 20).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, dir.join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        symlink("/dev/zero", dir.join("endless")).unwrap();
        assert_eq!(read(&run_as, &dir.join("small"), 4).unwrap(), b"text");
        for (name, max) in [("small", 3), ("large", 1 << 20), ("fifo", 9), ("endless", 9), ("sub", 9)] {
            assert_eq!(read(&run_as, &dir.join(name), max).unwrap_err().kind(), io::ErrorKind::InvalidData, "{name}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_opened_at_once_has_no_link_on_its_way() {
        let dir = folder("at-once");
        fs::write(dir.join("plain"), "text").unwrap();
        symlink(dir.join("plain"), dir.join("link")).unwrap();
        symlink(&dir, dir.join("sub/up")).unwrap();
        let run_as = RunAs::own();
        for name in ["link", "sub/up/plain"] {
            let kind = |reader: Reader| reader(&dir.join(name)).map_err(|error| error.kind()).map(drop);
            assert_eq!(kind(open_at_once(&run_as)), Err(io::ErrorKind::WouldBlock), "{name}");
            assert_eq!(kind(open_at(&run_as)), Ok(()), "{name}");
        }
        // A kernel without the call can open nothing at once.
        let opened = open_at_once(&run_as)(&dir.join("plain")).map(|file| file.metadata().unwrap().len());
        assert!(matches!(opened, Ok(4)) || opened.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn roots_files_are_read_where_others_have_no_hand_in_them() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("only root has such files");
        }
        let dir = folder("root");
        let write = |name: &str, mode| {
            fs::write(dir.join(name), name).unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        write("open", 0o644);
        write("private", 0o600);
        write("sub/open", 0o644);
        symlink(dir.join("private"), dir.join("own-link")).unwrap();
        symlink(dir.join("private"), dir.join("sub/link")).unwrap();
        fs::hard_link(dir.join("private"), dir.join("sub/hard-link")).unwrap();
        lchown(dir.join("sub"), Some(65534), None).unwrap();
        lchown(dir.join("sub/link"), Some(65534), None).unwrap();
        let readable = |name: &str| open(&RunAs::Root(None), &dir.join(name)).is_ok();
        for name in ["open", "private", "own-link", "sub/open"] {
            assert!(readable(name), "{name}");
        }
        for name in ["sub/link", "sub/hard-link", "none"] {
            assert!(!readable(name), "{name}");
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(readable("open"), "a home directory of root's");
        fs::remove_dir_all(dir).unwrap();
    }
}
