//! Where a request spends its time, by the application's lines: what a shadow has read of its thread's stack. It only adds
//! up; what a line should do instead is said in `findings`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observation::RouteObservation;

/// Fewer readings say nothing.
pub const LEAST_READINGS: u64 = 20;

/// Of one request, or of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// How often the stack was read.
    pub readings: u64,
    /// Microseconds that they stand for.
    pub total_us: f64,
    pub lines: Vec<ProfiledLine>,
}

/// A line, and what it was waiting for or computing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfiledLine {
    /// `path:line` below the root; empty: no line of the application was on the stack.
    pub at: String,
    /// The method that the line calls, with its library, as `load_file (psych)`; empty: none, the line computes by itself.
    pub call: String,
    /// What ran in the end, likewise.
    pub leaf: String,
    /// The class of the middleware in whose own work it is; empty: it is in the application behind all of them. None: that
    /// is not known.
    pub middleware: Option<String>,
    /// Microseconds.
    pub us: f64,
}

impl Profile {
    /// Of all requests of a route.
    pub(crate) fn of(route: &RouteObservation) -> Profile {
        let mut all = Profile::default();
        route.requests.iter().for_each(|request| all.add(request.profile.clone()));
        all
    }

    pub fn add(&mut self, other: Profile) {
        self.readings += other.readings;
        self.total_us += other.total_us;
        self.lines.extend(other.lines);
    }

    /// The line of the application that takes most: its place, what it calls for most of that, and its part of the time
    /// (0 to 1). None: there is none, or too little was read.
    pub(crate) fn most(&self) -> Option<(&str, &str, f64)> {
        self.greatest(|line| (!line.at.is_empty()).then_some(()))
            .map(|(line, (), part)| (line.at.as_str(), line.call.as_str(), part))
    }

    /// The part of the time that a line takes, whatever it calls.
    pub(crate) fn part_at(&self, at: &str) -> f64 {
        if self.readings < LEAST_READINGS || self.total_us <= 0.0 || at.is_empty() {
            return 0.0;
        }
        self.lines.iter().filter(|line| line.at == at).map(|line| line.us).sum::<f64>() / self.total_us
    }

    /// Of the lines that `sort` knows, by place and sort, those that take most: the one of its entries with most time, and
    /// the part of the time that all of them take.
    pub(crate) fn greatest<S: Ord>(
        &self,
        sort: impl Fn(&ProfiledLine) -> Option<S>,
    ) -> Option<(&ProfiledLine, S, f64)> {
        self.ranked(sort).into_iter().next()
    }

    /// As `greatest`, all of them, those that take most first.
    pub(crate) fn ranked<S: Ord>(&self, sort: impl Fn(&ProfiledLine) -> Option<S>) -> Vec<(&ProfiledLine, S, f64)> {
        if self.readings < LEAST_READINGS || self.total_us <= 0.0 {
            return Vec::new();
        }
        let mut groups: BTreeMap<(&str, S), (f64, &ProfiledLine)> = BTreeMap::new();
        for line in &self.lines {
            let Some(sort) = sort(line) else { continue };
            let (us, first) = groups.entry((&line.at, sort)).or_insert((0.0, line));
            *us += line.us;
            if line.us > first.us {
                *first = line;
            }
        }
        let all = groups.into_iter().map(|((_, sort), (us, line))| (line, sort, us / self.total_us));
        let mut all: Vec<_> = all.collect();
        all.sort_by(|(.., one), (.., other)| other.total_cmp(one));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &str, call: &str, us: f64) -> ProfiledLine {
        ProfiledLine { at: at.into(), call: call.into(), leaf: call.into(), us, ..ProfiledLine::default() }
    }

    #[test]
    fn times_of_a_line_add_up_over_replays() {
        let of = |lines| Profile { readings: 15, total_us: 100.0, lines };
        let mut profile = of(vec![line("app/a.rb:1", "sort", 40.0), line("app/b.rb:2", "load_file (psych)", 30.0)]);
        assert_eq!(profile.most(), None, "too few readings");
        profile.add(of(vec![line("", "write (puma)", 50.0), line("app/b.rb:2", "safe_load (psych)", 45.0)]));
        assert_eq!(profile.most(), Some(("app/b.rb:2", "safe_load (psych)", 0.375)));
        assert_eq!(
            [profile.part_at("app/a.rb:1"), profile.part_at("app/c.rb:1"), profile.part_at("")],
            [0.2, 0.0, 0.0]
        );
    }
}
