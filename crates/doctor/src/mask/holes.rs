//! Places that differ between two controls: by what stands around them, with the form of the values that stood there.
//! What they were is not kept.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::{
    align::Span,
    tokens::{digest, is_value, is_volatile, Tokens},
};

/// Pieces before and after a place that tell it from all others.
const WIDE: usize = 16;
/// Pieces around a place that repeats with other things around it, as one in each row of a table.
const NARROW: usize = 6;
/// So often, and in this part of its occurrences, a narrow place has differed before it counts.
const NARROW_TIMES: u32 = 3;
const NARROW_PART: f64 = 0.6;
/// Spans with fewer pieces between them are also taken for one.
const CLOSE: usize = 6;
/// Places that are kept; a route with more of them is noise.
const MAX_HOLES: usize = 20_000;
/// Pieces that an area may have: how far its edges are looked for.
const MAX_AREA: usize = 20_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Holes {
    wide: HashMap<u64, Shape>,
    narrow: HashMap<u64, Narrow>,
    areas: Vec<Area>,
    /// Areas by the digest of what is before them.
    left: HashMap<u64, Vec<usize>>,
    known_areas: HashSet<(u64, u64)>,
    pub is_full: bool,
}

#[derive(Debug, Clone, Default)]
struct Narrow {
    shape: Shape,
    /// Occurrences in control answers.
    seen: u32,
    differed: u32,
}

/// Several pieces that change together, as a list in random order.
#[derive(Debug, Clone)]
struct Area {
    right: u64,
    shape: Shape,
}

impl Holes {
    /// What differed between two controls.
    pub(super) fn learn(&mut self, a: &Tokens, b: &Tokens, spans: &[Span]) {
        for span in spans {
            self.learn_span(a, b, span);
        }
        // Values that are close to each other stay places of their own: what is between them is no noise.
        let is_more = |span: &Span| !is_one_value(a, &span.a) || !is_one_value(b, &span.b);
        for (group, parts) in groups(spans) {
            if parts.iter().any(is_more) {
                self.learn_span(a, b, &group);
                self.learn_area(a, b, &group);
            }
        }
    }

    fn learn_span(&mut self, a: &Tokens, b: &Tokens, span: &Span) {
        if self.wide.len() >= MAX_HOLES {
            self.is_full = true;
            return;
        }
        let mut shape = Shape::default();
        shape.learn(a, &span.a);
        shape.learn(b, &span.b);
        for (tokens, range) in [(a, &span.a), (b, &span.b)] {
            self.wide.entry(around(tokens, range, WIDE)).or_default().merge(&shape);
        }
        if is_one_value(a, &span.a) && is_one_value(b, &span.b) {
            let narrow = self.narrow.entry(around(a, &span.a, NARROW)).or_default();
            narrow.shape.merge(&shape);
            narrow.differed += 1;
        }
    }

    fn learn_area(&mut self, a: &Tokens, b: &Tokens, group: &Span) {
        let edges = (before(a, group.a.start), after(a, group.a.end));
        let mut shape = Shape::default();
        shape.learn(a, &group.a);
        shape.learn(b, &group.b);
        if !self.known_areas.insert(edges) {
            let same = self.left.get(&edges.0).into_iter().flatten();
            for index in same.copied().collect::<Vec<_>>() {
                if self.areas[index].right == edges.1 {
                    self.areas[index].shape.merge(&shape);
                }
            }
            return;
        }
        if self.areas.len() >= MAX_HOLES {
            self.is_full = true;
            return;
        }
        self.left.entry(edges.0).or_default().push(self.areas.len());
        self.areas.push(Area { right: edges.1, shape });
    }

