//! A temporary folder with files, for tests. It never outlives its test.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::Surroundings;

pub struct Folder(pub PathBuf);

static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Folder {
    /// Paths with their texts; a path that ends in a slash is a folder.
    pub fn with(files: &[(&str, &str)]) -> Folder {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Folder(std::env::temp_dir().join(format!("paceline-config-{}-{count}", std::process::id())));
        fs::create_dir_all(&folder.0).expect("temporary folder");
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    pub fn write(&self, path: &str, text: &str) {
        let whole = self.0.join(path);
        if path.ends_with('/') {
            return fs::create_dir_all(whole).expect("folder");
        }
        fs::create_dir_all(whole.parent().unwrap_or(Path::new("/"))).expect("folder");
        fs::write(whole, text).expect("file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Calls `work` in made-up surroundings: 8 cores, process 77, the variables given.
pub fn around<T>(cwd: &Path, env: &[(&str, &str)], work: impl FnOnce(&Surroundings) -> T) -> T {
    let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, text)| text.to_string());
    let ruby = &crate::apps::spawn::Readers;
    work(&Surroundings { env: &env, cwd: cwd.to_path_buf(), pid: 77, cores: 8, in_container: false, ruby })
}
