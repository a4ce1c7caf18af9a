//! A client that keeps the answer, to be checked. Never compares it with anything.

use std::{io, net::SocketAddr};

use tokio::net::TcpStream;

use crate::wire::{
    h1::{Sink, H1},
    stream, Fault,
};

pub struct Client {
    address: SocketAddr,
    keep_alive: bool,
    connection: Option<H1>,
    last: LastAnswer,
}

#[derive(Default)]
struct LastAnswer {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Sink for LastAnswer {
    fn head(&mut self, bytes: &[u8]) {
        self.head.clear();
        self.head.extend(bytes);
    }

    fn body(&mut self, bytes: &[u8]) {
        self.body.extend(bytes);
    }
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

impl Client {
    pub fn new(port: u16, keep_alive: bool) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { address, keep_alive, connection: None, last: LastAnswer::default() }
    }

    /// The answer. After a failure the next request opens a new connection.
    pub async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>, Unanswered> {
        self.last.body.clear();
        let mut connection = match self.connection.take() {
            Some(kept) => kept,
            None => self.open().await.map_err(Unanswered::Connect)?,
        };
        let answer = connection.exchange(request, false, false, &mut self.last).await.map_err(Unanswered::Exchange)?;
        if self.keep_alive && answer.keeps {
            self.connection = Some(connection);
        }
        Ok(Answer { status: answer.status, head: &self.last.head, body: &self.last.body })
    }

    async fn open(&self) -> io::Result<H1> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(H1::new(stream::plain(stream)))
    }

    /// Returns when the server has closed a connection that is open, and never otherwise.
    pub async fn closed(&mut self) {
        match &mut self.connection {
            Some(connection) => connection.closed().await,
            None => std::future::pending().await,
        }
        self.connection = None;
    }

    pub fn close(&mut self) {
        self.connection = None;
    }
}

fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (key, value) = (line.get(..name.len())?, line.get(name.len() + 1..)?);
        (key.eq_ignore_ascii_case(name.as_bytes()) && line[name.len()] == b':')
            .then(|| std::str::from_utf8(value).unwrap_or_default().trim())
    })
}

/// Why a request has no answer, in the words that reports quote.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    #[error("{} while connecting", named(.0))]
    Connect(#[source] io::Error),
    #[error("{}", quoted(.0))]
    Exchange(#[source] Fault),
}

fn quoted(fault: &Fault) -> String {
    match fault {
        Fault::ClosedBefore => "no response".to_owned(),
        Fault::CutShort => "the response is cut short".to_owned(),
        Fault::Reset => "ECONNRESET while reading".to_owned(),
        other => other.to_string(),
    }
}

/// By the names of the system, which reports quote.
fn named(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "ECONNREFUSED".to_owned(),
        io::ErrorKind::ConnectionReset => "ECONNRESET".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_any_spelling() {
        let head = b"HTTP/1.1 200 OK\r\nX-Cache: HIT\r\nContent-length:5\r\n";
        assert_eq!(
            (field(head, "x-cache"), field(head, "Content-Length"), field(head, "x")),
            (Some("HIT"), Some("5"), None)
        );
    }
}
