//! What parts of the server have on the control socket, each in a file of its own: routes, metrics, and their share of each site's
//! status. It never says what the server as a whole has there.

mod auto_cache;
pub mod cluster;
mod doctor;
mod scheduled;

pub use self::doctor::is_for_the_socket_alone;

use super::{
    answer,
    route::{json_of, Route},
};

/// What a part has there.
pub struct ControlPart {
    pub routes: &'static [Route],
}

/// All parts that have something there.
pub const PARTS: &[ControlPart] = &[auto_cache::PART, cluster::PART, scheduled::PART, doctor::PART];
