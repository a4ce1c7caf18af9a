//! The rules by which requests are balanced over the hosts of an upstream: which host gets a request, which hosts get none
//! for a while, and how one that came back is warmed up.
//! Pure: it reads no clock, opens no connection, and its random numbers follow from a seed.
//!
//! # The choice
//!
//! Of two hosts drawn at random the one with the smaller score gets the request: (pending requests + 1) x the time in which
//! the host usually begins to answer. So a slow host gets as many requests as it can carry, and no host is flooded by fronts
//! that all saw it idle a moment ago. Scores that hardly differ count as equal.
//!
//! # What is learned
//!
//! The time to the first byte, as a moving geometric mean: a page that takes seconds says little about its host. What was
//! learned long ago fades towards the best host's time, so that a host that was slow is tried again.
//!
//! # Out and back
//!
//! Failures in a row put a host out for a while, longer each time; so does a health check that fails. A host that comes (back)
//! gets a small share at first. If all hosts are out, all are in: a wrong health check must not stop the site.

mod balancer;
mod host;

pub use balancer::{Balancer, HostId, HostReport, Request, Rules};
pub use host::Standing;

/// Microseconds, of any clock that nobody sets.
pub type Micros = u64;
