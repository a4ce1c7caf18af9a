//! `paceline doctor apply N`: writes the line of an advice into a clean git tree, or prints it as a patch; then a running
//! server is restarted with it as a canary. The crate `doctor` makes the edit; it is never written where somebody's
//! uncommitted work is, and only with the rights of the application's account.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
    process::{ExitCode, Stdio},
};

use doctor::apply::{plan, unified_diff, Context, FileEdit, Plan};
use jiff::Timestamp;
use rustix::fs::OFlags;
use serde_json::json;
use unix_user::acting;

use super::{
    application,
    diagnosing::{find, Target},
    progress::plain,
    source::{told, Server},
    DoctorError, Place,
};
use crate::observe::doctor_result::DoctorResult;

/// Bytes of a file that is changed.
const MAX_FILE: u64 = 1 << 20;
/// Percent of the requests that the changed application gets first, and for how many seconds.
const CANARY: u32 = 10;
const CANARY_TIME: u32 = 60;

pub fn apply(place: &Place, wanted: Option<&str>, number: usize) -> Result<ExitCode, DoctorError> {
    let (target, server) = where_is(place, wanted)?;
    let kept = DoctorResult::load(&target.root, &target.name, &target.run_as);
    let kept = kept.map_err(|error| DoctorError::Wrong(error.to_string()))?;
    let advice = kept.report.advice(number).ok_or_else(|| missing(&kept, number))?;
    let context = Context { rails: kept.rails.clone(), now: now() };
    let read = |path: &str| {
        let path = inside(&target.root, path)?;
        String::from_utf8(unix_user::read(&target.run_as, &path, MAX_FILE).ok()?).ok()
    };
    let plan =
        plan(&advice.verdict.candidate.fix, &context, &read).map_err(|why| DoctorError::Wrong(why.to_string()))?;
    if let Some(why) = is_unsafe(&target) {
        eprintln!("{}", plain(&format!("{}: not written, because {why}; the patch:", target.name)));
        say(&unified_diff(&plan.edits));
        return Ok(ExitCode::SUCCESS);
    }
    for edit in &plan.edits {
        write(&target, edit)?;
        say(&format!("{}: changed {}\n", target.name, edit.path));
    }
    say(&next(&target, &plan, server.as_ref()));
    Ok(ExitCode::SUCCESS)
}

/// A server that does not run has nothing to restart; its settings tell where the application is.
fn where_is(place: &Place, wanted: Option<&str>) -> Result<(Target, Option<Server>), DoctorError> {
    match place {
        Place::Live { socket, shown, config } => match find(socket, shown, config.as_deref(), wanted) {
            Ok((server, target)) => Ok((target, Some(server))),
            Err(why) => match config {
                Some(config) => Ok((Target::of(application(config, wanted)?)?, None)),
                None => Err(why),
            },
        },
        Place::Offline(config) => Ok((Target::of(application(config, wanted)?)?, None)),
    }
}

fn missing(kept: &DoctorResult, number: usize) -> DoctorError {
    DoctorError::Wrong(match kept.report.advice.len() {
        0 => "the last result has no advice".into(),
        1 => format!("there is no advice {number}: the last result has one"),
        all => format!("there is no advice {number}: the last result has 1 to {all}"),
    })
}

/// As `20261124120000`, UTC.
fn now() -> String {
    Timestamp::now().strftime("%Y%m%d%H%M%S").to_string()
}

/// The path of a file below the root. None: it leads out of it.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| root.join(path))
}

/// Why nothing is written. git runs as the application's account: a repository may name programs for it to run.
fn is_unsafe(target: &Target) -> Option<String> {
    let env = unix_user::env(&target.run_as);
    let mut git = unix_user::command(&target.run_as, Path::new("git"), &target.root, env);
    git.args(["status", "--porcelain", "--untracked-files=no"]).stdin(Stdio::null()).stderr(Stdio::null());
    match git.output() {
        Err(_) => Some("git could not be run".into()),
        Ok(done) if !done.status.success() => Some(format!("{} is no git tree", target.root.display())),
        Ok(done) if !done.stdout.is_empty() => Some("the git tree has uncommitted changes".into()),
        Ok(_) => None,
    }
}

/// Writes a file beside the one that is there, and puts it in its place.
fn write(target: &Target, edit: &FileEdit) -> Result<(), DoctorError> {
    let path = inside(&target.root, &edit.path)
        .ok_or_else(|| DoctorError::Wrong(format!("{} is not below the application's folder", edit.path)))?;
    acting(&target.run_as, || replace(&path, edit)).map_err(|error| DoctorError::of(&path)(error))
}

fn replace(path: &Path, edit: &FileEdit) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    if edit.before.is_none() {
        return options.open(path)?.write_all(edit.after.as_bytes());
    }
    // What a link leads to is somebody else's.
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    let new = path.with_extension(format!("paceline-{}", std::process::id()));
    let written = options
        .open(&new)
        .and_then(|mut file| file.write_all(edit.after.as_bytes()))
        .and_then(|()| fs::set_permissions(&new, found.permissions()))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// What is to be done now, or has been begun.
fn next(target: &Target, plan: &Plan, server: Option<&Server>) -> String {
    let name = &target.name;
    let back =
        format!("git checkout {}", plan.edits.iter().map(|edit| edit.path.as_str()).collect::<Vec<_>>().join(" "));
    let restart = format!("paceline restart --canary {CANARY}% --wait");
    match server {
        _ if !plan.then.is_empty() => format!("{name}: now run: {} && {restart}\n", plan.then.join(" && ")),
        None => format!("{name}: no server runs here; the next start uses it\n"),
        Some(server) => {
            let wish = json!({ "site": server.site, "canary": CANARY, "for": CANARY_TIME });
            match server.ask("POST", "/restart", Some(&wish)) {
                Ok(_) => format!(
                    "{name}: restarting with it as a canary: {CANARY} % of the requests for {CANARY_TIME} s, then all if it does no worse\n\
                     {name}: watch it with paceline status; take it back with {back} && paceline rollback\n"
                ),
                Err(failed) => format!("{name}: the server did not restart ({}); run: {restart}\n", told(failed)),
            }
        }
    }
}

fn say(text: &str) {
    // A reader that went away is no failure.
    let _ = io::stdout().write_all(plain(text).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn only_files_below_the_root() {
        let root = Path::new("/app");
        assert_eq!(inside(root, "config/initializers/a.rb"), Some("/app/config/initializers/a.rb".into()));
        for path in ["../a", "/etc/passwd", "config/../../a", "./a"] {
            assert_eq!(inside(root, path), None, "{path}");
        }
    }

    #[test]
    fn files_keep_their_mode_and_links_are_left_alone() {
        use std::os::unix::fs::{symlink, PermissionsExt};
        let folder = Folder::with(&[("a.rb", "old\n"), ("b.rb", "old\n")]);
        let edit = |path: &str, before: Option<&str>| FileEdit {
            path: path.into(),
            before: before.map(Into::into),
            after: "new\n".into(),
        };
        let file = folder.0.join("a.rb");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&file, &edit("a.rb", Some("old\n"))).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        let link = folder.0.join("link.rb");
        symlink(folder.0.join("b.rb"), &link).unwrap();
        assert!(replace(&link, &edit("link.rb", Some("old\n"))).is_err());
        assert!(replace(&link, &edit("link.rb", None)).is_err(), "there is something at the place of a new file");
        assert_eq!(fs::read_to_string(folder.0.join("b.rb")).unwrap(), "old\n");
        replace(&folder.0.join("config/new.rb"), &edit("config/new.rb", None)).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 4);
    }
}
