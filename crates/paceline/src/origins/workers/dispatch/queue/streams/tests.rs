//! Streams of a worker whose threads nobody answers for, on a clock that stands still.

use std::{
    io::{ErrorKind, Read},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use tokio::sync::mpsc;

use super::*;
use crate::origins::workers::dispatch::queue::{Class, Depth, RequestLine};
use unix_user::RunAs;

const LONG: Duration = Duration::from_secs(60);
const WORKER: WorkerId = 1;

/// A worker with `threads` threads, and the far ends of their channels.
struct Bench {
    queue: Arc<Queue>,
    complaints: mpsc::UnboundedReceiver<(WorkerId, Complaint)>,
    ends: Vec<UnixStream>,
}

impl Bench {
    fn new(threads: usize, spare: usize) -> Bench {
        let (sender, complaints) = mpsc::unbounded_channel();
        let queue = Queue::with_streams(10, StreamThreads { threads, spare });
        queue.join(WORKER, threads, RunAs::own(), sender);
        let mut bench = Bench { queue, complaints, ends: Vec::new() };
        (1..=threads).for_each(|thread| bench.open(thread));
        bench
    }

    /// The worker's thread of this number opens a channel.
    fn open(&mut self, thread: usize) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        self.ends.push(theirs);
        self.queue.add(WORKER, Channel::new(OwnedFd::from(ours), thread, &unix_user::RunAs::Ourselves).unwrap());
    }

    async fn lease(&self) -> Lease {
        self.queue.checkout(RequestLine::get("/events"), LONG, None, None).await.unwrap()
    }

    async fn stream(&self) -> Lease {
        let mut lease = self.lease().await;
        lease.step_aside();
        lease
    }

    fn told(&mut self) -> Vec<Complaint> {
        std::iter::from_fn(|| self.complaints.try_recv().ok()).map(|(_, complaint)| complaint).collect()
    }

    /// Idle, busy and streams.
    fn depth(&self) -> (usize, usize, usize) {
        let Depth { idle, busy, streams, .. } = self.queue.depth();
        (idle, busy, streams)
    }

    /// Channels that the front has closed.
    fn closed(&mut self) -> usize {
        let is_closed = |end: &mut UnixStream| match end.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        self.ends.iter_mut().map(is_closed).filter(|closed| *closed).count()
    }
}

fn run(test: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test);
}

#[test]
fn another_thread_takes_the_place_of_a_stream_until_it_ends() {
    run(async {
        let mut bench = Bench::new(2, 5);
        let stream = bench.stream().await;
        assert_eq!((bench.told(), bench.depth()), (vec![Complaint::Spare], (1, 0, 1)));
        bench.open(3);
        let pages = [bench.lease().await, bench.lease().await];
        assert_eq!(bench.depth(), (0, 2, 1));
        stream.give_back();
        assert_eq!((bench.depth(), bench.closed()), ((0, 2, 0), 1));
        pages.into_iter().for_each(Lease::give_back);
        assert_eq!((bench.depth(), bench.closed(), bench.told()), ((2, 0, 0), 1, vec![]));
    });
}

#[test]
fn a_worker_may_have_other_threads_than_the_queue_was_made_for() {
    run(async {
        let (one, three) = (StreamThreads { threads: 1, spare: 0 }, StreamThreads { threads: 3, spare: 1 });
        let (sender, complaints) = mpsc::unbounded_channel();
        let queue = Queue::with_streams(10, one);
        queue.join_with(WORKER, three, RunAs::own(), sender);
        let mut bench = Bench { queue, complaints, ends: Vec::new() };
        (1..=3).for_each(|thread| bench.open(thread));
        assert_eq!((bench.depth(), bench.closed()), ((3, 0, 0), 0));
        let _stream = bench.stream().await;
        assert_eq!((bench.told(), bench.depth()), (vec![Complaint::Spare], (2, 0, 1)));
        let next = Queue::with_streams(10, one);
        bench.queue.hand_over(WORKER, &next, three);
        assert_eq!((next.depth().idle, bench.closed()), (2, 0));
    });
}

#[test]
fn a_stream_that_ends_before_its_spare_thread_comes_keeps_its_own() {
    run(async {
        let mut bench = Bench::new(1, 5);
        bench.stream().await.give_back();
        assert_eq!((bench.depth(), bench.closed()), ((1, 0, 0), 0));
        bench.open(2);
        assert_eq!((bench.depth(), bench.closed(), bench.told()), ((1, 0, 0), 1, vec![Complaint::Spare]));
    });
}

#[test]
fn short_streams_ask_for_no_second_thread_while_one_comes() {
    run(async {
        let mut bench = Bench::new(1, 5);
        for _ in 0..10 {
            bench.stream().await.give_back();
        }
        assert_eq!(bench.told(), [Complaint::Spare]);
        bench.open(2);
        assert_eq!(bench.closed(), 1, "no stream is there any more");
        let stream = bench.stream().await;
        assert_eq!(bench.told(), [Complaint::Spare]);
        // It could not be made: the next stream asks again.
        tokio::time::advance(Duration::from_micros(COMES)).await;
        stream.give_back();
        let _stream = bench.stream().await;
        assert_eq!(bench.told(), [Complaint::Spare]);
    });
}

