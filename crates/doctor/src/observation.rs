//! What is known of an application, its machine and its requests before any trial: the input of the findings. It only
//! describes; it never measures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    profile::Profile,
    protocol::{Evidence, Facts, Request},
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observations {
    pub server: Server,
    /// Ruby's version, as `3.1.2`.
    pub ruby: String,
    /// Empty: not a Rails application.
    pub rails: String,
    pub facts: Facts,
    pub settings: Settings,
    pub machine: Machine,
    /// None: no live traffic was watched.
    pub queue: Option<Queue>,
    pub routes: Vec<RouteObservation>,
    /// Heads of the style sheets, scripts and images that the pages link to (`links::assets`), asked with
    /// `Accept-Encoding: gzip`.
    pub assets: Vec<Asset>,
}

/// What serves the application outside of the doctor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Server {
    #[default]
    Paceline,
    /// Its name, as `Puma`.
    Other(String),
}

/// How the server runs the application. None: unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub workers: Option<u32>,
    /// Of each worker.
    pub threads: Option<u32>,
    pub preload: Option<bool>,
    pub compress: Option<bool>,
    pub page_cache: Option<bool>,
    /// Variables of the application's processes that set up Ruby or its allocator: RUBY..., MALLOC..., LD_PRELOAD,
    /// GLIBC_TUNABLES.
    pub env: BTreeMap<String, String>,
    /// The allocator of the application's processes: `glibc`, `musl`, `jemalloc`, `tcmalloc` or `mimalloc`.
    pub allocator: Option<String>,
    /// The path of libjemalloc.so.2. None: it is not installed.
    pub jemalloc: Option<String>,
    /// Private memory of one worker, bytes.
    pub worker_memory: Option<u64>,
    /// The file of Puma's that they are read from, below the root. None: there is none, or there is a paceline.toml.
    pub puma_config: Option<String>,
    /// Paceline's: so many requests of a worker go on side by side in any case, up to all of its threads if they gain by
    /// it. None: all of them.
    pub threads_min: Option<u32>,
}

/// The machine while requests were watched. None: unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    pub cores: Option<u32>,
    /// Bytes.
    pub memory_total: Option<u64>,
    pub memory_available: Option<u64>,
    /// Of the application's processes, bytes.
    pub swapped: Option<u64>,
    /// Of the application's processes, a second.
    pub major_faults: Option<f64>,
    /// /proc/pressure/memory, `some avg60`, percent.
    pub memory_pressure: Option<f64>,
    /// /proc/pressure/cpu, `some avg60`, percent.
    pub cpu_pressure: Option<f64>,
}

/// How live requests waited for a thread, and what they took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    pub requests: u64,
    /// Microseconds.
    pub median_us: f64,
    pub mean_us: f64,
    pub p95_us: f64,
    /// What a request took in the application, on average. Microseconds.
    pub app_us: f64,
    /// Of that, collecting garbage.
    pub gc_us: f64,
    /// 0 to 1: of the time that threads had a request.
    pub busy: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteObservation {
    /// As `GET /beers/*` (`path_patterns::route::label`).
    pub route: String,
    /// 0 to 1: of all GET requests that were watched or logged.
    pub share: f64,
    pub requests: Vec<ObservedRequest>,
}

/// One request of the sample, replayed without changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservedRequest {
    pub request: Request,
    pub status: u16,
    /// As the application sent them.
    pub headers: Vec<(String, String)>,
    pub body_bytes: u64,
    pub compressible: Compressible,
    pub pieces: u64,
    /// Microseconds, of measured replays (the median), not of the observed one.
    pub wall_us: f64,
    pub cpu_us: f64,
    pub gc_us: f64,
    /// Of the observed replay, which takes longer: what observing takes is in it, but not in the times of `evidence`.
    pub observed_wall_us: f64,
    pub allocated: u64,
    pub evidence: Evidence,
    /// Of replays of its own.
    pub profile: Profile,
    pub repeat: Repeat,
}

/// Whether the front's compression would make a body smaller, for this visitor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compressible {
    /// It is compressed already or no text, or the application or the visitor forbids it.
    #[default]
    No,
    Yes,
    /// It is text, but of a type that is not compressed.
    OtherType,
}

/// Whether a page is the same each time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeat {
    /// Two replays with different clock and seed gave the same bytes.
    pub is_same_twice: bool,
    /// Replays of other visitors gave the same bytes: without the request's cookies, with those of another request of the
    /// sample, and of a made-up visitor with other cookies, credentials, address and browser. None: not tried.
    pub is_same_for_visitors: Option<bool>,
    /// The application asked for none of that, either. A page may look the same for each stranger, and be somebody's.
    pub asks_for_nobody: bool,
}

/// A file that pages link to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asset {
    /// Path and query.
    pub path: String,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Of the body as it was sent.
    pub bytes: u64,
    /// Pages of the sample that link to it, 0 to 1.
    pub share: f64,
}

/// The first value of a header.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
