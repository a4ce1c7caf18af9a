//! The file in which the names that were learned of the sites' cookies outlive the server: mode 0600, in the folder of
//! the cache's disk. It holds names, never a value. It never follows a link, and never writes as root where others may.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use cache::cookies::CookieKnowledge;
use rustix::{
    fs::{flock, FlockOperation, OFlags},
    process::geteuid,
};
use serde_json::{json, Map, Value};

use super::{
    disk::{make_folder, FolderError},
    learned::{from_json, to_json, MAX_SITES},
};

const NAME: &str = "cookies.json";
/// Held while it is written: by one of several servers, and by the old or the new front during an upgrade.
const LOCK: &str = "cookies.lock";
const VERSION: u64 = 1;
/// Bytes; a file beyond this was not written by us.
const LARGEST: u64 = 32 << 20;
/// No link is followed, and no FIFO waited for.
const NO_TRICKS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;

/// What was learned, by site.
pub type Sites = BTreeMap<String, CookieKnowledge>;

/// Why the file can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CookieFileError {
    /// `path`: the file or its folder.
    #[error("{}: {fault}", path.display())]
    At { path: PathBuf, fault: CookieFileFault },
    #[error("there is no folder for it: set cache_dir")]
    NoFolder,
}

/// What is wrong with the file or its folder.
#[derive(Debug, thiserror::Error)]
pub enum CookieFileFault {
    #[error("it belongs to another account")]
    OtherAccount,
    #[error("others may write to it")]
    Writable,
    #[error("it is damaged")]
    Damaged,
    #[error("it is of another version")]
    OtherVersion,
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Where it lies.
pub struct CookieFile {
    folder: PathBuf,
}

impl CookieFile {
    /// In this folder, which is made when something is written.
    pub fn new(folder: &Path) -> CookieFile {
        CookieFile { folder: folder.to_owned() }
    }

    /// What is there; nothing, if there is no file.
    pub fn read(&self) -> Result<Sites, CookieFileError> {
        let path = self.folder.join(NAME);
        sites_in(&path).map_err(|fault| CookieFileError::At { path, fault })
    }

    /// Writes what is known of these sites, with what the file has of them and of others.
    pub fn write(&self, known: &[(String, Arc<CookieKnowledge>)]) -> Result<(), CookieFileError> {
        let written = make_folder(&self.folder).map_err(CookieFileFault::from);
        let written = written.and_then(|()| Ok(self.replace(known)?));
        written.map_err(|fault| CookieFileError::At { path: self.folder.clone(), fault })
    }

