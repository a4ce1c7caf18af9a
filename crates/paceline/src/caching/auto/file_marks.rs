//! The files that pages were made of, as they were when they were looked at last: with the rights of the site's account, beside
//! the event loops, and none more often than ten times a second. It reads files' attributes and never a file.

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
};

use ::auto_cache::watch::FileMark;
use parking_lot::Mutex;

use crate::support::{
    clock::{self, Micros},
    site_files::SiteFiles,
};

/// For how long what was seen counts.
pub(super) const FRESH: Micros = 100_000;
/// Files of a site that are remembered.
const MAX_KNOWN: usize = 4096;
/// Files that are looked at together.
const MAX_TOGETHER: usize = 256;

#[derive(Debug)]
pub struct FileMarks {
    files: SiteFiles,
    known: Mutex<HashMap<String, (Option<FileMark>, Micros)>>,
    /// One thread looks at files of a site at once.
    looking: tokio::sync::Mutex<()>,
}

impl FileMarks {
    pub fn new(files: SiteFiles) -> FileMarks {
        FileMarks { files, known: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// What tells the file from itself after a change; None: it is not there. Err: it has to be looked at.
    fn known(&self, path: &str) -> Result<Option<FileMark>, Unknown> {
        let known = self.known.lock();
        let seen = known.get(path).filter(|(_, at)| clock::now().saturating_sub(*at) < FRESH);
        seen.map(|(mark, _)| *mark).ok_or(Unknown)
    }

    /// Looks at those that are not known, and calls `beside` as the account, too.
    pub async fn look(&self, paths: &[String], beside: impl FnOnce() + Send + 'static) {
        let _looking = self.looking.lock().await;
        let unknown: Vec<String> =
            paths.iter().filter(|path| self.known(path).is_err()).take(MAX_TOGETHER).cloned().collect();
        let at = clock::now();
        let look = move |_| {
            beside();
            Ok(unknown.into_iter().map(|path| (mark(&path), path)).collect::<Vec<_>>())
        };
        let Ok(seen) = self.files.wait(look).await else { return };
        let mut known = self.known.lock();
        if known.len() + seen.len() > MAX_KNOWN {
            known.clear();
        }
        known.extend(seen.into_iter().map(|(mark, path)| (path, (mark, at))));
    }
}

struct Unknown;

/// Files as somebody asks for them.
pub struct AskedFiles<'a> {
    marks: &'a FileMarks,
    unknown: RefCell<Vec<String>>,
}

impl AskedFiles<'_> {
    pub fn new(marks: &FileMarks) -> AskedFiles<'_> {
        AskedFiles { marks, unknown: RefCell::default() }
    }

    /// As `Around::file`. One that is not known counts as changed just now.
    pub fn mark(&self, path: &str) -> Option<FileMark> {
        self.marks.known(path).unwrap_or_else(|Unknown| {
            self.unknown.borrow_mut().push(path.to_owned());
            Some(changed_now())
        })
    }

    /// Those that were asked for and are not known.
    pub fn into_unknown(self) -> Vec<String> {
        self.unknown.into_inner()
    }
}

fn mark(path: &str) -> Option<FileMark> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(why) if is_absent(&why) => return None,
        // It may be there all the same, and have been changed at any moment: also just now.
        Err(_) => return Some(changed_now()),
    };
    let nanos = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
    Some([u64::try_from(nanos).unwrap_or(0), found.size(), found.ino()])
}

fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn changed_now() -> FileMark {
    [clock::unix_millis().saturating_mul(1_000_000), 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc,
    };
    use unix_user::RunAs;

    #[tokio::test]
    async fn a_file_is_looked_at_once_for_a_while_and_never_by_who_asks() {
        let path = std::env::temp_dir().join(format!("paceline-mark-{}", uuid::Uuid::new_v4().simple()));
        std::fs::write(&path, "one").unwrap();
        let name = path.to_str().unwrap().to_owned();
        let marks = FileMarks::new(SiteFiles::new(RunAs::own()));
        let asked = AskedFiles::new(&marks);
        let [changed, size, number] = asked.mark(&name).unwrap();
        assert!(changed / 1_000_000 + 1000 > clock::unix_millis() && (size, number) == (0, 0), "it may have changed");
        assert_eq!(asked.into_unknown(), std::slice::from_ref(&name));
        let looks = Arc::new(AtomicUsize::new(0));
        let own = std::thread::current().id();
        let count = || {
            let looks = looks.clone();
            move || {
                looks.fetch_add(1, Relaxed);
                assert_ne!(std::thread::current().id(), own);
            }
        };
        marks.look(&[name.clone(), "/nonexistent/a".into()], count()).await;
        let asked = AskedFiles::new(&marks);
        assert_eq!((asked.mark(&name).unwrap()[1], asked.mark("/nonexistent/a")), (3, None));
        assert!(asked.into_unknown().is_empty() && looks.load(Relaxed) == 1);
        std::fs::write(&path, "changed").unwrap();
        let began = clock::now();
        while AskedFiles::new(&marks).mark(&name).unwrap()[1] != 7 {
            marks.look(std::slice::from_ref(&name), || ()).await;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(clock::now() - began < 30_000_000);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_can_not_be_looked_at_may_have_changed() {
        assert_eq!((mark("/nonexistent/a"), mark("/proc/self/stat/a")), (None, None));
        let [changed, size, number] = mark(&format!("/{}", "a".repeat(1000))).unwrap();
        assert!(changed / 1_000_000 + 1000 > clock::unix_millis() && (size, number) == (0, 0));
    }
}
