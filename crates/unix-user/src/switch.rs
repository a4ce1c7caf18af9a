//! Runs a program as an account: this program is started once more, gives root up for good, and becomes the other one.
//! It never evaluates, loads or looks for anything as root: even variables such as LD_PRELOAD are put in place
//! afterwards.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::{Command, ExitCode},
};

use rustix::{
    process::{getegid, geteuid, getgid, getuid, Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid, set_thread_uid},
};

use super::RunAs;

/// The first argument of a program that is to become another one.
pub const SWITCH: &str = "--switch-user";
/// Stands before the name of each variable until root is given up, so that it means nothing to the linker.
const MARK: u8 = b'+';
/// As shells say that a program can't be run.
const CAN_NOT_RUN: u8 = 126;

/// Secrets that the front is given by its environment, and that no application is to have.
const SECRETS: [&str; 1] = ["PACELINE_CONTROL_TOKEN"];

/// The front's own variables without its secrets, with the home and name of the account.
pub fn env(run_as: &RunAs) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> =
        std::env::vars_os().filter(|(name, _)| !SECRETS.iter().any(|secret| name == secret)).collect();
    let Some(account) = run_as.account() else { return env };
    for name in ["HOME", "USER", "LOGNAME", "MAIL", "XDG_RUNTIME_DIR"] {
        env.remove(OsStr::new(name));
    }
    env.insert("HOME".into(), account.home.clone().into());
    if let Some(name) = &account.name {
        env.extend(["USER", "LOGNAME"].map(|key| (key.into(), name.into())));
    }
    env
}

/// A command that runs `program` in the directory `dir` with these variables alone: as `run_as` says. An account enters
/// the directory by itself, so that it must be able to.
pub fn command(run_as: &RunAs, program: &Path, dir: &Path, env: BTreeMap<OsString, OsString>) -> Command {
    let Some(account) = run_as.account() else {
        let mut command = Command::new(program);
        command.current_dir(dir).env_clear().envs(env);
        return command;
    };
    let groups: Vec<String> = account.groups.iter().map(u32::to_string).collect();
    let mut command = Command::new("/proc/self/exe");
    command.arg(SWITCH).arg(account.uid.to_string()).arg(account.gid.to_string()).arg(groups.join(","));
    command.arg(account.shown()).arg(dir).arg(program);
    command.env_clear().envs(env.into_iter().map(|(name, value)| (marked(&name), value)));
    command
}

fn marked(name: &OsStr) -> OsString {
    OsStr::from_bytes(&[&[MARK], name.as_bytes()].concat()).to_owned()
}

/// What `command` asked for, in the process that it started. Returns only when it can't be done.
/// `arguments`: those after SWITCH.
pub fn obey(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let [uid, gid, groups, name, dir, program, rest @ ..] = &arguments[..] else { return failed("wrong arguments") };
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let groups: Option<Vec<u32>> =
        groups.to_str().map(|text| text.split(',').filter_map(|group| group.parse().ok()).collect());
    let (Some(uid), Some(gid), Some(groups)) = (number(uid), number(gid), groups) else {
        return failed("wrong numbers");
    };
    let name = name.to_string_lossy();
    if let Err(why) = become_for_good(uid, gid, &groups) {
        return failed(&format!("can't become {name}: {why}"));
    }
    if let Err(why) = std::env::set_current_dir(dir) {
        return failed(&format!("{name} can't enter {}: {why}", Path::new(dir).display()));
    }
    // The server's own script, which the account must be able to read.
    if let Some(script) = rest.first().map(Path::new).filter(|path| path.is_absolute()) {
        if let Err(why) = File::open(script) {
            return failed(&format!(
                "{name} can't read the server's own file {}: {why}; install Paceline where every user may read it",
                script.display()
            ));
        }
    }
    let mut command = Command::new(program);
    command.args(rest).env_clear().envs(std::env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(&[MARK])?;
        Some((OsStr::from_bytes(name).to_owned(), value))
    }));
    let why = command.exec();
    failed(&format!("{name} can't run {}: {why}", Path::new(program).display()))
}

/// This process has one thread, so that its thread's identity is the process's.
fn become_for_good(uid: u32, gid: u32, groups: &[u32]) -> std::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    let become_it = (getuid(), geteuid(), getgid(), getegid()) == (uid, uid, gid, gid);
    let way_back = !uid.is_root() && set_thread_uid(Uid::ROOT).is_ok();
    if !become_it || way_back {
        return Err(std::io::Error::other("the kernel did not switch"));
    }
    Ok(())
}

fn failed(why: &str) -> ExitCode {
    eprintln!("paceline: {why}");
    ExitCode::from(CAN_NOT_RUN)
}
