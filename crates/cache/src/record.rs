//! What is kept, as bytes that outlive the process, with a checksum over the key and all of them. It never trusts
//! bytes: what is damaged, cut off or from another version is none at all.
//!
//! The format is written out by hand: most of what is kept (header fields, nominated names, pieces) are types that no
//! derived format knows and that have to be checked when they are read. Numbers are little endian; a byte string has
//! its length (u32) in front. The checksum is SipHash-1-3 with 64 bits: the crate has it already, and unlike 32 bits of
//! a CRC it does not let one damaged record in four billion through.

use std::{hash::Hasher, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use siphasher::sip::SipHasher13;

use crate::{
    freshness::{Freshness, Holds},
    partial::Pieces,
    store::Key,
    stored::{Content, Directory, Entry, Stored, MAX_NOMINATIONS},
    vary::VaryNames,
};

/// Another number: another format. What was written under one is not read under another.
pub const VERSION: u32 = 2;

const RESPONSE: u8 = 1;
const DIRECTORY: u8 = 2;
const WHOLE: u8 = 0;
const PIECES: u8 = 1;

/// 64 bits over several strings of bytes, the same on every machine.
pub fn checksum(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(u64::from(VERSION), 0x7061_6365_6c69_6e65);
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

/// The record of what lies under `key`. None: it is nothing to keep beyond the process (a derived body, a visitor).
pub fn encode(key: Key, kept: &Entry) -> Option<Vec<u8>> {
    let mut out = Writer(vec![0; 8]);
    match kept {
        Entry::Response(stored) => out.response(stored),
        Entry::Directory(directory) => out.directory(directory),
        Entry::Derived { .. } | Entry::Session { .. } => return None,
    }
    let mut bytes = out.0;
    let sum = checksum(&[&key.0.to_le_bytes(), &bytes[8..]]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    Some(bytes)
}

/// What lies under `key` by its record; `expired`: it was purged softly since. None: the record is damaged.
pub fn decode(key: Key, record: &[u8], expired: bool) -> Option<Entry> {
    let (sum, rest) = record.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*sum) != checksum(&[&key.0.to_le_bytes(), rest]) {
        return None;
    }
    let mut from = Reader(rest);
    let kept = match from.u8()? {
        RESPONSE => Entry::Response(Arc::new(from.response(expired)?)),
        DIRECTORY => Entry::Directory(from.directory()?),
        _ => return None,
    };
    from.0.is_empty().then_some(kept)
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    fn u32(&mut self, number: usize) {
        // Nothing that is kept is longer than 4 GB: bodies have a limit of 1 GB.
        self.0.extend((number as u32).to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn some(&mut self, number: Option<u64>) {
        self.u8(number.is_some().into());
        self.u64(number.unwrap_or(0));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len());
        self.0.extend(bytes);
    }

    fn nominated(&mut self, nominated: &VaryNames) {
        self.u32(nominated.names().len());
        nominated.names().iter().for_each(|name| self.bytes(name.as_str().as_bytes()));
    }

    fn freshness(&mut self, freshness: &Freshness) {
        for time in [
            freshness.lifetime,
            freshness.initial_age,
            freshness.response_time,
            freshness.stale_while_revalidate,
            freshness.stale_if_error,
            freshness.holds.from,
            freshness.holds.until,
        ] {
            self.u64(time);
        }
        for flag in [freshness.heuristic, freshness.no_cache, freshness.must_revalidate, freshness.immutable] {
            self.u8(flag.into());
        }
    }

    fn response(&mut self, stored: &Stored) {
        self.u8(RESPONSE);
        self.bytes(stored.url.as_bytes());
        self.0.extend(stored.status.as_u16().to_le_bytes());
        self.u8(stored.is_expired().into());
        self.some(stored.modified);
        self.freshness(&stored.freshness);
        self.nominated(&stored.nominated);
        self.u32(stored.tags.len());
        stored.tags.iter().for_each(|tag| self.bytes(tag.as_bytes()));
        self.u32(stored.headers.len());
        for (name, value) in &stored.headers {
            self.bytes(name.as_str().as_bytes());
            self.bytes(value.as_bytes());
        }
        match &stored.content {
            Content::Whole(body) => {
                self.u8(WHOLE);
                self.bytes(body);
            }
            Content::Pieces(pieces) => {
                self.u8(PIECES);
                self.some(pieces.complete);
                self.u32(pieces.all().len());
                for (start, piece) in pieces.all() {
                    self.u64(*start);
                    self.bytes(piece);
                }
            }
        }
    }

    fn directory(&mut self, directory: &Directory) {
        self.u8(DIRECTORY);
        self.bytes(directory.url.as_bytes());
        self.u32(directory.nominations.len());
        directory.nominations.iter().for_each(|nominated| self.nominated(nominated));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn some(&mut self) -> Option<Option<u64>> {
        let there = self.flag()?;
        let number = self.u64()?;
        Some(there.then_some(number))
    }

    fn length(&mut self) -> Option<usize> {
        self.array().map(u32::from_le_bytes).map(|length| length as usize)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<Arc<str>> {
        std::str::from_utf8(self.bytes()?).ok().map(Arc::from)
    }

    /// A count, and as many of what `read` reads. Nothing is set aside for what is only promised.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.length()?;
        let mut list = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            list.push(read(self)?);
        }
        Some(list)
    }

    fn nominated(&mut self) -> Option<VaryNames> {
        let names = self.list(|from| HeaderName::from_bytes(from.bytes()?).ok())?;
        Some(VaryNames::known(names))
    }

    fn freshness(&mut self) -> Option<Freshness> {
        let mut times = [0; 7];
        for time in &mut times {
            *time = self.u64()?;
        }
        let [lifetime, initial_age, response_time, stale_while_revalidate, stale_if_error, from, until] = times;
        Some(Freshness {
            lifetime,
            initial_age,
            response_time,
            stale_while_revalidate,
            stale_if_error,
            holds: Holds { from, until },
            heuristic: self.flag()?,
            no_cache: self.flag()?,
            must_revalidate: self.flag()?,
            immutable: self.flag()?,
        })
    }

    fn response(&mut self, expired: bool) -> Option<Stored> {
        let url = self.text()?;
        let status = StatusCode::from_u16(u16::from_le_bytes(self.array()?)).ok()?;
        let expired = self.flag()? || expired;
        let modified = self.some()?;
        let freshness = self.freshness()?;
        let nominated = self.nominated()?;
        let tags = self.list(Self::text)?;
        let fields = self.list(|from| {
            let name = HeaderName::from_bytes(from.bytes()?).ok()?;
            Some((name, HeaderValue::from_bytes(from.bytes()?).ok()?))
        })?;
        let mut headers = HeaderMap::try_with_capacity(fields.len()).ok()?;
        for (name, value) in fields {
            headers.try_append(name, value).ok()?;
        }
        let content = match self.u8()? {
            WHOLE => Content::Whole(Bytes::copy_from_slice(self.bytes()?)),
            PIECES => {
                let complete = self.some()?;
                let pieces = self.list(|from| Some((from.u64()?, Bytes::copy_from_slice(from.bytes()?))))?;
                Content::Pieces(Pieces::known(complete, pieces)?)
            }
            _ => return None,
        };
        Some(Stored::revived(url, status, headers, content, freshness, nominated, tags, modified, expired))
    }

    fn directory(&mut self) -> Option<Directory> {
        let url = self.text()?;
        let nominations = self.list(Self::nominated)?;
        let some = (1..=MAX_NOMINATIONS).contains(&nominations.len());
        // One that nominates nothing would lead back to itself.
        let lead_on = nominations.iter().all(|nominated| !nominated.is_empty());
        (some && lead_on).then(|| Directory { url, nominations: nominations.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        freshness::ExchangeTimes,
        partial::ContentRange,
        store::{How, Store},
        storing::storable,
    };
    use http::{Request, Response};

    const KEY: Key = Key(7 << 100 | 3);

    fn response(content: Content) -> Arc<Stored> {
        let request = Request::builder().uri("/a").body(()).unwrap().into_parts().0;
        let parts = Response::builder()
            .header("cache-control", "max-age=60, stale-while-revalidate=5, stale-if-error=7")
            .header("vary", "accept-language, x-b")
            .header("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT")
            .header("surrogate-key", "one two")
            .header("x-line", "1")
            .header("x-line", HeaderValue::from_bytes(b"\xff2").unwrap())
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let at = ExchangeTimes::by_one_clock(1_577_836_800_000, 1_577_836_801_234);
        let storable = storable(&request, &parts, at, 0).unwrap();
        Arc::new(Stored::new("http://h/a".into(), parts.status, storable, content, &["three".into()]))
    }

    fn whole() -> Entry {
        Entry::Response(response(Content::Whole(Bytes::from_static(b"the \0 body"))))
    }

    fn pieces() -> Entry {
        let range = ContentRange { first: 5, last: 8, complete: Some(20) };
        Entry::Response(response(Content::Pieces(Pieces::of(range, Bytes::from_static(b"5678")).unwrap())))
    }

    fn directory() -> Entry {
        let nominated = |name: &'static str| {
            VaryNames::of(&[(http::header::VARY, HeaderValue::from_static(name))].into_iter().collect()).unwrap()
        };
        let first = Directory::with(None, "http://h/a".into(), nominated("a, b"));
        Entry::Directory(Directory::with(Some(&first), "http://h/a".into(), nominated("c")))
    }

    fn shown(kept: &Entry) -> String {
        match kept {
            Entry::Response(stored) => format!(
                "{:?}",
                (
                    (&stored.url, stored.status, &stored.headers, &stored.content, &stored.freshness),
                    (&stored.nominated, &stored.tags, stored.modified, stored.is_expired())
                )
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn all_of_it_comes_back() {
        for kept in [whole(), pieces(), directory()] {
            let record = encode(KEY, &kept).unwrap();
            let back = decode(KEY, &record, false).expect("a record of our own");
            assert_eq!(shown(&back), shown(&kept));
        }
    }

    #[test]
    fn what_was_purged_softly_stays_so() {
        let (store, kept) = (Store::new(1 << 20), Arc::new(whole()));
        let _ = store.insert(KEY, kept.clone());
        store.purge_all(How::Expire);
        let record = encode(KEY, &kept).unwrap();
        let is_expired = |record: &[u8], expired| match decode(KEY, record, expired) {
            Some(Entry::Response(stored)) => stored.is_expired(),
            _ => panic!("no response"),
        };
        assert!(is_expired(&record, false));
        let record = encode(KEY, &whole()).unwrap();
        assert!(!is_expired(&record, false) && is_expired(&record, true));
    }

    #[test]
    fn another_keys_record_is_none() {
        let record = encode(KEY, &whole()).unwrap();
        assert!(decode(Key(KEY.0 + 1), &record, false).is_none());
    }

    #[test]
    fn damage_of_any_byte_is_seen() {
        for kept in [whole(), pieces(), directory()] {
            let record = encode(KEY, &kept).unwrap();
            for at in 0..record.len() {
                let mut damaged = record.clone();
                damaged[at] ^= 1 << (at % 8);
                assert!(decode(KEY, &damaged, false).is_none(), "byte {at}");
                assert!(decode(KEY, &record[..at], false).is_none(), "cut at {at}");
            }
        }
    }

    #[test]
    fn bytes_with_a_good_checksum_and_no_sense_do_no_harm() {
        for kept in [whole(), pieces(), directory()] {
            let record = encode(KEY, &kept).unwrap();
            for at in 8..record.len() {
                for with in [0, 1, 0x7f, 0xff] {
                    let mut damaged = record.clone();
                    damaged[at] = with;
                    let sum = checksum(&[&KEY.0.to_le_bytes(), &damaged[8..]]);
                    damaged[..8].copy_from_slice(&sum.to_le_bytes());
                    // Whatever it is: no panic here, nor where it is used.
                    if let Some(Entry::Response(stored)) = decode(KEY, &damaged, false) {
                        let _ = (stored.freshness.age(u64::MAX), stored.freshness.staleness(0), stored.whole());
                        if let Content::Pieces(pieces) = &stored.content {
                            let _ = (pieces.get(0..u64::MAX), pieces.joined(pieces));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_directory_that_leads_to_itself_is_none() {
        let directory = Directory::with(None, "http://h/a".into(), VaryNames::default());
        let record = encode(KEY, &Entry::Directory(directory)).unwrap();
        assert!(decode(KEY, &record, false).is_none());
    }

    #[test]
    fn what_is_made_from_others_is_not_written() {
        let url: Arc<str> = "".into();
        assert!(encode(KEY, &Entry::Derived { url: url.clone(), bytes: Bytes::new() }).is_none());
        assert!(encode(KEY, &Entry::Session { url, lineage: 1, changed: 0, settled: 0.into() }).is_none());
    }
}
