//! Fronts that share one store of prepared pages, played without a network.

use std::{
    collections::HashMap,
    future::{ready, Future},
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use ::cluster::{Entry as JournalEntry, Follower, Order, What};
use cache::{
    freshness::Holds,
    key::KeyMaker,
    store::{How, Moment},
};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::{
    super::{
        tests::{given, headers, rendered, site, FRESH},
        Held,
    },
    *,
};
use crate::caching::{Granted, Purge, SharedTier, TierRelease, TierUse, TierWrite};

const URL: &str = "http://shop.test/sales/1";
const EACH_ALONE: &str = "!";

/// What the fronts of a test share.
struct Server {
    keys: KeyMaker,
    is_away: AtomicBool,
    max_object: AtomicU64,
    /// In milliseconds.
    time: AtomicU64,
    values: Mutex<HashMap<Key, Vec<u8>>>,
    leases: Mutex<HashMap<Key, Arc<str>>>,
}

/// A front, as it comes there.
struct Member {
    server: Arc<Server>,
    site: Arc<SiteCache>,
    follower: Mutex<Follower>,
}

impl SharedTier for Member {
    fn session(self: Arc<Self>) -> Option<Arc<dyn TierSession>> {
        if self.server.is_away.load(Relaxed) {
            return None;
        }
        Some(self)
    }
}

impl TierSession for Member {
    fn keys(&self) -> &KeyMaker {
        &self.server.keys
    }

    fn max_object(&self) -> u64 {
        self.server.max_object.load(Relaxed)
    }

    fn look(&self, question: TierQuestion) -> Pin<Box<dyn Future<Output = Option<TierValue>> + Send + '_>> {
        Box::pin(ready(self.look_and_wait(question)))
    }

    fn look_and_wait(&self, question: TierQuestion) -> Option<TierValue> {
        let time = self.server.time.load(Relaxed);
        let found = self.server.values.lock().get(&question.key).cloned();
        if let Some(value) = found.filter(|value| question.refused.as_deref() != Some(SharedPage::id(value))) {
            return Some(TierValue::Found(value.into(), time));
        }
        let mut leases = self.server.leases.lock();
        let holder = leases.entry(question.key).or_insert_with(|| question.token.clone());
        Some(match &**holder {
            EACH_ALONE => TierValue::Alone,
            token if *token == *question.token => TierValue::Lead(Granted { at: time * 1000, known: now() }),
            _ => TierValue::Wait,
        })
    }

    fn renew(&self, _: Key, _: Arc<str>) -> Option<AbortHandle> {
        None
    }

    fn write(&self, write: TierWrite) {
        self.server.leases.lock().remove(&write.lease);
        self.server.values.lock().extend([Some(write.page), write.directory].into_iter().flatten());
    }

    fn release(&self, release: TierRelease) {
        let mut leases = self.server.leases.lock();
        leases.remove(&release.lease);
        if release.alone > Duration::ZERO {
            leases.insert(release.lease, EACH_ALONE.into());
        }
    }

    fn position(&self) -> Option<Position> {
        self.follower.lock().at().cloned()
    }

    fn judge(&self, since: &Position, url: &str, tags: &[Arc<str>]) -> (Verdict, Moment) {
        (self.follower.lock().judge(since, url, tags), self.site.cache.moment())
    }

    fn count(&self, _: TierUse) {}
}

impl Member {
    fn wanted(&self, at: Millis, request: &HeaderMap, since: Millis) -> Preparer {
        let page = self.site.restore(URL, &[], request.clone(), Some(at));
        let due = clock::unix_millis() - since;
        self.site.ask_others(&Preparation { page: &page, request, at, due })
    }

    fn ask(&self, at: Millis) -> Preparer {
        self.wanted(at, &HeaderMap::new(), 0)
    }

    fn lead(&self, at: Millis) -> PreparationLease {
        lease(self.ask(at))
    }

