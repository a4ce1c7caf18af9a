//! The way of a change: quiet, trial, canary, watched, kept or given back. The clock is a number.

use std::time::Duration;

use super::*;
use crate::{
    apps::{environment::Environment, tuner::hours},
    config::TunedSettings,
    workers::dispatch::queue::RouteVisits,
};

const HOUR: f64 = 3600.0;

const MB: u64 = 1 << 20;

fn settings() -> SelfTuning {
    let kinds = vec![Kind::Yjit, Kind::GcSettings];
    SelfTuning { every: Duration::from_secs(3600), watch: Duration::from_secs(86_400), kinds }
}

fn fingerprint(ruby: &str, lock: &str, code: &str) -> Fingerprint {
    Fingerprint { ruby: ruby.into(), lock: lock.into(), code: code.into() }
}

fn yjit() -> Change {
    let environment = Environment { ruby_options: vec!["--yjit".into()], ..Environment::default() };
    let tuned = Tuned { environment, ..Tuned::default() };
    Change { kind: Kind::Yjit, short: "YJIT".into(), tuned, gains: Vec::new(), memory: None }
}

fn threads() -> Change {
    let settings = TunedSettings { threads: Some((1, 9)), ..TunedSettings::default() };
    let tuned = Tuned { settings, ..Tuned::default() };
    let short = "threads 3 -> 9".into();
    Change { kind: Kind::TooFewThreads, short, tuned, gains: Vec::new(), memory: Some(1) }
}

/// A tuner, its clock, and what it sees.
struct Story {
    tuner: Tuner,
    now: f64,
    sight: Sight,
}

impl Story {
    fn new() -> Story {
        Story::with(TuneState::new(Path::new("/srv/shop")))
    }

    fn with(state: TuneState) -> Story {
        let sight = Sight {
            is_ready: true,
            is_quiet: true,
            is_waiting: false,
            fingerprint: fingerprint("ruby 3.1.2", "lock", "code"),
            tuned: Tuned::default(),
            worker_memory: Some(100 * MB),
            kinds: settings().kinds,
        };
        Story { tuner: Tuner::new("shop", settings(), state, 0.0), now: 0.0, sight }
    }

    /// So many hours pass, in which requests took so long.
    fn hours(&mut self, hours: usize, us: u64) -> Vec<Act> {
        self.waiting_hours(hours, us, 0)
    }

    /// The same, and they waited so long before.
    fn waiting_hours(&mut self, hours: usize, us: u64, waited: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        for _ in 0..hours {
            self.now += HOUR;
            let visits = || RouteVisits { route: "GET /a".into(), app: vec![us; 30], whole: vec![us + waited; 30] };
            let figures = || hours::figures(vec![visits()]);
            acts.extend(self.tuner.look(self.now, &self.sight, figures));
        }
        acts
    }

    fn ended(&mut self, end: TrialEnd) -> Vec<Act> {
        self.tuner.trial_ended(self.now, end, |_| None)
    }

    /// Requests have waited for a thread, and more of them have taken over.
    fn threaded() -> Story {
        let mut story = Story::new();
        story.sight.kinds = vec![Kind::TooFewThreads];
        assert!(story.waiting_hours(1, 40_000, 60_000).is_empty(), "no request waits at this moment");
        (story.sight.is_waiting, story.sight.is_quiet) = (true, false);
        assert_eq!(story.waiting_hours(1, 40_000, 60_000), [Act::Trial(vec![Kind::TooFewThreads])]);
        let acts = story.ended(TrialEnd::Found(threads()));
        let text = "shop: threads 3 -> 9 is worth it (threads = 9): trying it on visitors' requests";
        assert_eq!(said(&acts, Name::TuneTrial), Some(text));
        story.tuner.canary_ended(story.now, CanaryEnd::Serves("it does no worse".into()));
        story.sight.tuned = threads().tuned;
        story
    }

