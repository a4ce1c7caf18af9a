//! Temporary files for bodies that are too large for memory: private (0600), in the system's folder for them.
//! It never reads or interprets what is in them.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{fchown, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustix::fs::{Mode, OFlags};

/// A file whose path is still needed has been written to more lately than this: processes of another container that
/// shares the folder can't be seen.
const QUIET: Duration = Duration::from_secs(600);

/// Removes what servers have left that were killed; returns how many files that were.
pub fn sweep() -> usize {
    sweep_in(&std::env::temp_dir())
}

/// Removes what this process has left when it became another program.
pub fn sweep_own() {
    let own = format!("paceline-{}-", std::process::id());
    let ours = |name: &str| name.strip_prefix(&own).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    for entry in std::env::temp_dir().read_dir().into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(ours) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn sweep_in(dir: &Path) -> usize {
    let Ok(entries) = dir.read_dir() else { return 0 };
    entries.flatten().filter(|entry| is_leftover(entry) && std::fs::remove_file(entry.path()).is_ok()).count()
}

fn is_leftover(entry: &std::fs::DirEntry) -> bool {
    let name = entry.file_name();
    let Some((pid, number)) =
        name.to_str().and_then(|name| name.strip_prefix("paceline-")).and_then(|rest| rest.split_once('-'))
    else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(pid) || !digits(number) || Path::new("/proc").join(pid).exists() {
        return false;
    }
    // Of the entry itself: nothing is followed.
    let Ok(found) = entry.metadata() else { return false };
    let me = rustix::process::geteuid();
    // What root has made it may have given to an app's account.
    let own = me.is_root() || found.uid() == me.as_raw();
    let quiet = found.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age >= QUIET);
    found.is_file() && found.mode() & 0o077 == 0 && found.nlink() == 1 && own && quiet
}

/// A file without a name: gone with the last descriptor, whatever happens.
pub fn unlinked() -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(File::from(fd)),
        // Some file systems know no O_TMPFILE.
        Err(_) => {
            let named = NamedSpool::create()?;
            File::options().read(true).write(true).open(&named.path)
        }
    }
}

/// A file that another process opens by its path; unlinked when dropped.
#[derive(Debug)]
pub struct NamedSpool {
    path: PathBuf,
}

impl NamedSpool {
    /// Makes an empty file that only this user may open.
    pub fn create() -> io::Result<NamedSpool> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("paceline-{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => return Ok(NamedSpool { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets the account, and nobody else, open the file.
    pub fn give_to(&self, uid: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&self.path, flags, Mode::empty())?);
        let found = file.metadata()?;
        // A name in a folder of somebody else's may have been replaced meanwhile.
        let ours =
            found.is_file() && found.nlink() == 1 && [rustix::process::geteuid().as_raw(), uid].contains(&found.uid());
        if !ours {
            return Err(io::Error::other("the temporary file has been tampered with"));
        }
        fchown(file, Some(uid), None)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NamedSpool {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_what_a_killed_server_has_left_is_swept() {
        let dir = std::env::temp_dir().join(format!("paceline-sweep-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        // Beyond the largest pid there can be.
        let gone = 1 << 23;
        let make = |name: String, mode: u32, quiet: bool| {
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(mode).open(dir.join(&name)).unwrap();
            let age = if quiet { QUIET * 2 } else { QUIET / 2 };
            file.set_modified(SystemTime::now() - age).unwrap();
            name
        };
        make(format!("paceline-{gone}-0"), 0o600, true);
        make(format!("paceline-{gone}-17"), 0o600, true);
        let mut kept = vec![
            make(format!("paceline-{}-1", std::process::id()), 0o600, true),
            make(format!("paceline-{gone}-2"), 0o600, false),
            make(format!("paceline-{gone}-3"), 0o644, true),
            make(format!("paceline-{gone}-x"), 0o600, true),
            make(format!("paceline-{gone}"), 0o600, true),
            make(format!("other-{gone}-1"), 0o600, true),
        ];
        std::os::unix::fs::symlink(dir.join(&kept[0]), dir.join(format!("paceline-{gone}-4"))).unwrap();
        std::fs::create_dir(dir.join(format!("paceline-{gone}-5"))).unwrap();
        kept.extend([format!("paceline-{gone}-4"), format!("paceline-{gone}-5")]);

        assert_eq!((sweep_in(&dir), sweep_in(&dir)), (2, 0));

        let mut left: Vec<_> =
            dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        kept.sort();
        assert_eq!(left, kept);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
