//! The rules by which the fronts of a cluster share their purges: what an entry of the common journal says, what a front
//! that reads it may conclude, until when it may show pages by itself, which fronts have confirmed a purge, and which
//! pages of another front are still good. And what fronts say of themselves, which sites are closed on all of them, and what
//! one is told to restart. Pure: it reads no clock, opens no connection and drops no page.
//!
//! # The journal
//!
//! Entries have consecutive numbers. Each has a random mark and repeats the mark of the entry before it, so a front that
//! reads on from (number, mark) notices whatever is wrong with the journal: entries that were removed, a server that came
//! back empty or from an old backup, a replica that was promoted without the last entries. Then nothing is known of the
//! purges meanwhile, and everything is dropped.
//!
//! # The lease
//!
//! A front asks for the journal's end at a time `asked`. When it has applied all entries up to that end, it may show pages
//! from its cache until `asked` + `partition_ttl`. The front says that it is there in the same step, and counts as there for
//! equally long, from a later moment on. So once it is silent the front shows nothing any more without asking the
//! application, and a purge need not wait for it.
//!
//! # Pages
//!
//! A page that a front shares carries the place up to which that front had applied the journal when it asked the
//! application. Another front shows it only if it knows all orders after that place, and none of them covers the page.
//! So a page is never older than a purge that the front has applied; and one that has not applied a purge is either
//! waited for by that purge, or has no lease.

mod breaker;
mod closed_sites;
mod entry;
mod follower;
mod history;
mod members;
mod page;
mod position;
mod restart;
mod status;

pub use breaker::Breaker;
pub use closed_sites::ClosedSites;
pub use entry::{Entry, Order, What};
pub use follower::{Doubt, Follower, Question};
pub use history::Verdict;
pub use members::{Member, Outcome, Roll, Sighting};
pub use page::SharedPage;
pub use position::Position;
pub use restart::{RestartOrder, RestartProgress, RestartState};
pub use status::Status;

/// Milliseconds, of any clock that nobody sets.
pub type Millis = u64;
