//! What the environment of an application's Ruby is given, so that it runs with less memory: allocator, arenas, the
//! garbage collector's variables. What somebody has set already is never touched, and no process is started here.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use crate::config::{RubyTuning, SiteConfig};

/// Ruby's own 1.8 nearly doubles the heap of a worker that has outgrown what it was forked with.
const GROWTH_FACTOR: &str = "1.1";
/// Slots of 40 bytes that are free after a collection, at least. A small heap has few to spare at that factor, and pages
/// that allocate much would spend a tenth more on collections.
const FREE_SLOTS: &str = "100000";
/// Small steps can end where the heap is collected whole every few requests: workers may then add to it.
const HEAP_ROOM: &str = "PACELINE_HEAP_ROOM";
/// An application says how large its heap was; nobody's takes more than this many slots (of 40 bytes and more).
const MAX_SLOTS: u64 = 50_000_000;

const LIBRARY_FOLDERS: &[&str] =
    &["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];

/// Variables with the slots that a Ruby is to begin with, as its predecessor counted them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TuningEnvironment(Vec<(String, u64)>);

impl TuningEnvironment {
    /// From a text `NAME=NUMBER NAME=NUMBER`. What is no variable for a heap's first size is left out.
    pub fn parse(text: &str) -> TuningEnvironment {
        let known = |name: &str| {
            let size = name.strip_prefix("RUBY_GC_HEAP_").and_then(|rest| rest.strip_suffix("INIT_SLOTS"));
            size.is_some_and(|size| matches!(size, "" | "0_" | "1_" | "2_" | "3_" | "4_"))
        };
        let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
        let valid = pairs.filter(|(name, _)| known(name)).filter_map(|(name, number)| {
            let number = number.parse().ok().filter(|number| (1..=MAX_SLOTS).contains(number))?;
            Some((name.to_string(), number))
        });
        TuningEnvironment(valid.take(6).collect())
    }

    /// What an earlier run of the server kept.
    pub fn kept(site: &SiteConfig) -> TuningEnvironment {
        let text = file(site).and_then(|path| fs::read_to_string(path).ok());
        text.map_or_else(TuningEnvironment::default, |text| TuningEnvironment::parse(&text))
    }

    /// Where it can't be kept, the next run learns anew.
    pub fn keep(&self, site: &SiteConfig) {
        let Some(path) = file(site) else { return };
        let text: Vec<String> = self.0.iter().map(|(name, number)| format!("{name}={number}")).collect();
        let new = path.with_extension("new");
        let _ = fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))
            .and_then(|()| fs::write(&new, text.join(" ") + "\n"))
            .and_then(|()| fs::rename(&new, &path));
    }
}

/// What a worker came to have for itself in an earlier run, in bytes.
pub fn worker_size(site: &SiteConfig) -> Option<u64> {
    fs::read_to_string(named(site, "worker")?).ok()?.trim().parse().ok()
}

/// Where it can't be kept, the next run learns anew.
pub fn keep_worker_size(site: &SiteConfig, bytes: u64) {
    let Some(path) = named(site, "worker") else { return };
    let new = path.with_extension("new");
    let _ = fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))
        .and_then(|()| fs::write(&new, format!("{bytes}\n")))
        .and_then(|()| fs::rename(&new, &path));
}

fn file(site: &SiteConfig) -> Option<PathBuf> {
    named(site, "heap")
}

/// A file for each site in the folder that systemd keeps for the service.
fn named(site: &SiteConfig, what: &str) -> Option<PathBuf> {
    let folders = std::env::var("STATE_DIRECTORY").ok()?;
    let folder = folders.split(':').next().filter(|folder| folder.starts_with('/'))?;
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    Some(Path::new(folder).join("ruby").join(format!("{what}-{}", site.name.chars().map(safe).collect::<String>())))
}

/// Where jemalloc's library is. None: it is not installed.
pub fn jemalloc() -> Option<PathBuf> {
    jemalloc_in(LIBRARY_FOLDERS)
}

fn jemalloc_in(folders: &[&str]) -> Option<PathBuf> {
    folders.iter().map(|folder| Path::new(folder).join("libjemalloc.so.2")).find(|path| path.is_file())
}

/// Puts the variables in place; what could not be done is answered.
pub fn apply(
    tuning: &RubyTuning,
    learned: &TuningEnvironment,
    env: &mut BTreeMap<OsString, OsString>,
) -> Option<String> {
    apply_from(tuning, learned, env, LIBRARY_FOLDERS)
}