#[test]
fn a_stream_beyond_the_bound_keeps_its_place_until_another_ends() {
    run(async {
        let mut bench = Bench::new(2, 1);
        let first = bench.stream().await;
        bench.open(3);
        let second = bench.stream().await;
        assert_eq!((bench.told(), bench.depth()), (vec![Complaint::Spare, Complaint::NoSpare], (1, 1, 1)));
        first.give_back();
        assert_eq!((bench.depth(), bench.closed()), ((2, 0, 1), 0));
        second.give_back();
        assert_eq!((bench.depth(), bench.closed()), ((2, 0, 0), 1));
    });
}

#[test]
fn without_spare_threads_all_is_as_it_was() {
    run(async {
        let mut bench = Bench::new(1, 0);
        let stream = bench.stream().await;
        assert_eq!((bench.told(), bench.depth()), (vec![], (0, 1, 0)));
        stream.give_back();
        assert_eq!((bench.depth(), bench.closed()), ((1, 0, 0), 0));
    });
}

#[test]
fn the_thread_of_a_hijack_counts_as_a_stream_only_while_it_stays_in_the_app() {
    run(async {
        let mut bench = Bench::new(1, 5);
        let at_once = bench.lease().await.take();
        bench.open(1);
        tokio::time::sleep(2 * HIJACK).await;
        assert_eq!((bench.told(), bench.depth()), (vec![], (1, 0, 0)));

        let stays = bench.lease().await.take();
        tokio::time::sleep(2 * HIJACK).await;
        assert_eq!((bench.told(), bench.depth()), (vec![Complaint::Spare], (0, 0, 1)));
        bench.open(2);
        assert_eq!(bench.depth(), (1, 0, 1));
        bench.open(1);
        assert_eq!(bench.depth(), (1, 0, 0));
        assert_eq!(bench.closed(), 1);
        drop((at_once, stays));
    });
}

#[test]
fn the_thread_of_a_hijack_that_was_one_too_many_when_it_came_back_is_not_awaited() {
    run(async {
        let mut bench = Bench::new(1, 5);
        let mut stream = bench.stream().await;
        bench.open(2);
        let hijack = bench.lease().await;
        stream.disarm();
        bench.open(2);
        drop(hijack.take());
        tokio::time::sleep(2 * HIJACK).await;
        assert_eq!((bench.told(), bench.depth()), (vec![Complaint::Spare], (0, 0, 0)));
    });
}

#[test]
fn a_stream_of_a_crawler_keeps_its_place() {
    run(async {
        let mut bench = Bench::new(2, 5);
        for hijacks in [false, true] {
            let crawler = Class::Crawler { is_patient: false };
            let mut lease =
                bench.queue.checkout_as(crawler, RequestLine::get("/events"), LONG, None, None).await.unwrap();
            let taken = if hijacks {
                Err(lease.take().0)
            } else {
                lease.step_aside();
                Ok(lease)
            };
            tokio::time::sleep(2 * HIJACK).await;
            assert_eq!((bench.told(), bench.depth(), bench.queue.crawlers()), (vec![], (1, 1, 0), (0, 1)));
            match taken {
                Ok(lease) => lease.give_back(),
                Err(channel) => {
                    bench.open(channel.thread);
                }
            }
            assert_eq!((bench.depth(), bench.queue.crawlers()), ((2, 0, 0), (0, 0)));
        }
    });
}

#[test]
fn a_worker_that_leaves_is_busy_as_long_as_it_has_a_stream() {
    run(async {
        let bench = Bench::new(1, 5);
        let stream = bench.stream().await;
        assert!(!bench.queue.leave(WORKER));
        stream.give_back();
        assert!(bench.queue.leave(WORKER));
    });
}

#[test]
fn a_stream_that_begins_in_a_worker_that_leaves_has_its_thread_replaced_if_the_worker_stays() {
    run(async {
        let mut bench = Bench::new(2, 5);
        let mut lease = bench.lease().await;
        bench.queue.leave(WORKER);
        lease.step_aside();
        assert!(bench.told().is_empty(), "nobody gets its place");
        // Its idle threads have ended.
        assert_eq!(bench.queue.stay(WORKER), 1);
        bench.open(3);
        bench.open(4);
        assert_eq!(bench.depth(), (2, 0, 1));
        lease.give_back();
        assert_eq!(bench.depth(), (2, 0, 0));
        assert_eq!(bench.queue.stay(WORKER), 0);
    });
}

#[test]
fn a_route_is_known_by_the_time_until_its_streams_leave_the_count() {
    run(async {
        let bench = Bench::new(5, 5);
        let stream = bench.stream().await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        // It is not long: all threads are there for it.
        let mut leases = Vec::new();
        for _ in 0..4 {
            leases.push(bench.lease().await);
        }
        assert_eq!(bench.depth(), (0, 4, 1));
        drop((stream, leases));
    });
}
