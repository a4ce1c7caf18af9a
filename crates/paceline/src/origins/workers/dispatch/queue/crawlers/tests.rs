//! Crawlers beside visitors, with channels that nobody answers, on a clock that stands still.

use std::pin::Pin;

use tokio::sync::mpsc;

use super::{
    super::{
        tests::{learned, queue, run, waits, LONG, PAGE, REPORT},
        Complaint, Depth, WorkerId, YOUNG,
    },
    *,
};

const CRAWLER: Class = Class::Crawler { is_patient: false };
const PATIENT: Class = Class::Crawler { is_patient: true };

type Checkout<'a> = Pin<Box<dyn std::future::Future<Output = Result<Lease, Refused>> + 'a>>;
type Complaints = mpsc::UnboundedReceiver<(WorkerId, Complaint)>;

/// A queue for a hundred, in which ten crawlers may wait.
fn hundred(workers: &[(WorkerId, usize)]) -> (Arc<Queue>, Complaints) {
    queue(100, workers)
}

fn come<'a>(queue: &'a Arc<Queue>, class: Class) -> Checkout<'a> {
    Box::pin(queue.checkout_as(class, PAGE, class.patience(LONG, None), None, None))
}

async fn take(queue: &Arc<Queue>, class: Class) -> Lease {
    queue.checkout_as(class, PAGE, LONG, None, None).await.unwrap()
}

async fn pass(micros: Micros) {
    tokio::time::advance(Duration::from_micros(micros)).await;
}

#[test]
fn a_crawler_waits_for_visitors_that_came_after_it() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 1)]);
        let held = take(&queue, Class::Visitor).await;
        let mut crawler = come(&queue, CRAWLER);
        assert!(waits(&mut crawler).await);
        let mut visitor = come(&queue, Class::Visitor);
        assert!(waits(&mut visitor).await);
        assert_eq!(queue.depth(), Depth { waiting: 1, idle: 0, busy: 1, streams: 0 });
        assert_eq!(queue.crawlers(), (1, 0));
        held.give_back();
        assert!(waits(&mut crawler).await);
        visitor.await.unwrap().give_back();
        crawler.await.unwrap().give_back();
        assert_eq!(queue.depth(), Depth { waiting: 0, idle: 1, busy: 0, streams: 0 });
    });
}

#[test]
fn one_at_a_time_for_each_four_workers_and_never_the_last_thread() {
    run(async {
        for (workers, at_once) in [(1, 1), (3, 1), (4, 1), (8, 2), (9, 2), (12, 3)] {
            let workers: Vec<_> = (1..=workers).map(|id| (id, 2)).collect();
            let (queue, _complaints) = hundred(&workers);
            let mut leases = Vec::new();
            for _ in 0..at_once {
                leases.push(take(&queue, CRAWLER).await);
            }
            assert!(waits(&mut come(&queue, CRAWLER)).await);
            assert_eq!(queue.crawlers(), (0, at_once), "one that leaves does not wait any more");
            leases.into_iter().for_each(Lease::give_back);
        }
        let (queue, _complaints) = hundred(&[(1, 2)]);
        let held = take(&queue, Class::Visitor).await;
        let mut crawler = come(&queue, CRAWLER);
        assert!(waits(&mut crawler).await);
        pass(10 * PICKY).await;
        assert!(waits(&mut crawler).await, "one thread is idle, and it is for visitors");
        held.give_back();
        assert!(!waits(&mut crawler).await);
    });
}

#[test]
fn the_first_of_the_crawlers_is_the_first_to_go() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 1)]);
        let held = take(&queue, CRAWLER).await;
        let [mut first, mut second, mut third] = [(); 3].map(|()| come(&queue, CRAWLER));
        assert!(waits(&mut first).await && waits(&mut second).await && waits(&mut third).await);
        drop(first);
        held.give_back();
        assert!(waits(&mut third).await);
        second.await.unwrap().give_back();
        third.await.unwrap().give_back();
    });
}

#[test]
fn while_visitors_come_crawlers_rest_and_are_woken_when_that_is_over() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 2)]);
        let crawler = take(&queue, CRAWLER).await;
        pass(10_000).await;
        take(&queue, Class::Visitor).await.give_back();
        crawler.give_back();
        let began = queue.now();
        let next = take(&queue, CRAWLER).await;
        let rested = queue.now() - began;
        assert!((30_000..32_000).contains(&rested), "{rested}");
        next.give_back();

        // A second after the last visitor nobody is there for whom they would have to.
        pass(VISITORS_STAY).await;
        take(&queue, CRAWLER).await.give_back();
        let began = queue.now();
        take(&queue, CRAWLER).await.give_back();
        assert_eq!(queue.now(), began);
    });
}

#[test]
fn a_long_request_makes_no_crawler_rest_for_ever() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 4)]);
        let crawler = take(&queue, CRAWLER).await;
        pass(60_000_000).await;
        crawler.give_back();
        let mut next = come(&queue, CRAWLER);
        assert!(!waits(&mut next).await, "no visitor came");
        let mut rest = Rest::default();
        rest.visitor_comes(0);
        rest.begin(60_000_000, 1, 0);
        assert_eq!((rest.left(1), rest.left(VISITORS_STAY)), (Some(LONGEST_REST - 1), None));
    });
}

