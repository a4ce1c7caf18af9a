//! What the server is told to do: typed settings from flags, environment, `paceline.toml` and `config/puma.rb`.
//! It never acts on them.

mod account_bounds;
mod automatic;
mod bind;
mod control_address;
mod control_web;
pub mod database_pool;
mod detect;
mod discovery;
mod docs;
mod environment;
mod groups;
mod hosts;
mod layer;
mod listening;
mod load;
mod option;
mod option_checks;
mod options;
mod paceline_toml;
pub mod parts;
mod process_settings;
mod proxied;
mod puma;
mod puma_file;
pub mod removed;
mod resolve;
mod sources;
mod surroundings;
mod table;
mod table_fields;
#[cfg(test)]
pub mod test_folder;
#[cfg(test)]
mod tests;
mod toml_file;
mod trusted;
mod value;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

pub use control_web::{ControlWeb, Token};
pub use detect::{detect_site, DetectError, Detected};
pub use discovery::{folders_in, site_in, sites_in, Discovered};
pub use docs::markdown;
pub use layer::Layer;
pub use load::{load, ConfigError, ConfigFile, Flags};
pub use options::{all as all_options, Opt, Preset, Scope, GROUPS};
pub use parts::processes::{ProcessConfig, Restart};
pub use process_settings::with_settings;
pub use puma::{PumaReader, RubyChild, RubyProcess, StartRuby};
pub use resolve::OF_FOLDER;
pub use sources::Inherited;
pub use surroundings::Surroundings;
pub use table::{TableKind, TableSetting};
pub use trusted::TrustedProxies;
pub use value::{Kind, Value, ValueError};

use self::parts::SiteParts;
use crate::{
    exchange::access_log::Skip,
    origins::upstream::{Check, Targets, UpstreamTls},
};

/// Everything the front needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses to listen on, in the order given. Never empty.
    pub binds: Vec<Listening>,
    /// Addresses that were given, where sockets were handed over instead: one of these that is such a socket's says
    /// how it is served.
    pub instead_of: Vec<Listening>,
    pub tls: TlsConfig,
    pub http2: Http2Config,
    pub trusted_proxies: TrustedProxies,
    /// How long a PROXY protocol header may take.
    pub proxy_protocol_timeout: Duration,
    /// Sites with their own settings, in the order given. One site without hosts answers every host.
    pub sites: Vec<SiteConfig>,
    /// `--sites DIR`: each subfolder is a site; watched while running.
    pub sites_dir: Option<PathBuf>,
    /// What such a site has below its own settings.
    pub inherited: Inherited,
    /// A site of which nothing is said.
    pub site_defaults: SiteConfig,
    /// File that holds the front's pid while it runs.
    pub pidfile: Option<PathBuf>,
    pub control: ControlConfig,
    /// Where the control routes are served over TCP. None: nowhere.
    pub control_web: Option<ControlWeb>,
    /// Where incidents are kept, and whether somebody named it.
    pub incidents_dir: Option<(PathBuf, bool)>,
    /// Shown in the process title.
    pub tag: Option<String>,
    /// Event-loop threads of the front.
    pub front_threads: usize,
    /// Bytes of memory for what the page cache keeps.
    pub cache_size: u64,
    /// Where the page cache keeps it on disk, too.
    pub cache_disk: Option<CacheDisk>,
    /// The fronts of other machines. None: this one is alone.
    pub cluster: Option<crate::cluster::Settings>,
    /// Bytes of memory for all bodies that wait.
    pub buffer_memory: usize,
    /// How long in-flight requests may take after TERM or INT.
    pub shutdown_timeout: Duration,
    /// For a new program to take over.
    pub upgrade_timeout: Duration,
    /// Between readiness going down and listeners closing.
    pub shutdown_delay: Duration,
    /// Where traces go. None: there are none.
    pub traces: Option<crate::observe::traces::Settings>,
    pub log: crate::observe::log::LogConfig,
    pub client: ClientLimits,
    /// Lines to log once at start: settings of config/puma.rb without a meaning here, and the like.
    pub notices: Vec<String>,
    /// `--adopt-control-fd N`: the server was started by a Ruby process that stays in charge of this socket pair.
    pub adopt_control_fd: Option<i32>,
    /// The process that has read config/puma.rb, or has started the server.
    pub reader: PumaReader,
}

/// What the page cache may take of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDisk {
    /// Bytes.
    pub size: u64,
    pub dir: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    Tcp(SocketAddr),
    /// Unix socket with an optional mode (Puma's `unix:///path?umask=0111`).
    Unix {
        path: PathBuf,
        umask: Option<u32>,
    },
    /// A listening socket handed over by systemd (LISTEN_FDS) or another parent.
    Fd(i32),
}

