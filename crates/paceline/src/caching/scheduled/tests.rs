//! What becomes of pages around the time at which they change.

use super::{
    hearing::{Announcement, PageRequest},
    schedule::MAX_PAGES,
    *,
};
use crate::{
    caching::{cache_request::ForAll, exchanged, kin::Kin, Lookup, Purge},
    exchange::{identity::User, Connection, Exchange},
};
use ::scheduled::rule::Rule;
use cache::{
    status::Reason,
    store::How,
    stored::{Content, Stored},
};
use http::StatusCode;
use sign_in::{Identity, Limits, Mechanism, NewSession, Session};

/// Of a test whose pages change around the time at which it runs.
pub(super) fn site(at: &str) -> Arc<SiteCache> {
    let rule = Rule::new(vec!["/sales/*".into(), "/".into()], at, 600_000).unwrap();
    SiteCache::of_test(vec![rule])
}

pub(super) fn headers(fields: &[(&str, &'static str)]) -> HeaderMap {
    let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
    HeaderMap::from_iter(fields)
}

pub(super) fn rendered(fields: &[(&str, &'static str)]) -> RenderedPage {
    RenderedPage { status: StatusCode::OK, headers: headers(fields), body: "new".into() }
}

pub(super) const FRESH: (&str, &str) = ("cache-control", "max-age=60");

fn prepare(site: &Arc<SiteCache>, url: &str, at: Millis, fields: &[(&str, &'static str)]) -> Result<(), Unprepared> {
    let page = site.restore(url, &[], HeaderMap::new(), Some(at));
    let prepared = site.prepared(&page, HeaderMap::new(), rendered(fields), at, site.cache.store.moment())?;
    assert_eq!(site.cache.changes.hold(prepared), Held::Kept);
    Ok(())
}

/// A request as it comes to the cache.
struct Asked {
    head: request::Parts,
    exchange: Exchange,
}

fn request(path: &str, fields: &[(&str, &'static str)]) -> Asked {
    let (mut head, ()) = Request::builder().uri(path).header("host", "shop.test").body(()).unwrap().into_parts();
    head.headers.extend(headers(fields));
    let connection = Connection { remote: None, local: None, tls: false, accepted: 0, ..Connection::default() };
    Asked { head, exchange: Exchange::begin(Arc::new(connection), None, None, None) }
}

/// The page that a request gets; None: the application is asked.
pub(super) fn given(site: &Arc<SiteCache>, path: &str) -> Option<Response<ResponseBody>> {
    given_to(site, &request(path, &[]))
}

fn given_to(site: &Arc<SiteCache>, asked: &Asked) -> Option<Response<ResponseBody>> {
    match site.look(&asked.head, false, &asked.exchange) {
        Lookup::Hit(response) => Some(response),
        _ => None,
    }
}

/// The application answers a request so.
fn answer(site: &Arc<SiteCache>, asked: &Asked, fields: &[(&str, &'static str)]) -> Holds {
    let Asked { head, exchange } = asked;
    let Lookup::Fetch(wanted) = site.look(head, false, exchange) else { panic!("it is not asked") };
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.headers = headers(fields);
    site.told_of_changes(&wanted, head, &mut parts, exchanged(now()), clock::unix_millis())
}

fn alice() -> User {
    let identity = Identity { name: "alice".into(), groups: Vec::new(), subject: None, sid: None };
    let (provider, proved_until, refresh_token, id_token) = (None, None, None, None);
    let mechanism = Mechanism::Kerberos;
    let proof = NewSession { identity, mechanism, provider, proved_until, refresh_token, id_token };
    User::new(Arc::new(Session::new(proof, &Limits::DEFAULT, 0)), None)
}

/// The copy of the application would render it as for nobody, and its key is somebody's.
#[test]
fn a_page_of_somebody_who_has_signed_in_is_not_prepared() {
    let known = |fields: &[(&str, &'static str)], proxied: bool, user: Option<User>| {
        let site = site("2036-01-01 00:00 UTC");
        let mut asked = request("/sales/1", fields);
        asked.exchange.requester.user = user;
        asked.exchange.client.proxied = proxied;
        let holds = answer(&site, &asked, &[FRESH]);
        assert_ne!(holds.until, Millis::MAX, "it changes for everybody");
        let known = site.schedule.pages.read().len();
        known
    };
    assert_eq!(known(&[], false, None), 1);
    assert_eq!(known(&[], false, Some(alice())), 0);
    assert_eq!(known(&[("x-forwarded-user", "alice")], true, None), 0, "a proxy has signed them in");
    assert_eq!(known(&[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https")], true, None), 1);
}

#[test]
fn a_prepared_page_is_given_from_its_time_on() {
    let site = site("2036-01-01 00:00 UTC");
    let now = clock::unix_millis();
    prepare(&site, "http://shop.test/sales/1", now - 5_000, &[FRESH]).unwrap();
    prepare(&site, "http://shop.test/sales/2", now + 3_600_000, &[FRESH]).unwrap();
    let given_now = given(&site, "/sales/1").expect("its time has come");
    assert_eq!(given_now.headers()["age"], "5", "as old as if it had been asked for then");
    assert!(given(&site, "/sales/2").is_none(), "nothing is given early");
}

/// It was asked for before the time, and comes after it.
#[test]
fn a_slow_answer_does_not_take_the_place_of_what_was_prepared() {
    let site = site("2036-01-01 00:00 UTC");
    let now = clock::unix_millis();
    let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
    prepare(&site, "http://shop.test/sales/1", now - 5_000, &[FRESH]).unwrap();
    assert!(given(&site, "/sales/1").is_some());
    let (head, parts) = (request_parts(&page, &HeaderMap::new()), response_parts(&rendered(&[FRESH])));
    let at = exchanged(super::now());
    let (before, after) = (Holds::until(now - 5_000), Holds { from: now - 5_000, until: now + 60_000 });
    // It has said a later change than the one that has come.
    let unaware = Holds::until(now + 60_000);
    for (holds, stored) in [(before, Err(Reason::Outdated)), (unaware, Err(Reason::Outdated)), (after, Ok(()))] {
        let mut storable = storable(&head, &parts, at, 0).unwrap();
        storable.freshness.holds = holds;
        let content = Content::Whole("old".into());
        let slow = Arc::new(Stored::new(page.url.clone(), StatusCode::OK, storable, content, &[]));
        let moment = site.cache.store.moment();
        let kin = Kin::shared(page.url.clone(), page.primary, None);
        assert_eq!(site.place(&kin, &HeaderMap::new(), slow, moment).1, stored);
        assert!(given(&site, "/sales/1").is_some(), "one of them answers");
    }
}

#[test]
fn what_is_given_follows_the_clock_in_both_directions() {
    let site = site("2036-01-01 00:00 UTC");
    let now = clock::unix_millis();
    let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
    prepare(&site, "http://shop.test/sales/1", now, &[FRESH]).unwrap();
    let due = |wall| site.cache.changes.due(page.primary, wall).len();
    assert_eq!((due(now - 1), due(now)), (0, 1));
    assert_eq!(site.swap(now, now), 1);
    assert_eq!((due(now), due(now + 1)), (0, 0), "it is in its place");
    assert_eq!((due(now - 1), due(now)), (0, 1), "the clock was set back, and comes to the time again");
}

#[test]
fn a_purge_drops_what_is_prepared() {
    for (what, stays) in [
        (Purge::Url("http://shop.test/sales/1".into()), vec!["http://shop.test/"]),
        (Purge::Prefix("http://shop.test/sales/".into()), vec!["http://shop.test/"]),
        (Purge::Tag("http://shop.test sale-1".into()), vec!["http://shop.test/", "http://shop.test/sales/1"]),
        (Purge::All, vec![]),
    ] {
        let site = site("2036-01-01 00:00 UTC");
        let at = clock::unix_millis() + 3_600_000;
        prepare(&site, "http://shop.test/sales/1", at, &[FRESH]).unwrap();
        prepare(&site, "http://shop.test/", at, &[FRESH]).unwrap();
        site.cache.purge(&what, How::Drop);
        let mut names: Vec<String> = site.prepared_at(at).iter().map(|prepared| prepared.name()).collect();
        names.sort();
        assert_eq!(names, stays, "{what:?}");
        assert_eq!(site.cache.changes.take_purged(), stays.len() < 2);
    }
}

#[test]
fn a_page_that_is_purged_while_it_is_rendered_is_not_held() {
    let site = site("2036-01-01 00:00 UTC");
    let at = clock::unix_millis() - 5_000;
    let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), Some(at));
    let moment = site.cache.store.moment();
    let ready = |moment| site.prepared(&page, HeaderMap::new(), rendered(&[FRESH]), at, moment).unwrap();
    site.cache.purge(&Purge::Url("http://shop.test/sales/2".into()), How::Drop);
    assert_eq!(site.cache.changes.hold(ready(moment)), Held::Kept, "of another page");
    let held = site.prepared_at(at).remove(0);
    site.cache.purge(&Purge::Url("http://shop.test/sales/1".into()), How::Drop);
    assert!(site.cache.changes.take_purged());
    // Another thread has found it just before the purge.
    held.place(clock::unix_millis());
    assert!(given(&site, "/sales/1").is_none());
    assert_eq!(site.cache.changes.hold(ready(moment)), Held::Purged);
    assert!(site.cache.changes.take_purged(), "it is to be prepared again");
    assert_eq!(site.cache.changes.hold(ready(site.cache.store.moment())), Held::Kept);
}

#[test]
fn what_depends_on_who_asks_is_not_prepared() {
    let site = site("2036-01-01 00:00 UTC");
    let prepare =
        |fields: &[(&str, &'static str)]| prepare(&site, "http://shop.test/", 1, fields).map_err(|why| why.to_string());
    assert_eq!(prepare(&[FRESH, ("vary", "Accept-Language, Accept-Encoding")]), Ok(()));
    assert_eq!(prepare(&[FRESH, ("vary", "Sec-Fetch-Site")]), Ok(()), "as Rails 8.2 says of all pages");
    for (fields, told) in [
        (&[("cache-control", "private, max-age=60")][..], "the response can't be stored: private"),
        (&[FRESH, ("vary", "Cookie")], "it varies by cookie"),
        (&[FRESH, ("vary", "User-Agent")], "it varies by user-agent"),
        (&[FRESH, ("vary", "Sec-Fetch-Dest, Sec-Fetch-Site")], "it varies by sec-fetch-dest"),
        (&[FRESH, ("set-cookie", "_session=1; HttpOnly")], "the response can't be stored: "),
        (&[], "the response can't be stored: "),
    ] {
        assert!(prepare(fields).unwrap_err().starts_with(told), "{fields:?}: {:?}", prepare(fields));
    }
}

/// After kill -9 they are found by the key that the next request has.
#[test]
fn a_page_that_is_asked_for_behind_a_proxy_is_known_by_what_it_says() {
    let site = site("2036-01-01 00:00 UTC");
    let mut asked = request("/sales/1", &[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-port", "443")]);
    asked.exchange.client.proxied = true;
    answer(&site, &asked, &[FRESH]);
    let seen = site.schedule.pages.read().values().next().cloned().unwrap();
    assert_eq!(seen.samples(), [headers(&[("x-forwarded-port", "443")])]);
    let again = site.restore(&seen.url, &seen.by_proxies, HeaderMap::new(), None);
    assert!(Arc::ptr_eq(&seen, &again));
    site.meet_plain_paths();
    asked.head.uri = "/".parse().unwrap();
    let keys: Vec<Key> = site.schedule.pages.read().values().map(|page| page.primary).collect();
    let Lookup::Fetch(wanted) = site.look(&asked.head, false, &asked.exchange) else { panic!("it is not asked") };
    assert!(keys.contains(&wanted.primary), "the page of a rule without a star");
}

#[test]
fn what_the_automatic_cache_gives_ends_with_a_rule_s_time() {
    let site = site("2036-01-01 00:00 UTC");
    for (path, ends) in [("/sales/1", true), ("/beers/1", false)] {
        let mut page = Response::new(ResponseBody::Empty);
        page.headers_mut().insert(header::EXPIRES, HeaderValue::from_static("Thu, 01 Jan 2037 00:00:00 GMT"));
        site.end_with_rules(path, &mut page);
        site.tell(path, &mut page);
        assert_eq!(page.headers()["expires"] == "Tue, 01 Jan 2036 00:00:00 GMT", ends, "{path}");
    }
}

/// An editor moves a sale, or calls it off, after its page was prepared.
#[test]
fn a_sale_that_is_moved_does_not_begin_at_its_old_time() {
    let now = clock::unix_millis();
    let (at, later) = (now + 3_600_000, now + 7_200_000);
    for (said, stays) in [(vec![at], 1), (vec![later, at], 1), (vec![later], 0), (vec![], 0)] {
        let site = site("2036-01-01 00:00 UTC");
        prepare(&site, "http://shop.test/beers/1", at, &[FRESH]).unwrap();
        let page = site.restore("http://shop.test/beers/1", &[], HeaderMap::new(), None);
        let (url, primary, path, headers) = (&page.url, page.primary, page.path(), &HeaderMap::new());
        site.see(
            &PageRequest { url, primary, for_all: &ForAll::default(), path, headers },
            Announcement::Stored(Some(now + 5)),
        );
        assert_eq!(site.prepared_at(at).len(), 1, "what is stored may be older than what is prepared");
        site.see(
            &PageRequest { url, primary, for_all: &ForAll::default(), path, headers },
            Announcement::Now(&said, now),
        );
        assert_eq!(site.prepared_at(at).len(), stays, "{said:?}");
        assert_eq!(site.cache.changes.take_dropped(), stays == 0, "the file follows");
        assert_eq!(site.schedule.times(now).contains_key(&at), stays == 1);
    }
}

#[test]
fn the_time_of_a_rule_stays_where_the_application_says_another() {
    let site = site("2036-01-01 00:00 UTC");
    let at = site.schedule.times(clock::unix_millis()).into_keys().next().unwrap();
    prepare(&site, "http://shop.test/sales/1", at, &[FRESH]).unwrap();
    let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
    assert!(site.announce(&page, &[], 1, 1));
    assert!(site.announce(&page, &[at + 1], 2, 2));
    assert_eq!(site.prepared_at(at).len(), 1);
}

#[test]
fn what_was_asked_for_before_the_clock_was_set_over_a_time_does_not_hold_after_it() {
    let site = site("2036-01-01 00:00 UTC");
    let Asked { head, exchange } = request("/sales/1", &[]);
    let Lookup::Fetch(wanted) = site.look(&head, false, &exchange) else { panic!("it is not asked") };
    let at = site.schedule.times(clock::unix_millis()).into_keys().next().unwrap();
    let times = ExchangeTimes { date: at + 5, ..exchanged(now()) };
    let until = |wall| {
        let (mut parts, ()) = Response::new(()).into_parts();
        site.told_of_changes(&wanted, &head, &mut parts, times, wall).until
    };
    assert_eq!((until(at - 300_000), until(at + 5)), (at, Millis::MAX));
}

/// As an action does that says `Paceline.changes_at(1.minute.from_now)`.
#[test]
fn a_page_that_says_another_time_with_each_request_is_prepared_for_a_few() {
    let site = site("2036-01-01 00:00 UTC");
    let page = site.restore("http://shop.test/beers/1", &[], HeaderMap::new(), None);
    let planned = |number: Millis| {
        site.announce(&page, &[1_000 + number], 1, 1);
        site.schedule.times(1).contains_key(&(1_000 + number))
    };
    assert_eq!((1..100).filter(|number| planned(*number)).count(), 9);
    assert!(site.announce(&page, &[5_000], 2_000, 2_000), "the time that was said has come");
    assert!(site.schedule.times(2_000).contains_key(&5_000));
}

#[test]
fn only_the_nearest_times_are_prepared_for() {
    let site = site("2036-01-01 00:00 UTC");
    for number in 1..=200 {
        site.restore(&format!("http://shop.test/beers/{number}"), &[], HeaderMap::new(), Some(1_000 + number));
    }
    let times: Vec<Millis> = site.schedule.times(1_010).into_keys().take(65).collect();
    assert_eq!((times[0], times[63]), (1_011, 1_074));
    assert!(times[64] > 2_000, "that of the rule");
}

#[test]
fn what_is_prepared_takes_no_more_memory_than_the_cache_may() {
    let site = site("2036-01-01 00:00 UTC");
    let at = clock::unix_millis() + 3_600_000;
    let ready = |number: u32| {
        let page = site.restore(&format!("http://shop.test/sales/{number}"), &[], HeaderMap::new(), None);
        let rendered = RenderedPage { body: vec![b'x'; 1 << 20].into(), ..rendered(&[FRESH]) };
        site.prepared(&page, HeaderMap::new(), rendered, at, site.cache.store.moment()).unwrap()
    };
    // The cache has 4 MB.
    let held: Vec<Held> = (1..=5).map(|number| site.cache.changes.hold(ready(number))).collect();
    assert_eq!(held[..3], [Held::Kept; 3]);
    assert_eq!(held[4], Held::Full);
    assert_eq!(site.cache.changes.hold(ready(1)), Held::Kept, "in the place of the one before");
    site.forget(at);
    assert_eq!(site.cache.changes.hold(ready(9)), Held::Kept);
}

/// Somebody of this network asks.
fn ask_from(site: &SiteCache, asker: u64, url: &str, language: Option<&'static str>) {
    let page = site.restore(url, &[], HeaderMap::new(), None);
    let headers = HeaderMap::from_iter(language.map(|own| (header::ACCEPT_LANGUAGE, own.parse().unwrap())));
    let (url, primary, path) = (&page.url, page.primary, page.path());
    let for_all = &ForAll { asker, ..ForAll::default() };
    site.see(
        &PageRequest { url, primary, for_all, path, headers: &headers },
        Announcement::Now(&[], clock::unix_millis()),
    );
}

#[test]
fn pages_that_many_ask_for_stay_known() {
    let site = site("2036-01-01 00:00 UTC");
    (0..3).for_each(|asker| ask_from(&site, asker, "http://shop.test/", None));
    // One network asks for more than there is room for, and often.
    for _ in 0..5 {
        (0..MAX_PAGES + 10).for_each(|number| ask_from(&site, 9, &format!("http://shop.test/sales/{number}"), None));
    }
    let at = site.schedule.times(clock::unix_millis()).into_keys().next().unwrap();
    let pages = site.schedule.pages_at(at);
    assert!(pages.len() <= MAX_PAGES, "{}", pages.len());
    assert_eq!(pages[0].target(), "/");
}

#[test]
fn foreign_hosts_and_odd_requests_take_nobodys_place() {
    let site = site("2036-01-01 00:00 UTC");
    for asker in 1..4 {
        ask_from(&site, asker, "http://shop.test/sales/1", Some("de"));
    }
    for number in 0..100 {
        ask_from(&site, 9, &format!("http://a{number}.evil.test/sales/1"), None);
        let language: &'static str = format!("x-{number}").leak();
        ask_from(&site, 9, "http://shop.test/sales/1", Some(language));
    }
    site.meet_plain_paths();
    let known: Vec<_> = site.schedule.pages.read().values().map(|page| page.url.to_string()).collect();
    assert!(known.contains(&"http://shop.test/".to_owned()), "the page of a rule without a star");
    let page = site.restore("http://shop.test/sales/1", &[], HeaderMap::new(), None);
    assert_eq!(page.samples()[0].get(header::ACCEPT_LANGUAGE).unwrap(), "de");
    // Another language that people have is found a place for.
    (5..7).for_each(|asker| ask_from(&site, asker, "http://shop.test/sales/1", Some("fr")));
    assert_eq!(page.samples()[1].get(header::ACCEPT_LANGUAGE).unwrap(), "fr");
}

/// What is stored for a path, which holds from one time to another.
fn store(site: &Arc<SiteCache>, path: &str, holds: Holds) {
    let page = site.restore(&format!("http://shop.test{path}"), &[], HeaderMap::new(), None);
    let (head, parts) = (request_parts(&page, &HeaderMap::new()), response_parts(&rendered(&[FRESH])));
    let mut storable = storable(&head, &parts, exchanged(now()), 0).unwrap();
    storable.freshness.holds = holds;
    let stored = Arc::new(Stored::new(page.url.clone(), StatusCode::OK, storable, Content::Whole("old".into()), &[]));
    let moment = site.cache.store.moment();
    let kin = Kin::shared(page.url.clone(), page.primary, None);
    assert_eq!(site.place(&kin, &HeaderMap::new(), stored, moment).1, Ok(()));
}

#[test]
fn what_a_prepared_page_says_of_later_counts() {
    let site = site("2036-01-01 00:00 UTC");
    let now = clock::unix_millis() / 1000 * 1000;
    let (first, second) = (now + 60_000, now + 120_000);
    let says = |at: Millis| -> &'static str { (at / 1000).to_string().leak() };
    prepare(&site, "http://shop.test/beers/1", first, &[FRESH, ("paceline-changes-at", says(second))]).unwrap();
    assert!(site.cache.changes.take_met(), "there is something to prepare");
    assert!(site.schedule.times(now).contains_key(&second));
    let targets: Vec<_> = site.schedule.pages_at(second).iter().map(|page| page.target().to_owned()).collect();
    assert_eq!(targets, ["/beers/1"]);
    let page = site.page_of(site.schedule.pages_at(second)[0].primary).unwrap();
    let again = |at: Millis, fields: &[(&str, &'static str)]| {
        let prepared = site.prepared(&page, HeaderMap::new(), rendered(fields), at, site.cache.store.moment()).unwrap();
        assert_eq!(site.cache.changes.hold(prepared), Held::Kept);
    };
    again(second, &[FRESH]);
    assert_eq!(site.prepared_at(second).len(), 1);
    // At the next look the page of the first time says another second one.
    again(first, &[FRESH, ("paceline-changes-at", says(second + 5_000))]);
    assert_eq!(site.prepared_at(second).len(), 0, "nobody says it any more");
    assert!(site.cache.changes.take_dropped());
    assert!(site.schedule.times(now).contains_key(&(second + 5_000)));
    // The first is called off, and with it what it said.
    assert!(site.announce(&page, &[], now, now));
    assert!(site.prepared_times().is_empty() && site.schedule.pages_at(second + 5_000).is_empty());
}

#[test]
fn a_page_that_is_forgotten_while_it_is_prepared_is_known_by_that() {
    let site = site("2036-01-01 00:00 UTC");
    let at = clock::unix_millis() + 60_000;
    prepare(&site, "http://shop.test/beers/1", at, &[FRESH]).unwrap();
    site.schedule.pages.write().clear();
    ask_from(&site, 1, "http://shop.test/beers/1", None);
    assert!(site.prepared_at(at).is_empty(), "its answer does not say the time any more");
}

#[test]
fn a_variant_that_knew_of_no_change_is_not_given_after_it() {
    let site = site("2036-01-01 00:00 UTC");
    let now = clock::unix_millis();
    store(&site, "/beers/1", Holds::until(now + 60_000));
    assert!(given(&site, "/beers/1").is_some());
    let page = site.restore("http://shop.test/beers/1", &[], HeaderMap::new(), None);
    site.announce(&page, &[now - 5, now + 60_000], now - 10_000, now - 10_000);
    assert!(given(&site, "/beers/1").is_none(), "another one of the same page has said a nearer time");
}

#[test]
fn how_long_a_page_is_fresh_ends_with_its_next_change() {
    let site = site("2036-01-01 00:00 UTC");
    let now = clock::unix_millis();
    store(&site, "/beers/1", Holds::until(now + 40_000));
    let ttl = || {
        let mut page = given(&site, "/beers/1").unwrap();
        let told = site.tell("/beers/1", &mut page).ttl.unwrap();
        (told, page.headers()["cache-control"].to_str().unwrap().to_owned())
    };
    let (told, promised) = ttl();
    assert!((30_000..=40_000).contains(&told), "{told}");
    assert_ne!(promised, "max-age=60");
    let page = site.restore("http://shop.test/beers/1", &[], HeaderMap::new(), None);
    site.announce(&page, &[now + 20_000], now, now);
    assert!(ttl().0 <= 20_000, "another variant has said so");
}

/// A page is in its place, then that of a later time, and the clock is set back between them.
#[test]
fn the_page_of_before_a_change_comes_back_with_the_clock() {
    let site = site("2036-01-01 00:00 UTC");
    let now = clock::unix_millis();
    let (first, second) = (now - 10_000, now - 5_000);
    prepare(&site, "http://shop.test/beers/1", second, &[FRESH]).unwrap();
    prepare(&site, "http://shop.test/beers/1", first, &[FRESH]).unwrap();
    let page = site.restore("http://shop.test/beers/1", &[], HeaderMap::new(), None);
    let due = |wall| site.cache.changes.due(page.primary, wall).iter().map(|one| one.at).collect::<Vec<_>>();
    assert_eq!(due(now), [first, second], "the later one takes the earlier one's place");
    assert!(given(&site, "/beers/1").is_some());
    assert!(due(now).is_empty(), "it is there");
    assert_eq!(due(second - 1), [first]);
}
