//! SQLite's databases of an application, and whether one was written to by a program that announces nothing: SQLite changes some
//! bytes of its files with each commit of any process. It locks nothing, reads no row, and knows nothing of pages.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use unix_user::RunAs;

/// Files of one application.
const MAX_FILES: usize = 16;
/// For how long one can't be read before people are told: it may be about to be made, or another takes its place.
const PATIENCE: Duration = Duration::from_secs(1);
/// A database's file begins with its header: https://sqlite.org/fileformat2.html#database_header
const HEADER: usize = 28;
const MAGIC: &[u8] = b"SQLite format 3\0";
/// 2: it has a write-ahead log.
const FORMAT: usize = 18;
const WITH_LOG: u8 = 2;
/// Grows with each commit to a database that has none.
const COUNTER: usize = HEADER - 4;
/// What is read of the index of a write-ahead log, which begins with what a reader has to know of the last commit:
/// https://sqlite.org/walformat.html#the_wal_index_file_format
const INDEX: usize = 48;

/// What a commit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// The file, and its counter.
    Counter([u64; 2], [u8; 4]),
    /// The file, that of its log's index, and how that begins.
    Log([u64; 2], u64, [u8; INDEX]),
    /// No process has it open, and its log is part of it: the file, when it was changed (ns), and its size.
    Resting([u64; 2], [i64; 3]),
    /// It can't be read.
    Unknown,
}

/// A file, as it was when it was looked at last.
#[derive(Debug)]
struct Known {
    version: Version,
    unknown_since: Option<Instant>,
    is_told: bool,
}

#[derive(Debug, Default)]
pub struct SqliteFiles {
    files: BTreeMap<PathBuf, Known>,
    /// The first that is one too many, and whether people were told.
    beyond: Option<(PathBuf, bool)>,
}

impl SqliteFiles {
    /// A process of the application has it open.
    pub fn add(&mut self, path: &Path, run_as: &RunAs) {
        if !path.is_absolute() || self.files.contains_key(path) {
            return;
        }
        if self.files.len() >= MAX_FILES {
            self.beyond.get_or_insert_with(|| (path.to_owned(), false));
            return;
        }
        let mut known = Known { version: Version::Unknown, unknown_since: None, is_told: false };
        known.look(path, run_as, Instant::now());
        self.files.insert(path.to_owned(), known);
    }

