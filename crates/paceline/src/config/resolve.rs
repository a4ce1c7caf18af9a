//! Puts the sources together, by precedence, into the settings the front works with.
//! It never reads a source.

use std::path::Path;

use super::{
    control_address, layer::View, paceline_toml::TomlTable, parts::SiteParts, sources::Sources, value::Value,
    AcmeConfig, AppKind, ClientLimits, ControlConfig, Http2Config, OwnCertificate, RubyTuning, SiteConfig, TlsConfig,
    TrustedProxies, WorkerLimits,
};
use crate::{
    content::compress::{Effort, Settings},
    exchange::access_log::Skip,
    observe::{
        log::{AccessLogFormat, LogConfig, LogFormat},
        traces,
    },
    origins::upstream::{Check, Targets, UpstreamTls},
};
use http_guard::{guard::Timeouts, strict::Limits};

impl Sources<'_> {
    pub fn tls(&self, automatic: Option<AcmeConfig>, own: Option<OwnCertificate>) -> TlsConfig {
        TlsConfig { handshake_timeout: self.server().time("tls_handshake_timeout"), automatic, own }
    }

    pub fn http2(&self) -> Http2Config {
        let view = self.server();
        let small = |key| u32::try_from(view.number(key)).unwrap_or(u32::MAX);
        Http2Config {
            enabled: view.bool("http2"),
            streams: small("http2_streams"),
            header_list: small("http2_header_list"),
            resets: view.count("http2_resets"),
            pending_resets: view.count("http2_pending_resets"),
            ping_interval: view.time_or_off("http2_ping_interval"),
            ping_timeout: view.time("http2_ping_timeout"),
            idle_timeout: view.time("http2_idle_timeout"),
        }
    }

    pub fn trusted_proxies(&self) -> TrustedProxies {
        let view = self.server();
        TrustedProxies::new(&view.list("trusted_proxies"), view.given("trusted_proxies").is_some())
    }

    /// `sites`: those of the settings; none, or several, where a folder has them.
    pub fn log(&self, sites: &[SiteConfig]) -> LogConfig {
        let view = self.server();
        let access_path = view.path("access_log");
        // A developer reads the terminal; what is read by programs stays as programs know it.
        let is_read = access_path.is_none()
            && matches!(sites, [only] if only.environment == "development" && only.upstream.is_none());
        let format = match view.text("log_format").as_deref() {
            Some("json") => LogFormat::Json,
            _ => LogFormat::Text,
        };
        let access_format = match (view.bool("log_requests"), view.text("access_log_format").as_deref()) {
            (false, _) => AccessLogFormat::Off,
            (true, Some("json")) => AccessLogFormat::Json,
            (true, Some("short")) => AccessLogFormat::Short,
            (true, None) if format == LogFormat::Json => AccessLogFormat::Json,
            (true, None) if is_read => AccessLogFormat::Short,
            (true, _) => AccessLogFormat::Combined,
        };
        LogConfig {
            format,
            access_format,
            access_path,
            app_path: view.path("app_log"),
            max_size: view.number_or_off("log_max_size"),
            keep: view.count("log_keep"),
        }
    }
}

/// Where those who look for it without being told find it, unless it was named: below the only application's root, or
/// below the directory served; of a folder of sites in that folder, by a name that is no site's.
pub fn control(view: &View, sites: &[SiteConfig], sites_dir: Option<&Path>, dir: &Path) -> ControlConfig {
    let usual = match (sites_dir, sites) {
        // Without a `.` in it.
        (Some(folder), _) => folder.components().collect::<std::path::PathBuf>().join(OF_FOLDER),
        (None, [site]) if site.upstream.is_none() => site.root.join("tmp/paceline.sock"),
        _ => dir.join("tmp/paceline.sock"),
    };
    // Puma's name for it, where it means the same.
    let url = view.text("control_url");
    if let (None, Some(path)) = (view.given("control"), url.as_deref().and_then(control_address::unix)) {
        return ControlConfig { path: Some(dir.join(path)), named: true };
    }
    match view.given("control") {
        Some(Value::Path(path)) => ControlConfig { path: Some(path.clone()), named: true },
        Some(_) => ControlConfig { path: None, named: true },
        None => ControlConfig { path: Some(usual), named: false },
    }
}

pub fn traces(view: &View) -> Option<traces::Settings> {
    let endpoint = traces::Endpoint::parse(&view.text("otlp_endpoint")?).ok()?;
    let service = view.text("otlp_service_name").unwrap_or_default();
    let sample = view.text("otlp_sample").and_then(|share| traces::share(&share).ok()).unwrap_or(1.0);
    Some(traces::Settings { endpoint, service, sample })
}

