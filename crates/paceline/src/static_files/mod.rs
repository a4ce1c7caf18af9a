//! Files answered by the front without Ruby. (RFC 9110 conditionals and ranges.)
//! It never looks at sites, queues or workers: a folder and a request head go in, a response comes out.

pub mod conditional;
pub mod entity_tag;
pub mod ranges;
