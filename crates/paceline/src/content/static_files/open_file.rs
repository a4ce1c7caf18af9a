//! A regular file held open, and what the descriptor says about it.
//! It never asks a path twice: length, time and bytes come from the same descriptor, whatever replaces the name since.
//!
//! Opening is tried on the event loop first (`SiteFiles`): a lookup in the kernel's directory cache costs about a microsecond, a
//! trip to the blocking pool many times that, and most lookups are for app URLs that have no file at all.

use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustix::io::Errno;

use super::{conditional::Validators, entity_tag::EntityTag};
use unix_user::Reader;

/// Within this time after a change the next one might leave the modification time as it is (the kernel's clock tick,
/// whole seconds on some file systems), so the validators are not strong yet (RFC 9110 section 8.8.1).
const SETTLING: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) length: u64,
    pub(super) modified: SystemTime,
    inode: u64,
}

/// What `reader` opens, which waits for no FIFO and no device, and follows symlinks (Capistrano's shared folders).
pub(super) fn open(reader: Reader, path: &Path) -> io::Result<OpenFile> {
    let file = reader(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "not a regular file"));
    }
    Ok(OpenFile { length: metadata.len(), modified: metadata.modified()?, inode: metadata.ino(), file: Arc::new(file) })
}

/// As `open`; None where nothing servable has this name.
pub(super) fn open_if_present(reader: Reader, path: &Path) -> io::Result<Option<OpenFile>> {
    match open(reader, path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Unlike a lack of descriptors or a failing disk, these say that the name means no file we may read.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(
            Errno::from_io_error(error),
            Some(
                Errno::NOTDIR
                    | Errno::NAMETOOLONG
                    | Errno::LOOP
                    | Errno::ACCESS
                    | Errno::PERM
                    | Errno::NXIO
                    | Errno::NODEV
                    | Errno::INVAL
                    | Errno::ILSEQ
            )
        )
}

impl OpenFile {
    /// The inode is part of the tag: a file that replaces another may carry the same time and length (`cp -p`, packages
    /// built with a fixed clock), and a wrong 304 is worse than a needless 200.
    pub(super) fn validators(&self, now: SystemTime) -> Validators {
        let settled = now.duration_since(self.modified).is_ok_and(|age| age >= SETTLING);
        let (before_epoch, since_epoch) = match self.modified.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => ("", since),
            Err(error) => ("n", error.duration()),
        };
        let opaque = format!("{before_epoch}{:x}-{:x}-{:x}", since_epoch.as_nanos(), self.length, self.inode);
        Validators {
            entity_tag: Some(EntityTag::new(!settled, opaque)),
            // RFC 9110 section 8.8.2.1: never later than the message's own date.
            last_modified: Some(self.modified).filter(|modified| *modified <= now),
            last_modified_is_strong: settled,
        }
    }
}
