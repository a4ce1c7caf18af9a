//! The way of a change: quiet, trial, canary, watched, kept or given back. The clock is a number.

use std::time::Duration;

use super::*;
use crate::apps::tuner::hours;

const HOUR: f64 = 3600.0;

fn settings() -> SelfTuning {
    let kinds = vec![Kind::Yjit, Kind::GcSettings];
    SelfTuning { every: Duration::from_secs(3600), watch: Duration::from_secs(86_400), kinds }
}

fn fingerprint(ruby: &str, lock: &str, code: &str) -> Fingerprint {
    Fingerprint { ruby: ruby.into(), lock: lock.into(), code: code.into() }
}

fn yjit() -> Change {
    let environment = Environment { ruby_options: vec!["--yjit".into()], ..Environment::default() };
    Change { kind: Kind::Yjit, short: "YJIT".into(), environment, gains: Vec::new() }
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
            fingerprint: fingerprint("ruby 3.1.2", "lock", "code"),
            environment: Environment::default(),
            kinds: settings().kinds,
        };
        Story { tuner: Tuner::new("shop", settings(), state, 0.0), now: 0.0, sight }
    }

    /// So many hours pass, in which requests took so long.
    fn hours(&mut self, hours: usize, us: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        for _ in 0..hours {
            self.now += HOUR;
            let figures = || hours::figures(vec![("GET /a".into(), vec![us; 30])]);
            acts.extend(self.tuner.look(self.now, &self.sight, figures));
        }
        acts
    }

    /// The trial that is due finds YJIT, and the canary takes over.
    fn tuned() -> Story {
        let mut story = Story::new();
        assert_eq!(story.hours(1, 40_000), [Act::Trial(settings().kinds)]);
        let acts = story.tuner.trial_ended(story.now, TrialEnd::Found(yjit()));
        assert!(
            matches!(&acts[..], [Act::Say(Name::TuneTrial, _), Act::Canary(change)] if *change == yjit()),
            "{acts:?}"
        );
        let acts = story.tuner.canary_ended(story.now, CanaryEnd::Serves("it saves 4 ms".into()));
        let [Act::Save, Act::Say(Name::Tuned, text)] = &acts[..] else { panic!("{acts:?}") };
        assert_eq!(text, "shop: YJIT is tuned (RUBYOPT=--yjit): it saves 4 ms; compared with before for 1d");
        story.sight.environment = yjit().environment;
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
    story.sight.environment = Environment::default();
    assert_eq!(story.hours(1, 40_000), [Act::Trial(vec![Kind::GcSettings])]);
    story.tuner.trial_ended(story.now, TrialEnd::Nothing(" (YJIT: noise)".into()));
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
        story.tuner.trial_ended(story.now, TrialEnd::Found(yjit()));
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
        let acts = story.tuner.trial_ended(story.now, TrialEnd::Failed(why.into()));
        assert_eq!(said(&acts, Name::TuneTrial).is_some(), at != 1, "{at}");
    }
    let odd = Environment { ruby_options: vec!["-rx".into()], ..Environment::default() };
    assert_eq!(story.hours(3, 1), []);
    story.hours(1, 1);
    let acts = story.tuner.trial_ended(story.now, TrialEnd::Found(Change { environment: odd, ..yjit() }));
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
    story.sight.environment = Environment::default();
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
