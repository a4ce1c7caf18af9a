//! Pages with random texts: which are kept, when they are shown, and what refuses them. It never looks at how a place is known to name an element.

use super::*;

fn made(text: &str) -> Vec<u8> {
    [beer("i1"), fields(&["R", "app/x.rb:1", "hex", text])].concat()
}

fn form(text: &str) -> String {
    format!("<form name=\"f-{text}\"><label for=\"l-{text}\">")
}

/// A site that was asked so often that it would show a page.
fn proven() -> Site {
    let policy = Policy { mode: Mode::Serve, ..Policy::default() };
    let mut site = Site { watch: Watch::new(policy), ..Site::default() };
    site.learn_schema(SCHEMA);
    site.watch.begin_release("r1", 0);
    for nth in 0..=PROVEN {
        assert_eq!(site.shown(), None, "{nth}");
        site.visitor = nth;
        let text = format!("{nth:08x}");
        site.answer(&made(&text), &form(&text));
    }
    site
}

#[test]
fn a_form_with_a_random_name_is_shown_with_another_one() {
    let mut site = proven();
    assert_eq!(site.shown(), Some(form("01010101")));
    assert_eq!((site.route().texts, site.counts().1), (2, 0));
}

#[test]
fn a_page_with_random_texts_is_shown_after_it_was_equal_to_another_answer() {
    let mut site = proven();
    site.write(&update("i1"));
    site.answer(&made("aaaaaaaa"), &form("aaaaaaaa"));
    assert_eq!(site.shown(), None);
    site.answer(&made("bbbbbbbb"), &form("bbbbbbbb"));
    assert_eq!(site.shown(), Some(form("01010101")));
    // What was made of the text differs each time.
    site.write(&update("i1"));
    let digest = |text: &str| format!("{}<input value=\"{}\">", form(text), &text[..4].to_uppercase());
    site.answer(&made("aaaaaaaa"), &digest("aaaaaaaa"));
    assert_eq!(site.shown(), None);
    assert!(site.answer_since(site.moment, &made("bbbbbbbb"), &digest("bbbbbbbb")).is_some());
    assert_eq!(site.shown(), None);
}

#[test]
fn the_same_text_at_one_place_and_another_one_at_the_next_is_a_difference() {
    let mut site = proven();
    let two = [made("aaaaaaaa"), fields(&["R", "app/x.rb:1", "hex", "bbbbbbbb"])].concat();
    let page = "<form name=\"f-aaaaaaaa\"><label for=\"l-bbbbbbbb\">";
    assert!(site.answer_since(site.moment, &two, page).is_some());
}

#[test]
fn a_page_that_may_be_more_than_named_by_chance_is_refused() {
    let text = "1a2b3c4d";
    let of = |more: &[&str]| [made(text), fields(more)].concat();
    let (name, read) = (form(text), "a random text decides what else is read");
    let is_more = format!("{name}<input value=\"{text}\">");
    for (record, body, why) in [
        (made(text), "<form>", "a random text is not in the page as it was made"),
        (made(text), &*is_more, "a random text is more than the name of an element"),
        (of(&["S", "", "SELECT * FROM beers WHERE name = ?", "1", "t1a2b3c4d"]), &*name, read),
        (of(&["S", "", "SELECT * FROM beers WHERE name = 'x-1a2b3c4d'", "0"]), &*name, read),
        (of(&["K", "", "views/1a2b3c4d"]), &*name, read),
        (of(&["F", "", "/tmp/1a2b3c4d"]), &*name, read),
        (of(&["V", "", "cookie", "1a2b3c4d", ""]), &*name, read),
        (of(&["T", "", "/x/1a2b3c4d", "post"]), &*name, read),
    ] {
        let mut site = Site::new();
        site.answer(&record, body);
        assert_eq!(site.refusal(), (why.to_owned(), "app/x.rb:1".to_owned()), "{body}");
    }
    let mut site = Site::new();
    let many: Vec<u8> = (0..65).flat_map(|nth| fields(&["R", "app/x.rb:1", "hex", &format!("{nth:08x}")])).collect();
    site.answer(&many, &name);
    assert_eq!(site.refusal().0, "makes more than 64 random texts");
}

#[test]
fn a_random_text_in_the_head_or_in_a_page_of_another_kind_is_refused() {
    let text = "1a2b3c4d";
    let refusal = |head: &[u8], cookie: &'static [u8], etag| {
        let mut site = Site::new();
        let session = fields(&["C", "", "_s", "browser"]);
        let body = form(text);
        let answer = Answer {
            url: "http://shop.test/",
            route: "GET /",
            began: 0,
            ended: 1,
            now: TIME,
            record: Some(&[made(text), session].concat()),
            refused: None,
            cookies: &[SetCookie { name: "_s", value: cookie, until: None }],
            head,
            etag,
            vary: &[],
            visitor: 1,
            nonce: None,
            body: body.as_bytes(),
        };
        site.watch.answered(&answer, &Visitor(&site.cookies, &site.files));
        let (refusals, route) = (site.route().refusals(), site.route());
        refusals.first().map_or((String::new(), route.texts), |(refusal, _)| (refusal.why.clone(), route.texts))
    };
    let html = b"content-type: text/html; charset=utf-8\n";
    assert_eq!(refusal(html, b"x", None), (String::new(), 2));
    let is_in_head = (String::from("a random text is in the head"), 0);
    assert_eq!(refusal(&[&html[..], b"link: </1a2b3c4d>\n"].concat(), b"x", None), is_in_head);
    assert_eq!(refusal(html, b"x1a2b3c4dx", None), is_in_head);
    assert_eq!(refusal(html, b"x", Some("\"1a2b3c4d\"")), is_in_head);
    let is_no_page = (String::from("a random text is in a page that is not HTML"), 0);
    for other in [
        &b"content-type: application/json\n"[..],
        b"content-type: text/html5\n",
        b"x-a: content-type: text/html\n",
        b"",
    ] {
        assert_eq!(refusal(other, b"x", None), is_no_page);
    }
}

#[test]
fn a_nonce_may_be_made_as_a_random_text() {
    let mut site = Site::new();
    let nonce =
        [beer("i1"), fields(&["R", "config/initializers/content_security_policy.rb:3", "hex", "1a2b3c4d5e6f1a2b"])];
    site.answer(&nonce.concat(), "<script nonce=\"abcdefghijklmnopqrst\">");
    assert_eq!((site.route().nonces, site.route().texts), (1, 0));
}
