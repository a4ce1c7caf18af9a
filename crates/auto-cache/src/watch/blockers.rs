//! Which lines keep pages out, over all routes, and what would come of it if they did not: a page is kept only if none of its lines is left.
//! Bounded. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::made::Refusals;

/// Different sets of lines that are told apart.
const MAX_SETS: usize = 1000;
/// Lines that are named.
const MAX_STEPS: usize = 5;

/// Counts refused pages by all the lines that refuse them.
#[derive(Debug, Default)]
pub struct Blockers {
    sets: BTreeMap<BTreeSet<String>, u64>,
}

/// A line, or a reason without one, in the order in which it is best removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    pub line: String,
    /// Pages that it refuses, alone or with others.
    pub refused: u64,
    /// Pages that are kept in addition without this line and those before it.
    pub freed: u64,
}

impl Blockers {
    pub(super) fn count(&mut self, refusals: &Refusals) {
        let line = |at: &str, why: &str| if at.is_empty() { why.to_owned() } else { at.to_owned() };
        let lines: BTreeSet<String> = refusals.all().map(|refusal| line(&refusal.at, &refusal.why)).collect();
        if self.sets.len() < MAX_SETS || self.sets.contains_key(&lines) {
            *self.sets.entry(lines).or_default() += 1;
        }
    }

    /// Each time the line whose removal frees the most pages; or, if none does alone, the one that refuses the most.
    pub fn best_first(&self) -> Vec<Blocker> {
        let mut left: Vec<(BTreeSet<&str>, u64)> =
            self.sets.iter().map(|(lines, count)| (lines.iter().map(String::as_str).collect(), *count)).collect();
        let mut steps = Vec::new();
        let mut freed = 0;
        while steps.len() < MAX_STEPS && !left.is_empty() {
            let mut lines: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
            for (set, count) in &left {
                for line in set {
                    let (alone, all) = lines.entry(line).or_default();
                    *all += count;
                    *alone += if set.len() == 1 { *count } else { 0 };
                }
            }
            let Some((line, (alone, _))) = lines.into_iter().max_by_key(|(_, counts)| *counts) else { break };
            freed += alone;
            let of_line = self.sets.iter().filter(|(set, _)| set.contains(line));
            steps.push(Blocker { line: line.to_owned(), refused: of_line.map(|(_, count)| count).sum(), freed });
            left.retain_mut(|(set, _)| {
                set.remove(line);
                !set.is_empty()
            });
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::{super::made::Refusal, *};

    fn counted(sets: &[(&[&str], u64)]) -> Vec<(String, u64, u64)> {
        let mut blockers = Blockers::default();
        for (lines, count) in sets {
            let refusals: Vec<Refusal> = lines.iter().map(|line| Refusal::at("reads Time.now", line)).collect();
            (0..*count).for_each(|_| blockers.count(&Refusals::of(refusals.clone()).unwrap()));
        }
        let steps = blockers.best_first().into_iter();
        steps.map(|step| (step.line, step.refused, step.freed)).collect()
    }

    #[test]
    fn a_page_needs_all_its_lines_removed() {
        let found = counted(&[(&["a:1"], 12), (&["a:1", "b:2"], 46), (&["c:3", "d:4"], 3)]);
        let expected = [("a:1", 58, 12), ("b:2", 46, 58), ("d:4", 3, 58), ("c:3", 3, 61)];
        assert_eq!(found, expected.map(|(line, refused, freed)| (line.to_owned(), refused, freed)));
        assert_eq!(counted(&[]), []);
        assert_eq!(counted(&[(&[""], 1)]), [("reads Time.now".to_owned(), 1, 1)]);
    }

    #[test]
    fn a_line_that_frees_pages_comes_before_one_that_refuses_more() {
        let found = counted(&[(&["a:1", "b:2"], 100), (&["c:3"], 1)]);
        assert_eq!(found[0], ("c:3".to_owned(), 1, 1));
    }
}
