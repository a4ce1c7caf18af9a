//! Which pages get the script, and how; who gets the stream, and what it says.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::*;

const TAG: &str = r#"<script src="/.paceline/live-reload.js" async data-turbo-eval="false"></script>"#;
const PAGE: &str = "<!doctype html><body>hello</body>";

fn head(method: &str, target: &str, fields: &[(&'static str, &'static str)]) -> Parts {
    let mut request = http::Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn in_a_tab(fields: &[(&'static str, &'static str)]) -> PageRequest {
    let document = [&[("sec-fetch-dest", "document")][..], fields].concat();
    PageRequest::take(&mut head("GET", "/", &document)).unwrap()
}

fn response(status: u16, fields: &[(&'static str, &'static str)], body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(body).unwrap()
}

fn whole(text: &'static str) -> ResponseBody {
    ResponseBody::Whole(text.into())
}

async fn text(response: Response<ResponseBody>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[test]
fn only_documents_of_tabs() {
    for (fields, expected) in [
        (&[("sec-fetch-dest", "document")][..], true),
        (&[("accept", "text/html,*/*")], true),
        (&[("accept", "*/*")], false),
        (&[], false),
        (&[("sec-fetch-dest", "iframe"), ("accept", "text/html")], false),
        (&[("sec-fetch-dest", "empty"), ("accept", "text/html")], false),
        (&[("accept", "text/html"), ("turbo-frame", "cart")], false),
        (&[("accept", "text/html"), ("x-turbo-request-id", "1")], false),
        (&[("accept", "text/html"), ("x-requested-with", "XMLHttpRequest")], false),
    ] {
        assert_eq!(PageRequest::take(&mut head("GET", "/", fields)).is_some(), expected, "{fields:?}");
    }
    for method in ["HEAD", "POST"] {
        assert!(PageRequest::take(&mut head(method, "/", &[("sec-fetch-dest", "document")])).is_none());
    }
}

#[tokio::test]
async fn a_page_gets_the_script_before_its_end() {
    let html = ("content-type", "text/html; charset=utf-8");
    for (page, expected) in [
        (PAGE, format!("<!doctype html><body>hello{TAG}</body>")),
        ("<p>hello", format!("<p>hello{TAG}")),
        ("<script>'</body>'</script><p>", format!("<script>'</body>'</script><p>{TAG}")),
    ] {
        let answer = inject(&in_a_tab(&[]), response(200, &[html, ("content-length", "7")], whole(page)));
        assert_eq!(answer.headers()["content-length"], (7 + TAG.len()).to_string());
        assert_eq!(text(answer).await, expected);
    }
    let error = inject(&in_a_tab(&[]), response(503, &[html], whole(PAGE)));
    assert!(text(error).await.contains(" data-error></script></body>"));
}

/// A body that the test sends piece by piece.
struct Pieces(mpsc::UnboundedReceiver<&'static str>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece.into()))))
    }
}

#[tokio::test]
async fn a_page_in_pieces_is_passed_on_as_it_comes() {
    for (last, end) in [("dy>", format!("{TAG}</body>")), ("ld>", format!("</bold>{TAG}"))] {
        let (sender, pieces) = mpsc::unbounded_channel();
        let body = ResponseBody::stream(Pieces(pieces));
        let mut page = inject(&in_a_tab(&[]), response(200, &[("content-type", "text/html")], body)).into_body();
        sender.send("<body>one").unwrap();
        assert_eq!(next(&mut page).await, "<body>one");
        sender.send(" two</bo").unwrap();
        assert_eq!(next(&mut page).await, " two");
        sender.send(last).unwrap();
        drop(sender);
        assert_eq!(page.collect().await.unwrap().to_bytes(), end);
    }
}

#[tokio::test]
async fn what_is_no_page_or_must_not_be_changed_stays_as_it_is() {
    let html = ("content-type", "text/html");
    for (status, fields) in [
        (200, &[("content-type", "text/plain")][..]),
        (200, &[("content-type", "text/html; charset=utf-16")]),
        (200, &[html, ("content-encoding", "gzip")]),
        (206, &[html, ("content-range", "bytes 0-3/9")]),
        (200, &[html, ("content-disposition", "attachment; filename=a.html")]),
        (200, &[html, ("cache-control", "no-transform")]),
        (200, &[html, ("repr-digest", "sha-256=:AA==:")]),
        (200, &[]),
    ] {
        assert_eq!(text(inject(&in_a_tab(&[]), response(status, fields, whole(PAGE)))).await, PAGE, "{fields:?}");
    }
    for status in [204, 304] {
        assert!(text(inject(&in_a_tab(&[]), response(status, &[html], ResponseBody::Empty))).await.is_empty());
    }
}

#[tokio::test]
async fn its_tag_becomes_a_weak_one() {
    let fields = [("content-type", "text/html"), ("etag", "\"a\"")];
    let answer = inject(&in_a_tab(&[]), response(200, &fields, whole(PAGE)));
    assert_eq!(answer.headers()["etag"], "W/\"a\"");
}

#[test]
fn pages_are_asked_for_unconditionally() {
    let conditions = [("if-none-match", "W/\"a\""), ("if-modified-since", "Thu, 26 Nov 2026 11:00:00 GMT")];
    for (destination, left) in [("document", 0), ("empty", 2)] {
        let mut head = head("GET", "/", &[&conditions[..], &[("sec-fetch-dest", destination)]].concat());
        assert_eq!(PageRequest::take(&mut head).is_some(), left == 0);
        let kept = conditions.iter().filter(|(name, _)| head.headers.contains_key(*name)).count();
        assert_eq!(kept, left, "{destination}");
    }
}

#[tokio::test]
async fn the_script_has_the_nonce_of_the_page() {
    for (policy, nonce) in [
        ("script-src 'self' 'nonce-abc+/='", Some("abc+/=")),
        ("default-src 'nonce-a'; script-src-elem 'nonce-b'", Some("b")),
        ("default-src 'nonce-a'", Some("a")),
        ("style-src 'nonce-a'", None),
        ("script-src 'nonce-a\"onload=x'", None),
        ("script-src 'self'", None),
    ] {
        let fields = [("content-type", "text/html"), ("content-security-policy", policy)];
        let page = text(inject(&in_a_tab(&[]), response(200, &fields, whole(PAGE)))).await;
        match nonce {
            Some(nonce) => assert!(page.contains(&format!(" nonce=\"{nonce}\"></script>")), "{policy}: {page}"),
            None => assert!(page.contains(TAG), "{policy}: {page}"),
        }
    }
}

#[tokio::test]
async fn the_script_is_small_and_has_all_of_its_code() {
    let live = LiveReload::default();
    let answer = live.answer(&head("GET", "/.paceline/live-reload.js", &[])).unwrap();
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let script = text(answer).await;
    assert!(script.len() < 4096, "{} bytes", script.len());
    assert!(script.starts_with("(() => {\n") && script.ends_with("connect()\n})()\n"));
    assert!(live.answer(&head("GET", "/.paceline/other", &[])).is_none());
    assert!(live.answer(&head("POST", "/.paceline/live-reload", &[])).is_none());
}

async fn next(body: &mut ResponseBody) -> String {
    let frame = body.frame().await.unwrap().unwrap();
    std::str::from_utf8(frame.data_ref().unwrap()).unwrap().to_owned()
}

fn stream(live: &LiveReload, target: &str, fields: &[(&'static str, &'static str)]) -> ResponseBody {
    let answer = live.answer(&head("GET", target, fields)).unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &HeaderValue::from_static("text/event-stream"))
    );
    answer.into_body()
}

