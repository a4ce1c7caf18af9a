//! `paceline doctor apply N`: writes the line of an advice into a clean git tree, or prints it as a patch; then a running
//! server tries it (`canary`), and what it takes back is taken out of the files. The crate `doctor` makes the edit; it is
//! never written where somebody's uncommitted work is, and only with the rights of the application's account.

use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
    process::{ExitCode, Output, Stdio},
    time::Duration,
};

use doctor::apply::{plan, process_setting, unified_diff, Context, FileEdit, Plan};
use jiff::Timestamp;
use rustix::fs::OFlags;
use serde_json::json;
use unix_user::acting;

use super::{
    application,
    canary::{self, CanaryWish, Change},
    diagnosing::{find, Target},
    progress::plain,
    source::{told, Server},
    DoctorError, Place,
};
use crate::observe::{control::client::Failed, doctor_result::DoctorResult};

/// Bytes of a file that is changed.
const MAX_FILE: u64 = 1 << 20;
/// For a new front that boots all applications; the server itself gives up after `upgrade_timeout`.
const UPGRADE: Duration = Duration::from_secs(3600);
/// Settings, which a restart of the application does not read again.
const READ_AT_START: [&str; 2] = ["paceline.toml", "config/puma.rb"];

pub fn apply(place: &Place, wanted: Option<&str>, number: usize, wish: CanaryWish) -> Result<ExitCode, DoctorError> {
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
    if let Some(why) = is_unsafe(&target, &plan.edits) {
        eprintln!("{}", plain(&format!("{}: not written, because {why}; the patch:", target.name)));
        // A reader that went away is no failure.
        let _ = io::stdout().write_all(patch_text(&unified_diff(&plan.edits)).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    write_all(&target, &plan.edits)?;
    let name = &target.name;
    let settings = process_setting(&advice.verdict.candidate.fix);
    Ok(match (way(&plan, settings.is_some(), is_in_folder_of_sites(place, &target)), server) {
        (Way::Commands, _) => done(&format!("{name}: now run: {} && {}\n", plan.then.join(" && "), canary::command())),
        (_, None) => done(&format!("{name}: no server runs here; the next start uses it\n")),
        (Way::Seen, Some(_)) => done(&format!(
            "{name}: the server sees it within seconds, and starts the application again with it; take it back with git checkout {}\n",
            canary::names(&plan.edits)
        )),
        (Way::Upgrade, Some(server)) => upgrade(&target, &server, &plan.edits),
        (Way::Canary, Some(server)) => {
            let change = Change { edits: &plan.edits, settings: settings.as_deref() };
            canary::restart(&target, &server, &change, &advice.verdict, wish)
        }
    })
}

fn done(text: &str) -> ExitCode {
    say(text);
    ExitCode::SUCCESS
}

/// How a written change comes into effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// After these commands of the user's.
    Commands,
    /// By a restart of the application, as a canary.
    Canary,
    /// The server looks at this file all the time.
    Seen,
    /// The front itself reads it when it starts.
    Upgrade,
}

/// `is_of_processes`: it is a setting that the application's processes are started with. `is_watched`: the server looks at
/// the application's paceline.toml all the time.
fn way(plan: &Plan, is_of_processes: bool, is_watched: bool) -> Way {
    let settings = plan.edits.iter().find(|edit| READ_AT_START.contains(&edit.path.as_str()));
    match settings {
        _ if !plan.then.is_empty() => Way::Commands,
        Some(edit) if is_watched && edit.path == "paceline.toml" => Way::Seen,
        Some(_) if !is_of_processes => Way::Upgrade,
        _ => Way::Canary,
    }
}

/// A new front takes over that has read the settings, or they are taken back.
fn upgrade(target: &Target, server: &Server, edits: &[FileEdit]) -> ExitCode {
    let (name, files) = (&target.name, canary::names(edits));
    say(&format!("{name}: the server reads {files} only when it starts: upgrading it\n"));
    match server.ask_patiently("POST", "/upgrade", &json!({ "wait": true }), UPGRADE) {
        Ok(answer) if answer["pid"].is_null() => {
            done(&format!("{name}: the server can't be upgraded; its next start uses the change\n"))
        }
        Ok(_) => done(&format!("{name}: kept; take it back with git checkout {files} && paceline upgrade\n")),
        Err(Failed::Refused(why)) => {
            say(&format!("{name}: rolled back: {why}\n"));
            put_back(target, edits);
            ExitCode::FAILURE
        }
        Err(failed) => {
            let why = told(failed);
            say(&format!("{name}: what came of it is not known ({why}); {files} stays as it is\n"));
            ExitCode::FAILURE
        }
    }
}

/// Takes all edits back, and says so.
pub fn put_back(target: &Target, edits: &[FileEdit]) {
    for edit in edits {
        say(&format!("{}: {}\n", target.name, take_back(target, edit)));
    }
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

/// Why nothing is written.
fn is_unsafe(target: &Target, edits: &[FileEdit]) -> Option<String> {
    match git(target, &["status", "--porcelain", "--untracked-files=no"]) {
        Err(_) => return Some("git could not be run".into()),
        Ok(done) if !done.status.success() => return Some(format!("{} is no git tree", target.root.display())),
        Ok(done) if !done.stdout.is_empty() => {
            let status = String::from_utf8_lossy(&done.stdout);
            return Some(format!("the git tree has uncommitted changes: {}", changed(&status)));
        }
        Ok(_) => {}
    }
    // git could not give back what was in it before.
    let is_known = |path: &str| {
        let done = git(target, &["--literal-pathspecs", "ls-files", "--error-unmatch", "--", path]);
        done.is_ok_and(|done| done.status.success())
    };
    let unknown = edits.iter().find(|edit| edit.before.is_some() && !is_known(&edit.path));
    unknown.map(|edit| format!("git has no copy of {}", edit.path))
}

/// git runs as the application's account: a repository may name programs for it to run.
fn git(target: &Target, arguments: &[&str]) -> io::Result<Output> {
    let mut env = unix_user::env(&target.run_as);
    // Of another repository, as in a hook.
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].iter().for_each(|name| drop(env.remove(OsStr::new(name))));
    let mut git = unix_user::command(&target.run_as, Path::new("git"), &target.root, env);
    git.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output()
}

/// A patch for a terminal or a file: tabs and line ends are part of it.
fn patch_text(patch: &str) -> String {
    let plain = |line: &str| line.split('\t').map(plain).collect::<Vec<_>>().join("\t");
    patch.split("\r\n").map(plain).collect::<Vec<_>>().join("\r\n")
}

/// As `log/production.log and 2 more`, of what `git status --porcelain` prints.
fn changed(status: &str) -> String {
    let files: Vec<&str> = status.lines().filter_map(|line| line.get(3..)).collect();
    match files[..] {
        [] => "of files that git does not name".into(),
        [only] => only.into(),
        [first, ..] => format!("{first} and {} more", files.len() - 1),
    }
}

/// Writes all of them, or none: half a change may be worse than none.
fn write_all(target: &Target, edits: &[FileEdit]) -> Result<(), DoctorError> {
    for (nth, edit) in edits.iter().enumerate() {
        if let Err(failed) = write(target, edit) {
            put_back(target, &edits[..nth]);
            return Err(failed);
        }
        say(&format!("{}: changed {}\n", target.name, edit.path));
    }
    Ok(())
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
    let Some(before) = &edit.before else {
        return options.open(path)?.write_all(edit.after.as_bytes());
    };
    // What a link leads to is somebody else's.
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    if fs::read(path)? != before.as_bytes() {
        return Err(io::Error::other("it was changed in the meantime"));
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

/// Takes an edit back, if the file is still as it was written. What was done, as a sentence.
fn take_back(target: &Target, edit: &FileEdit) -> String {
    let path = &edit.path;
    let Some(file) = inside(&target.root, path) else { return format!("{path} is left as it is") };
    let done = acting(&target.run_as, || {
        let is_ours = fs::symlink_metadata(&file)?.is_file() && fs::read(&file)? == edit.after.as_bytes();
        match (&edit.before, is_ours) {
            (_, false) => Ok(format!("{path} was changed since, and is left as it is")),
            (None, true) => fs::remove_file(&file).map(|()| format!("{path} is removed again")),
            (Some(before), true) => {
                let back = FileEdit { before: Some(edit.after.clone()), after: before.clone(), path: path.clone() };
                replace(&file, &back).map(|()| format!("{path} is as it was before"))
            }
        }
    });
    done.unwrap_or_else(|error: io::Error| format!("{path} still has the change: {error}"))
}

/// The server looks at the settings there all the time.
fn is_in_folder_of_sites(place: &Place, target: &Target) -> bool {
    let (Place::Live { config: Some(config), .. } | Place::Offline(config)) = place else { return false };
    let dir = config.sites_dir.as_ref().and_then(|dir| dir.canonicalize().ok());
    dir.is_some() && target.root.parent() == dir.as_deref()
}

pub fn say(text: &str) {
    // A reader that went away is no failure.
    let _ = io::stdout().write_all(plain(text).as_bytes());
}

#[cfg(test)]
mod tests {
    use unix_user::RunAs;

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
    fn which_changes_are_in_the_way() {
        assert_eq!(changed(" M log/production.log\n"), "log/production.log");
        assert_eq!(changed("M  a.rb\nR  b.rb -> c.rb\n M d.rb\n"), "a.rb and 2 more");
    }

    #[test]
    fn a_patch_keeps_its_bytes_and_tells_a_terminal_nothing() {
        assert_eq!(patch_text("+\tx\r\n \u{1b}[2Jy\rz\n"), "+\tx\r\n \u{fffd}[2Jy\u{fffd}z\n");
    }

    fn shop(folder: &Folder) -> Target {
        Target { name: "shop".into(), root: folder.0.clone(), run_as: RunAs::own(), site: None }
    }

    fn to_b(path: &str, before: Option<&str>) -> FileEdit {
        FileEdit { path: path.into(), before: before.map(Into::into), after: "b\n".into() }
    }

    #[test]
    fn all_files_are_written_or_none() {
        let folder = Folder::with(&[("one.rb", "a\n"), ("changed.rb", "somebody's\n")]);
        let edits = [to_b("one.rb", Some("a\n")), to_b("new.rb", None), to_b("changed.rb", Some("a\n"))];
        let failed = write_all(&shop(&folder), &edits).unwrap_err();
        assert!(failed.to_string().contains("changed in the meantime"), "{failed}");
        let files = ["one.rb", "changed.rb"].map(|file| fs::read_to_string(folder.0.join(file)).unwrap());
        assert_eq!((files, folder.0.join("new.rb").exists()), (["a\n".into(), "somebody's\n".into()], false));
    }

    #[test]
    fn nothing_is_written_that_git_could_not_give_back() {
        let folder = Folder::with(&[("known.rb", "a\n"), ("app/ignored.rb", "a\n"), (".gitignore", "ignored.rb\n")]);
        let target = shop(&folder);
        let known = to_b("known.rb", Some("a\n"));
        let run = |arguments: &[&str]| assert!(git(&target, arguments).unwrap().status.success(), "{arguments:?}");
        assert!(is_unsafe(&target, &[]).is_some_and(|why| why.ends_with(" is no git tree")));
        run(&["init", "--quiet"]);
        assert_eq!(is_unsafe(&target, std::slice::from_ref(&known)).as_deref(), Some("git has no copy of known.rb"));
        run(&["add", "known.rb", ".gitignore"]);
        assert!(is_unsafe(&target, &[]).is_some_and(|why| why.contains("uncommitted changes")));
        run(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "all"]);
        assert_eq!(is_unsafe(&target, &[known, to_b("new.rb", None)]), None);
        let ignored = is_unsafe(&target, &[to_b("app/ignored.rb", Some("a\n"))]);
        assert_eq!(ignored.as_deref(), Some("git has no copy of app/ignored.rb"));
        let below = Target { root: folder.0.join("app"), ..shop(&folder) };
        assert_eq!(
            is_unsafe(&below, &[to_b("ignored.rb", Some("a\n"))]).as_deref(),
            Some("git has no copy of ignored.rb")
        );
        assert_eq!(is_unsafe(&below, &[to_b("new.rb", None)]), None);
    }

    #[test]
    fn an_edit_is_taken_back_unless_somebody_has_changed_it() {
        let folder = Folder::with(&[("old.rb", "a\n"), ("changed.rb", "a\n")]);
        let target = Target { name: "shop".into(), root: folder.0.clone(), run_as: RunAs::own(), site: None };
        let edit = |path: &str, before: Option<&str>| FileEdit {
            path: path.into(),
            before: before.map(Into::into),
            after: "b\n".into(),
        };
        let (old, changed, new) = (edit("old.rb", Some("a\n")), edit("changed.rb", Some("a\n")), edit("new.rb", None));
        [&old, &changed, &new].into_iter().for_each(|edit| write(&target, edit).unwrap());
        fs::write(folder.0.join("changed.rb"), "c\n").unwrap();
        assert_eq!(take_back(&target, &old), "old.rb is as it was before");
        assert_eq!(take_back(&target, &changed), "changed.rb was changed since, and is left as it is");
        assert_eq!(take_back(&target, &new), "new.rb is removed again");
        assert!(take_back(&target, &new).starts_with("new.rb still has the change: "), "it is gone already");
        let files = ["old.rb", "changed.rb"].map(|file| fs::read_to_string(folder.0.join(file)).unwrap());
        assert_eq!((files, folder.0.join("new.rb").exists()), (["a\n".into(), "c\n".into()], false));
    }

    #[test]
    fn settings_of_processes_are_tried_and_the_front_s_are_not() {
        let plan = |path: &str, then: &[&str]| Plan {
            edits: vec![FileEdit { path: path.into(), before: None, after: String::new() }],
            then: then.iter().map(|command| (*command).to_owned()).collect(),
        };
        for (path, is_of_processes, is_watched, expected) in [
            ("config/initializers/a.rb", false, false, Way::Canary),
            ("paceline.toml", true, false, Way::Canary),
            ("config/puma.rb", true, true, Way::Canary),
            ("paceline.toml", false, false, Way::Upgrade),
            ("paceline.toml", true, true, Way::Seen),
        ] {
            assert_eq!(way(&plan(path, &[]), is_of_processes, is_watched), expected, "{path}");
        }
        assert_eq!(way(&plan("Gemfile", &["bundle install"]), false, false), Way::Commands);
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
