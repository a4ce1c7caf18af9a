//! What the targets share: ways to cut their input, messages written as lines, models to compare with, a scale for
//! memory. Nothing here is part of the product.

use std::hash::{DefaultHasher, Hasher};

use http::{HeaderMap, HeaderName, HeaderValue};

pub mod chunked;
pub mod http1;
pub mod memory;

/// The ways in which the input may arrive: whole, byte by byte, in two pieces, and in pieces of any length. They follow
/// from the input, so that an input that fails fails again.
pub fn cuts(data: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut hasher = DefaultHasher::new();
    hasher.write(data);
    let mut dice = hasher.finish() | 1;
    let mut below = |bound: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice >> 11) as usize % bound.max(1)
    };
    let mut ways = vec![vec![data], data.chunks(1).collect()];
    for _ in 0..2 {
        let (front, back) = data.split_at(below(data.len() + 1));
        ways.push(vec![front, back]);
    }
    let longest = 2 + below(40);
    let (mut pieces, mut rest) = (Vec::new(), data);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + below(longest)).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    ways.push(pieces);
    ways
}

/// `name: value` lines as a header map; lines that are no fields are left out.
pub fn fields<'a>(lines: impl Iterator<Item = &'a [u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.take(100) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}
