//! Incidents in a folder, one file of JSON each, so that they outlive the server: mode 0600, the newest so many.
//! It never follows a link, never writes as root where others may, and touches no file that it did not name.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;

use super::{list::MAX, Incident};
use unix_user::others_above;

/// A file beyond this was not written by us.
const LARGEST: u64 = 4 << 20;
const ENDING: &str = ".json";
/// No link is followed, and no FIFO waited for.
const NO_TRICKS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;

/// Why a folder is not used for incidents. Its words go behind the folder's path.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("it is not a directory")]
    NotADirectory,
    #[error("others may write in it")]
    OthersWrite,
    #[error("this server runs as root, and others may write in {}", .0.display())]
    OthersWriteAbove(PathBuf),
    #[error("an incident has no number that could name a file")]
    NoNumber,
    #[error(transparent)]
    Io(#[from] io::Error),
}

pub struct Folder(Mutex<Files>);

pub struct Files {
    dir: PathBuf,
    /// Our files' names, the oldest first.
    names: Vec<String>,
}

impl Folder {
    /// Opens the folder, if there is one, and reads what it holds, the oldest first; it is made with the first
    /// incident.
    pub fn open(dir: PathBuf) -> Result<(Folder, Vec<Incident>), FolderError> {
        let mut names = Vec::new();
        if dir.exists() {
            safe(&dir)?;
            let entries = fs::read_dir(&dir)?;
            names.extend(
                entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| ours(name)),
            );
            names.sort();
        }
        let kept = names.iter().rev().take(MAX).filter_map(|name| read(&dir.join(name))).collect::<Vec<_>>();
        Ok((Folder(Mutex::new(Files { dir, names })), kept.into_iter().rev().collect()))
    }

    /// One writes at a time.
    pub fn writing(&self) -> MutexGuard<'_, Files> {
        self.0.lock()
    }
}

impl Files {
    /// Writes one, in place of what was written of it before.
    pub fn write(&mut self, incident: &Incident) -> Result<(), FolderError> {
        if !self.dir.exists() {
            let above = self.dir.ancestors().find(|above| above.is_dir());
            above.map_or(Ok(()), unreachable_for_others)?;
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        }
        safe(&self.dir)?;
        let name = format!("{:010}-{}{ENDING}", incident.at.max(0.0) as u64, incident.id);
        if !ours(&name) {
            return Err(FolderError::NoNumber);
        }
        let new = self.dir.join(format!(".{name}.new"));
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(format!("{}\n", incident.to_json()).as_bytes())?;
        fs::rename(&new, self.dir.join(&name))?;
        if !self.names.contains(&name) {
            self.names.push(name);
            self.names.sort();
        }
        while self.names.len() > MAX {
            let _ = fs::remove_file(self.dir.join(self.names.remove(0)));
        }
        Ok(())
    }
}

/// Seconds, a dash, the number.
fn ours(name: &str) -> bool {
    let parts = name.strip_suffix(ENDING).and_then(|name| name.split_once('-'));
    parts.is_some_and(|(at, id)| {
        at.len() >= 10
            && at.bytes().all(|byte| byte.is_ascii_digit())
            && (1..=32).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn read(path: &Path) -> Option<Incident> {
    let file = OpenOptions::new().read(true).custom_flags(NO_TRICKS).open(path).ok()?;
    let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= LARGEST)?;
    let mut text = String::with_capacity(usize::try_from(found.len()).unwrap_or(0));
    file.take(LARGEST).read_to_string(&mut text).ok()?;
    Incident::from_json(&serde_json::from_str(&text).ok()?)
}

/// Nobody else can write in it, or put another folder in its place.
fn safe(dir: &Path) -> Result<(), FolderError> {
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() {
        return Err(FolderError::NotADirectory);
    }
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(FolderError::OthersWrite);
    }
    unreachable_for_others(dir)
}

fn unreachable_for_others(dir: &Path) -> Result<(), FolderError> {
    let root = rustix::process::geteuid().is_root();
    let of_others = root && fs::metadata(dir).is_ok_and(|found| found.uid() != 0);
    match others_above(dir)?.or_else(|| of_others.then(|| dir.to_path_buf())) {
        Some(above) => Err(FolderError::OthersWriteAbove(above)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::incidents::Kind;
    use std::os::unix::fs::{symlink, PermissionsExt};

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("paceline-incidents-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    fn incident(n: u32) -> Incident {
        Incident { id: format!("{n:08x}"), ..Incident::new(Kind::WorkerDied, "shop", "it died", f64::from(n)) }
    }

    #[test]
    fn the_newest_outlive_the_server() {
        let dir = dir("newest");
        let (folder, kept) = Folder::open(dir.clone()).unwrap();
        assert!(kept.is_empty() && !dir.exists(), "without an incident there is no folder");
        (0..60).for_each(|n| folder.writing().write(&incident(n)).unwrap());
        folder.writing().write(&Incident { what: "it died of old age".into(), ..incident(59) }).unwrap();
        fs::write(dir.join("0000000060-0000003c.json"), "{").unwrap();
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        let secret = dir.join("secret");
        fs::write(&secret, incident(70).to_json().to_string()).unwrap();
        symlink(&secret, dir.join("0000000070-00000046.json")).unwrap();
        let mode = fs::metadata(dir.join("0000000059-0000003b.json")).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, fs::metadata(&dir).unwrap().permissions().mode() & 0o777), (0o600, 0o700));
        let (folder, kept) = Folder::open(dir.clone()).unwrap();
        assert_eq!((kept.len(), kept[0].at, &*kept[47].what), (48, 12.0, "it died of old age"));
        folder.writing().write(&incident(80)).unwrap();
        assert!(dir.join("notes.txt").exists() && secret.exists());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), MAX + 2);
        assert!(folder.writing().write(&Incident { id: "../../x".into(), ..incident(90) }).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_write_in_is_not_used() {
        let dir = dir("others");
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Folder::open(dir.clone()).err().unwrap().to_string(), "others may write in it");
        fs::remove_dir_all(&dir).unwrap();
    }
}
