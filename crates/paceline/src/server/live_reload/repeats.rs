//! Changes that come again and again: of files that the application itself writes when it renders a page, or when it
//! starts. Told each time, they would have pages fetched, or the application started, for ever. It never decides what a
//! change means.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    hash::{DefaultHasher, Hasher},
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::files;

/// Told so often within this time, a file is ignored.
const MAX_TOLD: usize = 5;
const WITHIN: Duration = Duration::from_secs(10);
/// Until it has been left alone for so long.
const QUIET: Duration = Duration::from_secs(60);
/// So often a change that comes while the application starts may restart it.
const MAX_RESTARTS: u32 = 3;
/// Bytes of a file whose content is compared.
const MAX_COMPARED: u64 = 1 << 20;
/// Files that are remembered.
const MAX_KNOWN: usize = 512;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Gone,
    Of { length: u64, hash: u64 },
}

/// What is remembered of a file.
struct Known {
    /// As it was last told. None: it is not known.
    content: Option<Content>,
    /// When it was told last.
    told: VecDeque<Instant>,
    /// When it changed last, told or not.
    seen: Instant,
    is_ignored: bool,
    /// Restarts by changes that came while the application was starting.
    restarts: u32,
    restarts_nothing: bool,
}

impl Known {
    fn new(now: Instant) -> Known {
        let told = VecDeque::new();
        Known { content: None, told, seen: now, is_ignored: false, restarts: 0, restarts_nothing: false }
    }
}

/// What is left of changes, without those that are none or come too often.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    pub files: Vec<PathBuf>,
    /// These are ignored from now on.
    pub ignored: Vec<PathBuf>,
}

/// Whether a change restarts the application.
#[derive(Debug, PartialEq, Eq)]
pub enum Restart {
    Yes,
    No,
    /// From now on, which should be said.
    NoMore,
}

/// The files of one site that have changed lately.
pub struct Repeats {
    root: PathBuf,
    known: HashMap<PathBuf, Known>,
}

impl Repeats {
    /// Of files below this folder.
    pub fn below(root: PathBuf) -> Repeats {
        Repeats { root, known: HashMap::new() }
    }

    /// Any file may have changed.
    pub fn forget_contents(&mut self) {
        self.known.values_mut().for_each(|known| known.content = None);
    }

    pub fn news(&mut self, changed: Vec<PathBuf>, now: Instant) -> News {
        if changed.len() > MAX_KNOWN {
            // Nothing writes so many again and again.
            self.forget_contents();
            return News { files: changed, ignored: Vec::new() };
        }
        let mut news = News::default();
        for file in changed {
            let content = if files::change(&file).is_some() {
                content(&self.root.join(&file))
            } else {
                // A folder that was moved away may come back.
                self.known.iter_mut().filter(|(path, _)| path.starts_with(&file)).for_each(|(_, it)| it.content = None);
                None
            };
            let known = self.entry(&file, now);
            if now.duration_since(known.seen) > QUIET {
                (known.is_ignored, known.restarts_nothing) = (false, false);
            }
            known.seen = now;
            if known.is_ignored || content.is_some() && content == known.content {
                continue;
            }
            known.told.retain(|at| now.duration_since(*at) <= WITHIN);
            if known.told.len() >= MAX_TOLD {
                // What comes after the silence is told in any case.
                (known.is_ignored, known.content) = (true, None);
                known.told.clear();
                news.ignored.push(file);
                continue;
            }
            known.content = content;
            known.told.push_back(now);
            news.files.push(file);
        }
        news
    }

    /// The file would restart the application. `is_starting`: it changed while that was starting.
    pub fn restart(&mut self, file: &Path, is_starting: bool, now: Instant) -> Restart {
        let known = self.entry(file, now);
        if known.restarts_nothing {
            return Restart::No;
        }
        if !is_starting {
            self.known.values_mut().for_each(|known| known.restarts = 0);
            return Restart::Yes;
        }
        if known.restarts >= MAX_RESTARTS {
            known.restarts_nothing = true;
            return Restart::NoMore;
        }
        known.restarts += 1;
        Restart::Yes
    }

    fn entry(&mut self, file: &Path, now: Instant) -> &mut Known {
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(file) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.seen).map(|(path, _)| path.clone());
            oldest.map(|oldest| self.known.remove(&oldest));
        }
        self.known.entry(file.to_path_buf()).or_insert_with(|| Known::new(now))
    }
}

