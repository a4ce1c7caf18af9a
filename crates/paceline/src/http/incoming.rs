//! Request bodies: read whole before a worker is asked for, in memory up to a bound and in a file beyond it.
//! It never passes a body to anybody.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{header, HeaderMap};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::io::AsyncWriteExt;

use super::spool::NamedSpool;
use crate::memory::BODIES;

/// A request body as a worker will get it.
pub enum RequestBody {
    Memory(Bytes),
    Spooled {
        file: Arc<NamedSpool>,
        length: u64,
    },
    /// Passed on as it comes, cut off at the bound; the length when the client told it.
    Streamed {
        body: Limited<Incoming>,
        length: Option<u64>,
    },
}

impl RequestBody {
    /// Bytes, when known.
    pub fn length(&self) -> Option<u64> {
        match self {
            RequestBody::Memory(bytes) => Some(bytes.len() as u64),
            RequestBody::Spooled { length, .. } => Some(*length),
            RequestBody::Streamed { length, .. } => *length,
        }
    }
}

/// Why a body could not be read.
#[derive(Debug)]
pub enum Unread {
    /// Over the bound in bytes (413).
    TooLarge(u64),
    /// The client broke it off or broke its framing.
    Broken(hyper::Error),
    /// The spool file could not be written.
    Spool(std::io::Error),
}

/// Marks (as an extension) the response to a request whose body was not read to its end.
#[derive(Debug, Clone, Copy)]
pub struct LeftUnread;

/// How bodies are read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest body, bytes.
    pub max: Option<u64>,
    /// Bytes kept in memory.
    pub memory: usize,
    /// Spool larger bodies (true), or pass them on as they come.
    pub buffer: bool,
}

/// Whether the head announces a body (RFC 9112 section 6.3).
pub fn announced(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0")
}

/// Reads `body` whole.
pub async fn read(mut body: Incoming, limits: Limits) -> Result<RequestBody, Unread> {
    let length = body.size_hint().exact();
    let max = limits.max.unwrap_or(u64::MAX);
    if length.is_some_and(|length| length > max) {
        return Err(Unread::TooLarge(max));
    }
    if !limits.buffer && length.is_none_or(|length| length > limits.memory as u64) {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        return Ok(RequestBody::Streamed { body: Limited::new(body, max), length });
    }
    let mut memory = BytesMut::new();
    let mut held = BODIES.take(0);
    let mut spooled: Option<(NamedSpool, tokio::fs::File)> = None;
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        total += data.len() as u64;
        if total > max {
            return Err(Unread::TooLarge(max));
        }
        if let Some((_, file)) = &mut spooled {
            file.write_all(&data).await.map_err(Unread::Spool)?;
        } else if memory.len() + data.len() <= limits.memory && held.as_mut().is_some_and(|held| held.grow(data.len()))
        {
            memory.extend_from_slice(&data);
        } else {
            let named = NamedSpool::create().map_err(Unread::Spool)?;
            let mut file = tokio::fs::OpenOptions::new().write(true).open(named.path()).await.map_err(Unread::Spool)?;
            file.write_all(&memory).await.map_err(Unread::Spool)?;
            file.write_all(&data).await.map_err(Unread::Spool)?;
            memory = BytesMut::new();
            held = None;
            spooled = Some((named, file));
        }
    }
    match spooled {
        None => Ok(RequestBody::Memory(memory.freeze())),
        Some((file, mut writing)) => {
            writing.flush().await.map_err(Unread::Spool)?;
            Ok(RequestBody::Spooled { file: Arc::new(file), length: total })
        }
    }
}