/// Where incidents are kept, and whether it was named.
pub fn incidents_dir(view: &View, sites: &[SiteConfig], has_sites_dir: bool) -> Option<(std::path::PathBuf, bool)> {
    match (view.given("incidents_dir"), sites) {
        (Some(Value::Path(path)), _) => Some((path.clone(), true)),
        (None, [only]) if !has_sites_dir && only.upstream.is_none() => {
            Some((only.root.join("tmp/paceline/incidents"), false))
        }
        _ => None,
    }
}

/// The control socket in a folder of sites.
pub const OF_FOLDER: &str = ".paceline.sock";

/// What any client is held to.
pub fn client(view: &View) -> ClientLimits {
    let bound = |key| view.number_or_off(key).and_then(|number| usize::try_from(number).ok());
    ClientLimits {
        connections: bound("max_connections"),
        connections_per_address: bound("max_connections_per_address"),
        heads: Limits {
            uri: view.count("max_uri"),
            fields_bytes: view.count("max_header_bytes"),
            fields: view.count("max_headers"),
        },
        timeouts: Timeouts {
            head: view.time("head_timeout"),
            idle: view.time("keepalive_timeout"),
            body: view.time("body_timeout"),
            body_bytes: view.count("body_progress"),
            write: view.time("write_timeout"),
        },
    }
}

/// With one thread an application may count on it that it is never called twice at the same time: so that is only done
/// if it is asked for.
fn stream_threads(view: &View) -> usize {
    match view.between("threads").1 {
        1 if view.given("stream_threads").is_none() => 0,
        _ => view.count("stream_threads"),
    }
}

/// A site from its view. Without a root in it the site's is `root`.
pub fn site(view: &View, root: &Path) -> SiteConfig {
    let root = view.path("root").unwrap_or_else(|| root.to_path_buf());
    let hosts: Vec<String> = view.list("host").iter().map(|host| host.to_ascii_lowercase()).collect();
    let name = view.text("name").or_else(|| hosts.first().cloned()).unwrap_or_else(|| folder_name(&root));
    let upstream = Targets::parse(&view.list("upstream")).ok();
    let is_upstream = upstream.is_some();
    let check_path = view.text("upstream_check").filter(|path| path != "off");
    SiteConfig {
        name,
        hosts,
        upstream,
        upstream_tls: UpstreamTls { ca_file: view.path("upstream_ca_file"), name: view.text("upstream_tls_name") },
        upstream_check: check_path.map(|path| Check { path, every: view.time("upstream_check_interval") }),
        upstream_sticky: view.text("upstream_sticky").as_deref() == Some("cookie"),
        upstream_connect_timeout: view.time("upstream_connect_timeout"),
        kind: view.text("kind").as_deref().and_then(kind),
        rackup: view.path("rackup").map(|path| root.join(path)),
        user: view.text("user"),
        group: view.text("group"),
        environment: view.environment().to_string(),
        workers: view.between("workers").0,
        workers_max: view.between("workers").1,
        workers_auto: view.is_auto("workers"),
        workers_idle: view.time("workers_idle"),
        limits: worker_limits(view),
        threads: view.between("threads").1,
        threads_min: view.least("threads").unwrap_or(1),
        stream_threads: stream_threads(view),
        preload: view.bool("preload"),
        ruby: view.path("ruby").unwrap_or_else(|| "ruby".into()),
        tuning: tuning(view),
        env: view.map("env"),
        processes: view.table("process").unwrap_or_default(),
        public: view.path("public").unwrap_or_else(|| "public".into()),
        static_files: view.bool("static_files"),
        static_max_age: view.time_or_off("static_max_age"),
        x_sendfile: view.bool("x_sendfile"),
        queue_max: view.count("queue_max"),
        queue_timeout: view.time("queue_timeout"),
        app_soft_timeout: view.time_or_off("app_soft_timeout"),
        app_hard_timeout: view.time_or_off("app_hard_timeout"),
        after_reply_hold: view.time_or_off("after_reply_hold"),
        start_timeout: view.time("start_timeout"),
        drain_timeout: view.time("drain_timeout"),
        ready_paths: ready_paths(view),
        warm_requests: view.count("warm_requests"),
        keep_previous: view.time_or_off("keep_previous"),
        max_body: view.number_or_off("max_body"),
        body_memory: view.count("body_memory"),
        buffer_requests: view.bool("buffer_requests"),
        response_memory: view.count("response_memory"),
        response_spool: view.number("response_spool"),
        early_hints: view.bool("early_hints"),
        log_skip: view.list("log_skip").iter().filter_map(|text| Skip::parse(text)).collect(),
        redirect_https: view.bool("redirect_https"),
        hsts: view.time_or_off("hsts"),
        hsts_subdomains: view.bool("hsts_subdomains"),
        compress: view.bool("compress").then(|| compression(view)),
        parts: SiteParts::of(view, is_upstream),
        server_timing: view.bool("server_timing"),
        puma_config: puma_config(view.given("puma_config"), &root, view.environment()),
        on_demand: view.bool("on_demand"),
        provenance: Default::default(),
        root,
    }
}

