//! The thread that brings spans to a collector: OTLP over HTTP, in batches, tried again after a pause when it does not
//! take them. Nothing on a request's way waits for it: what finds no room is dropped and counted.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::mpsc::{Receiver, SyncSender},
    time::{Duration, Instant},
};

use super::{otlp, Endpoint, Span};
use crate::observe::log::{Log, Name};

/// Spans that are sent at once.
const BATCH: usize = 512;
/// How long the first of them waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// Pauses between two tries.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// For connecting, and for each read and write.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is said that the collector takes nothing.
const SAY_AGAIN: Duration = Duration::from_secs(60);

pub enum Message {
    Spans(Vec<Span>),
    /// What came before has been sent, or given up, when the sender hears back. From now on nothing is tried twice.
    Close(SyncSender<()>),
}

enum Failed {
    /// It may be another time.
    Later(String),
    /// It will never be: the collector does not understand.
    Never(String),
}

pub fn deliver(messages: &Receiver<Message>, endpoint: &Endpoint, service: &str, log: &Log) {
    let mut said: Option<Instant> = None;
    while let Ok(first) = messages.recv() {
        let mut spans = Vec::new();
        let mut closing = None;
        let end = Instant::now() + GATHER;
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Spans(more) => spans.extend(more),
                Message::Close(heard) => closing = Some(heard),
            }
            if spans.len() >= BATCH || closing.is_some() {
                break;
            }
            next = messages.recv_timeout(end.saturating_duration_since(Instant::now())).ok();
        }
        if !spans.is_empty() {
            let body = otlp::encoded(service, &spans).to_string();
            let pauses = if closing.is_some() { &PAUSES[..0] } else { &PAUSES[..] };
            let sent = send_patiently(endpoint, &body, pauses);
            let may_say = said.is_none_or(|said| said.elapsed() >= SAY_AGAIN);
            if let (Err(Failed::Later(why) | Failed::Never(why)), true) = (sent, may_say) {
                said = Some(Instant::now());
                let count = spans.len();
                log.event(Name::Traces, format!("{endpoint} does not take traces: {why}; {count} spans were dropped"));
            }
        }
        if let Some(heard) = closing {
            let _ = heard.send(());
        }
    }
}

fn send_patiently(endpoint: &Endpoint, body: &str, pauses: &[Duration]) -> Result<(), Failed> {
    for pause in pauses {
        match send(endpoint, body) {
            Ok(()) => return Ok(()),
            Err(Failed::Never(why)) => return Err(Failed::Never(why)),
            Err(Failed::Later(_)) => std::thread::sleep(*pause),
        }
    }
    send(endpoint, body)
}

fn send(endpoint: &Endpoint, body: &str) -> Result<(), Failed> {
    let head = exchange(endpoint, body).map_err(|error| Failed::Later(error.to_string()))?;
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut fields);
    let status = answer.parse(&head).ok().and(answer.code);
    match status {
        Some(200..300) => Ok(()),
        Some(status @ (429 | 502..=504)) => Err(Failed::Later(format!("it answers {status}"))),
        Some(status) => Err(Failed::Never(format!("it answers {status}"))),
        None => Err(Failed::Never("what answers there does not speak HTTP".into())),
    }
}

/// The head of the answer, and perhaps more.
fn exchange(endpoint: &Endpoint, body: &str) -> io::Result<Vec<u8>> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (endpoint.host.as_str(), endpoint.port).to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            endpoint.path,
            endpoint.authority(),
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") && answer.len() < 64 << 10 {
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes)? {
                0 => break,
                count => answer.extend_from_slice(&bytes[..count]),
            }
        }
        return Ok(answer);
    }
    Err(last)
}