/// A socket to listen on, and how a connection begins there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listening {
    pub bind: Bind,
    /// The certificates to serve TLS with, the default first. None: no TLS.
    pub tls: Option<Vec<CertificatePair>>,
    pub proxy_protocol: ProxyProtocol,
    /// Nothing but HTTP/2 is spoken, without TLS.
    pub h2c: bool,
}

impl From<Bind> for Listening {
    fn from(bind: Bind) -> Listening {
        Listening { bind, tls: None, proxy_protocol: ProxyProtocol::Off, h2c: false }
    }
}

/// Whether connections begin with a PROXY protocol header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    Off,
    /// One that does not is from whom it is from, as with Puma's `set_remote_address proxy_protocol: :v1`.
    Optional,
    /// One that does not is closed.
    Required,
}

/// Files of a certificate chain and its private key, PEM.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificatePair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// How long a client may take for the handshake.
    pub handshake_timeout: Duration,
    /// None: no host gets its certificate by itself.
    pub automatic: Option<AcmeConfig>,
    /// The one that the server makes for itself, in development. None: no address has it.
    pub own: Option<OwnCertificate>,
}

/// A certificate that the server makes for itself (`https = true`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCertificate {
    /// Where it is put.
    pub pair: CertificatePair,
    /// DNS names and IP addresses.
    pub names: Vec<String>,
}

/// Certificates that the server gets by itself (`tls = "auto"`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// Those that get one each: DNS names, lower case, at least one.
    pub hosts: Vec<String>,
    pub directory: String,
    /// None: the machine's roots.
    pub ca_file: Option<PathBuf>,
    pub email: Option<String>,
    /// Where the account and the certificates are kept.
    pub dir: PathBuf,
}

/// HTTP/2's limits for one connection.
#[derive(Debug, Clone)]
pub struct Http2Config {
    pub enabled: bool,
    /// Requests under way at once.
    pub streams: u32,
    /// Bytes of one request's headers, as RFC 9113 section 6.5.2 counts them.
    pub header_list: u32,
    /// Requests a client may take back in ten seconds before they are answered.
    pub resets: usize,
    /// Requests taken back that wait to be noticed.
    pub pending_resets: usize,
    /// None: no pings.
    pub ping_interval: Option<Duration>,
    pub ping_timeout: Duration,
    /// How long a connection may be without a request.
    pub idle_timeout: Duration,
}

/// Where the control socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlConfig {
    /// None: it is off.
    pub path: Option<PathBuf>,
    /// Somebody named it, and is told if it can't be had.
    pub named: bool,
}

/// What a client may ask of the server before it is known what it asks for.
#[derive(Debug, Clone)]
pub struct ClientLimits {
    pub heads: http_guard::strict::Limits,
    pub timeouts: http_guard::guard::Timeouts,
    /// Connections in all, and from one address. None: no bound.
    pub connections: Option<usize>,
    pub connections_per_address: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppKind {
    Rails,
    Rack,
    /// A classic Sinatra file without a config.ru.
    Sinatra,
    /// A folder of plain files: no Ruby is started.
    Files,
}

/// When workers are replaced. Bytes of private memory, of one worker or of all of a site. None: never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerLimits {
    /// It finishes its requests.
    pub worker: Option<u64>,
    /// It is ended at once.
    pub worker_hard: Option<u64>,
    pub site: Option<u64>,
    pub site_hard: Option<u64>,
    pub requests: Option<u64>,
    /// So many requests more, at most.
    pub requests_jitter: u64,
}

/// How the Ruby of an application is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RubyTuning {
    /// `auto`, `on` or `off`.
    pub yjit: String,
    /// None: as many as the C library likes.
    pub malloc_arenas: Option<u64>,
    pub jemalloc: bool,
    pub oob_gc: bool,
    /// Paths to ask for before the fork.
    pub warm_up: Vec<String>,
    pub compact: bool,
    /// A worker that has answered so many requests becomes the preloader of the next workers. None: never.
    pub refork_after: Option<u64>,
}

impl SiteConfig {
    /// What it serves, for people: its folder, or who answers in its place.
    pub fn serves(&self) -> String {
        match &self.upstream {
            Some(upstream) => upstream.to_string(),
            None => self.root.display().to_string(),
        }
    }
}

