//! Settings of processes that self-tuning may change (`tune`): which there are, and a site's settings with and without
//! them. It never decides that one is worth it.

use std::fmt;

use doctor::candidate::Kind;
use serde::{Deserialize, Serialize};

use super::{layer::View, SiteConfig, Value, ValueError};

/// More threads of a worker are never tuned.
const MAX_THREADS: usize = 32;

/// What may be tuned: its word in `tune_kinds`, the finding of `paceline doctor`, and the settings by which somebody decides
/// about it.
const KINDS: [(&str, Kind, &[&str]); 4] = [
    ("yjit", Kind::Yjit, &["yjit"]),
    ("gc", Kind::GcSettings, &[]),
    ("threads", Kind::TooFewThreads, &["threads"]),
    ("allocator", Kind::Allocator, &["allocator", "malloc_arenas"]),
];
/// Where nothing is said. More threads ask more of an application, and another allocator may be wrong for a library in C:
/// somebody has to want them.
const BY_DEFAULT: [&str; 2] = ["yjit", "gc"];

/// A word of `tune_kinds`.
pub(super) fn check(word: &str) -> Result<(), ValueError> {
    let is_known = KINDS.iter().any(|(known, ..)| *known == word);
    is_known.then_some(()).ok_or_else(|| ValueError::mismatch("some of yjit, gc, threads and allocator", word))
}

/// What may be tried, and is not set.
pub(super) fn kinds(view: &View) -> Vec<Kind> {
    let is_wanted = |word: &str| match view.given("tune_kinds") {
        Some(Value::List(words)) => words.iter().any(|wanted| wanted == word),
        _ => BY_DEFAULT.contains(&word),
    };
    let is_unset = |keys: &[&str]| keys.iter().all(|key| view.given(key).is_none());
    KINDS.iter().filter(|(word, _, keys)| is_wanted(word) && is_unset(keys)).map(|(_, kind, _)| *kind).collect()
}

/// Settings in place of a site's own. Empty: there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TunedSettings {
    /// Threads of a worker: so many side by side in any case, and so many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<(usize, usize)>,
    /// Memory is given out by jemalloc.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub jemalloc: bool,
}

impl TunedSettings {
    /// Of a line of paceline.toml, as `paceline doctor` writes it. None: it is none that may be tuned.
    pub fn parse(line: &str) -> Option<TunedSettings> {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().trim_matches('"');
        let parsed = match (key.trim(), value) {
            ("allocator", "jemalloc") => TunedSettings { jemalloc: true, ..TunedSettings::default() },
            ("threads", _) => {
                let (min, max) = value.split_once(':').unwrap_or(("1", value));
                TunedSettings { threads: Some((min.parse().ok()?, max.parse().ok()?)), ..TunedSettings::default() }
            }
            _ => return None,
        };
        parsed.is_valid().then_some(parsed)
    }

    /// What comes from a file is held to the same bounds.
    pub fn is_valid(&self) -> bool {
        self.threads.is_none_or(|(min, max)| 1 <= min && min <= max && (2..=MAX_THREADS).contains(&max))
    }

    pub fn is_empty(&self) -> bool {
        *self == TunedSettings::default()
    }

    /// The site with them.
    pub fn applied_to(&self, site: &SiteConfig) -> SiteConfig {
        let mut changed = site.clone();
        if let Some((min, max)) = self.threads {
            (changed.threads_min, changed.threads) = (min, max);
        }
        changed.tuning.jemalloc |= self.jemalloc;
        changed
    }

    /// Whether the site has them already.
    pub fn are_in(&self, site: &SiteConfig) -> bool {
        self.applied_to(site) == *site
    }
}

impl fmt::Display for TunedSettings {
    /// As paceline.toml has them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads.map(|(min, max)| match min {
            1 => format!("threads = {max}"),
            min => format!("threads = \"{min}:{max}\""),
        });
        let allocator = self.jemalloc.then(|| "allocator = \"jemalloc\"".to_owned());
        f.write_str(&threads.into_iter().chain(allocator).collect::<Vec<_>>().join(", "))
    }
}