    /// The page as this front renders it, which it holds from then on.
    fn render(&self, at: Millis, request: HeaderMap, fields: &[(&str, &'static str)]) -> Arc<PreparedPage> {
        let page = self.site.restore(URL, &[], request.clone(), Some(at));
        let moment = self.site.cache.moment();
        let prepared = Arc::new(self.site.prepared(&page, request, rendered(fields), at, moment).unwrap());
        assert_eq!(self.site.cache.changes.hold(prepared.clone()), Held::Kept);
        prepared
    }

    fn share(&self, at: Millis) {
        let lease = self.lead(at);
        lease.share(&self.render(at, HeaderMap::new(), &[FRESH]));
    }

    /// Another front has purged the page: the first entry of the journal.
    fn hear_of_a_purge(&self) {
        let order = Order { what: What::Url(URL.into()), soft: false };
        let at = Position::new(1, "m1");
        let entry = JournalEntry { at, previous: String::new(), from: "another".into(), order };
        self.follower.lock().read(entry).unwrap();
        self.site.cache.purge_as_told(&Purge::Url(URL.into()), How::Drop);
    }
}

fn lease(preparer: Preparer) -> PreparationLease {
    match preparer {
        Preparer::This(Some(lease)) => lease,
        other => panic!("{}", told(&other)),
    }
}

fn told(preparer: &Preparer) -> &'static str {
    match preparer {
        Preparer::Done(_) => "done",
        Preparer::Another => "another",
        Preparer::This(Some(_)) => "this for all",
        Preparer::This(None) => "this alone",
    }
}

fn fronts() -> (Arc<Member>, Arc<Member>) {
    let server = Arc::new(Server {
        keys: KeyMaker::new([1, 2]),
        is_away: AtomicBool::new(false),
        max_object: AtomicU64::new(1 << 20),
        time: AtomicU64::new(1_000_000),
        values: Mutex::default(),
        leases: Mutex::default(),
    });
    let front = || {
        let site = site("2036-01-01 00:00 UTC");
        let follower = Mutex::new(Follower::new("me", 5_000, Some(Position::default())));
        let member = Arc::new(Member { server: server.clone(), site: site.clone(), follower });
        let tier: Arc<dyn SharedTier> = member.clone();
        site.cache.share_pages(Arc::downgrade(&tier));
        member
    };
    (front(), front())
}

fn soon() -> Millis {
    clock::unix_millis() + 3_600_000
}

#[test]
fn one_front_prepares_a_page_for_all() {
    let ((one, other), at) = (fronts(), soon());
    let permitted = one.lead(at);
    assert_eq!(told(&other.ask(at)), "another");
    let until = ("paceline-changes-at", "2051222400");
    permitted.share(&one.render(at, HeaderMap::new(), &[FRESH, until]));
    let Preparer::Done(page) = other.ask(at) else { panic!("it is there") };
    assert_eq!((page.at, &page.rendered.body[..]), (at, &b"new"[..]));
    assert_eq!(other.site.cache.changes.hold(page), Held::Kept);
    assert!(given(&other.site, "/sales/1").is_none(), "nothing is given early");
    for front in [&one, &other] {
        assert_eq!(front.site.swap(at, at), 1);
        let page = front.site.restore(URL, &[], HeaderMap::new(), None);
        let stored = front.site.find(page.primary, &HeaderMap::new()).stored.unwrap();
        assert_eq!(stored.freshness.holds, Holds { from: at, until: 2_051_222_400_000 });
    }
}

#[test]
fn a_page_is_for_its_own_time() {
    let ((one, other), at) = (fronts(), soon());
    one.share(at);
    assert_eq!(told(&other.ask(at + 1)), "this for all");
    assert_eq!(told(&other.ask(at)), "done");
}

#[test]
fn what_was_rendered_before_it_was_due_is_rendered_again() {
    let ((one, other), at) = (fronts(), soon());
    one.share(at);
    one.server.time.fetch_add(CLOCKS_DIFFER + 5_000, Relaxed);
    let nobody = HeaderMap::new();
    assert_eq!(told(&one.wanted(at, &nobody, 6_000)), "done");
    let again = lease(other.wanted(at, &nobody, 4_000));
    assert_eq!(told(&one.wanted(at, &nobody, 4_000)), "another");
    again.share(&other.render(at, nobody.clone(), &[FRESH]));
    assert_eq!(told(&one.wanted(at, &nobody, 0)), "done");
}

#[test]
fn a_purge_is_for_the_page_of_all_fronts() {
    let ((one, other), at) = (fronts(), soon());
    one.share(at);
    other.hear_of_a_purge();
    let again = other.lead(at);
    again.share(&other.render(at, HeaderMap::new(), &[FRESH]));
    assert_eq!(told(&one.ask(at)), "another", "the purge has not come here yet");
    one.hear_of_a_purge();
    assert!(one.site.prepared_at(at).is_empty());
    assert_eq!(told(&one.ask(at)), "done");
}

#[test]
fn a_purge_while_a_page_is_taken_counts() {
    let ((one, other), at) = (fronts(), soon());
    one.share(at);
    let Preparer::Done(page) = other.ask(at) else { panic!("it is there") };
    other.hear_of_a_purge();
    assert_eq!(other.site.cache.changes.hold(page), Held::Purged);
}

/// The others would take the page for one from before it.
#[test]
fn nothing_is_rendered_for_others_before_an_own_purge_has_its_number() {
    let ((one, _), at) = (fronts(), soon());
    let (publish, mut published) = tokio::sync::mpsc::unbounded_channel();
    one.site.cache.share(publish);
    one.site.cache.show_until(Millis::MAX);
    one.site.cache.purge(&Purge::Url("http://shop.test/beers/1".into()), How::Drop);
    assert_eq!(told(&one.ask(at)), "this for all", "it is for another page");
    one.site.cache.has_number([published.try_recv().unwrap().number]);
    for what in [Purge::Url(URL.into()), Purge::Tag("any".into()), Purge::All] {
        one.site.cache.purge(&what, How::Drop);
        assert_eq!(told(&one.ask(at)), "another", "{what:?}");
        one.site.cache.has_number([published.try_recv().unwrap().number]);
        assert_eq!(told(&one.ask(at)), "this for all", "{what:?}");
    }
}

#[test]
fn the_next_front_renders_what_one_has_not() {
    let ((one, other), at) = (fronts(), soon());
    drop(one.lead(at));
    other.lead(at).fail();
    assert_eq!([told(&one.ask(at)), told(&other.ask(at))], ["this alone"; 2]);
    one.server.leases.lock().clear();
    one.lead(at).decline();
    assert_eq!([told(&one.ask(at)), told(&other.ask(at))], ["this alone"; 2]);
}

#[test]
fn each_front_prepares_for_itself_what_can_not_be_shared() {
    let ((one, other), at) = (fronts(), soon());
    one.server.max_object.store(2, Relaxed);
    one.share(at);
    assert_eq!(told(&other.ask(at)), "this alone", "it is too large");
    let (one, other) = fronts();
    one.share(at);
    other.site.cache.show_until(0);
    assert_eq!(told(&other.ask(at)), "this alone", "what was purged is not known");
    other.site.cache.show_until(Millis::MAX);
    other.server.is_away.store(true, Relaxed);
    assert_eq!(told(&other.ask(at)), "this alone", "there is no server");
    assert_eq!(told(&site_alone(at)), "this alone", "there is no cluster");
}

fn site_alone(at: Millis) -> Preparer {
    let site = site("2036-01-01 00:00 UTC");
    let (page, request) = (site.restore(URL, &[], HeaderMap::new(), Some(at)), HeaderMap::new());
    site.ask_others(&Preparation { page: &page, request: &request, at, due: 0 })
}

#[test]
fn each_variant_is_prepared_once() {
    let ((one, other), at) = (fronts(), soon());
    let [german, english] = ["de", "en"].map(|language| headers(&[("accept-language", language)]));
    let varies = [FRESH, ("vary", "Accept-Language")];
    lease(one.wanted(at, &german, 0)).share(&one.render(at, german.clone(), &varies));
    let lease = lease(other.wanted(at, &english, 0));
    assert_eq!(told(&other.wanted(at, &german, 0)), "done");
    assert_eq!(told(&one.wanted(at, &english, 0)), "another");
    lease.share(&other.render(at, english.clone(), &varies));
    assert_eq!(told(&one.wanted(at, &english, 0)), "done");
}

#[test]
fn what_is_damaged_or_of_another_page_is_not_taken() {
    let ((one, other), at) = (fronts(), soon());
    one.share(at);
    let (key, good) = one.server.values.lock().iter().map(|(key, value)| (*key, value.clone())).next().unwrap();
    let put = |value: Vec<u8>| {
        one.server.leases.lock().clear();
        one.server.values.lock().insert(key, value);
        told(&other.ask(at))
    };
    for byte in [good.len() - 1, good.len() - 40, 0] {
        let mut damaged = good.clone();
        damaged[byte] ^= 1;
        assert_eq!(put(damaged), "this for all", "byte {byte}");
    }
    assert_eq!(put(good.clone()), "done");
    // The page of another time, where this one's should be.
    one.share(at + 1);
    let elsewhere = one.server.values.lock().iter().find(|(other, _)| **other != key).unwrap().1.clone();
    assert_eq!(put(elsewhere), "this for all");
}
