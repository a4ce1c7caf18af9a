//! How often things happen in a world. Worlds of two kinds take turns: in one time passes quickly; in the other it stands still for
//! long, and what seldom matters happens more often, so that there is time for it to be seen.

use super::{
    chance::Chance,
    database::Statement,
    process::{Action, Effect},
};

#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Time stands still for long, programs of writes are short, and a front that is late reads nothing at all.
    pub is_still: bool,
    /// One step in so many begins a write.
    pub writes: usize,
    /// Of the chances for time to pass one in so many is taken, and then these milliseconds may pass at most.
    pub pauses: usize,
    pub longest: usize,
    /// One statement in so many changes the schema, besides those that do by chance.
    pub schema_changes: usize,
    /// One step in so many kills a process that is about to commit, if there is one. None: kills come anywhere alone.
    pub strikes: Option<usize>,
    /// Of the chances to close a connection one in so many is taken.
    pub leaves: usize,
}

impl Habits {
    pub fn of(seed: u64, chance: &mut Chance) -> Habits {
        match seed % 2 {
            0 => Habits {
                is_still: true,
                writes: chance.pick(&[40, 100]),
                pauses: 8,
                longest: 8000,
                schema_changes: chance.pick(&[8, 80]),
                strikes: Some(150),
                leaves: 1,
            },
            _ => Habits {
                is_still: false,
                writes: chance.pick(&[25, 60, 200]),
                pauses: 1,
                longest: 3000,
                schema_changes: 80,
                strikes: None,
                leaves: 3,
            },
        }
    }

    /// `value`: one that no other statement has.
    pub fn statement(&self, chance: &mut Chance, value: i64) -> Statement {
        if chance.one_in(self.schema_changes) {
            Statement::ToggleTrigger
        } else {
            Statement::by_chance(chance, value)
        }
    }

    /// A program of writes, from its end. `next`: another statement.
    pub fn program(
        &self,
        chance: &mut Chance,
        mut next: impl FnMut(&mut Chance) -> Statement,
        key: impl FnOnce(&mut Chance) -> Effect,
    ) -> Vec<Action> {
        // More is only sent, where that matters.
        let (alone, sent) = if self.is_still { (3, 6) } else { (3, 4) };
        let kind = chance.below(10);
        if kind < alone {
            return vec![Action::Announced(Effect::Alone(next(chance)))];
        }
        if kind < sent {
            return vec![Action::Announced(Effect::Sent(next(chance)))];
        }
        if kind == sent {
            return vec![Action::Announced(key(chance))];
        }
        let end = if chance.one_in(6) { Action::RollBack } else { Action::Announced(Effect::Commit) };
        let mut actions = vec![end];
        let statements = if self.is_still { 1 } else { 1 + chance.below(3) };
        (0..statements).for_each(|_| actions.push(Action::Run(next(chance))));
        if !self.is_still && chance.one_in(3) {
            // Within the transaction, so that some of it is taken back.
            let more = next(chance);
            actions.extend([Action::BackToSavepoint, Action::Run(more), Action::Savepoint, Action::Run(next(chance))]);
        }
        actions
    }
}
