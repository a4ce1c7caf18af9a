//! Bodies and what is done with them: static files, compression, live reload.

pub mod body;
pub mod compress;
pub mod live_reload;
pub mod spool;
pub mod static_files;
