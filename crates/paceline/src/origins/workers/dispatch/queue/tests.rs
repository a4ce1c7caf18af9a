//! The queue with channels that nobody answers, on a clock that stands still.

mod alone;

use super::*;
use std::{
    future::Future,
    os::{fd::OwnedFd, unix::net::UnixStream},
    pin::Pin,
    task::Poll,
};
use unix_user::RunAs;

pub(super) const PAGE: RequestLine = RequestLine::get("/page");
pub(super) const REPORT: RequestLine = RequestLine::get("/report");
const AGAIN: Again = Again { worker: 1, alone: false };
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) fn channel(thread: usize) -> Box<Channel> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::mem::forget(theirs);
    Channel::new(OwnedFd::from(ours), thread, &RunAs::Ourselves).unwrap()
}

pub(super) fn queue(
    max: usize,
    workers: &[(WorkerId, usize)],
) -> (Arc<Queue>, mpsc::UnboundedReceiver<(WorkerId, Complaint)>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let queue = Queue::new(max);
    for &(worker, threads) in workers {
        queue.join(worker, threads, RunAs::own(), sender.clone());
        (1..=threads).for_each(|thread| queue.add(worker, channel(thread)));
    }
    (queue, receiver)
}

pub(super) fn run(test: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test);
}

#[test]
fn requests_go_to_the_worker_with_the_fewest_busy_threads() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 2), (2, 2)]);
        let mut leases = Vec::new();
        for _ in 0..4 {
            leases.push(queue.checkout(PAGE, LONG, None, None).await.unwrap());
        }
        assert_eq!(leases.iter().map(|lease| lease.worker).collect::<Vec<_>>(), [1, 2, 1, 2]);
        leases.into_iter().for_each(Lease::give_back);
    });
}

/// Each is opened when nothing else is in hand.
#[test]
fn web_sockets_are_spread_over_the_workers_and_go_where_the_fewest_are_open() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 1), (2, 1), (3, 1)]);
        let open = || async {
            let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
            let worker = lease.worker;
            let (taken, hijacked) = lease.take();
            queue.add(worker, channel(taken.thread));
            (worker, hijacked)
        };
        let mut sockets = Vec::new();
        for _ in 0..6 {
            sockets.push(open().await);
        }
        assert_eq!(sockets.iter().map(|(worker, _)| *worker).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
        let counts = |queue: &Queue| {
            let mut tallies: Vec<_> = queue.tallies().iter().map(|one| (one.id, one.hijacked)).collect();
            tallies.sort_unstable();
            tallies
        };
        assert_eq!(counts(&queue), [(1, 2), (2, 2), (3, 2)]);
        sockets.retain(|(worker, _)| *worker != 3);
        assert_eq!([open().await.0, open().await.0], [3, 3], "its connections were closed");
        // They stay with their workers where other settings come into force.
        let next = Queue::new(10);
        queue.hand_over(2, &next, StreamThreads::default());
        assert_eq!(counts(&next), [(2, 2)]);
        queue.remove(1);
        drop(sockets);
        assert_eq!(counts(&next), [(2, 0)]);
    });
}

#[test]
fn a_freed_thread_takes_the_oldest_request_and_skips_those_that_left() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 1)]);
        let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for name in ["first", "second", "third"] {
            let (queue, order) = (queue.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
                order.lock().push(name);
                lease.give_back();
            }));
            tokio::task::yield_now().await;
        }
        tasks[1].abort();
        tokio::task::yield_now().await;
        assert_eq!(queue.depth(), Depth { waiting: 2, idle: 0, busy: 1, streams: 0 });
        lease.give_back();
        for (index, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.is_ok(), index != 1);
        }
        assert_eq!(*order.lock(), ["first", "third"]);
        assert_eq!(queue.depth(), Depth { waiting: 0, idle: 1, busy: 0, streams: 0 });
    });
}

#[test]
fn a_retried_request_goes_to_the_head() {
    run(async {
        let (queue, _complaints) = queue(1, &[(1, 1)]);
        let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (name, again) in [("new", None), ("retried", Some(Again { worker: 9, alone: false }))] {
            let (queue, order) = (queue.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let lease = queue.checkout(PAGE, LONG, again, None).await.unwrap();
                order.lock().push(name);
                lease.give_back();
            }));
            tokio::task::yield_now().await;
        }
        lease.give_back();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["retried", "new"]);
    });
}

