//! The files of a folder that are an application's code, and what of them may be others than those that were loaded. Links are
//! followed. It opens a folder at a time, waits for no pipe and no device, and reads, lists and remembers a bounded part: the
//! folders are those of any account.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    rc::Rc,
    time::{Duration, Instant},
};

use unix_user::{acting, RunAs};

/// Files, and bytes of them. Of an application with more nothing is known.
const MAX_FILES: usize = 30_000;
const MAX_BYTES: u64 = 256 << 20;
/// What is looked at in all folders, whether it counts or not.
const MAX_ENTRIES: usize = 200_000;
/// Bytes of the names of what is remembered: an account's folders may be thousands deep.
const MAX_NAMES: usize = 32 << 20;
/// Bytes of what a bundle has come to.
const MAX_LOCK: u64 = 1 << 20;
/// Files may lie on a file server that is slow or away. Then nothing is known.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Folders whose files all count.
const CODE: [&str; 7] = ["app", "config", "engines", "lib", "plugins", "templates", "views"];
/// Elsewhere, endings that count, and how names begin that do.
const ENDINGS: [&str; 22] = [
    "rb", "ru", "rake", "erb", "haml", "slim", "builder", "jbuilder", "rabl", "arb", "liquid", "mustache", "hbs",
    "html", "htm", "md", "yml", "yaml", "sql", "gemfile", "lock", "locked",
];
const NAMES: [&str; 3] = ["Gemfile", ".ruby-version", ".env"];
/// Folders that change while the application runs, or are named by Gemfile.lock.
const SKIPPED: [&str; 9] = [".git", "bundle", "coverage", "files", "log", "node_modules", "public", "storage", "tmp"];
/// A time of a file is that of the last tick of the kernel's clock (s).
const TICK: f64 = 0.02;
/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// Why two loads of the code can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// A file, a link, or the contents of a folder.
    #[error("{} may have changed since it was loaded", .0.display())]
    Changed(PathBuf),
    #[error("{} can't be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::ErrorKind),
    #[error("it has more than {} files, {} MB of them, or {} files of all kinds", MAX_FILES, MAX_BYTES >> 20, MAX_ENTRIES)]
    TooLarge,
    #[error("its files could not be read within {} s", PATIENCE.as_secs())]
    TooSlow,
}

/// Files that count.
pub struct Files<'a> {
    began: f64,
    run_as: &'a RunAs,
    until: Instant,
    /// Folders that were listed, by device and number, and whether all in them counts: what each is called. Links may lead to one
    /// again.
    seen: BTreeMap<(u64, u64, bool), String>,
    entries: usize,
    names: usize,
    bytes: u64,
    /// How each is called wherever the application lies, and what it is.
    found: Vec<(String, ListedFile)>,
    /// All that were followed.
    links: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ListedFile {
    File(PathBuf),
    /// A link to what has been listed under this name.
    Again(String),
}

/// A folder that is still to be listed.
struct Folder {
    path: PathBuf,
    name: String,
    /// Whatever their names are, its files count.
    all: bool,
    above: Option<Rc<Above>>,
}

/// A folder in which another one was found.
struct Above {
    id: (u64, u64),
    above: Option<Rc<Above>>,
}

/// Of a folder, by name.
type Entry = (OsString, fs::FileType);

