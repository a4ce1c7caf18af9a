//! Trials with known results, and what they are worth.

use super::*;
use crate::{
    candidate::{Edit, Fix, Load},
    observation::{ObservedRequest, Queue},
    protocol::{Deliver, Patch},
};

fn observations() -> Observations {
    let request = ObservedRequest { wall_us: 60_000.0, ..ObservedRequest::default() };
    let route = RouteObservation { route: "GET /a".into(), share: 0.5, requests: vec![request] };
    Observations { ruby: "3.3.5".into(), routes: vec![route], ..Observations::default() }
}

fn candidate(kind: Kind, trial: Trial) -> Candidate {
    Candidate {
        kind,
        routes: vec!["GET /a".into()],
        sentence: String::new(),
        short: String::new(),
        at: String::new(),
        fix: Fix { file: String::new(), line: String::new(), edit: Edit::Shown { why: String::new() } },
        trial,
        measure: Measure::Wall,
        ceiling_us: 7_000.0,
        subject: String::new(),
        holds: Vec::new(),
    }
}

fn patch() -> Trial {
    Trial::Patch { trial: vec![Patch::named("x")], control: Vec::new(), deliver: Deliver::Gathered }
}

fn environment() -> Trial {
    Trial::Environment { env: Default::default(), unset: Vec::new(), ruby_options: Vec::new() }
}

/// Pairs of a request that takes 20 ms, with a little noise.
fn pairs(gain_us: f64) -> Vec<Pair> {
    let noise = |nth: usize| (nth * 7 % 5) as f64 * 20.0;
    let pair =
        |nth| Pair { request: 0, control_us: 20_000.0 + noise(nth), trial_us: 20_000.0 - gain_us + noise(nth + 1) };
    (0..18).map(pair).collect()
}

fn outcome(gain_us: f64, bytes: Bytes) -> Outcome {
    let route = RouteOutcome {
        route: "GET /a".into(),
        share: 0.5,
        wall: pairs(gain_us),
        cpu: pairs(gain_us / 2.0),
        bytes,
        ..RouteOutcome::default()
    };
    Outcome { rounds: 9, routes: vec![route], ..Outcome::default() }
}

fn differing() -> Bytes {
    let difference = Difference { status: Some((200, 500)), ..Difference::default() };
    Bytes::Differ { request: "GET /a".into(), difference }
}

fn standing(kind: Kind, trial: Trial, outcome: &Outcome) -> Standing {
    judge(candidate(kind, trial), outcome, &observations()).standing
}

fn not_worth(why: &str) -> Standing {
    Standing::NotWorth { why: why.into() }
}

#[test]
fn a_setting_with_a_vague_gain_is_no_advice() {
    let mut vague = outcome(0.0, Bytes::Same);
    let pair = |nth: usize| Pair { request: 0, control_us: 20_000.0, trial_us: [8_000.0, 19_500.0][nth % 2] };
    vague.routes[0].wall = (0..10).map(pair).collect();
    assert_eq!(standing(Kind::BuilderXml, patch(), &vague), Standing::Worth);
    let Standing::NotWorth { why } = standing(Kind::GcSettings, environment(), &vague) else { panic!() };
    assert!(why.starts_with("-31 %, but anything from "), "{why}");
    assert_eq!(standing(Kind::GcSettings, environment(), &outcome(5_000.0, Bytes::Same)), Standing::Worth);
}

/// What one start of the application has shown the next one need not.
#[test]
fn a_setting_must_be_worth_it_on_each_start() {
    let of = |gains: [f64; 3]| {
        let mut several = outcome(0.0, Bytes::Same);
        several.routes[0].wall = gains.iter().flat_map(|gain_us| pairs(*gain_us)).collect();
        several.routes[0].starts = vec![18; 3];
        judge(candidate(Kind::GcSettings, environment()), &several, &observations())
    };
    let sure = of([5_000.0, 5_400.0, 4_900.0]);
    assert_eq!(sure.standing, Standing::Worth);
    let gain = &sure.gains[0];
    assert!((gain.gain_us - 5_100.0).abs() < 50.0, "{gain:?}");
    let (low, high) = gain.interval_us.unwrap();
    assert!(low < 4_950.0 && high > 5_350.0, "{gain:?}");
    assert!(matches!(of([9_000.0, 5_000.0, 1_000.0]).standing, Standing::NotWorth { .. }), "wider than its middle");
    assert_eq!(of([9_000.0, 5_000.0, -1_000.0]).standing, not_worth("-22 %, noise"));
}

