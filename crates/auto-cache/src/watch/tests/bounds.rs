//! What a site may hold, and what several share. It never looks at what is in a page.

use super::*;

#[test]
fn what_pages_vary_by_counts_as_their_size() {
    let mut site = Site::new();
    let mut size_with = |locale: &'static str| {
        site.cookies.insert("locale", locale);
        let before = site.watch.size().1;
        site.answer(&fields(&["V", "", "cookie", "locale", ""]), "Pils");
        site.watch.size().1 - before
    };
    let (short, long) = (size_with("de"), size_with(&["x"; 100].concat().leak()[..]));
    assert_eq!(long, short + 2 * 98);
    // Each page goes from its own place.
    site.watch.turn_off("GET /beers/*", "");
    assert_eq!(site.watch.size(), (0, 0));
    assert!(site.watch.seen("http://shop.test/beers/1").0.is_empty());
}

#[test]
fn sites_share_their_room_and_none_takes_all_of_it() {
    let page = |site: &mut Site, locale: u64| {
        site.cookies.insert("locale", ["de", "en", "fr", "it", "nl", "pl"][locale as usize]);
        site.answer(&fields(&["V", "", "cookie", "locale", ""]), "Pils");
    };
    let mut alone = Site::new();
    page(&mut alone, 0);
    let room = Arc::new(Room::new(4 * alone.watch.size().1));
    let [mut one, mut other] = [Site::new(), Site::new()].map(|mut site| {
        site.watch = std::mem::take(&mut site.watch).within(room.clone());
        site
    });
    let pages = |one: &Site, other: &Site| [one.watch.size().0, other.watch.size().0];
    (0..6).for_each(|locale| page(&mut one, locale));
    assert_eq!(pages(&one, &other), [4, 0]);
    (0..6).for_each(|locale| page(&mut other, locale));
    assert_eq!(pages(&one, &other), [4, 2], "its part, though all is taken");
    page(&mut one, 0);
    assert_eq!(pages(&one, &other), [2, 2]);
    drop(other);
    (0..6).for_each(|locale| page(&mut one, locale));
    assert_eq!(one.watch.size().0, 4, "what is gone takes no room");
}

#[test]
fn all_of_it_has_bounds() {
    let mut site = Site::new();
    let body = "x".repeat(MAX_BODY);
    for nth in 0..100u64 {
        let (url, route) = (format!("http://shop.test/{nth}"), format!("GET /{nth}"));
        let record = fields(&["M", "", "Time.now"]);
        let (now, began, ended, content_type) = (TIME, site.moment, site.next(), b"content-type: text/html\n");
        let answer = Answer {
            url: &url,
            route: &route,
            began,
            ended,
            now,
            record: Some(&[]),
            refused: None,
            cookies: &[],
            head: content_type,
            etag: None,
            vary: &[],
            visitor: 1,
            nonce: None,
            body: body.as_bytes(),
        };
        site.watch.answered(&answer, &Visitor(&site.cookies, &site.files));
        for more in 0..10 {
            let route = format!("GET /{nth}/{more}");
            site.watch.answered(
                &Answer { route: &route, record: Some(&record), ..answer },
                &Visitor(&site.cookies, &site.files),
            );
        }
    }
    let (pages, bytes) = site.watch.size();
    assert!(pages < 40 && bytes <= 32 << 20, "{pages} {bytes}");
    assert!(site.watch.routes().count() <= 301);
    assert!(site.watch.seen("http://shop.test/0").0.is_empty() && site.watch.seen("http://shop.test/99").0.len() == 1);
}

#[test]
fn a_page_that_was_made_of_too_many_files_is_not_kept() {
    let file = |nth: usize| fields(&["F", "app/models/part.rb:3", &format!("parts/{nth}")]);
    let record = |count| (0..count).flat_map(file).collect::<Vec<u8>>();
    let mut site = Site::new();
    site.files.borrow_mut().extend((0..64).map(|nth| (format!("parts/{nth}"), [1, 2, 3])));
    site.answer(&record(64), "Pils");
    site.answer(&record(64), "Pils");
    assert_eq!(site.counts(), (1, 0, 2));
    let mut site = Site::new();
    site.answer(&record(65), "Pils");
    assert_eq!(site.refusal(), ("reads more than 64 files".into(), "app/models/part.rb:3".into()));
}
