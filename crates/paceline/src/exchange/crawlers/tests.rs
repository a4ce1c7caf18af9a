//! Requests as crawlers and visitors send them.

use std::net::Ipv4Addr;

use http::Request;

use super::*;

const A: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
const BY_NAME: Option<Crawler> = Some(Crawler { sign: Sign::Name, is_patient: false });
const BY_BEHAVIOUR: Option<Crawler> = Some(Crawler { sign: Sign::Behaviour, is_patient: false });

fn crawlers() -> Crawlers {
    Crawlers::new(&Settings { pages: Some(60), verified: Vec::new() })
}

fn head(method: Method, path: &str, fields: &[(&str, &str)]) -> Parts {
    let request = Request::builder().method(method).uri(path);
    let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

fn get(path: &str, fields: &[(&str, &str)]) -> Parts {
    head(Method::GET, path, fields)
}

fn content(kind: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, http::HeaderValue::from_static(kind))])
}

/// The signs after this many different pages.
fn after(crawlers: &Crawlers, pages: u32, fields: &[(&str, &str)], kind: &'static str) -> Option<Crawler> {
    for page in 0..pages {
        let verdict = crawlers.judge(A, &get(&format!("/beers/{page}"), fields), 5);
        crawlers.note(A, verdict, &content(kind), 5);
    }
    crawlers.judge(A, &get("/beers/last", fields), 5).crawler
}

#[test]
fn by_what_it_says() {
    let judged = |head: Parts| crawlers().judge(A, &head, 5).crawler;
    let agent = |agent: &'static str| ("user-agent", agent);
    assert_eq!(judged(get("/beers", &[agent(GOOGLEBOT)])), BY_NAME);
    assert_eq!(judged(head(Method::HEAD, "/beers", &[agent(GOOGLEBOT)])), BY_NAME);
    assert_eq!(judged(get("/beers", &[agent(GOOGLEBOT), ("cookie", "a=b")])), BY_NAME, "crawlers keep cookies, too");
    assert_eq!(judged(get("/beers", &[agent(FIREFOX)])), None);
    assert_eq!(judged(get("/beers", &[])), None);
    assert_eq!(judged(head(Method::POST, "/hooks", &[agent("Stripe/1.0 (+https://stripe.com/docs/webhooks)")])), None);
}

#[test]
fn no_person_and_no_account_is_one_whatever_it_is_called() {
    let judged = |fields: &[(&str, &str)]| {
        let all = [&[("user-agent", "Robot Browser (bot lover)")][..], fields].concat();
        crawlers().judge(A, &get("/beers", &all), 5).crawler
    };
    assert_eq!(judged(&[]), BY_NAME);
    assert_eq!(judged(&[("cookie", "_session=1"), ("sec-fetch-mode", "navigate")]), None);
    assert_eq!(judged(&[("authorization", "Bearer x")]), None);
}

#[test]
fn what_is_there_for_crawlers() {
    let crawlers = crawlers();
    let judged = |path: &str| crawlers.judge(A, &get(path, &[("user-agent", GOOGLEBOT)]), 5).crawler;
    for path in ["/robots.txt", "/.well-known/security.txt"] {
        assert_eq!(judged(path), None, "{path}");
    }
    for path in ["/sitemap.xml", "/sitemaps/sitemap-3.xml.gz", "/sitemap.txt", "/feed", "/blog/feed.xml", "/news.atom"]
    {
        assert!(judged(path).is_some_and(|crawler| crawler.is_patient), "{path}");
    }
    for path in ["/", "/robots.txt/", "/sitemap", "/beers.xml", "/feed/beers", "/x.gz", "/."] {
        assert_eq!(judged(path), BY_NAME, "{path}");
    }
}

#[test]
fn by_what_it_does() {
    assert_eq!(after(&crawlers(), 20, &[], "text/html"), None);
    assert_eq!(after(&crawlers(), 200, &[], "text/html; charset=utf-8"), BY_BEHAVIOUR);
    assert_eq!(after(&crawlers(), 200, &[("user-agent", FIREFOX)], "text/html"), BY_BEHAVIOUR);
    assert_eq!(after(&crawlers(), 200, &[], "application/json"), None, "a program that uses an API");
    assert_eq!(after(&crawlers(), 200, &[("cookie", "a=b")], "text/html"), None);
    assert_eq!(after(&crawlers(), 200, &[("sec-fetch-mode", "navigate")], "text/html"), None);
    let off = Crawlers::new(&Settings { pages: None, verified: Vec::new() });
    assert_eq!(after(&off, 200, &[], "text/html"), None);
}

#[test]
fn an_address_that_fetches_what_browsers_fetch_is_none() {
    let crawlers = crawlers();
    let verdict = crawlers.judge(A, &get("/assets/shop.css", &[]), 5);
    crawlers.note(A, verdict, &content("text/css"), 5);
    assert_eq!(after(&crawlers, 200, &[], "text/html"), None);
}

#[test]
fn what_a_named_crawler_fetches_excuses_nobody() {
    let crawlers = crawlers();
    let verdict = crawlers.judge(A, &get("/logo.png", &[("user-agent", GOOGLEBOT)]), 5);
    crawlers.note(A, verdict, &content("image/png"), 5);
    assert_eq!(after(&crawlers, 200, &[], "text/html"), BY_BEHAVIOUR);
}

#[test]
fn it_stays_one_while_it_is_refused() {
    let crawlers = crawlers();
    assert_eq!(after(&crawlers, 200, &[], "text/html"), BY_BEHAVIOUR);
    for minute in 1..60 {
        let now = 5 + minute * 60;
        for page in 0..200 {
            let verdict = crawlers.judge(A, &get(&format!("/{page}"), &[]), now);
            assert_eq!(verdict.crawler, BY_BEHAVIOUR, "minute {minute}");
            crawlers.note(A, verdict, &content("text/plain"), now);
        }
    }
}