#[test]
fn a_patch_is_worth_what_it_measurably_saves() {
    let worth = judge(candidate(Kind::BuilderXml, patch()), &outcome(5_000.0, Bytes::Same), &observations());
    assert_eq!((worth.standing, worth.bytes, worth.rounds), (Standing::Worth, Bytes::Same, 9));
    let gain = &worth.gains[0];
    assert!((gain.gain_us - 5_000.0).abs() < 50.0 && (gain.of_us - 20_040.0).abs() < 50.0, "{gain:?}");
    assert_eq!(gain.bound, Bound::Measured);
    assert!((worth.saved_us - gain.gain_us * 0.5).abs() < 0.1);

    assert_eq!(standing(Kind::BuilderXml, patch(), &outcome(5_000.0, differing())), Standing::Changes);
    assert_eq!(standing(Kind::BuilderXml, patch(), &outcome(100.0, Bytes::Same)), not_worth("-0.5 %, too little"));
    assert_eq!(standing(Kind::BuilderXml, patch(), &outcome(-2_000.0, Bytes::Same)), not_worth("+10 %"));
    assert_eq!(standing(Kind::BuilderXml, patch(), &outcome(0.0, differing())), not_worth("0.0 %, noise"));
}

#[test]
fn a_gain_of_the_processor_is_a_part_of_the_whole_request() {
    let mut one = candidate(Kind::BuilderXml, patch());
    one.measure = Measure::Cpu;
    let verdict = judge(one, &outcome(5_000.0, Bytes::Same), &observations());
    assert!((verdict.gains[0].gain_us - 2_500.0).abs() < 50.0 && verdict.gains[0].of_us > 20_000.0);
}

#[test]
fn a_change_that_slows_other_routes_more_is_not_worth_it() {
    let mut mixed = outcome(2_000.0, Bytes::Same);
    let slower = outcome(-6_000.0, Bytes::Same).routes.remove(0);
    mixed.routes.push(RouteOutcome { route: "GET /b".into(), ..slower });
    let verdict = judge(candidate(Kind::BuilderXml, patch()), &mixed, &observations());
    assert_eq!(verdict.standing, not_worth("+10 %"));
    assert_eq!(verdict.gains.iter().map(|gain| gain.route.as_str()).collect::<Vec<_>>(), ["GET /a", "GET /b"]);
}

#[test]
fn an_environment_must_bring_more_the_more_it_costs() {
    let of = |gain_us: f64, memory: i64, ruby: &str| {
        let outcome = Outcome { memory: Some(memory), ..outcome(gain_us, Bytes::Same) };
        let observations = Observations { ruby: ruby.into(), ..observations() };
        judge(candidate(Kind::Yjit, environment()), &outcome, &observations).standing
    };
    assert_eq!(of(2_200.0, 0, "3.3.5"), Standing::Worth);
    assert_eq!(of(1_000.0, 0, "3.3.5"), not_worth("-5.0 %, too little"));
    assert_eq!(of(2_200.0, 64 << 20, "3.3.5"), not_worth("-11 %, +64.0 MB a worker"));
    assert_eq!(of(3_500.0, 64 << 20, "3.3.5"), Standing::Worth);
    assert_eq!(of(3_500.0, 64 << 20, "3.1.2"), not_worth("-17 %, +64.0 MB a worker"));
    assert_eq!(of(6_000.0, 64 << 20, "3.1.2"), Standing::Worth);
}

#[test]
fn what_ifs_and_mail_are_bounds() {
    let what_if = Trial::WhatIf { trial: Vec::new() };
    let verdict = judge(candidate(Kind::RepeatedQueries, what_if), &outcome(5_000.0, Bytes::Same), &observations());
    assert_eq!((verdict.standing, verdict.gains[0].bound), (Standing::Worth, Bound::AtMost));
    let verdict = judge(candidate(Kind::SyncMail, patch()), &outcome(10.0, Bytes::Same), &observations());
    assert_eq!((verdict.standing, verdict.gains[0].bound), (Standing::Worth, Bound::AtLeast));
}

