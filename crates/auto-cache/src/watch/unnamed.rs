//! What requests bring that the record of a page does not name: other cookies and header fields, the address. The record may lack what
//! the application has read all the same (a copy of the env, a thread of its own), so a page passes from one value of such a field to
//! another only after answers to both were equal. It keeps hashes alone, never values, has bounds, and reads no clock.
//!
//! What a comparison proves, it proves of the values that were compared. An attacker chooses values, but only his own: those of others
//! go to the application until they were compared themselves.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::keys::{Name, Source};

/// Equal comparisons after which a value counts.
pub(super) const OWN: u8 = 3;
/// Equal comparisons after which a value counts where so many values of the field have been equal.
const OWN_AMONG_MANY: u8 = 1;
const MANY: usize = 5;
/// Personal fields of one route of which that is known.
const MAX_FIELDS: usize = 64;
/// Values of each of two halves: when one is full, the older one is forgotten.
pub(super) const MAX_HALF: usize = 20_000;
/// Stands for the value of a field that is not there.
const ABSENT: u64 = 0;
/// The name that stands for all cookies.
const ALL: &str = "*";

/// Keys that are hashes with a secret already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Map<T> = HashMap<u64, T, BuildHasherDefault<AsItIs>>;
type Set = HashSet<u64, BuildHasherDefault<AsItIs>>;

/// What a field may tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Who somebody is: each of its values is compared by itself.
    Personal,
    /// What many have alike, such as the browser: when many values were equal, the others count as well.
    Common,
}

/// Something that a request has.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    pub kind: Kind,
    pub source: Source,
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Values with the same count as one where many are needed: of an address its network, else the value.
    pub alike: &'a [u8],
}

/// One, without its value.
#[derive(Debug, Clone, Copy)]
struct Seen {
    field: u64,
    value: u64,
    alike: u64,
    kind: Kind,
    is_cookie: bool,
}

/// What a request has brought, by field.
#[derive(Debug)]
pub struct Brought(Vec<Seen>);

/// What the request of a page has brought beside what the page's record names.
#[derive(Debug, Default)]
pub struct Makers {
    /// By field. True: the page was also the answer to a request with another value.
    fields: Box<[(Seen, AtomicBool)]>,
    named: Set,
    names_all_cookies: bool,
    /// The cookie of the session of which the record names values.
    session: Option<u64>,
    /// Whose request it was.
    visitor: u64,
}

/// What is known of a route: of which fields many values have been equal.
#[derive(Debug, Default)]
pub struct Across {
    /// 0: it has none yet.
    number: u32,
    common: Map<Set>,
    personal: Map<Set>,
}

/// Equal comparisons of a value, by the number of the route.
type Counts = Vec<(u32, u8)>;

/// Of all routes.
#[derive(Debug, Default)]
pub struct Unnamed {
    state: RandomState,
    young: Map<Counts>,
    old: Map<Counts>,
    /// Values that have come in place of another one, which the first of them stands for.
    renewed: Map<u64>,
    last_route: u32,
}

/// A field in which a page and a request may differ.
struct Pair<'a> {
    seen: Seen,
    made: u64,
    made_alike: u64,
    asked: u64,
    asked_alike: u64,
    varied: Option<&'a AtomicBool>,
}

impl Makers {
    /// Fields that the page or the request has, and the record does not name.
    fn pairs<'a>(&'a self, brought: &'a Brought) -> impl Iterator<Item = Pair<'a>> {
        let of_page = self.fields.iter().map(|(seen, varied)| {
            let asked = brought.find(seen.field);
            Pair {
                seen: *seen,
                made: seen.value,
                made_alike: seen.alike,
                asked: asked.map_or(ABSENT, |asked| asked.value),
                asked_alike: asked.map_or(ABSENT, |asked| asked.alike),
                varied: Some(varied),
            }
        });
        let is_known = |seen: &&Seen| {
            self.names(seen) || self.fields.binary_search_by_key(&seen.field, |(own, _)| own.field).is_ok()
        };
        let of_request = brought.0.iter().filter(move |seen| !is_known(seen)).map(|seen| Pair {
            seen: *seen,
            made: ABSENT,
            made_alike: ABSENT,
            asked: seen.value,
            asked_alike: seen.alike,
            varied: None,
        });
        of_page.chain(of_request)
    }

    fn names(&self, seen: &Seen) -> bool {
        seen.is_cookie && self.names_all_cookies || self.named.contains(&seen.field)
    }

    /// It was made from a request that may have shown who asked.
    pub fn are_personal(&self) -> bool {
        self.fields.iter().any(|(seen, _)| seen.kind == Kind::Personal)
    }

