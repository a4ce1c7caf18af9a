//! Which pages are shown in mode serve, and to whom. It never looks at how they are stored.

use base64::{engine::general_purpose::STANDARD, Engine};

use super::*;

#[test]
fn a_proven_route_is_shown_until_a_write_touches_the_page() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    assert_eq!(site.shown().as_deref(), Some("Pils"));
    site.write(&update("i2"));
    assert_eq!(site.shown().as_deref(), Some("Pils"), "another row");
    site.watch.intend(1, "a", &update("i1"), TIME).unwrap();
    assert_eq!(site.shown(), None, "before it is committed");
    site.answer(&beer("i1"), "Pils");
    assert_eq!(site.shown(), None, "under way");
    site.done(1, "a");
    site.answer(&beer("i1"), "Bock");
    assert_eq!(site.shown().as_deref(), Some("Bock"));
    assert_eq!(site.route().served.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[test]
fn a_page_has_an_end() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    assert_eq!(site.shown_at(TIME + MAX_TTL - 1).as_deref(), Some("Pils"));
    assert_eq!(site.shown_at(TIME + MAX_TTL), None);
    assert_eq!(site.shown_at(TIME - 1), None, "the clock was set back");
}

#[test]
fn a_page_that_looked_at_the_clock_is_shown_until_that_says_something_else() {
    let until = |time: u64| [beer("i1"), fields(&["W", "a.rb:1", &time.to_string()])].concat();
    let mut site = Site::proven(&until(TIME + 5), "Pils");
    assert_eq!(site.shown_at(TIME + 4).as_deref(), Some("Pils"));
    assert_eq!(site.shown_at(TIME + 5), None);
    let earlier = [until(TIME + 5), until(TIME + 3), until(TIME + 7)].concat();
    site.answer(&earlier, "Pils");
    assert_eq!((site.shown_at(TIME + 2).as_deref(), site.shown_at(TIME + 3)), (Some("Pils"), None));
    site.time = TIME + 3;
    assert_eq!(site.answer_since(site.moment, &until(TIME + 9), "Bock"), None, "no difference: it is later");
    assert_eq!(site.shown_at(TIME + 8).as_deref(), Some("Bock"));
    assert!(site.answer_since(site.moment, &until(TIME + 9), "Pils").is_some(), "before its time it is one");
}

#[test]
fn a_page_whose_time_is_over_is_not_kept() {
    let until = |time: u64| [beer("i1"), fields(&["W", "a.rb:1", &time.to_string()])].concat();
    let mut site = Site::proven(&beer("i1"), "Pils");
    site.answer(&until(TIME), "Pils");
    assert_eq!((site.shown(), site.watch.size().0), (None, 0));
    assert_eq!(site.route().life.stage(Mode::Serve), Stage::Serving);
}

#[test]
fn a_difference_turns_the_route_off() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    let alarm = site.answer_since(site.moment, &beer("i1"), "Bock").unwrap();
    assert_eq!((alarm.route.as_str(), alarm.was_serving), ("GET /beers/*", true));
    assert_eq!((alarm.difference.kept.as_str(), alarm.difference.application.as_str()), ("Pils", "Bock"));
    assert_eq!((site.shown(), site.watch.size().0), (None, 0));
    assert_eq!(site.answer_since(site.moment, &beer("i1"), "Bock"), None);
    assert_eq!(site.answer_since(site.moment, &beer("i1"), "Dunkel"), None, "once is enough");
    site.watch.turn_on("GET /beers/*");
    site.prove(&beer("i1"), "Pils");
    assert_eq!(site.shown().as_deref(), Some("Pils"));
    site.watch.turn_off("GET /beers/*", "stopped");
    assert_eq!((site.shown(), site.route().life.stage(Mode::Serve)), (None, Stage::Off("stopped")));
}

