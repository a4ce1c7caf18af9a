//! What a trial takes, about: for the person at the terminal, and so that quick ones come first. It never measures.

use std::time::Duration;

use doctor::{
    candidate::{Candidate, Trial},
    statistics::{max_rounds, MIN_ROUNDS},
};

use super::{
    baseline::{touched, Baseline},
    load_trial, memory_trial, trying,
};

/// Starting an application, where nobody has seen how long it takes.
const STARTING: Duration = Duration::from_secs(5);

/// `starting`: what the application took to start. None: it was not started here.
pub fn of(baseline: &Baseline, one: &Candidate, rounds: Option<usize>, starting: Option<Duration>) -> Duration {
    let starting = starting.unwrap_or(STARTING);
    let replays = || {
        let pages = touched(&baseline.routes, &one.routes).into_iter().flat_map(|route| &route.requests);
        Duration::from_secs_f64(pages.map(|page| page.wall_us).sum::<f64>() / 1e6)
    };
    match one.trial {
        Trial::Computed { .. } | Trial::Untried { .. } => Duration::ZERO,
        Trial::Compression => replays(),
        Trial::Load { .. } => load_trial::usual_time(rounds),
        Trial::Memory { .. } => starting + memory_trial::usual_time(rounds),
        // Half way between those that are decided soon and those that never are.
        Trial::Patch { .. } | Trial::WhatIf { .. } | Trial::Environment { .. } => {
            let rounds = rounds.unwrap_or((MIN_ROUNDS + max_rounds(1)) / 2);
            let replays = trying::usual_time(baseline, one, rounds);
            match one.trial {
                // Twice: it is tried on another start if it is worth it on the first.
                Trial::Environment { .. } => (starting + replays) * 2,
                _ => replays,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use doctor::candidate::Load;

    use super::{
        super::trying::tests::{baseline, candidate},
        *,
    };

    #[test]
    fn a_line_takes_seconds_and_another_environment_longer() {
        let all = baseline(&[("GET /slow", &[100_000.0]), ("GET /fast", &[1_000.0, 1_000.0])]);
        let time = |trial: Trial, routes: &[&str], rounds| {
            let starting = Some(Duration::from_secs(8));
            of(&all, &Candidate { trial, ..candidate(routes) }, rounds, starting).as_millis()
        };
        let what_if = || Trial::WhatIf { trial: Vec::new() };
        let environment = Trial::Environment { env: BTreeMap::new(), unset: Vec::new(), ruby_options: Vec::new() };
        let one = Load { workers: 1, threads: 2, threads_min: 2 };
        // Warmed up for 5 s at most, and answered four times a round.
        assert_eq!(time(what_if(), &["GET /slow"], Some(10)), 5_000 + 4_000);
        assert_eq!(time(what_if(), &["GET /fast"], Some(10)), 800 + 80);
        assert_eq!(time(environment, &["GET /slow"], Some(10)), 2 * (8_000 + 20_000 + 4_000));
        assert_eq!(time(Trial::Memory { env: BTreeMap::new(), load: one }, &[], None), 8_000 + 45_000);
        assert_eq!(time(Trial::Load { from: one, to: one, visitors: 2 }, &[], Some(5)), 5_000 + 24_000);
        assert_eq!(time(Trial::Untried { why: String::new() }, &[], None), 0);
    }
}