    /// The trial that is due finds YJIT, and the canary takes over.
    fn tuned() -> Story {
        let mut story = Story::new();
        assert_eq!(story.hours(1, 40_000), [Act::Trial(settings().kinds)]);
        let acts = story.ended(TrialEnd::Found(yjit()));
        assert!(
            matches!(&acts[..], [Act::Say(Name::TuneTrial, _), Act::Canary(change)] if *change == yjit()),
            "{acts:?}"
        );
        let acts = story.tuner.canary_ended(story.now, CanaryEnd::Serves("it saves 4 ms".into()));
        let [Act::Save, Act::Say(Name::Tuned, text)] = &acts[..] else { panic!("{acts:?}") };
        assert_eq!(text, "shop: YJIT is tuned (RUBYOPT=--yjit): it saves 4 ms; compared with before for 1d");
        story.sight.tuned = yjit().tuned;
        story
    }
}

fn said(acts: &[Act], wanted: Name) -> Option<&str> {
    acts.iter().find_map(|act| match act {
        Act::Say(name, text) if *name == wanted => Some(text.as_str()),
        _ => None,
    })
}

#[test]
fn a_trial_waits_for_its_time_and_for_quiet() {
    let mut story = Story::new();
    story.now = HOUR / 2.0;
    assert!(story.tuner.look(story.now, &story.sight, Vec::new).is_empty(), "it is too early");
    story.sight.is_quiet = false;
    assert!(story.hours(5, 1).is_empty());
    story.sight.is_quiet = true;
    story.sight.is_ready = false;
    assert!(story.hours(1, 1).is_empty());
    story.sight.is_ready = true;
    assert_eq!(story.hours(1, 1), [Act::Trial(settings().kinds)]);
    assert!(story.hours(9, 1).is_empty(), "one at a time");
}

#[test]
fn a_change_that_holds_is_kept_after_a_day() {
    let mut story = Story::tuned();
    let acts = story.hours(23, 38_000);
    assert!(!acts.is_empty() && acts.iter().all(|act| *act == Act::Save), "{acts:?}");
    let acts = story.hours(1, 38_000);
    let text = said(&acts, Name::TuneKept).unwrap();
    assert!(text.starts_with("shop: YJIT is kept after 1d, 24 of 24 hours compared; last median 38 ms"), "{text}");
    assert!(story.hours(100, 400_000).is_empty(), "later hours are about something else");
    assert!(story.tuner.shown().starts_with("YJIT (RUBYOPT=--yjit), kept: "));
}

#[test]
fn two_slower_hours_in_a_row_give_it_back_and_it_is_not_tried_again() {
    let mut story = Story::tuned();
    assert_eq!(story.hours(1, 60_000), [Act::Save]);
    assert_eq!(story.hours(1, 40_000), [Act::Save], "one slow hour is an accident");
    assert_eq!(story.hours(1, 60_000), [Act::Save]);
    let acts = story.hours(1, 60_000);
    assert_eq!((&acts[0], acts.last()), (&Act::Save, Some(&Act::GiveBack)));
    let text = said(&acts, Name::TuneGivenBack).unwrap();
    assert!(text.starts_with("shop: YJIT is given back: slower in 2 hours in a row: median 60 ms"), "{text}");
    story.sight.tuned = Tuned::default();
    assert_eq!(story.hours(1, 40_000), [Act::Trial(vec![Kind::GcSettings])]);
    story.ended(TrialEnd::Nothing(" (YJIT: noise)".into()));
    assert!(story.hours(100, 40_000).is_empty(), "all is known of this code");
    story.sight.fingerprint.code = "another".into();
    assert_eq!(story.hours(1, 40_000), [Act::Trial(settings().kinds)]);
}

#[test]
fn what_a_canary_does_not_show_is_remembered_unless_nothing_was_decided() {
    for (end, is_rejected) in
        [(CanaryEnd::RolledBack("it saves 0 ms".into()), true), (CanaryEnd::Undecided("another restart".into()), false)]
    {
        let mut story = Story::new();
        story.hours(1, 1);
        story.ended(TrialEnd::Found(yjit()));
        let acts = story.tuner.canary_ended(story.now, end);
        assert_eq!(said(&acts, Name::TuneGivenBack).is_some(), is_rejected);
        let kinds = if is_rejected { vec![Kind::GcSettings] } else { settings().kinds };
        assert_eq!(story.hours(1, 1), [Act::Trial(kinds)]);
    }
}

