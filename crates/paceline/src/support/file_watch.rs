//! Watches a folder and all folders in it (inotify), by a thread of its own, and reports the files that have changed, many
//! at once. It reads no file, follows no symbolic link, and never decides what a change means.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    ffi::OsString,
    fs, io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering::SeqCst},
        Arc,
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};

use super::{signal_mask, wall_timer::Wake};

/// So long nothing else has to change before a change is told: an editor's save, a `git checkout` are several.
const CALM: Duration = Duration::from_millis(60);
/// It is told after this long in any case.
const LATEST: Duration = Duration::from_millis(500);
/// Folders that are watched, and files that are told at once.
const MAX_FOLDERS: usize = 16_384;
const MAX_FILES: usize = 4096;
/// Events that are taken in one go.
const MAX_EVENTS: usize = 4096;

/// What has happened in the folder.
#[derive(Debug, PartialEq, Eq)]
pub enum FolderChange {
    /// These have changed, come or gone; below the folder. Of a folder that was moved away, itself.
    Files(BTreeSet<PathBuf>),
    /// So much has changed that it is not known what.
    Much,
    /// Not all of it is watched, and why.
    Limited(String),
}

/// Whether a file (false) or a folder (true) below the watched folder is of interest.
pub type Interest = fn(&Path, bool) -> bool;

/// A folder that is watched until this is dropped.
pub struct FileWatch {
    wake: Arc<Wake>,
    ended: Arc<AtomicBool>,
}

impl FileWatch {
    /// Begins to watch `root`. `tell` is called by the watch's thread, which takes the signals that the caller's does.
    pub fn begin(
        root: PathBuf,
        interest: Interest,
        tell: impl FnMut(FolderChange) + Send + 'static,
    ) -> io::Result<FileWatch> {
        let (wake, ended) = (Arc::new(Wake::new()?), Arc::new(AtomicBool::new(false)));
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watcher = Watcher {
            inotify,
            root,
            interest,
            folders: HashMap::new(),
            changed: BTreeSet::new(),
            is_much: false,
            limit: None,
            is_limit_told: false,
        };
        let (own_wake, own_ended) = (wake.clone(), ended.clone());
        std::thread::Builder::new().name("file-watch".into()).spawn(move || {
            signal_mask::block();
            watcher.run(&own_wake, &own_ended, tell);
        })?;
        Ok(FileWatch { wake, ended })
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        self.wake.wake();
    }
}

/// An event as the kernel says it: the number of the folder, what, the name in it.
struct RawEvent {
    /// The number of the folder.
    number: i32,
    what: ReadFlags,
    name: Option<OsString>,
}

struct Watcher {
    inotify: OwnedFd,
    root: PathBuf,
    interest: Interest,
    /// The folders that are watched, below the root, by their numbers.
    folders: HashMap<i32, PathBuf>,
    changed: BTreeSet<PathBuf>,
    is_much: bool,
    /// Why not all of it is watched.
    limit: Option<String>,
    is_limit_told: bool,
}

impl Watcher {
    fn run(&mut self, wake: &Wake, ended: &AtomicBool, mut tell: impl FnMut(FolderChange)) {
        self.add(PathBuf::new(), false);
        // When the first change came, and the last, of those that are not told.
        let mut since: Option<(Instant, Instant)> = None;
        while !ended.load(SeqCst) {
            if let Some(why) = self.limit.take().filter(|_| !self.is_limit_told) {
                self.is_limit_told = true;
                tell(FolderChange::Limited(why));
            }
            let due = since.map(|(first, last)| (first + LATEST).min(last + CALM));
            if self.wait(wake, due).is_err() {
                return;
            }
            let now = Instant::now();
            if self.read() {
                since = Some((since.map_or(now, |(first, _)| first), now));
            }
            if due.is_some_and(|due| due <= now) {
                since = None;
                let changed = std::mem::take(&mut self.changed);
                tell(if std::mem::take(&mut self.is_much) { FolderChange::Much } else { FolderChange::Files(changed) });
            }
        }
    }

