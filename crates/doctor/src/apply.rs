//! Turns a fix into edits of the application's files, or says why it can only be shown. Files are arguments: it reads and
//! writes none. It changes a line only where it is sure which one.

mod diff;

use std::fmt;

use crate::candidate::{Edit, Fix, Place};

pub use diff::unified_diff;

/// What an edit depends on besides the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// As `6.1.7`; empty: not a Rails application.
    pub rails: String,
    /// Now, as `20261124120000` (UTC): a migration's version.
    pub now: String,
}

/// What to do, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub edits: Vec<FileEdit>,
    /// Commands to run in the application's folder after the edits, before it is started again.
    pub then: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Below the application's folder.
    pub path: String,
    /// None: it is created.
    pub before: Option<String>,
    pub after: String,
}

/// Why there is no edit: a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannotApply(pub String);

impl fmt::Display for CannotApply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for CannotApply {}

type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Settings that the application's processes are started with: a running server can try them without being started again.
const OF_PROCESSES: [&str; 7] = ["allocator", "env", "malloc_arenas", "preload", "threads", "workers", "yjit"];

/// The setting that a fix is, as a line of paceline.toml, if it is one of the application's processes.
pub fn process_setting(fix: &Fix) -> Option<String> {
    match &fix.edit {
        Edit::Setting { key, value } => OF_PROCESSES.contains(&key.as_str()).then(|| format!("{key} = {value}")),
        Edit::Puma { name, line } => in_toml(name, line),
        _ => None,
    }
}

/// A statement of config/puma.rb as paceline.toml has it.
fn in_toml(name: &str, line: &str) -> Option<String> {
    let numbers: Option<Vec<u32>> =
        line.strip_prefix(name)?.split(',').map(|number| number.trim().parse().ok()).collect();
    match (name, numbers.as_deref()) {
        ("preload_app!", _) => Some("preload = true".into()),
        ("workers", Some([workers])) => Some(format!("workers = {workers}")),
        ("threads", Some([min, max])) if min == max => Some(format!("threads = {max}")),
        ("threads", Some([min, max])) => Some(format!("threads = \"{min}:{max}\"")),
        _ => None,
    }
}

/// `read`: a file's content by its path below the application's folder; None: there is none.
pub fn plan(fix: &Fix, context: &Context, read: Read) -> Result<Plan, CannotApply> {
    let (edit, needs_gem) = match &fix.edit {
        Edit::Insert { lines, place, gem } => (inserted(&fix.file, lines, *place, read)?, *gem),
        Edit::Configure { setting, line, gem } => (configured(&fix.file, setting, line, read)?, *gem),
        Edit::Setting { key, value } => (set(&fix.file, key, value, read)?, false),
        Edit::Puma { name, line } => (stated(&fix.file, name, line, read)?, false),
        Edit::Migration { table, columns, concurrently } => {
            let edit = migration(table, columns, *concurrently, context)?;
            return Ok(Plan { edits: vec![edit], then: vec!["bin/rails db:migrate".into()] });
        }
        Edit::Shown { why } => return Err(CannotApply(format!("only you can do this: {why}"))),
    };
    let mut plan = Plan { edits: vec![edit], then: Vec::new() };
    if needs_gem {
        add_gem(&mut plan, read);
    }
    if plan.edits.iter().any(|edit| edit.path == "Gemfile") {
        plan.then.push("bundle install".into());
    }
    plan.edits = plan.edits.into_iter().map(with_its_line_ends).collect::<Result<_, _>>()?;
    Ok(plan)
}

/// Edits are made in lines that end with a line feed. A file whose lines end with CR LF keeps that.
fn with_its_line_ends(edit: FileEdit) -> Result<FileEdit, CannotApply> {
    let before = edit.before.as_deref().unwrap_or_default();
    let (long, all) = (before.matches("\r\n").count(), before.matches('\n').count());
    match long {
        0 => Ok(edit),
        _ if long == all => Ok(FileEdit { after: edit.after.replace("\r\n", "\n").replace('\n', "\r\n"), ..edit }),
        _ => Err(CannotApply(format!("{} has lines that end with CR LF and others that do not", edit.path))),
    }
}

fn add_gem(plan: &mut Plan, read: Read) {
    match read("Gemfile") {
        None => plan.then.push("gem install paceline".into()),
        Some(gemfile) if has_gem(&gemfile) => {}
        Some(gemfile) => {
            let after = with_line(&gemfile, "gem \"paceline\"");
            plan.edits.insert(0, FileEdit { path: "Gemfile".into(), before: Some(gemfile), after });
        }
    }
}

