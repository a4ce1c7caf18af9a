//! Which file answers, and which never do.

use std::os::unix::net::UnixListener;

use rustix::fs::{mknodat, FileType, Mode, CWD};

use super::*;

#[tokio::test]
async fn answers_with_the_file() {
    let public = Public::with(&[("robots.txt", "User-agent: *\n")]);
    let answer = public.get("/robots.txt?x=1", &[]).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.text(), "User-agent: *\n");
    assert_eq!(answer.field("content-type"), "text/plain; charset=utf-8");
    assert_eq!(answer.field("content-length"), "14");
    assert_eq!(answer.field("last-modified"), LONG_AGO_DATE);
    assert_eq!(answer.field("accept-ranges"), "bytes");
    assert!(answer.field("etag").starts_with('"'), "{answer:?}");
    for absent in ["cache-control", "vary", "content-encoding", "x-content-type-options"] {
        assert_eq!(answer.field(absent), "", "{absent}");
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let public = Public::with(&[("a.txt", "hello")]);
    let get = public.get("/a.txt", &[]).await.unwrap();
    let head = public.ask(Method::HEAD, "/a.txt", &[]).await.unwrap();
    assert_eq!(head.response.headers(), get.response.headers());
    assert_eq!((head.status(), head.text()), (StatusCode::OK, ""));
}

#[tokio::test]
async fn finds_files_as_rails_does() {
    let public = Public::with(&[
        ("index.html", "root"),
        ("about.html", "about"),
        ("dir/index.html", "dir"),
        ("app.js.html", "never"),
        ("both", "exact"),
        ("both.html", "html"),
        (".well-known/security.txt", "known"),
        ("café au lait.txt", "coffee"),
        ("empty.txt", ""),
    ]);
    for (url, expected) in [
        ("/", Some("root")),
        ("/about", Some("about")),
        ("/about/", Some("about")),
        ("/about.html", Some("about")),
        ("/dir", Some("dir")),
        ("/dir/", Some("dir")),
        ("/both", Some("exact")),
        ("/.well-known/security.txt", Some("known")),
        ("/caf%C3%A9%20au%20lait.txt", Some("coffee")),
        ("/empty.txt", Some("")),
        ("http://example.org/about", Some("about")),
        ("/app.js", None),
        ("/missing", None),
        ("/about.html/", None),
        ("/about.html/x", None),
    ] {
        let answer = public.get(url, &[]).await;
        assert_eq!(answer.as_ref().map(Answer::text), expected, "{url}");
    }
    assert!(Folder::new(public.path("nowhere"), files(), None).answer(&request(Method::GET, "/", &[])).await.is_none());
}

#[tokio::test]
async fn never_leaves_the_folder_or_shows_what_is_hidden() {
    let public = Public::with(&[
        ("secret.txt", "secret"),
        ("public/.env", "SECRET=1"),
        ("public/.git/config", "secret"),
        ("public/dir/a.txt", "a"),
    ]);
    let folder = Folder::new(public.path("public"), files(), None);
    let long = format!("/{}", "a".repeat(300));
    let longer = format!("/{}", "a/".repeat(3000));
    for url in [
        "/../secret.txt",
        "/dir/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/..%5csecret.txt",
        "/dir%2fa.txt",
        "/dir%5ca.txt",
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/dir/a.txt%00",
        "/dir/a.txt%00.html",
        "/dir",
        "/dir/",
        &long,
        &longer,
    ] {
        assert!(folder.answer(&request(Method::GET, url, &[])).await.is_none(), "{url}");
    }
}

