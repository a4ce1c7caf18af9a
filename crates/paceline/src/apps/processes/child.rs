//! Starts one side process: as the site's account, in a process group of its own, ended by the kernel with the front.
//! It never waits for it.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use rustix::process::{getpid, getppid, set_parent_process_death_signal, Pid, Signal};

use crate::{
    apps::spawn::environment,
    config::{ProcessConfig, SiteConfig},
};
use unix_user::{self, RunAs};

/// The first argument of our own program where it is to become a side process.
pub const BECOME: &str = "--side-process";
/// Tells several of the same apart.
const VARIABLE: &str = "PACELINE_PROCESS";
/// As shells say that a program can't be run.
const CAN_NOT_RUN: u8 = 126;

/// What a generation that took over says to those beside it.
#[derive(Debug, Clone)]
pub struct Release {
    /// The real path of the application's root.
    pub root: PathBuf,
    pub run_as: RunAs,
}

/// One that was started. Its process group has its pid as number.
pub struct ChildProcess {
    pub pid: i32,
    pub output: [OwnedFd; 2],
}

/// Starts it. `who`: its name in the log. Must be called on the main thread: the kernel ties PDEATHSIG to it.
pub fn start(config: &ProcessConfig, who: &str, site: &SiteConfig, release: &Release) -> io::Result<ChildProcess> {
    let run_as = &release.run_as;
    let mut env = environment(site, run_as);
    env.insert(VARIABLE.into(), who.into());
    env.extend(config.env.iter().map(|(name, value)| (name.into(), value.into())));
    let dir = config.dir.as_ref().map_or_else(|| release.root.clone(), |dir| release.root.join(dir));
    if !dir.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", dir.display())));
    }
    if let (RunAs::Root(_), None) = (run_as, &site.user) {
        let files = [dir.clone(), dir.join(program(&config.command[0], &dir))];
        unix_user::root_alone(&files).map_err(io::Error::other)?;
    }
    let mut command = unix_user::command(run_as, "/proc/self/exe".as_ref(), &dir, env);
    command.arg(BECOME).arg(getpid().as_raw_nonzero().to_string());
    command.arg(program(&config.command[0], &dir)).args(&config.command[1..]);
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let missing = || io::Error::other("no pipe to it");
    let output: [OwnedFd; 2] =
        [child.stdout.take().ok_or_else(missing)?.into(), child.stderr.take().ok_or_else(missing)?.into()];
    if let Some(account) = run_as.account() {
        // So that it may open its /dev/stdout.
        output.iter().try_for_each(|pipe| std::os::unix::fs::fchown(pipe, Some(account.uid), None))?;
    }
    Ok(ChildProcess { pid: child.id() as i32, output })
}

/// With a slash it is a file, looked for where the process is started; without one it is looked up in PATH.
fn program(word: &str, dir: &Path) -> OsString {
    if word.contains('/') {
        dir.join(word).into()
    } else {
        word.into()
    }
}

/// What `start` asked for, in the process that it started: becomes the program. Returns only when it can't.
/// `arguments`: those after BECOME.
pub fn become_it(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let parent = arguments.next().and_then(|pid| Pid::from_raw(pid.to_str()?.parse().ok()?));
    let Some(program) = arguments.next() else { return ExitCode::from(CAN_NOT_RUN) };
    // The parent may have ended before the kernel was told.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || parent.is_none() || getppid() != parent {
        return ExitCode::from(CAN_NOT_RUN);
    }
    let why = Command::new(&program).args(arguments).exec();
    eprintln!("can't run {}: {why}", Path::new(&program).display());
    ExitCode::from(CAN_NOT_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_in_a_shell() {
        let of = |word| program(word, "/srv/shop/releases/1".as_ref());
        assert_eq!(of("bin/jobs"), "/srv/shop/releases/1/bin/jobs");
        assert_eq!(of("./jobs"), "/srv/shop/releases/1/./jobs");
        assert_eq!(of("/usr/bin/env"), "/usr/bin/env");
        assert_eq!(of("bundle"), "bundle");
    }
}
