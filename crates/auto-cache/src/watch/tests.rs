//! What would have been a hit, what is dropped by a write, and why a page can't be kept. It never looks at how that is stored.

use std::{cell::RefCell, collections::HashMap};

use base64::{engine::general_purpose::STANDARD, Engine};

mod bounds;
mod names_model;
mod random_texts;
mod renewed_sessions;
mod schemas;
mod shown;
mod unnamed_fields;

use super::*;
use crate::{
    holes::{tests::token, Kind},
    keys::{Held, Name},
};

const SCHEMA: &[u8] = b"D\0sqlite\0T\0beers\0C\0id\0INTEGER\0?\0C\0name\0TEXT\0n\0T\0tags\0C\0id\0INTEGER\0?\0";

/// A site, its visitor's cookies, and its files.
#[derive(Default)]
struct Site {
    watch: Watch,
    moment: u64,
    cookies: HashMap<&'static str, &'static str>,
    /// What an answer sets.
    set: Vec<SetCookie<'static>>,
    visitor: u64,
    /// None: the page of the first beer.
    url: Option<&'static str>,
    files: RefCell<HashMap<String, FileMark>>,
    /// When the next answers come. 0: at `TIME`.
    time: u64,
}

struct Visitor<'a>(&'a HashMap<&'static str, &'static str>, &'a RefCell<HashMap<String, FileMark>>);

impl Around for Visitor<'_> {
    fn held(&self, name: &Name) -> Held {
        self.0.get(name.name.as_str()).map_or(Held::Absent, |value| Held::Present(value.as_bytes().to_vec()))
    }

    /// Each of its cookies may show who somebody is, but for what begins with "browser".
    fn each_field(&self, see: &mut dyn FnMut(Field)) {
        for (name, value) in self.0 {
            let is_common = name.starts_with("browser");
            let kind = if is_common { unnamed::Kind::Common } else { unnamed::Kind::Personal };
            let (name, value) = (name.as_bytes(), value.as_bytes());
            see(Field { kind, source: Source::Cookie, name, value, alike: value });
        }
    }

    fn file(&self, path: &str) -> Option<FileMark> {
        self.1.borrow().get(path).copied()
    }
}

fn fields(texts: &[&str]) -> Vec<u8> {
    texts.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect()
}

fn beer(id: &str) -> Vec<u8> {
    fields(&["S", "app/models/beer.rb:7", "SELECT * FROM beers WHERE id = ?", "1", id])
}

fn update(id: &str) -> Vec<u8> {
    fields(&["S", "", "UPDATE beers SET name = ? WHERE id = ?", "2", "tnew", id])
}

const TIME: u64 = 1_000_000_000;

impl Site {
    fn new() -> Site {
        let mut site = Site::default();
        site.learn_schema(SCHEMA);
        site
    }

    fn learn_schema(&mut self, schema: &[u8]) {
        self.watch.begin_schema(1, "s");
        self.watch.learn_schema(1, "s", schema).unwrap();
    }

    fn next(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn done(&mut self, process: u64, id: &str) {
        let moment = self.next();
        self.watch.done(process, id, moment, TIME);
    }

    fn wrote_keys(&mut self, key: &str) {
        self.write(&fields(&["K", "", key]));
    }

    fn url(&self) -> &'static str {
        self.url.unwrap_or("http://shop.test/beers/1")
    }

    /// An answer to a request that began at this moment.
    fn answer_since(&mut self, began: u64, record: &[u8], body: &str) -> Option<Alarm> {
        let answer = Answer {
            url: self.url(),
            route: "GET /beers/*",
            began,
            ended: self.next(),
            now: self.time.max(TIME),
            record: Some(record),
            refused: None,
            cookies: &self.set,
            head: b"content-type: text/html\n",
            etag: None,
            vary: &[],
            visitor: self.visitor,
            nonce: Some("abcdefghijklmnopqrst"),
            body: body.as_bytes(),
        };
        self.watch.answered(&answer, &Visitor(&self.cookies, &self.files))
    }

