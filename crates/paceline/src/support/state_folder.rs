//! The folder in which the server remembers things of its own: the one that systemd keeps for the service, or that of the
//! account. It makes no folder, and never lies in an application's.

use std::{env, path::PathBuf};

/// None: there is neither.
pub fn path() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let service = || {
        let folders = env::var("STATE_DIRECTORY").ok()?;
        folders.split(':').next().map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    let account =
        || Some(absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?.join("paceline"));
    service().or_else(account)
}

/// A site's name as part of a file's.
pub fn file_name(site: &str) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    site.chars().map(safe).collect()
}
