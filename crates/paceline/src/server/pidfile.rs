//! The file with the front's pid, locked as long as that process lives: so a pid that has become another process's is
//! told from a server. It never signals the process it finds there.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{fcntl_lock, FlockOperation},
    io::{fcntl_setfd, FdFlags},
    process::{fcntl_getlk, Flock, FlockType},
};
use unix_user;

/// Other servers, by what they are called in the list of processes.
const OTHERS: [&str; 6] = ["puma", "unicorn", "thin", "rackup", "rails", "falcon"];

/// How exact the age of a process is.
const SLACK: Duration = Duration::from_secs(2);

/// Why there is no pidfile of ours.
#[derive(Debug, thiserror::Error)]
pub enum PidfileError {
    #[error("{command} (pid {pid}) is running already in {}, says {}; stop it first", serves.display(), path.display())]
    Running { command: String, pid: i32, serves: PathBuf, path: PathBuf },
    #[error("pidfile {}: {error}", path.display())]
    NotWritten { path: PathBuf, error: io::Error },
}

/// The file with our pid, removed in the end.
pub struct Pidfile {
    path: PathBuf,
    pid: u32,
    ours: bool,
    /// With the lock of this process.
    file: Option<File>,
}

impl Pidfile {
    pub fn write(path: &Path) -> Result<Pidfile, PidfileError> {
        if let Some(running) = other_server(path) {
            return Err(running);
        }
        if let Some(parent) = path.parent() {
            let _ = unix_user::make_dirs(parent);
        }
        let pid = std::process::id();
        let file = write(path, pid).map_err(|error| PidfileError::NotWritten { path: path.to_owned(), error })?;
        Ok(Pidfile { path: path.to_path_buf(), pid, ours: true, file: Some(file) })
    }

    /// That of a server which is known by another pid, and which we are not yet a part of. Err: it names another one.
    pub fn of(path: &Path, pid: u32) -> Result<Pidfile, PidfileError> {
        match other_server(path) {
            Some(PidfileError::Running { pid: other, .. }) if other == pid as i32 => {}
            Some(running) => return Err(running),
            None => {}
        }
        Ok(Pidfile { path: path.to_path_buf(), pid, ours: false, file: None })
    }

    /// Makes it ours, to be removed in the end.
    pub fn own(&mut self) {
        self.ours = true;
        self.file = write(&self.path, self.pid).ok();
    }

    /// Leaves it to who has taken over, if it is the same there.
    pub fn leave(&mut self, theirs: Option<&Path>) {
        self.ours = theirs != Some(&self.path);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        if !self.ours {
            // The process that the file names goes on as a stand-in, by exec, and keeps its lock.
            if let Some(file) = self.file.take().filter(|file| fcntl_setfd(file, FdFlags::empty()).is_ok()) {
                std::mem::forget(file);
            }
            return;
        }
        if std::fs::read_to_string(&self.path).is_ok_and(|pid| pid.trim() == self.pid.to_string()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The file, with the lock of this process if it can be had.
fn write(path: &Path, pid: u32) -> io::Result<File> {
    let mut file = unix_user::writing(path, OpenOptions::new().write(true).create(true))?;
    let _ = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    file.set_len(0)?;
    file.write_all(format!("{pid}\n").as_bytes())?;
    Ok(file)
}

/// The running server that the file names. None: it is a leftover, and its pid is nobody's or has become another
/// process's; or the file was copied.
fn other_server(path: &Path) -> Option<PidfileError> {
    let file = File::open(path).ok()?;
    let pid: i32 = io::read_to_string(&file).ok()?.trim().parse().ok()?;
    if pid <= 0 || pid == std::process::id() as i32 {
        return None;
    }
    let serves = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    // A container's process that is not seen from here has the pid 0.
    let locked = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).ok().flatten();
    let command = if locked.is_some_and(|lock| lock.pid.is_some()) {
        "paceline".into()
    } else {
        let written = file.metadata().and_then(|found| found.modified()).ok()?;
        let is_older = began(pid)? <= written + SLACK;
        let is_here = std::env::current_dir().is_ok_and(|here| here == serves);
        other_program(pid).filter(|_| is_older && is_here)?
    };
    Some(PidfileError::Running { command, pid, serves, path: path.to_owned() })
}

/// Another program that serves applications and locks no file, by its first words.
fn other_program(pid: i32) -> Option<String> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command);
    let words = command.split(['\0', ' ']).take(2);
    let names = words.map(|word| word.rsplit('/').next().unwrap_or(word).trim_end_matches(':').to_string());
    names.filter(|name| OTHERS.contains(&name.as_str())).last()
}

/// When a process began.
fn began(pid: i32) -> Option<SystemTime> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks: u64 = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
    let up: f64 = std::fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    let age = up - ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age.max(0.0)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leftover_is_replaced_and_our_own_is_removed() {
        let dir = std::env::temp_dir().join(format!("paceline-pidfile-{}", std::process::id()));
        let path = dir.join("tmp/pids/server.pid");
        // Alive, and no server.
        let mut alive = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        for leftover in ["", "x", "0", "-1", "4194304999", &alive.id().to_string()] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, leftover).unwrap();
            let pidfile = Pidfile::write(&path).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
            drop(pidfile);
            assert!(!path.exists());
        }
        alive.kill().unwrap();
        alive.wait().unwrap();
        let pidfile = Pidfile::write(&path).unwrap();
        std::fs::write(&path, "1").unwrap();
        drop(pidfile);
        assert!(path.exists(), "somebody else's pidfile was removed");
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// A process called `name`, in the current directory.
    fn running(name: &str) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        let process = std::process::Command::new("sleep").arg0(name).arg("600").spawn().unwrap();
        // The kernel has its words a little later than its program.
        while std::fs::read(format!("/proc/{}/cmdline", process.id())).unwrap().is_empty() {
            std::thread::yield_now();
        }
        process
    }

    #[test]
    fn another_server_counts_by_its_name_its_directory_and_its_age() {
        let path = std::env::temp_dir().join(format!("paceline-pidfile-others-{}", std::process::id()));
        let hour = Duration::from_secs(3600);
        for (name, written, counts) in [
            ("puma:", SystemTime::now(), true),
            ("/usr/bin/unicorn", SystemTime::now(), true),
            // It got the pid of a server that was there before.
            ("puma:", SystemTime::now() - hour, false),
            ("/srv/puma/bin/jobs", SystemTime::now(), false),
        ] {
            let mut process = running(name);
            let pid = process.id();
            std::fs::write(&path, pid.to_string()).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
            let found = other_server(&path);
            let _ = (process.kill(), process.wait());
            assert_eq!(found.is_some(), counts, "{name}");
            if let Some(PidfileError::Running { pid: named, serves, .. }) = found {
                assert_eq!((named as u32, serves), (pid, std::env::current_dir().unwrap()));
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}
