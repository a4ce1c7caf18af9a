//! A client's connection: sends a request, reads the response, takes the framing off. Never compares what it reads with
//! anything.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Space that is made for each read, in bytes.
const READ: usize = 64 * 1024;

pub struct Client {
    address: SocketAddr,
    keep_alive: bool,
    stream: Option<TcpStream>,
    received: Vec<u8>,
    decoded: Vec<u8>,
}

pub struct Answer<'a> {
    pub status: u16,
    head: &'a [u8],
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// The value of a field, of several the first.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(self.head, name)
    }
}

/// How the end of a body is told.
#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl Client {
    pub fn new(port: u16, keep_alive: bool) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { address, keep_alive, stream: None, received: Vec::new(), decoded: Vec::new() }
    }

    /// The answer, or what went wrong. After that the next request opens a new connection.
    pub async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>, String> {
        let exchanged = self.exchange(request).await;
        if exchanged.is_err() {
            self.stream = None;
        }
        let (status, head, body, framing) = exchanged?;
        let head = &self.received[head.0..head.1];
        let body = match framing {
            Framing::Chunked => &self.decoded[..],
            _ => &self.received[body..],
        };
        Ok(Answer { status, head, body })
    }

    /// Returns when the server has closed a connection that is open, and never otherwise.
    pub async fn closed(&mut self) {
        match &mut self.stream {
            // What comes without a request is no answer either.
            Some(stream) => drop(stream.read_u8().await),
            None => std::future::pending().await,
        }
        self.stream = None;
    }

    pub fn close(&mut self) {
        self.stream = None;
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<(u16, (usize, usize), usize, Framing), String> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address).await.map_err(|error| failed(&error, "connecting"))?;
            stream.set_nodelay(true).map_err(|error| failed(&error, "connecting"))?;
            self.stream = Some(stream);
        }
        self.received.clear();
        self.send(request).await.map_err(|error| failed(&error, "sending"))?;
        let mut start = 0;
        let (status, end) = loop {
            let from = start;
            let end = loop {
                if let Some(at) = find(&self.received[from..], b"\r\n\r\n") {
                    break from + at + 2;
                }
                if !self.read().await? {
                    return Err("no response".into());
                }
            };
            let status = self.received.get(from + 9..from + 12).and_then(|text| std::str::from_utf8(text).ok());
            let status = status.and_then(|text| text.parse::<u16>().ok()).ok_or("no status")?;
            // An interim response (103 Early Hints): the real one follows.
            if !(100..200).contains(&status) {
                break (status, end);
            }
            start = end + 2;
        };
        let head = &self.received[start..end];
        let framing = if let Some(length) = field(head, "content-length") {
            Framing::Length(length.parse().map_err(|_| "a Content-Length that is no number")?)
        } else if field(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            Framing::Chunked
        } else {
            Framing::Close
        };
        let closes =
            !self.keep_alive || field(head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let body = end + 2;
        while !self.whole(body, framing) {
            if !self.read().await? {
                if matches!(framing, Framing::Close) {
                    break;
                }
                return Err("the response is cut short".into());
            }
        }
        if closes || matches!(framing, Framing::Close) {
            self.stream = None;
        }
        Ok((status, (start, end), body, framing))
    }

    /// On the open connection.
    async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Some(stream) => stream.write_all(request).await,
            None => Ok(()),
        }
    }

    /// False when the server has closed.
    async fn read(&mut self) -> Result<bool, String> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        self.received.reserve(READ);
        let read = stream.read_buf(&mut self.received).await.map_err(|error| failed(&error, "reading"))?;
        Ok(read > 0)
    }

    fn whole(&mut self, body: usize, framing: Framing) -> bool {
        let bytes = &self.received[body..];
        match framing {
            Framing::Length(length) => bytes.len() >= length,
            Framing::Chunked => bytes.ends_with(b"0\r\n\r\n") && decode(bytes, &mut self.decoded),
            Framing::Close => false,
        }
    }
}

/// Takes the chunked coding off. False if it is not whole.
fn decode(mut bytes: &[u8], body: &mut Vec<u8>) -> bool {
    body.clear();
    while let Some(end) = find(bytes, b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(size) = size else { return false };
        if size == 0 {
            return true;
        }
        let Some(chunk) = bytes.get(end + 2..end + 2 + size) else { return false };
        body.extend(chunk);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
    false
}

fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (key, value) = (line.get(..name.len())?, line.get(name.len() + 1..)?);
        (key.eq_ignore_ascii_case(name.as_bytes()) && line[name.len()] == b':')
            .then(|| std::str::from_utf8(value).unwrap_or_default().trim())
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|some| some == wanted)
}

/// By the names of the system, which reports quote.
fn failed(error: &io::Error, when: &str) -> String {
    let name = match error.kind() {
        io::ErrorKind::ConnectionRefused => "ECONNREFUSED".to_owned(),
        io::ErrorKind::ConnectionReset => "ECONNRESET".to_owned(),
        io::ErrorKind::BrokenPipe => "EPIPE".to_owned(),
        _ => error.to_string(),
    };
    format!("{name} while {when}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunked_coding_is_taken_off() {
        let mut body = Vec::new();
        assert!(decode(b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", &mut body));
        assert_eq!(body, b"hello");
        for cut in [&b"3\r\nhel\r\n2\r\n0\r\n\r\n"[..], b"x\r\n", b"5\r\nhel0\r\n\r\n"] {
            assert!(!decode(cut, &mut body), "{cut:?}");
        }
    }

    #[test]
    fn fields_are_found_by_any_spelling() {
        let head = b"HTTP/1.1 200 OK\r\nX-Cache: HIT\r\nContent-length:5\r\n";
        assert_eq!(
            (field(head, "x-cache"), field(head, "Content-Length"), field(head, "x")),
            (Some("HIT"), Some("5"), None)
        );
    }
}
