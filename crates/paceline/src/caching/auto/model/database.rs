//! A database in memory, as the processes of the model use it: what is committed, rows that are locked by transactions, and
//! statements as SQL that the front reads. A statement sees what is committed when it runs, and what its own transaction has
//! changed. It is the oracle, so it never asks the front's rules what a statement reads or changes.

use std::collections::BTreeMap;

use super::chance::Chance;

/// Rows have ids from 1 to this, if they are there.
pub const ROWS: i64 = 6;
pub const PARTS: i64 = 2;
pub const USERS: i64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    Rows,
    Users,
    /// Has an entry while the trigger is there by which a change of a user changes all rows.
    Triggers,
}

pub type Key = (Table, i64);
const TRIGGER: Key = (Table::Triggers, 0);
/// Value and part of a row; the name of a user.
pub type Cells = (i64, i64);
pub type Changes = BTreeMap<Key, Option<Cells>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

#[derive(Debug, Clone, Default)]
pub struct State(BTreeMap<Key, Cells>);

impl State {
    fn new() -> State {
        let rows = (1..=ROWS).map(|id| ((Table::Rows, id), (0, id % PARTS)));
        State(rows.chain((1..=USERS).map(|id| ((Table::Users, id), (0, 0)))).collect())
    }

    fn rows(&self) -> impl Iterator<Item = (i64, Cells)> + '_ {
        self.0.iter().filter(|((table, _), _)| *table == Table::Rows).map(|((_, id), cells)| (*id, *cells))
    }

    pub fn has_trigger(&self) -> bool {
        self.0.contains_key(&TRIGGER)
    }

    fn row(&self, id: i64) -> Option<Cells> {
        self.0.get(&(Table::Rows, id)).copied()
    }

    fn apply(&mut self, changes: &Changes) {
        for (key, cells) in changes {
            match cells {
                Some(cells) => drop(self.0.insert(*key, *cells)),
                None => drop(self.0.remove(key)),
            }
        }
    }
}

/// Fields that each end with NUL, as the front reads them.
pub fn fields(texts: &[&str]) -> Vec<u8> {
    texts.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect()
}

/// A statement of a record. `sql` has a question mark for each value.
fn entry(sql: &str, values: &[i64], dialect: Dialect) -> Vec<u8> {
    let mut text = String::new();
    for (nth, piece) in sql.split('?').enumerate() {
        match (nth, dialect) {
            (0, _) => {}
            (_, Dialect::Sqlite) => text.push('?'),
            (_, Dialect::Postgres) => text.push_str(&format!("${nth}")),
        }
        text.push_str(piece);
    }
    let mut bytes = fields(&["S", "app/models/row.rb:7", &text, &values.len().to_string()]);
    values.iter().for_each(|value| bytes.extend(fields(&[&format!("i{value}")])));
    bytes
}

/// As a process tells it when it has read it in this state.
pub fn schema(dialect: Dialect, state: &State) -> Vec<u8> {
    let name = if dialect == Dialect::Sqlite { "sqlite" } else { "postgres" };
    let mut bytes = fields(&["D", name, "T", "rows", "C", "id", "bigint", "?"]);
    ["value", "part"].iter().for_each(|column| bytes.extend(fields(&["C", column, "bigint", "n"])));
    bytes.extend(fields(&["T", "users", "C", "id", "bigint", "?", "C", "name", "bigint", "n"]));
    if state.has_trigger() {
        bytes.extend(fields(&["R", "users", "BEGIN UPDATE rows SET value = value + 1; END"]));
    }
    bytes
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    Row(i64),
    All,
    Part(i64),
    Count(i64),
    /// The rows of each part, without their values.
    Parts,
    Pair(i64, i64),
    User(i64),
}

impl Read {
    /// What a page shows of it, and a number that the next statement may depend on.
    pub fn result(self, state: &State) -> (String, i64) {
        let shown = |rows: &mut dyn Iterator<Item = (i64, Cells)>| {
            rows.map(|(id, (value, part))| format!("{id}={value}/{part}")).collect::<Vec<_>>().join(",")
        };
        let text = match self {
            Read::Row(id) => shown(&mut state.row(id).map(|cells| (id, cells)).into_iter()),
            Read::All => shown(&mut state.rows()),
            Read::Part(part) => shown(&mut state.rows().filter(|(_, (_, own))| *own == part)),
            Read::Count(part) => state.rows().filter(|(_, (_, own))| *own == part).count().to_string(),
            Read::Parts => state.rows().map(|(id, (_, part))| format!("{id}/{part}")).collect::<Vec<_>>().join(","),
            Read::Pair(one, other) => shown(&mut state.rows().filter(|(id, _)| *id == one || *id == other)),
            Read::User(id) => state.0.get(&(Table::Users, id)).map_or("nobody".into(), |(name, _)| name.to_string()),
        };
        let next = if let Read::Row(id) = self { state.row(id).map_or(0, |(value, _)| value) } else { 0 };
        (text, next)
    }

