//! Requests in mailboxes that no worker reads: the test plays the thread, through the memory's descriptor.

use std::{
    future::Future,
    io::Read,
    os::{fd::OwnedFd, unix::net::UnixStream},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use rustix::{
    fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags},
    io::{pread, pwrite},
};
use tokio::sync::mpsc;
use unix_user::RunAs;

use super::{super::*, Offer, WAKE};
use crate::origins::workers::dispatch::conversation::abandon;

const PAGE: RequestLine = RequestLine::get("/page");
const QUICK: RequestLine = RequestLine::get("/quick");
const REPORT: RequestLine = RequestLine::get("/report");
const LONG: Duration = Duration::from_secs(60);
/// Offsets in a mailbox, and the state of a request (docs/worker-protocol.md).
const WRITTEN: u64 = 64;
const SLEEPS: u64 = 192;
const FIRST_REQUEST: u64 = 4096;
const QUEUED: u64 = 1;
const CLAIMED: u64 = 2;
const REVOKED: u64 = 3;

/// The worker's side of a thread.
struct Thread {
    memory: OwnedFd,
    socket: UnixStream,
}

impl Thread {
    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        pread(&self.memory, &mut word, at).unwrap();
        u64::from_ne_bytes(word)
    }

    fn set(&self, at: u64, word: u64) {
        pwrite(&self.memory, &word.to_ne_bytes(), at).unwrap();
    }

    /// Number and state of the first request that was posted.
    fn first(&self) -> (u64, u64) {
        let word = self.word(FIRST_REQUEST);
        (word >> 2, word & 3)
    }
}

/// A channel of a thread, and the thread's side of it.
fn channel(thread: usize) -> (Box<Channel>, Thread) {
    let memory = memfd_create("mailbox", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, mailbox::SIZE as u64).unwrap();
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    let (ours, socket) = UnixStream::pair().unwrap();
    (
        Channel::new(ours.into(), thread, &unix_user::RunAs::Ourselves).unwrap().with_mailbox(&memory).unwrap(),
        Thread { memory, socket },
    )
}

/// A queue with one worker that may have `limit` requests at once, and its threads.
fn queue(threads: usize, limit: usize) -> (Arc<Queue>, Vec<Thread>, mpsc::UnboundedReceiver<(WorkerId, Complaint)>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let queue = Queue::new(100);
    queue.join(1, limit, RunAs::own(), sender);
    let mut sides = Vec::new();
    for thread in (1..=threads).rev() {
        let (channel, side) = channel(thread);
        queue.add(1, channel);
        sides.push(side);
    }
    // By their numbers.
    sides.reverse();
    (queue, sides, receiver)
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test);
}