impl<'a> Files<'a> {
    /// `began`: when their load did (Unix seconds).
    pub fn new(began: f64, run_as: &'a RunAs, until: Instant) -> Files<'a> {
        let (seen, found, links) = (BTreeMap::new(), Vec::new(), Vec::new());
        Files { began, run_as, until, seen, entries: 0, names: 0, bytes: 0, found, links }
    }

    /// Finds those of a folder that is called `name`. What is called how depends on no order in which the kernel tells names.
    pub fn list(&mut self, folder: &Path, name: &str) -> Result<(), Unknown> {
        let mut left = vec![Folder { path: folder.to_owned(), name: name.to_owned(), all: false, above: None }];
        while let Some(folder) = left.pop() {
            let inner = self.list_one(folder)?;
            left.extend(inner.into_iter().rev());
        }
        Ok(())
    }

    /// Finds a file that counts wherever it lies, if it is there.
    pub fn add(&mut self, path: &Path, name: &str) -> Result<(), Unknown> {
        let (Some(folder), Some(own)) = (path.parent(), path.file_name()) else { return Ok(()) };
        match acting(self.run_as, || links_on(folder, own.as_ref())) {
            Ok(links) => self.note_links(links)?,
            Err(why) if self.is_no_code(&why) || is_nowhere(&why) => return Ok(()),
            Err(why) => return Err(unreadable(path)(why)),
        }
        self.find(name.to_owned(), ListedFile::File(path.to_owned()))
    }

    /// Finds those of a folder that is named from another one on.
    pub fn list_from(&mut self, folder: &Path, path: &str, name: &str) -> Result<(), Unknown> {
        self.in_time()?;
        let links = acting(self.run_as, || links_on(folder, path.as_ref()));
        self.note_links(links.map_err(unreadable(&folder.join(path)))?)?;
        self.list(&folder.join(path), name)
    }

    /// What a bundle has come to, which names gems that have a path: as it is called, where it lies, and its text.
    pub fn locks(&self) -> Result<Vec<(String, PathBuf, String)>, Unknown> {
        let locks = self.found.iter().filter_map(|(name, found)| match found {
            ListedFile::File(path) if ["lock", "locked"].contains(&ending(name)) => Some((name.clone(), path.clone())),
            _ => None,
        });
        let read = |(name, path): (String, PathBuf)| -> Result<_, Unknown> {
            let mut text = Vec::new();
            self.read(&path, MAX_LOCK, |bytes| text.extend_from_slice(bytes))?;
            Ok((name, path, String::from_utf8_lossy(&text).into_owned()))
        };
        locks.map(read).collect()
    }

    /// Gives the names and contents of all that was found, and their lengths. Err: they may be others than those that were loaded.
    pub fn give(mut self, mut give: impl FnMut(&[u8])) -> Result<(), Unknown> {
        self.found.sort();
        for (name, found) in std::mem::take(&mut self.found) {
            let mut given = |bytes: &[u8]| {
                give(&(bytes.len() as u64).to_be_bytes());
                give(bytes);
            };
            given(name.as_bytes());
            match found {
                ListedFile::Again(first) => given(first.as_bytes()),
                ListedFile::File(path) => {
                    let size = self.read(&path, MAX_BYTES - self.bytes, &mut give)?;
                    give(&size.to_be_bytes());
                    self.bytes += size;
                }
            }
        }
        // Only now: what was read by way of one that leads elsewhere since is not what was loaded.
        let links = std::mem::take(&mut self.links);
        links.iter().try_for_each(|link| {
            self.in_time()?;
            let found = acting(self.run_as, || fs::symlink_metadata(link));
            self.unless_later(link, &found.map_err(unreadable(link))?)
        })
    }

    fn list_one(&mut self, folder: Folder) -> Result<Vec<Folder>, Unknown> {
        self.in_time()?;
        let Folder { path, name, all, above } = folder;
        let room = MAX_ENTRIES - self.entries;
        let Contents { found, looked_at, entries } = match acting(self.run_as, || contents(&path, all, room)) {
            Err(why) if self.is_no_code(&why) => return Ok(Vec::new()),
            listed => listed.map_err(unreadable(&path))?,
        };
        let id = (found.dev(), found.ino());
        // Its files count where it stands, not once more below itself.
        if std::iter::successors(above.as_deref(), |folder| folder.above.as_deref()).any(|folder| folder.id == id) {
            return Ok(Vec::new());
        }
        if let Some(first) = self.seen.get(&(id.0, id.1, all)).cloned() {
            self.find(name, ListedFile::Again(first))?;
            return Ok(Vec::new());
        }
        self.seen.insert((id.0, id.1, all), name.clone());
        // What was in it before is not known.
        if all {
            self.unless_later(&path, &found)?;
        }
        self.entries += looked_at;
        if self.entries >= MAX_ENTRIES || entries.len() > MAX_FILES {
            return Err(Unknown::TooLarge);
        }
        let above = Some(Rc::new(Above { id, above }));
        let mut inner = Vec::new();
        for (own, kind) in entries {
            let path = path.join(&own);
            let own = own.to_string_lossy();
            let name = format!("{name}/{own}");
            let Some(kind) = self.followed(&path, kind)? else { continue };
            if kind.is_dir() && !SKIPPED.contains(&&*own) {
                self.remember(name.len() + path.as_os_str().len())?;
                let all = all || CODE.contains(&&*own);
                inner.push(Folder { path, name, all, above: above.clone() });
            } else if kind.is_file() && !is_editors(&own) && (all || counts(&own)) {
                self.find(name, ListedFile::File(path))?;
            }
        }
        Ok(inner)
    }

    fn find(&mut self, name: String, found: ListedFile) -> Result<(), Unknown> {
        let more = match &found {
            ListedFile::File(path) => path.as_os_str().len(),
            ListedFile::Again(first) => first.len(),
        };
        self.remember(name.len() + more)?;
        self.found.push((name, found));
        (self.found.len() <= MAX_FILES).then_some(()).ok_or(Unknown::TooLarge)
    }

    fn remember(&mut self, bytes: usize) -> Result<(), Unknown> {
        self.names += bytes;
        (self.names <= MAX_NAMES).then_some(()).ok_or(Unknown::TooLarge)
    }

    /// What an entry is, or what a link leads to. None: it leads nowhere.
    fn followed(&mut self, path: &Path, kind: fs::FileType) -> Result<Option<fs::FileType>, Unknown> {
        if !kind.is_symlink() {
            return Ok(Some(kind));
        }
        self.in_time()?;
        let (Some(folder), Some(own)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let followed = acting(self.run_as, || Ok((fs::metadata(path)?.file_type(), links_on(folder, own.as_ref())?)));
        match followed {
            Ok((kind, links)) => self.note_links(links).map(|()| Some(kind)),
            Err(why) if self.is_no_code(&why) || is_nowhere(&why) => Ok(None),
            Err(why) => Err(unreadable(path)(why)),
        }
    }

    fn note_links(&mut self, links: Vec<PathBuf>) -> Result<(), Unknown> {
        self.remember(links.iter().map(|link| link.as_os_str().len()).sum())?;
        self.links.extend(links);
        Ok(())
    }

    /// Gives what a file holds. How many bytes it was.
    fn read(&self, path: &Path, most: u64, mut give: impl FnMut(&[u8])) -> Result<u64, Unknown> {
        self.in_time()?;
        let mut file = match unix_user::open(self.run_as, path) {
            Err(why) if self.is_no_code(&why) => return Ok(0),
            opened => opened.map_err(unreadable(path))?,
        };
        let found = file.metadata().map_err(unreadable(path))?;
        if !found.is_file() {
            return Err(Unknown::Unreadable(path.to_owned(), io::ErrorKind::InvalidData));
        }
        let (mut buffer, mut size) = ([0; 16 << 10], 0);
        loop {
            let read = match file.read(&mut buffer) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(unreadable(path))?,
            };
            if read == 0 {
                break;
            }
            size += read as u64;
            if size > most {
                return Err(Unknown::TooLarge);
            }
            give(&buffer[..read]);
            self.in_time()?;
        }
        // Only now: it may have been written while it was read.
        self.unless_later(path, &file.metadata().map_err(unreadable(path))?)?;
        Ok(size)
    }

    /// Err: its content, name or rights may have been changed since the load began.
    fn unless_later(&self, path: &Path, found: &Metadata) -> Result<(), Unknown> {
        if found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9 + TICK > self.began {
            return Err(Unknown::Changed(path.to_owned()));
        }
        Ok(())
    }

    fn in_time(&self) -> Result<(), Unknown> {
        (Instant::now() < self.until).then_some(()).ok_or(Unknown::TooSlow)
    }

    /// What the application can't read either is not its code. Of root's this server may have other reasons.
    fn is_no_code(&self, why: &io::Error) -> bool {
        why.kind() == io::ErrorKind::PermissionDenied && !matches!(self.run_as, RunAs::Root(_))
    }
}

/// What is in a folder.
struct Contents {
    /// What it was like once they were known.
    found: Metadata,
    looked_at: usize,
    /// Those that may count, by name.
    entries: Vec<Entry>,
}

/// `all`: whatever their names are. Of more than `most` not all are looked at, nor of more than can count.
fn contents(folder: &Path, all: bool, most: usize) -> io::Result<Contents> {
    let (mut looked_at, mut entries) = (0, Vec::new());
    for entry in fs::read_dir(folder)?.take(most) {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        looked_at += 1;
        if kind.is_dir() || kind.is_symlink() || all || counts(&name.to_string_lossy()) {
            entries.push((name, kind));
        }
        if entries.len() > MAX_FILES {
            break;
        }
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Contents { found: fs::metadata(folder)?, looked_at, entries })
}

/// The links that a path leads through, from a folder on.
fn links_on(folder: &Path, path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut at = fs::canonicalize(folder)?;
    let mut left: Vec<OsString> = names(path).rev().collect();
    if path.is_absolute() {
        at = PathBuf::from("/");
    }
    let mut links = Vec::new();
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let path = at.join(&name);
        if !fs::symlink_metadata(&path)?.is_symlink() {
            at = path;
            continue;
        }
        if links.len() == MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let target = fs::read_link(&path)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(names(&target).rev());
        links.push(path);
    }
    Ok(links)
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + use<'_> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Unknown {
    let path = path.to_owned();
    move |why: io::Error| Unknown::Unreadable(path, why.kind())
}

