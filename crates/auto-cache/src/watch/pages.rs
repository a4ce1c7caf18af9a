//! The pages that a cache would have, under what they read, the oldest ones leaving first when there are too many. It decides
//! nothing of what may be kept.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        Arc, OnceLock,
    },
};

use super::{made::Reading, unnamed::Makers, write_log::Changes, Watch};
use crate::{
    effects::Read,
    holes::Template,
    index::Index,
    keys::{key, Held, Name, Refusal, Variants},
};

/// Bytes of all pages of a site.
const BUDGET: usize = 32 << 20;
/// What a page costs beside its text, about.
const COST: usize = 2048;
/// Writes that are remembered, by the URL of the page that they dropped.
const MAX_WRITTEN: usize = 2000;

/// What tells a file from itself after a change: when it was changed (Unix nanoseconds), its size, its number.
pub type FileMark = [u64; 3];

#[derive(Debug)]
pub struct Page {
    pub url: Arc<str>,
    pub route: Arc<str>,
    /// Lines of the head, each with its end.
    pub head: Template,
    pub template: Template,
    pub etag: Option<Box<str>>,
    /// It is for one visitor, or those who are alike: no other cache may keep it.
    pub is_private: bool,
    pub read: Arc<Read>,
    pub keys: BTreeSet<String>,
    pub files: Vec<(String, Option<FileMark>)>,
    pub readings: Vec<Reading>,
    /// Of its request, what the record does not name.
    pub makers: Makers,
    /// Its values among the variants of its URL, and the bytes of the names that they are of. `Pages` fills it in.
    pub place: (Vec<u8>, usize),
    /// What is made of it once for all who are shown it. Besides its text, at most as many bytes once more.
    pub prepared: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Another answer of the application was equal to it. A page with random texts is shown to nobody before: what else came by chance would have differed.
    pub is_confirmed: AtomicBool,
    /// The moment since when it is here.
    pub kept: u64,
    /// Unix milliseconds.
    pub at: u64,
    /// From this time on it would be another one (Unix milliseconds). None: it does not depend on the time.
    pub good_until: Option<u64>,
}

/// A page as people are shown it.
#[derive(Debug, Clone, PartialEq)]
pub struct PageSummary {
    pub at: u64,
    /// Unix milliseconds.
    pub good_until: Option<u64>,
    pub readings: Vec<Reading>,
    pub varies: Vec<String>,
}

/// What dropped a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub by: String,
    /// Unix milliseconds; 0: not known.
    pub at: u64,
}

/// What pages of several sites may have together, in bytes. Beyond it each site may still have as much as its part would be if all had the
/// same, so that none can take everything: it is twice as much at most.
#[derive(Debug)]
pub struct Room {
    most: usize,
    used: AtomicUsize,
}

impl Room {
    pub const fn new(most: usize) -> Room {
        Room { most, used: AtomicUsize::new(0) }
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::new(usize::MAX)
    }
}

impl Watch {
    /// The site's pages share this room with those of others who have it.
    pub fn within(mut self, room: Arc<Room>) -> Watch {
        self.pages.room = room;
        self
    }
}

#[derive(Debug, Default)]
pub struct Pages {
    pages: BTreeMap<u64, Arc<Page>>,
    urls: HashMap<Arc<str>, Variants<u64>>,
    index: Index,
    by_key: HashMap<String, BTreeSet<u64>>,
    written: HashMap<Arc<str>, Written>,
    next: u64,
    bytes: usize,
    room: Arc<Room>,
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Relaxed);
    }
}

impl Pages {
    pub fn find(&self, url: &str, held: impl Fn(&Name) -> Held) -> Option<&Arc<Page>> {
        self.pages.get(self.urls.get(url)?.find(held)?)
    }

    /// The files that pages of this URL were made of.
    pub fn files_of(&self, url: &str) -> BTreeSet<&str> {
        let pages = self.urls.get(url).into_iter().flat_map(Variants::all).filter_map(|id| self.pages.get(id));
        pages.flat_map(|page| page.files.iter().map(|(path, _)| path.as_str())).collect()
    }

    pub fn drop_found(&mut self, url: &str, held: impl Fn(&Name) -> Held) {
        let found = self.urls.get(url).and_then(|variants| variants.find(held).copied());
        found.into_iter().for_each(|id| self.remove(id));
    }

