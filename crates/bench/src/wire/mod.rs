//! A client: keeps or opens its connection, and asks. Never decides when.

mod body;
pub mod h1;
mod h2;
pub mod stream;

use std::{io, rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use tokio::{sync::Mutex, time::timeout};

use self::{
    h1::{Sink, H1},
    h2::H2,
    stream::Dialer,
};
use crate::{
    parts::{Inside, Part, Parts},
    recording::Sample,
    request::Template,
    target::Target,
};

/// What one exchange was. Times in microseconds.
pub struct Answer {
    pub status: u16,
    pub upload: u32,
    pub wait: u32,
    pub response: u32,
    /// Of the body.
    pub length: u64,
    pub received: u64,
    pub inside: Option<Inside>,
    pub keeps: bool,
    pub server: Option<String>,
}

/// Why a request was not answered.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum Fault {
    #[error("connection refused")]
    Refused,
    #[error("connection reset")]
    Reset,
    #[error("connection closed before the response")]
    ClosedBefore,
    #[error("connection closed")]
    Closed,
    #[error("response cut short")]
    CutShort,
    #[error("not an HTTP response")]
    Malformed,
    #[error("no complete response within {0} s")]
    TimedOut(u64),
    #[error("HTTP/2: {0}")]
    Http2(String),
    #[error("the server does not speak HTTP/2")]
    NoHttp2,
    #[error("{0}")]
    Io(String),
}

impl Fault {
    /// `began`: bytes of the response came before.
    fn of(error: &io::Error, began: bool) -> Fault {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Fault::Refused,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe if !began => Fault::ClosedBefore,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Fault::Reset,
            _ => Fault::Io(error.to_string()),
        }
    }
}

/// How HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Http1,
    /// Over TLS by ALPN, else with prior knowledge.
    Http2,
}

/// A request that is sent again and again.
pub struct Prepared {
    bytes: Bytes,
    method: Method,
    url: Option<Uri>,
    fields: HeaderMap,
    body: Bytes,
}

impl Prepared {
    pub fn new(template: &Template, target: &Target) -> Prepared {
        Prepared {
            bytes: template.bytes(target),
            method: template.method.clone(),
            url: target.to_string().parse().ok(),
            fields: template.fields(),
            body: template.body.clone(),
        }
    }

    /// Bytes that are sent for it over HTTP/1.1.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// What all clients of a run share.
pub struct Way {
    pub dialer: Dialer,
    pub version: Version,
    pub keep_alive: bool,
    /// For one request, with connecting.
    pub limit: Duration,
    pub words: Words,
}

/// What is said of each response on standard error, as ab's -v has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Words {
    None,
    Warnings,
    Statuses,
    Heads,
}

impl Words {
    /// Of ab's number.
    pub fn of(verbosity: u64) -> Words {
        match verbosity {
            0 | 1 => Words::None,
            2 => Words::Warnings,
            3 => Words::Statuses,
            _ => Words::Heads,
        }
    }

    fn answered(self, status: u16) {
        match status / 100 {
            2 if self >= Words::Statuses => eprintln!("LOG: Response code = {status}"),
            2 => {}
            _ if self >= Words::Warnings => eprintln!("WARNING: Response code not 2xx ({status})"),
            _ => {}
        }
    }

    fn failed(self, fault: &Fault) {
        if self >= Words::Warnings {
            eprintln!("WARNING: {fault}");
        }
    }
}

impl Sink for Words {
    fn head(&mut self, bytes: &[u8]) {
        if *self >= Words::Heads {
            eprintln!("LOG: header received:\n{}", String::from_utf8_lossy(bytes));
        }
    }
}

/// A connection of HTTP/2 that several clients use.
pub type SharedHttp2 = Rc<Mutex<Option<H2>>>;

/// One of the clients that send requests, one request at a time.
pub struct Client {
    way: Rc<Way>,
    http1: Option<H1>,
    http2: SharedHttp2,
    /// Told of the first response only.
    server: Option<String>,
}

