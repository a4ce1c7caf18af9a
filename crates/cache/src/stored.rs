//! A stored response. It never changes but in one thing: it can be marked as expired.

use std::{
    mem::size_of,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc,
    },
};

use bytes::Bytes;
use http::{header, HeaderMap, StatusCode};

use crate::{
    fields::date_in,
    freshness::Freshness,
    groups,
    partial::Pieces,
    store::{allocated, Object},
    storing::Storable,
    vary::VaryNames,
    Millis,
};

/// What is kept of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Whole(Bytes),
    /// Parts of it, as answers to ranges.
    Pieces(Pieces),
}

/// A response that may answer requests.
#[derive(Debug)]
pub struct Stored {
    /// Another for each; a body made from this one is kept under it.
    pub version: u64,
    pub url: Arc<str>,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub content: Content,
    pub freshness: Freshness,
    pub nominated: VaryNames,
    pub tags: Box<[Arc<str>]>,
    /// Seconds since the epoch that stand for Last-Modified where a response has none (RFC 9111 section 4.3.2).
    pub modified: Option<Millis>,
    expired: AtomicBool,
    hits: AtomicU64,
}

static VERSIONS: AtomicU64 = AtomicU64::new(1);

impl Stored {
    pub fn new(
        url: Arc<str>,
        status: StatusCode,
        storable: Storable,
        content: Content,
        more_tags: &[Arc<str>],
    ) -> Stored {
        let origin = groups::origin(&url);
        let mut tags = groups::tags(&storable.headers, origin);
        tags.extend(more_tags.iter().cloned());
        tags.sort();
        tags.dedup();
        Stored {
            version: VERSIONS.fetch_add(1, Relaxed),
            modified: date_in(&storable.headers, header::LAST_MODIFIED)
                .or_else(|| date_in(&storable.headers, header::DATE)),
            url,
            status,
            headers: storable.headers,
            content,
            freshness: storable.freshness,
            nominated: storable.nominated,
            tags: tags.into(),
            expired: AtomicBool::new(false),
            hits: AtomicU64::new(0),
        }
    }

    /// One that was kept before, by another process (`record`).
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn revived(
        url: Arc<str>,
        status: StatusCode,
        headers: HeaderMap,
        content: Content,
        freshness: Freshness,
        nominated: VaryNames,
        tags: Vec<Arc<str>>,
        modified: Option<Millis>,
        expired: bool,
    ) -> Stored {
        Stored {
            version: VERSIONS.fetch_add(1, Relaxed),
            url,
            status,
            headers,
            content,
            freshness,
            nominated,
            tags: tags.into(),
            modified,
            expired: AtomicBool::new(expired),
            hits: AtomicU64::new(0),
        }
    }

    /// The whole body, if it is there.
    pub fn whole(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Pieces(_) => None,
        }
    }

    /// It has answered once more.
    pub fn count_hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// How often it has answered.
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// It was purged softly: from now on it is stale.
    pub fn is_expired(&self) -> bool {
        self.expired.load(Relaxed)
    }

    pub fn is_fresh(&self, now: Millis) -> bool {
        !self.is_expired() && self.freshness.is_fresh(now)
    }
}

/// What a URL's responses vary by: where the lookup goes on.
#[derive(Debug)]
pub struct Directory {
    pub url: Arc<str>,
    /// The latest first.
    pub nominations: Box<[VaryNames]>,
}

/// Lists of names that one URL's responses may have, at most. One that varies its Vary more than this is looked up by
/// the latest of them.
pub const MAX_NOMINATIONS: usize = 4;

impl Directory {
    /// This one with `nominated` in front.
    pub fn with(previous: Option<&Directory>, url: Arc<str>, nominated: VaryNames) -> Directory {
        let others =
            previous.into_iter().flat_map(|previous| previous.nominations.iter()).filter(|other| **other != nominated);
        let nominations = std::iter::once(&nominated).chain(others).take(MAX_NOMINATIONS).cloned().collect();
        Directory { url, nominations }
    }
}

/// See [`Entry::Session`].
pub const UNSETTLED: u64 = u64::MAX;

/// What lies under a key.
#[derive(Debug)]
pub enum Entry {
    Response(Arc<Stored>),
    Directory(Directory),
    /// Made from a response: its body in a coding.
    Derived {
        url: Arc<str>,
        bytes: Bytes,
    },
    /// What is known of a visitor (`stubborn`): whose pages are his, and whether what he sees next may be kept.
    Session {
        url: Arc<str>,
        lineage: u128,
        /// When he changed something, by the caller's clock.
        changed: u64,
        /// When he was first shown something after that; [`UNSETTLED`]: not yet.
        settled: AtomicU64,
    },
}

impl Object for Entry {
    fn weight(&self) -> usize {
        let own = allocated(size_of::<Entry>() + 2 * size_of::<usize>());
        own + match self {
            Entry::Response(stored) => stored.weight(),
            Entry::Directory(directory) => {
                let names: usize = directory.nominations.iter().map(|list| allocated(list.names().len() * 32)).sum();
                url_weight(&directory.url) + names + allocated(directory.nominations.len() * size_of::<VaryNames>())
            }
            Entry::Derived { url, bytes } => url_weight(url) + allocated(bytes.len()),
            // All of them share their URL.
            Entry::Session { .. } => 0,
        }
    }

    fn url(&self) -> &Arc<str> {
        match self {
            Entry::Response(stored) => &stored.url,
            Entry::Directory(directory) => &directory.url,
            Entry::Derived { url, .. } | Entry::Session { url, .. } => url,
        }
    }

    fn tags(&self) -> &[Arc<str>] {
        match self {
            Entry::Response(stored) => &stored.tags,
            _ => &[],
        }
    }

    fn expire(&self) {
        if let Entry::Response(stored) = self {
            stored.expired.store(true, Relaxed);
        }
    }

    fn counts(&self) -> bool {
        matches!(self, Entry::Response(_))
    }
}

fn url_weight(url: &Arc<str>) -> usize {
    allocated(url.len() + 2 * size_of::<usize>())
}

impl Stored {
    fn weight(&self) -> usize {
        // A header map is two tables: buckets with names and values, and the index into them, twice as long at least.
        let capacity = self.headers.capacity().max(self.headers.len()).next_power_of_two();
        let values: usize =
            self.headers.iter().map(|(name, value)| allocated(name.as_str().len()) + allocated(value.len())).sum();
        let headers = allocated(capacity * 104) + allocated(capacity * 8) + values;
        let content = match &self.content {
            Content::Whole(bytes) => allocated(bytes.len()),
            Content::Pieces(pieces) => pieces.weight(),
        };
        let tags: usize =
            self.tags.iter().map(|tag| allocated(tag.len() + 16)).sum::<usize>() + allocated(self.tags.len() * 16);
        allocated(size_of::<Stored>() + 16) + url_weight(&self.url) + headers + content + tags
    }
}