    /// Keeps it in place of the one that is there.
    pub fn keep(
        &mut self,
        mut page: Page,
        names: &BTreeSet<Name>,
        held: impl Fn(&Name) -> Held,
    ) -> Result<(), Refusal> {
        let id = self.next;
        let names: Vec<Name> = names.iter().cloned().collect();
        page.place = (key(&names, &held)?, names.iter().map(|name| name.name.len()).sum());
        let variants = self.urls.entry(page.url.clone()).or_default();
        let replaced = match variants.insert(names, held, id) {
            Ok(replaced) => replaced,
            Err(refusal) => {
                if variants.is_empty() {
                    self.urls.remove(&page.url);
                }
                return Err(refusal);
            }
        };
        self.next += 1;
        // It is no variant any more: the new one stands under its key.
        replaced.into_iter().for_each(|old| drop(self.take(old)));
        self.index.insert(id, Read::clone(&page.read));
        for key in &page.keys {
            self.by_key.entry(key.clone()).or_default().insert(id);
        }
        self.bytes += cost(&page);
        self.room.used.fetch_add(cost(&page), Relaxed);
        self.pages.insert(id, Arc::new(page));
        while self.bytes > BUDGET || self.are_too_many() {
            let Some((oldest, _)) = self.pages.first_key_value() else { break };
            self.remove(*oldest);
        }
        Ok(())
    }

    fn are_too_many(&self) -> bool {
        // Who gives the room to sites has it, too.
        let sites = Arc::strong_count(&self.room).saturating_sub(1).max(1);
        self.room.used.load(Relaxed) > self.room.most && self.bytes > self.room.most / sites
    }

    /// Drops what these changes touch.
    pub fn touched(&mut self, changes: &Changes, by: &str, now: u64) {
        let mut ids = self.index.touched(&changes.write);
        match &changes.keys {
            None => ids.extend(self.by_key.values().flatten()),
            Some(keys) => ids.extend(keys.iter().filter_map(|key| self.by_key.get(key)).flatten()),
        }
        for id in ids {
            self.note(id, by, now);
            self.remove(id);
        }
    }

    pub fn clear(&mut self, by: &str, now: u64) {
        let ids: Vec<u64> = self.pages.keys().copied().collect();
        for id in ids {
            self.note(id, by, now);
            self.remove(id);
        }
    }

    /// Drops all pages of a route.
    pub fn drop_route(&mut self, route: &str) {
        let of_route = self.pages.iter().filter(|(_, page)| &*page.route == route);
        let ids: Vec<u64> = of_route.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    fn note(&mut self, id: u64, by: &str, now: u64) {
        let Some(page) = self.pages.get(&id) else { return };
        if self.written.len() >= MAX_WRITTEN {
            self.written.clear();
        }
        self.written.insert(page.url.clone(), Written { by: by.to_owned(), at: now });
    }

    fn remove(&mut self, id: u64) {
        let Some(page) = self.take(id) else { return };
        if let Some(variants) = self.urls.get_mut(&page.url) {
            variants.remove(&page.place.0, &id);
            if variants.is_empty() {
                self.urls.remove(&page.url);
            }
        }
    }

    /// Takes a page out, but for its place among the variants.
    fn take(&mut self, id: u64) -> Option<Arc<Page>> {
        let page = self.pages.remove(&id)?;
        self.bytes -= cost(&page);
        self.room.used.fetch_sub(cost(&page), Relaxed);
        self.index.remove(id);
        for key in &page.keys {
            if let Some(ids) = self.by_key.get_mut(key) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
        Some(page)
    }

    pub fn seen(&self, url: &str) -> (Vec<PageSummary>, Option<&Written>) {
        let pages = self.pages.values().filter(|page| &*page.url == url);
        let names = || self.urls.get(url).into_iter().flat_map(|variants| variants.names());
        let varies: BTreeSet<String> =
            names().flat_map(|(names, _)| names).filter(|name| !super::is_release(name)).map(super::shown).collect();
        let varies: Vec<String> = varies.into_iter().collect();
        let seen = pages.map(|page| PageSummary {
            at: page.at,
            good_until: page.good_until,
            readings: page.readings.clone(),
            varies: varies.clone(),
        });
        (seen.collect(), self.written.get(url))
    }

    pub fn size(&self) -> (usize, usize) {
        (self.pages.len(), self.bytes)
    }
}

fn cost(page: &Page) -> usize {
    let readings: usize = page.readings.iter().map(|reading| reading.what.len() + reading.at.len()).sum();
    let keys: usize = page.keys.iter().map(String::len).sum();
    let values: usize = page.read.rows.iter().flat_map(|rows| &rows.conditions).map(|(_, values)| values.len()).sum();
    2 * (page.template.size() + page.head.size())
        + page.url.len()
        // Of a key there are two.
        + 2 * page.place.0.len()
        + page.place.1
        + readings
        + page.makers.size()
        + keys
        + 64 * (page.read.rows.len() + values)
        + COST
}
