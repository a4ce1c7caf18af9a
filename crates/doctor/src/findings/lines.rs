//! A line of the application in which much of the time passes, by the profile, and which does what need not be done in
//! each request. What a page is for (queries, rendering, JSON) is no finding here, and no line is that another rule
//! explains.

use super::{of, shown, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Kind, Trial},
    observation::Observations,
    profile::{Profile, ProfiledLine},
    units,
};

/// The line takes this part of the request and this many microseconds, at least.
const PART: f64 = 0.2;
const LEAST_US: f64 = 1_000.0;
/// Another cause with at least this part of the line's time is taken for the same one.
const EXPLAINED: f64 = 0.5;

/// Work that a line has others do. Its place in this list is of no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Parsing,
    Loading,
    Sleeping,
    Copying,
    Matching,
    Raising,
    Starting,
    Locking,
    Searching,
    Hashing,
    Compiling,
    Listing,
    ReadingTimes,
}

impl Work {
    /// What the line does, and what to do instead.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Work::Parsing => ("it parses in each request", "parse it once and keep the result, as in a constant"),
            Work::Loading => ("it loads code in each request", "load it when the application starts"),
            Work::Sleeping => ("it sleeps", "don't sleep in a request: leave it to a job"),
            Work::Copying => ("it copies by Marshal", "copy less, or freeze what is shared"),
            Work::Matching => ("it matches a regular expression", "a pattern that can't backtrack, or a plain search"),
            Work::Raising => ("it raises exceptions", "ask before instead of raising and rescuing"),
            Work::Starting => ("it runs a program", "do it in a job, or once"),
            Work::Locking => ("it waits for a lock", "hold the lock for less, or don't share it"),
            Work::Searching => ("it searches a list from its start", "a Set or a Hash instead of the Array"),
            Work::Hashing => ("it computes a password's hash", "do it once, when the password is given"),
            Work::Compiling => ("it compiles a template in each request", "compile the template once"),
            Work::Listing => ("it reads folders or files in each request", "read them once and keep the result"),
            Work::ReadingTimes => ("it reads times from text", "keep times as such, or read them once"),
        }
    }

    fn of(line: &ProfiledLine) -> Option<Work> {
        Work::named(&line.call).or_else(|| Work::named(&line.leaf))
    }

    /// By a method and its library, as `load_file (psych)` or, from Ruby 3.4 on, `Psych.load_file (psych)`. Without a
    /// library: Ruby's own.
    fn named(name: &str) -> Option<Work> {
        let (full, library) = match name.split_once(" (") {
            Some((full, library)) => (full, library.trim_end_matches(')')),
            None => (name, ""),
        };
        let method = full.rsplit(['#', '.']).next().unwrap_or(full);
        let is = |methods: &[&str]| methods.contains(&method);
        let in_one = |libraries: &[&str]| libraries.contains(&library);
        let reads = method.starts_with("load")
            || method.starts_with("safe_load")
            || is(&["parse", "parse!", "read", "foreach", "unsafe_load", "parse_file"]);
        match () {
            () if reads
                && in_one(&[
                    "psych", "yaml", "json", "csv", "rexml", "nokogiri", "ox", "oj", "toml", "tomlrb", "plist",
                ]) =>
            {
                Some(Work::Parsing)
            }
            () if is(&["strptime", "_parse", "_strptime", "iso8601"])
                || is(&["parse"]) && in_one(&["time", "date"]) =>
            {
                Some(Work::ReadingTimes)
            }
            () if is(&["load", "dump"]) && (in_one(&["marshal"]) || full.starts_with("Marshal.")) => {
                Some(Work::Copying)
            }
            () if is(&["require", "require_relative", "require_dependency"])
                || is(&["load"]) && in_one(&["", "bootsnap", "zeitwerk"]) =>
            {
                Some(Work::Loading)
            }
            () if is(&["hash_secret", "engine_hash", "__bc_crypt", "pbkdf2_hmac", "scrypt"]) || in_one(&["bcrypt"]) => {
                Some(Work::Hashing)
            }
            () if is(&["initialize", "new", "compile"])
                && in_one(&["erb", "erubi", "haml", "slim", "temple", "tilt"]) =>
            {
                Some(Work::Compiling)
            }
            () if is(&["capture2", "capture2e", "capture3", "popen3"])
                || is(&["`", "system", "spawn", "popen"]) && library.is_empty() =>
            {
                Some(Work::Starting)
            }
            () if is(&["synchronize", "lock"]) || is(&["wait", "pop"]) && in_one(&["", "monitor"]) => {
                Some(Work::Locking)
            }
            () if !library.is_empty() => None,
            () if is(&["sleep"]) => Some(Work::Sleeping),
            () if is(&["=~", "!~", "match", "match?", "scan", "gsub", "gsub!", "sub", "sub!"]) => Some(Work::Matching),
            () if is(&["raise", "exception", "set_backtrace", "backtrace", "full_message"]) => Some(Work::Raising),
            () if is(&["include?", "member?", "index", "find_index", "rindex"]) => Some(Work::Searching),
            () if is(&["glob", "children", "entries", "each_child", "readlines", "binread"])
                || full == "File.read"
                || full == "IO.read" =>
            {
                Some(Work::Listing)
            }
            () => None,
        }
    }
}

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    let own: Vec<_> = Look::all(observations).iter().filter_map(|look| line(observations, look, found)).collect();
    found.extend(own);
}