/// A link leads nowhere, or in a circle.
fn is_nowhere(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::NotFound || why.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

fn counts(name: &str) -> bool {
    NAMES.iter().any(|begin| name.starts_with(begin)) || ENDINGS.contains(&ending(name))
}

/// What an editor or a desktop keeps beside the files of somebody at work.
fn is_editors(name: &str) -> bool {
    let is_swap = || name.starts_with('.') && ["swp", "swo", "swx"].contains(&ending(name));
    name.ends_with('~') || name.starts_with(".#") || name.starts_with('#') || name == ".DS_Store" || is_swap()
}

fn ending(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_while_it_is_read_is_not_what_was_loaded() {
        let root = std::env::temp_dir().join(format!("paceline-files-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir_all(root.join("views")).unwrap();
        fs::write(root.join("views/a.erb"), "one").unwrap();
        let found = fs::metadata(root.join("views/a.erb")).unwrap();
        let began = found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9 + 2.0 * TICK;
        let run_as = RunAs::own();
        let found = || {
            let mut files = Files::new(began, &run_as, Instant::now() + PATIENCE);
            files.list(&root, "").unwrap();
            files
        };
        assert_eq!(found().give(|_| ()), Ok(()));
        std::thread::sleep(Duration::from_secs_f64(2.0 * TICK));
        let written = found().give(|bytes| {
            if bytes == b"one" {
                fs::write(root.join("views/a.erb"), "two").unwrap();
            }
        });
        assert_eq!(written, Err(Unknown::Changed(root.join("views/a.erb"))));
        fs::remove_dir_all(&root).unwrap();
    }
}
