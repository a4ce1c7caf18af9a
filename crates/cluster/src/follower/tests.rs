//! What is followed of a journal, in any order of answers.

use super::*;
use crate::What;

const TTL: Millis = 5000;

fn position(number: u64) -> Position {
    Position::new(number, if number == 0 { String::new() } else { format!("m{number}") })
}

fn order(number: u64) -> Order {
    Order { what: What::Tag(format!("tag-{number}")), soft: false }
}

fn entry(number: u64) -> Entry {
    Entry { at: position(number), previous: position(number - 1).mark, from: "other".into(), order: order(number) }
}

/// Asks and hears at the same time.
fn end(follower: &mut Follower, number: u64, now: Millis) -> Option<Doubt> {
    let question = follower.ask(now);
    follower.end_is(question, position(number), now)
}

#[test]
fn who_joins_drops_everything_and_goes_on_from_the_end() {
    let mut follower = Follower::new("me", TTL, None);
    assert_eq!((follower.lease(), end(&mut follower, 7, 100)), (0, Some(Doubt::Joined)));
    assert_eq!((follower.at(), follower.lease()), (Some(&position(7)), 5100));
    assert_eq!(follower.read(entry(8)), Ok(Some(order(8))));
}

#[test]
fn who_was_away_replays_and_shows_nothing_until_then() {
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    assert_eq!(end(&mut follower, 5, 100), None);
    assert_eq!((follower.lease(), follower.behind()), (0, 2));
    assert_eq!(follower.read(entry(4)), Ok(Some(order(4))));
    follower.applied();
    assert_eq!(follower.lease(), 0);
    assert_eq!(follower.read(entry(5)), Ok(Some(order(5))));
    assert_eq!(follower.lease(), 0, "not before it is applied");
    assert_eq!((follower.at(), follower.applied_at()), (Some(&position(5)), Some(&position(4))));
    follower.applied();
    assert_eq!((follower.lease(), follower.behind()), (5100, 0));
    assert_eq!((end(&mut follower, 2, 200), follower.applied_at()), (Some(Doubt::Replaced), Some(&position(5))));
    follower.applied();
    assert_eq!(follower.applied_at(), Some(&position(2)));
}

#[test]
fn the_lease_counts_from_the_question() {
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    let question = follower.ask(100);
    assert_eq!(follower.end_is(question, position(3), 900), None);
    assert_eq!(follower.lease(), 5100);
    let late = follower.ask(200);
    assert_eq!(end(&mut follower, 3, 1000), None);
    assert_eq!(follower.end_is(late, position(3), 1100), None);
    assert_eq!(follower.lease(), 6000, "an answer that comes late takes nothing back");
}

#[test]
fn entries_that_were_read_meanwhile_are_no_doubt() {
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    let question = follower.ask(100);
    follower.read(entry(4)).unwrap();
    follower.applied();
    assert_eq!(follower.end_is(question.clone(), position(3), 200), None);
    assert_eq!(follower.end_is(question, position(4), 200), None);
    assert_eq!((follower.at(), follower.lease()), (Some(&position(4)), 5100));
}

#[test]
fn own_entries_are_only_counted() {
    let mut follower = Follower::new("other", TTL, Some(position(3)));
    assert_eq!(follower.read(entry(4)), Ok(None));
    assert_eq!(follower.read(entry(4)), Ok(None), "and entries that were read before");
    assert_eq!(follower.at(), Some(&position(4)));
}

#[test]
fn a_journal_that_was_replaced_is_noticed() {
    // It came back empty, or older, or with other entries.
    for end in [Position::default(), position(2), Position::new(3, "another")] {
        let mut follower = Follower::new("me", TTL, Some(position(3)));
        let question = follower.ask(100);
        assert_eq!(follower.end_is(question, end.clone(), 100), Some(Doubt::Replaced), "{end}");
        assert_eq!((follower.at(), follower.lease()), (Some(&end), 5100));
    }
    // Another journal may also be longer than the old one: the next entry shows it.
    let mut follower = Follower::new("me", TTL, Some(Position::new(3, "another")));
    assert_eq!(end(&mut follower, 4, 100), None);
    assert_eq!(follower.read(entry(4)), Err(Doubt::Replaced));
    follower.applied();
    assert_eq!((follower.read(entry(5)), follower.lease()), (Ok(Some(order(5))), 5100));
}