fn apply_from(
    tuning: &RubyTuning,
    learned: &TuningEnvironment,
    env: &mut BTreeMap<OsString, OsString>,
    folders: &[&str],
) -> Option<String> {
    let mentions = |env: &BTreeMap<OsString, OsString>, name: &str, word: &str| {
        env.get(OsStr::new(name)).is_some_and(|value| value.to_string_lossy().contains(word))
    };
    let mut notice = None;
    if tuning.jemalloc && !mentions(env, "LD_PRELOAD", "malloc") {
        match jemalloc_in(folders) {
            Some(library) => {
                let mut preload = library.into_os_string();
                if let Some(others) = env.get(OsStr::new("LD_PRELOAD")).filter(|others| !others.is_empty()) {
                    preload.push(":");
                    preload.push(others);
                }
                env.insert("LD_PRELOAD".into(), preload);
            }
            None => {
                notice = Some("allocator = \"jemalloc\": there is no libjemalloc.so.2 (Debian: apt install libjemalloc2); going on without".into());
            }
        }
    }
    if let Some(arenas) = tuning.malloc_arenas.filter(|_| !mentions(env, "GLIBC_TUNABLES", "arena")) {
        env.entry("MALLOC_ARENA_MAX".into()).or_insert_with(|| arenas.to_string().into());
    }
    // Ruby 3.3 and newer is told when it has loaded the application, where compiling what runs once is over.
    if tuning.yjit == "on" && !mentions(env, "RUBYOPT", "jit") {
        env.entry("RUBY_YJIT_ENABLE".into()).or_insert_with(|| "1".into());
    }
    let own = env.keys().any(|name| name.to_string_lossy().starts_with("RUBY_GC_"));
    if tuning.gc && !own {
        env.insert("RUBY_GC_HEAP_GROWTH_FACTOR".into(), GROWTH_FACTOR.into());
        env.insert("RUBY_GC_HEAP_FREE_SLOTS".into(), FREE_SLOTS.into());
        env.insert(HEAP_ROOM.into(), "1".into());
        env.extend(learned.0.iter().map(|(name, number)| (name.into(), number.to_string().into())));
    }
    notice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning() -> RubyTuning {
        RubyTuning {
            yjit: "auto".into(),
            malloc_arenas: Some(2),
            jemalloc: false,
            gc: true,
            oob_gc: false,
            warm_up: Vec::new(),
            compact: false,
            refork_after: None,
        }
    }

    fn given(tuning: &RubyTuning, learned: &str, before: &[(&str, &str)]) -> (String, Option<String>) {
        let mut env: BTreeMap<OsString, OsString> =
            before.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let notice = apply_from(tuning, &TuningEnvironment::parse(learned), &mut env, &["/nowhere"]);
        let added = env.iter().filter(|(name, value)| {
            !before.iter().any(|(own, text)| OsStr::new(own) == *name && OsStr::new(text) == *value)
        });
        let words: Vec<String> =
            added.map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy())).collect();
        (words.join(" "), notice)
    }

    #[test]
    fn only_what_nobody_has_set() {
        let growth = "PACELINE_HEAP_ROOM=1 RUBY_GC_HEAP_FREE_SLOTS=100000 RUBY_GC_HEAP_GROWTH_FACTOR=1.1";
        for (before, added) in [
            (&[][..], format!("MALLOC_ARENA_MAX=2 {growth}")),
            (&[("MALLOC_ARENA_MAX", "8")], growth.into()),
            (&[("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")], growth.into()),
            (&[("RUBY_GC_MALLOC_LIMIT", "1")], "MALLOC_ARENA_MAX=2".into()),
        ] {
            assert_eq!(given(&tuning(), "", before), (added, None), "{before:?}");
        }
        let none = RubyTuning { malloc_arenas: None, gc: false, ..tuning() };
        assert_eq!(given(&none, "RUBY_GC_HEAP_INIT_SLOTS=5", &[]), (String::new(), None));
        let yjit = RubyTuning { yjit: "on".into(), ..none };
        assert_eq!(given(&yjit, "", &[]).0, "RUBY_YJIT_ENABLE=1");
        for own in [("RUBY_YJIT_ENABLE", "0"), ("RUBYOPT", "--disable-yjit")] {
            assert_eq!(given(&yjit, "", &[own]).0, "");
        }
    }

    #[test]
    fn an_allocator_that_is_not_there_is_told() {
        let jemalloc = RubyTuning { jemalloc: true, malloc_arenas: None, gc: false, ..tuning() };
        assert!(given(&jemalloc, "", &[]).1.is_some_and(|told| told.contains("libjemalloc2")));
        assert_eq!(given(&jemalloc, "", &[("LD_PRELOAD", "/opt/libtcmalloc.so")]), (String::new(), None));
        let folder = std::env::temp_dir().join(format!("paceline-tuning-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("libjemalloc.so.2"), "").unwrap();
        let mut env = BTreeMap::from([("LD_PRELOAD".into(), "/a.so".into())]);
        apply_from(&jemalloc, &TuningEnvironment::default(), &mut env, &[folder.to_str().unwrap()]);
        let preload = env[OsStr::new("LD_PRELOAD")].to_string_lossy().into_owned();
        assert_eq!(preload, format!("{}/libjemalloc.so.2:/a.so", folder.display()));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_application_can_say_nothing_but_sizes() {
        let told = "RUBY_GC_HEAP_INIT_SLOTS=418600 RUBYOPT=-rx RUBY_GC_HEAP_9_INIT_SLOTS=1 RUBY_GC_HEAP_4_INIT_SLOTS=7 RUBY_GC_HEAP_0_INIT_SLOTS=99999999999";
        let learned = vec![("RUBY_GC_HEAP_INIT_SLOTS".to_string(), 418_600), ("RUBY_GC_HEAP_4_INIT_SLOTS".into(), 7)];
        assert_eq!(TuningEnvironment::parse(told), TuningEnvironment(learned));
        let (added, _) = given(&tuning(), told, &[]);
        assert!(added.contains("RUBY_GC_HEAP_INIT_SLOTS=418600"), "{added}");
    }
}
