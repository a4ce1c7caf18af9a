//! Observations of a clean application, for tests that put one fault into it.

use std::collections::BTreeMap;

use crate::{
    observation::{
        Asset, Compressible, Machine, Observations, ObservedRequest, Queue, Repeat, RouteObservation, Server, Settings,
    },
    profile::Profile,
    protocol::{Evidence, Facts, Gc, Log, Middleware, Request, Session, Sql, View},
};

/// An application of Rails under Paceline: two routes, 20 ms each, with the evidence of pages that are as they should be.
pub(crate) fn clean() -> Observations {
    Observations {
        server: Server::Paceline,
        ruby: "3.3.5".into(),
        rails: "7.0.8".into(),
        facts: Facts {
            environment: "production".into(),
            root: "/srv/shop".into(),
            log_level: Some("info".into()),
            eager_load: Some(true),
            cache_classes: Some(true),
            yjit: "on".into(),
            xml_mini: Some("REXML".into()),
            builder: Some("builder".into()),
            http: "net".into(),
            session_store: Some("ActionDispatch::Session::CookieStore".into()),
            mail_delivery: Some("smtp".into()),
            middleware: vec!["Rack::Runtime".into(), "ActionDispatch::Session::CookieStore".into()],
            ..Facts::default()
        },
        settings: Settings {
            workers: Some(2),
            threads: Some(3),
            preload: Some(true),
            compress: Some(true),
            page_cache: Some(true),
            worker_memory: Some(100 << 20),
            allocator: Some("glibc".into()),
            env: BTreeMap::from([("MALLOC_ARENA_MAX".into(), "2".into())]),
            ..Settings::default()
        },
        machine: Machine { cores: Some(2), swapped: Some(0), memory_pressure: Some(0.0), ..Machine::default() },
        queue: Some(Queue { requests: 1000, p95_us: 900.0, app_us: 20_000.0, busy: 0.3, ..Queue::default() }),
        routes: vec![route("GET /beers", 0.6), route("GET /beers/*", 0.4)],
        assets: vec![asset("/assets/app-0123abcd.css", "text/css", 30_000)],
    }
}

fn route(name: &str, share: f64) -> RouteObservation {
    RouteObservation { route: name.into(), share, requests: vec![request(name), request(name)] }
}

fn request(route: &str) -> ObservedRequest {
    ObservedRequest {
        request: Request {
            method: "GET".into(),
            path: route.replace("GET ", "").replace('*', "42"),
            host: "shop.test".into(),
            headers: fields(&[("cookie", "_shop=abc")]),
            ..Request::default()
        },
        status: 200,
        headers: fields(&[("Content-Type", "text/html"), ("Cache-Control", "max-age=0, private, must-revalidate")]),
        body_bytes: 30_000,
        compressible: Compressible::Yes,
        pieces: 4,
        wall_us: 20_000.0,
        cpu_us: 12_000.0,
        gc_us: 300.0,
        observed_wall_us: 25_000.0,
        allocated: 25_000,
        evidence: evidence(),
        profile: Profile::default(),
        repeat: Repeat { is_same_twice: false, is_same_for_visitors: None, asks_for_nobody: false },
    }
}

fn evidence() -> Evidence {
    Evidence {
        sql: vec![sql("Beer Load", "SELECT \"beers\".* FROM \"beers\" LIMIT ?", 1, 31, 2_000.0)],
        views: vec![View { name: "app/views/beers/_row.html.erb".into(), count: 1, us: 3_000.0, own_us: 3_000.0 }],
        log: Some(Log { lines: 5, bytes: 600, us: 200.0, level: "info".into(), debug_lines: 0 }),
        session: Some(Session { store: "ActionDispatch::Session::CookieStore".into(), bytes: 200, changed: false }),
        middleware: vec![Middleware { name: "Rack::Runtime".into(), own_us: 5.0, ..Default::default() }],
        gc: Some(Gc { us: 300.0, runs: 0 }),
        ..Evidence::default()
    }
}

pub(crate) fn sql(name: &str, shape: &str, count: u64, rows: u64, us: f64) -> Sql {
    Sql {
        name: name.into(),
        shape: shape.into(),
        count,
        distinct: count,
        us,
        rows,
        at: "app/views/beers/_row.html.erb:4".into(),
        ..Sql::default()
    }
}

pub(crate) fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
}

pub(crate) fn asset(path: &str, kind: &str, bytes: u64) -> Asset {
    let headers = fields(&[("Content-Type", kind), ("Content-Encoding", "gzip"), ("ETag", "\"1\"")]);
    Asset { path: path.into(), status: 200, headers, bytes, share: 1.0 }
}

/// Changes each request of the first route.
pub(crate) fn each(observations: &mut Observations, change: impl Fn(&mut ObservedRequest)) {
    observations.routes[0].requests.iter_mut().for_each(change);
}