/// A primary that was cut off goes on with entries of its own: the end is asked for at one server, and entries are read
/// from the other.
#[test]
fn the_end_of_one_journal_is_not_reached_by_the_entries_of_another() {
    let other = |number| Position::new(number, "another");
    // The entry was read while the answer was on its way.
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    let question = follower.ask(100);
    follower.read(entry(4)).unwrap();
    follower.applied();
    assert_eq!(follower.end_is(question, other(4), 200), Some(Doubt::Replaced));
    // The answer came first.
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    let question = follower.ask(100);
    assert_eq!(follower.end_is(question, other(5), 200), None);
    assert_eq!(follower.read(entry(4)), Ok(Some(order(4))));
    follower.applied();
    assert_eq!((follower.applied_since(100), follower.lease()), (0, 0));
    assert_eq!(follower.read(entry(5)), Err(Doubt::Replaced));
    // Everything is dropped once, not again where the journal that is gone has ended.
    let mut follower = Follower::new("me", TTL, Some(other(3)));
    let question = follower.ask(100);
    assert_eq!(follower.end_is(question, other(6), 200), None);
    assert_eq!(follower.read(entry(4)), Err(Doubt::Replaced));
    follower.applied();
    assert_eq!((follower.read(entry(5)), follower.read(entry(6))), (Ok(Some(order(5))), Ok(Some(order(6)))));
    follower.applied();
    assert_eq!((end(&mut follower, 6, 300), follower.lease()), (None, 5300));
}

/// A replica that was promoted without them.
#[test]
fn own_entries_that_are_lost_before_they_are_read_back_are_noticed() {
    let wrote = |number| {
        let mut follower = Follower::new("other", TTL, Some(position(3)));
        assert_eq!((follower.wrote(position(number)), follower.at()), (None, Some(&position(3))));
        follower
    };
    // The question was sent before: the entry may have come later.
    let mut follower = Follower::new("other", TTL, Some(position(3)));
    let question = follower.ask(100);
    assert_eq!(follower.wrote(position(4)), None);
    assert_eq!(follower.end_is(question, position(3), 200), None);
    assert_eq!(end(&mut follower, 3, 300), Some(Doubt::Replaced));
    assert_eq!(end(&mut follower, 3, 400), None, "once");
    // Another one has its number.
    let other = |number| Position::new(number, "another");
    let mut follower = wrote(4);
    let question = follower.ask(100);
    assert_eq!(follower.end_is(question, other(4), 100), Some(Doubt::Replaced));
    let mut follower = wrote(4);
    assert_eq!(end(&mut follower, 5, 100), None);
    assert_eq!(follower.read(Entry { at: other(4), ..entry(4) }), Err(Doubt::Replaced));
    // It was read back, or before that was known.
    let mut follower = wrote(4);
    assert_eq!(follower.read(entry(4)), Ok(None));
    assert_eq!((end(&mut follower, 4, 100), follower.wrote(position(4))), (None, None));
    assert_eq!(follower.wrote(other(4)), Some(Doubt::Replaced));
    assert_eq!(follower.wrote(other(2)), None, "nobody remembers that one");
}

#[test]
fn own_entries_that_are_never_read_back_have_a_bound() {
    let mut follower = Follower::new("other", TTL, Some(position(0)));
    (1..=2 * MAX_OWN as u64).for_each(|number| assert_eq!(follower.wrote(position(number)), None));
    assert_eq!(follower.own.len(), MAX_OWN);
    assert_eq!(end(&mut follower, 1, 100), Some(Doubt::Replaced), "the last ones are not there");
}

#[test]
fn what_is_applied_is_known_of_the_journal_that_was_asked() {
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    assert_eq!(follower.applied_since(0), 0, "never asked");
    assert_eq!(end(&mut follower, 3, 100), None);
    assert_eq!((follower.applied_since(100), follower.applied_since(101)), (3, 0));
    let question = follower.ask(200);
    assert_eq!(follower.end_is(question, position(4), 200), None);
    assert_eq!(follower.applied_since(200), 0, "it is not clear yet that entry 4 follows ours");
    follower.read(entry(4)).unwrap();
    follower.applied();
    assert_eq!(follower.applied_since(200), 4);
}

#[test]
fn a_gap_is_noticed() {
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    assert_eq!(end(&mut follower, 9, 100), None);
    assert_eq!(follower.read(entry(8)), Err(Doubt::Gap(3)));
    assert_eq!(follower.read(entry(9)), Ok(Some(order(9))));
    follower.applied();
    assert_eq!(follower.lease(), 5100);
}

