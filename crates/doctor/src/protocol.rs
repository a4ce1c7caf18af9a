//! The messages between the driver and a shadow process, one JSON object a line. It only describes them: it never
//! sends, and never decides anything by them.

use std::collections::BTreeMap;

use base64::{prelude::BASE64_STANDARD, Engine};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use crate::evidence::*;
use crate::profile::Profile;

/// The first line of a shadow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    pub pid: i32,
    /// As `3.1.2`.
    pub ruby: String,
    pub rack: String,
    /// Empty: not a Rails application.
    pub rails: String,
    pub facts: Facts,
    /// What the kernel does not hold the shadow to, of `files`, `connections`, `signals` and `calls`: there only what is
    /// known of libraries keeps it from harm.
    pub unconfined: Vec<String>,
    /// Set instead of all others where there is no shadow: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How the application is set up. `None` and empty: unknown, or it has no such thing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub environment: String,
    /// The application's folder.
    pub root: String,
    /// As `debug`.
    pub log_level: Option<String>,
    pub eager_load: Option<bool>,
    pub cache_classes: Option<bool>,
    /// Rails keeps fragments of views, and templates.
    pub perform_caching: Option<bool>,
    pub template_caching: Option<bool>,
    /// `on`, `off`, or `missing`: this Ruby was built without it.
    pub yjit: String,
    /// As `REXML`.
    pub xml_mini: Option<String>,
    /// `builder` or `paceline`: what `Builder::XmlMarkup` is.
    pub builder: Option<String>,
    /// `net` or `paceline`: where Net::HTTP gets its connections from.
    pub http: String,
    /// A class name.
    pub session_store: Option<String>,
    pub cache_store: Option<String>,
    /// As `smtp`.
    pub mail_delivery: Option<String>,
    pub job_adapter: Option<String>,
    /// Class names, outermost first.
    pub middleware: Vec<String>,
    pub databases: Vec<Database>,
    /// Versions by the gem's name.
    pub gems: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Database {
    /// As `sqlite3`.
    pub adapter: String,
    pub file: Option<String>,
}

/// One line from the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Command {
    /// Answered by [`Done`]. Before the first replay only.
    Patch(Patch),
    /// Answered by [`ReplayResult`].
    Replay(Box<Replay>),
    /// Loads what other shadows have recorded of outbound calls. Answered by [`Done`].
    Recordings {
        all: Vec<Value>,
    },
    /// From now on it answers on channels of its own, too. Answered by [`Done`].
    Load(Box<LoadStart>),
    /// Visitors are served beside it: it gives way to every other process. Answered by [`Done`].
    Background,
    Quit,
}

/// A change within a shadow: its name, with its parameters beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    pub name: String,
    #[serde(flatten)]
    pub params: Map<String, Value>,
}

impl Patch {
    /// Without parameters.
    pub fn named(name: &str) -> Patch {
        Patch { name: name.into(), params: Map::new() }
    }

    /// Adds a parameter.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Patch {
        self.params.insert(name.into(), value.into());
        self
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    pub id: u64,
    pub request: Request,
    /// Collect evidence: such a replay is never measured.
    pub observe: bool,
    /// Unix seconds at which the application's clock starts.
    pub clock: f64,
    pub seed: u64,
    pub outbound: Outbound,
    pub deliver: Deliver,
    /// A short request is answered once more before it is measured: the processor's caches are those of another process.
    pub warm: bool,
    /// The request is a made-up visitor's: it comes from another address, and what the application asks of the visitor is
    /// told. Such a replay is never measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stranger: bool,
    /// Read the thread's stack again and again: such a replay is never measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profile: bool,
}

impl Replay {
    /// One as a visitor would have it: others are asked by the application, and nothing is measured.
    pub fn plain(id: u64, request: Request, clock: f64, seed: u64) -> Replay {
        let (outbound, deliver) = (Outbound::Record, Deliver::Gathered);
        let (observe, warm, stranger, profile) = (false, false, false, false);
        Replay { id, request, observe, clock, seed, outbound, deliver, warm, stranger, profile }
    }
}

/// A shadow connects to a Unix socket for each thread. Over each of these connections go lines, too: a [`LoadRequest`],
/// answered by a [`LoadResult`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadStart {
    /// The socket's path.
    pub socket: String,
    pub threads: u32,
    /// All that will be asked for.
    pub requests: Vec<Request>,
    pub deliver: Deliver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    pub id: u64,
    /// Its place in `requests`.
    pub request: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadResult {
    pub id: u64,
    pub status: u16,
    /// The request tried to write.
    pub write: Option<WriteNote>,
    /// The class of what the application raised.
    pub error: Option<String>,
}

/// Outbound calls are made and recorded, or answered from a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outbound {
    Record,
    Replay,
}

/// What becomes of the pieces of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deliver {
    /// They are collected, as under Paceline.
    #[default]
    Gathered,
    /// Each is written by itself, as under Puma.
    Pieces,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Without `?`; empty: none.
    pub query: String,
    pub scheme: String,
    pub host: String,
    pub headers: Vec<(String, String)>,
    /// Whom the front has signed in: mechanism, name and groups, with U+001F between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl Request {
    /// Path and query, as in a log.
    pub fn target(&self) -> String {
        if self.query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, self.query)
        }
    }
}

/// The answer to a patch or to recordings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    pub ok: bool,
    pub error: Option<String>,
}

