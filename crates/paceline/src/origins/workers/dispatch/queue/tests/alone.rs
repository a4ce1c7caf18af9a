//! A request whose worker has died, and that is to be alone in the hands of the next one.

use super::*;

const ALONE_AGAIN: Again = Again { worker: 9, alone: true };

#[test]
fn what_a_worker_died_with_is_alone_in_the_next_one() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 2), (2, 2)]);
        let held = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let suspect = queue.checkout(PAGE, LONG, Some(ALONE_AGAIN), None).await.unwrap();
        assert_eq!((held.worker, suspect.worker), (1, 2));
        let beside = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        assert_eq!(beside.worker, 1);
        let mut waiting = Box::pin(queue.checkout(PAGE, LONG, None, None));
        assert!(waits(&mut waiting).await);
        suspect.give_back();
        assert_eq!(waiting.await.unwrap().worker, 2);
    });
}

#[test]
fn while_it_waits_to_be_alone_it_holds_back_nobody_and_what_comes_free_is_its_own() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 2)]);
        let held = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let mut suspect = Box::pin(queue.checkout(PAGE, LONG, Some(ALONE_AGAIN), None));
        assert!(waits(&mut suspect).await);
        let other = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let mut late = Box::pin(queue.checkout(PAGE, LONG, None, None));
        assert!(waits(&mut late).await);
        held.give_back();
        let third = late.await.unwrap();
        third.give_back();
        other.give_back();
        assert_eq!(suspect.await.unwrap().worker, 1);
    });
}

#[test]
fn it_waits_for_no_request_that_is_slow_and_holds_nobody_back_when_it_is_slow_itself() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 3)]);
        let _slow = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let came = Instant::now();
        let _suspect = queue.checkout(PAGE, LONG, Some(ALONE_AGAIN), None).await.unwrap();
        let _other = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let waited = came.elapsed();
        assert!(waited >= Duration::from_secs(2) && waited < Duration::from_millis(2_100), "{waited:?}");
    });
}

#[test]
fn whether_it_stayed_alone_is_known_when_its_worker_is_gone() {
    run(async {
        let accompanied = |lease: &Lease| lease.accompanied.as_ref().map(Accompanied::is_so);
        let (queue, _complaints) = queue(10, &[(1, 2), (2, 3), (3, 1)]);
        let slow = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let alone = queue.checkout(PAGE, LONG, Some(ALONE_AGAIN), None).await.unwrap();
        assert_eq!((slow.worker, accompanied(&slow), alone.worker, accompanied(&alone)), (1, None, 2, Some(false)));
        let others = [queue.checkout(PAGE, LONG, None, None).await, queue.checkout(PAGE, LONG, None, None).await];
        assert_eq!(others.each_ref().map(|other| other.as_ref().unwrap().worker), [3, 1]);
        let beside = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        queue.remove(2);
        assert_eq!((beside.worker, accompanied(&alone)), (2, Some(true)));
        others.into_iter().for_each(|other| other.unwrap().give_back());
        let beside_slow = queue.checkout(PAGE, LONG, Some(Again { worker: 3, alone: true }), None).await.unwrap();
        assert_eq!((beside_slow.worker, accompanied(&beside_slow)), (1, Some(true)));
    });
}

/// Its other channel is given to the next one before anybody knows that the worker is gone.
#[test]
fn what_is_given_to_a_worker_after_the_one_that_was_alone_is_no_company() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 2)]);
        let mut alone = queue.checkout(PAGE, LONG, Some(ALONE_AGAIN), None).await.unwrap();
        let accompanied = alone.accompanied.take().unwrap();
        let mut next = Box::pin(queue.checkout(PAGE, LONG, None, None));
        assert!(waits(&mut next).await);
        alone.disarm();
        let next = next.await.unwrap();
        assert_eq!((next.worker, accompanied.is_so()), (1, false));
        next.give_back();
    });
}

#[test]
fn a_worker_that_served_or_was_given_what_killed_another_has_done_no_wrong() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 1), (2, 1), (3, 1)]);
        queue.checkout(PAGE, LONG, None, None).await.unwrap().give_back();
        drop(queue.checkout(PAGE, LONG, None, None).await.unwrap());
        drop(queue.checkout(PAGE, LONG, Some(ALONE_AGAIN), None).await.unwrap());
        assert_eq!([1, 2, 3, 4].map(|worker| queue.remove(worker)), [true, true, false, false]);
    });
}
