//! Files and the file system: missing, forbidden, read-only, full, and YAML that can't be read.
//! It never touches them.

use super::{
    case::{shell, Case, Symptom},
    Suggestion,
};
use std::path::Path;

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    match s.class.as_str() {
        "Errno::ENOENT" => missing(s, case),
        "Errno::EACCES" | "Errno::EPERM" => forbidden(path_of(s), case),
        "Errno::EROFS" => read_only(s, case),
        "Errno::ENOSPC" | "Errno::EDQUOT" => full(s, case),
        "Errno::EMFILE" | "Errno::ENFILE" => Suggestion::run("The process ran out of file descriptors: raise the limit where Paceline is started (LimitNOFILE= in systemd).", "ulimit -n 65536"),
        "Errno::ENOMEM" | "NoMemoryError" => Suggestion::run("The machine (or the container's limit) has no memory left. Use fewer workers (`-w 1`) or more memory, unless the code has asked for very much at once.", "free -m"),
        "Errno::EISDIR" | "Errno::ENOTDIR" => Suggestion::say(format!("{} is a folder where the app expects a file, or a file where it expects a folder.", named(s, case))),
        "Psych::SyntaxError" | "Psych::BadAlias" | "Psych::AliasesNotEnabled" | "Psych::AnchorNotDefined" | "Psych::DisallowedClass" => yaml(s, case),
        // Rails' config_for.
        _ if s.says("Could not load configuration. No such file - ") => missing(s, case),
        _ if s.says("YAML syntax error") => yaml(s, case),
        _ => None,
    }
}

/// `No such file or directory @ rb_sysopen - /srv/app/x`
fn path_of(s: &Symptom) -> Option<&str> {
    s.message
        .lines()
        .next()?
        .split_once(" - ")
        .map(|(_, path)| path.trim().trim_matches(['"', '(', ')']))
        .filter(|path| !path.is_empty())
}

fn named(s: &Symptom, case: &Case) -> String {
    path_of(s).map(|path| case.below_root(path.as_ref())).unwrap_or_else(|| "Something".into())
}

fn missing(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let by = |does: &str| s.place(case).map(|place| format!(" {place} {does} it.")).unwrap_or_default();
    let place = by("reads");
    let Some(path) = path_of(s) else {
        return Suggestion::say(format!("A file that the app needs is missing.{place}"));
    };
    let name = case.below_root(path.as_ref());
    // A program that was to be run has no slash and no ending.
    if !path.contains(['/', '.']) && !s.says("rb_sysopen") {
        return Suggestion::say(format!(
            "The app runs the program `{path}`, which is not installed or not on the PATH.{}",
            by("runs")
        ));
    }
    if let Some(end) =
        ["example", "sample", "dist", "template"].into_iter().find(|end| case.has(&format!("{name}.{end}")))
    {
        return Suggestion::run(
            format!("{name} is missing. There is an example: copy and adapt it.{place}"),
            format!("cp {} {}", shell(&format!("{name}.{end}")), shell(&name)),
        );
    }
    let folder = Path::new(&name).parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    if !folder.is_empty()
        && !case.has(&folder)
        && ["log", "tmp", "storage", "db"].iter().any(|top| folder.starts_with(top))
    {
        return Suggestion::run(
            format!("{name} can't be created because the folder {folder} is missing.{}", by("opens")),
            format!("mkdir -p {}", shell(&folder)),
        );
    }
    Suggestion::say(format!("{name} is missing. Check {}.{place}", case.name_of_file()))
}

/// Also for the front's own work.
pub fn forbidden(path: Option<&str>, case: &Case) -> Option<Suggestion> {
    let user = case.seen.user();
    let Some(path) = path else {
        return Suggestion::say(format!(
            "{user}, the account that runs the app, has no permission: check owner and mode of the file."
        ));
    };
    if path.contains("bind(2)") {
        return Suggestion::run(
            "The server may not listen there: ports below 1024 need the capability cap_net_bind_service.",
            "paceline -p 3000",
        );
    }
    let name = case.below_root(path.as_ref());
    let full = case.report.root.join(path);
    let owner = case.seen.owner(&full).map(|owner| format!(", which belongs to {owner}")).unwrap_or_default();
    let text = format!("{user}, the account that runs the app, may not open {name}{owner}.");
    // What an app writes is its user's; changing the owner of anything else would be bad advice.
    let writable = ["log", "tmp", "storage", "db", "public"].into_iter().find(|top| Path::new(&name).starts_with(top));
    match writable {
        Some(top) => Suggestion::run(text, format!("sudo chown -R {} {top}", shell(&user))),
        None => Suggestion::run(text, format!("ls -ld {}", shell(&name))),
    }
}

fn read_only(s: &Symptom, case: &Case) -> Option<Suggestion> {
    Suggestion::say(format!("{} is on a read-only file system. The app must be able to write to log/, tmp/ and its database: mount those writable (ReadWritePaths= in systemd, a volume in a container).", named(s, case)))
}

