//! An upgrade of the server's own program, as it is asked for from outside.
//! It never decides whether it succeeds.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{json, Value};

use super::answer::{ControlRequest, JsonResult, Refusal};
use crate::{
    apps::{
        attempts::Cause,
        orders::{Order, Wish},
    },
    request::front::{Front, UpgradeError, ADOPTED},
};

/// POST /upgrade: `{"wait": true}` answers when it is known what became of it, else it answers at once.
pub async fn begin(asked: ControlRequest, server: Arc<Front>) -> JsonResult {
    let wish: Value = if asked.body.is_empty() {
        json!({})
    } else {
        serde_json::from_slice(&asked.body).map_err(|error| Refusal::bad(format!("no JSON: {error}")))?
    };
    if server.is_adopted() {
        server
            .routes()
            .all()
            .iter()
            .filter_map(|site| site.app.as_ref())
            .for_each(|app| app.order(Order::Restart(Wish::by(Cause::Told("paceline upgrade")))));
        return Ok(json!({ "restarted": ADOPTED }));
    }
    let outcome = server.upgrade();
    if wish["wait"].as_bool() != Some(true) {
        return Ok(json!({ "upgrading": true }));
    }
    let refused = |why: UpgradeError| Refusal { status: StatusCode::CONFLICT, why: why.to_string() };
    let pid = outcome.await.unwrap_or(Err(UpgradeError::Stopped)).map_err(refused)?;
    Ok(json!({ "pid": pid }))
}
