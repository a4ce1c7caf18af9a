//! Settings of Ruby and of Rails that are a mistake in production, or that may be: log level, code loading, garbage
//! collection, YJIT.

use std::collections::BTreeMap;

use super::{environment_line, general, is_production, markup, patch, server_setting, shown, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Fix, Kind, Measure, Trial},
    observation::{Observations, ObservedRequest},
    protocol::Patch,
    units,
};

/// Collecting garbage takes this part of the requests: with Ruby's own settings it is less.
const GC_PART: f64 = 0.12;
/// So many observed requests together say how often garbage is collected.
const MANY_REQUESTS: usize = 20;
/// Objects that a request allocates: with fewer, Ruby would not collect in it by itself.
const FEW_OBJECTS: f64 = 10_000.0;
/// Part of the requests in which garbage was collected all the same.
const COLLECTED_PART: f64 = 0.8;
/// Requests that only wait have nothing to compile: this part of their time must be the processor's.
const COMPUTING_PART: f64 = 0.3;
/// Of computing, what YJIT saves, at a guess: for the order of trials only.
const YJIT_PART: f64 = 0.2;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    markup::debug_log(observations, found);
    found.extend(code_loading(observations));
    found.extend(caching_off(observations));
    found.extend(garbage(observations));
    found.extend(yjit(observations));
}

/// The mean GET request: `of` weighted by the routes' shares.
pub(super) fn mean_of(observations: &Observations, of: impl Fn(&Look) -> f64) -> f64 {
    let looks = Look::all(observations);
    let shares: f64 = looks.iter().map(|look| look.route.share).sum();
    if shares > 0.0 {
        looks.iter().map(|look| of(look) * look.route.share).sum::<f64>() / shares
    } else {
        looks.iter().map(of).sum::<f64>() / looks.len().max(1) as f64
    }
}

/// 0 to 1: of the time, what the processor worked.
pub(super) fn computing_part(observations: &Observations) -> f64 {
    mean_of(observations, |look| look.cpu_us) / mean_of(observations, |look| look.wall_us).max(1.0)
}

fn code_loading(observations: &Observations) -> Vec<WeighedCandidate> {
    let mut found = Vec::new();
    if !is_production(observations) {
        return found;
    }
    let untried = |why: &str| Trial::Untried { why: why.into() };
    if observations.facts.cache_classes == Some(false) {
        let line = if version(&observations.rails) >= (7, 1) {
            ("config.enable_reloading", "config.enable_reloading = false")
        } else {
            ("config.cache_classes", "config.cache_classes = true")
        };
        let fix = environment_line(observations, line.0, line.1);
        let sentence = "production looks for changed files before each request, and loads code again".into();
        let trial = untried("the application has to be started with another configuration");
        found.push(unweighted(general(Kind::CodeReloading, sentence, fix, trial)));
    }
    if observations.facts.eager_load == Some(false) {
        let fix = environment_line(observations, "config.eager_load", "config.eager_load = true");
        let sentence = "production loads code when a request first needs it, each worker for itself".into();
        let trial = untried("it slows the first requests of each worker, not those that are replayed");
        found.push(unweighted(general(Kind::EagerLoad, sentence, fix, trial)));
    }
    found
}

/// Settings that somebody has turned off.
fn caching_off(observations: &Observations) -> Vec<WeighedCandidate> {
    let facts = &observations.facts;
    // Where classes are loaded again, templates are by the same setting.
    let templates = facts.template_caching.or(Some(true)).filter(|_| facts.cache_classes != Some(false));
    let settings = [
        (
            Kind::FragmentsNotKept,
            facts.perform_caching,
            "perform_caching",
            "config.action_controller.perform_caching",
            "production makes the fragments of views (`cache`) again for each page",
        ),
        (
            Kind::TemplatesNotKept,
            templates,
            "template_caching",
            "config.action_view.cache_template_loading",
            "production looks for changed templates before each request",
        ),
    ];
    let off = settings.into_iter().filter(|(_, on, ..)| *on == Some(false) && is_production(observations));
    off.map(|(kind, _, name, setting, sentence)| {
        let fix = environment_line(observations, setting, &format!("{setting} = true"));
        let trial = patch(Patch::named(name));
        unweighted(general(kind, sentence.into(), fix, trial))
    })
    .collect()
}

/// What has no figure goes last.
fn unweighted(candidate: Candidate) -> WeighedCandidate {
    WeighedCandidate { candidate, weight: 0.0 }
}

