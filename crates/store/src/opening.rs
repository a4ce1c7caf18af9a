//! How a file is opened: all who use it have the same locks, and what nobody has open is looked at before it is
//! believed. LMDB's own locks are in a file beside it that is found by its name, whatever became of either; so who uses
//! a file also holds a lock on the file itself. Never changes a record.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{fchown, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use crate::{verify, Error, Kind, Options};

/// Bytes of the file that stand for something when they are locked, far behind what is ever written.
const OPENING: i64 = 1 << 62;
const USERS: i64 = OPENING + 1;

/// Says that this process uses the file, for as long as it lives. A child has it too.
pub(crate) struct InUse {
    file: File,
    /// Nobody can write to this file system, and there are no locks.
    pub(crate) read_only: bool,
    /// Who closes any descriptor of a file loses all locks that its process has on it, LMDB's too: so this one is
    /// closed after LMDB's.
    locks_kept: Option<File>,
}

impl InUse {
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// Opens the file at `path`, or makes it, sees to LMDB's locks beside it, and has `open` open it.
pub(crate) fn open<T>(
    path: &Path,
    options: &Options,
    open: impl FnOnce(&InUse) -> Result<T, Error>,
) -> Result<(T, InUse), Error> {
    let file = loop {
        let file = match OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o666).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EROFS) => {
                let in_use = InUse { file: File::open(path)?, read_only: true, locks_kept: None };
                check(&in_use.file, u64::MAX)?;
                return Ok((open(&in_use)?, in_use));
            }
            file => file?,
        };
        lock(&file, libc::F_WRLCK, OPENING, true)?;
        if is_at(&file, path) {
            break file;
        }
    };
    if file.metadata()?.nlink() > 1 {
        let why = "it has another name (a hard link), under which it would have other locks: make that a copy, or a symbolic link";
        return Err(Error::new(Kind::System(0), why));
    }
    let mut in_use = InUse { file, read_only: false, locks_kept: None };
    let opened = if lock(&in_use.file, libc::F_WRLCK, USERS, false)? {
        let (opened, locks) = first(path, options, &in_use, open)?;
        in_use.locks_kept = Some(locks);
        opened
    } else {
        if !beside(path).exists() {
            let why = format!("{} was deleted while others use it: end them first", beside(path).display());
            return Err(Error::new(Kind::System(0), why));
        }
        open(&in_use)?
    };
    lock(&in_use.file, libc::F_RDLCK, USERS, true)?;
    lock(&in_use.file, libc::F_UNLCK, OPENING, true)?;
    Ok((opened, in_use))
}

/// Opens what nobody has open.
fn first<T>(
    path: &Path,
    options: &Options,
    in_use: &InUse,
    open: impl FnOnce(&InUse) -> Result<T, Error>,
) -> Result<(T, File), Error> {
    let file = &in_use.file;
    let making = Mark::of(file, Mark::MAKING)?;
    let looked_at = Mark::of(file, Mark::LOOKED_AT)?;
    let found = Mark::found(&beside(path));
    if found.is_some() && found == making {
        // Whoever was making it ended between its two heads.
        file.set_len(0)?;
    }
    let fresh = file.metadata()?.len() == 0;
    let known = found.is_some() && found == looked_at;
    check(file, if known { options.verify_up_to } else { u64::MAX })?;
    let locks = make_locks(path, file, options.max_readers)?;
    let opened = write(&locks, making.filter(|_| fresh))
        .and_then(|()| open(in_use))
        .and_then(|opened| write(&locks, looked_at).map(|()| opened));
    match opened {
        Ok(opened) => Ok((opened, locks)),
        Err(error) => {
            // What LMDB began is not to be taken for damage.
            if fresh {
                let _ = file.set_len(0);
            }
            let _ = fs::remove_file(beside(path));
            Err(error)
        }
    }
}

fn write(locks: &File, mark: Option<Mark>) -> Result<(), Error> {
    let Some(Mark(bytes)) = mark else { return Ok(()) };
    Ok(locks.write_all_at(&bytes, locks.metadata()?.len() - Mark::LENGTH)?)
}

/// The file of LMDB's locks.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    name.into()
}

