//! Areas of a site: paths with exceptions, each of which has a path if any reading of it is one of the area's. Letter case never leads
//! out of an area, and an area has what applications and file servers answer in the same way.

use std::collections::BTreeSet;

use crate::{pattern_set::PatternSet, readings::Readings};

/// The paths of an area, as settings have them.
#[derive(Debug, Clone, Copy)]
pub struct Paths<'a> {
    pub paths: &'a [String],
    /// Of these the ones that are not in it.
    pub except: &'a [String],
}

/// Areas by number, from 0 in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub struct Areas {
    paths: Owned,
    except: Owned,
}

/// Patterns, and whose each of them is.
#[derive(Debug, Clone, Default)]
struct Owned {
    patterns: PatternSet,
    owners: Vec<usize>,
}

impl Owned {
    fn new(all: impl Iterator<Item = (usize, String)>) -> Owned {
        let (owners, patterns): (Vec<usize>, Vec<String>) = all.unzip();
        Owned { patterns: PatternSet::new(patterns), owners }
    }

    /// Ascending, each once.
    fn covering(&self, text: &[u8]) -> Vec<usize> {
        let mut owners: Vec<usize> = self.patterns.matching(text).into_iter().map(|at| self.owners[at]).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

impl Areas {
    pub fn new<'a>(all: impl IntoIterator<Item = Paths<'a>>) -> Areas {
        let all: Vec<Paths<'a>> = all.into_iter().collect();
        let numbered = || all.iter().enumerate();
        let paths = numbered().flat_map(|(at, area)| area.paths.iter().flat_map(move |path| kin(at, path)));
        let except = numbered().flat_map(|(at, area)| area.except.iter().map(move |path| (at, path.clone())));
        Areas { paths: Owned::new(paths), except: Owned::new(except) }
    }

    /// The areas that have one of the readings: of each reading the first one. Ascending, each once.
    pub fn first_of_each(&self, readings: &Readings<'_>) -> Vec<usize> {
        let first = readings.all().filter_map(|reading| self.covering(reading).first().copied());
        first.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The areas that have one of the readings. Ascending, each once.
    pub fn of(&self, readings: &Readings<'_>) -> Vec<usize> {
        readings.all().flat_map(|reading| self.covering(reading)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Those that have this reading of a path.
    fn covering(&self, reading: &[u8]) -> Vec<usize> {
        let mut covering = self.paths.covering(&reading.to_ascii_lowercase());
        if !covering.is_empty() {
            let except = self.except.covering(reading);
            covering.retain(|area| except.binary_search(area).is_err());
        }
        covering
    }
}

fn kin(area: usize, path: &str) -> impl Iterator<Item = (usize, String)> {
    with_kin(path).into_iter().map(move |path| (area, path))
}

/// The pattern in small letters, and what applications and file servers answer in the same way: `/a.json`, `/a/` and
/// `/a/index.html` for `/a`, and all of these for each of them.
pub(crate) fn with_kin(path: &str) -> BTreeSet<String> {
    let path = path.to_ascii_lowercase();
    let mut all = BTreeSet::from([path.clone()]);
    if path.ends_with('*') {
        // The folder itself is in it, and a file beside it may answer for the folder.
        let folder = path.strip_suffix("/*").filter(|folder| !folder.is_empty());
        all.extend(folder.into_iter().flat_map(|folder| [folder.to_owned(), format!("{folder}.*")]));
        return all;
    }
    let whole = path.trim_end_matches('/');
    let stem = whole.strip_suffix(".html").unwrap_or(whole);
    for stem in [Some(stem), stem.strip_suffix("/index")].into_iter().flatten() {
        all.extend(["", "/", ".*", "/index", "/index/", "/index.*"].map(|end| format!("{stem}{end}")));
    }
    all
}
