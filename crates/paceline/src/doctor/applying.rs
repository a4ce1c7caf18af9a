//! `paceline doctor apply N`: writes the line of an advice into a clean git tree, or prints it as a patch; then a running
//! server tries it (`canary`), and what it takes back is taken out of the files. The crate `doctor` makes the edit; it is
//! never written where somebody's uncommitted work is, and only with the rights of the application's account.

use std::{
    ffi::OsStr,
    io::{self, Write},
    path::Path,
    process::{ExitCode, Output, Stdio},
    time::Duration,
};

use doctor::apply::{plan, process_setting, unified_diff, Context, FileEdit, Plan};
use jiff::Timestamp;
use serde_json::json;

use super::{
    application,
    canary::{self, CanaryWish, Change},
    diagnosing::{find, Target},
    progress::{plain, warn},
    source::{explained, Server},
    writing::{inside, put_back, say, write_all},
    DoctorError, Place,
};
use crate::{observe::doctor_result::DoctorResult, server::control::client::Failed};

/// Bytes of a file that is changed.
const MAX_FILE: u64 = 1 << 20;
/// For a new front that boots all applications; the server itself gives up after `upgrade_timeout`.
const UPGRADE: Duration = Duration::from_secs(3600);
/// Settings, which a restart of the application does not read again.
const READ_AT_START: [&str; 2] = ["paceline.toml", "config/puma.rb"];

pub fn apply(place: &Place, wanted: Option<&str>, number: usize, wish: CanaryWish) -> Result<ExitCode, DoctorError> {
    let (target, server) = where_is(place, wanted)?;
    let kept = DoctorResult::load(&target.root, &target.run_as);
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
        warn(&format!("{}: not written, because {why}; the patch:", target.name));
        // A reader that went away is no failure.
        let _ = io::stdout().write_all(patch_text(&unified_diff(&plan.edits)).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    write_all(&target, &plan.edits)?;
    let name = &target.name;
    let settings = process_setting(&advice.verdict.candidate.fix);
    Ok(match (way(&plan, settings.is_some(), is_in_folder_of_sites(place, &target)), server) {
        (Way::Commands, server) => done(&format!("{name}: {}\n", to_run(&plan, server.is_some()))),
        (_, None) => done(&format!("{name}: no server runs here; the next start uses it\n")),
        (Way::Seen, Some(_)) => done(&format!(
            "{name}: the server sees it within seconds, and starts the application again with it. To undo it, run: git checkout {}\n",
            canary::names(&plan.edits)
        )),
        (Way::Upgrade, Some(server)) => upgrade(&target, &server, &plan.edits),
        (Way::Canary, Some(server)) => {
            let change = Change { edits: &plan.edits, settings: settings.as_deref() };
            canary::restart(&target, &server, &change, &advice.verdict, wish)
        }
    })
}

/// `is_served`: by a server of ours that runs. Which other one serves it is not known.
fn to_run(plan: &Plan, is_served: bool) -> String {
    let commands = plan.then.join(" && ");
    if is_served {
        format!("now run: {commands} && {}", canary::command())
    } else {
        format!("now run: {commands}; then restart the server that serves it")
    }
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
        Ok(_) => done(&format!("{name}: kept; to undo it, run: git checkout {files} && paceline upgrade\n")),
        Err(Failed::Refused(why)) => {
            say(&format!("{name}: rolled back: {why}\n"));
            put_back(target, edits);
            ExitCode::FAILURE
        }
        Err(failed) => {
            let why = explained(failed);
            say(&format!("{name}: could not read the canary's result ({why}); {files} is unchanged\n"));
            ExitCode::FAILURE
        }
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

/// The server looks at the settings there all the time.
fn is_in_folder_of_sites(place: &Place, target: &Target) -> bool {
    let (Place::Live { config: Some(config), .. } | Place::Offline(config)) = place else { return false };
    let dir = config.sites_dir.as_ref().and_then(|dir| dir.canonicalize().ok());
    dir.is_some() && target.root.parent() == dir.as_deref()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unix_user::RunAs;

    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn which_changes_are_in_the_way() {
        assert_eq!(changed(" M log/production.log\n"), "log/production.log");
        assert_eq!(changed("M  a.rb\nR  b.rb -> c.rb\n M d.rb\n"), "a.rb and 2 more");
    }

    #[test]
    fn a_patch_keeps_its_bytes_and_tells_a_terminal_nothing() {
        assert_eq!(patch_text("+\tx\r\n \u{1b}[2Jy\rz\n"), "+\tx\r\n \u{fffd}[2Jy\u{fffd}z\n");
    }

    #[test]
    fn only_a_server_of_ours_is_restarted_by_our_command() {
        let plan = Plan { then: vec!["bundle install".into(), "bin/rails db:migrate".into()], edits: Vec::new() };
        let ours = "now run: bundle install && bin/rails db:migrate && paceline restart --canary 10% --wait";
        let other = "now run: bundle install && bin/rails db:migrate; then restart the server that serves it";
        assert_eq!([true, false].map(|is_served| to_run(&plan, is_served)), [ours, other]);
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
}
