//! The account and the certificates on disk: a folder for each authority that only the server may enter (0700), files
//! that only it may read (0600) and that are whole at any moment. It never speaks with an authority.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::config::CertificatePair;

pub struct Storage {
    dir: PathBuf,
}

/// Nothing can be kept in the folder.
#[derive(Debug, thiserror::Error)]
#[error("{}: certificates cannot be kept here: {error}; set acme_dir", dir.display())]
pub struct StorageError {
    pub dir: PathBuf,
    pub error: io::Error,
}

impl Storage {
    /// The folder of one authority below `base`, made where it is missing.
    pub fn open(base: &Path, directory: &str) -> Result<Storage, StorageError> {
        let dir = base.join(folder_name(directory));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        let made = made.and_then(|()| fs::set_permissions(&dir, Permissions::from_mode(0o700)));
        let storage = Storage { dir };
        let tried =
            made.and_then(|()| storage.write("trial", "")).and_then(|()| fs::remove_file(storage.dir.join("trial")));
        match tried {
            Ok(()) => Ok(storage),
            Err(error) => Err(StorageError { dir: storage.dir, error }),
        }
    }

    /// None: there is none yet, or none that can be read.
    pub fn account(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.dir.join("account.json")).ok()?).ok()
    }

    pub fn save_account(&self, account: &Value) -> io::Result<()> {
        self.write("account.json", &account.to_string())
    }

    pub fn forget_account(&self) {
        let _ = fs::remove_file(self.dir.join("account.json"));
    }

    /// The host's chain and key, which are in one file so that they always belong together.
    pub fn pair(&self, host: &str) -> CertificatePair {
        let path = self.dir.join(format!("{host}.pem"));
        CertificatePair { cert: path.clone(), key: path }
    }

    pub fn save_certificate(&self, host: &str, text: &str) -> io::Result<()> {
        self.write(&format!("{host}.pem"), text)
    }

    /// The file is the old one or the new one, whatever happens.
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let new = self.dir.join(format!(".{name}.{}.new", std::process::id()));
        let _ = fs::remove_file(&new);
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, self.dir.join(name))?;
            File::open(&self.dir)?.sync_all()
        });
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

/// The authority's address as a name.
fn folder_name(directory: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
    let name: String = directory.trim_start_matches("https://").trim_end_matches('/').chars().map(plain).collect();
    if name.starts_with('.') {
        return format!("_{name}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_may_read() {
        let base = std::env::temp_dir().join(format!("paceline-acme-{}", std::process::id()));
        let storage = Storage::open(&base.join("deep"), "https://ca.test:14000/dir").unwrap();
        let dir = base.join("deep/ca.test_14000_dir");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&base)), (0o700, 0o700));
        assert!(storage.account().is_none());
        for key in ["a", "b"] {
            storage.save_account(&Value::from(key)).unwrap();
            assert_eq!(storage.account(), Some(Value::from(key)));
        }
        storage.save_certificate("a.test", "text").unwrap();
        assert_eq!(fs::read_to_string(storage.pair("a.test").key).unwrap(), "text");
        assert_eq!((mode(&dir.join("account.json")), mode(&dir.join("a.test.pem"))), (0o600, 0o600));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "something was left behind");
        storage.forget_account();
        assert!(storage.account().is_none());
        assert_eq!(folder_name("https://../"), "_..");
        fs::remove_dir_all(base).unwrap();
        assert!(Storage::open(Path::new("/proc/paceline"), "https://a.test")
            .is_err_and(|why| why.to_string().contains("set acme_dir")));
    }
}