impl Done {
    /// Why it was refused. None: it was done.
    pub fn refusal(self) -> Option<String> {
        match self.error {
            None if self.ok => None,
            error => Some(error.unwrap_or_else(|| "refused".into())),
        }
    }
}

/// What one replay gave. Times in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayResult {
    pub id: u64,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Base64 in JSON.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub body: Vec<u8>,
    pub body_bytes: u64,
    pub wall_us: f64,
    pub cpu_us: f64,
    pub gc_us: f64,
    /// Objects.
    pub allocated: u64,
    /// Pieces that the body came in.
    pub pieces: u64,
    /// The request tried to write: it does not belong into the sample.
    pub write: Option<WriteNote>,
    pub error: Option<ErrorNote>,
    pub evidence: Option<Evidence>,
    /// What the application has asked of a made-up visitor, as "the session", and where (`path:line`). None: nobody looked.
    pub asked: Option<Vec<(String, String)>>,
    /// Programs that the request has started, and where.
    pub programs: Vec<(String, String)>,
    pub profile: Option<Profile>,
    /// Of outbound calls, for other shadows; opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Value>,
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    // Ruby's `pack("m")` breaks lines.
    let joined: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64_STANDARD.decode(joined).map_err(serde::de::Error::custom)
}

/// What a request tried to write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteNote {
    /// Shortened, without values.
    pub what: String,
    /// `path:line` below the root, or empty.
    pub at: String,
    /// `sql`, `file`, `mail`, `job`, `store`, `outbound` or `cache`.
    pub kind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorNote {
    pub class: String,
    pub message: String,
    pub at: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_are_as_in_the_contract() {
        let request = Request {
            method: "GET".into(),
            path: "/beers".into(),
            query: "page=2".into(),
            scheme: "http".into(),
            host: "shop.test".into(),
            headers: vec![("cookie".into(), "a=b".into())],
            user: None,
        };
        assert_eq!(request.target(), "/beers?page=2");
        let replay = Replay { warm: true, ..Replay::plain(7, request, 1.5, 42) };
        let load = LoadStart { socket: "/s".into(), threads: 3, requests: Vec::new(), deliver: Deliver::Pieces };
        for (command, expected) in [
            (
                Command::Load(Box::new(load)),
                json!({"do": "load", "socket": "/s", "threads": 3, "requests": [], "deliver": "pieces"}),
            ),
            (
                Command::Patch(Patch::named("free_sql").with("shapes", vec!["SELECT 1"])),
                json!({"do": "patch", "name": "free_sql", "shapes": ["SELECT 1"]}),
            ),
            (Command::Patch(Patch::named("xml")), json!({"do": "patch", "name": "xml"})),
            (Command::Recordings { all: vec![json!(1)] }, json!({"do": "recordings", "all": [1]})),
            (Command::Background, json!({"do": "background"})),
            (Command::Quit, json!({"do": "quit"})),
            (
                Command::Replay(Box::new(replay)),
                json!({"do": "replay", "id": 7, "observe": false, "clock": 1.5, "seed": 42, "outbound": "record",
                       "deliver": "gathered", "warm": true, "request": {"method": "GET", "path": "/beers", "query": "page=2",
                       "scheme": "http", "host": "shop.test", "headers": [["cookie", "a=b"]]}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&command).unwrap(), expected);
            assert_eq!(serde_json::from_value::<Command>(expected).unwrap(), command);
        }
    }

    #[test]
    fn results_are_read() {
        let result: ReplayResult = serde_json::from_value(json!({
            "id": 7, "status": 200, "headers": [["Content-Type", "text/html"]], "body": "aGVs\nbG8=\n", "body_bytes": 5,
            "wall_us": 1234.5, "cpu_us": 1000, "gc_us": 10, "allocated": 4711, "pieces": 3,
            "write": {"what": "INSERT", "at": "app/x.rb:4", "kind": "sql"}, "error": null,
            "evidence": {"sql": [{"shape": "SELECT ?", "count": 2, "scan": {"table": "beers", "columns": ["style"]}}],
                         "views": [], "outbound": [], "xml": null, "gc": {"us": 5, "runs": 1}, "something": "new"},
        }))
        .unwrap();
        assert_eq!((result.body.as_slice(), result.cpu_us), (&b"hello"[..], 1000.0));
        let evidence = result.evidence.clone().unwrap();
        assert_eq!(evidence.sql[0].scan.as_ref().map(|scan| scan.table.as_str()), Some("beers"));
        assert_eq!((evidence.gc.map(|gc| gc.runs), evidence.xml), (Some(1), None));
        let kept: ReplayResult = serde_json::from_value(serde_json::to_value(&result).unwrap()).unwrap();
        assert_eq!(kept, result);
        assert!(serde_json::from_value::<ReplayResult>(json!({"body": "%"})).is_err());
    }

    #[test]
    fn a_refusal_says_why() {
        let done = |value: Value| serde_json::from_value::<Done>(value).unwrap().refusal();
        assert_eq!(done(json!({"ok": true})), None);
        assert_eq!(done(json!({"error": "why"})), Some("why".into()));
        assert_eq!(done(json!({})), Some("refused".into()));
        let hello: Hello = serde_json::from_value(json!({"error": "no fork"})).unwrap();
        assert_eq!(hello.error.as_deref(), Some("no fork"));
    }
}