#[test]
fn a_trial_that_could_not_be_made_is_repeated_and_said_once() {
    let mut story = Story::new();
    for (at, why) in ["no requests", "no requests", "it was busy"].into_iter().enumerate() {
        // It waits twice as long each time.
        assert_eq!(story.hours([1, 1, 2][at], 1).len(), 1, "{at}");
        let acts = story.ended(TrialEnd::Failed(why.into()));
        assert_eq!(said(&acts, Name::TuneTrial).is_some(), at != 1, "{at}");
    }
    let environment = Environment { ruby_options: vec!["-rx".into()], ..Environment::default() };
    let odd = Tuned { environment, ..Tuned::default() };
    assert_eq!(story.hours(3, 1), []);
    story.hours(1, 1);
    let acts = story.ended(TrialEnd::Found(Change { tuned: odd, ..yjit() }));
    assert!(!acts.iter().any(|act| matches!(act, Act::Canary(_))), "code is no setting");
}

#[test]
fn another_ruby_or_bundle_ends_what_was_tuned_and_says_nothing_against_it() {
    for (now, told) in [
        (fingerprint("ruby 3.3.0", "lock", "code"), "it was tried with ruby 3.1.2, and this is ruby 3.3.0"),
        (fingerprint("ruby 3.1.2", "another", "code"), "Gemfile.lock has changed since it was tried"),
    ] {
        let mut story = Story::tuned();
        story.sight.fingerprint = now;
        let acts = story.hours(1, 1);
        assert_eq!(said(&acts, Name::TuneGivenBack), Some(format!("shop: YJIT is given back: {told}").as_str()));
        assert!(acts.contains(&Act::GiveBack) && story.tuner.state.rejected.is_empty());
    }
    let mut story = Story::tuned();
    story.sight.fingerprint.code = "the next release".into();
    assert!(!story.hours(1, 38_000).contains(&Act::GiveBack), "other code of the same bundle keeps it");
}

#[test]
fn what_a_user_sets_wins() {
    let mut story = Story::new();
    story.sight.kinds = vec![Kind::GcSettings];
    assert_eq!(story.hours(1, 1), [Act::Trial(vec![Kind::GcSettings])]);
    let mut story = Story::new();
    story.sight.kinds = Vec::new();
    assert!(story.hours(9, 1).is_empty());
    let mut story = Story::tuned();
    story.sight.kinds = vec![Kind::GcSettings];
    assert!(story.hours(1, 1).contains(&Act::GiveBack), "it was set since");
    // A rollback by hand is a decision, and nothing is left to restart.
    let mut story = Story::tuned();
    story.sight.tuned = Tuned::default();
    let acts = story.hours(1, 1);
    assert!(said(&acts, Name::TuneGivenBack).is_some_and(|text| text.contains("paceline rollback")));
    assert!(!acts.contains(&Act::GiveBack) && story.tuner.state.rejected.len() == 1);
}

#[test]
fn another_server_goes_on_where_this_one_ended() {
    let mut before = Story::tuned();
    before.hours(1, 60_000);
    let state = serde_json::from_value(serde_json::to_value(&before.tuner.state).unwrap()).unwrap();
    let mut after = Story::with(state);
    (after.now, after.sight) = (before.now, before.sight);
    after.tuner.hour = before.tuner.hour;
    assert!(after.hours(1, 60_000).contains(&Act::GiveBack));
}

