//! What the environment of an application's Ruby is given: allocator, arenas, YJIT of an old Ruby. What somebody has set already is never touched, and no process is started here.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use crate::config::{RubyTuning, SiteConfig};

const LIBRARY_FOLDERS: &[&str] =
    &["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];

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
pub fn apply(tuning: &RubyTuning, env: &mut BTreeMap<OsString, OsString>) -> Option<String> {
    apply_from(tuning, env, LIBRARY_FOLDERS)
}

fn apply_from(tuning: &RubyTuning, env: &mut BTreeMap<OsString, OsString>, folders: &[&str]) -> Option<String> {
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
    // Ruby refuses to start with two compilers (ruby.c, "Only one JIT can be enabled at the same time").
    let zjit = env.get(OsStr::new("RUBY_ZJIT_ENABLE")).is_some_and(|value| !value.is_empty() && value != "0");
    // Ruby 3.3 and newer is told when it has loaded the application, where compiling what runs once is over.
    if tuning.yjit == "on" && !zjit && !mentions(env, "RUBYOPT", "jit") {
        env.entry("RUBY_YJIT_ENABLE".into()).or_insert_with(|| "1".into());
    }
    notice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning() -> RubyTuning {
        RubyTuning {
            yjit: "auto".into(),
            malloc_arenas: None,
            jemalloc: false,
            oob_gc: false,
            warm_up: Vec::new(),
            compact: false,
            refork_after: None,
        }
    }

    fn given(tuning: &RubyTuning, before: &[(&str, &str)]) -> (String, Option<String>) {
        let mut env: BTreeMap<OsString, OsString> =
            before.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let notice = apply_from(tuning, &mut env, &["/nowhere"]);
        let added = env.iter().filter(|(name, value)| {
            !before.iter().any(|(own, text)| OsStr::new(own) == *name && OsStr::new(text) == *value)
        });
        let words: Vec<String> =
            added.map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy())).collect();
        (words.join(" "), notice)
    }

    #[test]
    fn only_what_nobody_has_set() {
        let arenas = RubyTuning { malloc_arenas: Some(2), ..tuning() };
        assert_eq!(given(&arenas, &[]), ("MALLOC_ARENA_MAX=2".into(), None));
        for own in [("MALLOC_ARENA_MAX", "8"), ("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")] {
            assert_eq!(given(&arenas, &[own]), (String::new(), None), "{own:?}");
        }
        let none = tuning();
        assert_eq!(given(&none, &[]), (String::new(), None));
        let yjit = RubyTuning { yjit: "on".into(), ..none };
        assert_eq!(given(&yjit, &[]).0, "RUBY_YJIT_ENABLE=1");
        for own in
            [("RUBY_YJIT_ENABLE", "0"), ("RUBYOPT", "--disable-yjit"), ("RUBYOPT", "--zjit"), ("RUBY_ZJIT_ENABLE", "1")]
        {
            assert_eq!(given(&yjit, &[own]).0, "");
        }
        assert_eq!(given(&yjit, &[("RUBY_ZJIT_ENABLE", "0")]).0, "RUBY_YJIT_ENABLE=1");
    }

    #[test]
    fn an_allocator_that_is_not_there_is_told() {
        let jemalloc = RubyTuning { jemalloc: true, ..tuning() };
        assert!(given(&jemalloc, &[]).1.is_some_and(|told| told.contains("libjemalloc2")));
        assert_eq!(given(&jemalloc, &[("LD_PRELOAD", "/opt/libtcmalloc.so")]), (String::new(), None));
        let folder = std::env::temp_dir().join(format!("paceline-tuning-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("libjemalloc.so.2"), "").unwrap();
        let mut env = BTreeMap::from([("LD_PRELOAD".into(), "/a.so".into())]);
        apply_from(&jemalloc, &mut env, &[folder.to_str().unwrap()]);
        let preload = env[OsStr::new("LD_PRELOAD")].to_string_lossy().into_owned();
        assert_eq!(preload, format!("{}/libjemalloc.so.2:/a.so", folder.display()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
