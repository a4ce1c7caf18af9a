//! Starts that ended without an exception: killed, exited, too slow, or stopped by something the front could not do.
//! It never asks the kernel.

use super::{
    case::{Case, Occasion, Symptom},
    files, services, Suggestion,
};
use crate::{
    phrases::{duration, signal_name},
    Step,
};
use std::time::Duration;

pub fn out_of_memory() -> Option<Suggestion> {
    Suggestion::run("Nearly always the kernel killed the process because the machine (or the container's limit) is out of memory. Use fewer workers (`-w 1`) or more memory.", "dmesg | grep -iE 'killed process|out of memory'")
}

/// By a signal, its own or a shell's (128 + signal).
pub fn killed(signal: Option<i32>, status: Option<i32>, case: &Case) -> Option<Suggestion> {
    match signal.or(status.filter(|status| (129..160).contains(status)).map(|status| status - 128))? {
        9 => out_of_memory(),
        signal @ (4 | 6 | 7 | 8 | 11 | 31) => {
            let library = case.report.output.iter().rev().find_map(|line| native_library(line));
            let library = library.map(|name| format!(" The output names {name}.")).unwrap_or_default();
            let place = case.report.crash().and_then(|line| line.split_once(": [BUG]")).and_then(|(place, _)| {
                let (file, line) = place.rsplit_once(':')?;
                Some(format!(" It happened in {}:{line}.", case.below_root(file.as_ref())))
            });
            let place = place.unwrap_or_default();
            let command = if case.has("Gemfile") { "bundle pristine" } else { "gem pristine --all" };
            Suggestion::run(format!("Ruby crashed (SIG{}), nearly always because a gem's native extension does not fit this Ruby or a system library: build the extensions again.{place}{library}", signal_name(signal)), command)
        }
        1 | 2 | 3 | 15 => Suggestion::say("A signal from a user or the service manager ended the app's process while it was starting. Reload to start it again."),
        24 | 25 => Suggestion::run("A resource limit of the shell or service manager ended the process.", "ulimit -a"),
        _ => None,
    }
}

/// `/x/gems/nokogiri-1.13/lib/nokogiri/nokogiri.so` in a crash report's C-level backtrace.
fn native_library(line: &str) -> Option<String> {
    let end = line.find(".so")?;
    let path = line.get(..end)?;
    let gem = path.rfind("/gems/").and_then(|at| path.get(at + 6..))?;
    gem.split('/').next().map(str::to_string)
}

/// SystemExit while loading: `exit`, `abort`, or a gem that gives up so.
pub fn exit_by_exception(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if case.occasion == Occasion::Request {
        return None;
    }
    match s.class.as_str() {
        "SystemExit" => {
            let place = s.place(case).map(|place| format!(" at {place}")).unwrap_or_default();
            let printed = if case.report.output.is_empty() { "" } else { " What it printed before usually says why." };
            Suggestion::say(format!("The app itself called `exit` or `abort` while it was loading{place}.{printed}"))
        }
        "Interrupt" | "SignalException" => killed(Some(15), None, case),
        _ => None,
    }
}

pub fn exited(status: Option<i32>, case: &Case) -> Option<Suggestion> {
    match status? {
        127 => Suggestion::run("The program to start was not found: is Ruby (or the program that `ruby` in paceline.toml names) installed?", "ruby --version"),
        126 => Suggestion::say("The program that `ruby` in paceline.toml names can't be run: check that it is a program and is executable."),
        status if case.report.output.is_empty() => Suggestion::say(format!("The app's process ended with status {status} and printed nothing: look for `exit!`, `exec` or `Process.daemon` in the code that it loads.")),
        _ => Suggestion::say("The app itself ended its process while it was loading (`exit`, `abort`). What it printed before usually says why."),
    }
}

pub fn timed_out(after: Duration, case: &Case) -> Option<Suggestion> {
    let doing = match case.report.failed_step() {
        Some(Step::Bundler) => "Bundler was still setting up gems",
        Some(Step::Preload) => "it was still eager-loading its code",
        Some(Step::Fork | Step::Ready) => "its workers were not ready: look at the boot hooks (on_worker_boot)",
        _ => "it was still loading",
    };
    Suggestion::say(format!("After {} {doing}. Look for something that waits while it loads (a server that does not answer, a debugger, a prompt), or allow more time: `start_timeout = \"{}s\"` in paceline.toml.", duration(after), (after.as_secs().max(1) * 3).max(60)))
}

/// It started, and does not answer well.
pub fn unready(path: &str) -> Option<Suggestion> {
    Suggestion::say(format!("The code loads, but the ready check of {path} failed. See the application's own log. `ready_path` in paceline.toml selects another page; `ready_path = \"off\"` turns the check off."))
}