async fn waits<F: Future>(future: &mut Pin<Box<F>>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// A request that may be posted.
fn ask<'a>(queue: &'a Arc<Queue>, number: u64, request: RequestLine<'a>) -> Pin<Box<impl Future<Output = Lease> + 'a>> {
    let offer = Offer::new(number, &Bytes::from_static(b"frame"), abandon);
    Box::pin(async move { queue.checkout(request, LONG, None, offer).await.unwrap() })
}

/// Teaches what requests take: pages 5 ms, reports 200.
async fn learn(queue: &Arc<Queue>) {
    for _ in 0..30 {
        for (request, time, times) in [(PAGE, 5, 9), (REPORT, 200, 1)] {
            for _ in 0..times {
                let lease = queue.checkout(request, LONG, None, None).await.unwrap();
                tokio::time::advance(Duration::from_millis(time)).await;
                lease.give_back();
            }
        }
    }
}

/// It gave the one away that the third request came through, and the front learns of that first.
#[test]
fn what_lies_behind_a_request_stays_when_its_thread_opens_another_channel() {
    run(async {
        let (queue, threads, _complaints) = queue(1, 2);
        learn(&queue).await;
        for _ in 0..30 {
            let lease = queue.checkout(QUICK, LONG, None, None).await.unwrap();
            tokio::time::advance(Duration::from_micros(500)).await;
            lease.give_back();
        }
        threads[0].set(SLEEPS, 1);
        let first = ask(&queue, 1, QUICK).await;
        let mut second = ask(&queue, 2, QUICK);
        assert!(waits(&mut second).await);
        let (channel, _side) = channel(1);
        queue.add(1, channel);
        let third = ask(&queue, 3, PAGE).await;
        assert_eq!(threads[0].first(), (2, QUEUED));
        first.give_back();
        let second = second.await;
        assert!(second.posted.is_some());
        second.give_back();
        third.give_back();
    });
}

/// Otherwise what is sent through the socket for this one may be read by who takes the connection over.
#[test]
fn what_the_thread_has_claimed_behind_a_request_tells_that_it_is_past_it() {
    run(async {
        for (claimed, expected) in [(false, REVOKED), (true, CLAIMED)] {
            let (queue, threads, _complaints) = queue(1, 1);
            learn(&queue).await;
            threads[0].set(SLEEPS, 1);
            let mut at_work = ask(&queue, 1, PAGE).await;
            let mut next = ask(&queue, 2, PAGE);
            assert!(waits(&mut next).await);
            if claimed {
                threads[0].set(FIRST_REQUEST, 2 << 2 | CLAIMED);
            }
            assert_eq!(at_work.release_all(), !claimed);
            assert_eq!(threads[0].first(), (2, expected));
            assert_eq!(at_work.release_all(), !claimed, "and again");
            at_work.give_back();
            next.await.give_back();
        }
    });
}

#[test]
fn when_no_thread_is_idle_the_next_request_lies_behind_the_one_at_work() {
    run(async {
        let (queue, threads, _complaints) = queue(1, 1);
        learn(&queue).await;
        threads[0].set(SLEEPS, 1);
        let at_work = ask(&queue, 1, PAGE).await;
        let mut next = ask(&queue, 2, PAGE);
        let mut last = ask(&queue, 3, PAGE);
        assert!(waits(&mut next).await && waits(&mut last).await);
        assert_eq!(threads[0].first(), (2, QUEUED));
        assert_eq!(threads[0].word(WRITTEN), 32, "one is enough, and the last one waits in the line");
        at_work.give_back();
        let lease = next.await;
        assert!(lease.posted.is_some());
        assert_eq!(threads[0].word(WRITTEN), 64, "now the last one lies behind it");
        lease.give_back();
        last.await.give_back();
    });
}

#[test]
fn a_thread_that_becomes_idle_first_has_it() {
    run(async {
        let (queue, threads, _complaints) = queue(2, 1);
        learn(&queue).await;
        threads[0].set(SLEEPS, 1);
        threads[1].set(SLEEPS, 1);
        let at_work = ask(&queue, 1, PAGE).await;
        let mut next = ask(&queue, 2, PAGE);
        assert!(waits(&mut next).await);
        assert_eq!(threads[0].first(), (2, QUEUED));
        queue.limit(1, 2);
        let mut lease = next.await;
        assert_eq!(lease.channel().thread, 2);
        assert_eq!(threads[0].first(), (2, REVOKED));
        lease.give_back();
        at_work.give_back();
    });
}

#[test]
fn a_worker_that_has_more_in_hand_than_it_may_comes_to_rest_first() {
    run(async {
        let (queue, threads, _complaints) = queue(2, 2);
        learn(&queue).await;
        let at_work = [ask(&queue, 1, PAGE).await, ask(&queue, 2, PAGE).await];
        queue.limit(1, 1);
        let written = || threads.iter().map(|thread| thread.word(WRITTEN)).sum::<u64>();
        let before = written();
        let mut next = ask(&queue, 3, PAGE);
        assert!(waits(&mut next).await);
        assert_eq!(written(), before);
        let [first, second] = at_work;
        first.give_back();
        assert!(waits(&mut next).await);
        assert_eq!(written(), before + 32, "it lies behind the one that is left");
        second.give_back();
        next.await.give_back();
    });
}

#[test]
fn a_long_request_has_its_turn_although_short_ones_could_be_posted() {
    run(async {
        let (queue, _threads, _complaints) = queue(1, 1);
        learn(&queue).await;
        let at_work = ask(&queue, 1, PAGE).await;
        let mut report = ask(&queue, 2, REPORT);
        assert!(waits(&mut report).await);
        let mut soon = ask(&queue, 3, PAGE);
        assert!(waits(&mut soon).await);
        tokio::time::advance(Duration::from_micros(line::LONGEST_PATIENCE)).await;
        let mut late = ask(&queue, 4, PAGE);
        assert!(waits(&mut late).await);
        at_work.give_back();
        soon.await.give_back();
        let report = report.await;
        assert!(waits(&mut late).await);
        report.give_back();
        late.await.give_back();
    });
}

#[test]
fn a_thread_that_sleeps_is_sent_the_request_and_is_woken_if_that_has_left() {
    run(async {
        let (queue, mut threads, _complaints) = queue(1, 1);
        threads[0].set(SLEEPS, 1);
        let lease = ask(&queue, 1, PAGE).await;
        assert!(lease.posted.is_none());
        assert_eq!(threads[0].word(SLEEPS), 0);
        lease.give_back();
        let mut wake = [0; 5];
        threads[0].socket.read_exact(&mut wake).unwrap();
        assert_eq!(wake, WAKE);
    });
}