#[test]
fn what_crawlers_did_while_nobody_came_does_not_add_up() {
    let mut rest = Rest::default();
    (0..1_000).for_each(|_| rest.begin(10_000_000, 1, 0));
    rest.begin(Micros::MAX, 1, 0);
    rest.visitor_comes(0);
    assert_eq!(rest.left(0), Some(LONGEST_REST));
}

#[test]
fn it_prefers_a_worker_that_is_undisturbed_but_does_not_wait_for_ever() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 3)]);
        let visitor = take(&queue, Class::Visitor).await;
        let began = queue.now();
        let crawler = take(&queue, CRAWLER).await;
        let waited = queue.now() - began;
        assert!((YOUNG..YOUNG + 300_000).contains(&waited), "the visitor's has grown old: {waited}");
        crawler.give_back();
        visitor.give_back();

        // Young ones are always there.
        let (queue, _complaints) = hundred(&[(1, 3)]);
        let mut crawler = come(&queue, CRAWLER);
        let mut visitor = take(&queue, Class::Visitor).await;
        let came = queue.now();
        while waits(&mut crawler).await {
            pass(50_000).await;
            let next = take(&queue, Class::Visitor).await;
            std::mem::replace(&mut visitor, next).give_back();
        }
        let waited = queue.now() - came;
        assert!(waited < PICKY + 300_000, "{waited}");
        visitor.give_back();
    });
}

#[test]
fn crawlers_are_refused_long_before_visitors() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 1)]);
        let _held = take(&queue, Class::Visitor).await;
        let mut waiting: Vec<_> = (0..10).map(|_| come(&queue, CRAWLER)).collect();
        for one in &mut waiting {
            assert!(waits(one).await);
        }
        assert_eq!(come(&queue, CRAWLER).await.err(), Some(Refused::CrawlersFull));
        let mut list = come(&queue, PATIENT);
        assert!(waits(&mut list).await, "a sitemap is not refused so soon");
        let mut visitors: Vec<_> = (0..100).map(|_| come(&queue, Class::Visitor)).collect();
        for one in &mut visitors {
            assert!(waits(one).await, "crawlers take no visitor's place");
        }
        assert_eq!(come(&queue, Class::Visitor).await.err(), Some(Refused::Full));
        waiting.clear();
        assert_eq!(queue.crawlers(), (1, 0));
        assert_eq!(come(&queue, CRAWLER).await.err(), Some(Refused::CrawlersFull), "too many visitors wait");
        assert_eq!(come(&queue, PATIENT).await.err(), Some(Refused::CrawlersFull));
    });
}

#[test]
fn a_crawler_waits_for_a_third_of_the_time_of_a_visitor() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 1)]);
        let _held = take(&queue, Class::Visitor).await;
        let began = queue.now();
        assert_eq!(come(&queue, CRAWLER).await.err(), Some(Refused::CrawlerTooOld));
        assert_eq!((queue.now() - began) / 1_000_000, 20);
        assert_eq!(come(&queue, PATIENT).await.err(), Some(Refused::CrawlerTooOld));
        assert_eq!((queue.now() - began) / 1_000_000, 80);
        assert_eq!(queue.crawlers(), (0, 0));
    });
}

#[test]
fn a_crawler_whose_worker_died_waits_as_long_as_a_visitor() {
    let again = Again { worker: 1, alone: false };
    assert_eq!(CRAWLER.patience(LONG, None), LONG / PATIENCE);
    assert_eq!(CRAWLER.patience(LONG, Some(again)), LONG);
}

#[test]
fn it_is_held_to_the_threads_that_long_requests_may_have() {
    run(async {
        let (queue, _complaints) = learned(&[(1, 10)]).await;
        let mut reports = Vec::new();
        for _ in 0..8 {
            reports.push(queue.checkout(REPORT, LONG, None, None).await.unwrap());
        }
        pass(VISITORS_STAY).await;
        let mut crawler = Box::pin(queue.checkout_as(CRAWLER, REPORT, LONG, None, None));
        assert!(waits(&mut crawler).await, "two threads are idle, and they are for short requests");
        reports.pop().unwrap().give_back();
        crawler.await.unwrap().give_back();
        reports.into_iter().for_each(Lease::give_back);
    });
}

#[test]
fn one_whose_worker_died_or_that_leaves_keeps_no_place() {
    run(async {
        let (queue, _complaints) = hundred(&[(1, 1), (2, 1)]);
        let mut lost = take(&queue, CRAWLER).await;
        lost.disarm();
        queue.remove(1);
        assert_eq!(queue.crawlers(), (0, 0));
        drop(take(&queue, Class::Visitor).await.take());
        let mut crawler = come(&queue, CRAWLER);
        assert!(waits(&mut crawler).await);
        drop(crawler);
        assert_eq!(queue.crawlers(), (0, 0));
    });
}