    /// Until there is something to read, it is woken, or this moment has come.
    fn wait(&self, wake: &Wake, until: Option<Instant>) -> io::Result<()> {
        let time = until.map(|until| {
            // Rounded up, so that it has come when this returns.
            let left = until.saturating_duration_since(Instant::now()) + Duration::from_micros(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        let mut waiting = [PollFd::new(&self.inotify, PollFlags::IN), wake.waiting()];
        match poll(&mut waiting, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {
                wake.take();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what has happened. Whether something is to be told.
    fn read(&mut self) -> bool {
        let (before, was_much) = (self.changed.len(), self.is_much);
        let mut is_again = false;
        for event in self.events() {
            is_again |= self.take(event);
        }
        is_again || self.changed.len() > before || self.is_much != was_much
    }

    fn events(&self) -> Vec<RawEvent> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut buffer);
        let mut events = Vec::new();
        while events.len() < MAX_EVENTS || !reader.is_buffer_empty() {
            let Ok(event) = reader.next() else { break };
            let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec()));
            events.push(RawEvent { number: event.wd(), what: event.events(), name });
        }
        events
    }

    /// Whether a file has changed that is of interest.
    fn take(&mut self, RawEvent { number, what, name }: RawEvent) -> bool {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.is_much = true;
            // Folders that came meanwhile were not seen.
            self.add(PathBuf::new(), false);
            return true;
        }
        if what.contains(ReadFlags::IGNORED) {
            self.folders.remove(&number);
            return false;
        }
        let (Some(folder), Some(name)) = (self.folders.get(&number), name) else { return false };
        let path = folder.join(name);
        if what.contains(ReadFlags::ISDIR) {
            if !(self.interest)(&path, true) {
                return false;
            }
            if what.contains(ReadFlags::MOVED_FROM) {
                self.forget(&path);
                // Which files were in it is not known any more.
                self.insert(path);
                return true;
            }
            if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                // What is in it by now was not seen to come.
                self.add(path, true);
            }
            return false;
        }
        // A file that is made is written to and closed; a link is not.
        let is_made = what.contains(ReadFlags::CREATE);
        if is_made && !fs::symlink_metadata(self.root.join(&path)).is_ok_and(|found| found.is_symlink()) {
            return false;
        }
        self.note(path)
    }

    fn note(&mut self, path: PathBuf) -> bool {
        if !(self.interest)(&path, false) {
            return false;
        }
        self.insert(path);
        true
    }

    fn insert(&mut self, path: PathBuf) {
        self.is_much |= self.changed.len() >= MAX_FILES;
        if !self.is_much {
            self.changed.insert(path);
        }
    }

    /// Watches a folder with all that are in it, those that are deep last: if there are too many, these are missing.
    /// `is_new`: its files are changes.
    fn add(&mut self, folder: PathBuf, is_new: bool) {
        let mut folders = VecDeque::from([folder]);
        while let Some(below) = folders.pop_front() {
            let path = self.root.join(&below);
            // Watched before it is looked at, so that nothing is missed between.
            match inotify::add_watch(&self.inotify, &path, wanted()) {
                Ok(number) => drop(self.folders.insert(number, below.clone())),
                Err(Errno::NOSPC | Errno::NOMEM) => {
                    let watched = self.folders.len();
                    self.limit = Some(format!(
                        "{watched} folders below {} are watched and no more: the system allows no more \
                         (sysctl fs.inotify.max_user_watches=524288)",
                        self.root.display()
                    ));
                    return;
                }
                // It is gone, or it is not ours to look at.
                Err(_) => continue,
            }
            if self.folders.len() > MAX_FOLDERS {
                let root = self.root.display();
                self.limit = Some(format!("{MAX_FOLDERS} folders below {root} are watched and no more"));
                return;
            }
            let Ok(entries) = fs::read_dir(&path) else { continue };
            for entry in entries.flatten() {
                let (below, kind) = (below.join(entry.file_name()), entry.file_type());
                if kind.is_ok_and(|kind| kind.is_dir()) {
                    if (self.interest)(&below, true) {
                        folders.push_back(below);
                    }
                } else if is_new {
                    self.note(below);
                }
            }
        }
    }

    /// A folder has been moved away, which its watch would follow.
    fn forget(&mut self, folder: &Path) {
        let inside = self.folders.iter().filter(|(_, path)| path.starts_with(folder)).map(|(number, _)| *number);
        for number in inside.collect::<Vec<_>>() {
            let _ = inotify::remove_watch(&self.inotify, number);
            self.folders.remove(&number);
        }
    }
}