/// Where its method's result is not all that the page needs, or was not given, the readings of the stack still tell its time.
#[test]
fn a_line_whose_what_if_fails_is_computed() {
    let with = |outcome: &Outcome, patches: &[Patch]| {
        let what_if = Trial::WhatIf { trial: patches.to_vec() };
        let verdict = judge(candidate(Kind::SlowLine, what_if), outcome, &observations());
        (verdict.standing, verdict.gains[0].gain_us, verdict.gains[0].interval_us.is_some(), verdict.gains[0].bound)
    };
    let of = |outcome: &Outcome| with(outcome, &[]);
    let (standing, gain_us, is_measured, bound) = of(&outcome(6_500.0, Bytes::Same));
    assert_eq!((standing, is_measured, bound), (Standing::Worth, true, Bound::AtMost));
    assert!((gain_us - 6_500.0).abs() < 50.0, "{gain_us}");
    let computed = (Standing::Worth, 7_000.0, false, Bound::AtMost);
    let broken = Outcome { failure: Some("it does not call it".into()), ..Outcome::default() };
    for outcome in [outcome(6_500.0, differing()), outcome(100.0, Bytes::Same), broken] {
        assert_eq!(of(&outcome), computed);
    }

    // The method around it does more than the line.
    let around = [Patch::named("free_method")];
    assert!(with(&outcome(8_500.0, Bytes::Same), &around).2);
    assert_eq!(with(&outcome(16_000.0, Bytes::Same), &around), computed);
    assert!(of(&outcome(16_000.0, Bytes::Same)).2);
}

#[test]
fn what_was_not_measured() {
    let none = Outcome::default();
    let computed = Trial::Computed { gain_us: 41_000.0, why: "x".into() };
    let verdict = judge(candidate(Kind::CacheHeaders, computed.clone()), &none, &observations());
    let gain = &verdict.gains[0];
    assert_eq!((gain.gain_us, gain.of_us, gain.bound), (41_000.0, 60_000.0, Bound::Computed));
    assert_eq!((verdict.standing, verdict.saved_us), (Standing::Worth, 20_500.0));
    let mut general = candidate(Kind::LargeSession, computed);
    general.routes.clear();
    assert_eq!(judge(general, &none, &observations()).saved_us, 41_000.0);

    let untried = Trial::Untried { why: "x".into() };
    let verdict = judge(candidate(Kind::EagerLoad, untried), &none, &observations());
    assert_eq!((verdict.standing, verdict.saved_us, verdict.gains.len()), (Standing::Worth, 7_000.0, 0));

    let why = "0 rounds were made, and 3 are needed: its requests are too slow";
    assert_eq!(standing(Kind::BuilderXml, patch(), &none), Standing::Failed { why: why.into() });
    let mut changed = outcome(5_000.0, differing());
    changed.routes[0].wall.truncate(2);
    let why = "it changes GET /a: status 200 became 500";
    assert_eq!(standing(Kind::BuilderXml, patch(), &changed), Standing::Failed { why: why.into() });
    let broken = Outcome { failure: Some("no such patch".into()), ..Outcome::default() };
    assert_eq!(standing(Kind::BuilderXml, patch(), &broken), Standing::Failed { why: "no such patch".into() });
}

/// Nobody waits less to speak of, but the processors have a quarter less to do.
#[test]
fn a_setting_that_saves_much_of_a_short_page_is_worth_it() {
    let of = |gain_us: f64| {
        let mut short = outcome(0.0, Bytes::Same);
        let pair =
            |nth: usize| Pair { request: 0, control_us: 2_000.0 + (nth % 2) as f64, trial_us: 2_000.0 - gain_us };
        short.routes[0].wall = (0..18).map(pair).collect();
        standing(Kind::Yjit, environment(), &short)
    };
    assert_eq!(of(760.0), Standing::Worth);
    assert_eq!(of(400.0), not_worth("-20 %, too little"));
}

#[test]
fn what_a_middleware_sets_beside_is_told() {
    let what_if = Trial::WhatIf { trial: Vec::new() };
    let mut sets = outcome(5_000.0, Bytes::Same);
    sets.routes[0].headers = vec!["x-b".into(), "x-a".into()];
    let mut one = candidate(Kind::SlowMiddleware, what_if);
    one.sentence = "the middleware Slow takes 5 ms".into();
    let verdict = judge(one, &sets, &observations());
    assert_eq!(verdict.standing, Standing::Worth);
    assert_eq!(verdict.candidate.sentence, "the middleware Slow takes 5 ms; it also sets x-a and x-b");
}

