//! What is around the program: its variables, its directory, its machine. It never looks at them itself.

use std::path::{Component, Path, PathBuf};

use super::puma::StartRuby;

/// What is around the program, as data, so that tests can make it up.
pub struct Surroundings<'a> {
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub cwd: PathBuf,
    pub pid: u32,
    pub cores: usize,
    /// Whether this is a container: what listens on loopback alone can't be reached there.
    pub in_container: bool,
    /// Who starts the Ruby that reads config/puma.rb.
    pub ruby: &'a dyn StartRuby,
}

/// Without `.` and a slash at the end; where there is a `..`, what it leads to.
pub fn plain(dir: &Path) -> PathBuf {
    if dir.components().any(|part| part == Component::ParentDir) {
        dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf())
    } else {
        dir.components().collect()
    }
}
