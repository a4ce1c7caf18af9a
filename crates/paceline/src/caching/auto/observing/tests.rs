//! What is concluded of requests that were observed.

use super::*;
use http::Request;
use http_body_util::{BodyExt, Full};

/// An answer whose body has not been asked for.
fn under_way(auto: &Arc<AutoCache>, body: ResponseBody) -> ResponseBody {
    let (head, ()) = Request::get("http://shop.test/").body(()).unwrap().into_parts();
    let mut exchange = Exchange::begin(Arc::default(), None, None, None);
    let watched = auto.begin(&head, &mut exchange).unwrap();
    auto.observe(watched, &head, &exchange, Response::new(body)).into_body()
}

#[test]
fn bodies_under_way_count_as_waiting() {
    let (auto, mut answers) = AutoCache::for_tests();
    let endless = || ResponseBody::stream(Endless);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut slow = under_way(&auto, endless());
    runtime.block_on(slow.frame()).unwrap().unwrap();
    assert_eq!(auto.waiting.load(Relaxed), 4);
    drop(slow);
    assert_eq!(auto.waiting.load(Relaxed), 0);
    auto.waiting.store(MAX_WAITING, Relaxed);
    let mut slow = under_way(&auto, endless());
    runtime.block_on(slow.frame()).unwrap().unwrap();
    assert_eq!((auto.waiting.load(Relaxed), auto.passed_over()), (MAX_WAITING, 1));
    auto.waiting.store(0, Relaxed);
    runtime.block_on(under_way(&auto, stream("Pils")).collect()).unwrap();
    assert_eq!(auto.waiting.load(Relaxed), answers.try_recv().unwrap().size, "what is handed over counts once");
}

/// It goes on after its first frame.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"Pils")))))
    }
}

