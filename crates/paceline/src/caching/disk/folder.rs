//! The folder of the cache's files: made and opened for this server alone, and put in order before anything is read.
//! It never follows a link to another place, and never touches a file that another server has.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{flock, FlockOperation},
    io::Errno,
    process::geteuid,
};

use super::{
    environment::{Entries, Environment, FILE, READERS},
    Say,
};
use paceline_store::verify;

use unix_user::{make_dirs, others_above};

/// Says whose the folder is.
const OWNER: &str = "server.lock";
const DAMAGED: &str = "data.mdb.damaged";
/// Room for more readers than there are.
const READERS_BYTES: usize = 16 << 10;

/// Why nothing is kept in a folder. It is said behind the folder's path.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("it is not a directory")]
    NotADirectory,
    #[error("it belongs to another account")]
    OtherAccount,
    #[error(
        "this server runs as root, and others may write in {}: name a cache_dir where only root may",
        above.display()
    )]
    Exposed { above: PathBuf },
    #[error("another server has it")]
    Taken,
    #[error("{0}")]
    System(#[from] io::Error),
    /// LMDB can't open the file.
    #[error("{0}")]
    Environment(#[from] heed::Error),
}

/// What a folder is held by.
#[derive(Debug)]
pub struct Lock(pub(super) File);

impl Lock {
    fn is_of(&self, folder: &Path) -> io::Result<bool> {
        let held = self.0.metadata()?;
        match fs::symlink_metadata(folder.join(OWNER)) {
            Ok(there) => Ok((held.dev(), held.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Lock {
    /// Closing alone would not do while a child that is being started has the same open file, until its exec.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// The environment in the folder, and what it is held by. The inner error is one that can pass. `secret`: the keys' in an empty one.
pub fn open(
    folder: &Path,
    size: u64,
    secret: Option<[u64; 2]>,
    say: &Say,
) -> Result<(Result<Environment, heed::Error>, Lock), FolderError> {
    make(folder)?;
    let lock = lock(folder)?;
    let entries = match prepare(folder, size, say).map_err(heed::Error::Io) {
        Ok(entries) => entries,
        Err(error) if can_pass(&error) => return Ok((Err(error), lock)),
        Err(error) => return Err(error.into()),
    };
    match Environment::open(folder, size, &entries, secret) {
        Err(error) if can_pass(&error) => Ok((Err(error), lock)),
        Err(error) if folder.join(FILE).exists() => {
            set_aside(folder, &error.to_string(), say)?;
            make_readers(folder)?;
            Ok((Ok(Environment::open(folder, size, &Entries::default(), secret)?), lock))
        }
        opened => Ok((Ok(opened?), lock)),
    }
}

/// An empty environment in the place of one that was given up. Meanwhile the folder may have become another one.
pub fn begin_again(folder: &Path, size: u64, secret: [u64; 2], held: &mut Lock) -> Result<Environment, FolderError> {
    make(folder)?;
    if !held.is_of(folder)? {
        *held = lock(folder)?;
    }
    remove(folder, FILE)?;
    make_readers(folder)?;
    let opened = Environment::open(folder, size, &Entries::default(), Some(secret));
    if opened.is_err() {
        let _ = remove(folder, FILE);
    }
    Ok(opened?)
}

/// Whether it may be otherwise a while later.
pub fn can_pass(error: &heed::Error) -> bool {
    let passing = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::IO,
        Errno::ROFS,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::AGAIN,
        Errno::TIMEDOUT,
        Errno::STALE,
    ];
    matches!(error, heed::Error::Io(why) if Errno::from_io_error(why).is_some_and(|why| passing.contains(&why)))
}

/// Makes the folder, if it is not there, of mode 0700.
pub fn make(folder: &Path) -> Result<(), FolderError> {
    if let Some(parent) = folder.parent() {
        make_dirs(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(FolderError::NotADirectory);
    }
    if found.uid() != geteuid().as_raw() {
        return Err(FolderError::OtherAccount);
    }
    if let Some(above) = others_above(folder)? {
        return Err(FolderError::Exposed { above });
    }
    Ok(fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?)
}

fn lock(folder: &Path) -> Result<Lock, FolderError> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(folder.join(OWNER))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(file)),
        Err(Errno::WOULDBLOCK) => Err(FolderError::Taken),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Leaves a file that LMDB can open without harm, or none.
fn prepare(folder: &Path, size: u64, say: &Say) -> io::Result<Entries> {
    make_readers(folder)?;
    let file = match File::open(folder.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::default()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length == 0 {
        say(format!("The cache on disk is gone ({} is empty): it starts empty", folder.join(FILE).display()));
        remove(folder, FILE)?;
        return Ok(Entries::default());
    }
    let mut entries = Entries::default();
    if let Err(damage) = verify(&file, size, &mut |key, value| entries.see(key, value)) {
        set_aside(folder, damage, say)?;
        return Ok(Entries::default());
    }
    if !entries.are_ours() {
        say("The cache on disk has the format of another version: it starts empty".into());
    } else if !entries.are_sound() {
        set_aside(folder, "its entries do not match their checksums", say)?;
        return Ok(Entries::default());
    } else if length > size {
        say("The cache on disk is larger than cache_disk allows now: it starts empty".into());
    } else {
        return Ok(entries);
    }
    remove(folder, FILE)?;
    Ok(Entries::default())
}

/// LMDB maps this file and writes what it maps: where the disk had no room for it then, the kernel would end the server.
fn make_readers(folder: &Path) -> io::Result<()> {
    remove(folder, READERS)?;
    let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(folder.join(READERS));
    made?.write_all(&[0; READERS_BYTES]).inspect_err(|_| drop(remove(folder, READERS)))
}

/// A damaged file stays for who wants to know; the one before it does not.
fn set_aside(folder: &Path, damage: &str, say: &Say) -> io::Result<()> {
    fs::rename(folder.join(FILE), folder.join(DAMAGED))?;
    say(format!(
        "The cache on disk is damaged ({damage}): it starts empty; the damaged file is {}",
        folder.join(DAMAGED).display()
    ));
    Ok(())
}

fn remove(folder: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(folder.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
