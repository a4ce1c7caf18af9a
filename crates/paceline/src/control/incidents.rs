//! What went wrong with applications' processes, as JSON: all in short, and one with all that is known of it.
//! It never changes anything.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{json, Value};

use super::router::{Answered, Asked, Refusal};
use crate::server::Server;

/// GET /incidents: the newest first.
pub async fn all(server: Arc<Server>) -> Answered {
    let incidents: Vec<Value> = server
        .incidents
        .all()
        .iter()
        .map(|incident| {
            let requests = incident.requests.len();
            json!({
                "id": incident.id,
                "at": incident.at,
                "last": incident.last,
                "times": incident.times,
                "kind": incident.kind.word(),
                "site": incident.site,
                "what": incident.what,
                "requests": requests,
            })
        })
        .collect();
    Ok(json!({ "count": server.incidents.count(), "incidents": incidents }))
}

/// GET /incidents/ID.
pub async fn one(asked: Asked, server: Arc<Server>) -> Answered {
    let id = asked.head.uri.path().rsplit('/').next().unwrap_or_default();
    let none = || Refusal { status: StatusCode::NOT_FOUND, why: format!("no incident {id}") };
    server.incidents.get(id).map(|incident| incident.to_json()).ok_or_else(none)
}