fn line(observations: &Observations, look: &Look, found: &[WeighedCandidate]) -> Option<WeighedCandidate> {
    let profile = Profile::of(look.route);
    let reloads = observations.facts.cache_classes == Some(false);
    let sort = |line: &ProfiledLine| {
        let work = Work::of(line).filter(|work| !(reloads && *work == Work::Loading));
        work.filter(|_| !line.at.is_empty())
    };
    let (line, work, part) = profile.greatest(sort)?;
    let us = part * look.wall_us;
    if part < PART || us < LEAST_US || found.iter().any(|other| explains(&other.candidate, look, line, us)) {
        return None;
    }
    let (what, instead) = work.words();
    let (part, whole) = (units::bare_millis(us), units::millis(look.wall_us));
    let sentence = format!("{part} of {whole} pass in one line: {what}, by {}", line.call);
    let why = format!("{} readings of the stack", profile.readings);
    let fix = shown("", instead, "only its author knows what the line is for");
    let candidate = of(look.route, Kind::SlowLine, sentence, fix, Trial::Computed { gain_us: us, why });
    Some(look.found(Candidate {
        at: line.at.clone(),
        short: format!("the line {}", line.at),
        ceiling_us: us,
        ..candidate
    }))
}

/// Whether another rule has found the line, or what takes most of its time. A page cache would explain everything.
fn explains(other: &Candidate, look: &Look, line: &ProfiledLine, us: f64) -> bool {
    let is_cache = matches!(other.kind, Kind::CacheHeaders | Kind::CacheVary | Kind::CacheCookie);
    let is_of_route = other.routes.is_empty() || other.routes.contains(&look.route.route);
    !is_cache && is_of_route && (other.at == line.at || other.ceiling_us >= us * EXPLAINED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_known_by_its_method_on_each_ruby() {
        for (name, work) in [
            ("load_file (psych)", Some(Work::Parsing)),
            ("Psych.load_file (psych)", Some(Work::Parsing)),
            ("JSON.parse (json)", Some(Work::Parsing)),
            ("generate (json)", None),
            ("sleep", Some(Work::Sleeping)),
            ("Kernel#sleep", Some(Work::Sleeping)),
            ("String#gsub", Some(Work::Matching)),
            ("gsub (rouge)", None),
            ("load (marshal)", Some(Work::Copying)),
            ("load", Some(Work::Loading)),
            ("require (rubygems)", Some(Work::Loading)),
            ("initialize (erb)", Some(Work::Compiling)),
            ("Open3.capture2 (open3)", Some(Work::Starting)),
            ("Monitor#synchronize", Some(Work::Locking)),
            ("Array#include?", Some(Work::Searching)),
            ("step (sqlite3)", None),
            ("strptime", Some(Work::ReadingTimes)),
            ("", None),
        ] {
            assert_eq!(Work::named(name), work, "{name}");
        }
    }
}
