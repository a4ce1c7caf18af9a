//! What the choice guarantees, case by case.

use super::*;

const SECOND: Micros = 1_000_000;

fn balancer(hosts: usize) -> (Balancer, Vec<HostId>) {
    let mut balancer = Balancer::new(Rules::default(), 1);
    let ids = (0..hosts).map(|_| balancer.add(None)).collect();
    (balancer, ids)
}

/// How many of 1,000 requests each host gets, all of them at one time and ended at once.
fn shares(balancer: &mut Balancer, now: Micros, request: Request<'_>) -> Vec<(HostId, usize)> {
    let mut counts: Vec<_> = balancer.report(now).iter().map(|host| (host.id, 0)).collect();
    for _ in 0..1000 {
        let chosen = balancer.choose(now, request).unwrap();
        counts.iter_mut().filter(|(id, _)| *id == chosen).for_each(|(_, count)| *count += 1);
    }
    counts
}

fn count(shares: &[(HostId, usize)], id: HostId) -> usize {
    shares.iter().find(|(host, _)| *host == id).map_or(0, |(_, count)| *count)
}

#[test]
fn equal_hosts_get_equal_shares() {
    let (mut balancer, ids) = balancer(4);
    let shares = shares(&mut balancer, 0, Request::default());
    assert!(ids.iter().all(|id| (200..300).contains(&count(&shares, *id))), "{shares:?}");
}

#[test]
fn a_single_host_gets_everything_whatever_happened() {
    let (mut balancer, ids) = balancer(1);
    assert!(!(0..100).any(|_| balancer.failed(ids[0], 0, 0)));
    assert_eq!(balancer.choose(0, Request::default()), Some(ids[0]));
    assert_eq!(balancer.report(0)[0].standing, Standing::Up);
    assert_eq!(balancer.choose(0, Request { tried: &ids, ..Request::default() }), None);
}

#[test]
fn the_host_with_less_in_hand_is_chosen() {
    let (mut balancer, ids) = balancer(2);
    balancer.begin(ids[0]);
    assert_eq!(count(&shares(&mut balancer, 0, Request::default()), ids[1]), 1000);
    balancer.end(ids[0], false);
    assert!(count(&shares(&mut balancer, 0, Request::default()), ids[0]) > 400);
}

#[test]
fn a_slow_host_carries_as_much_less_and_is_tried_again() {
    let (mut balancer, ids) = balancer(2);
    for (id, time) in [(ids[0], 10_000), (ids[1], 100_000)] {
        balancer.begin(id);
        balancer.answered(id, SECOND, SECOND + time, true);
        balancer.end(id, false);
    }
    let now = 2 * SECOND;
    assert_eq!(count(&shares(&mut balancer, now, Request::default()), ids[0]), 1000);
    // Ten times as fast: with twelve in hand it is the slower choice.
    (0..12).for_each(|_| balancer.begin(ids[0]));
    assert_eq!(balancer.choose(now, Request::default()), Some(ids[1]));
    (0..12).for_each(|_| balancer.end(ids[0], false));
    // What was learned fades.
    let later = shares(&mut balancer, now + 120 * SECOND, Request::default());
    assert!(count(&later, ids[1]) > 400, "{later:?}");
}

#[test]
fn one_slow_page_says_little_about_its_host() {
    let (mut balancer, ids) = balancer(2);
    for round in 0..100 {
        for id in &ids {
            balancer.answered(*id, round * 1000, round * 1000 + 10_000, true);
        }
    }
    balancer.answered(ids[0], 100_000, 2_100_000, true);
    let learned = balancer.report(0)[0].first_byte.unwrap();
    assert!((10_000.0..13_000.0).contains(&learned), "{learned}");
}