    /// One whose changes are not seen, and why; each is told once.
    pub fn unwatched(&mut self, run_as: &RunAs, now: Instant) -> Option<(PathBuf, String)> {
        if let Some((path, is_told @ false)) = &mut self.beyond {
            *is_told = true;
            return Some((
                path.clone(),
                format!("the server looks at {MAX_FILES} databases of an application at most"),
            ));
        }
        let is_due = |known: &Known| known.unknown_since.is_some_and(|since| now.duration_since(since) >= PATIENCE);
        let (path, known) = self.files.iter_mut().find(|(_, known)| !known.is_told && is_due(known))?;
        let why = read(path, run_as).err()?;
        known.is_told = true;
        Some((path.clone(), format!("the server can't read it ({why})")))
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether something was committed since it was asked last.
    pub fn have_changed(&mut self, run_as: &RunAs) -> bool {
        let (mut have_changed, now) = (false, Instant::now());
        for (path, known) in &mut self.files {
            have_changed |= known.look(path, run_as, now);
        }
        have_changed
    }
}

impl Known {
    /// Whether it is another version than before.
    fn look(&mut self, path: &Path, run_as: &RunAs, now: Instant) -> bool {
        let version = read(path, run_as).unwrap_or(Version::Unknown);
        self.unknown_since = (version == Version::Unknown).then(|| self.unknown_since.unwrap_or(now));
        std::mem::replace(&mut self.version, version) != version
    }
}

fn read(path: &Path, run_as: &RunAs) -> io::Result<Version> {
    let (database, own) = open(path, run_as)?;
    let mut header = [0; HEADER];
    database.read_exact_at(&mut header, 0)?;
    if !header.starts_with(MAGIC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if header[FORMAT] != WITH_LOG {
        return Ok(Version::Counter(own, header[COUNTER..].try_into().unwrap_or_default()));
    }
    let mut name = path.as_os_str().to_owned();
    name.push("-shm");
    match open(Path::new(&name), run_as) {
        Ok((index, [_, number])) => {
            let mut text = [0; INDEX];
            index.read_exact_at(&mut text, 0)?;
            Ok(Version::Log(own, number, text))
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let found = database.metadata()?;
            let size = i64::try_from(found.size()).unwrap_or(i64::MAX);
            Ok(Version::Resting(own, [found.mtime(), found.mtime_nsec(), size]))
        }
        Err(why) => Err(why),
    }
}

/// A regular file, and its device and number.
fn open(path: &Path, run_as: &RunAs) -> io::Result<(File, [u64; 2])> {
    let file = unix_user::open(run_as, path)?;
    let found = file.metadata()?;
    if found.is_file() {
        Ok((file, [found.dev(), found.ino()]))
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_commit_is_seen_by_the_header_or_by_the_index_of_the_log() {
        let folder = std::env::temp_dir().join(format!("paceline-sqlite-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&folder).unwrap();
        let (path, index) = (folder.join("shop.sqlite3"), folder.join("shop.sqlite3-shm"));
        let write = |format: u8, counter: u8| {
            let mut header = [0; 100];
            header[..MAGIC.len()].copy_from_slice(MAGIC);
            header[FORMAT] = format;
            header[COUNTER + 3] = counter;
            // As SQLite does it, in place.
            let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path).unwrap();
            file.write_all_at(&header, 0).unwrap();
        };
        let own = RunAs::own();
        let mut files = SqliteFiles::default();
        files.add(&path, &own);
        write(1, 1);
        assert!(files.have_changed(&own) && !files.have_changed(&own), "it was not there");
        write(1, 2);
        assert!(files.have_changed(&own) && !files.have_changed(&own));
        write(2, 2);
        assert!(files.have_changed(&own) && !files.have_changed(&own));
        fs::write(&index, [0; 96]).unwrap();
        assert!(files.have_changed(&own) && !files.have_changed(&own));
        write(2, 3);
        assert!(!files.have_changed(&own), "the log is taken over into the file");
        fs::OpenOptions::new().write(true).open(&index).unwrap().write_all_at(b"1", 8).unwrap();
        assert!(files.have_changed(&own) && !files.have_changed(&own));
        fs::copy(&path, folder.join("other")).unwrap();
        fs::rename(folder.join("other"), &path).unwrap();
        assert!(files.have_changed(&own) && !files.have_changed(&own), "another file");
        fs::write(&path, "no database").unwrap();
        assert!(files.have_changed(&own) && !files.have_changed(&own));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_process_says_is_bounded() {
        let mut files = SqliteFiles::default();
        for number in 0..100 {
            files.add(Path::new(&format!("/nonexistent/{number}")), &RunAs::own());
        }
        files.add(Path::new("shop.sqlite3"), &RunAs::own());
        assert_eq!(files.files.len(), MAX_FILES);
    }

    #[test]
    fn what_is_not_watched_is_told_once() {
        let (own, mut files) = (RunAs::own(), SqliteFiles::default());
        for number in 10..=10 + MAX_FILES + 1 {
            files.add(Path::new(&format!("/nonexistent/{number}")), &own);
        }
        let mut told = |now| -> Vec<_> { std::iter::from_fn(|| files.unwatched(&own, now)).collect() };
        let now = Instant::now();
        let (beyond, why) = told(now).pop().expect("one too many");
        assert_eq!(beyond, Path::new("/nonexistent/26"));
        assert!(why.contains("16 databases"), "{why}");
        let unread = told(now + PATIENCE);
        assert_eq!(unread.len(), MAX_FILES);
        assert!(unread[0].1.contains("can't read it (No such file"), "{}", unread[0].1);
        assert!(told(now + 2 * PATIENCE).is_empty());
    }
}
