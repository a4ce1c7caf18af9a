//! What went wrong with applications' processes, as JSON: all in short. One with all that is known of it is the
//! dashboard's. It never changes anything.

use std::sync::Arc;

use serde_json::{json, Value};

use super::answer::JsonResult;
use crate::request::front::Front;

/// GET /incidents: the newest first.
pub async fn all(server: Arc<Front>) -> JsonResult {
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
                "kind": incident.kind.as_str(),
                "site": incident.site,
                "what": incident.what,
                "requests": requests,
            })
        })
        .collect();
    Ok(json!({ "count": server.incidents.count(), "incidents": incidents }))
}

/// GET /errors: requests that failed in the application, the newest first.
pub async fn errors(server: Arc<Front>) -> JsonResult {
    let errors: Vec<Value> = server.incidents.all_failed().iter().map(|failed| failed.to_json()).collect();
    Ok(json!({ "errors": errors }))
}