#[tokio::test]
async fn follows_symlinks_to_regular_files_only() {
    let public =
        Public::with(&[("shared/uploads/a.txt", "shared"), ("releases/1/b.txt", "one"), ("releases/2/b.txt", "two")]);
    public.link("shared/uploads", "uploads");
    public.link("shared/uploads/a.txt", "a.txt");
    public.link("nowhere", "dangling.txt");
    public.link("loop.txt", "loop.txt");
    public.link("/dev/null", "null.txt");
    mknodat(CWD, public.path("fifo.txt"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = UnixListener::bind(public.path("socket.txt")).unwrap();
    for (url, expected) in [
        ("/uploads/a.txt", Some("shared")),
        ("/a.txt", Some("shared")),
        ("/dangling.txt", None),
        ("/loop.txt", None),
        ("/null.txt", None),
        ("/fifo.txt", None),
        ("/socket.txt", None),
    ] {
        assert_eq!(public.get(url, &[]).await.as_ref().map(Answer::text), expected, "{url}");
    }
    // Capistrano's `current` moves while the server runs.
    let folder = Folder::new(public.path("current"), files(), None);
    for (release, expected) in [("releases/1", "one"), ("releases/2", "two")] {
        let _ = fs::remove_file(public.path("current"));
        public.link(release, "current");
        let response = folder.answer(&request(Method::GET, "/b.txt", &[])).await.unwrap();
        assert_eq!(Answer::read(response).await.unwrap().text(), expected);
    }
}

#[tokio::test]
async fn leaves_other_methods_to_the_caller() {
    let public = Public::with(&[("a.txt", "hello")]);
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let asked = request(method, "/a.txt", &[]);
        assert!(public.folder().answer(&asked).await.is_none());
        let refused = public.folder().method_not_allowed(&asked).await.unwrap();
        assert_eq!(refused.status(), 405);
        assert_eq!(refused.headers()["allow"], "GET, HEAD");
    }
    assert!(public.folder().method_not_allowed(&request(Method::POST, "/b.txt", &[])).await.is_none());
    assert!(public.folder().method_not_allowed(&request(Method::GET, "/a.txt", &[])).await.is_none());
}

#[tokio::test]
async fn cache_control() {
    let public = Public::with(&[("a.txt", "a"), ("assets/app-0123abcd.css", "b")]);
    let folder = Folder::new(public.root.clone(), files(), Some(Duration::from_secs(60)));
    for (url, expected) in
        [("/a.txt", "public, max-age=60"), ("/assets/app-0123abcd.css", "public, max-age=31536000, immutable")]
    {
        let response = folder.answer(&request(Method::GET, url, &[])).await.unwrap();
        assert_eq!(response.headers()["cache-control"], expected, "{url}");
    }
}

#[tokio::test]
async fn a_glance_knows_what_is_not_there_and_is_never_wrong_about_what_is() {
    let public = Public::with(&[
        ("index.html", ""),
        ("about.html", ""),
        ("orders/1.html", ""),
        ("a b.txt", ""),
        (".well-known/x.txt", ""),
    ]);
    let folder = glanced(public.folder()).await;
    for url in ["/", "/about", "/about/", "//about.html", "/orders/1", "/orders/2", "/a%20b.txt", "/.well-known/x.txt"]
    {
        assert!(!folder.lacks(url), "{url}");
    }
    for url in ["/hello", "/hello/", "/hello/about.html", "/abou", "/%2f", "*"] {
        assert!(folder.lacks(url), "{url}");
    }
    assert!(!public.folder().lacks("/hello"), "a folder that does not glance looks for each name");
    assert!(glanced(Folder::new(public.path("nowhere"), files(), None)).await.lacks("/"));
    let unreadable = Folder::new(public.path("index.html"), files(), None).glancing();
    for _ in 0..20 {
        assert!(!unreadable.lacks("/x"), "what can't be read is not known");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A folder that glances, once it has read its names.
async fn glanced(folder: Folder) -> Folder {
    let folder = folder.glancing();
    while !folder.lacks("/not-there-at-all") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    folder
}

#[tokio::test]
async fn a_new_file_is_noticed() {
    let public = Public::with(&[("a.txt", "")]);
    let folder = glanced(public.folder()).await;
    assert!(folder.lacks("/b.txt"));
    public.write("b.txt", b"");
    let begun = std::time::Instant::now();
    while folder.lacks("/b.txt") {
        assert!(begun.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Chains of links, which take milliseconds to follow, are answered as before, and by another thread.
#[tokio::test]
async fn links_are_followed_beside_the_event_loop() {
    let public = Public::with(&[("real/a.txt", "a")]);
    public.link("real", "0");
    (1..30).for_each(|nth| public.link(format!("{}{}", "./".repeat(500), nth - 1), &nth.to_string()));
    let folder = public.folder();
    let own = std::thread::current().id();
    let hooked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = hooked.clone();
    let see = move |_| {
        seen.lock().unwrap().push(std::thread::current().id());
        Ok(())
    };
    files().wait(see).await.unwrap();
    assert_ne!(hooked.lock().unwrap()[..], [own]);
    let answer = folder.answer(&request(Method::GET, "/29/a.txt", &[])).await.unwrap();
    assert_eq!(Answer::read(answer).await.unwrap().text(), "a");
    assert!(folder.answer(&request(Method::GET, "/29/b.txt", &[])).await.is_none());
}
