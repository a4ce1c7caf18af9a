//! What no record names: pages of an application that reads cookies in a way nobody sees. A page passes from one value to another only
//! after both were answered alike, and what somebody proves of his own values says nothing of those of others.

use super::*;

const OTHER: &str = "http://shop.test/beers/2";

impl Site {
    /// A request of this visitor with this cookie: what the application answers, where no page is shown.
    fn ask(&mut self, visitor: u64, cookie: Option<(&'static str, &'static str)>, own: &str) -> String {
        self.visitor = visitor;
        self.cookies.clear();
        self.cookies.extend(cookie);
        self.shown().unwrap_or_else(|| {
            self.answer(&beer("i1"), own);
            format!("asked: {own}")
        })
    }

    fn stage(&self) -> Stage<'_> {
        self.route().life.stage(Mode::Serve)
    }
}

fn cookie(value: &'static str) -> Option<(&'static str, &'static str)> {
    Some(("user", value))
}

#[test]
fn what_others_prove_without_a_cookie_says_nothing_of_who_has_one() {
    let mut site = Site::proven(&beer("i1"), "Hello");
    assert_eq!(site.ask(2, None, "Hello"), "Hello");
    site.url = Some(OTHER);
    assert_eq!(site.ask(1, cookie("ann"), "Hello, Ann"), "asked: Hello, Ann");
    // It is kept to be compared, and shown to nobody: the next answer differs.
    assert_eq!(site.ask(2, None, "Hello"), "asked: Hello");
    assert!(matches!(site.stage(), Stage::Off(_)), "{:?}", site.stage());
    // Where a page is there, hers is compared with it at once.
    let mut site = Site::proven(&beer("i1"), "Hello");
    assert_eq!(site.ask(1, cookie("ann"), "Hello, Ann"), "asked: Hello, Ann");
    assert!(matches!(site.stage(), Stage::Off(_)));
}

#[test]
fn what_an_attacker_proves_with_cookies_of_his_own_says_nothing_of_others() {
    let mut site = Site::proven(&beer("i1"), "Hello");
    for nth in 0..1000u64 {
        site.ask(nth, Some(("user", nth.to_string().leak())), "Hello");
    }
    assert_eq!(site.ask(7, cookie("7"), "Hello"), "Hello", "his own are shown it");
    site.url = Some(OTHER);
    assert_eq!(site.ask(1, cookie("ann"), "Hello, Ann"), "asked: Hello, Ann");
    assert_eq!(site.ask(7, cookie("7"), "Hello"), "asked: Hello");
    assert!(matches!(site.stage(), Stage::Off(_)));
}

#[test]
fn a_value_is_shown_pages_after_it_was_compared() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    for nth in 0..unnamed::OWN {
        assert_eq!(site.ask(1, cookie("ann"), "Pils"), "asked: Pils", "{nth}");
    }
    assert_eq!(site.ask(1, cookie("ann"), "Pils"), "Pils");
    // When many were equal, one comparison of each other is enough.
    for name in ["bob", "eve", "joe", "kim"] {
        site.ask(2, cookie(name), "Pils");
    }
    assert_eq!(site.ask(3, cookie("liz"), "Pils"), "asked: Pils");
    assert_eq!(site.ask(3, cookie("liz"), "Pils"), "Pils");
    // It is another field that the route knows nothing of.
    assert_eq!(site.ask(3, Some(("token", "liz")), "Pils"), "asked: Pils");
}

#[test]
fn a_page_that_was_made_for_somebody_is_for_others_once_it_was_made_for_them_as_well() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    for _ in 0..unnamed::OWN {
        site.ask(1, cookie("ann"), "Pils");
        site.ask(2, cookie("bob"), "Pils");
    }
    assert_eq!((site.ask(1, cookie("ann"), ""), site.ask(2, cookie("bob"), "")), ("Pils".into(), "Pils".into()));
    site.url = Some(OTHER);
    assert_eq!(site.ask(1, cookie("ann"), "Bock"), "asked: Bock");
    assert_eq!(site.ask(1, cookie("ann"), "Bock"), "Bock", "her own");
    assert_eq!(site.ask(2, cookie("bob"), "Bock"), "asked: Bock", "it may be hers alone");
    assert_eq!(site.ask(2, cookie("bob"), "Bock"), "Bock");
    assert_eq!(site.ask(3, None, "Bock"), "Bock");
}

