//! One exchange over an HTTP/1.1 connection, as cheap as the generator can have it: one write, and reads into one
//! buffer. Never keeps a body.

use std::{str, time::Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    body::{Body, Chunks},
    stream::{micros, Stream},
    Answer, Fault,
};
use crate::parts::Inside;

/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;
/// Fields of a response's head.
const FIELDS: usize = 100;

/// A connection that speaks HTTP/1.1.
pub struct H1 {
    stream: Stream,
    buffer: Box<[u8]>,
    filled: usize,
}

/// Takes what a response says, where somebody wants to have it.
pub trait Sink {
    /// Its head, from the status line to the empty line.
    fn head(&mut self, _bytes: &[u8]) {}

    /// A piece of its content.
    fn body(&mut self, _bytes: &[u8]) {}
}

impl Sink for () {}

/// What the head of a response says.
struct Head {
    size: usize,
    status: u16,
    body: Body,
    keeps: bool,
    inside: Option<Inside>,
    server: Option<String>,
}

impl H1 {
    pub fn new(stream: Stream) -> H1 {
        H1 { stream, buffer: vec![0; BUFFER].into(), filled: 0 }
    }

    /// Sends `request` and reads the response to its end. `wants_server`: the field Server is told.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        is_head: bool,
        wants_server: bool,
        sink: &mut impl Sink,
    ) -> Result<Answer, Fault> {
        let began = Instant::now();
        self.filled = 0;
        self.stream.write_all(request).await.map_err(|error| Fault::of(&error, false))?;
        let upload = micros(began);
        let sent = Instant::now();
        let mut wait = None;
        let mut received = 0;
        let head = loop {
            if let Some(head) = head_of(&self.buffer[..self.filled], is_head, wants_server)? {
                received += head.size as u64;
                sink.head(&self.buffer[..head.size]);
                self.buffer.copy_within(head.size..self.filled, 0);
                self.filled -= head.size;
                // An interim response (RFC 9110 section 15.2): the real one follows.
                if !(100..200).contains(&head.status) || head.status == 101 {
                    break head;
                }
                continue;
            }
            if self.filled == self.buffer.len() {
                return Err(Fault::Malformed);
            }
            self.fill(wait.is_some()).await?;
            wait.get_or_insert_with(|| micros(sent));
        };
        let wait = wait.unwrap_or_default();
        let first = Instant::now();
        let (mut body, mut length) = (head.body, 0);
        loop {
            received += self.filled as u64;
            length +=
                body.take(&self.buffer[..self.filled], &mut |bytes| sink.body(bytes)).map_err(|_| Fault::Malformed)?;
            if body.is_done() {
                break;
            }
            self.filled = 0;
            match self.fill(true).await {
                Ok(()) => {}
                Err(Fault::Closed) if body == Body::Close => break,
                Err(Fault::Closed) => return Err(Fault::CutShort),
                Err(fault) => return Err(fault),
            }
        }
        let response = micros(first);
        let keeps = head.keeps && body != Body::Close;
        let Head { status, inside, server, .. } = head;
        Ok(Answer { status, upload, wait, response, length, received, inside, keeps, server })
    }

    /// Returns when the server has closed. What comes without a request is no answer either.
    pub async fn closed(&mut self) {
        drop(self.stream.read_u8().await);
    }

    /// Reads what has come. `began`: bytes of this response came before.
    async fn fill(&mut self, began: bool) -> Result<(), Fault> {
        match self.stream.read(&mut self.buffer[self.filled..]).await {
            Ok(0) if began => Err(Fault::Closed),
            Ok(0) => Err(Fault::ClosedBefore),
            Ok(read) => {
                self.filled += read;
                Ok(())
            }
            Err(error) => Err(Fault::of(&error, began)),
        }
    }
}

/// None: it is not whole.
fn head_of(bytes: &[u8], is_head: bool, wants_server: bool) -> Result<Option<Head>, Fault> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let size = match parsed.parse(bytes).map_err(|_| Fault::Malformed)? {
        httparse::Status::Complete(size) => size,
        httparse::Status::Partial => return Ok(None),
    };
    let status = parsed.code.unwrap_or_default();
    let mut keeps = parsed.version == Some(1);
    let (mut length, mut chunked, mut inside, mut server) = (None, false, None, None);
    for field in parsed.headers.iter() {
        let value = str::from_utf8(field.value).unwrap_or_default();
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                length = Some(value.trim().parse::<u64>().map_err(|_| Fault::Malformed)?);
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                chunked = value.trim().to_ascii_lowercase().ends_with("chunked");
            }
            10 if field.name.eq_ignore_ascii_case("connection") => {
                if value.eq_ignore_ascii_case("close") {
                    keeps = false;
                } else if value.eq_ignore_ascii_case("keep-alive") {
                    keeps = true;
                }
            }
            13 if field.name.eq_ignore_ascii_case("server-timing") => inside = Inside::parse(value).or(inside),
            6 if wants_server && field.name.eq_ignore_ascii_case("server") => server = Some(value.to_owned()),
            _ => {}
        }
    }
    let body = match (status, chunked, length) {
        _ if is_head => Body::Length(0),
        (100..=199 | 204 | 304, ..) => Body::Length(0),
        (_, true, _) => Body::Chunked(Chunks::START),
        (.., Some(length)) => Body::Length(length),
        _ => Body::Close,
    };
    Ok(Some(Head { size, status, body, keeps, inside, server }))
}
