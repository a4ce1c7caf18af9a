//! Where two texts differ, in pieces: what is unique in both is anchored first, the rest is compared between anchors.
//! Time grows with n log n, memory with n. The result may not be the shortest; it is always complete.

use std::{collections::HashMap, ops::Range};

use super::tokens::Tokens;

/// Pieces of both texts that stand in each other's place. One of them may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub a: Range<usize>,
    pub b: Range<usize>,
}

/// Lengths of the runs of pieces that are anchored, one after the other, each once in a region.
const RUNS: [usize; 4] = [12, 6, 3, 1];
/// Regions of as many pieces on both sides that differ in no more than this part of them are compared piece by piece.
const FEW: f64 = 0.3;
/// What is inserted and deleted between anchors, at most, for the shortest way to be looked for.
const MAX_EDITS: usize = 100;

/// In order, never touching each other.
pub(super) fn spans(a: &Tokens, b: &Tokens) -> Vec<Span> {
    let mut found = Vec::new();
    region(a, b, Span { a: 0..a.len(), b: 0..b.len() }, 0, &mut found);
    joined(found)
}

fn region(a: &Tokens, b: &Tokens, whole: Span, level: usize, found: &mut Vec<Span>) {
    let Some(span) = trimmed(a, b, whole) else { return };
    if span.a.is_empty() || span.b.is_empty() {
        return found.push(span);
    }
    if let Some(differing) = in_place(a, b, &span) {
        return found.extend(differing);
    }
    for (nth, run) in RUNS.iter().enumerate().skip(level) {
        let deeper = nth + 1;
        let anchors = anchors(a, b, &span, *run);
        if anchors.is_empty() {
            continue;
        }
        let (mut from_a, mut from_b) = (span.a.start, span.b.start);
        for (at_a, at_b) in anchors {
            // Within what an earlier anchor was extended over.
            if at_a < from_a || at_b < from_b {
                continue;
            }
            region(a, b, Span { a: from_a..at_a, b: from_b..at_b }, deeper, found);
            (from_a, from_b) = (at_a, at_b);
            while from_a < span.a.end && from_b < span.b.end && a.is_same(from_a, b, from_b) {
                (from_a, from_b) = (from_a + 1, from_b + 1);
            }
        }
        return region(a, b, Span { a: from_a..span.a.end, b: from_b..span.b.end }, deeper, found);
    }
    match shortest(a, b, &span) {
        Some(differing) => found.extend(differing),
        None => found.push(span),
    }
}

/// Without what is equal at both ends. None: nothing is left.
fn trimmed(a: &Tokens, b: &Tokens, mut span: Span) -> Option<Span> {
    while !span.a.is_empty() && !span.b.is_empty() && a.is_same(span.a.start, b, span.b.start) {
        (span.a.start, span.b.start) = (span.a.start + 1, span.b.start + 1);
    }
    while !span.a.is_empty() && !span.b.is_empty() && a.is_same(span.a.end - 1, b, span.b.end - 1) {
        (span.a.end, span.b.end) = (span.a.end - 1, span.b.end - 1);
    }
    (!span.a.is_empty() || !span.b.is_empty()).then_some(span)
}

/// Piece by piece, where that explains it: a value in a value's place.
fn in_place(a: &Tokens, b: &Tokens, span: &Span) -> Option<Vec<Span>> {
    if span.a.len() != span.b.len() {
        return None;
    }
    let most = ((span.a.len() as f64 * FEW) as usize).max(1);
    let mut differing = Vec::new();
    for (at_a, at_b) in span.a.clone().zip(span.b.clone()) {
        if !a.is_same(at_a, b, at_b) {
            if differing.len() == most {
                return None;
            }
            differing.push(Span { a: at_a..at_a + 1, b: at_b..at_b + 1 });
        }
    }
    Some(differing)
}

