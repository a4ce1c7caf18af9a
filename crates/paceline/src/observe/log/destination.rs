//! Where lines of one kind go: the terminal, or a file that is opened anew and rotated. What can't be written waits,
//! within a bound. It never gives a line up as long as there is room for it, and never says anything itself: `trouble`
//! is for the log to tell.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::BorrowedFd,
        unix::fs::{fchown, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use unix_user;

/// Bytes after which lines are written at once.
const ONE_WRITE: usize = 64 << 10;
/// Bytes that may wait for a disk that is full.
const WAITING: usize = 1 << 20;
/// What could not be done is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);

/// When a file is rotated, and how many old ones stay.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// Bytes.
    pub max_size: u64,
    pub keep: usize,
}

pub struct Destination {
    /// None: a terminal or pipe that was there before.
    path: Option<PathBuf>,
    file: File,
    /// Lines that go out with the next write.
    gathered: Vec<u8>,
    rotation: Option<Rotation>,
    /// Lines for which there was no room.
    dropped: u64,
    /// Writing fails.
    stuck: bool,
    /// Rotation or opening has failed: when it may be tried again.
    patient_until: Option<Instant>,
    /// What is wrong, until it is told.
    trouble: Option<String>,
}

impl Destination {
    /// The file, or what is already open.
    pub fn open(path: Option<&Path>, standard: BorrowedFd<'_>, rotation: Option<Rotation>) -> io::Result<Destination> {
        let file = match path {
            Some(path) => {
                append(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?
            }
            None => standard.try_clone_to_owned()?.into(),
        };
        Ok(Destination {
            path: path.map(Path::to_path_buf),
            file,
            gathered: Vec::new(),
            rotation,
            dropped: 0,
            stuck: false,
            patient_until: None,
            trouble: None,
        })
    }

    pub fn line(&mut self, line: &str) {
        if self.gathered.len() + line.len() > WAITING && self.stuck {
            self.dropped += 1;
            return;
        }
        // What is written at once goes to one file.
        if self.rotation.is_some_and(|rotation| (self.gathered.len() + line.len()) as u64 >= rotation.max_size) {
            self.write();
        }
        self.gathered.extend_from_slice(line.as_bytes());
        self.gathered.push(b'\n');
        if self.gathered.len() > ONE_WRITE && !self.stuck {
            self.write();
        }
    }

    /// Writes what has been gathered. What can't be written stays.
    pub fn write(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        self.rotate_if_due();
        let mut written = 0;
        let outcome = loop {
            if written == self.gathered.len() {
                break Ok(());
            }
            match self.file.write(&self.gathered[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.gathered.drain(..written);
        let was_stuck = std::mem::replace(&mut self.stuck, outcome.is_err());
        if let (Err(why), false) = (outcome, was_stuck) {
            self.tell("be written", &why, "lines wait");
        }
    }

    /// Lines wait for a disk.
    pub fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Opens the file anew: it may have been moved.
    pub fn reopen(&mut self) {
        self.write();
        let Some(path) = &self.path else { return };
        match append(path) {
            Ok(file) => self.file = file,
            Err(why) => self.tell("be opened anew", &why, "lines go on to the file that was open"),
        }
        // Old lines that could not be written may find room in it.
        self.write();
    }

    /// What has gone wrong since it was asked the last time.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Lines that were given up since it was asked the last time.
    pub fn dropped(&mut self) -> u64 {
        if self.stuck {
            0
        } else {
            std::mem::take(&mut self.dropped)
        }
    }

    fn tell(&mut self, what: &str, why: &io::Error, then: &str) {
        let path = self.path.as_deref().map_or_else(|| "the log".into(), |path| path.display().to_string());
        self.trouble = Some(format!("{path} can't {what}: {why}; {then}"));
    }

    fn rotate_if_due(&mut self) {
        let (Some(rotation), Some(path)) = (self.rotation, self.path.clone()) else { return };
        if self.patient_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        match self.rotate(rotation, &path) {
            Ok(()) => self.patient_until = None,
            Err(why) => {
                if self.patient_until.replace(Instant::now() + AGAIN).is_none() {
                    self.tell("be rotated", &why, "it goes on growing");
                }
            }
        }
    }

    /// A file is larger than it may be only if one line is.
    fn rotate(&mut self, rotation: Rotation, path: &Path) -> io::Result<()> {
        let held = self.file.metadata()?;
        // Somebody else has moved it: the other log, where both go to one file.
        let moved = fs::metadata(path).map_or(true, |there| (there.dev(), there.ino()) != (held.dev(), held.ino()));
        if moved {
            self.file = append(path)?;
            return Ok(());
        }
        if held.len() == 0 || held.len() + self.gathered.len() as u64 <= rotation.max_size {
            return Ok(());
        }
        for number in (1..rotation.keep).rev() {
            match fs::rename(old(path, number), old(path, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(path, old(path, 1))?;
        let mode = held.mode() & 0o777;
        let file =
            unix_user::writing(path, OpenOptions::new().create(true).append(true).mode(mode)).inspect_err(|_| {
                // Its lines go on where they were.
                let _ = fs::rename(old(path, 1), path);
            })?;
        let _ = fchown(&file, Some(held.uid()), Some(held.gid()));
        self.file = file;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    unix_user::writing(path, OpenOptions::new().create(true).append(true))
}

fn old(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsFd, unix::fs::PermissionsExt};

    use super::*;
    use crate::config::test_folder::Folder;

    fn destination(path: &Path, max_size: u64, keep: usize) -> Destination {
        Destination::open(Some(path), io::stderr().as_fd(), Some(Rotation { max_size, keep })).unwrap()
    }

    fn write(destination: &mut Destination, line: &str) {
        destination.line(line);
        destination.write();
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|_| "-".into())
    }

    #[test]
    fn a_file_that_is_full_becomes_an_old_one() {
        let folder = Folder::with(&[]);
        let path = folder.0.join("access.log");
        let mut log = destination(&path, 12, 2);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        (1..=7).for_each(|number| write(&mut log, &format!("line{number}")));
        // At once, and yet in several files.
        ["a", "b", "c"].iter().for_each(|word| log.line(&word.repeat(5)));
        log.write();
        write(&mut log, "one that is longer than a file may be");
        write(&mut log, "last");
        let all: Vec<_> =
            [path.clone(), old(&path, 1), old(&path, 2), old(&path, 3)].iter().map(|path| read(path)).collect();
        assert_eq!(all, ["last\n", "one that is longer than a file may be\n", "ccccc\n", "-"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(log.trouble(), None);
    }

    #[test]
    fn two_logs_may_share_a_file() {
        let folder = Folder::with(&[]);
        let path = folder.0.join("all.log");
        let (mut one, mut two) = (destination(&path, 12, 9), destination(&path, 12, 9));
        for number in 1..=9 {
            write(if number % 2 == 0 { &mut one } else { &mut two }, &format!("line{number}"));
        }
        let all: String = (1..=4).rev().map(|number| read(&old(&path, number))).chain([read(&path)]).collect();
        assert_eq!(all, (1..=9).map(|number| format!("line{number}\n")).collect::<String>());
    }

    #[test]
    fn what_can_not_be_rotated_grows_and_is_told_once() {
        let folder = Folder::with(&[("access.log.1/in_the_way", "")]);
        let path = folder.0.join("access.log");
        let mut log = destination(&path, 12, 1);
        (1..=3).for_each(|number| write(&mut log, &format!("line{number}")));
        assert_eq!(read(&path), "line1\nline2\nline3\n");
        let trouble = log.trouble().unwrap();
        assert!(
            trouble.contains("access.log can't be rotated: ") && trouble.ends_with("; it goes on growing"),
            "{trouble}"
        );
        write(&mut log, "line4");
        assert_eq!(log.trouble(), None);
    }

    #[test]
    fn lines_wait_for_a_full_disk_within_a_bound() {
        let mut log = Destination::open(Some("/dev/full".as_ref()), io::stderr().as_fd(), None).unwrap();
        write(&mut log, "first");
        assert!(log.is_stuck());
        assert_eq!(
            log.trouble().unwrap(),
            "/dev/full can't be written: No space left on device (os error 28); lines wait"
        );
        let long = "x".repeat(WAITING / 2);
        (0..4).for_each(|_| write(&mut log, &long));
        assert_eq!((log.trouble(), log.dropped()), (None, 0));
        let folder = Folder::with(&[]);
        log.path = Some(folder.0.join("log"));
        log.reopen();
        assert_eq!(read(&folder.0.join("log")), format!("first\n{long}\n"));
        assert_eq!((log.is_stuck(), log.dropped(), log.dropped()), (false, 3, 0));
    }
}
