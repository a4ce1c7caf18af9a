//! Bodies while their files change.

use std::io::Write;

use http_body::Body;

use super::*;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

async fn open(public: &Public, url: &str, fields: &[(&str, &str)]) -> FileBody {
    public.folder().answer(&request(Method::GET, url, fields)).await.unwrap().into_body()
}

async fn first_piece(body: &mut FileBody) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test]
async fn streams_large_files() {
    let public = Public::new();
    for length in [64 * 1024, 64 * 1024 + 1, 128 * 1024, 1_000_003] {
        let content = pattern(length);
        public.write("a.bin", &content);
        let mut body = open(&public, "/a.bin", &[]).await;
        assert_eq!(body.size_hint().exact(), Some(length as u64));
        let first = first_piece(&mut body).await;
        assert!(first.len() <= 64 * 1024);
        assert_eq!(body.size_hint().exact(), Some((length - first.len()) as u64));
        let rest = body.collect().await.unwrap().to_bytes();
        assert!([first, rest].concat() == content, "{length}");
    }
}

#[tokio::test]
async fn streams_large_ranges() {
    let public = Public::new();
    let content = pattern(1_000_003);
    public.write("a.bin", &content);
    let one = public.get("/a.bin", &[("range", "bytes=100000-899999")]).await.unwrap();
    assert!(one.response.body() == &content[100_000..900_000]);
    let several = public.get("/a.bin", &[("range", "bytes=-300000,0-9,1000-200999")]).await.unwrap();
    assert_eq!(several.field("content-length"), several.response.body().len().to_string());
    let body = several.response.body();
    for part in [&content[700_003..], &content[..10], &content[1000..201_000]] {
        let head_and_part = [b"\r\n\r\n", part, b"\r\n--"].concat();
        assert!(body.windows(head_and_part.len()).any(|window| window == head_and_part));
    }
}

#[tokio::test]
async fn a_replaced_file_is_sent_to_its_end() {
    let public = Public::new();
    let content = pattern(1_000_003);
    public.write("a.bin", &content);
    let mut body = open(&public, "/a.bin", &[]).await;
    let first = first_piece(&mut body).await;
    public.write("new.bin", b"new");
    fs::rename(public.path("new.bin"), public.path("a.bin")).unwrap();
    let rest = body.collect().await.unwrap().to_bytes();
    assert!([first, rest].concat() == content);
    assert_eq!(public.get("/a.bin", &[]).await.unwrap().text(), "new");
}

#[tokio::test]
async fn a_shrinking_file_breaks_off() {
    let public = Public::new();
    for left in [0, 130 * 1024, 999_999] {
        public.write("a.bin", &pattern(1_000_003));
        let mut body = open(&public, "/a.bin", &[]).await;
        first_piece(&mut body).await;
        File::options().write(true).open(public.path("a.bin")).unwrap().set_len(left).unwrap();
        let error = loop {
            match body.frame().await.unwrap() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test]
async fn a_growing_file_is_sent_as_promised() {
    let public = Public::new();
    let content = pattern(1_000_003);
    public.write("a.bin", &content);
    let mut body = open(&public, "/a.bin", &[]).await;
    let first = first_piece(&mut body).await;
    File::options().append(true).open(public.path("a.bin")).unwrap().write_all(b"more").unwrap();
    let rest = body.collect().await.unwrap().to_bytes();
    assert!([first, rest].concat() == content);
}
