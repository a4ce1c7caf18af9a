//! What may be asked: a table of methods and paths, and the answer to everything else.
//! It never does the work itself.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::{
    advice,
    answer::{refused, Body, ControlRequest, Refusal},
    dashboard, generations, health, incidents, log, maintenance, memory,
    parts::PARTS,
    prometheus, puma_stats, purging, requests, restarting,
    route::{json_of, Route},
    statistics, status, upgrading,
};
use crate::request::front::Front;

/// Bytes of a request's body, at most.
const LONGEST_BODY: usize = 64 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Those of the server itself; its parts have their own.
const ROUTES: &[Route] = &[
    Route { method: "POST", path: "/cache/purge", answer: |asked, server| json_of(purging::posted(asked, server)) },
    Route { method: "GET", path: "/cache/stats", answer: |_, server| json_of(statistics::of_cache(server)) },
    Route { method: "GET", path: "/healthz", answer: |asked, server| Box::pin(health::ready(asked, server)) },
    Route { method: "GET", path: "/livez", answer: |_, _| Box::pin(health::alive()) },
    Route { method: "GET", path: "/metrics", answer: |_, server| Box::pin(prometheus::of_server(server)) },
    Route { method: "GET", path: "/requests", answer: |_, server| json_of(requests::all(server)) },
    Route {
        method: "GET",
        path: "/requests/*/backtrace",
        answer: |asked, server| json_of(requests::backtrace(asked, server)),
    },
    Route { method: "GET", path: "/status", answer: |_, server| json_of(status::of_server(server)) },
    Route { method: "GET", path: "/stats", answer: |_, server| json_of(puma_stats::of_server(server)) },
    Route { method: "GET", path: "/memory", answer: |_, server| json_of(memory::all(server)) },
    Route { method: "GET", path: "/maintenance", answer: |_, server| json_of(maintenance::standing(server)) },
    Route { method: "POST", path: "/maintenance", answer: |asked, server| json_of(maintenance::turn(asked, server)) },
    Route { method: "POST", path: "/upgrade", answer: |asked, server| json_of(upgrading::begin(asked, server)) },
    Route { method: "GET", path: "/generations", answer: |_, server| json_of(generations::all(server)) },
    Route { method: "POST", path: "/restart", answer: |asked, server| json_of(restarting::restart(asked, server)) },
    Route { method: "POST", path: "/rollback", answer: |asked, server| json_of(restarting::roll_back(asked, server)) },
    Route { method: "GET", path: "/restarts/*", answer: |asked, server| json_of(restarting::outcome(asked, server)) },
    Route { method: "GET", path: "/incidents", answer: |_, server| json_of(incidents::all(server)) },
    Route { method: "GET", path: "/log", answer: |asked, server| json_of(log::recent(asked, server)) },
    Route { method: "GET", path: "/incidents/*", answer: |asked, server| Box::pin(dashboard::incident(asked, server)) },
    Route { method: "GET", path: "/errors", answer: |_, server| json_of(incidents::errors(server)) },
    Route { method: "GET", path: "/errors/*", answer: |asked, server| Box::pin(dashboard::error(asked, server)) },
    Route { method: "GET", path: "/advice", answer: |asked, server| Box::pin(advice::page(asked, server)) },
    Route { method: "GET", path: "/", answer: |asked, server| Box::pin(dashboard::page(asked, server)) },
    Route { method: "GET", path: "/events", answer: |asked, server| Box::pin(dashboard::events(asked, server)) },
    Route { method: "GET", path: "/icon.svg", answer: |_, _| Box::pin(dashboard::icon()) },
    Route { method: "GET", path: "/dashboard.css", answer: |_, _| Box::pin(dashboard::style()) },
    Route { method: "GET", path: "/dashboard.js", answer: |_, _| Box::pin(dashboard::script()) },
];

pub async fn answer(request: Request<Incoming>, server: Arc<Front>) -> Response<Body> {
    find(request, server).await.unwrap_or_else(refused)
}

async fn find(request: Request<Incoming>, server: Arc<Front>) -> Result<Response<Body>, Refusal> {
    let (head, body) = request.into_parts();
    if head.method.as_str() == "PURGE" {
        return json_of(purging::by_method(ControlRequest { head, body: Bytes::new() }, server)).await;
    }
    let path = head.uri.path();
    let method = if head.method == Method::HEAD { Method::GET } else { head.method.clone() };
    let all = || PARTS.iter().flat_map(|part| part.routes).chain(ROUTES);
    let here = || all().filter(|route| route.covers(path));
    let Some(route) = here().find(|route| route.method == method.as_str()) else {
        let allowed: Vec<_> = here().map(|route| route.method).collect();
        return Err(if allowed.is_empty() {
            Refusal { status: StatusCode::NOT_FOUND, why: format!("there is nothing at {path}") }
        } else {
            Refusal { status: StatusCode::METHOD_NOT_ALLOWED, why: format!("{path} takes {}", allowed.join(", ")) }
        });
    };
    let body = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, LONGEST_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let why = format!("the body has more than {LONGEST_BODY} bytes");
            return Err(Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, why });
        }
        Ok(Err(_)) => return Err(Refusal::bad("the body is incomplete")),
        Err(_) => {
            let why = "the body took too long".into();
            return Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, why });
        }
    };
    (route.answer)(ControlRequest { head, body }, server).await
}