fn has_gem(gemfile: &str) -> bool {
    let names = gemfile.lines().filter_map(|line| line.trim().strip_prefix("gem"));
    names
        .map(|rest| rest.trim_start_matches([' ', '(']))
        .any(|rest| rest.starts_with("\"paceline\"") || rest.starts_with("'paceline'"))
}

fn with_line(text: &str, line: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}{line}\n")
}

fn already(file: &str) -> CannotApply {
    CannotApply(format!("{file} has this line already"))
}

fn missing(file: &str) -> CannotApply {
    CannotApply(format!("there is no {file}"))
}

fn inserted(file: &str, lines: &[String], place: Place, read: Read) -> Result<FileEdit, CannotApply> {
    let before = read(file);
    if before.is_none() && !file.starts_with("config/") {
        return Err(missing(file));
    }
    let text = before.clone().unwrap_or_else(|| "# frozen_string_literal: true\n\n".into());
    let has = |line: &String| text.lines().any(|one| one.trim() == line.trim());
    let new: Vec<&String> = lines.iter().filter(|line| !has(line)).collect();
    if new.is_empty() || file == "Gemfile" && has_gem(&text) {
        return Err(already(file));
    }
    let after = match place {
        Place::End => new.iter().fold(text, |text, line| with_line(&text, line)),
        Place::Top => {
            let comments: usize =
                text.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
            let (head, rest) = text.split_at(comments);
            let block: String = new.iter().map(|line| format!("{line}\n")).collect();
            format!("{head}{block}{rest}")
        }
    };
    Ok(FileEdit { path: file.into(), before, after })
}

fn configured(file: &str, setting: &str, line: &str, read: Read) -> Result<FileEdit, CannotApply> {
    let Some(before) = read(file) else {
        // Only an initializer needs no frame around its lines.
        return if file.starts_with("config/initializers/") {
            Ok(FileEdit {
                path: file.into(),
                before: None,
                after: format!("# frozen_string_literal: true\n\n{line}\n"),
            })
        } else {
            Err(missing(file))
        };
    };
    let sets =
        |text: &str| text.trim_start().strip_prefix(setting).is_some_and(|rest| rest.starts_with([' ', '=', '(']));
    let lines: Vec<&str> = before.lines().collect();
    let found: Vec<usize> = (0..lines.len()).filter(|at| sets(lines[*at])).collect();
    let after = match found.as_slice() {
        [] => with_setting(file, &lines, line)?,
        [at] if lines[*at].trim() == line => return Err(already(file)),
        [at] if !is_plain(lines[*at]) => {
            return Err(CannotApply(format!("{file}:{} sets it by a condition: {}", at + 1, lines[*at].trim())));
        }
        [at] => {
            let indent = &lines[*at][..lines[*at].len() - lines[*at].trim_start().len()];
            let replaced = format!("{indent}{line}");
            let mut new: Vec<&str> = lines.clone();
            new[*at] = &replaced;
            new.join("\n") + "\n"
        }
        [_, at, ..] => return Err(CannotApply(format!("{file} sets it more than once, again in line {}", at + 1))),
    };
    Ok(FileEdit { path: file.into(), before: Some(before), after })
}

/// One line, with a value that does not depend on anything.
fn is_plain(line: &str) -> bool {
    let line = line.trim_end();
    !["ENV", " if ", " unless ", " ? ", " do"].iter().any(|word| line.contains(word))
        && !line.ends_with([',', '\\', '(', '{', '='])
}

/// Before the `end` of the block that holds the configuration.
fn with_setting(file: &str, lines: &[&str], line: &str) -> Result<String, CannotApply> {
    let is_frame = |text: &str| {
        let text = text.trim();
        text.ends_with(".configure do") || text.starts_with("class ") && text.contains("Application")
    };
    if file.starts_with("config/initializers/") {
        return Ok(with_line(&lines.join("\n"), line));
    }
    let unknown = || CannotApply(format!("{file} has no block for this line that is understood; add: {line}"));
    let start = lines.iter().position(|text| is_frame(text)).ok_or_else(unknown)?;
    let indent = lines[start].len() - lines[start].trim_start().len();
    let is_end = |text: &&str| text.trim_end() == format!("{}end", &lines[start][..indent]);
    let end = lines[start..].iter().position(is_end).ok_or_else(unknown)? + start;
    let new = format!("{}  {line}", &lines[start][..indent]);
    let all = lines[..end].iter().copied().chain([new.as_str()]).chain(lines[end..].iter().copied());
    Ok(all.collect::<Vec<_>>().join("\n") + "\n")
}