/// One replay was slow by chance when it was observed; in the trial it takes what any middleware may take.
#[test]
fn what_a_trial_does_not_find_again_is_no_advice() {
    let of = |kind, saved_us| {
        let what_if = Trial::WhatIf { trial: Vec::new() };
        judge(candidate(kind, what_if), &outcome(saved_us, Bytes::Same), &observations()).standing
    };
    for (kind, little, enough) in [
        (Kind::SlowMiddleware, 700.0, 2_500.0),
        (Kind::SlowPartial, 4_000.0, 5_000.0),
        (Kind::LoadedRecords, 1_000.0, 3_000.0),
    ] {
        assert!(matches!(of(kind, little), Standing::NotWorth { why } if why.ends_with("too little")), "{kind:?}");
        assert_eq!(of(kind, enough), Standing::Worth, "{kind:?}");
    }
    assert_eq!(of(Kind::RepeatedQueries, 700.0), Standing::Worth);
}

/// What nobody has tried does not come before what saves nearly as much in its trial.
#[test]
fn all_json_is_a_bound_that_nobody_reaches() {
    let of = |kind| {
        judge(
            candidate(kind, Trial::Computed { gain_us: 8_000.0, why: "x".into() }),
            &Outcome::default(),
            &observations(),
        )
    };
    let (json, line) = (of(Kind::WholeRecords), of(Kind::SlowLine));
    assert_eq!((json.gains[0].gain_us, json.gains[0].bound), (8_000.0, Bound::AtMost));
    assert_eq!(json.saved_us * 2.0, line.saved_us);
}

/// Without load there is no trial; visitors who have waited are enough.
#[test]
fn threads_without_a_trial() {
    let load = |threads: u32| {
        let from = Load { workers: 1, threads, threads_min: threads };
        Trial::Load { from, to: Load { threads: 3, ..from }, visitors: 8 }
    };
    let broken = Outcome { failure: Some("no load".into()), ..Outcome::default() };
    let verdict = judge(candidate(Kind::TooFewThreads, load(1)), &broken, &observations());
    assert_eq!(verdict.standing, Standing::Worth);
    assert_eq!(verdict.candidate.trial, Trial::Untried { why: "no load".into() });
    assert_eq!(standing(Kind::TooManyThreads, load(32), &broken), Standing::Worth);
    assert_eq!(standing(Kind::TooManyThreads, load(5), &broken), Standing::Failed { why: "no load".into() });
}

/// Other numbers of threads or workers are worth it if requests wait much less; fewer threads also by their memory.
#[test]
fn threads_and_workers_by_a_trial() {
    let trial = |from: u32, to: u32| {
        let load = |threads| Load { workers: 1, threads, threads_min: threads };
        Trial::Load { from: load(from), to: load(to), visitors: 8 }
    };
    let under_load = |gain_us: f64, memory: i64| {
        let control = LoadFigures { per_second: 25.0, p99_us: 90_000.0, memory: Some(60 << 20), cpu_us: None };
        let trial = LoadFigures { per_second: 41.0, p99_us: 50_000.0, memory: Some((60 << 20) + 1), cpu_us: None };
        let load = Some(UnderLoad { control, trial });
        Outcome { load, memory: Some(memory), ..outcome(gain_us, Bytes::NotCompared) }
    };
    let few = |outcome: &Outcome| standing(Kind::TooFewThreads, trial(1, 8), outcome);
    assert_eq!(few(&under_load(8_000.0, 9 << 20)), Standing::Worth);
    assert!(matches!(few(&under_load(1_500.0, 0)), Standing::NotWorth { .. }), "less than a tenth");
    assert!(matches!(few(&under_load(0.0, -(30 << 20))), Standing::NotWorth { .. }), "memory is no gain of these");

    let many = |outcome: &Outcome| judge(candidate(Kind::TooManyThreads, trial(32, 3)), outcome, &observations());
    let verdict = many(&under_load(0.0, -(21 << 20)));
    assert_eq!((&verdict.standing, verdict.gains.len(), verdict.saved_us), (&Standing::Worth, 0, 0.0));
    assert_eq!(verdict.saved_memory().unwrap(), "-21.0 MB of 60.0 MB (35 % of the workers' memory)");
    assert_eq!(
        verdict.under_load().unwrap(),
        "25 -> 41 requests/s; 99 of 100 answered within 90 -> 50 ms; 21.0 MB less memory"
    );
    assert_eq!(many(&under_load(6_000.0, -(21 << 20))).gains.len(), 1, "quicker, too");
    assert!(matches!(many(&under_load(-4_000.0, -(21 << 20))).standing, Standing::NotWorth { .. }), "but slower");
    assert!(matches!(many(&under_load(0.0, -(4 << 20))).standing, Standing::NotWorth { .. }), "little memory");
}

