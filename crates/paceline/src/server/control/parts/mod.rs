//! What parts of the server have on the control socket, each in a file of its own. It never says what the server as a whole has
//! there.

mod auto_cache;
pub mod cluster;
mod crawlers;
mod doctor;
mod outbound;
mod scheduled;
mod upstream;

use serde_json::Value;

pub use self::doctor::is_for_the_socket_alone;
use super::{
    answer,
    exposition::{Exposition, Type},
    observed::SiteObservation,
    route::{json_of, Route},
};
use crate::request::front::Front;

/// What a part has there.
pub struct ControlPart {
    pub routes: &'static [Route],
    /// Its families in `GET /metrics`.
    pub metrics: fn(&mut Exposition, &Front, &[SiteObservation]),
    pub status: Option<StatusField>,
}

/// What `GET /status` has of each site.
#[derive(Clone, Copy)]
pub struct StatusField {
    pub key: &'static str,
    pub value: fn(&SiteObservation) -> Value,
}

const NOTHING: ControlPart = ControlPart { routes: &[], metrics: |_, _, _| {}, status: None };

pub const PARTS: &[ControlPart] =
    &[auto_cache::PART, cluster::PART, crawlers::PART, doctor::PART, outbound::PART, scheduled::PART, upstream::PART];
