//! Asks Ruby what config/puma.rb says, in the one process that reading settings may start.
//! It never obeys the file: its settings become one source among others.

use std::{
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{bind, layer::Layer, options::named, value::Value};
use unix_user::{self, RunAs};

/// Read by `ruby -`, so that it is found wherever the program is installed.
const SCRIPT: &str = include_str!("../../../../gem/lib/paceline/server/puma_config.rb");
const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(3);
/// How long each part of what Ruby wrote is waited for once it has ended. A process that the file left behind may keep the
/// pipes open for ever.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The script's last byte: all settings stand before it.
const END: char = '\0';

/// What the file says.
#[derive(Debug, Default, PartialEq)]
pub struct FromPuma {
    pub layer: Layer,
    /// `directory`: the application's root.
    pub directory: Option<PathBuf>,
    pub notices: Vec<String>,
}

/// How to run Ruby.
pub struct PumaScript<'a> {
    pub ruby: &'a Path,
    /// The directory served: Ruby runs there, and relative paths of the file are below it.
    pub dir: &'a Path,
    /// The environment if flags or variables name one; otherwise the file may.
    pub environment: Option<&'a str>,
    /// Who Ruby runs as. It is never root where others could have written what it reads.
    pub run_as: RunAs,
}

pub fn read(path: &Path, asking: &PumaScript) -> Result<FromPuma, String> {
    let shown = path.strip_prefix(asking.dir).unwrap_or(path).display().to_string();
    let (status, text) = run(path, &shown, asking)?;
    if !status.success() {
        let path = path.display().to_string();
        // The script's own last word follows a NUL; before it stands what the file printed.
        let told = text.rsplit_once('\0').map(|(_, told)| told.trim().replace(&path, &shown));
        let last = || text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word").to_string();
        return Err(told.unwrap_or_else(|| format!("{shown}: Ruby failed to read it ({status}): {}", last())));
    }
    let settings = text.strip_suffix(END).ok_or_else(|| format!("{shown}: Ruby's output was cut off; try again"))?;
    let mut read = understood(settings, &shown)?;
    read.directory = read.directory.map(|path| asking.dir.join(path));
    read.layer.anchor(read.directory.as_deref().unwrap_or(asking.dir));
    Ok(read)
}

fn understood(out: &str, shown: &str) -> Result<FromPuma, String> {
    let mut read = FromPuma::default();
    let mut binds = Vec::new();
    for line in out.lines() {
        let Some((key, text)) = line.split_once('\t').map(|(key, text)| (key, unescaped(text))) else { continue };
        let wrong = |why: String| format!("{shown}: {key} {text}: {why}");
        match key {
            "ignored" if text == "plugin :solid_queue" => read.notices.push(format!(
                "{shown}: {text} does not run inside the server; run it beside the workers with [[process]] command = \"bin/jobs\" in paceline.toml"
            )),
            "ignored" => read.notices.push(format!("{shown}: {text} is ignored")),
            "directory" => read.directory = Some(PathBuf::from(text)),
            "bind" => {
                bind::check(&text).map_err(|why| format!("{shown}: bind {why}"))?;
                binds.push(text);
            }
            _ => {
                let option = named(key).ok_or_else(|| wrong("unknown setting".into()))?;
                let value = option.kind.parse(&text).map_err(wrong)?;
                read.layer.set(option.key, value);
            }
        }
    }
    if !binds.is_empty() {
        read.layer.set("bind", Value::List(binds));
    }
    Ok(read)
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, true) => plain.push(match rest.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            (c, false) => plain.push(c),
        }
    }
    plain
}

/// How Ruby ended, and the settings it told or, if it failed, what it printed.
fn run(path: &Path, shown: &str, asking: &PumaScript) -> Result<(ExitStatus, String), String> {
    let ruby = asking.ruby.display();
    let mut env = unix_user::env(&asking.run_as);
    if let Some(environment) = asking.environment {
        env.extend(["RAILS_ENV", "RACK_ENV", "APP_ENV"].map(|name| (name.into(), environment.into())));
    }
    let mut command = unix_user::command(&asking.run_as, asking.ruby, asking.dir, env);
    command.args(["-", "--dump"]).arg(path).arg(asking.environment.unwrap_or(""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|why| match why.kind() {
        ErrorKind::NotFound => {
            format!("{ruby}: not found, but {shown} needs Ruby; install Ruby, name it with --ruby, or skip the file with -C -")
        }
        _ => format!("{ruby}: cannot be run to read {shown}: {why}"),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A Ruby that ends before it has read everything tells why by its status.
        let _ = stdin.write_all(SCRIPT.as_bytes());
    }
    let (out, errors) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < LIMIT => thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{shown}: not read after {} s; remove code from it that waits", LIMIT.as_secs()));
            }
            Err(why) => return Err(format!("{shown}: {why}")),
        }
    };
    let text = if status.success() { heard(&out, Some(END)) } else { heard(&errors, None) };
    Ok((status, text))
}

/// What comes from `pipe`, in parts as they come.
fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = vec![0; 4096];
        while let Ok(read) = pipe.read(&mut bytes) {
            if read == 0 || to.send(bytes[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    from
}

/// All that came up to the end, or up to `last`.
fn heard(from: &mpsc::Receiver<Vec<u8>>, last: Option<char>) -> String {
    let mut bytes = Vec::new();
    while last.is_none_or(|last| bytes.last() != Some(&(last as u8))) {
        let Ok(part) = from.recv_timeout(LAST_WORDS) else { break };
        bytes.extend(part);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_with_a_place_of_its_own_is_told_where() {
        let read = understood("ignored\tplugin :solid_queue\nignored\tplugin :x", "config/puma.rb").ok().unwrap();
        assert!(read.notices[0].contains("[[process]] command = \"bin/jobs\""), "{:?}", read.notices);
        assert_eq!(read.notices[1], "config/puma.rb: plugin :x is ignored");
    }
}