    /// Counts how often narrow places occur in a control answer, whether they differed there or not.
    pub(super) fn count(&mut self, control: &Tokens) {
        if self.narrow.is_empty() {
            return;
        }
        for at in (0..control.len()).filter(|at| is_value(control.get(*at))) {
            if let Some(narrow) = self.narrow.get_mut(&around(control, &(at..at + 1), NARROW)) {
                narrow.seen += 1;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wide.is_empty()
    }

    /// The spans that no place explains.
    pub(super) fn unexplained(&self, a: &Tokens, b: &Tokens, spans: &[Span], most: usize) -> Vec<Span> {
        let mut left_over = Vec::new();
        for (group, parts) in groups(spans) {
            if left_over.len() >= most {
                break;
            }
            if self.is_wide(a, b, &group) {
                continue;
            }
            let is_rest = |span: &&Span| !self.is_wide(a, b, span) && !self.is_narrow(a, b, span);
            let rest: Vec<&Span> = parts.iter().filter(is_rest).collect();
            if !rest.is_empty() && !self.is_in_area(a, b, &group) {
                left_over.extend(rest.into_iter().filter(|span| !self.is_in_area(a, b, span)).cloned());
            }
        }
        left_over
    }

    fn is_wide(&self, a: &Tokens, b: &Tokens, span: &Span) -> bool {
        let admits = |shape: &Shape| shape.admits(a, &span.a) && shape.admits(b, &span.b);
        [(a, &span.a), (b, &span.b)]
            .into_iter()
            .any(|(tokens, range)| self.wide.get(&around(tokens, range, WIDE)).is_some_and(admits))
    }

    fn is_narrow(&self, a: &Tokens, b: &Tokens, span: &Span) -> bool {
        if !is_one_value(a, &span.a) || !is_one_value(b, &span.b) {
            return false;
        }
        self.narrow.get(&around(a, &span.a, NARROW)).is_some_and(|narrow| {
            narrow.differed >= NARROW_TIMES
                && f64::from(narrow.differed) >= f64::from(narrow.seen) * NARROW_PART
                && narrow.shape.admits(a, &span.a)
                && narrow.shape.admits(b, &span.b)
        })
    }

    /// Whether a span lies between the edges of an area.
    fn is_in_area(&self, a: &Tokens, b: &Tokens, span: &Span) -> bool {
        if self.areas.is_empty() {
            return false;
        }
        let farthest = self.areas.iter().map(|area| area.shape.pieces.1).max().unwrap_or(0) * 2;
        let reach = farthest.min(MAX_AREA);
        (span.a.start.saturating_sub(reach)..=span.a.start).rev().any(|start| {
            let Some(areas) = self.left.get(&before(a, start)) else { return false };
            areas.iter().any(|index| {
                let area = &self.areas[*index];
                let last = (span.a.end + reach).min(a.len());
                let Some(end) = (span.a.end..=last).find(|end| after(a, *end) == area.right) else { return false };
                // What is equal around the span is as long in the other text.
                let whole_b = match (span.b.start.checked_sub(span.a.start - start), span.b.end + (end - span.a.end)) {
                    (Some(from), to) if to <= b.len() => from..to,
                    _ => return false,
                };
                area.shape.admits(a, &(start..end)) && area.shape.admits(b, &whole_b)
            })
        })
    }
}

/// Spans that are close to each other, as one; a span by itself stays. With the spans of each.
fn groups(spans: &[Span]) -> Vec<(Span, &[Span])> {
    let is_close = |one: &Span, next: &Span| next.a.start - one.a.end < CLOSE;
    let whole = |group: &[Span]| {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        Span { a: first.a.start..last.a.end, b: first.b.start..last.b.end }
    };
    spans.chunk_by(is_close).map(|group| (whole(group), group)).collect()
}

fn is_one_value(tokens: &Tokens, range: &Range<usize>) -> bool {
    range.len() == 1 && is_value(tokens.get(range.start))
}

/// A digest of the pieces before and after; other values that change count as equal.
fn around(tokens: &Tokens, range: &Range<usize>, reach: usize) -> u64 {
    let left = digest_of((1..=reach).map(|back| range.start.checked_sub(back).map(|at| tokens.get(at))));
    let right = digest_of((0..reach).map(|ahead| range.end + ahead).map(|at| piece(tokens, at)));
    left.rotate_left(1) ^ right
}

fn before(tokens: &Tokens, start: usize) -> u64 {
    digest_of((1..=WIDE).map(|back| start.checked_sub(back).map(|at| tokens.get(at))))
}

fn after(tokens: &Tokens, end: usize) -> u64 {
    digest_of((0..WIDE).map(|ahead| piece(tokens, end + ahead)))
}

fn piece<'a>(tokens: &Tokens<'a>, at: usize) -> Option<&'a [u8]> {
    (at < tokens.len()).then(|| tokens.get(at))
}

