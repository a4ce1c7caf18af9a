//! What may be asked: a table of methods and paths, and the answer to everything else.
//! It never does the work itself.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{header, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{json, Value};

use super::{generations, purging, statistics};
use crate::server::Server;

/// Bytes of a request's body, at most.
const LONGEST_BODY: usize = 64 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A request, whole.
pub struct Asked {
    pub head: http::request::Parts,
    pub body: Bytes,
}

/// An answer with nothing wrong is JSON and 200; a refusal says what is wrong.
pub type Answered = Result<Value, Refusal>;

#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub why: String,
}

impl Refusal {
    /// 400.
    pub fn bad(why: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, why: why.into() }
    }
}

type Answering = Pin<Box<dyn Future<Output = Answered> + Send>>;

struct Route {
    method: &'static str,
    path: &'static str,
    answer: fn(Asked, Arc<Server>) -> Answering,
}

const ROUTES: &[Route] = &[
    Route { method: "POST", path: "/cache/purge", answer: |asked, server| Box::pin(purging::posted(asked, server)) },
    Route { method: "GET", path: "/cache/stats", answer: |_, server| Box::pin(statistics::of_cache(server)) },
    Route { method: "GET", path: "/generations", answer: |_, server| Box::pin(generations::all(server)) },
];

pub async fn answer(request: Request<Incoming>, server: Arc<Server>) -> Response<Full<Bytes>> {
    rendered(find(request, server).await)
}

async fn find(request: Request<Incoming>, server: Arc<Server>) -> Answered {
    let (head, body) = request.into_parts();
    if head.method.as_str() == "PURGE" {
        return purging::by_method(Asked { head, body: Bytes::new() }, server).await;
    }
    let path = head.uri.path();
    let method = if head.method == Method::HEAD { Method::GET } else { head.method.clone() };
    let here = || ROUTES.iter().filter(|route| route.path == path);
    let Some(route) = here().find(|route| route.method == method.as_str()) else {
        let allowed: Vec<_> = here().map(|route| route.method).collect();
        return Err(match allowed.is_empty() {
            true => Refusal { status: StatusCode::NOT_FOUND, why: format!("nothing is at {path}") },
            false => {
                Refusal { status: StatusCode::METHOD_NOT_ALLOWED, why: format!("{path} takes {}", allowed.join(", ")) }
            }
        });
    };
    let body = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, LONGEST_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let why = format!("the body has more than {LONGEST_BODY} bytes");
            return Err(Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, why });
        }
        Ok(Err(_)) => return Err(Refusal::bad("the body did not come whole")),
        Err(_) => {
            let why = "the body took too long".into();
            return Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, why });
        }
    };
    (route.answer)(Asked { head, body }, server).await
}

fn rendered(answered: Answered) -> Response<Full<Bytes>> {
    let (status, value) = match answered {
        Ok(value) => (StatusCode::OK, value),
        Err(refusal) => (refusal.status, json!({ "error": refusal.why })),
    };
    let mut response = Response::new(Full::new(format!("{value}\n").into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Does work that may take a while away from the event loop.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        why: "it failed: a bug of the server's".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let response = rendered(Err(Refusal::bad("no \"tag\"")));
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (400, &HeaderValue::from_static("application/json"))
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
        assert_eq!(&body[..], b"{\"error\":\"no \\\"tag\\\"\"}\n");
        let failed = runtime.block_on(aside(|| panic!("in the middle")));
        assert_eq!(failed.map(|(): ()| ()).unwrap_err().status, 500);
    }
}