/// One application (or folder of files, or upstream) and the hosts it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteConfig {
    /// Names the site in logs; unique.
    pub name: String,
    /// Host names without port, lower case; `*.example.org` allowed. Empty: every host not named by another site.
    pub hosts: Vec<String>,
    /// The application's directory (not resolved: `current` may be a symlink).
    pub root: PathBuf,
    /// Servers that answer in place of an app; `root` is then for files alone.
    pub upstream: Option<Targets>,
    /// How it proves who it is, if it is one of https.
    pub upstream_tls: UpstreamTls,
    /// Visitors stay with their host, by a cookie.
    pub upstream_sticky: bool,
    /// How its hosts are checked. None: not beside the requests.
    pub upstream_check: Option<Check>,
    /// How long a connection to it may take.
    pub upstream_connect_timeout: Duration,
    /// None: detected from `root` when the app is started.
    pub kind: Option<AppKind>,
    /// The rackup file when it is not `root/config.ru`.
    pub rackup: Option<PathBuf>,
    /// Account its processes run as. None: the owner of its directory, where the front is root.
    pub user: Option<String>,
    /// Their group. None: the account's own.
    pub group: Option<String>,
    /// RACK_ENV / RAILS_ENV / APP_ENV of the app.
    pub environment: String,
    /// Worker processes, at least 1.
    pub workers: usize,
    /// As many as it may grow to; not less than `workers`.
    pub workers_max: usize,
    /// As many as there are cores and memory for, and `workers` is what there are cores for.
    pub workers_auto: bool,
    /// How long the last worker beyond `workers` has to be of no use before it goes.
    pub workers_idle: Duration,
    pub limits: WorkerLimits,
    /// Threads of each worker, at least 1.
    pub threads: usize,
    /// Requests that a worker may always have beside each other; more, up to `threads`, only as long as that helps.
    pub threads_min: usize,
    /// Threads of a worker beside these, for its streams.
    pub stream_threads: usize,
    /// Load the app once in the preloader (true) or in each worker.
    pub preload: bool,
    /// The Ruby to run.
    pub ruby: PathBuf,
    pub tuning: RubyTuning,
    /// Extra environment variables of the app.
    pub env: BTreeMap<String, String>,
    /// Programs that run beside its workers.
    pub processes: Vec<ProcessConfig>,
    /// Folder of static files, below `root` unless absolute.
    pub public: PathBuf,
    /// Serve files from `public` without Ruby.
    pub static_files: bool,
    /// Cache-Control max-age of fingerprinted assets is one year; of other files this. None: no Cache-Control.
    pub static_max_age: Option<Duration>,
    /// Obey the app's X-Sendfile and X-Accel-Redirect headers.
    pub x_sendfile: bool,
    /// Requests that may wait for a worker thread.
    pub queue_max: usize,
    /// How long a request may wait for a worker thread.
    pub queue_timeout: Duration,
    /// After this long in the app a request's backtrace is logged. None: never.
    pub app_soft_timeout: Option<Duration>,
    /// After this long in the app the request gets 504 and the worker is replaced. None: never.
    pub app_hard_timeout: Option<Duration>,
    /// After this long in callbacks behind the response the thread's place is given to another. None: never.
    pub after_reply_hold: Option<Duration>,
    /// How long the app may take from spawn to ready.
    pub start_timeout: Duration,
    /// How long a worker's last requests may take when it is drained.
    pub drain_timeout: Duration,
    /// Paths that a new generation is asked for, the first that it has, before it gets visitors. Empty: it is not
    /// asked.
    pub ready_paths: Vec<String>,
    /// Kept pages that a new generation is asked for before it gets visitors, at most.
    pub warm_requests: usize,
    /// How long the preloader of the release before stays for a rollback. None: it ends with its last worker.
    pub keep_previous: Option<Duration>,
    /// Largest request body, bytes. None: unbounded.
    pub max_body: Option<u64>,
    /// Bodies up to this many bytes stay in memory, larger ones spool to a file.
    pub body_memory: usize,
    /// false: request bodies over `body_memory` stream to the app instead of being spooled first.
    pub buffer_requests: bool,
    /// Response bytes held in memory for a slow client before they spool to a file.
    pub response_memory: usize,
    /// Bytes of one response spooled to disk before the worker is made to wait.
    pub response_spool: u64,
    /// Requests that the access log leaves out.
    pub log_skip: Vec<Skip>,
    /// Answer http with a redirect to https.
    pub redirect_https: bool,
    /// Strict-Transport-Security's max-age. None: no such header.
    pub hsts: Option<Duration>,
    pub hsts_subdomains: bool,
    /// Offer `rack.early_hints` to the app.
    pub early_hints: bool,
    /// How responses are compressed. None: not at all.
    pub compress: Option<crate::content::compress::Settings>,
    pub parts: SiteParts,
    /// Send a `Server-Timing` header.
    pub server_timing: bool,
    /// config/puma.rb whose Ruby hooks the app's processes run.
    pub puma_config: Option<PathBuf>,
    /// Start when the first request comes, not with the server.
    pub on_demand: bool,
    /// Who has written this, and whether it is all that the server serves.
    pub provenance: unix_user::Provenance,
}
