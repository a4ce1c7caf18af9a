//! A line of the application in which much of the time passes, by the profile, and which does what need not be done in
//! each request, or computes for so long that it is most of what a page takes. What a page is for (queries, rendering,
//! JSON) is no finding here, and no line is that another rule explains.

use super::{of, shown, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Kind, Trial},
    observation::Observations,
    profile::{Profile, ProfiledLine},
    protocol::Patch,
    units,
};

/// The line takes this part of the request and this many microseconds, at least.
const PART: f64 = 0.2;
const LEAST_US: f64 = 1_000.0;
/// A line that only computes must take this much: little of that can be said without knowing what it is for.
const COMPUTING_PART: f64 = 0.4;
const COMPUTING_US: f64 = 2_000.0;
/// Another cause with at least this part of the line's time is taken for the same one.
const EXPLAINED: f64 = 0.5;
/// A call with this part of its line's time stands for the line. Of a line that does more beside it, as one that makes a
/// template and then renders it, all may be spared.
const NEARLY_ALL: f64 = 0.9;

/// A line that raises so many exceptions in a request spends its time on that, if nothing else is known of what it does.
const RAISED: u64 = 50;

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
    /// None of these: Ruby's own methods, and libraries that only compute.
    Computing,
}

/// Libraries that neither wait nor render.
const COMPUTING: [&str; 12] = [
    "base64",
    "bigdecimal",
    "date",
    "digest",
    "matrix",
    "openssl",
    "prime",
    "securerandom",
    "set",
    "strscan",
    "time",
    "zlib",
];
/// Ruby's own methods that wait, or that run what others have written.
const NOT_COMPUTING: [&str; 24] = [
    "accept",
    "connect",
    "eval",
    "getaddrinfo",
    "gets",
    "instance_eval",
    "join",
    "read",
    "read_nonblock",
    "readline",
    "readpartial",
    "recv",
    "recv_nonblock",
    "select",
    "sysread",
    "syswrite",
    "value",
    "wait",
    "wait_for_single_fd",
    "wait_readable",
    "wait_writable",
    "write",
    "write_nonblock",
    "waitpid",
];

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
            Work::Computing => {
                ("it computes in each request", "compute it once and keep the result, or with less work")
            }
        }
    }

    /// A call whose result alone counts: it can be given without the call. Others set something else (`$~`, `$?`, an object), or
    /// are called so often that giving it takes as long.
    fn may_be_left_out(self, method: &str) -> bool {
        let sets_more = ["initialize", "`", "system", "spawn", "popen", "popen3"].contains(&method);
        let is_one_call = matches!(
            self,
            Work::Parsing
                | Work::Sleeping
                | Work::Copying
                | Work::Starting
                | Work::Hashing
                | Work::Compiling
                | Work::Listing
                | Work::ReadingTimes
        );
        is_one_call && !sets_more
    }

    fn of(line: &ProfiledLine) -> Option<Work> {
        Work::named(&line.call).or_else(|| Work::named(&line.leaf))
    }

    /// What the line calls and what that ends in are Ruby's own, or the line computes by itself.
    fn is_computing(line: &ProfiledLine) -> bool {
        let is_own = |name: &str| match name.split_once(" (") {
            Some((_, library)) => COMPUTING.contains(&library.trim_end_matches(')')),
            None => !NOT_COMPUTING.contains(&method(name)),
        };
        is_own(&line.call) && is_own(&line.leaf)
    }

    /// It takes enough of the request to be said.
    fn is_notable(self, part: f64, us: f64) -> bool {
        let (least_part, least_us) = match self {
            Work::Computing => (COMPUTING_PART, COMPUTING_US),
            _ => (PART, LEAST_US),
        };
        part >= least_part && us >= least_us
    }

    /// By a method and its library, as `load_file (psych)` or, from Ruby 3.4 on, `Psych.load_file (psych)`. Without a
    /// library: Ruby's own.
    fn named(name: &str) -> Option<Work> {
        let (full, library) = match name.split_once(" (") {
            Some((full, library)) => (full, library.trim_end_matches(')')),
            None => (name, ""),
        };
        let method = method(name);
        let is = |methods: &[&str]| methods.contains(&method);
        let in_one = |libraries: &[&str]| libraries.contains(&library);
        let begins = |with: &[&str]| with.iter().any(|start| method.starts_with(start));
        // As `REXML::Document.new(text)`, `CSV.table(path)` and `Nokogiri::XML(text)`.
        let reads = begins(&["load", "safe_load", "unsafe_load", "parse", "read", "HTML", "XML"])
            || is(&["foreach", "fragment", "initialize", "new", "table"]);
        match () {
            () if reads
                && in_one(&[
                    "psych", "yaml", "json", "csv", "rexml", "nokogiri", "ox", "oj", "toml", "tomlrb", "plist",
                ]) =>
            {
                Some(Work::Parsing)
            }
            () if is(&["strptime", "_parse", "_strptime", "iso8601"])
                || is(&["parse"]) && in_one(&["time", "date"])
                || ["Date.parse", "DateTime.parse"].contains(&full) =>
            {
                Some(Work::ReadingTimes)
            }
            // Other libraries' `dump` is in Ruby, and named with them.
            () if is(&["load", "dump"]) && (in_one(&["marshal"]) || full.starts_with("Marshal.")) || name == "dump" => {
                Some(Work::Copying)
            }
            () if is(&["require", "require_relative", "require_dependency"])
                || is(&["load"]) && in_one(&["", "activesupport", "bootsnap", "zeitwerk"]) =>
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
            () if is(&["parse"]) => Some(Work::Parsing),
            () if is(&["=~", "!~", "match", "match?", "scan", "gsub", "gsub!", "sub", "sub!"]) => Some(Work::Matching),
            () if is(&["raise", "exception", "set_backtrace", "backtrace", "full_message"]) => Some(Work::Raising),
            () if is(&["include?", "member?", "index", "find_index", "rindex"]) => Some(Work::Searching),
            () if is(&["glob", "children", "entries", "each_child", "read", "readlines", "binread"]) => {
                Some(Work::Listing)
            }
            () => None,
        }
    }
}