fn digest_of<'a>(pieces: impl Iterator<Item = Option<&'a [u8]>>) -> u64 {
    pieces.fold(0, |hash: u64, piece| {
        let one = match piece {
            None => 1,
            Some(piece) if is_volatile(piece) => 2,
            Some(piece) => digest(piece),
        };
        (hash.rotate_left(29) ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// The form of the values of a place.
#[derive(Debug, Clone, Default)]
struct Shape {
    is_known: bool,
    /// Fewest and most.
    pieces: (usize, usize),
    bytes: (usize, usize),
    /// Of values: bits of `DIGIT` and so on.
    letters: u8,
    /// Signs and spaces, by their first byte.
    signs: [u64; 4],
}

/// Pieces of a token in base64, which is one as a rule.
const MAX_TOKEN_PIECES: usize = 8;

const DIGIT: u8 = 1;
const LOWER: u8 = 2;
const UPPER: u8 = 4;
const OTHER: u8 = 8;
const MARK: u8 = 16;

impl Shape {
    fn learn(&mut self, tokens: &Tokens, range: &Range<usize>) {
        self.merge(&Shape::of(tokens, range));
    }

    fn of(tokens: &Tokens, range: &Range<usize>) -> Shape {
        let (pieces, bytes) = (range.len(), tokens.bytes(range.start, range.end).len());
        let mut shape = Shape { is_known: true, pieces: (pieces, pieces), bytes: (bytes, bytes), ..Shape::default() };
        for piece in range.clone().map(|at| tokens.get(at)) {
            if is_value(piece) {
                shape.letters |= piece.iter().map(|byte| letter(*byte)).fold(0, |all, one| all | one)
            } else {
                shape.signs[usize::from(piece[0] >> 6)] |= 1 << (piece[0] & 63)
            }
        }
        shape
    }

    fn merge(&mut self, other: &Shape) {
        if !self.is_known {
            *self = other.clone();
            return;
        }
        let wider = |one: (usize, usize), two: (usize, usize)| (one.0.min(two.0), one.1.max(two.1));
        self.pieces = wider(self.pieces, other.pieces);
        self.bytes = wider(self.bytes, other.bytes);
        self.letters |= other.letters;
        for (mine, theirs) in self.signs.iter_mut().zip(other.signs) {
            *mine |= theirs;
        }
    }

    /// Whether a value has this form. Its length may be half or twice that of those before.
    fn admits(&self, tokens: &Tokens, range: &Range<usize>) -> bool {
        let one = Shape::of(tokens, range);
        let (pieces, bytes) = (one.pieces.0, one.bytes.0);
        let most = match self.pieces.1 {
            0 => 0,
            most if self.is_token() => most * 2 + MAX_TOKEN_PIECES,
            1 => 1,
            most => most * 2,
        };
        pieces <= most
            && pieces * 2 >= self.pieces.0
            && (pieces > 0 || self.pieces.0 == 0)
            && bytes <= self.bytes.1 * 2 + 4
            && bytes * 2 + 4 >= self.bytes.0
            && one.letters & !self.allowed() == 0
            && one.signs.iter().zip(self.allowed_signs()).all(|(theirs, mine)| theirs & !mine == 0)
    }

    /// Random bytes in base64.
    fn is_token(&self) -> bool {
        let mixed = LOWER | UPPER | DIGIT;
        self.letters & mixed == mixed && self.bytes.0 >= 16 && self.pieces.1 <= MAX_TOKEN_PIECES
    }

    /// A token that was in one piece may come in several.
    fn allowed_signs(&self) -> [u64; 4] {
        let mut signs = self.signs;
        for sign in if self.is_token() { &b"+/-="[..] } else { &[] } {
            signs[usize::from(sign >> 6)] |= 1 << (sign & 63);
        }
        signs
    }

    /// Base64 does not use all of its signs in each value, and numbers have a point at times.
    fn allowed(&self) -> u8 {
        let is_mixed = self.letters & LOWER != 0 && self.letters & UPPER != 0;
        if is_mixed && self.bytes.1 >= 8 {
            self.letters | DIGIT | MARK
        } else if self.letters & DIGIT != 0 {
            self.letters | MARK
        } else {
            self.letters
        }
    }
}

fn letter(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => DIGIT,
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        0x80.. => OTHER,
        _ => MARK,
    }
}
