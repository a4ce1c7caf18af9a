//! Memory that the C library's allocator keeps and nobody uses: holes in the arenas of a worker's threads. Only a trial
//! can say how much of it there is.

use std::collections::BTreeMap;

use super::{general, server_setting, shown, WeighedCandidate};
use crate::{
    candidate::{Candidate, Fix, Kind, Load, Trial},
    observation::{Observations, Server},
};

/// Private bytes of a worker: of a smaller one nothing can be saved that is worth a setting.
const LARGE: u64 = 48 << 20;
/// As the server sets it.
const ARENAS: u32 = 2;
const ARENA_MAX: &str = "MALLOC_ARENA_MAX";
const PRELOAD: &str = "LD_PRELOAD";
/// Puma's default, where nothing is known of the server.
const USUAL_THREADS: u32 = 5;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    let settings = &observations.settings;
    let is_large = settings.worker_memory.is_some_and(|bytes| bytes >= LARGE);
    if settings.allocator.as_deref() != Some("glibc") || !is_large {
        return;
    }
    found.extend(jemalloc(observations));
    found.extend(arenas(observations));
}

fn jemalloc(observations: &Observations) -> Option<WeighedCandidate> {
    let library = observations.settings.jemalloc.as_deref()?;
    let preload = match observations.settings.env.get(PRELOAD).filter(|others| !others.is_empty()) {
        Some(others) => format!("{library}:{others}"),
        None => library.to_string(),
    };
    let fix = server_setting(observations, "allocator", "\"jemalloc\"", &format!("{PRELOAD}={preload}"));
    let sentence = "the C library's allocator keeps memory that was freed";
    Some(candidate(observations, sentence.into(), fix, PRELOAD, &preload, "jemalloc"))
}

/// With two threads there are hardly more arenas in any case.
fn arenas(observations: &Observations) -> Option<WeighedCandidate> {
    let env = &observations.settings.env;
    let threads = threads(observations);
    let own = env.get(ARENA_MAX);
    let is_chosen = env.get("GLIBC_TUNABLES").is_some_and(|tunables| tunables.contains("arena"));
    let max = own.map(|max| max.parse::<u32>().unwrap_or(0));
    if is_chosen || threads <= ARENAS || max.is_some_and(|max| (1..=ARENAS).contains(&max)) {
        return None;
    }
    let variable = format!("{ARENA_MAX}={ARENAS}");
    let fix = match (own, &observations.server) {
        // It would win over a setting.
        (Some(_), Server::Paceline) => shown("", variable.as_str(), "the variable is set where the server is started"),
        _ => server_setting(observations, "malloc_arenas", &ARENAS.to_string(), &variable),
    };
    let sentence = format!("{threads} threads of a worker keep what becomes free in arenas of their own");
    Some(candidate(observations, sentence, fix, ARENA_MAX, &ARENAS.to_string(), "two arenas of the C library"))
}

fn candidate(
    observations: &Observations,
    sentence: String,
    fix: Fix,
    variable: &str,
    value: &str,
    short: &str,
) -> WeighedCandidate {
    let threads = threads(observations);
    let threads_min = observations.settings.threads_min.unwrap_or(threads).clamp(1, threads);
    let load = Load { workers: 1, threads, threads_min };
    let env = BTreeMap::from([(variable.to_string(), value.to_string())]);
    let candidate = general(Kind::Allocator, sentence, fix, Trial::Memory { env, load });
    // It saves no time: what does is tried first.
    WeighedCandidate { candidate: Candidate { short: short.into(), ..candidate }, weight: 0.0 }
}

fn threads(observations: &Observations) -> u32 {
    observations.settings.threads.unwrap_or(USUAL_THREADS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        candidate::Edit,
        findings::{find, samples::clean},
    };

    const LIBRARY: &str = "/usr/lib/libjemalloc.so.2";

    fn found(change: impl Fn(&mut Observations)) -> Vec<Candidate> {
        let mut observations = clean();
        change(&mut observations);
        find(&observations)
    }

    fn set(name: &str, value: &str) -> Trial {
        let load = Load { workers: 1, threads: 3, threads_min: 3 };
        Trial::Memory { env: BTreeMap::from([(name.into(), value.into())]), load }
    }

    #[test]
    fn jemalloc_where_it_is_installed() {
        let installed = |observations: &mut Observations| observations.settings.jemalloc = Some(LIBRARY.into());
        let [one] = &found(installed)[..] else { panic!() };
        assert_eq!((one.kind, one.fix.line.as_str()), (Kind::Allocator, "allocator = \"jemalloc\""));
        assert_eq!(one.trial, set(PRELOAD, LIBRARY));
        let [beside] = &found(|observations| {
            installed(observations);
            observations.settings.env.insert(PRELOAD.into(), "/opt/a.so".into());
            observations.server = Server::Other("Puma".into());
        })[..] else {
            panic!()
        };
        let both = format!("{LIBRARY}:/opt/a.so");
        assert_eq!(beside.trial, set(PRELOAD, &both));
        assert_eq!(beside.fix.line, format!("LD_PRELOAD={both}"));
        assert!(matches!(beside.fix.edit, Edit::Shown { .. }));
        for change in [
            |observations: &mut Observations| observations.settings.allocator = Some("jemalloc".into()),
            |observations: &mut Observations| observations.settings.allocator = None,
            |observations: &mut Observations| observations.settings.worker_memory = Some(30 << 20),
            |observations: &mut Observations| observations.settings.worker_memory = None,
        ] {
            let none = found(|observations| {
                installed(observations);
                change(observations);
            });
            assert_eq!(none, []);
        }
    }

    #[test]
    fn two_arenas_where_there_are_more() {
        let unset = |observations: &mut Observations| drop(observations.settings.env.remove(ARENA_MAX));
        let [one] = &found(unset)[..] else { panic!() };
        assert_eq!(
            (one.kind, one.fix.line.as_str(), &one.trial),
            (Kind::Allocator, "malloc_arenas = 2", &set(ARENA_MAX, "2"))
        );
        let [puma] = &found(|observations| {
            unset(observations);
            observations.server = Server::Other("Puma".into());
            observations.settings.compress = None;
        })[..] else {
            panic!()
        };
        assert_eq!(puma.fix.line, "MALLOC_ARENA_MAX=2");
        let [own] = &found(|observations| {
            observations.settings.env.insert(ARENA_MAX.into(), "16".into());
        })[..] else {
            panic!()
        };
        assert!(matches!(own.fix.edit, Edit::Shown { .. }), "the variable wins over a setting");
        let chosen = found(|observations| {
            unset(observations);
            observations.settings.env.insert("GLIBC_TUNABLES".into(), "glibc.malloc.arena_max=4".into());
        });
        assert_eq!(chosen, []);
        let few = found(|observations| {
            unset(observations);
            observations.settings.threads = Some(2);
        });
        assert_eq!(few, []);
    }
}
