//! A route of the control socket. It never answers by itself.

use std::{future::Future, pin::Pin, sync::Arc};

use http::{Response, StatusCode};

use super::answer::{rendered, Body, ControlRequest, JsonResult, Refusal};
use crate::request::front::Front;

pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Refusal>> + Send>>;

/// A method and a path, and what answers there.
pub struct Route {
    pub method: &'static str,
    /// `*` stands for any one step.
    pub path: &'static str,
    pub answer: fn(ControlRequest, Arc<Front>) -> ResponseFuture,
}

impl Route {
    pub fn covers(&self, path: &str) -> bool {
        let alike = |(ours, step): (&str, &str)| ours == step || ours == "*" && !step.is_empty();
        self.path.split('/').count() == path.split('/').count() && self.path.split('/').zip(path.split('/')).all(alike)
    }
}

/// An answer of JSON.
pub fn json_of(answered: impl Future<Output = JsonResult> + Send + 'static) -> ResponseFuture {
    Box::pin(async { answered.await.map(|value| rendered(StatusCode::OK, &value)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_step() {
        let route =
            Route { method: "GET", path: "/incidents/*", answer: |_, _| Box::pin(async { Err(Refusal::bad("")) }) };
        let covered = ["/incidents/1a", "/incidents", "/incidents/", "/incidents/1a/b"].map(|path| route.covers(path));
        assert_eq!(covered, [true, false, false, false]);
    }
}