#[test]
fn a_retried_request_takes_no_channel_that_its_dead_worker_left() {
    run(async {
        let (queue, _complaints) = queue(1, &[(1, 2)]);
        let mut lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        lease.disarm();
        let retried = tokio::spawn({
            let queue = queue.clone();
            async move { queue.checkout(PAGE, LONG, Some(AGAIN), None).await.unwrap().worker }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.depth(), Depth { waiting: 1, idle: 1, busy: 0, streams: 0 });
        let (sender, _receiver) = mpsc::unbounded_channel();
        queue.join(2, 1, RunAs::own(), sender);
        queue.add(2, channel(1));
        assert_eq!(retried.await.unwrap(), 2);
    });
}

#[test]
fn a_retried_request_is_given_to_no_worker_that_may_be_ended_soon() {
    run(async {
        let (queue, _complaints) = queue(1, &[(1, 1), (2, 1)]);
        queue.spare(&HashSet::from([1]));
        let retried = || queue.checkout(PAGE, LONG, Some(Again { worker: 9, alone: true }), None);
        let lease = retried().await.unwrap();
        assert_eq!(lease.worker, 2);
        lease.give_back();
        queue.spare(&HashSet::from([2]));
        assert_eq!(retried().await.unwrap().worker, 1);
    });
}

/// As the worker of an application does that has closed its process's sockets.
#[test]
fn a_worker_that_opens_no_channel_in_the_place_of_its_last_is_reported() {
    run(async {
        let (queue, mut complaints) = queue(10, &[(1, 2), (2, 1)]);
        let mut first = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let mut second = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        assert_eq!((first.worker, second.worker), (1, 2));
        let thread = first.channel().thread;
        first.disarm();
        second.disarm();
        // One has opened another at once; the other's worker ends.
        queue.add(1, channel(thread));
        queue.remove(2);
        tokio::time::sleep(LONG).await;
        assert!(complaints.try_recv().is_err());

        let mut lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let thread = lease.channel().thread;
        lease.disarm();
        tokio::time::sleep(LONG).await;
        let (worker, complaint) = complaints.try_recv().unwrap();
        let reason = "its channel has ended, and it opens no other".into();
        assert_eq!((worker, complaint), (1, Complaint::Replace { thread, reason }));
        // The thread of a hijack may stay in the app for as long as it likes.
        drop(queue.checkout(PAGE, LONG, None, None).await.unwrap().take());
        tokio::time::sleep(LONG).await;
        assert!(complaints.try_recv().is_err());
    });
}

#[test]
fn a_thread_has_one_channel() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 2)]);
        (0..100).for_each(|_| queue.add(1, channel(1)));
        assert_eq!(queue.depth(), Depth { waiting: 0, idle: 2, busy: 0, streams: 0 });
    });
}

#[test]
fn the_queue_is_bounded_by_count_and_by_age() {
    run(async {
        let (queue, _complaints) = queue(1, &[(1, 1)]);
        let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.checkout(PAGE, Duration::from_millis(50), None, None).await.err() }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.checkout(PAGE, LONG, None, None).await.err(), Some(Refused::Full));
        assert_eq!(waiting.await.unwrap(), Some(Refused::TooOld));
        assert_eq!(queue.depth().waiting, 0);
        lease.give_back();
    });
}

#[test]
fn a_lease_that_is_lost_is_reported_and_a_leaving_worker_gets_nothing() {
    run(async {
        let (queue, mut complaints) = queue(1, &[(1, 2)]);
        drop(queue.checkout(PAGE, LONG, None, None).await.unwrap());
        assert!(matches!(complaints.recv().await, Some((1, Complaint::Replace { .. }))));
        let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        assert!(!queue.leave(1));
        lease.give_back();
        assert!(queue.leave(1));
        assert_eq!(queue.depth(), Depth { waiting: 0, idle: 0, busy: 0, streams: 0 });
    });
}

/// The supervisor hears a complaint on another thread, and asks at once whether the worker has anything else in hand.
#[test]
fn a_lease_that_is_given_up_has_left_its_place_before_it_is_reported() {
    run(async {
        let (queue, mut complaints) = queue(1, &[(1, 1)]);
        let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let held = queue.lock();
        let giving_up = std::thread::spawn(move || drop(lease));
        std::thread::sleep(Duration::from_millis(50));
        assert!(complaints.try_recv().is_err(), "reported while its place was taken");
        drop(held);
        giving_up.join().unwrap();
        assert!(matches!(complaints.try_recv(), Ok((1, Complaint::Replace { .. }))));
        assert!(queue.leave(1));
    });
}

/// A queue that knows a page as short and a report as long.
pub(super) async fn learned(
    workers: &[(WorkerId, usize)],
) -> (Arc<Queue>, mpsc::UnboundedReceiver<(WorkerId, Complaint)>) {
    let (queue, complaints) = queue(100, workers);
    for _ in 0..30 {
        for (request, time, times) in [(PAGE, 5, 9), (REPORT, 200, 1)] {
            for _ in 0..times {
                let lease = queue.checkout(request, LONG, None, None).await.unwrap();
                tokio::time::advance(Duration::from_millis(time)).await;
                lease.give_back();
            }
        }
    }
    (queue, complaints)
}

