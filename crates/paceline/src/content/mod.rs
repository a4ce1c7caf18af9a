//! Bodies and what is done with them: static files, compression, pages of fragments.

pub mod body;
pub mod compress;
pub mod fragments;
pub mod spool;
pub mod static_files;