/// Starts of runs that are once in both regions, in an order that both have.
fn anchors(a: &Tokens, b: &Tokens, span: &Span, run: usize) -> Vec<(usize, usize)> {
    if span.a.len() < run || span.b.len() < run {
        return Vec::new();
    }
    /// None: more than once.
    type Places = HashMap<u64, Option<usize>>;
    let places = |tokens: &Tokens, range: &Range<usize>| {
        let mut places = Places::with_capacity(range.len());
        for at in range.start..=range.end - run {
            places.entry(run_digest(tokens, at, run)).and_modify(|place| *place = None).or_insert(Some(at));
        }
        places
    };
    let (in_a, in_b) = (places(a, &span.a), places(b, &span.b));
    let mut pairs: Vec<(usize, usize)> = in_a
        .iter()
        .filter_map(|(key, at)| Some(((*at)?, (*in_b.get(key)?)?)))
        .filter(|(at_a, at_b)| (0..run).all(|nth| a.is_same(at_a + nth, b, at_b + nth)))
        .collect();
    pairs.sort_unstable();
    increasing(&pairs)
}

fn run_digest(tokens: &Tokens, at: usize, run: usize) -> u64 {
    (at..at + run).fold(0, |hash: u64, index| {
        (hash.rotate_left(23) ^ u64::from(tokens.hash(index))).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// The longest sequence of pairs, sorted by their first, in which the second grows too (patience sorting).
fn increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tops: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (index, pair) in pairs.iter().enumerate() {
        let pile = tops.partition_point(|top| pairs[*top].1 < pair.1);
        before[index] = pile.checked_sub(1).map(|left| tops[left]);
        match tops.get_mut(pile) {
            Some(top) => *top = index,
            None => tops.push(index),
        }
    }
    let mut chain: Vec<(usize, usize)> =
        std::iter::successors(tops.last().copied(), |index| before[*index]).map(|index| pairs[index]).collect();
    chain.reverse();
    chain
}

/// The shortest edit (Myers 1986), if it has few steps.
fn shortest(a: &Tokens, b: &Tokens, span: &Span) -> Option<Vec<Span>> {
    let (rows, columns) = (span.a.len() as isize, span.b.len() as isize);
    let most = MAX_EDITS.min((rows + columns) as usize) as isize;
    let mut reached = vec![0isize; 2 * most as usize + 3];
    let place = |diagonal: isize| (diagonal + most + 1) as usize;
    let mut trace: Vec<Vec<isize>> = Vec::new();
    for edits in 0..=most {
        trace.push(reached.clone());
        for diagonal in (-edits..=edits).step_by(2) {
            let down =
                diagonal == -edits || diagonal != edits && reached[place(diagonal - 1)] < reached[place(diagonal + 1)];
            let mut row = if down { reached[place(diagonal + 1)] } else { reached[place(diagonal - 1)] + 1 };
            let is_equal = |row: isize| {
                let column = row - diagonal;
                row < rows
                    && column >= 0
                    && column < columns
                    && a.is_same(span.a.start + row as usize, b, span.b.start + column as usize)
            };
            while is_equal(row) {
                row += 1;
            }
            reached[place(diagonal)] = row;
            if row >= rows && row - diagonal >= columns {
                return Some(backwards(&trace, place, rows, columns, span));
            }
        }
    }
    None
}

/// The way that was found, from its end.
fn backwards(
    trace: &[Vec<isize>],
    place: impl Fn(isize) -> usize,
    mut row: isize,
    mut column: isize,
    span: &Span,
) -> Vec<Span> {
    let mut found = Vec::new();
    for (edits, reached) in trace.iter().enumerate().rev() {
        let (edits, diagonal) = (edits as isize, row - column);
        if edits == 0 {
            break;
        }
        let down =
            diagonal == -edits || diagonal != edits && reached[place(diagonal - 1)] < reached[place(diagonal + 1)];
        let from = if down { diagonal + 1 } else { diagonal - 1 };
        let from_row = reached[place(from)];
        let from_column = from_row - from;
        let at = (span.a.start + from_row as usize, span.b.start + from_column as usize);
        found.push(if down {
            Span { a: at.0..at.0, b: at.1..at.1 + 1 }
        } else {
            Span { a: at.0..at.0 + 1, b: at.1..at.1 }
        });
        (row, column) = (from_row, from_column);
    }
    found.reverse();
    found
}

/// Spans that touch each other become one.
fn joined(spans: Vec<Span>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut() {
            Some(last) if last.a.end == span.a.start && last.b.end == span.b.start => {
                (last.a.end, last.b.end) = (span.a.end, span.b.end);
            }
            _ => all.push(span),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn shown(a: &str, b: &str) -> Vec<(String, String)> {
        let (a, b) = (Tokens::new(a.as_bytes()), Tokens::new(b.as_bytes()));
        let text = |tokens: &Tokens, range: &Range<usize>| {
            String::from_utf8_lossy(tokens.bytes(range.start, range.end)).into_owned()
        };
        spans(&a, &b).iter().map(|span| (text(&a, &span.a), text(&b, &span.b))).collect()
    }

    #[test]
    fn what_differs_is_found() {
        for (a, b, expected) in [
            ("", "", &[][..]),
            ("same", "same", &[][..]),
            ("a 1 b 2 c", "a 7 b 8 c", &[("1", "7"), ("2", "8")][..]),
            ("<p>x</p>", "<p>x</p><p>y</p>", &[("", "<p>y</p>")][..]),
            ("one two three", "one three", &[("two ", "")][..]),
            ("", "new", &[("", "new")][..]),
        ] {
            let expected: Vec<(String, String)> =
                expected.iter().map(|(a, b)| ((*a).to_string(), (*b).to_string())).collect();
            assert_eq!(shown(a, b), expected, "{a} | {b}");
        }
    }

    /// Random edits of random texts: between the spans both are equal, and both are covered.
    #[test]
    fn spans_are_complete_whatever_the_texts() {
        let mut random = Rng::with_seed(7);
        for round in 0..300 {
            let words = 1 + random.usize(..12);
            let word = |random: &mut Rng| format!("w{} ", random.usize(..words * 3));
            let mut a: Vec<String> = (0..random.usize(..400)).map(|_| word(&mut random)).collect();
            let b: Vec<String> = a.clone();
            for _ in 0..random.usize(..30) {
                let at = random.usize(..a.len() + 1);
                match random.usize(..3) {
                    0 => a.insert(at, word(&mut random)),
                    1 if at < a.len() => drop(a.remove(at)),
                    _ if at < a.len() => a[at] = word(&mut random),
                    _ => {}
                }
            }
            let (a, b) = (a.concat(), b.concat());
            let (one, two) = (Tokens::new(a.as_bytes()), Tokens::new(b.as_bytes()));
            let (mut at_a, mut at_b) = (0, 0);
            for span in spans(&one, &two) {
                assert_eq!(one.bytes(at_a, span.a.start), two.bytes(at_b, span.b.start), "round {round}");
                assert!(!span.a.is_empty() || !span.b.is_empty());
                (at_a, at_b) = (span.a.end, span.b.end);
            }
            assert_eq!(one.bytes(at_a, one.len()), two.bytes(at_b, two.len()), "round {round}");
        }
    }

    #[test]
    fn a_large_page_of_nothing_but_repetition_takes_no_longer() {
        let row = |token: usize| format!("<li><i>{token}</i></li>\n");
        let a: String = (0..150_000).map(|nth| row(nth % 7)).collect();
        let b: String = (0..150_000).map(|nth| row(nth % 5)).collect();
        let (one, two) = (Tokens::new(a.as_bytes()), Tokens::new(b.as_bytes()));
        assert!(!spans(&one, &two).is_empty());
    }
}
