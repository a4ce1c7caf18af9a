//! Precompressed twins.

use super::*;

const GZIP: (&str, &str) = ("accept-encoding", "gzip, deflate");

#[tokio::test]
async fn sends_the_twin_that_is_accepted() {
    let public = Public::with(&[
        ("app.js", "original"),
        ("app.js.gz", "gzipped"),
        ("app.js.br", "brotl"),
        ("app.js.zst", "zstand"),
        ("plain.js", "plain"),
    ]);
    let original = public.get("/app.js", &[]).await.unwrap();
    for (accepted, coding, text) in [
        ("gzip, deflate", "gzip", "gzipped"),
        ("gzip, br, zstd", "br", "brotl"),
        ("gzip, zstd", "zstd", "zstand"),
        ("gzip;q=0, identity", "", "original"),
        ("identity;q=0", "", "original"),
    ] {
        let answer = public.get("/app.js", &[("accept-encoding", accepted)]).await.unwrap();
        assert_eq!((answer.field("content-encoding"), answer.text()), (coding, text), "{accepted}");
        assert_eq!(answer.field("vary"), "Accept-Encoding");
        assert_eq!(answer.field("content-type"), "text/javascript; charset=utf-8");
        assert_eq!(answer.field("content-length"), text.len().to_string());
        assert_eq!(answer.field("etag") == original.field("etag"), coding.is_empty(), "{accepted}");
    }
    assert_eq!((original.text(), original.field("vary")), ("original", "Accept-Encoding"));
    let plain = public.get("/plain.js", &[GZIP]).await.unwrap();
    assert_eq!((plain.text(), plain.field("vary"), plain.field("content-encoding")), ("plain", "", ""));
    let asked_for = public.get("/app.js.gz", &[GZIP]).await.unwrap();
    assert_eq!((asked_for.field("content-type"), asked_for.field("content-encoding")), ("application/gzip", ""));
}

#[tokio::test]
async fn ignores_twins_that_are_stale_or_alone() {
    let public = Public::with(&[("app.js", "original"), ("app.js.gz", "gzipped"), ("alone.js.gz", "gzipped")]);
    public.set_time("app.js", SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO + 1));
    let answer = public.get("/app.js", &[GZIP]).await.unwrap();
    assert_eq!((answer.text(), answer.field("vary")), ("original", ""));
    assert!(public.get("/alone.js", &[GZIP]).await.is_none());
}

#[tokio::test]
async fn a_twin_has_its_own_validators_and_ranges() {
    let public = Public::with(&[("about.html", "original"), ("about.html.gz", "0123456789")]);
    let twin = public.get("/about", &[GZIP]).await.unwrap();
    let matching = ("if-none-match", twin.field("etag"));
    let unchanged = public.get("/about", &[GZIP, matching]).await.unwrap();
    assert_eq!((unchanged.status(), unchanged.field("vary")), (StatusCode::NOT_MODIFIED, "Accept-Encoding"));
    assert_eq!(unchanged.field("content-encoding"), "");
    assert_eq!(public.get("/about", &[matching]).await.unwrap().text(), "original");
    let part = public.get("/about", &[GZIP, ("range", "bytes=2-3")]).await.unwrap();
    assert_eq!((part.text(), part.field("content-encoding")), ("23", "gzip"));
    assert_eq!(part.field("content-range"), "bytes 2-3/10");
    let parts = public.get("/about", &[GZIP, ("range", "bytes=0-0,2-3")]).await.unwrap();
    assert_eq!((parts.status(), parts.text()), (StatusCode::OK, "0123456789"));
}