    /// The same visitor asks with another value of a cookie, and nobody else was given this page: an answer that nobody could follow has renewed the cookie, and the page waits
    /// for a value that does not come back.
    pub fn were_before(&self, brought: &Brought, visitor: u64) -> bool {
        let is_other = |(seen, varied): &(Seen, AtomicBool)| {
            let asked = brought.find(seen.field).map(|asked| asked.value);
            let is_own = seen.is_cookie && seen.kind == Kind::Personal && !varied.load(Relaxed);
            is_own && asked.is_some_and(|asked| asked != seen.value)
        };
        self.visitor == visitor && self.fields.iter().any(is_other)
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        48 * self.fields.len() + 16 * self.named.len()
    }
}

impl Brought {
    fn find(&self, field: u64) -> Option<&Seen> {
        self.0.binary_search_by_key(&field, |seen| seen.field).ok().map(|at| &self.0[at])
    }

    pub fn is_personal(&self, makers: &Makers) -> bool {
        self.0.iter().any(|seen| seen.kind == Kind::Personal && !makers.names(seen))
    }
}

impl Unnamed {
    /// `each`: calls what it is given for each field of the request.
    pub fn brought(&self, each: impl FnOnce(&mut dyn FnMut(Field))) -> Brought {
        let mut all: Vec<Seen> = Vec::with_capacity(16);
        each(&mut |field| all.push(self.seen(&field)));
        all.sort_by_key(|seen| seen.field);
        // Of several lines, all count.
        all.dedup_by(|next, first| {
            let is_same = next.field == first.field;
            if is_same {
                first.value = self.state.hash_one((first.value, next.value)).max(1);
                // Lines that are alike are so together, however many there are.
                first.alike = if first.alike == next.alike { first.alike } else { first.value };
            }
            is_same
        });
        Brought(all)
    }

    fn seen(&self, field: &Field) -> Seen {
        let own = self.field(field.source, field.name);
        let value = self.value(own, field.value);
        let alike = if field.alike == field.value { value } else { self.value(own, field.alike) };
        let first = if field.source == Source::Cookie { self.renewed.get(&value).copied() } else { None };
        let value = first.unwrap_or(value);
        Seen { field: own, value, alike, kind: field.kind, is_cookie: field.source == Source::Cookie }
    }

    fn field(&self, source: Source, name: &[u8]) -> u64 {
        self.state.hash_one((source, name))
    }

    fn value(&self, field: u64, value: &[u8]) -> u64 {
        self.state.hash_one((field, value)).max(ABSENT + 1)
    }

