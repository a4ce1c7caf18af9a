//! Small files that are for one account alone: read with a bound, and replaced as a whole. It never follows a link.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;

/// The first `max` bytes of the file.
///
/// # Errors
/// It can't be opened, or is a link; `InvalidData`: it is no regular file.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    // A pipe in its place is not waited for.
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a file of mode 0600 in its place; its folder is made with mode 0700.
///
/// # Errors
/// The folder or the file can't be written; then the old file stays.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Of no name that a process may have left which was killed: in a container each has the number that is ours now.
    let new = path.with_extension(format!("new-{}", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let written = options.open(&new)?.write_all(bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// As `replace`, for what must not be believed any more once it has changed: where the new file can't be written, as on a disk that is
/// full, none stays.
///
/// # Errors
/// The folder or the file can't be written.
pub fn replace_or_remove(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes).inspect_err(|_| drop(fs::remove_file(path)))
}

/// A name that is as long as it may be: no new file can be made beside it, though this one can be removed, as on a disk that is full.
#[cfg(test)]
pub fn on_a_full_disk(folder: &Path) -> std::path::PathBuf {
    folder.join("x".repeat(250))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_of_our_number_has_left_is_in_no_way() {
        let folder = std::env::temp_dir().join(format!("paceline-private-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(format!("code.new-{}", std::process::id())), "half").unwrap();
        let file = folder.join("code.json");
        replace(&file, b"one").unwrap();
        replace(&file, b"two").unwrap();
        assert_eq!(read(&file, 9).unwrap(), b"two");
        fs::remove_dir_all(folder).unwrap();
    }
}
