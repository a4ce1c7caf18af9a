//! Where a response is kept once its body is whole, and how parts of one are joined.
//! It never decides whether it may be kept.

use std::sync::Arc;

use bytes::Bytes;
use cache::{
    groups,
    partial::{strong_validator, ContentRange, Pieces},
    search::NoVarySearch,
    status::Reason,
    store::{Insertion, Key, Moment},
    stored::{Content, Directory, Entry, Stored},
    storing::Storable,
};
use http::{header, HeaderMap, StatusCode};

use super::{cache_request::CacheRequest, invalidation::target_of, kin::Kin, recode, tier::TierLease, SiteCache};

/// Paths of which it is kept which parameters do not matter.
const MAX_SEARCHES: usize = 4096;

impl SiteCache {
    /// Which parameters of the path's queries do not matter; the response is kept under what is left of them.
    pub(super) fn learn_search(&self, wanted: &mut CacheRequest, headers: &HeaderMap) {
        let Some((path, _)) = wanted.url.split_once('?') else { return };
        let Some(said) = NoVarySearch::of(headers) else { return };
        let origin = groups::origin(&wanted.url).len();
        let canonical = said.canonical(&wanted.url[origin..]);
        {
            let mut searches = self.searches.write();
            if searches.len() >= MAX_SEARCHES {
                searches.clear();
            }
            searches.insert(path.to_owned(), said);
        }
        let url: Arc<str> = format!("{}{canonical}", &wanted.url[..origin]).into();
        wanted.primary = self.cache.keys.primary(&target_of(&url), &wanted.partition);
        wanted.url = url;
    }

    /// Puts it where requests like this one look.
    pub(super) fn place(
        &self,
        kin: &Kin,
        request: &HeaderMap,
        stored: Arc<Stored>,
        moment: Moment,
    ) -> (Key, Result<(), Reason>) {
        let (store, primary, own) = (&self.cache.store, kin.primary, kin.own);
        let key = self.cache.keys.variant(primary, &stored.nominated, request);
        // Nobody gets it any more, and what is there may be what was prepared for the time after it.
        if !self.may_hold(primary, stored.freshness.holds) {
            return (key, Err(Reason::Outdated));
        }
        if !stored.nominated.is_empty() {
            let now_there = store.peek(primary);
            let previous = now_there.as_ref().or(kin.directory.as_ref()).and_then(|kept| match &**kept {
                Entry::Directory(directory) => Some(directory),
                _ => None,
            });
            if previous.is_none_or(|previous| previous.nominations.first() != Some(&stored.nominated)) {
                let directory = Directory::with(previous, stored.url.clone(), stored.nominated.clone());
                // Without room for it there is none for what it leads to.
                let _ = self.cache.put(primary, Arc::new(Entry::Directory(directory)), store.moment(), own);
            } else if let Some(directory) = now_there.filter(|_| !own) {
                // On disk it must not be older, and gone earlier, than what it leads to.
                self.cache.put_again(primary, directory);
            }
        }
        let inserted = match self.cache.put(key, Arc::new(Entry::Response(stored)), moment, own) {
            Insertion::Stored => Ok(()),
            Insertion::TooLarge => Err(Reason::Size),
            Insertion::Purged if moment == Moment::NEVER => Err(Reason::Canary),
            Insertion::Purged => Err(Reason::Purged),
        };
        (key, inserted)
    }
}

/// All that is needed to keep a response once its body is whole.
pub struct StoreTask {
    pub cache: Arc<SiteCache>,
    pub wanted: Kin,
    pub request: HeaderMap,
    pub status: StatusCode,
    pub range: Option<ContentRange>,
    pub before: Option<Arc<Stored>>,
    pub tags: Vec<Arc<str>>,
    pub moment: Moment,
    pub storable: Storable,
    /// The other fronts wait for it.
    pub lease: Option<Box<TierLease>>,
}

/// A response, and whether it is kept.
pub struct KeptOne {
    pub response: Arc<Stored>,
    pub key: Key,
    pub stored: Result<(), Reason>,
}

impl StoreTask {
    /// The head of it, for those who get the body as it comes.
    pub fn announced(&self) -> (Arc<Stored>, Key) {
        let content = Content::Whole(Bytes::new());
        let stored = Stored::new(self.wanted.url.clone(), self.status, self.storable.clone(), content, &self.tags);
        let key = self.cache.cache.keys.variant(self.wanted.primary, &self.storable.nominated, &self.request);
        (Arc::new(stored), key)
    }

    pub fn keep(mut self, mut bytes: Bytes) -> KeptOne {
        let mut status = self.status;
        let recodes = self.cache.settings.recode && self.range.is_none();
        let plain = || recode::identity(&self.storable, &bytes, self.cache.settings.object);
        if let Some(plain) = recodes.then(plain).flatten() {
            (self.storable, bytes) = plain;
        }
        let content = match self.range {
            None => Some(Content::Whole(compact(bytes))),
            Some(range) => {
                status = StatusCode::OK;
                let joined = self.pieces(range, compact(bytes));
                self.storable.headers.remove(header::CONTENT_RANGE);
                self.storable.headers.remove(header::CONTENT_LENGTH);
                joined
            }
        };
        let (content, complete) = match content {
            Some(content) => (content, true),
            None => (Content::Whole(Bytes::new()), false),
        };
        let response = Arc::new(Stored::new(self.wanted.url.clone(), status, self.storable, content, &self.tags));
        if !complete {
            return KeptOne { response, key: self.wanted.primary, stored: Err(Reason::Incomplete) };
        }
        let (key, stored) = self.cache.place(&self.wanted, &self.request, response.clone(), self.moment);
        if let Some(lease) = self.lease {
            lease.conclude(&response, stored, &self.request);
        }
        KeptOne { response, key, stored }
    }

    /// The body has become too large to keep: no other front's would be smaller.
    pub fn outgrow(self) {
        self.lease.into_iter().for_each(|lease| lease.end_unshared(false));
    }

    /// With the parts that are there already, if they are of the same representation (RFC 9111 section 3.4).
    fn pieces(&self, range: ContentRange, bytes: Bytes) -> Option<Content> {
        let headers = &self.storable.headers;
        let mut new = Pieces::of(range, bytes)?;
        if let (Some(asked), Some(said)) = (self.request.get(header::RANGE), headers.get(header::CONTENT_RANGE)) {
            new = new.answering(asked, said);
        }
        let before =
            self.before.as_ref().and_then(|before| match (&before.content, strong_validator(&before.headers)) {
                (Content::Pieces(pieces), Some(tag)) if strong_validator(headers) == Some(tag) => pieces.joined(&new),
                _ => None,
            });
        let pieces = before.unwrap_or(new);
        Some(match pieces.whole() {
            Some(whole) => Content::Whole(whole.clone()),
            None => Content::Pieces(pieces),
        })
    }
}

/// A body that does not hold on to more memory than it has bytes (a slice of a read buffer does).
fn compact(bytes: Bytes) -> Bytes {
    Bytes::copy_from_slice(&bytes)
}