    pub fn entry(self, dialect: Dialect) -> Vec<u8> {
        let (sql, values) = match self {
            Read::Row(id) => (r#"SELECT "rows".* FROM "rows" WHERE "rows"."id" = ? LIMIT ?"#, vec![id, 1]),
            Read::All => (r#"SELECT "rows".* FROM "rows" ORDER BY "rows"."id" ASC"#, vec![]),
            Read::Part(part) => {
                (r#"SELECT "rows".* FROM "rows" WHERE "rows"."part" = ? ORDER BY "rows"."id" ASC"#, vec![part])
            }
            Read::Count(part) => (r#"SELECT COUNT(*) FROM "rows" WHERE "rows"."part" = ?"#, vec![part]),
            Read::Parts => (r#"SELECT "rows"."id", "rows"."part" FROM "rows" ORDER BY "rows"."id" ASC"#, vec![]),
            Read::Pair(one, other) => (r#"SELECT "rows".* FROM "rows" WHERE "rows"."id" IN (?, ?)"#, vec![one, other]),
            Read::User(id) => (r#"SELECT "users".* FROM "users" WHERE "users"."id" = ? LIMIT ?"#, vec![id, 1]),
        };
        entry(sql, &values, dialect)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    SetValue {
        id: i64,
        value: i64,
    },
    /// With its values in its text.
    SetValueRaw {
        id: i64,
        value: i64,
    },
    SetValueOfPart {
        part: i64,
        value: i64,
    },
    Move {
        id: i64,
        part: i64,
    },
    RaiseAll,
    Insert {
        id: i64,
        value: i64,
        part: i64,
    },
    /// The database finds the id.
    InsertGenerated {
        value: i64,
        part: i64,
    },
    Upsert {
        id: i64,
        value: i64,
        part: i64,
    },
    Delete {
        id: i64,
    },
    DeleteOfPart {
        part: i64,
        below: i64,
    },
    Rename {
        user: i64,
        name: i64,
    },
    /// A procedure, of which nobody knows what it does.
    Call {
        value: i64,
    },
    /// The trigger comes, or goes. It changes no row.
    ToggleTrigger,
}

impl Statement {
    /// `value`: one that no other statement has.
    pub fn by_chance(chance: &mut Chance, value: i64) -> Statement {
        let (id, part) = (chance.id(ROWS), chance.id(PARTS) - 1);
        match chance.below(80) {
            0..=19 => Statement::SetValue { id, value },
            20..=27 => Statement::SetValueRaw { id, value },
            28..=35 => Statement::SetValueOfPart { part, value },
            36..=43 => Statement::Move { id, part },
            44 | 45 => Statement::RaiseAll,
            46..=50 => Statement::Insert { id, value, part },
            51..=54 => Statement::InsertGenerated { value, part },
            55..=58 => Statement::Upsert { id, value, part },
            59..=62 => Statement::Delete { id },
            63 | 64 => Statement::DeleteOfPart { part, below: value - 40 },
            65..=77 => Statement::Rename { user: chance.id(USERS), name: value },
            78 => Statement::Call { value },
            _ => Statement::ToggleTrigger,
        }
    }

    /// None: the database refuses it.
    fn changes(self, state: &State) -> Option<Changes> {
        let row = |id: i64, cells: Option<Cells>| ((Table::Rows, id), cells);
        let of_part = |part: i64| state.rows().filter(move |(_, (_, own))| *own == part);
        Some(match self {
            Statement::SetValue { id, value } | Statement::SetValueRaw { id, value } => {
                state.row(id).map(|(_, part)| row(id, Some((value, part)))).into_iter().collect()
            }
            Statement::SetValueOfPart { part, value } => {
                of_part(part).map(|(id, (_, part))| row(id, Some((value, part)))).collect()
            }
            Statement::Move { id, part } => {
                state.row(id).map(|(value, _)| row(id, Some((value, part)))).into_iter().collect()
            }
            Statement::RaiseAll => state.rows().map(|(id, (value, part))| row(id, Some((value + 1, part)))).collect(),
            Statement::Insert { id, value, part } if state.row(id).is_none() => [row(id, Some((value, part)))].into(),
            Statement::Insert { .. } => return None,
            Statement::InsertGenerated { value, part } => {
                let free = (1..=ROWS).find(|id| state.row(*id).is_none())?;
                [row(free, Some((value, part)))].into()
            }
            Statement::Upsert { id, value, part } => {
                let part = state.row(id).map_or(part, |(_, own)| own);
                [row(id, Some((value, part)))].into()
            }
            Statement::Delete { id } => state.row(id).map(|_| row(id, None)).into_iter().collect(),
            Statement::DeleteOfPart { part, below } => {
                of_part(part).filter(|(_, (value, _))| *value < below).map(|(id, _)| row(id, None)).collect()
            }
            Statement::Rename { user, name } => {
                let raised = state.rows().map(|(id, (value, part))| row(id, Some((value + 1, part))));
                let rows = raised.filter(|_| state.has_trigger());
                rows.chain([((Table::Users, user), Some((name, 0)))]).collect()
            }
            Statement::Call { value } => {
                let rows = state.rows().map(|(id, (_, part))| row(id, Some((value, part))));
                rows.chain([((Table::Users, 1), Some((value, 0)))]).collect()
            }
            Statement::ToggleTrigger => [(TRIGGER, (!state.has_trigger()).then_some((0, 0)))].into(),
        })
    }

    /// As its process announces it. `generated`: the id that the database has found.
    pub fn entry(self, generated: Option<i64>, dialect: Dialect) -> Vec<u8> {
        let raw;
        let (sql, values) = match self {
            Statement::SetValue { id, value } => {
                (r#"UPDATE "rows" SET "value" = ? WHERE "rows"."id" = ?"#, vec![value, id])
            }
            Statement::SetValueRaw { id, value } => {
                raw = format!("UPDATE rows SET value = {value} WHERE id = {id}");
                (raw.as_str(), vec![])
            }
            Statement::SetValueOfPart { part, value } => {
                (r#"UPDATE "rows" SET "value" = ? WHERE "rows"."part" = ?"#, vec![value, part])
            }
            Statement::Move { id, part } => (r#"UPDATE "rows" SET "part" = ? WHERE "rows"."id" = ?"#, vec![part, id]),
            Statement::RaiseAll => ("UPDATE rows SET value = value + 1", vec![]),
            Statement::Insert { id, value, part } => {
                (r#"INSERT INTO "rows" ("id", "value", "part") VALUES (?, ?, ?)"#, vec![id, value, part])
            }
            Statement::InsertGenerated { value, part } => {
                (r#"INSERT INTO "rows" ("value", "part") VALUES (?, ?)"#, vec![value, part])
            }
            Statement::Upsert { id, value, part } => (
                r#"INSERT INTO "rows" ("id","value","part") VALUES (?, ?, ?) ON CONFLICT ("id") DO UPDATE SET "value"=excluded."value""#,
                vec![id, value, part],
            ),
            Statement::Delete { id } => (r#"DELETE FROM "rows" WHERE "rows"."id" = ?"#, vec![id]),
            Statement::DeleteOfPart { part, below } => {
                (r#"DELETE FROM "rows" WHERE "rows"."part" = ? AND (value < ?)"#, vec![part, below])
            }
            Statement::Rename { user, name } => {
                (r#"UPDATE "users" SET "name" = ? WHERE "users"."id" = ?"#, vec![name, user])
            }
            Statement::Call { value } => ("CALL renumber(?)", vec![value]),
            Statement::ToggleTrigger => (r#"ALTER TABLE "users" ENABLE TRIGGER ALL"#, vec![]),
        };
        let mut bytes = entry(sql, &values, dialect);
        if let Some(id) = generated {
            bytes.extend(fields(&["G", "", "id", &format!("i{id}")]));
        }
        bytes
    }
}

/// Who has locked a row.
pub type Owner = u64;

#[derive(Debug, PartialEq, Eq)]
pub enum Executed {
    /// With the id that was found for a row.
    Done(Option<i64>),
    /// Another transaction has one of its rows.
    Waits,
    Refused,
}

#[derive(Debug, Default)]
pub struct Database {
    pub committed: State,
    locks: BTreeMap<Key, Owner>,
    /// Commits of processes that are gone, which the database is about to do: when, by which owner, what.
    later: Vec<(u64, Owner, Changes)>,
}

impl Database {
    pub fn new() -> Database {
        Database { committed: State::new(), ..Database::default() }
    }

    /// Runs it within a transaction that has changed `own` so far.
    pub fn execute(&mut self, owner: Owner, own: &mut Changes, statement: Statement) -> Executed {
        let mut seen = self.committed.clone();
        seen.apply(own);
        let Some(changes) = statement.changes(&seen) else { return Executed::Refused };
        let is_locked = |key: &Key| self.locks.get(key).is_some_and(|other| *other != owner);
        // Who changes users waits for the trigger, and the other way round.
        let waits = match statement {
            Statement::ToggleTrigger => self.locks.keys().any(|key| key.0 == Table::Users && is_locked(key)),
            Statement::Rename { .. } => is_locked(&TRIGGER),
            _ => false,
        };
        if waits || changes.keys().any(is_locked) {
            return Executed::Waits;
        }
        self.locks.extend(changes.keys().map(|key| (*key, owner)));
        let generated = matches!(statement, Statement::InsertGenerated { .. });
        let found = changes.keys().next().filter(|_| generated).map(|(_, id)| *id);
        own.extend(changes);
        Executed::Done(found)
    }

    pub fn commit(&mut self, owner: Owner, own: &Changes) {
        self.committed.apply(own);
        self.roll_back(owner);
    }

    pub fn roll_back(&mut self, owner: Owner) {
        self.locks.retain(|_, own| *own != owner);
    }

    /// It has what was sent, and does it at this time.
    pub fn commit_later(&mut self, at: u64, owner: Owner, own: Changes) {
        self.later.push((at, owner, own));
        self.later.sort_by_key(|(at, ..)| *at);
    }

    /// When it does the next of these.
    pub fn next_commit(&self) -> Option<u64> {
        self.later.first().map(|(at, ..)| *at)
    }

    pub fn do_next_commit(&mut self) {
        let (_, owner, own) = self.later.remove(0);
        self.commit(owner, &own);
    }
}
