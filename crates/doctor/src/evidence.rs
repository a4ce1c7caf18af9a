//! What a shadow has seen of one request, as the protocol carries it. It only describes.

use serde::{Deserialize, Serialize};

/// What happened within one observed request. Times in microseconds; `at` is the innermost frame of the application,
/// `path:line` below its root, or empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    pub sql: Vec<Sql>,
    pub views: Vec<View>,
    pub outbound: Vec<OutboundCalls>,
    pub xml: Option<Xml>,
    pub xml_mini: Option<XmlMini>,
    pub pstore: Option<PStore>,
    pub log: Option<Log>,
    pub mail: Option<Mail>,
    pub session: Option<Session>,
    pub middleware: Vec<Middleware>,
    pub gc: Option<Gc>,
    pub json: Option<Json>,
    pub cache: Option<Cache>,
    pub records: Vec<LoadedRecords>,
    pub raised: Vec<RaisedExceptions>,
    /// In which framework the request was answered: `rails`, `sinatra` or `rack`. None: nobody has looked.
    pub framework: Option<String>,
}

/// Exceptions that a line of the application has raised, or what it calls in Ruby's own methods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RaisedExceptions {
    pub at: String,
    pub count: u64,
}

/// Queries that differ only in their values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sql {
    pub shape: String,
    /// As `Brewery Load`.
    pub name: String,
    pub count: u64,
    /// Different values.
    pub distinct: u64,
    pub us: f64,
    pub rows: u64,
    /// Answered by ActiveRecord's query cache.
    pub cached: u64,
    pub at: String,
    /// An index would spare the database reading this.
    pub scan: Option<Scan>,
    /// Of ActiveRecord's, that it loads: the class that declares it, and its name.
    pub association: Option<(String, String)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scan {
    pub table: String,
    pub columns: Vec<String>,
    pub reads: Reads,
    /// PostgreSQL: rows of the table, and how many of them its planner expects to find. None: SQLite, of which there are
    /// copies to try an index on.
    pub rows: Option<u64>,
    pub matching: Option<u64>,
    /// The planner's costs of the query as it is, and with an index on the columns. None: it was not asked.
    pub cost: Option<(f64, f64)>,
}

/// Records of ActiveRecord that a line of the application has loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadedRecords {
    /// Their class.
    pub model: String,
    pub at: String,
    pub count: u64,
    /// With the query, and with making them.
    pub us: f64,
    pub columns: Vec<String>,
    /// Columns that were read of any of them.
    pub read: Vec<String>,
    /// Of the text in the other columns.
    pub unread_bytes: u64,
}

/// What a query reads of a table beyond the rows that it finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// All of it.
    #[default]
    Whole,
    /// All that it compares, to sort it for the few rows that it returns.
    Sorted,
    /// Those that an index of fewer columns finds.
    Part,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct View {
    /// A path below the root.
    pub name: String,
    pub count: u64,
    pub us: f64,
    /// Without the views within it.
    pub own_us: f64,
}

/// Calls to one origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutboundCalls {
    /// As `https://suppliers.example:443`.
    pub origin: String,
    pub calls: u64,
    /// That were opened for them.
    pub connections: u64,
    pub connect_us: f64,
    pub tls_us: f64,
    pub wait_us: f64,
    /// Of one call.
    pub longest_us: f64,
    /// Calls that repeat an earlier one of this request.
    pub identical: u64,
    pub gets: u64,
    pub at: String,
    /// `net_http` or `paceline`.
    pub client: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Xml {
    pub tags: u64,
    pub us: f64,
    pub at: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct XmlMini {
    pub backend: String,
    pub calls: u64,
    pub us: f64,
    pub at: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PStore {
    pub transactions: u64,
    pub us: f64,
    pub bytes: u64,
    pub at: String,
    pub writes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    pub lines: u64,
    pub bytes: u64,
    pub us: f64,
    pub level: String,
    pub debug_lines: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mail {
    pub count: u64,
    pub us: f64,
    pub at: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    pub store: String,
    pub bytes: u64,
    pub changed: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Middleware {
    pub name: String,
    /// Where its `call` begins.
    pub at: String,
    pub own_us: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gc {
    pub us: f64,
    pub runs: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Json {
    pub us: f64,
    pub bytes: u64,
    pub at: String,
}

/// Entries of Rails.cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    pub reads: u64,
    /// Of these.
    pub hits: u64,
    pub us: f64,
    pub at: String,
}