#[tokio::test]
async fn a_stream_says_what_has_changed() {
    let live = LiveReload::default();
    let id = live.id.clone();
    let mut first = stream(&live, "/.paceline/live-reload?age=0", &[]);
    assert_eq!(next(&mut first).await, format!("retry: 500\nid: {id}-0\ndata: nothing\n\n"));
    live.tell(&[Change::Styles].into());
    assert_eq!(next(&mut first).await, format!("id: {id}-1\ndata: styles\n\n"));
    live.tell(&[Change::Page, Change::Styles].into());
    assert_eq!(next(&mut first).await, format!("id: {id}-2\ndata: styles page\n\n"));
    live.tell(&[].into());

    for (target, expected) in [
        (format!("since={id}-2"), "nothing"),
        (format!("since={id}-1"), "styles page"),
        ("since=other-2".to_owned(), "scripts"),
        ("age=3600000".to_owned(), "styles page"),
        ("age=x".to_owned(), "nothing"),
    ] {
        let mut later = stream(&live, &format!("/.paceline/live-reload?{target}"), &[]);
        assert_eq!(next(&mut later).await, format!("retry: 500\nid: {id}-2\ndata: {expected}\n\n"), "{target}");
    }
    let mut again = stream(&live, "/.paceline/live-reload?age=3600000", &[("last-event-id", "older-9")]);
    assert!(next(&mut again).await.contains("data: scripts"));

    live.close();
    assert!(first.frame().await.is_none());
    assert_eq!(live.answer(&head("GET", "/.paceline/live-reload", &[])).unwrap().status(), 503);
}

#[tokio::test]
async fn streams_are_bounded_and_free_their_place() {
    let live = LiveReload::default();
    let mut open: Vec<_> = (0..MAX_STREAMS).map(|_| stream(&live, "/.paceline/live-reload", &[])).collect();
    let status = || live.answer(&head("GET", "/.paceline/live-reload", &[])).unwrap().status().as_u16();
    assert_eq!(status(), 503);
    open.pop();
    while live.streams.load(std::sync::atomic::Ordering::SeqCst) == MAX_STREAMS {
        tokio::task::yield_now().await;
    }
    assert_eq!(status(), 200);
}

#[tokio::test]
async fn a_stream_that_begins_while_the_server_ends_ends_too() {
    let live = LiveReload::default();
    let place = super::stream::Place::take(&live.streams, MAX_STREAMS).unwrap();
    live.close();
    let mut late = super::stream::begin(live.id.clone(), live.changes.subscribe(), Known::Nothing, place);
    assert!(late.frame().await.is_none());
}

#[test]
fn other_sites_get_no_stream() {
    let live = LiveReload::default();
    for (fields, expected) in [
        (&[("sec-fetch-site", "cross-site")][..], 403),
        (&[("sec-fetch-site", "same-site")], 403),
        (&[("host", "shop.localhost:3000"), ("origin", "https://evil.example")], 403),
        (&[("host", "shop.localhost:3000"), ("origin", "http://shop.localhost:3000")], 200),
        (&[("sec-fetch-site", "same-origin")], 200),
    ] {
        // HEAD begins no stream.
        let answer = live.answer(&head("HEAD", "/.paceline/live-reload", fields)).unwrap();
        assert_eq!(answer.status().as_u16(), expected, "{fields:?}");
    }
}
