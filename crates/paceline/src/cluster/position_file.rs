//! Up to where the purges of a cluster are applied to the cache in a folder, for the next start. It never says more than
//! what is on disk: a file that can't be trusted counts as none.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ::cluster::Position;
use serde_json::{json, Value};

const FILE: &str = "cluster.json";

/// The file of a cluster.
pub struct PositionFile {
    path: PathBuf,
    name: String,
    boot: String,
}

impl PositionFile {
    pub fn new(folder: &Path, name: &str) -> PositionFile {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        PositionFile { path: folder.join(FILE), name: name.into(), boot: boot.trim().into() }
    }

    /// None: it is not known. After a crash of the machine the disk may be older than the file.
    pub fn read(&self) -> Option<Position> {
        let said: Value = serde_json::from_str(&fs::read_to_string(&self.path).ok()?).ok()?;
        let is_trusted = said["closed"] == true || said["boot"] == self.boot.as_str();
        let is_ours = said["cluster"] == self.name.as_str();
        Position::parse(said["at"].as_str()?).filter(|_| is_trusted && is_ours)
    }

    /// `is_closed`: the cache is closed, and on disk as a whole. A file that can't be written is removed.
    pub fn write(&self, at: &Position, is_closed: bool) {
        let said = json!({ "cluster": self.name, "boot": self.boot, "at": at.to_string(), "closed": is_closed });
        let next = self.path.with_extension("next");
        let written = fs::write(&next, format!("{said}\n")).and_then(|()| fs::rename(&next, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_trusted_if_the_disk_is_as_new() {
        let folder = std::env::temp_dir().join(format!("paceline-cluster-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = PositionFile::new(&folder, "shop");
        assert_eq!(file.read(), None);
        let at = Position::new(57, "9f3c");
        file.write(&at, false);
        assert_eq!(file.read(), Some(at.clone()));
        assert_eq!(PositionFile::new(&folder, "other").read(), None);
        let after_a_crash = PositionFile { boot: "another".into(), ..PositionFile::new(&folder, "shop") };
        assert_eq!(after_a_crash.read(), None);
        file.write(&at, true);
        assert_eq!(after_a_crash.read(), Some(at));
        fs::write(folder.join(FILE), "{").unwrap();
        assert_eq!(file.read(), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
