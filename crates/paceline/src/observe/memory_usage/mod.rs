//! What memory is really used, as the kernel counts it: of a process, of several, and what there is in all. Reads /proc
//! and /sys and adds up; each reading of a process of 150 MB takes the kernel about a millisecond, so call it where
//! that may be. It knows no application and decides nothing.

mod cgroup;
pub mod machine;
pub mod process;

pub use cgroup::Cgroup;
pub use machine::Machine;
pub use process::Memory;
