//! What parts of the server are asked on the control socket: each has it in a file of its own.

pub mod auto_cache;
pub mod cluster;
pub mod doctor;
pub mod scheduled;