fn told(response: Response<ResponseBody>, request: http::request::Builder) -> (Option<Observed>, Bytes) {
    let (head, ()) = request.uri("http://shop.test/beers/1?a=b").body(()).unwrap().into_parts();
    let (auto, mut answers) = AutoCache::for_tests();
    let mut exchange = Exchange::begin(Arc::default(), None, None, None);
    let watched = auto.begin(&head, &mut exchange);
    let response = match watched {
        Some(watched) => auto.observe(watched, &head, &exchange, response),
        None => response,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let body = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
    (answers.try_recv().ok(), body)
}

fn stream(text: &'static str) -> ResponseBody {
    ResponseBody::stream(Full::new(Bytes::from(text)).map_err(|never| match never {}))
}

#[test]
fn what_has_passed_is_handed_over_once_it_is_whole() {
    for body in [ResponseBody::from(String::from("Pils")), stream("Pils")] {
        let (observed, sent) = told(Response::new(body), Request::get("/"));
        let observed = observed.unwrap();
        assert_eq!((observed.body.concat().as_slice(), &sent[..]), (&b"Pils"[..], &b"Pils"[..]));
        assert_eq!((observed.url.as_str(), observed.route.as_str()), ("http://shop.test/beers/1?a=b", "GET /beers/*"));
        assert_eq!((observed.refused, observed.cookies), (None, Vec::new()));
    }
    let large = String::from_utf8(vec![b'x'; MAX_BODY + 1]).unwrap();
    let (observed, sent) = told(Response::new(large.into()), Request::get("/"));
    let observed = observed.unwrap();
    assert_eq!((observed.body.len(), sent.len()), (0, MAX_BODY + 1));
    assert!(observed.refused.is_some());
}

#[test]
fn what_a_cache_does_not_answer_is_not_seen() {
    assert!(told(Response::new(stream("x")), Request::post("/")).0.is_none());
    let answer = |status: u16| Response::builder().status(status).body(stream("x")).unwrap();
    for status in [206, 304, 429, 500, 503] {
        assert!(told(answer(status), Request::get("/")).0.is_none(), "{status}");
    }
    assert!(told(answer(404), Request::get("/").header("authorization", "Basic x")).0.is_none());
}

#[test]
fn of_an_answer_that_is_no_page_the_status_is_seen() {
    for status in [302_u16, 404] {
        let response = Response::builder().status(status).body(stream("x")).unwrap();
        let (observed, sent) = told(response, Request::get("/"));
        let observed = observed.unwrap();
        assert_eq!((observed.status, observed.body.len(), &sent[..]), (Some(status), 0, &b"x"[..]));
        assert!(!observed.is_incomplete());
    }
    assert_eq!(told(Response::new(stream("x")), Request::get("/")).0.unwrap().status, None);
}

#[test]
fn heads_that_refuse() {
    for (name, value, why) in [
        ("cache-control", "private, No-Store", "says Cache-Control: no-store"),
        ("vary", "accept, *", "says Vary: *"),
        ("content-type", "text/event-stream; charset=utf-8", "is an event stream"),
        ("content-encoding", "gzip", "is compressed by the application"),
        ("x-sendfile", "/a", "is a file"),
        ("expires", "0", "says Expires, and no max-age in Cache-Control"),
        ("surrogate-control", "content=\"ESI/1.0\"", "says Surrogate-Control"),
        ("paceline-changes-at", "1764158400", "changes at a known time (Paceline.changes_at)"),
    ] {
        let response = Response::builder().header(name, value).body(stream("x")).unwrap();
        assert_eq!(told(response, Request::get("/")).0.unwrap().refused.unwrap(), why);
    }
    for (control, is_refused) in [("public", true), ("private, Max-Age=0", false), ("no-cache", false)] {
        let response = Response::builder().header("expires", "0").header("cache-control", control);
        let observed = told(response.body(stream("x")).unwrap(), Request::get("/")).0.unwrap();
        assert_eq!(observed.refused.is_some(), is_refused, "{control}");
    }
    let asked = Request::get("/").header("authorization", "Basic x");
    assert!(told(Response::new(stream("x")), asked).0.unwrap().refused.is_some());
    let cookie = Response::builder()
        .header("set-cookie", "theme=dark; path=/")
        .header("content-security-policy", "script-src 'self' 'nonce-abc'")
        .body(stream("x"))
        .unwrap();
    let observed = told(cookie, Request::get("/")).0.unwrap();
    assert_eq!((observed.cookies[0].name.as_str(), observed.nonce.unwrap().as_str()), ("theme", "abc"));
    assert_eq!(observed.head, b"content-security-policy: script-src 'self' 'nonce-abc'\n");
}

#[test]
fn cookies_with_their_end() {
    let cookie = |line: &str| {
        let found = set_cookie(line.as_bytes(), 1000);
        (found.name, String::from_utf8(found.value).unwrap(), found.until)
    };
    let found = |name: &str, value: &str, until| (name.to_owned(), value.to_owned(), until);
    assert_eq!(cookie("_s=a=b; path=/; HttpOnly"), found("_s", "a=b", None));
    assert_eq!(cookie("_s=a; Max-Age=2; expires=Thu, 01 Jan 1970 00:00:09 GMT"), found("_s", "a", Some(3000)));
    assert_eq!(cookie("_s=a; expires=Thu, 01 Jan 1970 00:00:09 GMT"), found("_s", "a", Some(9000)));
    assert_eq!(cookie("_s=a; max-age=18446744073709551615"), found("_s", "a", Some(u64::MAX)));
    assert_eq!(cookie("_s; max-age=soon"), found("_s", "", Some(0)));
}

#[test]
fn what_an_answer_says_that_it_depends_on() {
    let mut headers = HeaderMap::new();
    headers.append("vary", "Accept-Encoding, Origin".parse().unwrap());
    headers.append("vary", "cookie".parse().unwrap());
    let name = |source, name: &str| Name { source, name: name.into() };
    assert_eq!(vary(&headers), [name(Source::Cookie, "*"), name(Source::Header, "origin")]);
    headers.insert("vary", "Sec-Fetch-Site".parse().unwrap());
    assert_eq!(vary(&headers), [name(Source::Request, EMBEDDING_SITE)]);
    headers.append("vary", "Sec-Fetch-Mode".parse().unwrap());
    assert_eq!(vary(&headers), ["sec-fetch-mode", "sec-fetch-site"].map(|own| name(Source::Header, own)));
}