/// An allocator must save memory in each pair of copies, and cost no time.
#[test]
fn an_allocator_is_worth_its_memory_alone() {
    let load = Load { workers: 1, threads: 5, threads_min: 1 };
    let of = |trial_mb: [u64; 3], cpu_us: f64| {
        let memories = trial_mb.map(|trial| MemoryPair { control: 100 << 20, trial: trial << 20 }).to_vec();
        let mut outcome = Outcome { memories, memory: Some(-(20 << 20)), ..outcome(0.0, Bytes::NotCompared) };
        outcome.routes[0].cpu = pairs(cpu_us);
        let trial = Trial::Memory { env: Default::default(), load };
        let verdict = judge(candidate(Kind::Allocator, trial), &outcome, &observations());
        assert_eq!((verdict.gains.len(), verdict.saved_us), (0, 0.0));
        verdict.standing
    };
    assert_eq!(of([80, 75, 85], 0.0), Standing::Worth);
    assert_eq!(of([80, 75, 85], 3_000.0), Standing::Worth, "quicker, too");
    assert_eq!(of([80, 75, 97], 0.0), not_worth("-20 % of a worker's memory, noise"));
    assert_eq!(of([92, 93, 91], 0.0), not_worth("-8.0 % of a worker's memory, too little"));
    assert_eq!(of([104, 103, 105], 0.0), not_worth("+4.0 % of a worker's memory"));
    assert_eq!(of([80, 75, 85], -800.0), not_worth("-20 % of a worker's memory, +4.0 % of the processor"));
    let small = MemoryPair { control: 70 << 20, trial: 59 << 20 };
    let outcome = Outcome { memories: vec![small; 3], ..outcome(0.0, Bytes::NotCompared) };
    let trial = Trial::Memory { env: Default::default(), load };
    assert_eq!(standing(Kind::Allocator, trial.clone(), &outcome), not_worth("-16 % of a worker's memory, too little"));
    let failed = Standing::Failed { why: "too few measurements".into() };
    assert_eq!(standing(Kind::Allocator, trial.clone(), &Outcome::default()), failed);
    let broken = Outcome { failure: Some("not loaded".into()), ..outcome };
    assert_eq!(standing(Kind::Allocator, trial, &broken), Standing::Failed { why: "not loaded".into() });
}

#[test]
fn compression_is_worth_its_bytes() {
    let of = |routes: &[(&str, u64, u64, f64)]| {
        let route = |(route, before, after, cpu_us): &(&str, u64, u64, f64)| CompressedRoute {
            route: (*route).into(),
            share: 0.5,
            coding: "gzip".into(),
            before: *before,
            after: *after,
            cpu_us: *cpu_us,
        };
        let outcome = Outcome { compression: routes.iter().map(route).collect(), ..Outcome::default() };
        judge(candidate(Kind::UncompressedPages, Trial::Compression), &outcome, &observations())
    };
    let worth = of(&[("GET /a", 2_000, 700, 100.0), ("GET /b", 31_000, 3_000, 400.0)]);
    assert_eq!(worth.standing, Standing::Worth);
    let gains: Vec<_> = worth.gains.iter().map(|gain| (gain.route.as_str(), gain.gain_us, gain.of_us)).collect();
    assert_eq!(gains, [("GET /b", 27_600.0, 0.0), ("GET /a", 1_200.0, 0.0)], "bytes over a line, without computing");
    assert_eq!((worth.saved_us, worth.compression[0].route.as_str()), (14_400.0, "GET /b"));
    let little = of(&[("GET /a", 31_000, 27_000, 400.0)]).standing;
    assert_eq!(little, not_worth("-3.9 KB of 30.3 KB (13 %) by gzip, for 0.40 ms of the processor"));
    assert!(matches!(of(&[("GET /a", 3_000, 1_000, 1_900.0)]).standing, Standing::NotWorth { .. }), "too dear");
    let failed = Standing::Failed { why: "its pages could not be compressed".into() };
    assert_eq!(of(&[]).standing, failed);
}

/// What visitors gain in busy moments they do not gain all day.
#[test]
fn no_more_is_saved_than_was_waited_for() {
    let load = Load { workers: 1, threads: 1, threads_min: 1 };
    let trial = Trial::Load { from: load, to: Load { threads: 8, ..load }, visitors: 8 };
    let mut observations = observations();
    observations.queue = Some(Queue { mean_us: 3_000.0, ..Queue::default() });
    let found = judge(candidate(Kind::TooFewThreads, trial), &outcome(9_000.0, Bytes::NotCompared), &observations);
    assert_eq!(found.saved_us, 3_000.0);
    assert!(found.gains[0].gain_us > 8_000.0, "at that moment");
}