fn garbage(observations: &Observations) -> Option<WeighedCandidate> {
    let wall_us = mean_of(observations, |look| look.wall_us);
    // A collection comes once in several requests: the median of one hides it, and the observed replay has it by chance.
    let count: usize = observations.routes.iter().map(|route| route.requests.len()).sum();
    let observed = |request: &ObservedRequest| {
        if count >= MANY_REQUESTS {
            request.evidence.gc.as_ref().map_or(0.0, |gc| gc.us)
        } else {
            0.0
        }
    };
    let gc_us = mean_of(observations, |look| super::mean(look.route, |request| request.gc_us).max(look.mean(observed)));
    let gc_us = gc_us.max(wall_us * live_part(observations));
    if gc_us < wall_us * GC_PART || gc_us < super::NOTABLE_US {
        return None;
    }
    let share = units::percent(gc_us / wall_us.max(1.0));
    let env = &observations.settings.env;
    let own: Vec<&String> = env.keys().filter(|name| name.starts_with("RUBY_GC_")).collect();
    if let Some(found) = own.is_empty().then(|| forced(observations, gc_us, &share)).flatten() {
        return Some(found);
    }
    let (sentence, fix, trial) = match () {
        () if !own.is_empty() => {
            let names: Vec<&str> = own.iter().map(|name| name.as_str()).collect();
            let fix =
                shown("", format!("without {}", names.join(", ")), "the variables are set where the server is started");
            (
                format!("collecting garbage takes {share} of a request, with {}", names.join(", ")),
                fix,
                environment(&[], &names),
            )
        }
        () => (
            format!("collecting garbage takes {share} of a request"),
            gc_variables(observations),
            environment(&GC_VARIABLES, &[]),
        ),
    };
    let candidate = general(Kind::GcSettings, sentence, fix, trial);
    let short = "GC settings".into();
    Some(WeighedCandidate {
        candidate: Candidate { short, measure: Measure::Cpu, ceiling_us: gc_us, ..candidate },
        weight: gc_us,
    })
}

/// 0 to 1: of live requests' time in the application, what collections took. A worker has served for longer than any copy:
/// its heap may be in a state that a copy is not in yet. 0: unknown.
fn live_part(observations: &Observations) -> f64 {
    let live = observations.queue.as_ref().filter(|queue| queue.requests >= MANY_REQUESTS as u64 && queue.app_us > 0.0);
    live.map_or(0.0, |queue| (queue.gc_us / queue.app_us).min(1.0))
}

/// Fewer collections for more memory.
const GC_VARIABLES: [(&str, &str); 4] = [
    ("RUBY_GC_MALLOC_LIMIT", "67108864"),
    ("RUBY_GC_MALLOC_LIMIT_MAX", "134217728"),
    ("RUBY_GC_OLDMALLOC_LIMIT", "67108864"),
    ("RUBY_GC_HEAP_FREE_SLOTS", "200000"),
];

fn gc_variables(observations: &Observations) -> Fix {
    let pairs: Vec<String> = GC_VARIABLES.iter().map(|(name, value)| format!("{name} = \"{value}\"")).collect();
    let plain: Vec<String> = GC_VARIABLES.iter().map(|(name, value)| format!("{name}={value}")).collect();
    server_setting(observations, "env", &format!("{{ {} }}", pairs.join(", ")), &plain.join(" "))
}

fn environment(set: &[(&str, &str)], unset: &[&str]) -> Trial {
    Trial::Environment {
        env: set.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect::<BTreeMap<_, _>>(),
        unset: unset.iter().map(|name| (*name).to_string()).collect(),
        ruby_options: Vec::new(),
    }
}

/// Collections in nearly each request, though it allocates little, and no variable says so: the application asks for them.
fn forced(observations: &Observations, gc_us: f64, share: &str) -> Option<WeighedCandidate> {
    let allocated = mean_of(observations, |look| super::mean(look.route, |request| request.allocated as f64));
    let requests: Vec<_> = observations.routes.iter().flat_map(|route| &route.requests).collect();
    let collected =
        requests.iter().filter(|request| request.evidence.gc.as_ref().is_some_and(|gc| gc.runs > 0)).count();
    if allocated > FEW_OBJECTS || (collected as f64) < requests.len() as f64 * COLLECTED_PART {
        return None;
    }
    let sentence =
        format!("garbage is collected in each request ({share} of it), though there is little: GC.start is called");
    let fix = shown("", "no GC.start in requests", "find the call with: grep -rn GC.start");
    let trial = Trial::Computed { gain_us: gc_us, why: "the time of the collections".into() };
    let candidate = general(Kind::GcSettings, sentence, fix, trial);
    Some(WeighedCandidate { candidate: Candidate { ceiling_us: gc_us, ..candidate }, weight: gc_us })
}

fn yjit(observations: &Observations) -> Option<WeighedCandidate> {
    let cpu_us = mean_of(observations, |look| look.cpu_us);
    if observations.facts.yjit != "off" || computing_part(observations) < COMPUTING_PART || cpu_us < super::NOTABLE_US {
        return None;
    }
    let fix = server_setting(observations, "yjit", "\"on\"", "RUBYOPT=--yjit");
    let trial = Trial::Environment { env: BTreeMap::new(), unset: Vec::new(), ruby_options: vec!["--yjit".into()] };
    let sentence = format!("Ruby {} runs without its compiler YJIT", observations.ruby);
    let candidate = general(Kind::Yjit, sentence, fix, trial);
    let ceiling_us = cpu_us * YJIT_PART;
    let candidate = Candidate { short: "YJIT".into(), measure: Measure::Cpu, ceiling_us, ..candidate };
    Some(WeighedCandidate { candidate, weight: ceiling_us })
}

/// Major and minor version; (0, 0): unknown.
pub(crate) fn version(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