/// Paths that a new generation is asked for before it gets traffic, in this order until the application has one.
fn ready_paths(view: &View) -> Vec<String> {
    match view.text("ready_path").as_deref() {
        None | Some("off") => Vec::new(),
        Some("auto") => vec!["/up".into(), "/".into()],
        Some(path) => vec![path.into()],
    }
}

fn compression(view: &View) -> Settings {
    let effort = match view.text("compress_effort").as_deref() {
        Some("fast") => Effort::Fast,
        Some("small") => Effort::Small,
        _ => Effort::Balanced,
    };
    Settings { effort, min: view.number("compress_min") }
}

fn worker_limits(view: &View) -> WorkerLimits {
    WorkerLimits {
        worker: view.number_or_off("worker_memory"),
        worker_hard: view.number_or_off("worker_memory_hard"),
        site: view.number_or_off("site_memory"),
        site_hard: view.number_or_off("site_memory_hard"),
        requests: view.number_or_off("max_requests").filter(|number| *number > 0),
        requests_jitter: view.number("max_requests_jitter"),
    }
}

fn tuning(view: &View) -> RubyTuning {
    RubyTuning {
        yjit: view.text("yjit").unwrap_or_default(),
        malloc_arenas: view.number_or_off("malloc_arenas").filter(|number| *number > 0),
        jemalloc: view.text("allocator").as_deref() == Some("jemalloc"),
        oob_gc: view.bool("oob_gc"),
        warm_up: view.list("warm_up"),
        compact: view.bool("compact"),
        refork_after: view.number_or_off("refork_after").filter(|number| *number > 0),
    }
}

fn kind(word: &str) -> Option<AppKind> {
    match word {
        "rails" => Some(AppKind::Rails),
        "rack" => Some(AppKind::Rack),
        "sinatra" => Some(AppKind::Sinatra),
        "files" => Some(AppKind::Files),
        _ => None,
    }
}

/// The file named, or the one at Puma's usual places.
pub fn puma_config(given: Option<&Value>, root: &Path, environment: &str) -> Option<std::path::PathBuf> {
    match given {
        Some(Value::Path(path)) => Some(root.join(path)),
        Some(_) => None,
        None => [format!("config/puma/{environment}.rb"), "config/puma.rb".into()]
            .into_iter()
            .map(|path| root.join(path))
            .find(|path| path.is_file()),
    }
}

/// A folder's name as a site's name. Capistrano's `current` says nothing, its parent does.
pub fn folder_name(root: &Path) -> String {
    let own = root.file_name();
    let telling = if own.is_some_and(|name| name == "current") { root.parent().and_then(Path::file_name) } else { own };
    telling.or(own).map_or_else(|| "app".into(), |name| name.to_string_lossy().into_owned())
}

/// Refuses two sites that claim the same host, two that answer every host, and gives unnamed sites names of their own.
pub fn check_sites(sites: &mut [SiteConfig], tables: &[TomlTable]) -> Vec<String> {
    let mut problems = Vec::new();
    for later in 1..sites.len() {
        let (before, rest) = sites.split_at_mut(later);
        let site = &mut rest[0];
        let at = |key: &str| tables.get(later).map_or_else(String::new, |table| table.place(key));
        if site.hosts.is_empty() {
            if let Some(other) = before.iter().find(|other| other.hosts.is_empty()) {
                let why = format!(
                    "{}site {:?} and site {:?} both have no host: only one site can answer all other hosts; add host = ... to one of them",
                    at("host"),
                    site.name,
                    other.name
                );
                problems.push(why);
            }
        }
        for host in &site.hosts {
            if let Some(other) = before.iter().find(|other| other.hosts.contains(host)) {
                problems.push(format!("{}host {host:?} already belongs to site {:?}", at("host"), other.name));
            }
        }
        if before.iter().any(|other| other.name == site.name) {
            if tables.get(later).is_some_and(|table| table.layer.has("name")) {
                problems.push(format!("{}another site is already named {:?}", at("name"), site.name));
            } else {
                let free = (2..)
                    .map(|n| format!("{}-{n}", site.name))
                    .find(|name| before.iter().all(|other| other.name != *name));
                site.name = free.unwrap_or_default();
            }
        }
    }
    problems
}