#[test]
fn failures_in_a_row_put_a_host_out_and_longer_each_time() {
    let (mut balancer, ids) = balancer(2);
    assert_eq!([0, 1, 2].map(|now| balancer.failed(ids[0], now, now)), [false, false, true]);
    assert_eq!(count(&shares(&mut balancer, SECOND, Request::default()), ids[0]), 0);
    assert_eq!(balancer.standing(ids[0], SECOND), Some(Standing::Out));
    // It comes back with a small share, and one failure is enough.
    let back = 2 + 10 * SECOND;
    assert_eq!(balancer.standing(ids[0], back), Some(Standing::Starting));
    let share = count(&shares(&mut balancer, back, Request::default()), ids[0]);
    assert!((1..150).contains(&share), "{share}");
    assert!(balancer.failed(ids[0], back, back));
    assert_eq!(balancer.standing(ids[0], back + 19 * SECOND), Some(Standing::Out));
    assert_eq!(balancer.standing(ids[0], back + 20 * SECOND), Some(Standing::Starting));
    assert_eq!(balancer.standing(ids[0], back + 30 * SECOND), Some(Standing::Up));
}

#[test]
fn an_answer_between_failures_begins_the_count_again() {
    let (mut balancer, ids) = balancer(2);
    for now in 0..20 {
        assert!(!balancer.failed(ids[0], now, now));
        balancer.answered(ids[0], now, now, false);
    }
    assert_eq!(balancer.report(30)[0].failures, 20);
}

#[test]
fn if_all_are_out_all_are_in_and_an_answer_brings_all_back() {
    let (mut balancer, ids) = balancer(3);
    for id in &ids[..2] {
        assert!([1, 2, 3].map(|now| balancer.failed(*id, now, now))[2]);
    }
    assert_eq!(balancer.checked(ids[2], 3, false), Some(false));
    assert!(balancer.is_everything_out(4));
    assert!(ids.iter().all(|id| count(&shares(&mut balancer, 4, Request::default()), *id) > 200));
    let wish = Request { prefers: Some(ids[1]), ..Request::default() };
    assert_eq!(count(&shares(&mut balancer, 4, wish), ids[1]), 1000, "visitors stay where they are");
    assert!(!balancer.answered(ids[0], 2, 5, false), "it began before it was put out");
    assert!(balancer.is_everything_out(5));
    assert!(balancer.answered(ids[0], 4, 6, false));
    let standings: Vec<_> = ids.iter().filter_map(|id| balancer.standing(*id, 7)).collect();
    assert_eq!(standings, [Standing::Up, Standing::Up, Standing::Failing]);
    assert!(ids[..2].iter().all(|id| count(&shares(&mut balancer, 7, Request::default()), *id) > 400));
    // One that is still dead is out by its next failure.
    assert!(balancer.failed(ids[1], 7, 8));
    assert_eq!(balancer.standing(ids[1], 8 + 19 * SECOND), Some(Standing::Out));
    assert_eq!(count(&shares(&mut balancer, 9, Request::default()), ids[0]), 1000);
}

#[test]
fn an_answer_brings_back_none_but_its_host_while_others_are_in() {
    let (mut balancer, ids) = balancer(3);
    for id in &ids[..2] {
        assert!([1, 2, 3].map(|now| balancer.failed(*id, now, now))[2]);
    }
    assert!(balancer.answered(ids[0], 4, 5, false));
    assert_eq!(balancer.standing(ids[1], 6), Some(Standing::Out));
}

#[test]
fn how_a_request_ends_that_is_older_than_the_time_out_says_nothing() {
    let (mut balancer, ids) = balancer(2);
    assert!([1, 2, 3].map(|now| balancer.failed(ids[0], now, now))[2]);
    let back = 3 + 10 * SECOND;
    assert!(!balancer.failed(ids[0], 2, back), "it failed when the host was down");
    assert_eq!(balancer.standing(ids[0], back), Some(Standing::Starting));
    assert!(!balancer.answered(ids[0], 2, back, true));
    assert_eq!((balancer.report(back)[0].failures, balancer.report(back)[0].first_byte), (4, None));
    assert!(balancer.failed(ids[0], back, back + 1), "an old answer does not begin the count again");
}

#[test]
fn the_first_answer_after_a_time_out_is_known() {
    let (mut balancer, ids) = balancer(2);
    assert!(!balancer.answered(ids[0], 0, 0, false));
    assert!([1, 2, 3].map(|now| balancer.failed(ids[0], now, now))[2]);
    let back = 3 + 10 * SECOND;
    assert!(balancer.answered(ids[0], back, back + 1, false));
    assert_eq!(balancer.standing(ids[0], back + 1), Some(Standing::Starting), "its share still grows");
    assert!(!balancer.answered(ids[0], back, back + 2, false));
}

