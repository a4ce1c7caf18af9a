//! Files that the app named.

use super::{
    super::{plain_file, send_file},
    *,
};

async fn send(public: &Public, asked: Parts, response: http::response::Builder) -> Answer {
    let head = response.body(()).unwrap();
    let response = send_file(&asked, head, &files(), &public.path("a.txt")).await.unwrap();
    Answer::read(response).await.unwrap()
}

fn get(fields: &[(&str, &str)]) -> Parts {
    request(Method::GET, "/download/1", fields)
}

fn app_head() -> http::response::Builder {
    Response::builder()
}

#[tokio::test]
async fn keeps_the_apps_head() {
    let public = Public::with(&[("a.txt", "0123456789")]);
    let head = app_head()
        .header("x-sendfile", "/srv/a.txt")
        .header("x-accel-redirect", "/internal/a.txt")
        .header("content-length", "0")
        .header("content-type", "application/pdf")
        .header("content-disposition", "attachment")
        .header("set-cookie", "a=1")
        .header("set-cookie", "b=2");
    let answer = send(&public, get(&[]), head).await;
    assert_eq!((answer.status(), answer.text()), (StatusCode::OK, "0123456789"));
    assert_eq!(answer.field("content-length"), "10");
    assert_eq!(answer.field("content-type"), "application/pdf");
    assert_eq!(answer.field("content-disposition"), "attachment");
    assert_eq!(answer.field("last-modified"), LONG_AGO_DATE);
    assert_eq!(answer.response.headers().get_all("set-cookie").iter().count(), 2);
    assert!(!answer.field("etag").is_empty());
    assert_eq!((answer.field("x-sendfile"), answer.field("x-accel-redirect")), ("", ""));
    let guessed = send(&public, get(&[]), app_head()).await;
    assert_eq!(guessed.field("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn honours_conditions_and_ranges() {
    let public = Public::with(&[("a.txt", "0123456789")]);
    let tagged = || app_head().header("etag", "\"own\"").header("set-cookie", "a=1");
    let answer = send(&public, get(&[("if-none-match", "\"own\"")]), tagged()).await;
    assert_eq!((answer.status(), answer.field("set-cookie")), (StatusCode::NOT_MODIFIED, "a=1"));
    assert_eq!(answer.field("etag"), "\"own\"");
    let answer = send(&public, get(&[("range", "bytes=0-1"), ("if-range", "\"own\"")]), tagged()).await;
    assert_eq!((answer.status(), answer.text()), (StatusCode::PARTIAL_CONTENT, "01"));
    let answer = send(&public, get(&[("range", "bytes=0-1"), ("if-range", "\"old\"")]), tagged()).await;
    assert_eq!((answer.status(), answer.text()), (StatusCode::OK, "0123456789"));
    let answer = send(&public, get(&[("if-modified-since", LONG_AGO_DATE)]), app_head()).await;
    assert_eq!(answer.status(), 304);
    let dated = app_head().header("last-modified", "Sun, 09 Sep 2001 01:46:41 GMT");
    let answer = send(&public, get(&[("if-modified-since", LONG_AGO_DATE)]), dated).await;
    assert_eq!((answer.status(), answer.field("last-modified")), (StatusCode::OK, "Sun, 09 Sep 2001 01:46:41 GMT"));
    let refusing = app_head().header("accept-ranges", "none");
    assert_eq!(send(&public, get(&[("range", "bytes=0-1")]), refusing).await.status(), 200);
}

#[tokio::test]
async fn leaves_other_answers_alone() {
    let public = Public::with(&[("a.txt", "0123456789")]);
    let conditions = [("range", "bytes=0-1"), ("if-modified-since", LONG_AGO_DATE), ("if-match", "\"x\"")];
    let answer = send(&public, get(&conditions), app_head().status(404)).await;
    assert_eq!((answer.status(), answer.text(), answer.field("etag")), (StatusCode::NOT_FOUND, "0123456789", ""));
    let posted = request(Method::POST, "/", &conditions);
    let answer = send(&public, posted, app_head()).await;
    assert_eq!((answer.status(), answer.text()), (StatusCode::OK, "0123456789"));
    let head = request(Method::HEAD, "/", &[]);
    let answer = send(&public, head, app_head()).await;
    assert_eq!((answer.text(), answer.field("content-length")), ("", "10"));
    let answer = send(&public, get(&[]), app_head().status(204)).await;
    assert_eq!((answer.text(), answer.field("content-length")), ("", ""));
}

#[tokio::test]
async fn plain_files_are_their_bytes() {
    let public = Public::with(&[("a.txt", "0123456789"), ("empty", "")]);
    let (length, body) = plain_file(&files(), &public.path("a.txt")).await.unwrap();
    assert_eq!((length, body.collect().await.unwrap().to_bytes().as_ref()), (10, &b"0123456789"[..]));
    assert_eq!(plain_file(&files(), &public.path("empty")).await.unwrap().0, 0);
    for missing in ["nowhere", ""] {
        let error = plain_file(&files(), &public.path(missing)).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
