//! The heads of the files that pages link to, as a browser would get them: from the running server, or where the doctor
//! has started the application, from a shadow of it.
//! It never sends a cookie.

#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, Instant},
};

use doctor::{
    links::assets,
    mask::Answer,
    observation::{header, Asset},
    protocol::Request,
};
use serde_json::Value;

/// For one file.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a response that are read.
const MAX_RESPONSE: usize = 4 << 20;
const MAX_HEADERS: usize = 100;
/// Different links that are counted, and files that are asked for.
const MAX_LINKS: usize = 1000;
const MAX_FETCHED: usize = 30;

/// A file that pages link to.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    pub host: String,
    pub scheme: String,
    /// Path and query.
    pub path: String,
    /// 0 to 1: of the pages.
    pub share: f64,
}

/// The links of the pages that were looked at.
#[derive(Debug, Default)]
pub struct Links {
    pages: usize,
    /// In the order in which they were found.
    found: Vec<(Link, usize)>,
}

impl Links {
    /// Notes those of a page, if it is HTML.
    pub fn add(&mut self, request: &Request, answer: &Answer) {
        let content_type = header(answer.headers, "content-type").unwrap_or_default();
        if answer.status != 200 || !content_type.starts_with("text/html") {
            return;
        }
        self.pages += 1;
        for path in assets(answer.body, &request.path) {
            let known = self.found.iter_mut().find(|(link, _)| link.path == path && link.host == request.host);
            if let Some((_, pages)) = known {
                *pages += 1;
            } else if self.found.len() < MAX_LINKS {
                let (host, scheme) = (request.host.clone(), request.scheme.clone());
                self.found.push((Link { host, scheme, path, share: 0.0 }, 1));
            }
        }
    }

    /// The ones with most pages first.
    pub fn most_linked(&self) -> Vec<Link> {
        let share = |pages: usize| pages as f64 / self.pages.max(1) as f64;
        let mut all: Vec<Link> =
            self.found.iter().map(|(link, pages)| Link { share: share(*pages), ..link.clone() }).collect();
        all.sort_by(|one, other| other.share.total_cmp(&one.share));
        all.truncate(MAX_FETCHED);
        all
    }
}

/// Where a server listens without TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listener {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Listener {
    /// Those that the running server has named.
    pub fn all(answered: &Value) -> Vec<Listener> {
        let urls = answered["listeners"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let read = |url: &str| match url.split_once("://")? {
            ("tcp", address) => address.parse().ok().map(Listener::Tcp),
            ("unix", path) => Some(Listener::Unix(path.into())),
            _ => None,
        };
        urls.filter_map(read).collect()
    }

    /// Asks for a file with `Accept-Encoding: gzip`. None: there is no answer.
    pub fn fetch(&self, host: &str, path: &str) -> Option<Asset> {
        let is_sendable = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sendable(host) || !is_sendable(path) {
            return None;
        }
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
        let bytes = self.exchange(head.as_bytes()).ok()?;
        parsed(&bytes, path)
    }

    fn exchange(&self, head: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Listener::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                read(stream, head, |stream, time| stream.set_read_timeout(Some(time)))
            }
            Listener::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                read(stream, head, |stream, time| stream.set_read_timeout(Some(time)))
            }
        }
    }
}

/// Until the other side closes, or there is enough.
fn read<S: Read + Write>(
    mut stream: S,
    head: &[u8],
    limit: impl Fn(&S, Duration) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    stream.write_all(head)?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
    while bytes.len() < MAX_RESPONSE {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        limit(&stream, left)?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// The response to a request for `path`, with the length of the body as it was sent.
fn parsed(bytes: &[u8], path: &str) -> Option<Asset> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(end) = head.parse(bytes).ok()? else { return None };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers: Vec<_> = head.headers.iter().map(|field| (field.name.to_owned(), text(field.value))).collect();
    let length = header(&headers, "content-length").and_then(|length| length.parse().ok());
    let bytes = length.unwrap_or((bytes.len() - end) as u64);
    Some(Asset { path: path.to_owned(), status: head.code?, headers, bytes, share: 0.0 })
}

#[cfg(test)]
mod tests {
    use std::{io::BufRead, net::TcpListener};

    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_of_the_running_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let lines = io::BufReader::new(&stream).lines().map(Result::unwrap);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n12345").unwrap();
            head
        });
        let found = Listener::Tcp(address).fetch("shop.test", "/app.css?1").unwrap();
        assert_eq!((found.status, found.bytes, &*found.path), (200, 5, "/app.css?1"));
        assert_eq!(found.headers, [("Content-Encoding".to_owned(), "gzip".to_owned())]);
        let head = serving.join().unwrap();
        assert_eq!(head[..2], ["GET /app.css?1 HTTP/1.1", "Host: shop.test"]);
    }

    #[test]
    fn what_pages_link_to() {
        let mut links = Links::default();
        let mut page = |path: &str, kind: &str, body: &str| {
            let headers = [("Content-Type".to_owned(), kind.to_owned())];
            let request = Request { path: path.into(), host: "a".into(), ..Request::default() };
            links.add(&request, &Answer { status: 200, headers: &headers, body: body.as_bytes() });
        };
        page("/", "text/html; charset=utf-8", "<img src=\"/rare.png\"><script src=\"/app.js\"></script>");
        page("/b", "text/html", "<script src=\"/app.js\"></script>");
        page("/c", "application/json", "<script src=\"/other.js\"></script>");
        let found = links.most_linked();
        let shown: Vec<_> = found.iter().map(|link| (&*link.path, link.share)).collect();
        assert_eq!(shown, [("/app.js", 1.0), ("/rare.png", 0.5)]);
    }

    #[test]
    fn what_is_no_answer() {
        let listener = Listener::Unix("/nowhere/socket".into());
        assert!(listener.fetch("a", "/a").is_none());
        assert!(parsed(b"SSH-2.0\r\n", "/").is_none() && parsed(b"", "/").is_none());
        for (host, path) in [("a\r\nb", "/a"), ("a", "/a b"), ("", "/")] {
            assert!(listener.fetch(host, path).is_none());
        }
    }

    #[test]
    fn where_the_server_listens() {
        let answered = json!({ "listeners": ["tcp://127.0.0.1:80", "unix:///run/a", "tcp://nonsense", 7, "x"] });
        let found = [Listener::Tcp("127.0.0.1:80".parse().unwrap()), Listener::Unix("/run/a".into())];
        assert_eq!(Listener::all(&answered), found);
    }
}