    /// An answer with another status.
    fn answer_otherwise(&mut self, began: u64, status: u16) -> Option<Alarm> {
        let answer = OtherAnswer { url: self.url(), began, now: TIME, status };
        self.watch.answered_otherwise(&answer, &Visitor(&self.cookies, &self.files))
    }

    fn drop_fitting(&mut self, url: &str) {
        self.watch.drop_fitting(&PageRequest { url, now: TIME }, &Visitor(&self.cookies, &self.files));
    }

    fn answer(&mut self, record: &[u8], body: &str) {
        self.answer_since(self.moment, record, body);
    }

    /// The page that is shown for a request at this time.
    fn shown_at(&mut self, now: u64) -> Option<String> {
        let asked = PageRequest { url: self.url(), now };
        let hit = self.watch.serve(&asked, &Visitor(&self.cookies, &self.files))?;
        let body = hit.page.template.fill(hit.secret.as_ref(), None, || [1; 32]).unwrap();
        Some(String::from_utf8(body).unwrap())
    }

    fn shown(&mut self) -> Option<String> {
        self.shown_at(TIME)
    }

    /// A site in mode serve, whose route has proved to be right with these answers.
    fn proven(record: &[u8], body: &str) -> Site {
        let policy = Policy { mode: Mode::Serve, ..Policy::default() };
        let mut site = Site { watch: Watch::new(policy), ..Site::default() };
        site.learn_schema(SCHEMA);
        site.watch.begin_release("r1", 0);
        site.prove(record, body);
        site
    }

    fn prove(&mut self, record: &[u8], body: &str) {
        for nth in 0..=PROVEN {
            assert_eq!(self.shown(), None, "{nth}");
            self.visitor = nth;
            self.answer(record, body);
        }
    }

    fn write(&mut self, entries: &[u8]) {
        self.watch.intend(1, "a", entries, TIME).unwrap();
        self.done(1, "a");
    }

    fn route(&self) -> &Route {
        self.watch.routes().next().unwrap().1
    }

    /// Hits, and those that differed, of all requests.
    fn counts(&self) -> (u64, u64, u64) {
        let route = self.route();
        (route.hits, route.differed, route.requests)
    }

    /// Why it is never kept, and where that was read.
    fn refusal(&self) -> (String, String) {
        let refusals = self.route().refusals();
        (refusals[0].0.why.clone(), refusals[0].0.at.clone())
    }
}

#[test]
fn a_page_that_nobody_wrote_to_would_be_a_hit() {
    let mut site = Site::new();
    site.answer(&beer("i1"), "Pils");
    assert_eq!(site.counts(), (0, 0, 1));
    site.answer(&beer("i1"), "Pils");
    site.write(&update("i2"));
    site.answer(&beer("i1"), "Pils");
    assert_eq!(site.counts(), (2, 0, 3));
    let readings = &site.route().readings;
    assert_eq!((readings[0].what.as_str(), readings[0].at.as_str()), ("beers#id", "app/models/beer.rb:7"));
    let (pages, written) = site.watch.seen("http://shop.test/beers/1");
    assert_eq!((pages.len(), written), (1, None));
}

#[test]
fn people_are_shown_no_values_of_sql() {
    let mut site = Site::new();
    let writes = fields(&["S", "", "UPDATE beers SET name = 'secret' WHERE id = 1", "0"]);
    site.answer(&beer("i1"), "Pils");
    site.write(&writes);
    let shown = "UPDATE beers SET name = ? WHERE id = ?";
    assert_eq!(site.watch.seen("http://shop.test/beers/1").1.unwrap().by, shown);
    site.answer(&writes, "Pils");
    assert_eq!(site.refusal().0, format!("writes: {shown}"));
}