    fn replace(&self, known: &[(String, Arc<CookieKnowledge>)]) -> io::Result<()> {
        let options = |options: &mut OpenOptions, path: &Path| -> io::Result<File> {
            options.write(true).create(true).truncate(true).mode(0o600).custom_flags(NO_TRICKS).open(path)
        };
        let lock = options(&mut OpenOptions::new(), &self.folder.join(LOCK))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        // What can't be read is worth no more than what is known.
        let mut sites = self.read().unwrap_or_default();
        for (site, learned) in known {
            if sites.len() >= MAX_SITES && !sites.contains_key(site) {
                continue;
            }
            let before = sites.entry(site.clone()).or_default();
            if let Some(merged) = before.merged(learned) {
                *before = merged;
            }
        }
        let sites: Map<String, Value> = sites.iter().map(|(site, learned)| (site.clone(), to_json(learned))).collect();
        let new = self.folder.join(format!("{NAME}.new"));
        let mut file = options(&mut OpenOptions::new(), &new)?;
        file.write_all(format!("{}\n", json!({ "version": VERSION, "sites": sites })).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join(NAME))
    }
}

/// What is in the file; nothing, if there is none.
fn sites_in(path: &Path) -> Result<Sites, CookieFileFault> {
    let file = match OpenOptions::new().read(true).custom_flags(NO_TRICKS).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Sites::default()),
        Err(error) => return Err(error.into()),
    };
    let found = file.metadata()?;
    if found.uid() != geteuid().as_raw() {
        return Err(CookieFileFault::OtherAccount);
    }
    if !found.is_file() || found.mode() & 0o022 != 0 {
        return Err(CookieFileFault::Writable);
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text)?;
    let read: Value = serde_json::from_slice(&text).map_err(|_| CookieFileFault::Damaged)?;
    if read["version"].as_u64() != Some(VERSION) {
        return Err(CookieFileFault::OtherVersion);
    }
    let sites = read["sites"].as_object().ok_or(CookieFileFault::Damaged)?.iter().take(MAX_SITES);
    let sites = sites.map(|(site, learned)| Some((site.clone(), from_json(learned)?)));
    sites.collect::<Option<_>>().ok_or(CookieFileFault::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("paceline-cookies-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Folder(folder)
        }

        fn file(&self) -> CookieFile {
            CookieFile::new(&self.0)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn known(site: &str, names: &[&str]) -> (String, Arc<CookieKnowledge>) {
        let http_only = names.iter().map(|name| name.to_string()).collect();
        (site.into(), Arc::new(CookieKnowledge { http_only, ..CookieKnowledge::default() }))
    }

    #[test]
    fn what_is_written_is_read_and_what_others_wrote_stays() {
        let folder = Folder::new("written");
        assert_eq!(folder.file().read().unwrap(), Sites::default());
        assert!(!folder.0.exists(), "reading makes no folder");
        folder.file().write(&[known("shop", &["_id"])]).unwrap();
        folder.file().write(&[known("blog", &["b"]), known("shop", &["a"])]).unwrap();
        let read = folder.file().read().unwrap();
        assert_eq!(read["shop"].http_only, ["_id", "a"]);
        assert_eq!(read["blog"].http_only, ["b"]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.0), mode(&folder.0.join(NAME))), (0o700, 0o600));
    }

    #[test]
    fn several_servers_write_at_the_same_time() {
        let folder = Folder::new("several");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let folder = &folder;
                scope.spawn(move || folder.file().write(&[known("shop", &[&format!("n{n}")])]).unwrap());
            }
        });
        assert_eq!(folder.file().read().unwrap()["shop"].http_only.len(), 8);
    }

    #[test]
    fn what_is_damaged_is_said_and_replaced() {
        let folder = Folder::new("damaged");
        folder.file().write(&[known("shop", &["_id"])]).unwrap();
        let path = folder.0.join(NAME);
        for (content, told) in [
            (&b"{\"version\":1,\"si"[..], "damaged"),
            (b"{\"version\":2,\"sites\":{}}", "another version"),
            (b"{\"version\":1,\"sites\":{\"a\":{\"http_only\":[7]}}}", "damaged"),
            (b"\xff", "damaged"),
        ] {
            fs::write(&path, content).unwrap();
            assert!(folder.file().read().unwrap_err().to_string().contains(told), "{told}");
            folder.file().write(&[known("shop", &["_id"])]).unwrap();
            assert_eq!(folder.file().read().unwrap()["shop"].http_only, ["_id"]);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(folder.file().read().unwrap_err().to_string().contains("others may write"));
    }

    #[test]
    fn no_link_is_followed() {
        let folder = Folder::new("link");
        folder.file().write(&[known("shop", &["_id"])]).unwrap();
        let elsewhere = folder.0.join("elsewhere");
        fs::write(&elsewhere, "precious").unwrap();
        for name in [NAME, "cookies.json.new", LOCK] {
            let _ = fs::remove_file(folder.0.join(name));
            symlink(&elsewhere, folder.0.join(name)).unwrap();
            let _ = folder.file().write(&[known("shop", &["_id"])]);
            let _ = fs::remove_file(folder.0.join(name));
            assert_eq!(fs::read(&elsewhere).unwrap(), b"precious", "{name}");
        }
    }
}
