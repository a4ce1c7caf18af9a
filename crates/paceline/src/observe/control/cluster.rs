//! The fronts of other machines, as this one sees them.
//! It never changes anything.

use std::sync::Arc;

use http::StatusCode;

use super::router::{JsonResult, Refusal};
use crate::front::Front;

/// GET /cluster.
pub async fn report(front: Arc<Front>) -> JsonResult {
    let alone = || Refusal {
        status: StatusCode::NOT_FOUND,
        why: "this server is alone: a table [cluster] in its paceline.toml joins it with others (docs/cluster.md)"
            .into(),
    };
    Ok(front.cluster.as_ref().ok_or_else(alone)?.report().await)
}
