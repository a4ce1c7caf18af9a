//! The file with the front's pid.
//! It never signals the process it finds there.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use unix_user;

/// Why there is no pidfile of ours.
#[derive(Debug, thiserror::Error)]
pub enum PidfileError {
    #[error("{command} (pid {pid}) is running already, says {}; stop it first", path.display())]
    Running { command: String, pid: i32, path: PathBuf },
    #[error("pidfile {}: {error}", path.display())]
    NotWritten { path: PathBuf, error: io::Error },
}

/// The file with our pid, removed in the end.
pub struct Pidfile {
    path: PathBuf,
    pid: u32,
    ours: bool,
}

impl Pidfile {
    pub fn write(path: &Path) -> Result<Pidfile, PidfileError> {
        if let Some((pid, command)) = other_server(path) {
            return Err(PidfileError::Running { command, pid, path: path.to_owned() });
        }
        if let Some(parent) = path.parent() {
            let _ = unix_user::make_dirs(parent);
        }
        write(path, std::process::id()).map_err(|error| PidfileError::NotWritten { path: path.to_owned(), error })?;
        Ok(Pidfile { path: path.to_path_buf(), pid: std::process::id(), ours: true })
    }

    /// That of a server which is known by another pid, and which we are not yet a part of. Err: it names another one.
    pub fn of(path: &Path, pid: u32) -> Result<Pidfile, PidfileError> {
        match other_server(path) {
            Some((other, command)) if other != pid as i32 => {
                Err(PidfileError::Running { command, pid: other, path: path.to_owned() })
            }
            _ => Ok(Pidfile { path: path.to_path_buf(), pid, ours: false }),
        }
    }

    /// Makes it ours, to be removed in the end.
    pub fn own(&mut self) {
        self.ours = true;
        let _ = write(&self.path, self.pid);
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
        let ours = self.ours && std::fs::read_to_string(&self.path).is_ok_and(|pid| pid.trim() == self.pid.to_string());
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn write(path: &Path, pid: u32) -> io::Result<()> {
    let mut file = unix_user::writing(path, OpenOptions::new().write(true).create(true))?;
    file.set_len(0)?;
    file.write_all(format!("{pid}\n").as_bytes())
}

/// The running server that the file names. A pid that now belongs to something else makes it a leftover.
fn other_server(path: &Path) -> Option<(i32, String)> {
    let pid: i32 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    if pid <= 0 || pid == std::process::id() as i32 {
        return None;
    }
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command);
    let words = command.split(['\0', ' ', '/']);
    let server = ["paceline", "puma", "ruby", "rails", "unicorn", "thin", "rackup"];
    let named = words.map(|word| word.trim_end_matches(':')).find(|word| server.contains(word))?;
    Some((pid, named.to_string()))
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
}