#[test]
fn an_answer_that_is_no_page_turns_the_route_off() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    assert_eq!(site.answer_otherwise(0, 404), None, "it was asked for before the page was there");
    assert_eq!(site.shown().as_deref(), Some("Pils"));
    let alarm = site.answer_otherwise(site.moment, 404).unwrap();
    assert_eq!((alarm.route.as_str(), alarm.was_serving), ("GET /beers/*", true));
    assert_eq!((alarm.difference.kept.as_str(), alarm.difference.application.as_str()), ("status 200", "status 404"));
    assert_eq!((site.shown(), site.watch.size().0), (None, 0));
    assert_eq!(site.answer_otherwise(site.moment, 404), None, "there is no page");
    let mut site = Site::proven(&beer("i1"), "Pils");
    site.write(&update("i1"));
    assert_eq!(site.answer_otherwise(site.moment, 404), None, "the row is another one");
}

#[test]
fn an_answer_that_can_not_be_kept_drops_the_page() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    site.drop_fitting("http://shop.test/beers/2");
    assert_eq!(site.shown().as_deref(), Some("Pils"), "another page");
    site.drop_fitting("http://shop.test/beers/1");
    assert_eq!((site.shown(), site.watch.size().0), (None, 0));
}

#[test]
fn another_load_of_the_code_and_a_purge_begin_with_no_pages() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    let (began, moment) = (site.moment, site.next());
    site.watch.purge(moment, TIME);
    site.answer_since(began, &beer("i1"), "Pils");
    assert_eq!(site.shown(), None, "it was asked for before the purge");
    site.answer(&beer("i1"), "Pils");
    assert_eq!(site.shown().as_deref(), Some("Pils"));
    let moment = site.next();
    site.watch.begin_release("r2", moment);
    site.answer(&beer("i1"), "Pils");
    assert_eq!((site.shown(), site.watch.size().0), (None, 1), "nothing is proved of it");
}

#[test]
fn only_mode_serve_shows_pages() {
    let mut site = Site::new();
    for nth in 0..=PROVEN {
        site.visitor = nth;
        site.answer(&beer("i1"), "Pils");
    }
    assert_eq!((site.shown(), site.route().life.stage(Mode::Verify)), (None, Stage::Ready));
}

#[test]
fn a_page_of_a_session_is_for_those_of_whom_it_is_known() {
    let user = |digest| fields(&["C", "", "_s", "browser", "V", "", "session", "user_id", digest]);
    let mut site = Site::proven(&user(""), "Sign in");
    assert_eq!(site.shown().as_deref(), Some("Sign in"));
    site.cookies.insert("_s", "ann");
    assert_eq!(site.shown(), None, "nobody knows what is in it");
    site.answer(&user("7"), "Ann");
    assert_eq!(site.shown().as_deref(), Some("Ann"));
    site.cookies.insert("_s", "bob");
    assert_eq!(site.shown(), None);
    site.answer(&user("8"), "Bob");
    for (cookie, body) in [("ann", "Ann"), ("bob", "Bob"), ("ann", "Ann")] {
        site.cookies.insert("_s", cookie);
        assert_eq!(site.shown().as_deref(), Some(body));
    }
    let page = site
        .watch
        .find_page(&PageRequest { url: "http://shop.test/beers/1", now: TIME }, &Visitor(&site.cookies, &site.files));
    assert!(page.unwrap().page.is_private);
}

#[test]
fn a_token_is_the_visitors_own() {
    let secret = [7u8; 32];
    let encoded = STANDARD.encode(secret);
    let record = fields(&["C", "", "_s", "browser", "P", "", &encoded, "T", "", "", ""]);
    let body = format!("<meta content=\"{}\">", token(&secret, &Kind::Global, 9, true));
    let mut site = Site::proven(&record, &body);
    assert_eq!(site.shown(), None, "without a session");
    site.cookies.insert("_s", "ann");
    assert_eq!(site.shown(), None, "whose secret nobody knows");
    site.cookies.remove("_s");
    site.set = vec![SetCookie { name: "_s", value: b"ann", until: None }];
    site.answer(&record, &body);
    site.cookies.insert("_s", "ann");
    assert_eq!(site.shown(), None, "nobody knows whether the page is hers as well");
    site.set.clear();
    (0..unnamed::OWN).for_each(|_| site.answer(&record, &body));
    assert_eq!(site.shown(), Some(format!("<meta content=\"{}\">", token(&secret, &Kind::Global, 1, true))));
    site.set = vec![SetCookie { name: "theme", value: b"dark", until: None }];
    site.answer(&record, &body);
    assert_eq!(site.refusal().0, "sets the cookie theme");
}