/// Exceptions of a line, in the request that has most of them.
fn raised(look: &Look, at: &str) -> u64 {
    let all = look.route.requests.iter().flat_map(|request| &request.evidence.raised);
    all.filter(|one| one.at == at).map(|one| one.count).max().unwrap_or(0)
}

/// Without its class and its library.
fn method(name: &str) -> &str {
    let full = name.split_once(" (").map_or(name, |(full, _)| full);
    full.rsplit(['#', '.']).next().unwrap_or(full)
}

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    let own: Vec<_> = Look::all(observations).iter().filter_map(|look| line(observations, look, found)).collect();
    found.extend(own);
}

fn line(observations: &Observations, look: &Look, found: &[WeighedCandidate]) -> Option<WeighedCandidate> {
    let profile = Profile::of(look.route);
    let reloads = observations.facts.cache_classes == Some(false);
    let known = |line: &ProfiledLine| {
        let work = Work::of(line).filter(|work| !(reloads && *work == Work::Loading));
        // It reads what the program says that it has started.
        let starts = |other: &ProfiledLine| other.at == line.at && Work::of(other) == Some(Work::Starting);
        let work = match work {
            Some(Work::Listing) if profile.lines.iter().any(starts) => Some(Work::Starting),
            None if raised(look, &line.at) >= RAISED => Some(Work::Raising),
            work => work,
        };
        work.filter(|_| !line.at.is_empty())
    };
    // Of a line that also does what is known (it sorts what it matches), all of it counts.
    let computing = |line: &ProfiledLine| {
        let is_one = match Work::of(line) {
            Some(_) => known(line).is_some(),
            None => !line.at.is_empty() && Work::is_computing(line),
        };
        is_one.then_some(Work::Computing)
    };
    // What another rule has found counts for nothing: a slow middleware hides no line behind it.
    let first = |ranked: Vec<(&'_ ProfiledLine, Work, f64)>| {
        let is_explained = |line: &ProfiledLine, part: f64| {
            found.iter().any(|other| explains(&other.candidate, look, line, part * look.wall_us))
        };
        let (explained, own): (Vec<_>, Vec<_>) =
            ranked.into_iter().partition(|(line, _, part)| is_explained(line, *part));
        let left = 1.0 - explained.iter().map(|(.., part)| part).sum::<f64>();
        let notable = own.into_iter().find(|(_, work, part)| work.is_notable(part / left, part * look.wall_us));
        notable.map(|(line, work, part)| candidate(look, &profile, line, work, part))
    };
    first(profile.ranked(known)).or_else(|| first(profile.ranked(computing)))
}