/// A key at the top of paceline.toml.
fn set(file: &str, key: &str, value: &str, read: Read) -> Result<FileEdit, CannotApply> {
    let line = format!("{key} = {value}");
    let Some(before) = read(file) else {
        if read("config/puma.rb").is_some() {
            return Err(CannotApply(format!(
                "the settings are in config/puma.rb, which a new {file} would replace; set `{line}` there or by a flag"
            )));
        }
        return Ok(FileEdit { path: file.into(), before: None, after: format!("{line}\n") });
    };
    let lines: Vec<&str> = before.lines().collect();
    let tables = lines.iter().position(|text| text.trim_start().starts_with('[')).unwrap_or(lines.len());
    let sets = |text: &str| text.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    if let Some(at) = lines[tables..].iter().position(|text| sets(text)) {
        return Err(CannotApply(format!("{file}:{} sets {key} for a site", tables + at + 1)));
    }
    let mut new: Vec<&str> = lines.clone();
    let place = lines[..tables].iter().position(|text| sets(text));
    let (_, comment) = place.map_or(("", ""), |at| parted(lines[at]));
    let with_comment = format!("{line}{comment}");
    match place {
        Some(at) if parted(lines[at]).0.trim() == line => return Err(already(file)),
        Some(at) if value.starts_with('{') || parted(lines[at]).0.contains(['[', '{']) => {
            return Err(CannotApply(format!("{file}:{} sets {key} to several values; add yours: {line}", at + 1)));
        }
        Some(at) => new[at] = &with_comment,
        None => {
            // Above the comments of the first table.
            let is_apart = |text: &&str| text.is_empty() || text.starts_with('#');
            let place = lines[..tables].iter().rposition(|text| !is_apart(&text.trim())).map_or(0, |last| last + 1);
            new.insert(place, &line);
        }
    }
    let after = new.join("\n") + "\n";
    Ok(FileEdit { path: file.into(), before: Some(before), after })
}

/// A line of TOML without its comment, and the comment with the spaces before it.
fn parted(line: &str) -> (&str, &str) {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, letter) in line.char_indices() {
        match quote {
            _ if is_escaped => is_escaped = false,
            Some('"') if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            None if letter == '#' => {
                let code = line[..at].trim_end();
                return (code, &line[code.len()..]);
            }
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
    }
    (line, "")
}

/// A statement of config/puma.rb, where the same one may stand already.
fn stated(file: &str, name: &str, line: &str, read: Read) -> Result<FileEdit, CannotApply> {
    let before = read(file).ok_or_else(|| missing(file))?;
    let states = |text: &str| {
        text.trim_start().strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '(']))
    };
    let lines: Vec<&str> = before.lines().collect();
    let found: Vec<usize> = (0..lines.len()).filter(|at| states(lines[*at])).collect();
    let after = match found.as_slice() {
        [] => with_line(&before, line),
        [at] if lines[*at].trim() == line => return Err(already(file)),
        // Within a condition or a block, another line may be the one that counts.
        [at] if !is_plain(lines[*at]) || lines[*at].starts_with([' ', '\t']) => {
            return Err(CannotApply(format!(
                "{file}:{} says it by a condition: {}; there: {line}",
                at + 1,
                lines[*at].trim()
            )));
        }
        [at] => {
            let mut new = lines.clone();
            new[*at] = line;
            new.join("\n") + "\n"
        }
        [_, at, ..] => return Err(CannotApply(format!("{file} says it more than once, again in line {}", at + 1))),
    };
    Ok(FileEdit { path: file.into(), before: Some(before), after })
}

fn migration(table: &str, columns: &[String], is_concurrent: bool, context: &Context) -> Result<FileEdit, CannotApply> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    if columns.is_empty() || !is_name(table) || !columns.iter().all(|column| is_name(column)) {
        return Err(CannotApply(
            "the names of the table and its columns need quotes: write the migration by hand".into(),
        ));
    }
    let mut numbers = context.rails.split('.');
    let (Some(major), Some(minor)) = (numbers.next().filter(|major| !major.is_empty()), numbers.next()) else {
        return Err(CannotApply("the application has no migrations of Rails".into()));
    };
    let name = format!("add_index_to_{table}_on_{}", columns.join("_and_"));
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    let class: String = name.split('_').map(capital).collect();
    let list: Vec<String> = columns.iter().map(|column| format!(":{column}")).collect();
    let list = if list.len() == 1 { list.concat() } else { format!("[{}]", list.join(", ")) };
    let (outside, option) =
        if is_concurrent { ("  disable_ddl_transaction!\n\n", ", algorithm: :concurrently") } else { ("", "") };
    let after = format!(
        "# frozen_string_literal: true\n\nclass {class} < ActiveRecord::Migration[{major}.{minor}]\n{outside}  def change\n    \
         add_index :{table}, {list}{option}\n  end\nend\n"
    );
    Ok(FileEdit { path: format!("db/migrate/{}_{name}.rb", context.now), before: None, after })
}

#[cfg(test)]
mod tests;
