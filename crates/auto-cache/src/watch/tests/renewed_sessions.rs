//! Sessions whose cookie an answer renews of which no page is kept: what was shown to the old cookie is shown to the new one, unless the application may have changed the
//! session.

use super::*;

const USER: [&str; 9] = ["C", "", "_s", "browser", "V", "", "session", "user_id", "7"];
const CLOCK: [&str; 3] = ["M", "app/x.rb:1", "Time.now"];

/// Somebody has the cookie `a`, and is shown a page that reads the session.
fn shown() -> Site {
    let mut site = Site::proven(&[beer("i1"), fields(&USER)].concat(), "Pils");
    site.write(&update("i1"));
    site.visitor = 1;
    site.cookies = HashMap::from([("_s", "a")]);
    site.answer(&[beer("i1"), fields(&USER)].concat(), "Pils");
    assert_eq!(site.shown().as_deref(), Some("Pils"));
    site
}

/// The page that the new cookie is shown after an answer with this record has set it.
fn after(record: &[&[&str]], name: &'static str, value: &'static str) -> Option<String> {
    let mut site = shown();
    let own = site.url.replace("http://shop.test/beers/2");
    site.set = vec![SetCookie { name, value: value.as_bytes(), until: None }];
    site.answer(&record.iter().flat_map(|part| fields(part)).collect::<Vec<u8>>(), "12:30");
    site.url = own;
    site.cookies = HashMap::from([("_s", "b")]);
    site.shown()
}

#[test]
fn a_cookie_that_came_with_a_page_that_is_not_kept_is_the_same_session() {
    let pils = Some("Pils".to_owned());
    assert_eq!(after(&[&USER, &CLOCK], "_s", "b"), pils);
    let write = ["S", "", "UPDATE beers SET name = 'x'", "0"];
    assert_eq!(after(&[&USER, &write], "_s", "b"), pils, "of the database, not of the session");
    // It does not say which cookie the session's is.
    assert_eq!(after(&[&CLOCK], "_s", "b"), None);
    assert_eq!(after(&[&USER, &CLOCK], "other", "b"), None);
}

#[test]
fn a_session_that_may_be_another_one_is_shown_nothing() {
    for changed in [
        &["U", "", "writes the session"][..],
        &["U", "", "reads more than 512 KB of statements and names"],
        &["V", "", "session", "user_id", "8"],
        &["C", "", "_other", "browser"],
        &["C", "", "_s", "server"],
        &["cut off"],
    ] {
        assert_eq!(after(&[&USER, &CLOCK, changed], "_s", "b"), None, "{changed:?}");
    }
}

#[test]
fn who_has_no_session_any_more_is_not_who_had_one() {
    let mut site = shown();
    site.set = vec![SetCookie { name: "_s", value: b"", until: Some(0) }];
    let own = site.url.replace("http://shop.test/beers/2");
    site.answer(&[fields(&USER), fields(&CLOCK)].concat(), "12:30");
    site.url = own;
    for cookies in [HashMap::from([("_s", "")]), HashMap::new()] {
        site.cookies = cookies;
        assert_eq!(site.shown(), None);
    }
}

/// As a redirect renews it: there is no page at all.
#[test]
fn what_no_record_names_is_known_of_the_new_cookie_too() {
    let mut site = Site::proven(&beer("i1"), "Pils");
    site.cookies = HashMap::from([("_s", "a")]);
    (0..unnamed::OWN).for_each(|_| site.answer(&beer("i1"), "Pils"));
    assert_eq!(site.shown().as_deref(), Some("Pils"));
    let renewed = |site: &mut Site, record: &[u8]| {
        let session = UnchangedSession::of(record)?;
        let set = [SetCookie { name: "_s", value: b"b", until: None }];
        site.watch.learn_session(&session, &set, TIME, &Visitor(&site.cookies, &site.files));
        site.cookies = HashMap::from([("_s", "b")]);
        site.shown()
    };
    let mut other = shown();
    assert_eq!(renewed(&mut other, &fields(&["U", "", "writes the session"])), None);
    assert_eq!(renewed(&mut site, &fields(&USER)).as_deref(), Some("Pils"));
}