fn candidate(look: &Look, profile: &Profile, line: &ProfiledLine, work: Work, part: f64) -> WeighedCandidate {
    let (what, instead) = work.words();
    let whole_part = profile.part_at(&line.at);
    let is_nearly_all = part >= whole_part * NEARLY_ALL;
    let us = whole_part * look.wall_us;
    let (part, whole) = (units::bare_millis(us), units::millis(look.wall_us));
    let by = if line.call.is_empty() { String::new() } else { format!(", by {}", line.call) };
    let sentence = format!("{part} of {whole} pass in one line: {what}{by}");
    let fix = shown("", instead, "only its author knows what the line is for");
    let method = method(&line.call);
    let is_call = is_nearly_all && Work::named(&line.call) == Some(work) && work.may_be_left_out(method);
    // The method around a line that computes by itself, or in a block. If that does more than the line, its gain is
    // none of the line (`verdict`).
    let (short, patch) = if is_call {
        (format!("the line {}", line.at), Patch::named("free_line").with("at", line.at.as_str()).with("method", method))
    } else {
        (format!("the method around {}", line.at), Patch::named("free_method").with("at", line.at.as_str()))
    };
    let candidate = of(look.route, Kind::SlowLine, sentence, fix, Trial::WhatIf { trial: vec![patch] });
    look.found(Candidate { at: line.at.clone(), short, ceiling_us: us, ..candidate })
}

/// Whether another rule has found the line, or what takes most of its time. A page cache would explain everything, and a
/// setting of Ruby or of the server makes any line quicker.
fn explains(other: &Candidate, look: &Look, line: &ProfiledLine, us: f64) -> bool {
    let is_cache = matches!(other.kind, Kind::CacheHeaders | Kind::CacheVary | Kind::CacheCookie);
    let is_of_route = other.routes.is_empty() || other.routes.contains(&look.route.route);
    // What a middleware takes is without the application behind it.
    let is_apart = other.kind == Kind::SlowMiddleware
        && match &line.middleware {
            Some(name) => *name != other.subject,
            None => other.ceiling_us + us <= look.wall_us,
        };
    let is_as_much = other.ceiling_us >= us * EXPLAINED && !is_apart;
    !is_cache && !other.trial.is_slow() && is_of_route && (other.at == line.at || is_as_much)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_is_ruby_alone() {
        let line = |call: &str, leaf: &str| ProfiledLine { call: call.into(), leaf: leaf.into(), ..Default::default() };
        for (call, leaf, is_one) in [
            ("sort_by", "downcase", true),
            ("", "", true),
            ("hexdigest (digest)", "Digest::Instance#hexdigest", true),
            ("each", "step (sqlite3)", false),
            ("render (actionview)", "concat", false),
            ("map", "IO#read", false),
            ("Thread#value", "Thread#value", false),
        ] {
            assert_eq!(Work::is_computing(&line(call, leaf)), is_one, "{call} {leaf}");
        }
    }

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
            ("dump", Some(Work::Copying)),
            ("dump (json)", None),
            ("load", Some(Work::Loading)),
            ("require (rubygems)", Some(Work::Loading)),
            ("initialize (erb)", Some(Work::Compiling)),
            ("Open3.capture2 (open3)", Some(Work::Starting)),
            ("Monitor#synchronize", Some(Work::Locking)),
            ("load (activesupport)", Some(Work::Loading)),
            ("read", Some(Work::Listing)),
            ("File.read", Some(Work::Listing)),
            ("read (net)", None),
            ("raise", Some(Work::Raising)),
            ("parse", Some(Work::Parsing)),
            ("initialize (rexml)", Some(Work::Parsing)),
            ("table (csv)", Some(Work::Parsing)),
            ("elements (rexml)", None),
            ("DateTime.parse", Some(Work::ReadingTimes)),
            ("Array#include?", Some(Work::Searching)),
            ("step (sqlite3)", None),
            ("strptime", Some(Work::ReadingTimes)),
            ("", None),
        ] {
            assert_eq!(Work::named(name), work, "{name}");
        }
    }
}