#[test]
fn threads_are_tried_when_requests_wait_and_the_rest_when_it_is_quiet() {
    let mut story = Story::new();
    story.sight.kinds = vec![Kind::Yjit, Kind::TooFewThreads, Kind::Allocator];
    let quiet = vec![Kind::Yjit, Kind::Allocator];
    assert_eq!(story.hours(1, 1), [Act::Trial(quiet.clone())]);
    story.ended(TrialEnd::Nothing(String::new()));
    assert!(story.hours(9, 1).is_empty(), "no request waits");
    story.sight.is_waiting = true;
    for hours in [1, 1, 2] {
        assert_eq!(story.hours(hours, 1), [Act::Trial(vec![Kind::TooFewThreads])], "what is quiet is known");
        story.ended(TrialEnd::Failed("it was busy".into()));
    }
    story.sight.fingerprint.code = "another".into();
    assert_eq!(story.hours(1, 1), [Act::Trial(quiet)], "its failures delay no other trial");
    story.ended(TrialEnd::Nothing(String::new()));
    assert_eq!(story.hours(3, 1), [Act::Trial(vec![Kind::TooFewThreads])]);
    story.ended(TrialEnd::Nothing(" (threads 3 -> 9: +1 %)".into()));
    assert!(story.hours(99, 1).is_empty());
    assert_eq!(story.tuner.shown(), "nothing; no setting was worth it");
}

#[test]
fn more_threads_are_judged_by_what_visitors_wait() {
    let mut story = Story::threaded();
    let acts = story.waiting_hours(24, 55_000, 0);
    assert!(!acts.contains(&Act::GiveBack), "each request takes longer, and none waits: {acts:?}");
    assert!(said(&acts, Name::TuneKept).is_some());
    let mut story = Story::threaded();
    let acts = story.waiting_hours(2, 40_000, 90_000);
    let text = said(&acts, Name::TuneGivenBack).unwrap();
    assert!(
        text.starts_with("shop: threads 3 -> 9 is given back: slower in 2 hours in a row: median 130 ms"),
        "{text}"
    );
    assert_eq!(acts.last(), Some(&Act::GiveBack));
}

#[test]
fn workers_that_have_grown_give_settings_back() {
    let mut story = Story::threaded();
    story.sight.worker_memory = Some(160 * MB);
    let acts = story.waiting_hours(2, 40_000, 0);
    let text = said(&acts, Name::TuneGivenBack).unwrap();
    assert!(
        text.contains("larger in 2 hours in a row") && text.ends_with("a worker has 160.0 MB, before 100.0 MB"),
        "{text}"
    );
    assert_eq!(acts.last(), Some(&Act::GiveBack));
    let mut story = Story::tuned();
    story.sight.worker_memory = Some(900 * MB);
    assert!(!story.hours(30, 40_000).contains(&Act::GiveBack), "YJIT is judged by time");
}

#[test]
fn what_there_is_no_memory_for_is_not_tried_live() {
    let mut story = Story::new();
    (story.sight.kinds, story.sight.is_waiting) = (vec![Kind::TooFewThreads], true);
    story.hours(1, 1);
    let acts = story
        .tuner
        .trial_ended(story.now, TrialEnd::Found(threads()), |change| Some(format!("{} have no room", change.tuned)));
    let text = "shop: threads 3 -> 9 would be worth it (threads = 9), but threads = 9 have no room; not tried again until the code or Ruby changes";
    assert_eq!(acts, [Act::Say(Name::TuneTrial, text.into()), Act::Save]);
    assert!(story.hours(99, 1).is_empty());
    story.sight.fingerprint.code = "another".into();
    assert_eq!(story.hours(1, 1), [Act::Trial(vec![Kind::TooFewThreads])]);
}

#[test]
fn settings_go_with_the_server_that_comes_after_and_are_given_back_in_full() {
    let before = Story::threaded();
    let state = serde_json::from_value(serde_json::to_value(&before.tuner.state).unwrap()).unwrap();
    let mut after = Story::with(state);
    (after.now, after.sight) = (before.now, before.sight);
    after.tuner.hour = before.tuner.hour;
    assert!(after.tuner.shown().starts_with("threads 3 -> 9 (threads = 9), compared with before"));
    after.sight.kinds = Vec::new();
    let acts = after.hours(1, 1);
    assert!(said(&acts, Name::TuneGivenBack).is_some_and(|text| text.contains("it is set in the configuration")));
    assert!(acts.contains(&Act::GiveBack) && after.tuner.state.kept.is_none());
}
