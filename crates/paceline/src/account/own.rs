//! Whether a folder is out of everybody else's reach, so that root may write in it.
//! It never changes anything.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Root writes nothing where somebody else could put another folder in the place of this one. Some: a folder above it where
/// others may write; always None for those who are not root.
pub fn others_above(folder: &Path) -> io::Result<Option<PathBuf>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let real = folder.canonicalize()?;
    for above in real.ancestors().skip(1) {
        let found = fs::symlink_metadata(above)?;
        let sticky = found.mode() & 0o1000 != 0;
        if found.uid() != 0 || (found.mode() & 0o022 != 0 && !sticky) {
            return Ok(Some(above.to_path_buf()));
        }
    }
    Ok(None)
}
