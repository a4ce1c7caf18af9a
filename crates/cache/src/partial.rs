//! Parts of a representation, and how they are joined (RFC 9111 sections 3.3 and 3.4, RFC 9110 section 14).
//! It never reads Range: which bytes a request wants is an argument.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::{header, HeaderMap, HeaderValue};

use crate::store::allocated;

/// Parts that belong to one representation; apart from each other, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pieces {
    /// Bytes of the whole, if known.
    pub complete: Option<u64>,
    pieces: Vec<(u64, Bytes)>,
    /// The latest request for a part, and the part it got: the same request gets the same.
    latest: Option<(HeaderValue, HeaderValue, Bytes)>,
}

/// Content-Range of a single part: `bytes 0-4/10` (RFC 9110 section 14.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    pub first: u64,
    pub last: u64,
    pub complete: Option<u64>,
}

impl ContentRange {
    /// None: there is none, or it makes no sense.
    pub fn of(headers: &HeaderMap) -> Option<ContentRange> {
        let mut lines = headers.get_all(header::CONTENT_RANGE).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return None };
        let (unit, range) = line.to_str().ok()?.trim().split_once(' ')?;
        let (span, complete) = range.trim().split_once('/')?;
        let (first, last) = span.split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        let complete = if complete == "*" { None } else { Some(complete.parse().ok()?) };
        let sense =
            unit.eq_ignore_ascii_case("bytes") && first <= last && complete.is_none_or(|complete| last < complete);
        sense.then_some(ContentRange { first, last, complete })
    }
}

/// A tag by which parts may be joined: "if they all share the same strong validator" (section 3.4).
pub fn strong_validator(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"") && tag.len() > 1)
}

impl Pieces {
    /// What a 206 brought. It may be less than it promised (section 3.3): what is there is good. None: it was more.
    pub fn of(range: ContentRange, body: Bytes) -> Option<Pieces> {
        let promised = (range.last - range.first).checked_add(1)?;
        let some = !body.is_empty() && body.len() as u64 <= promised;
        some.then(|| Pieces { complete: range.complete, pieces: vec![(range.first, body)], latest: None })
    }

    /// All of them, with the places where they begin.
    pub(crate) fn all(&self) -> &[(u64, Bytes)] {
        &self.pieces
    }

    /// Pieces that were joined once. None: they overlap, are out of order or end nowhere.
    pub(crate) fn known(complete: Option<u64>, pieces: Vec<(u64, Bytes)>) -> Option<Pieces> {
        let mut end = 0;
        for (start, piece) in &pieces {
            if *start < end || piece.is_empty() {
                return None;
            }
            end = start.checked_add(piece.len() as u64)?;
        }
        let fits = complete.is_none_or(|complete| end <= complete);
        fits.then_some(Pieces { complete, pieces, latest: None })
    }

    /// These as the answer to `asked` (Range), of which the origin said `said` (Content-Range).
    pub fn answering(mut self, asked: &HeaderValue, said: &HeaderValue) -> Pieces {
        if let [(_, piece)] = &self.pieces[..] {
            self.latest = Some((asked.clone(), said.clone(), piece.clone()));
        }
        self
    }

    /// What the same request got before: Content-Range and bytes.
    pub fn again(&self, asked: &HeaderValue) -> Option<(&HeaderValue, &Bytes)> {
        self.latest.as_ref().filter(|(before, ..)| before == asked).map(|(_, said, bytes)| (said, bytes))
    }

    /// The bytes of a range of it, if they are all there.
    pub fn get(&self, range: Range<u64>) -> Option<Bytes> {
        let (start, piece) = self.pieces.iter().rev().find(|(start, _)| *start <= range.start)?;
        let from = usize::try_from(range.start - start).ok()?;
        let to = usize::try_from(range.end.checked_sub(*start)?).ok()?;
        (from < to && to <= piece.len()).then(|| piece.slice(from..to))
    }

    /// Both together; of bytes that both have, the newer. None: they speak of different lengths.
    pub fn joined(&self, newer: &Pieces) -> Option<Pieces> {
        let complete = match (self.complete, newer.complete) {
            (Some(ours), Some(theirs)) if ours != theirs => return None,
            (ours, theirs) => ours.or(theirs),
        };
        let mut all: Vec<(u64, Bytes)> = newer.pieces.clone();
        for (start, piece) in &self.pieces {
            // What lies between the newer ones.
            let mut at = *start;
            let end = start + piece.len() as u64;
            for (newer_start, newer_piece) in &newer.pieces {
                let newer_end = newer_start + newer_piece.len() as u64;
                if newer_end <= at || *newer_start >= end {
                    continue;
                }
                if at < *newer_start {
                    all.push((at, piece.slice((at - start) as usize..(newer_start - start) as usize)));
                }
                at = newer_end;
            }
            if at < end {
                all.push((at, piece.slice((at - start) as usize..)));
            }
        }
        all.sort_by_key(|(start, _)| *start);
        Some(Pieces { complete, pieces: merged(all), latest: newer.latest.clone() })
    }