fn wanted() -> WatchFlags {
    WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::ONLYDIR
        | WatchFlags::EXCL_UNLINK
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::symlink,
        sync::mpsc::{channel, Receiver},
    };

    use super::*;

    fn interest(path: &Path, is_folder: bool) -> bool {
        let name = path.file_name().unwrap().to_str().unwrap();
        if is_folder {
            name != "tmp"
        } else {
            !name.ends_with('~')
        }
    }

    /// A folder that is watched, and what is told of it. All that was there is watched.
    fn watched(name: &str, folders: &[&str]) -> (PathBuf, FileWatch, Receiver<FolderChange>) {
        let root = std::env::temp_dir().join(format!("paceline-watch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        folders.iter().for_each(|folder| fs::create_dir_all(root.join(folder)).unwrap());
        let (sender, told) = channel();
        let watch = FileWatch::begin(root.clone(), interest, move |seen| sender.send(seen).unwrap()).unwrap();
        // Until the thread has begun its watch.
        let mut number = 0;
        while told.try_recv().is_err() {
            number += 1;
            fs::write(root.join("begun"), number.to_string()).unwrap();
            std::thread::yield_now();
        }
        while told.recv_timeout(2 * LATEST).is_ok() {}
        (root, watch, told)
    }

    fn next(told: &Receiver<FolderChange>) -> Vec<String> {
        match told.recv_timeout(Duration::from_secs(30)).unwrap() {
            FolderChange::Files(files) => files.iter().map(|file| file.display().to_string()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_are_told_together_once() {
        let (root, watch, told) = watched("together", &["app/views", "tmp"]);
        fs::create_dir(root.join("tmp/set")).unwrap();
        for file in ["a.erb", "b.erb~", "c.rb"] {
            fs::write(root.join("tmp/set").join(file), "x").unwrap();
        }
        // They come at one moment, however busy the machine is.
        fs::rename(root.join("tmp/set"), root.join("app/set")).unwrap();
        assert_eq!(next(&told), ["app/set/a.erb", "app/set/c.rb"]);
        // As editors save: beside it, then in its place.
        fs::write(root.join("app/views/a.erb~"), "y").unwrap();
        fs::rename(root.join("app/views/a.erb~"), root.join("app/views/a.erb")).unwrap();
        assert_eq!(next(&told), ["app/views/a.erb"]);
        fs::remove_file(root.join("app/set/c.rb")).unwrap();
        assert_eq!(next(&told), ["app/set/c.rb"]);
        symlink("views/a.erb", root.join("app/link.erb")).unwrap();
        assert_eq!(next(&told), ["app/link.erb"]);
        drop(watch);
        assert!(told.recv().is_err(), "its thread has ended");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn folders_that_come_are_watched_and_those_that_go_are_not() {
        let (root, _watch, told) = watched("folders", &["app", "tmp"]);
        fs::create_dir_all(root.join("tmp/new/deep")).unwrap();
        fs::write(root.join("tmp/new/deep/a.erb"), "x").unwrap();
        fs::rename(root.join("tmp/new"), root.join("app/new")).unwrap();
        assert_eq!(next(&told), ["app/new/deep/a.erb"]);
        fs::write(root.join("app/new/deep/a.erb"), "y").unwrap();
        assert_eq!(next(&told), ["app/new/deep/a.erb"]);
        fs::rename(root.join("app/new"), root.join("app/newer")).unwrap();
        assert_eq!(next(&told), ["app/new", "app/newer/deep/a.erb"]);
        fs::rename(root.join("app/newer"), root.join("tmp/away")).unwrap();
        assert_eq!(next(&told), ["app/newer"]);
        fs::write(root.join("tmp/away/deep/a.erb"), "z").unwrap();
        fs::write(root.join("app/last"), "x").unwrap();
        assert_eq!(next(&told), ["app/last"]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn more_files_than_can_be_told_are_much() {
        let (root, _watch, told) = watched("much", &["app", "tmp/many"]);
        (0..=MAX_FILES).for_each(|number| fs::write(root.join(format!("tmp/many/{number}.erb")), "").unwrap());
        fs::rename(root.join("tmp/many"), root.join("app/many")).unwrap();
        assert_eq!(told.recv_timeout(Duration::from_secs(30)).unwrap(), FolderChange::Much);
        fs::remove_dir_all(root).unwrap();
    }
}
