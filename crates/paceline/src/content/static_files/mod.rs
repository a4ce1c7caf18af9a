//! Files answered by the front without Ruby. (RFC 9110 conditionals and ranges.)
//! It never looks at sites, queues or workers: a folder and a request head go in, a response comes out.
//!
//! Reading order: `top` (an early no), `path` (which files a URL may mean), `open_file` (open, then ask the
//! descriptor), `encoding` (precompressed twins), `response` (the head), `conditional`, `ranges` and `not_modified` (what
//! RFC 9110 makes of it; they know nothing of files, since the page cache asks them too), `body`.

mod app_file;
mod body;
pub mod conditional;
mod content_type;
mod encoding;
pub mod entity_tag;
mod fingerprint;
mod folder;
pub mod not_modified;
mod open_file;
pub mod path;
pub mod ranges;
mod response;
mod top;

#[cfg(test)]
mod tests;

pub use app_file::{plain_file, send_file};
pub use body::{FileBody, Segment};
pub use folder::Folder;
pub use response::multipart;