#[test]
fn a_write_drops_what_it_touches() {
    let mut site = Site::new();
    site.answer(&beer("i1"), "Pils");
    site.write(&update("i1"));
    let (pages, written) = site.watch.seen("http://shop.test/beers/1");
    assert_eq!((pages.len(), written.unwrap().by.as_str()), (0, "UPDATE beers SET name = ? WHERE id = ?"));
    assert_eq!(site.watch.size(), (0, 0));
    site.answer(&beer("i1"), "Bock");
    assert_eq!(site.counts(), (0, 0, 2));
    site.answer(&beer("i1"), "Bock");
    assert_eq!(site.counts(), (1, 0, 3));
}

#[test]
fn what_was_read_during_a_write_is_not_kept() {
    let mut site = Site::new();
    let began = site.moment;
    site.watch.intend(1, "a", &update("i1"), TIME).unwrap();
    site.answer_since(began, &beer("i1"), "Pils");
    site.done(1, "a");
    site.answer_since(began, &beer("i1"), "Pils");
    assert_eq!(site.watch.size().0, 0, "either may be from before the write");
    site.answer(&beer("i1"), "Bock");
    assert_eq!(site.counts(), (0, 0, 3));
    site.watch.intend(2, "b", &update("i1"), TIME).unwrap();
    site.answer(&beer("i1"), "Bock");
    assert_eq!(site.watch.size().0, 0);
    let moment = site.next();
    site.watch.lost(2, moment);
    site.answer(&beer("i1"), "Bock");
    assert_eq!(site.watch.size().0, 1, "the process is gone");
    site.done(3, "b");
    assert_eq!(site.watch.size().0, 0, "it has come back by another connection");
}

#[test]
fn a_page_of_another_request_that_ran_at_the_same_time_is_no_hit() {
    let mut site = Site::new();
    let began = site.moment;
    site.answer_since(began, &beer("i1"), "Pils");
    site.answer_since(began, &beer("i1"), "Pils");
    assert_eq!(site.counts(), (0, 0, 2));
}

#[test]
fn a_page_that_differs_is_counted_and_shown() {
    let mut site = Site::new();
    site.answer(&beer("i1"), "Pils, read 7 times");
    site.answer(&beer("i1"), "Pils, read 8 times");
    assert_eq!(site.counts(), (1, 1, 2));
    let difference = site.route().difference.clone().unwrap();
    assert_eq!(
        (difference.kept.as_str(), difference.application.as_str()),
        ("Pils, read 7 times", "Pils, read 8 times")
    );
    site.answer(&beer("i1"), "Pils, read 8 times");
    assert_eq!(site.counts(), (2, 1, 3), "the new page has taken its place");
}

#[test]
fn a_page_for_each_value_that_it_varies_by() {
    let mut site = Site::new();
    let record = fields(&["V", "app/x.rb:1", "cookie", "locale", "", "V", "", "request", "release", "r1"]);
    for (locale, body) in [("de", "Bier"), ("en", "Beer"), ("de", "Bier"), ("en", "Beer")] {
        site.cookies.insert("locale", locale);
        site.answer(&record, body);
    }
    assert_eq!(site.counts(), (2, 0, 4));
    assert_eq!(site.route().varies(), [Varies { name: "cookie locale".into(), values: 2 }]);
    // Another load of the code has other pages.
    site.answer(&fields(&["V", "app/x.rb:1", "cookie", "locale", "", "V", "", "request", "release", "r2"]), "Bier!");
    assert_eq!(site.counts(), (2, 0, 5));
}

#[test]
fn a_value_of_the_session_is_told_by_its_digest() {
    let mut site = Site::new();
    let user = |digest| fields(&["V", "app/x.rb:1", "session", "user_id", digest]);
    for (digest, body) in [("7", "Ann"), ("8", "Bob"), ("", "Sign in"), ("7", "Ann"), ("8", "Bob"), ("", "Sign in")] {
        site.answer(&user(digest), body);
    }
    assert_eq!(site.counts(), (3, 0, 6));
    site.answer(&[user("7"), user("8")].concat(), "Ann");
    assert_eq!(site.refusal().0, "session.user_id changes while the page is made");
}