/// `changed` was made of `tuned`, which is `base` with what was tuned: the same change of `base` itself. What has another
/// value than `tuned` somebody has decided.
pub fn without_tuned(mut changed: SiteConfig, tuned: &SiteConfig, base: &SiteConfig) -> SiteConfig {
    let threads = |site: &SiteConfig| (site.threads_min, site.threads);
    if threads(&changed) == threads(tuned) {
        (changed.threads_min, changed.threads) = threads(base);
    }
    if changed.tuning.jemalloc == tuned.tuning.jemalloc {
        changed.tuning.jemalloc = base.tuning.jemalloc;
    }
    changed
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{
        super::{
            layer::Layer,
            paceline_toml::{self, Role},
        },
        *,
    };

    fn site() -> SiteConfig {
        SiteConfig::with_defaults(Path::new("/srv/shop"), "production")
    }

    fn threads(min: usize, max: usize) -> TunedSettings {
        TunedSettings { threads: Some((min, max)), ..TunedSettings::default() }
    }

    fn jemalloc() -> TunedSettings {
        TunedSettings { jemalloc: true, ..TunedSettings::default() }
    }

    #[test]
    fn lines_that_may_be_tuned() {
        let parse = TunedSettings::parse;
        assert_eq!((parse("threads = 9"), parse("threads = \"4:9\"")), (Some(threads(1, 9)), Some(threads(4, 9))));
        assert_eq!(parse("allocator = \"jemalloc\""), Some(jemalloc()));
        for line in [
            "allocator = \"system\"",
            "malloc_arenas = 2",
            "workers = 4",
            "threads = 1",
            "threads = 33",
            "threads = \"9:4\"",
            "threads = many",
            "env = { A = \"1\" }",
            "threads",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(
            (threads(4, 9).to_string(), threads(1, 9).to_string()),
            ("threads = \"4:9\"".into(), "threads = 9".into())
        );
        assert_eq!(jemalloc().to_string(), "allocator = \"jemalloc\"");
    }

    #[test]
    fn a_site_with_them_and_without() {
        let base = site();
        for settings in [threads(2, 9), jemalloc()] {
            let tuned = settings.applied_to(&base);
            assert!(tuned != base && settings.are_in(&tuned) && !settings.are_in(&base));
            assert_eq!(without_tuned(tuned.clone(), &tuned, &base), base);
        }
        assert!(TunedSettings::default().is_empty() && TunedSettings::default().are_in(&base));
    }

    #[test]
    fn what_somebody_decides_since_stays() {
        let base = site();
        let tuned = threads(1, 9).applied_to(&base);
        let preloading = SiteConfig { preload: !base.preload, ..tuned.clone() };
        let expected = SiteConfig { preload: !base.preload, ..base.clone() };
        assert_eq!(without_tuned(preloading, &tuned, &base), expected);
        let own = SiteConfig { threads: 12, ..tuned.clone() };
        assert_eq!(without_tuned(own.clone(), &tuned, &base), own);
        assert!(!threads(1, 9).are_in(&own));
    }

    #[test]
    fn what_is_set_anywhere_is_not_tried() {
        let all = "tune_kinds = [\"yjit\", \"gc\", \"threads\", \"allocator\"]";
        let of = |texts: &[&str]| {
            let read =
                |text: &&str| paceline_toml::read(text, "p.toml", Path::new("/srv"), Role::Server).expect("fine").layer;
            let layers: Vec<Layer> = texts.iter().map(read).collect();
            kinds(&View::new(layers.iter().collect(), 2))
        };
        assert_eq!(of(&[""]), [Kind::Yjit, Kind::GcSettings]);
        assert_eq!(of(&[all]), [Kind::Yjit, Kind::GcSettings, Kind::TooFewThreads, Kind::Allocator]);
        assert_eq!(of(&[all, "threads = 3", "allocator = \"system\""]), [Kind::Yjit, Kind::GcSettings]);
        assert_eq!(of(&[all, "yjit = \"off\"\nmalloc_arenas = 2"]), [Kind::GcSettings, Kind::TooFewThreads]);
        assert_eq!(of(&["tune_kinds = \"threads\""]), [Kind::TooFewThreads]);
        assert!(check("workers").is_err() && check("allocator").is_ok());
    }
}
