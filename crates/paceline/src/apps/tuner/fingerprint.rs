//! By what a site's code is told apart from that of another deployment. Files are read with the rights of the
//! application's account, a bounded part of each.

use std::path::Path;

use unix_user::RunAs;

/// Bytes of a file that are read.
const MAX_LOCK: u64 = 4 << 20;
const MAX_LINE: u64 = 4096;

/// FNV-1a of 64 bits: tells files apart, and is no protection from anybody.
pub fn digest(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// Of Gemfile.lock; empty: there is none.
pub fn lock(root: &Path, run_as: &RunAs) -> String {
    unix_user::read(run_as, &root.join("Gemfile.lock"), MAX_LOCK).map_or_else(|_| String::new(), |bytes| digest(&bytes))
}

/// Of the release in `root` (its real path): the folder, and the revision that Capistrano or git names.
pub fn code(root: &Path, run_as: &RunAs) -> String {
    let line = |path: &Path| {
        let text = unix_user::read(run_as, path, MAX_LINE).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(|text| text.trim().to_owned())
    };
    let commit = || {
        let git = root.join(".git");
        let head = line(&git.join("HEAD"))?;
        match head.strip_prefix("ref: ").filter(|name| !name.contains("..")) {
            Some(name) => line(&git.join(name)).or(Some(head.clone())),
            None => Some(head),
        }
    };
    let revision = line(&root.join("REVISION")).or_else(commit).unwrap_or_default();
    digest(format!("{}\n{revision}", root.display()).as_bytes())
}

/// As `ruby 3.1.2`, of `ruby 3.1.2, rails 7.2.1`.
pub fn ruby(versions: &str) -> String {
    versions.split(", ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn a_deployment_is_another_code() {
        let folder = Folder::with(&[(".git/HEAD", "ref: refs/heads/main\n"), (".git/refs/heads/main", "abc\n")]);
        let (root, own) = (&folder.0, RunAs::own());
        let first = code(root, &own);
        assert_eq!(first, code(root, &own));
        std::fs::write(root.join(".git/refs/heads/main"), "def\n").unwrap();
        let second = code(root, &own);
        std::fs::write(root.join("REVISION"), "1\n").unwrap();
        let third = code(root, &own);
        assert!(first != second && second != third);
        assert_eq!(lock(root, &own), "");
        std::fs::write(root.join("Gemfile.lock"), "GEM\n").unwrap();
        assert_eq!(lock(root, &own), digest(b"GEM\n"));
        assert_eq!(ruby("ruby 3.1.2, rails 7.2.1"), "ruby 3.1.2");
    }
}