    /// The whole, if nothing is missing.
    pub fn whole(&self) -> Option<&Bytes> {
        match &self.pieces[..] {
            [(0, piece)] if self.complete == Some(piece.len() as u64) => Some(piece),
            _ => None,
        }
    }

    pub(crate) fn weight(&self) -> usize {
        let bytes: usize = self.pieces.iter().map(|(_, piece)| allocated(piece.len())).sum();
        let latest = self
            .latest
            .as_ref()
            .map_or(0, |(asked, said, bytes)| allocated(asked.len()) + allocated(said.len()) + allocated(bytes.len()));
        bytes + latest + allocated(self.pieces.capacity() * std::mem::size_of::<(u64, Bytes)>())
    }
}

/// Neighbours made one.
fn merged(all: Vec<(u64, Bytes)>) -> Vec<(u64, Bytes)> {
    let mut merged: Vec<(u64, Vec<Bytes>, u64)> = Vec::new();
    for (start, piece) in all {
        let end = start + piece.len() as u64;
        match merged.last_mut().filter(|(_, _, last_end)| *last_end == start) {
            Some((_, run, last_end)) => {
                run.push(piece);
                *last_end = end;
            }
            None => merged.push((start, vec![piece], end)),
        }
    }
    let join = |run: Vec<Bytes>| match <[Bytes; 1]>::try_from(run) {
        Ok([one]) => one,
        Err(run) => {
            let mut joined = BytesMut::with_capacity(run.iter().map(Bytes::len).sum());
            run.iter().for_each(|piece| joined.extend_from_slice(piece));
            joined.freeze()
        }
    };
    merged.into_iter().map(|(start, run, _)| (start, join(run))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(first: u64, text: &'static str, complete: Option<u64>) -> Pieces {
        let range = ContentRange { first, last: first + text.len() as u64 - 1, complete };
        Pieces::of(range, Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn content_ranges() {
        let of = |text: &'static str| {
            ContentRange::of(&[(header::CONTENT_RANGE, HeaderValue::from_static(text))].into_iter().collect())
        };
        assert_eq!(of("bytes 4-9/10"), Some(ContentRange { first: 4, last: 9, complete: Some(10) }));
        assert_eq!(of("bytes 4-9/*"), Some(ContentRange { first: 4, last: 9, complete: None }));
        for text in ["bytes 9-4/10", "bytes 4-10/10", "bytes */10", "items 1-2/3", "bytes 1-2", "bytes -1-2/3", ""] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_there_is_given() {
        let some = piece(4, "45678", Some(10));
        assert_eq!(some.get(6..9).unwrap(), "678");
        assert_eq!(some.get(4..9).unwrap(), "45678");
        for range in [6..10, 3..5, 0..2, 9..10, 5..5] {
            assert_eq!(some.get(range.clone()), None, "{range:?}");
        }
    }

    #[test]
    fn the_same_request_gets_the_same_part() {
        let (asked, said) = (HeaderValue::from_static("bytes=-3"), HeaderValue::from_static("bytes 7-9/10"));
        let some = piece(0, "012", None).joined(&piece(7, "789", Some(10)).answering(&asked, &said)).unwrap();
        assert_eq!(some.again(&asked), Some((&said, &Bytes::from_static(b"789"))));
        assert_eq!(some.again(&said), None);
    }

    #[test]
    fn joining() {
        let joined = piece(0, "012", Some(10)).joined(&piece(7, "789", None)).unwrap();
        assert_eq!((joined.get(0..3), joined.get(2..8)), (Some("012".into()), None));
        let joined = joined.joined(&piece(2, "x3456y", None)).unwrap();
        assert_eq!(joined.whole().unwrap(), "01x3456y89");
        assert_eq!(piece(0, "0", Some(3)).joined(&piece(1, "1", Some(4))), None);
        assert_eq!(piece(0, "01234", Some(5)).joined(&piece(1, "xyz", None)).unwrap().whole().unwrap(), "0xyz4");
    }

    #[test]
    fn a_body_longer_than_it_says_is_none() {
        assert_eq!(Pieces::of(ContentRange { first: 0, last: 1, complete: None }, Bytes::from_static(b"abc")), None);
    }
}
