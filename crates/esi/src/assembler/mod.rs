//! Puts a page together (3.1, 3.3, 3.4): pieces and fragments in, in any order; requests for fragments and the page's
//! bytes out. All fragments that the page needs are asked for as soon as they are known, and bytes go out as soon as
//! all before them have. It never waits, and never asks for a fragment of a branch that is not taken.

mod fragments;
mod outline;
mod tries;

use std::{
    collections::VecDeque,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};

use bytes::Bytes;

use crate::{Facts, Limits, Piece};
use fragments::Fragment;
use outline::{OpenBlock, Role, Sequence, Slot};
use tries::Try;

/// A request for a fragment. Each has an id of its own, that for `alt` another than that for `src`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FetchId(usize);

/// What the caller is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The next bytes of the page.
    Emit(Bytes),
    /// Get this fragment and report with `received`, `finished` or `failed`. The URL is as the document has it: see
    /// [`resolve`](crate::resolve).
    Fetch { id: FetchId, url: String },
    /// Nobody needs this fragment any more. What is reported of it is ignored.
    Cancel(FetchId),
    /// The page is complete. Nothing comes after it.
    Done,
    /// The page can't be completed. Nothing comes after it.
    Failed(Failure),
}

/// A fragment could not be had, and the document has nothing in its place: no `alt` that works, no
/// `onerror="continue"`, no `try` around it. The note wants an error with a status over 400; once bytes are out the
/// answer can only be cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The URL that failed last.
    pub url: String,
    /// Bytes of the page that are out.
    pub emitted: u64,
}

/// One document in the making. A fragment that is a document itself gets an assembler of its own
/// ([`Assembler::nested`]), and what that one emits is reported to this one as received.
#[derive(Debug)]
pub struct Assembler {
    facts: Arc<Facts>,
    /// Fetches that all documents of the page may still ask for.
    budget: Arc<AtomicUsize>,
    /// How deep documents within this one may be.
    depth: usize,
    /// The first is the document; the others are branches of `tries`.
    sequences: Vec<Sequence>,
    tries: Vec<Try>,
    fragments: Vec<Fragment>,
    /// The fragment that each fetch is for.
    fetches: Vec<usize>,
    /// The elements that pieces are in now.
    branching: Vec<OpenBlock>,
    /// The sequences that bytes go out of, each within the one before.
    cursor: Vec<usize>,
    /// Requests and cancellations that are not out yet.
    orders: VecDeque<Action>,
    consequences: Vec<tries::Consequence>,
    failure: Option<String>,
    held: usize,
    emitted: u64,
    over: bool,
}

impl Assembler {
    pub fn new(facts: Arc<Facts>, limits: &Limits) -> Assembler {
        Assembler::at_depth(facts, Arc::new(AtomicUsize::new(limits.fetches)), limits.depth.max(1))
    }

    fn at_depth(facts: Arc<Facts>, budget: Arc<AtomicUsize>, depth: usize) -> Assembler {
        Assembler {
            facts,
            budget,
            depth,
            sequences: vec![Sequence::document()],
            tries: Vec::new(),
            fragments: Vec::new(),
            fetches: Vec::new(),
            branching: Vec::new(),
            cursor: vec![outline::DOCUMENT],
            orders: VecDeque::new(),
            consequences: Vec::new(),
            failure: None,
            held: 0,
            emitted: 0,
            over: false,
        }
    }

    /// For a fragment that asks for ESI itself. None where `Limits::depth` is reached: then it is text, or failed, as
    /// the caller likes.
    pub fn nested(&self) -> Option<Assembler> {
        let depth = self.depth - 1;
        (depth > 0).then(|| Assembler::at_depth(self.facts.clone(), self.budget.clone(), depth))
    }

    /// The next thing to do, or None until more is fed or reported.
    pub fn poll(&mut self) -> Option<Action> {
        if let Some(order) = self.orders.pop_front() {
            return Some(order);
        }
        if self.over {
            return None;
        }
        if let Some(url) = self.failure.take() {
            self.over = true;
            self.held = 0;
            return Some(Action::Failed(Failure { url, emitted: self.emitted }));
        }
        match self.next_bytes() {
            Some(bytes) => {
                self.held -= bytes.len();
                self.emitted += bytes.len() as u64;
                Some(Action::Emit(bytes))
            }
            None if self.cursor.is_empty() => {
                self.over = true;
                Some(Action::Done)
            }
            None => None,
        }
    }

    /// Bytes that were fed or reported and can't go out yet. A caller who bounds its memory reads on, once this is
    /// large, only the fragments that [`is_awaited`](Assembler::is_awaited) names; those within an attempt have to
    /// come whole.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether the page's next bytes wait for this fragment, so that not to read it on would stop the page.
    pub fn is_awaited(&self, id: FetchId) -> bool {
        let Some(fragment) = self.fetching(id) else { return false };
        let mut waits = Slot::Fragment(fragment);
        let mut within = self.fragments[fragment].within;
        loop {
            if self.front() == Some(&waits) {
                return true;
            }
            let (Role::Attempt(of) | Role::Except(of)) = self.sequences[within].role else { return false };
            waits = Slot::Try(of);
            within = self.tries[of].within;
        }
    }

    /// What goes out next.
    fn front(&self) -> Option<&Slot> {
        self.cursor.last().and_then(|sequence| self.sequences[*sequence].slots.front())
    }

    fn next_bytes(&mut self) -> Option<Bytes> {
        loop {
            let sequence = &mut self.sequences[*self.cursor.last()?];
            match sequence.slots.front() {
                None if sequence.closed => {
                    self.cursor.pop();
                }
                None => return None,
                Some(Slot::Text(_)) => {
                    if let Some(Slot::Text(bytes)) = sequence.slots.pop_front() {
                        return Some(bytes);
                    }
                }
                Some(Slot::Fragment(fragment)) => {
                    let fragment = &mut self.fragments[*fragment];
                    if let Some(bytes) = fragment.emit() {
                        return Some(bytes);
                    }
                    if !fragment.is_done() {
                        return None;
                    }
                    sequence.slots.pop_front();
                }
                Some(Slot::Try(number)) => {
                    let branch = self.tries[*number].chosen()?;
                    sequence.slots.pop_front();
                    self.cursor.push(branch);
                }
            }
        }
    }

    /// Takes one of the fetches that the page has left.
    fn takes_fetch(&self) -> bool {
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// The next piece of the document. Pieces without their beginning or end are put up with.
    pub fn feed(&mut self, piece: &Piece) {
        if self.over || self.failure.is_some() || self.sequences[outline::DOCUMENT].closed {
            return;
        }
        self.outline(piece);
        self.settle();
    }

    /// The document is complete; what is open in it ends here.
    pub fn end(&mut self) {
        self.close_open();
        self.close(outline::DOCUMENT);
        self.settle();
    }

    /// Ends the elements that are open, for who goes on with plain text after a mistake in the document.
    pub fn close_open(&mut self) {
        while let Some(open) = self.branching.last() {
            let end = if open.is_try() { Piece::EndTry } else { Piece::EndChoose };
            self.outline(&end);
        }
        self.settle();
    }
}

#[cfg(test)]
mod tests;
