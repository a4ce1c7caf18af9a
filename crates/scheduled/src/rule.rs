//! `[[scheduled]]`: which pages change, when, and how long before they are prepared.
//! It never prepares one.

use crate::{
    when::{When, WhenError},
    Millis,
};

/// Without `prepare`.
pub const PREPARE: Millis = 600_000;

/// One `[[scheduled]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Paths with `*` for anything, slashes included. Query strings are not looked at.
    pub paths: Vec<String>,
    pub when: When,
    pub prepare: Millis,
}

impl Rule {
    /// # Errors
    /// What of `at` is not understood.
    pub fn new(paths: Vec<String>, at: &str, prepare: Millis) -> Result<Rule, WhenError> {
        Ok(Rule { paths, when: When::parse(at)?, prepare })
    }

    pub fn covers(&self, path: &str) -> bool {
        self.paths.iter().any(|pattern| path_patterns::matches(pattern, path))
    }

    /// Paths that are one page each: they are known before anybody has visited them.
    pub fn plain_paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str).filter(|path| !path.contains('*'))
    }
}

/// The first time after `now` at which a page of this path changes by the rules, and how long before it is prepared.
pub fn next(rules: &[Rule], path: &str, now: Millis) -> Option<(Millis, Millis)> {
    let covering = rules.iter().filter(|rule| rule.covers(path));
    covering.filter_map(|rule| Some((rule.when.next_after(now)?, rule.prepare))).min()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::when::tests::at;

    #[test]
    fn the_first_of_several() {
        let rule = |path: &str, at: &str, prepare| Rule::new(vec![path.into()], at, prepare).unwrap();
        let rules =
            [rule("/", "daily 12:00 UTC", 60_000), rule("/*", "hourly :30 UTC", 1), rule("/x", "daily 09:00 UTC", 2)];
        let now = at("2026-11-25T11:45:00Z");
        assert_eq!(next(&rules, "/", now), Some((at("2026-11-25T12:00:00Z"), 60_000)));
        assert_eq!(next(&rules, "/sales/1", now), Some((at("2026-11-25T12:30:00Z"), 1)));
        assert_eq!(next(&rules[..1], "/sales", now), None);
        assert_eq!(rules.iter().flat_map(Rule::plain_paths).collect::<Vec<_>>(), ["/", "/x"]);
    }
}