#[test]
fn somebodys_two_cookies_are_no_two_visitors() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    site.url = Some(OTHER);
    // She signs in again and again.
    site.ask(1, cookie("ann"), "Hello, Ann");
    for name in ["ann2", "ann3", "ann4", "ann5"].repeat(5) {
        assert_eq!(site.ask(1, Some(("user", name)), "Hello, Ann"), "asked: Hello, Ann");
    }
    // The session's cookie is renewed with each answer, and others come by other networks.
    let record = fields(&["C", "", "user", "browser", "P", "", &STANDARD.encode([7; 32])]);
    for (old, new) in [("a1", "a2"), ("a2", "a3"), ("a3", "a4"), ("a4", "a5"), ("a5", "a6")] {
        site.visitor += 1;
        site.cookies = HashMap::from([("user", old)]);
        site.set = vec![SetCookie { name: "user", value: new.as_bytes(), until: None }];
        site.url = Some("http://shop.test/beers/3");
        site.answer(&record, "Hello, Ann");
    }
    site.set.clear();
    site.visitor = 99;
    site.cookies = HashMap::from([("user", "bob")]);
    assert_eq!(site.shown(), None);
}

#[test]
fn somebody_alone_is_shown_his_own_page_after_it_was_the_same_for_a_while() {
    let mut site = Site::proven(&beer("i1"), "Hello");
    site.url = Some(OTHER);
    for nth in 0..=unnamed::OWN {
        assert_eq!(site.ask(1, cookie("ann"), "Hello, Ann"), "asked: Hello, Ann", "{nth}");
    }
    assert_eq!(site.ask(1, cookie("ann"), ""), "Hello, Ann");
    assert_eq!(site.ask(1, cookie("bob"), "Hello, Bob"), "asked: Hello, Bob");
    // What he is may be kept by the application.
    let mut site = Site::proven(&beer("i1"), "Hello");
    site.url = Some(OTHER);
    (0..=unnamed::OWN).for_each(|_| drop(site.ask(1, cookie("ann"), "Hello")));
    site.watch.has_acted(&Visitor(&site.cookies, &site.files));
    assert_eq!(site.ask(1, cookie("ann"), "Hello, Ann"), "asked: Hello, Ann");
}

#[test]
fn who_has_changed_something_is_compared_again() {
    let mut site = Site::proven(&beer("i1"), "0 in your cart");
    for _ in 0..unnamed::OWN {
        site.ask(1, cookie("ann"), "0 in your cart");
    }
    assert_eq!(site.ask(1, cookie("ann"), ""), "0 in your cart");
    site.watch.has_acted(&Visitor(&site.cookies, &site.files));
    assert_eq!(site.ask(1, cookie("ann"), "1 in your cart"), "asked: 1 in your cart");
    assert!(matches!(site.stage(), Stage::Off(_)));
}

#[test]
fn browsers_count_when_many_were_answered_alike() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    let browser = |name: &'static str| Some(("browser", name));
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(site.ask(1, browser(name), "Pils"), "asked: Pils");
    }
    assert_eq!(site.ask(1, browser("f"), "Pils"), "Pils");
    // Two are not many.
    let mut site = Site::proven(&beer("i1"), "Pils");
    for nth in 0..10 {
        site.ask(nth, browser(if nth % 2 == 0 { "a" } else { "b" }), "Pils");
    }
    assert_eq!(site.ask(1, browser("c"), "for small screens"), "asked: for small screens");
    assert!(matches!(site.stage(), Stage::Off(_)));
}

