//! Which processes are reading the schema of the database, and which are changing it: what was read may be from before a change that
//! was announced meanwhile, and then it counts for nothing. It keeps no schema.

use std::collections::{BTreeMap, BTreeSet};

use super::write_log::Id;

#[derive(Debug, Default)]
pub struct SchemaReadings {
    /// Changes under way.
    changes: BTreeSet<Id>,
    /// By their process: its own number for the reading. Only of those since whose beginning no change was under way.
    valid: BTreeMap<u64, String>,
}

impl SchemaReadings {
    /// The process reads it from now on. Another reading of the same process counts no more.
    pub fn begin(&mut self, process: u64, id: &str) {
        self.left(process);
        if self.changes.is_empty() {
            self.valid.insert(process, id.to_owned());
        }
    }

    /// Whether what it has read is from after all changes that were announced.
    pub fn end(&mut self, process: u64, id: &str) -> bool {
        let is_valid = self.valid.get(&process).is_some_and(|own| own == id);
        if is_valid {
            self.left(process);
        }
        is_valid
    }

    pub fn begin_change(&mut self, id: Id) {
        self.valid.clear();
        self.changes.insert(id);
    }

    /// If it was one.
    pub fn end_change(&mut self, id: &Id) {
        self.changes.remove(id);
    }

    /// None of what this process was about to change happens any more.
    pub fn end_changes(&mut self, process: u64) {
        self.changes.retain(|(own, _)| *own != process);
    }

    /// The connection of this process is closed.
    pub fn left(&mut self, process: u64) {
        self.valid.remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_holds_unless_a_change_was_under_way() {
        let mut readings = SchemaReadings::default();
        readings.begin(1, "a");
        assert!(!readings.end(2, "a") && !readings.end(1, "b") && readings.end(1, "a") && !readings.end(1, "a"));
        readings.begin(1, "c");
        readings.begin_change((2, "x".into()));
        assert!(!readings.end(1, "c"), "it began before the change");
        readings.begin(1, "d");
        readings.end_change(&(2, "x".into()));
        assert!(!readings.end(1, "d"), "it began while the change was under way");
        readings.begin(1, "e");
        assert!(readings.end(1, "e"));
    }

    #[test]
    fn a_process_that_leaves_ends_nothing_of_others() {
        let mut readings = SchemaReadings::default();
        readings.begin(1, "a");
        readings.begin(2, "a");
        readings.left(1);
        assert!(!readings.end(1, "a") && readings.end(2, "a"));
        for (process, id) in [(1, "x"), (2, "x"), (2, "y")] {
            readings.begin_change((process, id.into()));
        }
        readings.end_changes(2);
        readings.begin(2, "b");
        assert!(!readings.end(2, "b"), "that of the other is under way");
        readings.end_changes(1);
        readings.begin(2, "c");
        assert!(readings.end(2, "c"));
    }

    #[test]
    fn a_process_has_one_reading() {
        let mut readings = SchemaReadings::default();
        readings.begin(1, "a");
        readings.begin(1, "b");
        assert!(!readings.end(1, "a") && readings.end(1, "b"));
    }
}
