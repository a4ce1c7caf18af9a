//! Conditions and ranges, on real files.

use super::*;

#[tokio::test]
async fn not_modified_keeps_validators_only() {
    let public = Public::with(&[("assets/app-0123abcd.css", "body {}")]);
    let url = "/assets/app-0123abcd.css";
    let etag = public.get(url, &[]).await.unwrap().field("etag").to_owned();
    for field in [("if-none-match", etag.as_str()), ("if-modified-since", LONG_AGO_DATE)] {
        let answer = public.get(url, &[field]).await.unwrap();
        assert_eq!((answer.status(), answer.text()), (StatusCode::NOT_MODIFIED, ""), "{field:?}");
        assert_eq!(answer.field("etag"), etag);
        assert_eq!(answer.field("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(answer.field("content-type"), "");
        assert_eq!(answer.field("content-length"), "");
    }
    let answer = public.get(url, &[("if-match", "\"other\"")]).await.unwrap();
    assert_eq!((answer.status(), answer.field("content-length")), (StatusCode::PRECONDITION_FAILED, "0"));
    assert_eq!((answer.field("etag"), answer.field("cache-control")), ("", ""));
    assert_eq!(public.get(url, &[("if-match", &etag)]).await.unwrap().status(), 200);
}

#[tokio::test]
async fn validators_follow_the_file() {
    let public = Public::with(&[("a.txt", "one")]);
    let first = public.get("/a.txt", &[]).await.unwrap();
    assert_eq!(public.get("/a.txt", &[]).await.unwrap().field("etag"), first.field("etag"));

    // Same length and time, other inode.
    public.write("new.txt", b"two");
    fs::rename(public.path("new.txt"), public.path("a.txt")).unwrap();
    let second = public.get("/a.txt", &[("if-none-match", first.field("etag"))]).await.unwrap();
    assert_eq!((second.status(), second.text()), (StatusCode::OK, "two"));

    // A nanosecond later.
    public.set_time("a.txt", SystemTime::UNIX_EPOCH + Duration::new(LONG_AGO, 1));
    let third = public.get("/a.txt", &[("if-none-match", second.field("etag"))]).await.unwrap();
    assert_eq!((third.status(), third.field("last-modified")), (StatusCode::OK, LONG_AGO_DATE));
}

#[tokio::test]
async fn fresh_and_strange_times() {
    let public = Public::with(&[("a.txt", "hello")]);
    let epoch = SystemTime::UNIX_EPOCH;
    for (time, weak, dated) in [
        (SystemTime::now(), true, true),
        (SystemTime::now() + Duration::from_secs(3600), true, false),
        (epoch, false, true),
        (epoch - Duration::from_secs(1), false, false),
    ] {
        public.set_time("a.txt", time);
        let answer = public.get("/a.txt", &[]).await.unwrap();
        // On a slow machine it may have settled meanwhile.
        let settled = weak && time.elapsed().is_ok_and(|age| age >= Duration::from_secs(1));
        assert!(settled || answer.field("etag").starts_with("W/") == weak, "{answer:?}");
        assert_eq!(!answer.field("last-modified").is_empty(), dated, "{answer:?}");
        let again = public.get("/a.txt", &[("if-none-match", answer.field("etag"))]).await.unwrap();
        assert_eq!(again.status(), 304);
    }
}

#[tokio::test]
async fn one_range() {
    let public = Public::with(&[("a.txt", "0123456789")]);
    for (range, content_range, text) in [
        ("bytes=0-4", "bytes 0-4/10", "01234"),
        ("bytes=8-", "bytes 8-9/10", "89"),
        ("bytes=-3", "bytes 7-9/10", "789"),
        ("bytes=5-99,99-", "bytes 5-9/10", "56789"),
    ] {
        let answer = public.get("/a.txt", &[("range", range)]).await.unwrap();
        assert_eq!((answer.status(), answer.text()), (StatusCode::PARTIAL_CONTENT, text));
        assert_eq!(answer.field("content-range"), content_range);
        assert_eq!(answer.field("content-length"), text.len().to_string());
        assert_eq!(answer.field("content-type"), "text/plain; charset=utf-8");
    }
    let answer = public.get("/a.txt", &[("range", "bytes=10-")]).await.unwrap();
    assert_eq!((answer.status(), answer.text()), (StatusCode::RANGE_NOT_SATISFIABLE, ""));
    assert_eq!((answer.field("content-range"), answer.field("content-length")), ("bytes */10", "0"));
    for range in ["bytes=0-5,3-7", "lines=0-1", "bytes=x"] {
        let answer = public.get("/a.txt", &[("range", range)]).await.unwrap();
        assert_eq!((answer.status(), answer.text()), (StatusCode::OK, "0123456789"), "{range}");
        assert_eq!(answer.field("content-range"), "");
    }
    let head = public.ask(Method::HEAD, "/a.txt", &[("range", "bytes=0-4")]).await.unwrap();
    assert_eq!((head.status(), head.field("content-length")), (StatusCode::OK, "10"));
}

/// RFC 9110 section 14.6.
#[tokio::test]
async fn several_ranges() {
    let public = Public::with(&[("a.txt", "0123456789")]);
    let answer = public.get("/a.txt", &[("range", "bytes=7-, 0-1")]).await.unwrap();
    assert_eq!(answer.status(), 206);
    let boundary = answer.field("content-type").strip_prefix("multipart/byteranges; boundary=").unwrap();
    let expected = format!(
        "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 7-9/10\r\n\r\n789\
         \r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
         \r\n--{boundary}--\r\n"
    );
    assert_eq!(answer.text(), expected);
    assert_eq!(answer.field("content-length"), expected.len().to_string());
    assert_eq!(answer.field("content-range"), "");
}

/// RFC 9110 section 13.2.2: If-None-Match before Range, If-Range last.
#[tokio::test]
async fn ranges_under_conditions() {
    let public = Public::with(&[("a.txt", "0123456789")]);
    let etag = public.get("/a.txt", &[]).await.unwrap().field("etag").to_owned();
    for (name, value, status) in [
        ("if-range", etag.as_str(), 206),
        ("if-range", LONG_AGO_DATE, 206),
        ("if-range", "\"old\"", 200),
        ("if-range", "Sun, 09 Sep 2001 01:46:41 GMT", 200),
        ("if-none-match", &etag, 304),
        ("if-match", "\"old\"", 412),
        ("if-match", &etag, 206),
    ] {
        let answer = public.get("/a.txt", &[("range", "bytes=0-0"), (name, value)]).await.unwrap();
        assert_eq!(answer.status(), status, "{name}: {value}");
    }
}