#[test]
fn tokens_and_nonces_are_holes() {
    let mut site = Site::new();
    let secrets = [[7u8; 32], [9; 32]];
    for (nth, secret) in secrets.iter().enumerate() {
        let nonce = ["abcdefghijklmnopqrst", "ABCDEFGHIJKLMNOPQRST"][nth];
        let encoded = STANDARD.encode(secret);
        let record = fields(&[
            "C",
            "",
            "_shop_session",
            "browser",
            "P",
            "",
            &encoded,
            "T",
            "",
            "",
            "",
            "M",
            "config/initializers/content_security_policy.rb:3",
            "hex",
        ]);
        let token = token(secret, &Kind::Global, nth as u8, true);
        let body = format!("<meta content=\"{token}\"><script nonce=\"{nonce}\">");
        let head = format!("content-security-policy: script-src 'nonce-{nonce}'\n");
        let answer = Answer {
            url: "http://shop.test/",
            route: "GET /",
            began: site.moment,
            ended: site.next(),
            now: TIME,
            record: Some(&record),
            refused: None,
            cookies: &[SetCookie { name: "_shop_session", value: b"x", until: None }],
            head: head.as_bytes(),
            etag: None,
            vary: &[],
            visitor: 1,
            nonce: Some(nonce),
            body: body.as_bytes(),
        };
        site.watch.answered(&answer, &Visitor(&site.cookies, &site.files));
    }
    assert_eq!(site.counts(), (1, 0, 2));
    assert_eq!((site.route().tokens, site.route().nonces), (1, 2));
    let lost = fields(&["P", "", &STANDARD.encode([7; 32]), "T", "", "", ""]);
    let mut site = Site::new();
    site.answer(&lost, "no token");
    assert_eq!(site.refusal().0, "1 CSRF tokens were made for it, and 0 are found in it");
}

#[test]
fn why_a_page_can_not_be_kept() {
    for (record, why) in [
        (fields(&["M", "app/x.rb:1", "Time.now"]), "reads Time.now"),
        (fields(&["U", "app/x.rb:1", "starts a thread"]), "starts a thread"),
        (fields(&["O", "app/x.rb:1", "http://a.test/"]), "asks another server: http://a.test/"),
        (fields(&["S", "app/x.rb:1", "DELETE FROM beers", "0"]), "writes: DELETE FROM beers"),
    ] {
        let mut site = Site::new();
        site.answer(&record, "");
        site.answer(&record, "");
        assert_eq!(site.refusal(), (why.to_owned(), "app/x.rb:1".to_owned()));
        assert_eq!((site.counts(), site.route().refused, site.watch.size().0), ((0, 0, 2), 2, 0));
    }
    let mut site = Site::new();
    site.answer(b"nonsense", "");
    assert_eq!(site.refusal().0, "its record can't be read");
}

#[test]
fn entries_of_a_cache_and_files() {
    let mut site = Site::new();
    site.files.borrow_mut().insert("/notice".into(), [1, 2, 3]);
    let record = fields(&["K", "", "posts/all", "F", "", "/notice"]);
    site.answer(&record, "a");
    site.answer(&record, "a");
    assert_eq!(site.counts(), (1, 0, 2));
    site.wrote_keys("posts/all");
    site.answer(&record, "b");
    assert_eq!(site.counts(), (1, 0, 3));
    site.files.borrow_mut().insert("/notice".into(), [2, 2, 3]);
    site.answer(&record, "c");
    assert_eq!(site.counts(), (1, 0, 4));
    site.wrote_keys("*");
    assert_eq!(site.watch.size().0, 0);
    site.files.borrow_mut().insert("/notice".into(), [TIME * 1_000_000, 2, 3]);
    site.answer(&record, "d");
    assert_eq!(site.watch.size().0, 0, "the file was written just now");
}
