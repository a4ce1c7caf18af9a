//! An answer that has been sent, and what it was made of: it waits to be looked at. It decides nothing.

use std::sync::Arc;

use ::auto_cache::keys::Name;
use bytes::Bytes;

use super::request_parts::RequestParts;
use crate::exchange::RecordSlot;

/// An answer that has been sent.
pub struct Observed {
    pub url: String,
    /// None: 200.
    pub status: Option<u16>,
    /// Its request may be answered with a page.
    pub is_for_pages: bool,
    pub route: String,
    pub began: u64,
    pub ended: u64,
    pub asked: RequestParts,
    pub record: RecordSlot,
    pub refused: Option<String>,
    pub cookies: Vec<OwnCookie>,
    pub head: Vec<u8>,
    pub etag: Option<String>,
    pub vary: Vec<Name>,
    pub visitor: u64,
    pub nonce: Option<String>,
    pub body: Vec<Bytes>,
    /// Bytes that count as waiting.
    pub size: usize,
}

/// A cookie that the answer sets.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnCookie {
    pub name: String,
    pub value: Vec<u8>,
    pub until: Option<u64>,
}

impl Observed {
    pub fn measured(&self) -> usize {
        let record = self.record.lock().as_ref().map_or(0, Bytes::len);
        self.body.iter().map(Bytes::len).sum::<usize>() + record + 1024
    }

    /// The record may still come: a body of known length ends for its client before the frames after it are read.
    pub fn is_incomplete(&self) -> bool {
        self.record.lock().is_none() && Arc::strong_count(&self.record) > 1
    }
}
