//! Where pieces belong: the document's sequence or a branch of a try; branches of a choose are decided on the spot,
//! since the request is known. It never emits.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{
    fragments::Fragment,
    tries::{Branch, Consequence, Try},
    Assembler,
};
use crate::{Include, Piece};

pub(super) const DOCUMENT: usize = 0;

/// What goes out one after another: the document itself, or a branch of a try.
#[derive(Debug)]
pub(super) struct Sequence {
    pub slots: VecDeque<Slot>,
    pub role: Role,
    pub stage: Stage,
    /// All its pieces have come.
    pub closed: bool,
    /// Fragments and tries in it that may still fail.
    pub unsettled: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Text(Bytes),
    Fragment(usize),
    Try(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Document,
    Attempt(usize),
    Except(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nobody knows yet whether it is needed: nothing of it is fetched.
    Waiting,
    Needed,
    /// It will never go out.
    Dropped,
}

/// A choose or try that is open.
#[derive(Debug)]
pub(super) enum OpenBlock {
    Choose { within_live: bool, decided: bool, live: bool },
    Try { number: Option<usize>, branch: Option<usize> },
}

impl OpenBlock {
    pub(super) fn is_try(&self) -> bool {
        matches!(self, OpenBlock::Try { .. })
    }
}

impl Sequence {
    pub(super) fn document() -> Sequence {
        Sequence::new(Role::Document, Stage::Needed)
    }

    fn new(role: Role, stage: Stage) -> Sequence {
        Sequence { slots: VecDeque::new(), role, stage, closed: false, unsettled: 0 }
    }
}

impl Assembler {
    pub(super) fn outline(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) => self.place_text(text.clone()),
            Piece::Variable(variable) => {
                let text = variable.to_html(&self.facts);
                self.place_text(text.into());
            }
            Piece::Include(include) => self.place_include(include),
            Piece::Choose => {
                let within_live = self.place().is_some();
                self.branching.push(OpenBlock::Choose { within_live, decided: false, live: false });
            }
            Piece::When(test) => {
                let facts = self.facts.clone();
                self.branch_of_choose(|| test.holds(&facts));
            }
            Piece::Otherwise => self.branch_of_choose(|| true),
            Piece::Try => {
                let number = self.place_try();
                self.branching.push(OpenBlock::Try { number, branch: None });
            }
            Piece::Attempt => self.branch_of_try(|of| of.attempt),
            Piece::Except => self.branch_of_try(|of| of.except),
            Piece::EndChoose => {
                if self.branching.last().is_some_and(|open| !open.is_try()) {
                    self.branching.pop();
                }
            }
            Piece::EndTry => {
                let Some(OpenBlock::Try { number, .. }) = self.branching.last() else { return };
                if let Some(Try { attempt, except, .. }) = number.map(|number| self.tries[number]) {
                    self.close(attempt);
                    self.close(except);
                }
                self.branching.pop();
            }
        }
    }

    /// The sequence that a piece goes to now, unless it is in a branch that is not taken.
    fn place(&self) -> Option<usize> {
        for open in self.branching.iter().rev() {
            match open {
                OpenBlock::Choose { live: true, .. } => {}
                OpenBlock::Choose { live: false, .. } => return None,
                OpenBlock::Try { branch, .. } => return *branch,
            }
        }
        Some(DOCUMENT)
    }

    fn branch_of_choose(&mut self, holds: impl FnOnce() -> bool) {
        if let Some(OpenBlock::Choose { within_live, decided, live }) = self.branching.last_mut() {
            *live = *within_live && !*decided && holds();
            *decided |= *live;
        }
    }

    fn branch_of_try(&mut self, which: impl FnOnce(&Try) -> usize) {
        let Some(OpenBlock::Try { number: Some(number), branch }) = self.branching.last_mut() else { return };
        let sequence = which(&self.tries[*number]);
        if let Some(before) = branch.replace(sequence).filter(|before| *before != sequence) {
            self.close(before);
        }
    }

    fn place_text(&mut self, text: Bytes) {
        let Some(place) = self.place() else { return };
        let sequence = &mut self.sequences[place];
        if sequence.stage != Stage::Dropped && !sequence.closed && !text.is_empty() {
            self.held += text.len();
            sequence.slots.push_back(Slot::Text(text));
        }
    }

    fn place_include(&mut self, include: &Include) {
        let Some(place) = self.place() else { return };
        let sequence = &mut self.sequences[place];
        if sequence.stage == Stage::Dropped || sequence.closed {
            return;
        }
        let number = self.fragments.len();
        sequence.slots.push_back(Slot::Fragment(number));
        sequence.unsettled += 1;
        let needed = sequence.stage == Stage::Needed;
        self.fragments.push(Fragment::new(include, place));
        if needed {
            self.consequences.push(Consequence::Fetch(number));
        }
    }

    fn place_try(&mut self) -> Option<usize> {
        let place = self.place()?;
        let number = self.tries.len();
        let attempt = self.sequences.len();
        let sequence = &mut self.sequences[place];
        if sequence.stage == Stage::Dropped || sequence.closed {
            return None;
        }
        sequence.slots.push_back(Slot::Try(number));
        sequence.unsettled += 1;
        let stage = sequence.stage;
        self.tries.push(Try { within: place, attempt, except: attempt + 1, chosen: Branch::Neither });
        self.sequences.push(Sequence::new(Role::Attempt(number), stage));
        self.sequences.push(Sequence::new(Role::Except(number), Stage::Waiting));
        Some(number)
    }

    pub(super) fn close(&mut self, sequence: usize) {
        if !std::mem::replace(&mut self.sequences[sequence].closed, true) {
            self.consequences.push(Consequence::Check(sequence));
        }
    }
}