impl Client {
    /// `shared`: the connection, if the way is HTTP/2.
    pub fn new(way: Rc<Way>, shared: SharedHttp2) -> Client {
        Client { way, http1: None, http2: shared, server: None }
    }

    /// The field Server of the first response.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// One exchange. The sample's `due` is left to the caller.
    pub async fn ask(&mut self, request: &Prepared) -> Result<Sample, Fault> {
        let (limit, words) = (self.way.limit, self.way.words);
        let asked = timeout(limit, self.try_ask(request)).await;
        match asked.unwrap_or(Err(Fault::TimedOut(limit.as_secs()))) {
            Ok(sample) => {
                words.answered(sample.status);
                Ok(sample)
            }
            Err(fault) => {
                words.failed(&fault);
                self.close();
                Err(fault)
            }
        }
    }

    fn close(&mut self) {
        self.http1 = None;
        // Another client that opens a new one meanwhile has noticed, too.
        if let Ok(mut shared) = self.http2.try_lock() {
            shared.take();
        }
    }

    async fn try_ask(&mut self, request: &Prepared) -> Result<Sample, Fault> {
        let mut parts = Parts::default();
        let answer = match self.way.version {
            Version::Http1 => self.ask_http1(request, &mut parts).await?,
            Version::Http2 => self.ask_http2(request, &mut parts).await?,
        };
        if !self.way.keep_alive || !answer.keeps {
            self.close();
        }
        parts.set(Part::Upload, answer.upload);
        parts.set(Part::Wait, answer.wait);
        parts.set(Part::Response, answer.response);
        let Answer { status, length, received, inside, .. } = answer;
        if answer.server.is_some() {
            self.server = answer.server;
        }
        Ok(Sample { due: 0, parts, inside, status, length, received })
    }

    async fn ask_http1(&mut self, request: &Prepared, parts: &mut Parts) -> Result<Answer, Fault> {
        let is_head = request.method == Method::HEAD;
        let (wants_server, mut words) = (self.server.is_none(), self.way.words);
        if let Some(kept) = &mut self.http1 {
            match kept.exchange(&request.bytes, is_head, wants_server, &mut words).await {
                // The server closed it while nothing was asked (RFC 9112 section 9.3.1): a new one, as every client does.
                Err(Fault::ClosedBefore) => self.http1 = None,
                other => return other,
            }
        }
        let opened = self.open(parts).await?;
        self.http1.insert(H1::new(opened)).exchange(&request.bytes, is_head, wants_server, &mut words).await
    }

    async fn ask_http2(&mut self, request: &Prepared, parts: &mut Parts) -> Result<Answer, Fault> {
        let wants_server = self.server.is_none();
        let url = request.url.as_ref().ok_or(Fault::Malformed)?;
        let mut connection = self.http2(parts).await?;
        connection.exchange(&request.method, url, &request.fields, &request.body, wants_server).await
    }

    /// The shared connection, opened if there is none.
    async fn http2(&self, parts: &mut Parts) -> Result<H2, Fault> {
        let mut slot = self.http2.lock().await;
        match &*slot {
            Some(kept) => Ok(kept.clone()),
            None => Ok(slot.insert(H2::new(self.open(parts).await?).await?).clone()),
        }
    }

    /// Opens a connection that is to be kept before it is needed. A failure is left to the first request.
    pub async fn connect(&mut self) {
        if !self.way.keep_alive {
            return;
        }
        let (limit, mut parts) = (self.way.limit, Parts::default());
        let opening = async {
            match self.way.version {
                Version::Http1 => self.http1 = self.open(&mut parts).await.ok().map(H1::new),
                Version::Http2 => drop(self.http2(&mut parts).await),
            }
        };
        let _ = timeout(limit, opening).await;
    }

    async fn open(&self, parts: &mut Parts) -> Result<stream::Stream, Fault> {
        let opened = self.way.dialer.open().await.map_err(|error| Fault::of(&error, true))?;
        parts.set(Part::Connect, opened.connect);
        parts.set(Part::Tls, opened.tls);
        if self.way.version == Version::Http2 && opened.refused_http2 {
            return Err(Fault::NoHttp2);
        }
        Ok(opened.stream)
    }
}
