//! A change that may be worth it, and how it is tried. It only describes: what is worth trying is decided in
//! `findings`, what is worth doing in `verdict`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::{Deliver, Patch};

/// What was found. In JSON and in tests by its name in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    SmallWrites,
    ColdConnections,
    SerialCalls,
    BuilderXml,
    XmlMini,
    PStore,
    FileSessions,
    RepeatedQueries,
    MissingIndex,
    DebugLog,
    CacheStore,
    CacheHeaders,
    CacheVary,
    CacheCookie,
    UncompressedAssets,
    UncompressedPages,
    UnfingerprintedAssets,
    TooManyThreads,
    TooFewThreads,
    QueueWaits,
    GcSettings,
    Allocator,
    Yjit,
    EagerLoad,
    CodeReloading,
    FragmentsNotKept,
    TemplatesNotKept,
    Preload,
    MemoryPressure,
    SlowMiddleware,
    SlowPartial,
    LargeSession,
    SyncMail,
    WholeRecords,
    LoadedRecords,
    SlowLine,
}

/// One thing to try or to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub kind: Kind,
    /// As `GET /beers/*`, the one with most to gain first; empty: all.
    pub routes: Vec<String>,
    /// What is slow, in plain words.
    pub sentence: String,
    /// A few words for the line of what was not worth it: `threads 5 -> 3`.
    pub short: String,
    /// `path:line` below the root; empty: none.
    pub at: String,
    pub fix: Fix,
    pub trial: Trial,
    pub measure: Measure,
    /// Microseconds of a request of the first route, at most, by the evidence. 0: unknown.
    pub ceiling_us: f64,
    /// What it is about (a query's shape, a view, a host): of two with the same subject, the one that was tried as it
    /// would be done goes first.
    pub subject: String,
    /// Subjects of others that are a part of it: they go first, since what is left of it without them may be little.
    #[serde(default)]
    pub holds: Vec<String>,
}

/// How a candidate is tried. The driver makes one control and one trial of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trial {
    /// Shadows with these patches.
    Patch { trial: Vec<Patch>, control: Vec<Patch>, deliver: Deliver },
    /// The application is started with these variables and Ruby options beside those it has; control without.
    Environment { env: BTreeMap<String, String>, unset: Vec<String>, ruby_options: Vec<String> },
    /// A worker with all of its threads, and one of an application that was started with these variables, get the same
    /// requests under load: what counts is their private memory.
    Memory { env: BTreeMap<String, String>, load: Load },
    /// The pages are compressed as the front would do it: what counts are their bytes.
    Compression,
    /// Copies with as many processes and threads as the server has, and as it would have, under load: so many visitors
    /// each ask for another page as soon as they have one.
    Load { from: Load, to: Load, visitors: u32 },
    /// A shadow in which what is slow is free (`Candidate::short` names it): the most that a change of the code can bring.
    WhatIf { trial: Vec<Patch> },
    /// Not tried: computed from what was observed.
    Computed { gain_us: f64, why: String },
    /// Can't be tried: why.
    Untried { why: String },
}

impl Trial {
    /// It starts the application, or serves visitors for a while: it takes a minute, where others take seconds.
    pub fn is_slow(&self) -> bool {
        matches!(self, Trial::Environment { .. } | Trial::Memory { .. } | Trial::Load { .. })
    }

    /// There is something to try.
    pub fn is_tried(&self) -> bool {
        !matches!(self, Trial::Computed { .. } | Trial::Untried { .. })
    }
}

/// How the server runs the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    pub workers: u32,
    /// Of each worker.
    pub threads: u32,
    /// So many of them are used in any case; more only while they help (Paceline's front).
    pub threads_min: u32,
}

impl Load {
    /// Requests that can be in the application at once.
    pub fn channels(&self) -> u32 {
        self.workers.saturating_mul(self.threads)
    }
}

/// By which time a gain is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    #[default]
    Wall,
    /// Of the thread's processor time: for what only computes; other processes on the machine disturb it less.
    Cpu,
}

/// The line to write, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// Below the root, as `config/initializers/paceline.rb`; empty: no file.
    pub file: String,
    /// As it is shown behind `+`.
    pub line: String,
    pub edit: Edit,
}

/// How `apply` writes a fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Edit {
    /// Lines of a Ruby file, which is created where it is missing. `gem`: they need the gem paceline in the Gemfile.
    Insert { lines: Vec<String>, place: Place, gem: bool },
    /// A line of `config/application.rb` or of an environment's file: in place of a line that sets `setting`, or else
    /// before the block's end.
    Configure { setting: String, line: String, gem: bool },
    /// A key of paceline.toml, with its value in TOML.
    Setting { key: String, value: String },
    /// A statement of config/puma.rb, as `threads 3, 3`: in place of the one that has the same `name`, or at the end.
    Puma { name: String, line: String },
    /// A new migration that adds an index. `concurrently`: so that others can write to the table meanwhile (PostgreSQL).
    Migration {
        table: String,
        columns: Vec<String>,
        #[serde(default)]
        concurrently: bool,
    },
    /// A change of the application's code, or a decision: it is shown, not made. Why.
    Shown { why: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Behind the comments that the file begins with.
    Top,
    End,
}