/// None: it can't be compared.
fn content(path: &Path) -> Option<Content> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.len() <= MAX_COMPARED => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Content::Gone),
        _ => return None,
    }
    // It may be another by now, such as one that never ends.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_COMPARED + 1).read_to_end(&mut bytes).ok().filter(|length| *length as u64 <= MAX_COMPARED)?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    Some(Content::Of { length: bytes.len() as u64, hash: hasher.finish() })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> (Folder, Repeats) {
            let root = std::env::temp_dir().join(format!("paceline-repeats-{name}-{}", std::process::id()));
            fs::create_dir_all(root.join("lib")).unwrap();
            (Folder(root.clone()), Repeats::below(root))
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.0.join(file), text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// How many are told, and how many ignored from now on.
    fn counts(repeats: &mut Repeats, file: &str, now: Instant) -> (usize, usize) {
        let news = repeats.news(vec![file.into()], now);
        (news.files.len(), news.ignored.len())
    }

    #[test]
    fn a_file_that_is_what_it_was_has_not_changed() {
        let (folder, mut repeats) = Folder::new("same");
        let now = Instant::now();
        let mut told = |file| counts(&mut repeats, file, now).0;
        folder.write("a.html", "one");
        assert_eq!((told("a.html"), told("a.html")), (1, 0));
        folder.write("a.html", "two");
        assert_eq!((told("a.html"), told("a.html")), (1, 0));
        fs::remove_file(folder.0.join("a.html")).unwrap();
        assert_eq!((told("a.html"), told("a.html")), (1, 0));
        folder.write("a.html", "two");
        assert_eq!(told("a.html"), 1);
        folder.write("large.html", &"x".repeat(MAX_COMPARED as usize + 1));
        assert_eq!((told("large.html"), told("large.html")), (1, 1));
    }

    #[test]
    fn what_comes_back_with_its_folder_is_told() {
        let (folder, mut repeats) = Folder::new("folder");
        let now = Instant::now();
        folder.write("lib/a.rb", "one");
        for (file, told) in [("lib/a.rb", 1), ("lib/a.rb", 0), ("lib", 1), ("lib", 1), ("lib/a.rb", 1)] {
            assert_eq!(counts(&mut repeats, file, now).0, told, "{file}");
        }
        repeats.forget_contents();
        assert_eq!(counts(&mut repeats, "lib/a.rb", now).0, 1);
    }

    #[test]
    fn a_file_that_changes_all_the_time_is_ignored_until_it_is_quiet() {
        let (folder, mut repeats) = Folder::new("often");
        let begun = Instant::now();
        let mut change = |second: u64| {
            folder.write("hits.yml", &second.to_string());
            counts(&mut repeats, "hits.yml", begun + Duration::from_secs(second))
        };
        assert!((0..5).all(|second| change(second) == (1, 0)));
        assert_eq!((change(5), change(6), change(60)), ((0, 1), (0, 0), (0, 0)));
        assert_eq!((change(121), change(122)), ((1, 0), (1, 0)), "a minute after the last change");
        assert!((0..20).all(|number| change(200 + 3 * number) == (1, 0)), "not as often");
    }

    #[test]
    fn a_file_that_starts_write_restarts_the_application_three_times() {
        let (folder, mut repeats) = Folder::new("starts");
        let begun = Instant::now();
        let (file, other) = (Path::new("config/a.yml"), Path::new("lib/a.rb"));
        let mut round = |second: u64, is_starting: bool| {
            folder.write("lib/a.rb", &second.to_string());
            let now = begun + Duration::from_secs(second);
            assert_eq!(counts(&mut repeats, "lib/a.rb", now).0, 1);
            repeats.restart(other, is_starting, now)
        };
        assert_eq!(round(0, false), Restart::Yes, "a person");
        assert!([20, 40, 60].into_iter().all(|second| round(second, true) == Restart::Yes));
        assert_eq!(round(80, true), Restart::NoMore);
        assert_eq!((round(100, true), round(120, false)), (Restart::No, Restart::No));
        assert_eq!(
            (round(200, false), round(220, true)),
            (Restart::Yes, Restart::Yes),
            "it was quiet, and counts again"
        );
        assert_eq!(repeats.restart(file, true, begun), Restart::Yes, "another file");
    }

    #[test]
    fn it_remembers_the_latest_only() {
        let (_folder, mut repeats) = Folder::new("many");
        let begun = Instant::now();
        for number in 0..2 * MAX_KNOWN {
            let at = begun + Duration::from_millis(number as u64);
            assert_eq!(counts(&mut repeats, &format!("{number}.rb"), at).0, 1);
        }
        assert!(repeats.known.len() == MAX_KNOWN && !repeats.known.contains_key(Path::new("0.rb")));
        let many: Vec<PathBuf> = (0..=MAX_KNOWN).map(|number| format!("{number}.rb").into()).collect();
        assert_eq!(repeats.news(many, begun).files.len(), MAX_KNOWN + 1);
    }
}
