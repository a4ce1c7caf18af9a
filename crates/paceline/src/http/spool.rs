//! Temporary files for bodies that are too large for memory: private (0600), in the system's folder for them.
//! It never reads or interprets what is in them.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{fchown, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{Mode, OFlags};

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