/// A new file for the locks, since nobody holds those of the old one. Whoever may use the store may use it.
fn make_locks(path: &Path, file: &File, max_readers: u32) -> Result<File, Error> {
    let beside = beside(path);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A folder in which nobody may delete: LMDB begins the old one anew, unless somebody has it for a file that was
        // here before.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && beside.exists() => {
            let locks = OpenOptions::new().read(true).write(true).open(&beside)?;
            if !lock(&locks, libc::F_WRLCK, 0, false)? {
                return Err(Error::new(
                    Kind::System(0),
                    "others still use the file that was here before: end them first",
                ));
            }
            lock(&locks, libc::F_UNLCK, 0, false)?;
            locks.set_len(lock_length(max_readers))?;
            return Ok(locks);
        }
        done => done?,
    }
    let locks = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
    let like = file.metadata()?;
    let mode = like.mode() & 0o666;
    // A process that a filter of system calls forbids it can share a store that is its own.
    if locks.metadata()?.mode() & 0o777 != mode {
        locks.set_permissions(Permissions::from_mode(mode))?;
    }
    // Only root can give it away, and others need not.
    let _ = fchown(&locks, Some(like.uid()), Some(like.gid()));
    locks.set_len(lock_length(max_readers))?;
    Ok(locks)
}

/// Room for LMDB's table of readers (64 bytes each) and its head, and behind it for a [`Mark`].
fn lock_length(max_readers: u32) -> u64 {
    u64::from(max_readers) * 64 + 1024 + Mark::LENGTH
}

/// At the end of the locks: what became of which file since this machine was started. All that was written since is in
/// the machine's memory, if not on its disk.
#[derive(PartialEq)]
struct Mark([u8; Mark::LENGTH as usize]);

impl Mark {
    /// Less than a reader takes, so that no reader gets this place.
    const LENGTH: u64 = 40;
    /// It is being made, and nothing has been written to it.
    const MAKING: &[u8; 8] = b"plmaking";
    /// It was looked at whole.
    const LOOKED_AT: &[u8; 8] = b"pllooked";

    /// None where the machine does not say when it was started.
    fn of(file: &File, what: &[u8; 8]) -> Result<Option<Mark>, Error> {
        let Ok(text) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return Ok(None) };
        let Ok(boot) = u128::from_str_radix(&text.trim().replace('-', ""), 16) else { return Ok(None) };
        let stat = file.metadata()?;
        let mut bytes = [0; Mark::LENGTH as usize];
        bytes[..8].copy_from_slice(what);
        bytes[8..24].copy_from_slice(&boot.to_ne_bytes());
        bytes[24..32].copy_from_slice(&stat.dev().to_ne_bytes());
        bytes[32..].copy_from_slice(&stat.ino().to_ne_bytes());
        Ok(Some(Mark(bytes)))
    }

    fn found(locks: &Path) -> Option<Mark> {
        let file = File::open(locks).ok()?;
        let mut bytes = [0; Mark::LENGTH as usize];
        file.read_exact_at(&mut bytes, file.metadata().ok()?.len().checked_sub(Mark::LENGTH)?).ok()?;
        Some(Mark(bytes))
    }
}

/// Whether this is still the file of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// Pages at the end that were taken and given back in one transaction are in no file.
const LONGEST_END: u64 = 1 << 30;

/// Looks at the file before LMDB does. An empty one is a new store.
pub(crate) fn check(file: &File, verify_up_to: u64) -> Result<(), Error> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(());
    }
    if !verify::is_lmdb(file) {
        return Err(Error::new(Kind::Foreign, "not a store"));
    }
    // One that is shorter than its head says may be sound: what was never used of it was never written.
    let looked_at = if length > verify_up_to && verify::heads(file).is_ok() {
        Ok(())
    } else {
        verify::verify(file, length + length.max(LONGEST_END), &mut |_, _| {})
    };
    looked_at.map_err(|damage| Error::new(Kind::Damaged, format!("damaged: {damage}")))
}

/// Locks a byte for whoever has this very file open, also after a fork. False if another has it and `wait` is not set.
#[allow(unsafe_code)]
fn lock(file: &File, kind: i32, byte: i64, wait: bool) -> Result<bool, Error> {
    let how = libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: byte as _, l_len: 1, l_pid: 0 };
    let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    loop {
        // SAFETY: the file is open, and `how` lives for the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &how) } == 0 {
            return Ok(true);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => return Ok(false),
            error => return Err(error.into()),
        }
    }
}
