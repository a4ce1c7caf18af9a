//! Starts a preloader process: the app's Ruby with the shim, a control socket and pipes for what it prints.
//! It never waits for it.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::io::{fcntl_setfd, FdFlags};

use crate::config::SiteConfig;

/// A preloader that was started.
pub struct Spawned {
    pub pid: i32,
    pub control: UnixStream,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// The folder with `lib/paceline/preloader.rb`: `$PACELINE_GEM_DIR`, or `gem/` of the checkout the program was built in.
pub fn gem_dir() -> io::Result<PathBuf> {
    let here = |dir: &Path| dir.join("lib/paceline/preloader.rb").is_file();
    if let Some(dir) = std::env::var_os("PACELINE_GEM_DIR").map(PathBuf::from) {
        if here(&dir) {
            return Ok(dir);
        }
    }
    let program = std::env::current_exe()?;
    let checkout = program.ancestors().map(|dir| dir.join("gem")).find(|dir| here(dir));
    checkout.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "the gem's files are missing: set PACELINE_GEM_DIR to the folder that holds lib/paceline",
        )
    })
}

/// Starts the preloader of `site` in `root` (the real path of its root).
/// Must be called on the main thread: the kernel ties PDEATHSIG to the thread that started the child.
pub fn preloader(site: &SiteConfig, root: &Path) -> io::Result<Spawned> {
    let gem = gem_dir()?;
    let (ours, theirs) = UnixStream::pair()?;
    fcntl_setfd(theirs.as_fd(), FdFlags::empty())?;
    let mut command = Command::new(&site.ruby);
    command.arg(gem.join("lib/paceline/preloader.rb"));
    command.current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("PACELINE_CONTROL_FD", theirs.as_raw_fd().to_string());
    for name in ["RACK_ENV", "RAILS_ENV", "APP_ENV"] {
        command.env(name, &site.environment);
    }
    // Bundler run for the server itself says nothing about the app's own bundle.
    for name in ["RUBYOPT", "RUBYLIB"] {
        if std::env::var_os("BUNDLE_BIN_PATH").is_some() {
            command.env_remove(name);
        }
    }
    // What a service manager told the front is not the app's to answer.
    for name in ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET"] {
        command.env_remove(name);
    }
    command.envs(&site.env);
    let mut child =
        command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", site.ruby.display())))?;
    let missing = || io::Error::other("no pipe to the preloader");
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    Ok(Spawned { pid: child.id() as i32, control: ours, stdout: stdout.into(), stderr: stderr.into() })
}
