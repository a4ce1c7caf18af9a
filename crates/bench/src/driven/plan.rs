//! What a load is to be: read from JSON, with the bodies that are sent and expected in files. Never touches the
//! network.

use std::{fs, io};

use serde::Deserialize;

/// One load. It ends after `seconds`, `count` requests, or one request for each of `keys`.
#[derive(Deserialize)]
pub struct Plan {
    pub port: u16,
    /// Clients of a closed loop; with `rate` as many as it takes.
    pub connections: usize,
    pub keep_alive: bool,
    pub seconds: Option<f64>,
    pub count: Option<usize>,
    /// Requests a second, sent at fixed times however long the answers take (open loop).
    pub rate: Option<f64>,
    /// Of what is drawn at random: kinds and keys.
    pub seed: u64,
    /// Which key is put behind the path of each request.
    pub keys: Option<Keys>,
    pub kinds: Vec<Kind>,
    /// The cookie of each visitor, nothing for a new one. A visitor asks for one page after the other, and they take
    /// turns.
    pub visitors: Option<Vec<Option<String>>>,
    /// Gives the 50th and the 99th percentile alone instead of all latencies.
    pub percentiles: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// One of so many.
    Random(u64),
    /// Each of so many, once.
    Each(u64),
}

/// A request and the right answer to it.
#[derive(Deserialize)]
pub struct Kind {
    pub name: String,
    /// Its part of all requests, 0 to 1.
    pub share: f64,
    pub method: String,
    pub path: String,
    /// Header fields besides Host, User-Agent, Accept and Connection: "Name: value".
    pub fields: Vec<String>,
    /// File that is sent.
    pub body: Option<String>,
    /// File that every answer must equal; without one every answer must be as long as the first.
    pub expected: Option<String>,
    /// Lengths of the pieces of `expected` between which answers differ, by something without a newline.
    pub pieces: Option<Vec<usize>>,
    /// Any answer with status 200 is right: pages whose text depends on the time.
    #[serde(default)]
    pub any: bool,
    /// A field that tells a hit, and how.
    pub hit: Option<(String, Hit)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hit {
    /// Its value begins with this.
    Starts(String),
    Is(String),
    /// It is so many numbers.
    Numbers(usize),
}

impl Hit {
    pub fn is(&self, value: &str) -> bool {
        match self {
            Hit::Starts(text) => value.starts_with(text.as_str()),
            Hit::Is(text) => value == text,
            Hit::Numbers(count) => {
                let numbers: Vec<_> = value.split(' ').collect();
                numbers.len() == *count
                    && numbers.iter().all(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            }
        }
    }
}

/// A request as it goes over the wire, apart at the end of its path, where a key is put.
pub struct Request {
    start: Vec<u8>,
    rest: Vec<u8>,
}

impl Request {
    pub fn new(kind: &Kind, keep_alive: bool) -> io::Result<Self> {
        let body = kind.body.as_ref().map(fs::read).transpose()?;
        let mut rest = String::from(" HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: paceline-bench\r\nAccept: */*\r\n");
        if !keep_alive {
            rest += "Connection: close\r\n";
        }
        if let Some(body) = &body {
            rest += &format!("Content-Type: application/octet-stream\r\nContent-Length: {}\r\n", body.len());
        }
        for field in &kind.fields {
            rest += &format!("{field}\r\n");
        }
        rest += "\r\n";
        let mut rest = rest.into_bytes();
        rest.extend(body.unwrap_or_default());
        Ok(Self { start: format!("{} {}", kind.method, kind.path).into_bytes(), rest })
    }

    /// Writes it into `bytes`, whose old content goes.
    pub fn write(&self, bytes: &mut Vec<u8>, key: Option<u64>, cookie: Option<&str>) {
        bytes.clear();
        bytes.extend(&self.start);
        if let Some(key) = key {
            bytes.extend(key.to_string().as_bytes());
        }
        match cookie {
            Some(cookie) => {
                let end = self.rest.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 2);
                bytes.extend(&self.rest[..end]);
                bytes.extend(format!("Cookie: {cookie}\r\n").as_bytes());
                bytes.extend(&self.rest[end..]);
            }
            None => bytes.extend(&self.rest),
        }
    }
}

/// Whether `body` is made of these pieces, with something without a newline between each two of them.
pub fn made_of(body: &[u8], pieces: &[&[u8]]) -> bool {
    let [first, between @ .., last] = pieces else { return pieces.first().is_some_and(|only| *only == body) };
    let Some(mut rest) = body.strip_prefix(*first) else { return false };
    for piece in between {
        let Some(at) = rest.windows(piece.len().max(1)).position(|bytes| bytes == *piece) else { return false };
        if at == 0 || rest[..at].contains(&b'\n') {
            return false;
        }
        rest = &rest[at + piece.len()..];
    }
    rest.strip_suffix(*last).is_some_and(|gap| !gap.is_empty() && !gap.contains(&b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_may_differ_between_their_pieces_only() {
        let pieces: [&[u8]; 3] = [b"<p>", b"</p><i>", b"</i>"];
        assert!(made_of(b"<p>one</p><i>two</i>", &pieces));
        for other in
            ["<p></p><i>two</i>", "<p>a\nb</p><i>two</i>", "<p>one</p><i>two</i>.", "<p>one</p><b>two</i>", "<p>"]
        {
            assert!(!made_of(other.as_bytes(), &pieces), "{other}");
        }
        assert!(made_of(b"whole", &[b"whole"]));
        assert!(!made_of(b"whole.", &[b"whole"]));
    }

    #[test]
    fn a_hit_is_told_by_its_field() {
        assert!(Hit::Starts("paceline; hit".into()).is("paceline; hit; ttl=3"));
        assert!(Hit::Is("HIT".into()).is("HIT") && !Hit::Is("HIT".into()).is("HIT, MISS"));
        assert!(Hit::Numbers(2).is("12 3") && !Hit::Numbers(2).is("12"));
    }

    #[test]
    fn a_key_stands_behind_the_path_and_a_cookie_in_the_head() {
        let kind = r#"{"name": "k", "share": 1, "method": "GET", "path": "/key/", "fields": ["X-A: b"]}"#;
        let request = Request::new(&serde_json::from_str(kind).unwrap(), false).unwrap();
        let mut bytes = Vec::new();
        request.write(&mut bytes, Some(7), Some("a=b"));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("GET /key/7 HTTP/1.1\r\nHost: bench.test\r\n"));
        assert!(text.ends_with("Connection: close\r\nX-A: b\r\nCookie: a=b\r\n\r\n"));
    }
}
