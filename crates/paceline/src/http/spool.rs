//! Temporary files for bodies that are too large for memory: private (0600), in the system's folder for them.
//! It never reads or interprets what is in them.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
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

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NamedSpool {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
