//! Where root itself writes: whether a directory is out of everybody else's reach, and files in directories that are
//! not. A link or a file that others have put there leads root nowhere.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::AsRawFd,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    acting, of_files,
    walk::{walk, ResolvedPath},
    AccountRequest, RunAs,
};

/// No link is followed, and no FIFO waited for.
const NO_TRICKS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).bits() as i32;

/// Root writes nothing where somebody else could put another folder in the place of this one. Some: a folder above it
/// where others may write; always None for those who are not root.
pub fn others_above(folder: &Path) -> io::Result<Option<PathBuf>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let found = walk(&std::path::absolute(folder)?)?;
    Ok(found.others_above(0).map(Path::to_path_buf))
}

/// Where others may write on the way to a directory into which root writes, or in that directory itself. None also for a thread
/// that acts as an account.
pub fn others_than_root(dir: &Path) -> io::Result<Option<PathBuf>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let found = walk(&std::path::absolute(dir)?)?;
    Ok(found.others_than_root().map(Path::to_path_buf))
}

/// Opens a file for writing, with `options`, as the owner of its directory where others than root can write on the way
/// to it. There no link is followed, and of root's own files only one that was always there is opened.
pub fn writing(path: &Path, options: &OpenOptions) -> io::Result<File> {
    if !rustix::process::geteuid().is_root() {
        return options.open(path);
    }
    let folder = walk(&std::path::absolute(parent(path))?)?;
    let leads_away =
        || std::path::absolute(path).and_then(|path| walk(&path)).is_ok_and(|found| found.others_above(0).is_some());
    if folder.others_than_root().is_none() && !leads_away() {
        return options.open(path);
    }
    let mut careful = options.clone();
    careful.custom_flags(NO_TRICKS);
    let RunAs::Account(account) = run_as(&folder)? else {
        // A directory such as /tmp, of which everybody may make use.
        let file = careful.open(path)?;
        return match file.metadata()? {
            found if found.is_file() && found.uid() == 0 && found.nlink() == 1 => Ok(file),
            _ => refused("it is no regular file, or not root's, where others can write"),
        };
    };
    match acting(&RunAs::Account(account.clone()), || careful.open(path)) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => refused("it is no regular file"),
        // Made by root before the directory was given away.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => of_root(&folder, path, &careful),
        Err(error) => Err(error),
    }
}

/// Makes a directory and those above it that are missing, as the owner of the one that is there.
pub fn make_dirs(dir: &Path) -> io::Result<()> {
    let there = dir.ancestors().find(|above| above.is_dir());
    match there {
        Some(there) if there == dir => Ok(()),
        Some(there) if rustix::process::geteuid().is_root() => {
            let run_as = run_as(&walk(&std::path::absolute(there)?)?)?;
            acting(&run_as, || fs::create_dir_all(dir))
        }
        _ => fs::create_dir_all(dir),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Who writes in a directory. Err: others could put another one in its place.
fn run_as(folder: &ResolvedPath) -> io::Result<RunAs> {
    match (folder.others_above(folder.stat.st_uid), folder.stat.st_uid) {
        (Some(by), _) => refused(&format!("others can write in {}", by.display())),
        (None, 0) => Ok(RunAs::Root(None)),
        (None, _) => of_files(&AccountRequest::default(), &folder.path)
            .map_err(|refused| io::Error::new(io::ErrorKind::PermissionDenied, refused)),
    }
}

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Root's own file, of which others have no second name.
fn of_root(folder: &ResolvedPath, path: &Path, options: &OpenOptions) -> io::Result<File> {
    // The directory that was looked at, whatever its name leads to by now.
    let folder = PathBuf::from(format!("/proc/self/fd/{}", folder.entry.as_raw_fd()));
    let path = folder.join(path.file_name().unwrap_or_default());
    let file = options.clone().create(false).truncate(false).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.uid() == 0 && found.nlink() == 1 {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::unix::fs::{chown, lchown, symlink, PermissionsExt},
    };

    use super::*;

    #[test]
    fn root_writes_as_the_owner_of_a_directory() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("only root writes as somebody else");
        }
        let base = std::env::temp_dir().join(format!("paceline-writing-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        let dir = base.join("theirs");
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(base.join("roots"), "kept").unwrap();
        fs::write(dir.join("old"), "").unwrap();
        fs::set_permissions(dir.join("old"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(base.join("roots"), dir.join("hard-link")).unwrap();
        symlink(base.join("roots"), dir.join("link")).unwrap();
        symlink(&base, dir.join("away")).unwrap();
        chown(&dir, Some(65534), None).unwrap();
        lchown(dir.join("away"), Some(65534), None).unwrap();
        let write = |name: &str| {
            writing(&dir.join(name), OpenOptions::new().append(true).create(true))?.write_all(b"line")?;
            fs::metadata(dir.join(name)).map(|found| found.uid())
        };
        assert_eq!((write("new").unwrap(), write("old").unwrap()), (65534, 0));
        for name in ["link", "hard-link", "away/new", "away/roots"] {
            assert!(write(name).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(base.join("roots")).unwrap(), "kept");
        make_dirs(&dir.join("log/more")).unwrap();
        assert_eq!(fs::metadata(dir.join("log/more")).unwrap().uid(), 65534);
        assert!(make_dirs(&dir.join("away/log")).is_err() && !base.join("log").exists());
        assert!(writing(&base.join("own"), OpenOptions::new().append(true).create(true)).is_ok());
        fs::remove_dir_all(base).unwrap();
    }
}