    /// Of a page whose record names these, and values of the session that this cookie is known by.
    pub fn makers<'a>(
        &self,
        names: impl Iterator<Item = &'a Name>,
        session: Option<&str>,
        brought: &Brought,
        visitor: u64,
    ) -> Makers {
        let mut makers = Makers { visitor, ..Makers::default() };
        for name in names {
            makers.names_all_cookies |= name.source == Source::Cookie && name.name == ALL;
            makers.named.insert(self.field(name.source, name.name.as_bytes()));
        }
        makers.session = session.map(|cookie| self.field(Source::Cookie, cookie.as_bytes()));
        let own = brought.0.iter().filter(|seen| !makers.names(seen));
        makers.fields = own.map(|seen| (*seen, AtomicBool::new(false))).collect();
        makers
    }

    /// Whether this page may answer a request that brings this.
    pub fn may_show(&self, across: &Across, makers: &Makers, brought: &Brought) -> bool {
        makers.pairs(brought).all(|pair| {
            let is_same = pair.made == pair.asked;
            let both_count =
                || self.counts(across, &pair.seen, pair.asked) && self.counts(across, &pair.seen, pair.made);
            match pair.seen.kind {
                Kind::Common => is_same || both_count(),
                // The record says what the page depends on of it, and the front knows what is in it.
                Kind::Personal if is_same && makers.session == Some(pair.seen.field) => true,
                // What is known by it may be another one meanwhile: it was the same for a while, or is for all.
                Kind::Personal if is_same => {
                    self.count(across.number, own_key(pair.seen.field, pair.made)) >= OWN || both_count()
                }
                // What only one of them was shown may be his own.
                Kind::Personal => both_count() && pair.varied.is_none_or(|varied| varied.load(Relaxed)),
            }
        })
    }

    fn counts(&self, across: &Across, seen: &Seen, value: u64) -> bool {
        let of_many = match seen.kind {
            Kind::Common => across.common.get(&seen.field),
            Kind::Personal => across.personal.get(&seen.field),
        };
        let are_many = of_many.is_some_and(|values| values.len() >= MANY);
        let needed = match (seen.kind, are_many) {
            (Kind::Common, true) => return true,
            (Kind::Personal, true) => OWN_AMONG_MANY,
            (_, false) => OWN,
        };
        self.count(across.number, key(seen.field, value)) >= needed
    }

    fn count(&self, route: u32, key: u64) -> u8 {
        let counts = self.young.get(&key).or_else(|| self.old.get(&key));
        counts.into_iter().flatten().find(|(own, _)| *own == route).map_or(0, |(_, count)| *count)
    }

    /// The page was the answer to a request that brought this, of this visitor.
    pub fn was_equal(&mut self, across: &mut Across, makers: &Makers, brought: &Brought, visitor: u64) {
        if across.number == 0 {
            self.last_route += 1;
            across.number = self.last_route;
        }
        for pair in makers.pairs(brought) {
            if pair.made == pair.asked {
                if pair.seen.kind == Kind::Personal {
                    self.add(across.number, own_key(pair.seen.field, pair.made));
                }
                continue;
            }
            // Somebody's two cookies are no two visitors.
            if pair.seen.kind == Kind::Personal && makers.visitor == visitor {
                continue;
            }
            if let Some(varied) = pair.varied {
                varied.store(true, Relaxed);
            }
            let (fields, max) = match pair.seen.kind {
                Kind::Common => (&mut across.common, usize::MAX),
                Kind::Personal => (&mut across.personal, MAX_FIELDS),
            };
            if fields.len() < max || fields.contains_key(&pair.seen.field) {
                let values = fields.entry(pair.seen.field).or_default();
                for alike in [pair.made_alike, pair.asked_alike] {
                    if alike != ABSENT && values.len() < MANY {
                        values.insert(alike);
                    }
                }
            }
            self.add(across.number, key(pair.seen.field, pair.made));
            self.add(across.number, key(pair.seen.field, pair.asked));
        }
    }

    fn add(&mut self, route: u32, key: u64) {
        if !self.young.contains_key(&key) {
            if self.young.len() >= MAX_HALF {
                self.old = std::mem::take(&mut self.young);
            }
            let known = self.old.remove(&key).unwrap_or_default();
            self.young.insert(key, known);
        }
        let Some(counts) = self.young.get_mut(&key) else { return };
        match counts.iter_mut().find(|(own, _)| *own == route) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => counts.push((route, 1)),
        }
    }

    /// The application has given a session another cookie, and changed nothing else of it.
    pub fn was_renewed(&mut self, cookie: &str, old: &[u8], new: &[u8]) {
        let field = self.field(Source::Cookie, cookie.as_bytes());
        let (old, new) = (self.value(field, old), self.value(field, new));
        if old == new {
            return;
        }
        if self.renewed.len() >= MAX_HALF {
            self.renewed.clear();
        }
        let first = self.renewed.get(&old).copied().unwrap_or(old);
        self.renewed.insert(new, first);
    }

    /// Somebody who brings this has changed something: what was equal before may be another one for him now.
    pub fn has_acted(&mut self, brought: &Brought) {
        for seen in brought.0.iter().filter(|seen| seen.kind == Kind::Personal) {
            for key in [key(seen.field, seen.value), own_key(seen.field, seen.value)] {
                self.young.remove(&key);
                self.old.remove(&key);
            }
        }
    }

    /// Values that something is known of.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub fn forget(&mut self) {
        *self = Unnamed { state: self.state.clone(), last_route: self.last_route, ..Unnamed::default() };
    }
}

/// Of comparisons of a value with itself.
fn own_key(field: u64, value: u64) -> u64 {
    !key(field, value)
}

/// Both are hashes with a secret.
fn key(field: u64, value: u64) -> u64 {
    field.rotate_left(32) ^ value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_alike_are_so_together_however_many_there_are() {
        let unnamed = Unnamed::default();
        let seen = |lines: u8| {
            let brought = unnamed.brought(|see| {
                (0..lines).for_each(|line| {
                    let (name, value) = (&b"accept-language"[..], &[line][..]);
                    see(Field { kind: Kind::Common, source: Source::Header, name, value, alike: b"" });
                });
            });
            (brought.0[0].value, brought.0[0].alike)
        };
        let all: Vec<_> = (1..9).map(seen).collect();
        assert_eq!(all.iter().map(|(value, _)| value).collect::<HashSet<_>>().len(), all.len());
        assert_eq!(all.iter().map(|(_, alike)| alike).collect::<HashSet<_>>().len(), 1);
    }
}