#[test]
fn another_load_of_the_code_begins_from_nothing() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    for _ in 0..unnamed::OWN {
        site.ask(1, cookie("ann"), "Pils");
    }
    let moment = site.next();
    site.watch.begin_release("r2", moment);
    site.cookies.clear();
    site.prove(&beer("i1"), "Pils");
    assert_eq!(site.ask(1, cookie("ann"), "Pils"), "asked: Pils");
    let moment = site.next();
    site.watch.purge(moment, TIME);
    assert_eq!(site.ask(2, None, "Pils"), "asked: Pils");
    assert_eq!(site.ask(2, None, "Pils"), "Pils");
}

#[test]
fn what_was_proven_before_the_server_was_started_is_proven_of_no_value() {
    let policy = Policy { mode: Mode::Serve, ..Policy::default() };
    let mut site = Site { watch: Watch::new(policy), ..Site::default() };
    site.learn_schema(SCHEMA);
    site.watch.begin_release("r1", 0);
    site.watch.remember("r1", ["GET /beers/*"].into_iter());
    // So many comparisons by visitors who have nothing.
    for nth in 0..=PROVEN_AGAIN {
        site.ask(nth, None, "Hello");
    }
    assert_eq!(site.stage(), Stage::Serving);
    assert_eq!(site.ask(1, None, ""), "Hello");
    assert_eq!(site.ask(1, Some(("browser", "x")), "Hello"), "asked: Hello");
    assert_eq!(site.ask(1, cookie("ann"), "Hello, Ann"), "asked: Hello, Ann");
    assert!(matches!(site.stage(), Stage::Off(_)));
}

#[test]
fn what_is_remembered_of_values_has_a_bound() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    for nth in 0..3 * unnamed::MAX_HALF as u64 {
        site.ask(nth, Some((format!("cookie{nth}").leak(), "1")), "Pils");
    }
    assert!(site.watch.unnamed.size() <= 2 * unnamed::MAX_HALF, "{}", site.watch.unnamed.size());
    assert_eq!(site.ask(1, None, "Pils"), "Pils");
}

#[test]
fn a_session_whose_cookie_an_answer_has_renewed_that_is_not_kept_is_shown_pages() {
    let session = [beer("i1"), fields(&["C", "", "_s", "browser", "V", "", "session", "user_id", "7"])].concat();
    let mut site = Site::proven(&session, "Pils");
    site.write(&update("i1"));
    let answer = |site: &mut Site, asked: &'static str, set: &'static str| {
        site.visitor = 1;
        site.cookies = [("_s", asked)].into();
        site.set = vec![SetCookie { name: "_s", value: set.as_bytes(), until: None }];
        site.answer(&session, "Pils");
        site.cookies = [("_s", set)].into();
    };
    answer(&mut site, "a", "b");
    answer(&mut site, "b", "c");
    assert_eq!(site.shown().as_deref(), Some("Pils"), "it is the same session");
    // An answer that is not kept has made it of another one.
    answer(&mut site, "x", "y");
    assert_eq!(site.shown().as_deref(), Some("Pils"));
    // Somebody else's is not shown it, and takes nothing from him.
    site.cookies = [("_s", "z")].into();
    site.visitor = 2;
    site.set = vec![SetCookie { name: "_s", value: b"z2", until: None }];
    site.answer(&session, "Pils");
    site.cookies = [("_s", "z2")].into();
    assert_eq!(site.shown(), None);
    site.cookies = [("_s", "y")].into();
    assert_eq!(site.shown().as_deref(), Some("Pils"));
}

#[test]
fn somebody_whose_cookie_is_another_one_is_shown_his_own_page_after_it_was_the_same_for_a_while() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    site.write(&update("i1"));
    for value in ["ann", "ann2"] {
        assert_eq!(site.ask(1, cookie(value), "Pils"), "asked: Pils");
        for nth in 0..unnamed::OWN {
            assert_eq!(site.ask(1, cookie(value), "Pils"), "asked: Pils", "{value} {nth}");
        }
        assert_eq!(site.ask(1, cookie(value), "Pils"), "Pils", "{value}");
    }
}