#[test]
fn a_worker_that_stays_after_all_gets_requests_again_and_keeps_its_count() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 2)]);
        queue.checkout(PAGE, LONG, None, None).await.unwrap().give_back();
        let held = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        queue.leave(1);
        assert!(queue.tallies()[0].leaving);
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.checkout(PAGE, LONG, None, None).await.unwrap().channel().thread }
        });
        tokio::task::yield_now().await;

        queue.stay(1);
        queue.add(1, channel(7));
        assert_eq!(waiting.await.unwrap(), 7);
        held.give_back();
        assert_eq!((queue.tallies()[0].answered, queue.tallies()[0].leaving), (2, false));
        assert_eq!(queue.depth().idle, 1, "the thread that was busy is idle");
    });
}

#[test]
fn long_requests_leave_threads_to_others_and_are_spread() {
    run(async {
        let (queue, _complaints) = learned(&[(1, 5), (2, 5)]).await;
        let mut reports = Vec::new();
        for _ in 0..8 {
            reports.push(queue.checkout(REPORT, LONG, None, None).await.unwrap());
        }
        assert_eq!(reports.iter().filter(|lease| lease.worker == 1).count(), 4);
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.checkout(REPORT, LONG, None, None).await.unwrap().give_back() }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.depth(), Depth { waiting: 1, idle: 2, busy: 8, streams: 0 });
        // Both threads that are left are for pages, each on a worker of its own.
        let pages = [
            queue.checkout(PAGE, LONG, None, None).await.unwrap(),
            queue.checkout(PAGE, LONG, None, None).await.unwrap(),
        ];
        assert_eq!(pages.iter().map(|lease| lease.worker).collect::<Vec<_>>(), [1, 2]);
        pages.into_iter().for_each(Lease::give_back);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        // One whose worker dies makes room as well.
        reports.pop().unwrap().disarm();
        waiting.await.unwrap();
        reports.into_iter().for_each(Lease::give_back);
    });
}

#[test]
fn a_long_request_is_served_under_an_endless_stream_of_short_ones() {
    run(async {
        let (queue, _complaints) = learned(&[(1, 2)]).await;
        let busy = [
            queue.checkout(PAGE, LONG, None, None).await.unwrap(),
            queue.checkout(PAGE, LONG, None, None).await.unwrap(),
        ];
        let came = Instant::now();
        let report = tokio::spawn({
            let queue = queue.clone();
            async move { queue.checkout(REPORT, LONG, None, None).await.map(|lease| (came.elapsed(), lease)).unwrap() }
        });
        tokio::task::yield_now().await;
        // Whenever a page is done two more have come.
        for lease in busy {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut lease = lease;
                loop {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    lease.give_back();
                    lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
                }
            });
        }
        for _ in 0..4 {
            let queue = queue.clone();
            tokio::spawn(async move {
                loop {
                    let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    lease.give_back();
                }
            });
        }
        let (waited, lease) = report.await.unwrap();
        let bound = Duration::from_micros(line::LONGEST_PATIENCE) + Duration::from_millis(20);
        assert!(waited > Duration::from_millis(300) && waited < bound, "{waited:?}");
        drop(lease);
    });
}

#[test]
fn an_old_request_holds_nobody_back() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 3)]);
        queue.limit(1, 1);
        let came = Instant::now();
        let mut leases = Vec::new();
        for path in ["/a", "/b", "/c"] {
            leases.push(queue.checkout(RequestLine::get(path), LONG, None, None).await.unwrap());
        }
        let waited = came.elapsed().as_micros() as Micros;
        assert!((2 * YOUNG..2 * YOUNG + 50_000).contains(&waited), "{waited}");
        leases.into_iter().for_each(Lease::give_back);
    });
}

#[test]
fn no_more_requests_of_a_worker_are_young_than_may_be() {
    run(async {
        let (queue, _complaints) = queue(10, &[(1, 4)]);
        queue.limit(1, 1);
        let lease = queue.checkout(PAGE, LONG, None, None).await.unwrap();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.checkout(PAGE, LONG, None, None).await.unwrap() }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.occupied(), [WorkerLoad { id: 1, limit: 1, young: 1 }]);
        assert_eq!(queue.depth(), Depth { waiting: 1, idle: 3, busy: 1, streams: 0 });
        queue.limit(1, 2);
        let second = waiting.await.unwrap();
        assert_eq!(queue.depth(), Depth { waiting: 0, idle: 2, busy: 2, streams: 0 });
        lease.give_back();
        second.give_back();
    });
}

pub(super) async fn waits<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}