/// What the front could not do.
pub fn system(doing: &str, error: &str, case: &Case) -> Option<Suggestion> {
    let path = doing
        .split_whitespace()
        .chain(error.split_whitespace())
        .map(|word| word.trim_matches(['`', '\'', '"', ',', ':']))
        .find(|word| word.starts_with('/'));
    let listens = doing.contains("listen") || doing.contains("bind");
    let port = doing
        .rsplit(':')
        .next()
        .and_then(|end| end.split_whitespace().next())
        .and_then(|port| port.trim_end_matches(['`', '\'', '"']).parse::<u16>().ok());
    match () {
        () if error.contains("would run as root") => Suggestion::run(
            "If an application runs as root, a security hole in it exposes the whole machine. Set a user for it (`user` in paceline.toml, --user or PACELINE_USER), or change the owner of the application's files.",
            "paceline --user deploy",
        ),
        () if error.contains("in use") => services::port_taken(port, case),
        () if listens && error.contains("denied") => files::forbidden(Some("bind(2)"), case),
        () if listens && error.contains("assign requested address") => {
            Suggestion::say("This machine has no such address: listen on 127.0.0.1, or on 0.0.0.0 for every interface.")
        }
        () if error.contains("denied") || error.contains("not permitted") => files::forbidden(path, case),
        () if error.contains("No space left") => Suggestion::run("The disk is full.", "df -h"),
        () if error.contains("Too many open files") => {
            Suggestion::run("The limit of open files is too low.", "ulimit -n 65536")
        }
        () if error.contains("allocate memory") || error.contains("temporarily unavailable") => {
            Suggestion::run("The machine has no memory left, or has reached its limit of processes.", "free -m; ulimit -u")
        }
        () if doing.contains("ruby") && error.contains("No such file") => Suggestion::run(
            "Ruby was not found: install it, or name it in paceline.toml (`ruby = \"/path/to/ruby\"`).",
            "apt-get install ruby",
        ),
        () if error.contains("No such file") => {
            let what =
                path.map(|path| case.below_root(path.as_ref())).unwrap_or_else(|| "A file that the server needs".into());
            Suggestion::say(format!("{what} does not exist: check the path."))
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{suggest_with, testing::*};
    use crate::Failure;
    use std::time::Duration;

    #[test]
    #[rustfmt::skip]
    fn processes_that_end() {
        for (status, signal, output, text, command) in [
            (None, Some(9), "", "out of memory", "dmesg | grep -iE 'killed process|out of memory'"),
            (Some(137), None, "", "out of memory", "dmesg | grep -iE 'killed process|out of memory'"),
            (None, Some(11), "/var/lib/gems/3.1.0/gems/nokogiri-1.13.0/lib/nokogiri.so(x+0x1)", "SIGSEGV", "bundle pristine"),
            (None, Some(11), "/var/lib/gems/3.1.0/gems/nokogiri-1.13.0/lib/nokogiri.so(x+0x1)", "names nokogiri-1.13.0", "bundle pristine"),
            (None, Some(6), "", "SIGABRT", "bundle pristine"),
            (None, Some(6), "/srv/app/lib/hops.rb:7: [BUG] Segmentation fault at 0x0000000000002269", "again. It happened in lib/hops.rb:7.", "bundle pristine"),
            (None, Some(15), "", "ended the app's process", "-"),
            (Some(1), None, "giving up", "`abort`", "-"),
            (Some(3), None, "", "printed nothing", "-"),
            (Some(127), None, "", "not found", "ruby --version"),
            (Some(1), None, "/srv/app/x.rb:3:in `require': cannot load such file -- roda (LoadError)", "roda", "bundle add roda"),
            (Some(5), None, "Bundler::GemNotFound: Could not find rotp-6.2.0.gem for installation", "rotp-6.2.0.gem is in the Gemfile", "bundle install"),
            (Some(1), None, "Could not find rack-2.2.4 in locally installed gems", "rack-2.2.4 is in the Gemfile", "bundle install"),
        ] {
            let mut report = report("production", Failure::Exited { status, signal, who: "preloader".into() });
            if !output.is_empty() {
                report.push_output(output);
            }
            check(suggest_with(&report, &BUNDLED), text, command, output);
        }
    }

    #[test]
    #[rustfmt::skip]
    fn exits_while_loading() {
        row(&RACK, "SystemExit", "exit", "called `exit` or `abort` while it was loading at config/x.rb:7", "-");
        let cause = "ActiveSupport::EncryptedFile::MissingKeyError: Missing encryption key to decrypt file with.";
        let locked = report("production", exception_of("SystemExit", "exit", cause));
        check(suggest_with(&locked, &RAILS), "config/credentials/production.key", "-", "a cause");
        row(&RACK, "NoMemoryError", "failed to allocate memory", "no memory left", "free -m");
    }

    #[test]
    fn what_the_front_could_not_do() {
        for (doing, error, text, command) in [
            (
                "listen on 127.0.0.1:3000",
                "Address already in use (os error 98)",
                "in use by puma (pid 4711)",
                "paceline -p 3001",
            ),
            ("listen on [::]:80", "Permission denied (os error 13)", "ports below 1024", "paceline -p 3000"),
            ("listen on 10.9.9.9:3000", "Cannot assign requested address (os error 99)", "no such address", "-"),
            ("start ruby", "No such file or directory (os error 2)", "Ruby was not found", "apt-get install ruby"),
            (
                "read /srv/app/config.ru",
                "Permission denied (os error 13)",
                "may not open config.ru",
                "ls -ld config.ru",
            ),
            (
                "choose a user for the application",
                "it would run as root, the owner of /srv/app/config.ru: set `user = \"deploy\"`",
                "Set a user for it",
                "paceline --user deploy",
            ),
            ("open /srv/app", "No such file or directory (os error 2)", "does not exist", "-"),
        ] {
            check(
                suggest_with(
                    &report("production", Failure::System { doing: doing.into(), error: error.into() }),
                    &RAILS,
                ),
                text,
                command,
                doing,
            );
        }
        check(
            suggest_with(&report("production", Failure::TimedOut { after: Duration::from_secs(60) }), &RAILS),
            "start_timeout = \"180s\"",
            "-",
            "time-out",
        );
    }
}
