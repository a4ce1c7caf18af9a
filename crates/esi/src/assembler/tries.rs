//! What follows from what: a fragment that fails drops its attempt and needs the except, whose failure fails what is
//! around it; an attempt with nothing left to fail is what goes out (3.4). It never recurses, however deep tries are.

use super::{
    outline::{Role, Slot, Stage},
    Assembler,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Try {
    /// The sequence it stands in.
    pub within: usize,
    pub attempt: usize,
    pub except: usize,
    pub chosen: Branch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Branch {
    Neither,
    Attempt,
    Except,
}

impl Try {
    /// The branch that goes out, if that is known.
    pub(super) fn chosen(&self) -> Option<usize> {
        match self.chosen {
            Branch::Neither => None,
            Branch::Attempt => Some(self.attempt),
            Branch::Except => Some(self.except),
        }
    }
}

/// What is still to be done about something that has happened.
#[derive(Debug, Clone, Copy)]
pub(super) enum Consequence {
    /// Ask for a fragment: its `src`, or its `alt` after that has failed.
    Fetch(usize),
    /// One thing less in the sequence can fail.
    Settled(usize),
    /// Perhaps nothing in the sequence can fail any more.
    Check(usize),
    /// Something in the sequence has failed for good; the fragment of this number began it.
    Fail(usize, usize),
    /// The sequence is needed: so is what it has.
    Need(usize),
    Drop(usize),
}

impl Assembler {
    /// Does all that is due.
    pub(super) fn settle(&mut self) {
        while let Some(consequence) = self.consequences.pop() {
            match consequence {
                Consequence::Fetch(fragment) => self.fetch(fragment),
                Consequence::Settled(sequence) => {
                    let sequence_of = &mut self.sequences[sequence];
                    sequence_of.unsettled = sequence_of.unsettled.saturating_sub(1);
                    self.check(sequence);
                }
                Consequence::Check(sequence) => self.check(sequence),
                Consequence::Fail(sequence, fragment) => self.fail(sequence, fragment),
                Consequence::Need(sequence) => self.need(sequence),
                Consequence::Drop(sequence) => self.drop_sequence(sequence),
            }
        }
    }

    fn check(&mut self, number: usize) {
        let sequence = &self.sequences[number];
        if !sequence.closed || sequence.unsettled > 0 || sequence.stage != Stage::Needed {
            return;
        }
        match sequence.role {
            Role::Document => {}
            Role::Attempt(number) => {
                let of = &mut self.tries[number];
                of.chosen = Branch::Attempt;
                self.consequences.extend([Consequence::Settled(of.within), Consequence::Drop(of.except)]);
            }
            Role::Except(number) => self.consequences.push(Consequence::Settled(self.tries[number].within)),
        }
    }

    fn fail(&mut self, number: usize, fragment: usize) {
        let sequence = &self.sequences[number];
        if sequence.stage == Stage::Dropped {
            return;
        }
        match sequence.role {
            Role::Document => {
                self.failure = Some(self.fragments[fragment].url.clone());
                // Branches that are going out stand in no sequence any more.
                self.consequences.extend(self.cursor.iter().map(|sequence| Consequence::Drop(*sequence)));
            }
            Role::Attempt(number) => {
                let of = &mut self.tries[number];
                of.chosen = Branch::Except;
                self.consequences.extend([Consequence::Need(of.except), Consequence::Drop(of.attempt)]);
            }
            Role::Except(of) => {
                let within = self.tries[of].within;
                self.consequences.extend([Consequence::Fail(within, fragment), Consequence::Drop(number)]);
            }
        }
    }

    fn need(&mut self, number: usize) {
        let sequence = &mut self.sequences[number];
        if sequence.stage != Stage::Waiting {
            return;
        }
        sequence.stage = Stage::Needed;
        // What comes first is done last, and asked for first.
        self.consequences.push(Consequence::Check(number));
        for slot in sequence.slots.iter().rev() {
            match slot {
                Slot::Text(_) => {}
                Slot::Fragment(fragment) => self.consequences.push(Consequence::Fetch(*fragment)),
                Slot::Try(of) => self.consequences.push(Consequence::Need(self.tries[*of].attempt)),
            }
        }
    }

    fn drop_sequence(&mut self, number: usize) {
        let sequence = &mut self.sequences[number];
        if std::mem::replace(&mut sequence.stage, Stage::Dropped) == Stage::Dropped {
            return;
        }
        for slot in std::mem::take(&mut sequence.slots) {
            match slot {
                Slot::Text(text) => self.held -= text.len(),
                Slot::Fragment(fragment) => self.drop_fragment(fragment),
                Slot::Try(of) => {
                    let Try { attempt, except, .. } = self.tries[of];
                    self.consequences.extend([Consequence::Drop(attempt), Consequence::Drop(except)]);
                }
            }
        }
    }
}
