//! What would make an application faster, and whether a trial has proved it. Given are requests, answers, evidence and
//! times; the results are candidates for trials, verdicts, a report and edits. It never reads or writes a file, never
//! looks at a clock, and never starts or asks a process.
//!
//! The way of a run, as the driver takes it:
//!
//! 1. `mask::Mask::learn(&[(Answer, Answer)]) -> Mask` for each route, from pairs of control answers.
//! 2. `findings::find(&Observations) -> Vec<Candidate>`, the most promising first.
//! 3. For each, the driver runs `candidate.trial`: after each round it asks `statistics::decide(&pairs, rounds)`, and it
//!    compares answers with `mask.equal(control, trial) -> Result<(), Difference>`. What came of it is a
//!    `verdict::Outcome`.
//! 4. `verdict::judge(Candidate, &Outcome, &Observations) -> Verdict`.
//! 5. `report::Report::new(app, Sample, Vec<Verdict>)` numbers and orders them; then `text()`, `json()`, `exit_code()`,
//!    `advice(number)`. A report is serializable: it can be kept for `apply`.
//! 6. `apply::plan(&Fix, &Context, read) -> Result<Plan, CannotApply>` turns a fix into edits of files and commands;
//!    `apply::unified_diff(&[FileEdit]) -> String` shows them.
//! 7. `live::expected(&Verdict)` and `live::compare(&[ExpectedGain], &[LiveTimes]) -> LiveVerdict` say whether visitors
//!    have that gain, too.

pub mod apply;
pub mod candidate;
pub mod collections;
mod evidence;
pub mod findings;
pub mod links;
pub mod live;
pub mod mask;
pub mod observation;
pub mod profile;
pub mod protocol;
pub mod report;
pub mod statistics;
pub mod units;
pub mod verdict;