fn full(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let name = named(s, case);
    let folder =
        Path::new(&name).parent().map(|folder| folder.display().to_string()).filter(|folder| !folder.is_empty());
    Suggestion::run(
        "The disk (or the user's quota) is full: free some space. log/ and tmp/cache/ are often the largest.",
        format!("df -h {}", shell(&folder.unwrap_or_else(|| ".".into()))),
    )
}

fn yaml(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let file = s
        .after("occurred while parsing ", &['\n'])
        .map(|file| file.split(". Please").next().unwrap_or(file).trim_end_matches('.'))
        .or_else(|| s.after("(", &[')']).filter(|file| file.contains('.')));
    let line = s.after("at line ", &[' ', '\n']).map(|line| format!(", line {line}")).unwrap_or_default();
    let name = match file {
        Some(file) => case.below_root(file.as_ref()),
        None => format!("The YAML that {} reads", s.place(case).unwrap_or_else(|| "the app".into())),
    };
    if s.is(&["Psych::BadAlias", "Psych::AliasesNotEnabled"]) {
        return Suggestion::say(format!("{name} uses a YAML alias (`<<: *default`), which Psych 4 (Ruby 3.1) only reads with `YAML.load(..., aliases: true)`: update the gem that reads it, or replace the alias with its content."));
    }
    if s.is(&["Psych::DisallowedClass"]) {
        return Suggestion::say(format!("{name} contains a Ruby object that YAML.load no longer loads (Psych 4): allow it with `permitted_classes:`, or read the file with YAML.unsafe_load if you trust it."));
    }
    let text = format!("{name}{line} is not valid YAML: check it for indentation, tabs and a missing quote or colon.");
    match file {
        Some(file) => Suggestion::run(
            text,
            format!("ruby -ryaml -e 'YAML.parse_file(ARGV[0])' {}", shell(&case.below_root(file.as_ref()))),
        ),
        None => Suggestion::say(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    #[rustfmt::skip]
    fn files() {
        const EXAMPLE: Machine = Machine(&["config/mail.yml.sample"]);
        for (machine, class, message, text, command) in [
            (&RAILS, "Errno::ENOENT", "No such file or directory @ rb_sysopen - /srv/app/config/mail.yml", "config/mail.yml is missing", "-"),
            (&EXAMPLE, "Errno::ENOENT", "No such file or directory @ rb_sysopen - config/mail.yml", "There is an example: copy and adapt it", "cp config/mail.yml.sample config/mail.yml"),
            (&RAILS, "Errno::ENOENT", "No such file or directory @ rb_sysopen - /srv/app/log/production.log", "folder log is missing", "mkdir -p log"),
            (&RAILS, "Errno::ENOENT", "No such file or directory - node", "the program `node`, which is not installed or not on the PATH. config/x.rb:7 runs it.", "-"),
            (&EXAMPLE, "RuntimeError", "Could not load configuration. No such file - /srv/app/config/mail.yml", "There is an example", "cp config/mail.yml.sample config/mail.yml"),
            (&RAILS, "Errno::EACCES", "Permission denied @ rb_sysopen - /srv/app/log/production.log", "deploy, the account that runs the app, may not open log/production.log, which belongs to root", "sudo chown -R deploy log"),
            (&RAILS, "Errno::EACCES", "Permission denied @ rb_sysopen - /etc/shop.key", "/etc/shop.key, which belongs to root", "ls -ld /etc/shop.key"),
            (&RAILS, "Errno::EROFS", "Read-only file system @ rb_sysopen - /srv/app/tmp/x", "tmp/x is on a read-only file system", "-"),
            (&RAILS, "Errno::ENOSPC", "No space left on device @ io_write - /srv/app/log/production.log", "disk", "df -h log"),
            (&RAILS, "Errno::EMFILE", "Too many open files", "file descriptors", "ulimit -n 65536"),
            (&RAILS, "Psych::SyntaxError", "(/srv/app/config/cable.yml): did not find expected key while parsing a block mapping at line 5 column 1", "config/cable.yml, line 5 is not valid YAML", "ruby -ryaml -e 'YAML.parse_file(ARGV[0])' config/cable.yml"),
            (&RAILS, "RuntimeError", "YAML syntax error occurred while parsing /srv/app/config/storage.yml. Please note that YAML must be consistently indented. Error: (<unknown>): found character at line 3 column 1", "config/storage.yml, line 3", "ruby -ryaml -e 'YAML.parse_file(ARGV[0])' config/storage.yml"),
            (&RAILS, "Psych::SyntaxError", "(<unknown>): mapping values are not allowed in this context at line 1 column 5", "The YAML that config/x.rb:7 reads, line 1 is not valid", "-"),
            (&RAILS, "Psych::BadAlias", "Unknown alias: default", "aliases: true", "-"),
        ] {
            row(machine, class, message, text, command);
        }
    }
}
