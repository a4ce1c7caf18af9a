//! What is watched of an application's folder for restarts: where its root leads to, tmp/restart.txt,
//! tmp/always_restart.txt. It never restarts anything.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use crate::apps::attempts::Cause;

/// A deployment that switches `current` touches tmp/restart.txt within so long of it: both are one wish.
const ONE_DEPLOYMENT: Duration = Duration::from_secs(5);

/// What is seen of a site's folder at a moment.
#[derive(Debug, Clone)]
pub struct FolderState {
    /// The real path of the root.
    release: Option<PathBuf>,
    restart: Option<SystemTime>,
    always: bool,
}

impl FolderState {
    /// Where the root leads to.
    pub fn release(&self) -> Option<PathBuf> {
        self.release.clone()
    }

    /// Looks at the disk, which may take long.
    pub fn at(root: &Path) -> FolderState {
        let touched = std::fs::metadata(root.join("tmp/restart.txt")).and_then(|found| found.modified());
        FolderState {
            release: root.canonicalize().ok(),
            restart: touched.ok(),
            always: root.join("tmp/always_restart.txt").exists(),
        }
    }
}

/// How a site's folder looked last.
#[derive(Debug, Clone)]
pub struct FolderWatch {
    release: Option<PathBuf>,
    restart: Option<SystemTime>,
    /// When the root was seen to lead elsewhere, until the touch that goes with it.
    switched: Option<Instant>,
    pub always: bool,
}

impl FolderWatch {
    pub fn new(seen: FolderState) -> FolderWatch {
        FolderWatch { release: seen.release, restart: seen.restart, switched: None, always: seen.always }
    }

    /// Takes what is seen now. Some: a restart is wanted.
    pub fn take(&mut self, seen: FolderState, now: Instant) -> Option<Cause> {
        self.always = seen.always;
        // A link that is being replaced leads nowhere for a moment, and a file is away: neither says anything.
        if seen.release.is_some() && seen.release != self.release {
            let first = self.release.is_none();
            (self.release, self.restart, self.switched) = (seen.release, seen.restart, Some(now));
            return (!first).then_some(Cause::Release);
        }
        if seen.restart == self.restart {
            return None;
        }
        self.restart = seen.restart;
        seen.restart?;
        let switched = self.switched.take().is_some_and(|at| now.saturating_duration_since(at) < ONE_DEPLOYMENT);
        Some(Cause::RestartTxt { with_release: switched })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        // Two touches within one tick of the clock have the same date.
        let file = fs::File::open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_millis(rand())).unwrap();
    }

    fn rand() -> u64 {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) * 10
    }

    #[test]
    fn a_switch_and_its_touch_are_one_wish() {
        let dir = std::env::temp_dir().join(format!("paceline-watched-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for release in ["releases/1/tmp", "releases/2/tmp"] {
            fs::create_dir_all(dir.join(release)).unwrap();
        }
        let current = dir.join("current");
        symlink(dir.join("releases/1"), &current).unwrap();
        let start = Instant::now();
        let mut watched = FolderWatch::new(FolderState::at(&current));
        assert_eq!(watched.take(FolderState::at(&current), start), None);
        touch(&current.join("tmp/restart.txt"));
        assert_eq!(watched.take(FolderState::at(&current), start), Some(Cause::RestartTxt { with_release: false }));
        assert_eq!(watched.take(FolderState::at(&current), start), None);

        fs::remove_file(&current).unwrap();
        assert_eq!(watched.take(FolderState::at(&current), start), None);
        symlink(dir.join("releases/2"), &current).unwrap();
        assert_eq!(watched.take(FolderState::at(&current), start), Some(Cause::Release));
        touch(&current.join("tmp/restart.txt"));
        assert_eq!(watched.take(FolderState::at(&current), start), Some(Cause::RestartTxt { with_release: true }));
        touch(&current.join("tmp/restart.txt"));
        assert_eq!(watched.take(FolderState::at(&current), start), Some(Cause::RestartTxt { with_release: false }));

        fs::remove_file(&current).unwrap();
        symlink(dir.join("releases/1"), &current).unwrap();
        assert_eq!(watched.take(FolderState::at(&current), start), Some(Cause::Release));
        touch(&current.join("tmp/restart.txt"));
        let later = start + ONE_DEPLOYMENT;
        assert_eq!(watched.take(FolderState::at(&current), later), Some(Cause::RestartTxt { with_release: false }));
        touch(&current.join("tmp/always_restart.txt"));
        assert_eq!((watched.take(FolderState::at(&current), later), watched.always), (None, true));
        fs::remove_dir_all(&dir).unwrap();
    }
}