#[test]
fn entries_that_are_all_gone_are_a_gap() {
    let mut follower = Follower::new("me", TTL, Some(position(3)));
    assert_eq!(follower.found_nothing(50), None);
    let question = follower.ask(100);
    assert_eq!(follower.end_is(question, position(9), 200), None);
    assert_eq!(follower.found_nothing(150), None, "the look began before it was known");
    assert_eq!(follower.found_nothing(201), Some(Doubt::Gap(3)));
    assert_eq!((follower.at(), follower.lease()), (Some(&position(9)), 5100));
}

#[test]
fn pages_of_others_are_judged_by_all_orders_that_were_read() {
    let mut follower = Follower::new("other", TTL, Some(position(3)));
    let judge = |follower: &Follower, since| follower.judge(&position(since), "http://h/a", &["tag-4".into()]);
    assert_eq!((judge(&follower, 3), judge(&follower, 4)), (Verdict::Current, Verdict::Ahead));
    // Its own orders count as well: they had no number when they were obeyed.
    follower.read(entry(4)).unwrap();
    assert_eq!((judge(&follower, 3), judge(&follower, 4)), (Verdict::Purged, Verdict::Current));
    follower.read(entry(9)).unwrap_err();
    assert_eq!((judge(&follower, 4), judge(&follower, 9)), (Verdict::Purged, Verdict::Current), "after a gap");
    assert_eq!(end(&mut follower, 2, 100), Some(Doubt::Replaced));
    assert_eq!((judge(&follower, 2), judge(&follower, 9)), (Verdict::Current, Verdict::Ahead));
    assert_eq!(judge(&Follower::new("me", TTL, None), 0), Verdict::Ahead, "nothing is known yet");
}

/// Random journals, trimmed, emptied and restored from old copies, read with delays: a front that has a lease has
/// applied, or dropped, everything that was purged before the lease's question.
#[test]
fn who_has_a_lease_has_missed_nothing() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..60 {
        let mut journal: Vec<Entry> = Vec::new();
        let (mut first, mut backup): (usize, Vec<Entry>) = (0, Vec::new());
        // All orders ever given, by the time; and those that the front knows.
        let (mut given, mut known): (Vec<(Millis, u64)>, Vec<u64>) = Default::default();
        let mut follower = Follower::new("me", TTL, Some(Position::default()));
        let (mut serial, mut questions): (u64, Vec<(Question, Position)>) = (0, Vec::new());
        for step in 0..300 {
            let now = step * 10;
            let end = |journal: &[Entry]| journal.last().map_or_else(Position::default, |last| last.at.clone());
            let mut doubt = None;
            match next(12) {
                0..=3 => {
                    serial += 1;
                    let last = end(&journal);
                    let at = Position::new(last.number + 1, format!("s{serial}"));
                    let order = Order { what: What::Tag(serial.to_string()), soft: false };
                    journal.push(Entry { at, previous: last.mark, from: "other".into(), order });
                    given.push((now, serial));
                }
                4 => first = journal.len().saturating_sub(next(4) as usize),
                5 if next(8) == 0 => (journal, first) = (Vec::new(), 0),
                6 if next(8) == 0 => (journal, first) = (backup.clone(), 0),
                7 if next(4) == 0 => backup = journal.clone(),
                8 => questions.push((follower.ask(now), end(&journal))),
                9 => {
                    for (question, end) in questions.drain(..) {
                        doubt = follower.end_is(question, end, now).or(doubt);
                    }
                }
                _ => {
                    let after = follower.at().map_or(0, |at| at.number);
                    let left = journal.iter().skip(first).filter(|entry| entry.at.number > after);
                    let found: Vec<_> = left.take(1 + next(3) as usize).cloned().collect();
                    if found.is_empty() {
                        doubt = follower.found_nothing(now);
                    }
                    for entry in found {
                        match follower.read(entry) {
                            Ok(Some(Order { what: What::Tag(tag), .. })) => known.push(tag.parse().unwrap()),
                            Ok(_) => {}
                            Err(why) => doubt = Some(why),
                        }
                    }
                    follower.applied();
                }
            }
            if doubt.is_some() {
                known = given.iter().map(|(_, serial)| *serial).collect();
            }
            let asked = follower.lease().saturating_sub(TTL);
            // What a server lost together with its journal is only noticed at the next question: entries that were
            // still there when it was asked are all applied.
            let missed = given.iter().filter(|(at, serial)| {
                *at < asked && !known.contains(serial) && journal.iter().any(|entry| entry.order == tag(*serial))
            });
            assert_eq!(missed.count(), 0, "{follower:?}");
        }
    }
}

fn tag(serial: u64) -> Order {
    Order { what: What::Tag(serial.to_string()), soft: false }
}