#[test]
fn a_request_that_failed_goes_to_a_host_that_it_was_not_with() {
    let (mut balancer, ids) = balancer(3);
    assert!([0, 1, 2].map(|now| balancer.failed(ids[1], now, now))[2]);
    let after = |balancer: &mut Balancer, tried: &[HostId]| balancer.choose(9, Request { tried, ..Request::default() });
    assert_eq!(after(&mut balancer, &[ids[0]]), Some(ids[2]));
    // Rather one that is out than none.
    assert_eq!(after(&mut balancer, &[ids[0], ids[2]]), Some(ids[1]));
    assert_eq!(after(&mut balancer, &ids), None);
}

#[test]
fn a_health_check_that_fails_twice_drains_a_host() {
    let (mut balancer, ids) = balancer(2);
    balancer.answered(ids[0], 0, 9_000_000, true);
    assert_eq!(balancer.checked(ids[0], 0, true), None);
    assert_eq!(balancer.checked(ids[0], 1, false), None);
    assert_eq!(balancer.checked(ids[0], 2, true), None);
    assert_eq!(balancer.checked(ids[0], 3, false), None);
    assert_eq!(balancer.checked(ids[0], 4, false), Some(false));
    assert_eq!(balancer.standing(ids[0], 4), Some(Standing::Failing));
    assert_eq!(count(&shares(&mut balancer, 4, Request::default()), ids[0]), 0);
    assert_eq!(balancer.checked(ids[0], 5, true), None);
    assert_eq!(balancer.checked(ids[0], 6, true), Some(true));
    assert_eq!(balancer.report(6)[0].first_byte, None, "what was learned before says nothing");
    assert_eq!(balancer.standing(ids[0], 7), Some(Standing::Starting));
    // The very first check decides alone.
    assert_eq!(balancer.checked(ids[1], 8, false), Some(false));
}

#[test]
fn a_visitor_stays_with_a_host_that_is_in() {
    let (mut balancer, ids) = balancer(3);
    (0..5).for_each(|_| balancer.begin(ids[2]));
    let wish = Request { prefers: Some(ids[2]), ..Request::default() };
    assert_eq!(count(&shares(&mut balancer, 0, wish), ids[2]), 1000);
    assert!([0, 1, 2].map(|now| balancer.failed(ids[2], now, now))[2]);
    assert_eq!(count(&shares(&mut balancer, 4, wish), ids[2]), 0);
    assert!(balancer.choose(0, Request { prefers: Some(HostId(99)), ..Request::default() }).is_some());
}

#[test]
fn websockets_weigh_little_for_requests_and_fully_among_themselves() {
    let (mut balancer, ids) = balancer(2);
    for _ in 0..3 {
        balancer.begin(ids[0]);
        balancer.tunnel(ids[0]);
    }
    let tunnel = Request { is_tunnel: true, ..Request::default() };
    assert_eq!(count(&shares(&mut balancer, 0, tunnel), ids[1]), 1000);
    assert!(count(&shares(&mut balancer, 0, Request::default()), ids[0]) > 300);
    assert_eq!(balancer.report(0)[0].pending, 3);
    balancer.end(ids[0], true);
    assert_eq!(balancer.report(0)[0].pending, 2);
}

#[test]
fn a_host_that_leaves_finishes_its_requests_and_is_forgotten() {
    let (mut balancer, ids) = balancer(2);
    balancer.begin(ids[0]);
    balancer.remove(ids[0]);
    assert_eq!(balancer.standing(ids[0], 0), Some(Standing::Leaving));
    assert_eq!(count(&shares(&mut balancer, 0, Request::default()), ids[0]), 0);
    assert!(!(0..9).any(|now| balancer.failed(ids[1], now, now)), "the other one is the only one");
    balancer.end(ids[0], false);
    assert_eq!(balancer.report(0).len(), 1);
    balancer.remove(ids[1]);
    assert_eq!(balancer.choose(0, Request::default()), None);
    let later = balancer.add(Some(0));
    assert!(!ids.contains(&later));
    assert_eq!(balancer.choose(0, Request::default()), Some(later));
}
