//! Every setting, defined once: its key in paceline.toml, type, default, variables, flags and documentation.
//! The TOML reader, the command line and docs/configuration.md are made from this table. It never reads a value.

use std::{path::Path, time::Duration};

use super::{
    control_address,
    layer::{Layer, View},
    option_checks::{
        account, bind, bind_address, collector, directory, email, environment, host_name, log_skip, ready_path, share,
        site_name, trusted_proxy, warm_up,
    },
    parts,
    value::{anything, From, Kind, Value},
};
pub use super::{
    groups::*,
    option::{Opt, Preset, Scope},
};

/// Every setting.
pub fn all() -> impl Iterator<Item = &'static Opt> {
    OPTIONS.iter().chain(parts::options().into_iter().flatten())
}

/// The keys of those that only root may set for a server that runs as root.
pub fn roots_own() -> impl Iterator<Item = &'static str> {
    all().filter(|option| option.is_roots_own).map(|option| option.key)
}

pub fn named(key: &str) -> Option<&'static Opt> {
    all().find(|option| option.key == key)
}

/// The settings through several layers, the strongest first, down to the defaults.
pub fn view(layers: Vec<&Layer>, cores: usize) -> View<'_> {
    View::new(named, layers, cores)
}

/// Makes relative paths absolute that are meant relative to `base`.
pub fn anchor(layer: &mut Layer, base: &Path) {
    for (key, value) in layer.values_mut() {
        let Some(option) = named(key) else { continue };
        match (option.kind, value) {
            (_, Value::Table(table)) => table.anchor(base),
            (Kind::Path { from: From::Settings, .. }, Value::Path(path)) => *path = base.join(&*path),
            (Kind::Path { from: From::Search, .. }, Value::Path(path)) if path.components().count() > 1 => {
                *path = base.join(&*path);
            }
            _ => {}
        }
    }
}

use Preset::{ByEnvironment, CoresUpTo, Unset};
use Scope::{OneCertificate, OneSite, Server, Site, SiteByAdmin};

const fn time(min_ms: u64, max_s: u64) -> Kind {
    Kind::Duration { min: Duration::from_millis(min_ms), max: Duration::from_secs(max_s), off: false }
}
const fn time_or_off(min_ms: u64, max_s: u64) -> Kind {
    Kind::Duration { min: Duration::from_millis(min_ms), max: Duration::from_secs(max_s), off: true }
}
const fn size(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max, off: false }
}
const fn bytes_or_off(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max, off: true }
}
const fn path(from: From) -> Kind {
    Kind::Path { from, off: false }
}
const TEXT: Kind = Kind::Text { check: anything };
const DAY: u64 = 86_400;
const TB: u64 = 1 << 40;

#[rustfmt::skip]
static OPTIONS: &[Opt] = &[
    Opt::new(Server, LISTEN, "bind", Kind::List { check: bind },
        "Address to listen on, such as tcp://127.0.0.1:8080 or unix:///run/shop.sock. It can be tcp://HOST:PORT, https://HOST:PORT with the certificates of \
        [[tls]], ssl://HOST:PORT?cert=FILE&key=FILE, h2c://HOST:PORT for HTTP/2 without TLS and nothing else, unix:///PATH (?umask=0111 is optional), or an IP \
        address, which gets its port from `port`. [::] takes IPv4 too. With ?proxy_protocol=1 each connection must begin with a PROXY protocol header, version 1 \
        or 2; with ?proxy_protocol=optional it may. Can be given several times.")
        .preset(Unset("`address` and `port`")).common(Some('b'), "bind")
        .risk("An address beyond loopback makes the server reachable from other machines, in development too, where error pages show source code. A Unix socket is \
        protected only by its file permissions."),
    Opt::new(Server, LISTEN, "port", Kind::Int { min: 0, max: 65_535 },
        "TCP port to listen on; 0 picks a free one. Without an address, the server listens on loopback only.")
        .fixed("3000").env(&["PORT", "HTTP_PORT"]).common(Some('p'), "port")
        .risk("A platform that sets PORT usually expects HOST=0.0.0.0 too."),
    Opt::new(Server, LISTEN, "address", Kind::Text { check: bind_address },
        "IP address for `port`. 0.0.0.0 listens on every IPv4 address of the machine, :: on every IPv6 address as well.")
        .fixed("127.0.0.1").env(&["BINDING", "HOST"]).flag("address").alias(&["host"])
        .risk("As with `bind`: an address beyond loopback makes the server reachable from other machines."),

    Opt::new(OneCertificate, TLS, "cert", path(From::Settings),
        "PEM file with the certificate, followed by its chain. The names in the certificate decide which hosts it serves; the first [[tls]] serves all other hosts. \
        The file is read again when it changes."),
    Opt::new(OneCertificate, TLS, "key", path(From::Settings),
        "PEM file with the certificate's private key, without a passphrase.")
        .risk("Anyone who can read it can impersonate this server: keep its mode at 0600."),
    Opt::new(Server, TLS, "https", Kind::Bool,
        "For development: serve https in place of http, with a certificate for localhost and the sites' hosts that the server makes itself, by mkcert's certificate \
        authority if mkcert is installed. Addresses with another certificate keep it.").fixed("false").flag("https"),
    Opt::new(Server, TLS, "tls_handshake_timeout", time(100, 600),
        "Time limit for the TLS handshake of a client.").fixed("10s").flag("tls-handshake-timeout"),

    Opt::new(Site, TLS, "tls", Kind::Enum(&["files", "auto"]),
        "Source of the site's certificates. \"auto\" gets one for each host from a certificate authority (ACME) and renews it before it expires; you agree to the \
        authority's terms of service with it. \"files\" uses the certificates of [[tls]] and of the addresses. In a paceline.toml with [[tls]], set `tls` inside \
        the [[site]]s.")
        .fixed("files")
        .risk("The authority must reach this server by the host's name, on port 80 or 443. Names with a certificate are public (certificate transparency)."),
    Opt::new(Server, TLS, "acme_email", Kind::Text { check: email },
        "Email address for messages from the certificate authority.").flag("acme-email"),
    Opt::new(Server, TLS, "acme_directory", Kind::Text { check: directory },
        "URL of the certificate authority's ACME directory (RFC 8555). Use https://acme-staging-v02.api.letsencrypt.org/directory for tests.")
        .fixed("https://acme-v02.api.letsencrypt.org/directory").env(&["ACME_DIRECTORY"]).flag("acme-directory"),
    Opt::new(Server, TLS, "acme_ca_file", path(From::Settings),
        "PEM file with the root certificate that the authority's own address is verified with, for a private authority.")
        .preset(Unset("this machine's root certificates")).flag("acme-ca-file"),
    Opt::new(Server, TLS, "acme_dir", path(From::Settings),
        "Folder for the account key and the certificates, created with mode 0700.")
        .preset(Unset("acme in systemd's STATE_DIRECTORY; for root /var/lib/paceline/acme; otherwise paceline/acme in XDG_STATE_HOME or ~/.local/state"))
        .flag("acme-dir")
        .risk("Anyone who can read it can impersonate this server. Keep it across deployments: without it, every start requests new certificates, and authorities \
        limit how many you get.").roots_own(),

    Opt::new(Site, TLS, "redirect_https", Kind::Bool,
        "Redirect requests over http to the same address over https (301 for GET and HEAD, otherwise 308), except health checks: GET and HEAD for /up and `ready_path`.")
        .fixed("false").flag("redirect-https")
        .risk("Behind a proxy that terminates TLS, browsers end up in a redirect loop if the proxy is not in `trusted_proxies` or does not send X-Forwarded-Proto."),
    Opt::new(Site, TLS, "hsts", time_or_off(0, 10 * 365 * DAY),
        "Tell browsers to use only https for this long (max-age of Strict-Transport-Security), like \"1y\"; \"0s\" takes it back. Sent over https only. A header \
        from the application is kept.")
        .fixed("off").flag("hsts")
        .risk("Browsers remember it: without TLS they can't reach the site until the time has run out."),
    Opt::new(Site, TLS, "hsts_subdomains", Kind::Bool,
        "Extend `hsts` to every name below the host (includeSubDomains).").fixed("false").flag("hsts-subdomains"),

    Opt::new(Server, HTTP2, "http2", Kind::Bool,
        "Serve HTTP/2: over TLS to clients that offer it (ALPN), without TLS to clients that begin with it (prior knowledge).")
        .fixed("true").flag("http2"),
    Opt::new(Server, HTTP2, "http2_streams", Kind::Int { min: 1, max: 10_000 },
        "Concurrent requests allowed on one connection (SETTINGS_MAX_CONCURRENT_STREAMS).").fixed("100").flag("http2-streams")
        .risk("One client can take this many places in the queue and as many response buffers."),
    Opt::new(Server, HTTP2, "http2_header_list", size(1024, 1 << 20),
        "Size limit for the headers of one request (SETTINGS_MAX_HEADER_LIST_SIZE). It also limits a header block that continues in CONTINUATION frames.")
        .fixed("64KB").flag("http2-header-list"),
    Opt::new(Server, HTTP2, "http2_resets", Kind::Int { min: 1, max: 1_000_000 },
        "Requests that a client may cancel (RST_STREAM) within ten seconds before they are answered; beyond that, its connection is closed.")
        .fixed("200").flag("http2-resets")
        .risk("A large number lets one client start work for nothing (rapid reset, CVE-2023-44487)."),
    Opt::new(Server, HTTP2, "http2_pending_resets", Kind::Int { min: 1, max: 10_000 },
        "Requests that a client may cancel before the server has accepted them, at any one time; beyond that, its connection is closed.")
        .fixed("20").flag("http2-pending-resets"),
    Opt::new(Server, HTTP2, "http2_ping_interval", time_or_off(1000, DAY),
        "Send a ping to a client that has been silent for this long.").fixed("30s").flag("http2-ping-interval"),
    Opt::new(Server, HTTP2, "http2_ping_timeout", time(100, 3600),
        "Close the connection if a ping is not answered within this time.").fixed("20s").flag("http2-ping-timeout"),
    Opt::new(Server, HTTP2, "http2_idle_timeout", time(100, DAY),
        "Close a connection that has had no request for this long.").fixed("3m").flag("http2-idle-timeout"),

    Opt::new(Server, PROXIES, "trusted_proxies", Kind::List { check: trusted_proxy },
        "Peers whose X-Forwarded-For, -Proto, -Host, -Port and Forwarded headers are trusted: addresses, networks like 10.0.0.0/8, \"loopback\", \"private\" (RFC \
        1918, RFC 4193), \"unix\" (Unix sockets), or \"none\". These headers are removed from the requests of all other peers. If it is set, only these peers may \
        send a PROXY protocol header.")
        .preset(Unset("loopback and unix")).flag("trusted-proxies")
        .risk("A trusted peer can pretend to be any client, and to be connected over https."),

    Opt::new(Server, PROXIES, "proxy_protocol_timeout", time(100, 600),
        "Time limit for a connection's PROXY protocol header, on addresses with `?proxy_protocol=1`.")
        .fixed("5s").flag("proxy-protocol-timeout"),

    Opt::new(Site, APP, "environment", Kind::Text { check: environment },
        "The application's environment, passed to it as RACK_ENV, RAILS_ENV and APP_ENV.")
        .fixed("development").env(&["RAILS_ENV", "APP_ENV", "RACK_ENV"]).common(Some('e'), "environment")
        .risk("In development, error pages show source code and settings: keep strangers away from it."),
    Opt::new(Site, APP, "workers", Kind::Workers { max: 512 },
        "Number of worker processes. \"MIN:MAX\" starts MIN workers, and more while requests wait because all threads are busy, if there is memory for them; `auto` \
        is one per core, or as many as there is memory for. 0 counts as 1, since the application always runs in a worker.")
        .preset(CoresUpTo(4)).env(&["WEB_CONCURRENCY"]).common(Some('w'), "workers")
        .risk("Each worker takes the memory of the application once more, except for the part that preloading shares."),
    Opt::new(Site, APP, "threads", Kind::Threads { max: 1024 },
        "Threads of each worker: the number of requests that it handles at the same time. Ruby runs one thread at a time: while a worker's threads only wait for \
        each other, a new request waits until one of them has finished or is 100 ms old. With \"MIN:MAX\" and MIN below MAX, MIN requests always run side by side.")
        .fixed("3").env(&["RAILS_MAX_THREADS", "PUMA_MAX_THREADS", "MAX_THREADS"]).common(Some('t'), "threads")
        .risk("Many threads make slow requests slower, because Ruby runs one thread at a time. The pool in config/database.yml needs as many connections."),
    Opt::new(Site, APP, "stream_threads", Kind::Int { min: 0, max: 1024 },
        "Streams of a worker that do not count as `threads`: event streams, ActionController::Live, bodies that respond to `call`, hijacks, and callbacks after the \
        response (`after_reply_hold`). A spare thread takes the place of each. 0, and unless it is set `threads = 1`: streams hold threads. See docs/streams.md.")
        .fixed("50").flag("stream-threads")
        .risk("With streams the worker runs more than `threads` threads: the pool in config/database.yml needs `threads` + `stream_threads` connections."),
    Opt::new(Site, APP, "preload", Kind::Bool,
        "Load the application once and fork the workers from it, instead of loading it in each worker.")
        .fixed("true").flag("preload")
        .risk("Connections and threads that are opened during loading do not survive the fork; reopen them in before_worker_boot."),
    Opt::new(Site, APP, "kind", Kind::Enum(&["rails", "rack", "sinatra", "files"]),
        "Type of the site, when detection gets it wrong.")
        .preset(Unset("detected")).flag("kind"),
    Opt::new(Site, APP, "rackup", path(From::Root),
        "The rackup file (or Sinatra's Ruby file), below the root. On the command line: the argument without a flag.")
        .preset(Unset("config.ru")),
    Opt::new(Site, APP, "ruby", path(From::Search),
        "The Ruby to run: a path, or a name to look up in PATH.")
        .fixed("ruby").flag("ruby"),
    Opt::new(SiteByAdmin, APP, "user", Kind::Text { check: account },
        "User that the application runs as, when the server is started as root. Without it, the owner of the application's directory is used. If root owns the \
        directory, the application is started only if it is the server's single one, with a warning. Set it to `root` to run as root on purpose.")
        .preset(Unset("the owner of the application's directory")).env(&["PACELINE_USER"]).flag("user")
        .risk("With `root`, a security hole in the application is one in the whole machine.").roots_own(),
    Opt::new(SiteByAdmin, APP, "group", Kind::Text { check: account },
        "Group that the application runs as, when the server is started as root.")
        .preset(Unset("the user's own group")).env(&["PACELINE_GROUP"]).flag("group").roots_own(),
    Opt::new(Site, APP, "env", Kind::Map,
        "More environment variables for the application. A site's variables are added to those at the top.")
        .risk("Anyone who can read the file can read the secrets in it."),
    Opt::new(Site, APP, "puma_config", Kind::Path { from: From::Root, off: true },
        "Puma's configuration file, below the root: its hooks (before_fork, before_worker_boot ...) run, and its settings count where paceline.toml says nothing. See \
        Coming from Puma.")
        .preset(Unset("config/puma/ENVIRONMENT.rb or config/puma.rb, if it exists")),
    Opt::new(Site, APP, "on_demand", Kind::Bool,
        "Start the application with its first request, not with the server.")
        .fixed("false").flag("on-demand")
        .risk("The first visitor waits for the start."),

    Opt::new(Site, RUBY, "yjit", Kind::Enum(&["auto", "on", "off"]),
        "Ruby's YJIT compiler, if the Ruby has it. \"auto\" enables it after the application has loaded, on Ruby 3.3 and newer, outside development and test. \
        \"on\" enables it from the start, on Ruby 3.1 and 3.2 too. RUBYOPT, RUBY_YJIT_ENABLE and the application's own `config.yjit` win.")
        .fixed("auto").flag("yjit")
        .risk("Compiled code takes memory; before Ruby 3.2, YJIT was experimental."),
    Opt::new(Site, RUBY, "malloc_arenas", Kind::Int { min: 0, max: 1024 },
        "Arenas of the C library's allocator (MALLOC_ARENA_MAX), unless that variable is set; 0 keeps the library's default. 2 saves memory in applications \
        whose threads allocate much beside each other.")
        .fixed("0").flag("malloc-arenas"),
    Opt::new(Site, RUBY, "allocator", Kind::Enum(&["system", "jemalloc"]),
        "Memory allocator of the Ruby processes. \"jemalloc\" loads libjemalloc.so.2 (Debian: libjemalloc2) with LD_PRELOAD, if it is installed.")
        .fixed("system").flag("allocator"),
    Opt::new(Site, RUBY, "oob_gc", Kind::Bool,
        "Collect garbage between requests, when a worker is idle, no request waits and Ruby would collect soon anyway.")
        .preset(ByEnvironment { development: "false", other: "true" }).flag("oob-gc"),
    Opt::new(Site, RUBY, "warm_up", Kind::List { check: warm_up },
        "Paths that the preloader requests from the application (GET) before it forks, so that all workers share the code that first requests load and compile. An \
        exception or a status of 500 or more is logged; the start continues.")
        .flag("warm-up")
        .risk("The requests are real: name pages that change nothing. They open connections and may start threads in the process that is forked."),
    Opt::new(Site, RUBY, "compact", Kind::Bool,
        "Compact Ruby's heap before the fork (GC.compact), unless Ruby's own `Process.warmup` (3.3) does it.")
        .fixed("false").flag("compact")
        .risk("A C extension that does not support moving objects can crash."),
    Opt::new(Site, RUBY, "refork_after", Kind::Int { min: 0, max: 1_000_000_000 },
        "When a worker has answered this many requests, fork all workers again from it, once after each start; 0 is never. The new workers share what its requests \
        have loaded, compiled and cached. The worker first checks that a fork is safe (no thread, connection or program of the application is left in it). If it is \
        not safe, the worker continues as before and the log names the reason. Puma's `fork_worker`.")
        .fixed("0").flag("refork-after")
        .risk("Threads and handles inside C libraries are not detected: close them in `before_refork` of config/puma.rb. Data that a request left in a variable is \
        in all later workers."),

    Opt::new(Site, RESTARTS, "ready_path", Kind::Text { check: ready_path },
        "Path that a new generation must answer before it takes over from the old one. Paceline requests it from one of the new workers, without a visitor. After \
        an answer of 5xx, an exception or no answer within `start_timeout` the new generation has failed, and the old one continues. `auto` is /up, or / if the \
        application has no /up; `off` skips the check.")
        .preset(ByEnvironment { development: "off", other: "auto" }).flag("ready-path")
        .risk("The request is real: name a page that changes nothing."),
    Opt::new(Site, RESTARTS, "warm_requests", Kind::Int { min: 0, max: 1000 },
        "Number of pages requested from a new generation before it takes over: the most requested of those that the page cache keeps for everybody. The answers are \
        discarded. The requests take ten seconds at most; 0 turns them off.")
        .preset(ByEnvironment { development: "0", other: "10" }).flag("warm-requests"),
    Opt::new(Site, RESTARTS, "drain_timeout", time(0, DAY),
        "Time limit for the last requests of a worker that is being replaced: after a restart, when the pool shrinks, or when another of its threads is stuck.")
        .fixed("30s").flag("drain-timeout")
        .risk("Longer requests are cut off. Until then two generations are in memory."),
    Opt::new(Site, RESTARTS, "keep_previous", time_or_off(0, 30 * DAY),
        "How long the previous generation's preloader stays after a restart, so that `paceline rollback` needs no boot. Its workers end.")
        .preset(ByEnvironment { development: "off", other: "10m" }).flag("keep-previous")
        .risk("During this time it takes the memory of a loaded application."),

    Opt::new(Site, MEMORY, "worker_memory", bytes_or_off(1 << 20, TB),
        "Replace a worker when its private memory exceeds this (dirty pages, swapped-out ones included; never RSS). The new worker starts first; the old one \
        finishes its current requests and ends. One worker at a time, the largest first. See docs/memory.md.").fixed("off").flag("worker-memory")
        .risk("If this is less than the application needs, workers are replaced all the time; the log then says how much it needs."),
    Opt::new(Site, MEMORY, "worker_memory_hard", bytes_or_off(1 << 20, TB),
        "End a worker at once when its private memory exceeds this. Its GET, HEAD, OPTIONS, TRACE, PUT and DELETE requests go to another worker; other requests get \
        502.")
        .fixed("off").flag("worker-memory-hard")
        .risk("Interrupted work stays half done: set `worker_memory` well below this."),
    Opt::new(Site, MEMORY, "site_memory", bytes_or_off(1 << 20, TB),
        "Like `worker_memory`, for the private memory of all workers of the site together: the largest worker is replaced first.").fixed("off").flag("site-memory"),
    Opt::new(Site, MEMORY, "site_memory_hard", bytes_or_off(1 << 20, TB),
        "Like `worker_memory_hard`, for the private memory of all workers of the site together: the largest worker is ended.").fixed("off").flag("site-memory-hard"),
    Opt::new(Site, MEMORY, "max_requests", Kind::Int { min: 0, max: 1_000_000_000 },
        "Replace a worker when it has answered this many requests, one worker at a time. 0: never.").fixed("0").flag("max-requests")
        .risk("It hides a leak: `paceline memory` names the route that leaks."),
    Opt::new(Site, MEMORY, "max_requests_jitter", Kind::Int { min: 0, max: 1_000_000_000 },
        "Add a random number of requests, up to this one, to `max_requests` of each worker, so that they are not all replaced at the same time.").fixed("0").flag("max-requests-jitter"),
    Opt::new(Site, MEMORY, "workers_idle", time(100, DAY),
        "With `workers = \"MIN:MAX\"`, remove a worker that was not needed for this long.").fixed("1m").flag("workers-idle"),

    Opt::new(OneSite, SITES, "name", Kind::Text { check: site_name },
        "Unique name of the site in logs.").preset(Unset("its first host, or the root's folder name")),
    Opt::new(OneSite, SITES, "host", Kind::List { check: host_name },
        "Host names of the site, without port; *.example.org matches every name below it. A site without `host` answers the hosts that no other site has. Can also \
        be written `hosts`.")
        .preset(Unset("every host that no other site has")),
    Opt::new(OneSite, SITES, "root", path(From::Settings),
        "The application's directory. Required, unless there is an `upstream`. It may be a symbolic link such as Capistrano's `current`."),
    Opt::new(Server, SITES, "sites", path(From::Settings),
        "Serve every folder in this directory as a site with the name of the folder, including folders added later.")
        .common(None, "sites"),

    Opt::new(Site, FILES, "public", path(From::Root),
        "Folder of static files, below the root.").fixed("public").flag("public")
        .risk("Everybody can read every file in it, except names that begin with a dot."),
    Opt::new(Site, FILES, "static_files", Kind::Bool,
        "Serve files of `public` without Ruby. Next to an application, a file with a new name at the top of `public` is served after half a second at most; until \
        then the application gets the requests for it.").fixed("true").flag("static-files"),
    Opt::new(Site, FILES, "static_max_age", time_or_off(0, 366 * DAY),
        "max-age in Cache-Control of static files without a fingerprint in their name (with a fingerprint it is a year).")
        .fixed("off").flag("static-max-age")
        .risk("Browsers do not ask again for this long, even if the file has changed."),
    Opt::new(Site, FILES, "x_sendfile", Kind::Bool,
        "Send the file that the application names in X-Sendfile or X-Accel-Redirect.")
        .fixed("true").env(&["X_SENDFILE_ENABLED"]).flag("x-sendfile")
        .risk("If an application lets visitors set these headers, they can get any file that it can read."),

    Opt::new(Site, FILES, "compress", Kind::Bool,
        "Compress responses with zstd, Brotli or gzip, whichever the browser prefers: text, JSON, XML, JavaScript, SVG and similar types. Data that the application \
        flushes still reaches the browser at once. `Cache-Control: no-transform` turns compression off for a response.")
        .fixed("true").env(&["GZIP_COMPRESSION_ENABLED"]).flag("compress")
        .risk("If a page shows a visitor's input next to a secret, its compressed size can reveal the secret (BREACH). Rails masks its form tokens against that."),
    Opt::new(Site, FILES, "compress_effort", Kind::Enum(&["fast", "balanced", "small"]),
        "Compression level: fast is gzip 1, br 2, zstd 1; balanced gzip 5, br 4, zstd 3; small gzip 9, br 8, zstd 12.")
        .fixed("balanced").flag("compress-effort"),
    Opt::new(Site, FILES, "compress_min", size(0, 1 << 30),
        "Leave smaller bodies uncompressed.").fixed("1KB").flag("compress-min"),

    Opt::new(Site, LIMITS, "queue_max", Kind::Int { min: 0, max: 1_000_000 },
        "Number of requests that may wait for a worker thread; further ones get 503.").fixed("1000").flag("queue-max")
        .risk("A long queue only makes an overloaded site slow for everybody."),
    Opt::new(Site, LIMITS, "queue_timeout", time(1, DAY),
        "How long a request may wait for a worker thread before it gets 503.").fixed("30s").flag("queue-timeout"),
    Opt::new(Site, LIMITS, "app_soft_timeout", time_or_off(1, 7 * DAY),
        "Log the Ruby backtrace of a request that has been in the application for this long; nothing else happens.")
        .fixed("30s").flag("app-soft-timeout"),
    Opt::new(Site, LIMITS, "app_hard_timeout", time_or_off(1, 7 * DAY),
        "Answer 504 and replace the worker if the application has not answered a request after this long.")
        .preset(ByEnvironment { development: "off", other: "60s" }).flag("app-hard-timeout")
        .risk("The worker's other requests are cut off too, and their work stays half done. With `off` a stuck request holds its thread forever."),
    Opt::new(Site, LIMITS, "after_reply_hold", time_or_off(1, DAY),
        "How long `rack.after_reply`, `rack.response_finished` and `body.close` keep their thread from other requests; then a spare thread takes its place.")
        .fixed("1s").flag("after-reply-hold"),
    Opt::new(Site, LIMITS, "start_timeout", time(100, DAY),
        "Time limit for the start of the application.").fixed("2m").flag("start-timeout"),
    Opt::new(Server, LIMITS, "shutdown_delay", time(0, DAY),
        "How long the server still accepts new connections after TERM or INT, while readiness says `draining`, so that a load balancer notices first.").fixed("0s").flag("shutdown-delay"),
    Opt::new(Server, LIMITS, "upgrade_timeout", time(100, DAY),
        "Time limit for a new program to get ready to replace this one (USR2, `paceline upgrade`); if it takes longer, this one continues.")
        .fixed("5m").flag("upgrade-timeout"),
    Opt::new(Server, LIMITS, "shutdown_timeout", time(0, DAY),
        "How long current requests and event streams may take after TERM or INT before they are cut off. Ruby then has 5 s more for `ensure` and shutdown hooks.")
        .preset(ByEnvironment { development: "1s", other: "30s" }).flag("shutdown-timeout")
        .risk("A supervisor such as systemd or Kubernetes may kill the server earlier: give it 10 s more than this."),

    Opt::new(Site, BODIES, "max_body", Kind::Bytes { min: 1, max: 1024 * TB, off: true },
        "Size limit for a request body; larger ones get 413.").fixed("off").env(&["MAX_REQUEST_BODY"]).flag("max-body")
        .risk("With `off`, an upload can fill the disk that holds temporary files."),
    Opt::new(Site, BODIES, "body_memory", size(0, 1 << 30),
        "Request bodies up to this size stay in memory; larger ones go to a temporary file.").fixed("64KB").flag("body-memory")
        .risk("It counts once for every current request."),
    Opt::new(Site, BODIES, "buffer_requests", Kind::Bool,
        "Receive the whole body of a request before it takes a worker thread.").fixed("true").flag("buffer-requests")
        .risk("With false, a slow upload holds a worker thread."),
    Opt::new(Site, BODIES, "early_hints", Kind::Bool,
        "Offer `rack.early_hints` to the application: Rails then sends a page's assets in a 103 response ahead of the page.")
        .fixed("false").flag("early-hints")
        .risk("Some old clients and proxies mistake a 103 for the response."),
    Opt::new(Server, BODIES, "buffer_memory", size(0, TB),
        "Memory limit for all bodies together that are being received or wait for slow clients; beyond it, bodies go straight to temporary files.")
        .fixed("256MB").flag("buffer-memory")
        .risk("If it is small, many slow clients cause disk writes."),
    Opt::new(Site, BODIES, "response_memory", size(1024, 1 << 32),
        "Bytes of a response held in memory for a slow client; the rest goes to a temporary file.").fixed("1MB").flag("response-memory")
        .risk("It counts once for every slow client."),
    Opt::new(Site, BODIES, "response_spool", size(0, 1024 * TB),
        "Bytes of a response in its temporary file before its worker thread has to wait for the client.").fixed("1GB").flag("response-spool")
        .risk("It counts once for every slow client."),

    Opt::new(Server, CLIENTS, "max_connections", Kind::Int { min: 1, max: 10_000_000 },
        "Number of client connections at a time; further ones get 503 and are closed.").fixed("20000").flag("max-connections")
        .risk("Each needs a file descriptor: see LimitNOFILE of systemd or ulimit -n."),
    Opt::new(Server, CLIENTS, "max_connections_per_address", Kind::Int { min: 1, max: 10_000_000 },
        "Number of connections from one address (IPv6: one /64) at a time; further ones get 503 and are closed.")
        .preset(Unset("no limit")).flag("max-connections-per-address")
        .risk("Many people may share an address, and behind a proxy all of them do. Without a limit, one client can take all of max_connections."),
    Opt::new(Server, CLIENTS, "max_uri", size(256, 60 << 10),
        "Length limit for the request target (path and query); longer ones get 414.").fixed("8KB").flag("max-uri"),
    Opt::new(Server, CLIENTS, "max_header_bytes", size(1024, 1 << 20),
        "Size limit for all header fields of a request together; larger ones get 431.").fixed("32KB").flag("max-header-bytes")
        .risk("A client can make the server hold this much for each connection."),
    Opt::new(Server, CLIENTS, "max_headers", Kind::Int { min: 10, max: 10_000 },
        "Number of header fields allowed in a request; more get 431.").fixed("100").flag("max-headers"),
    Opt::new(Server, CLIENTS, "head_timeout", time(10, DAY),
        "Time limit for a request head, from its first byte to its last, before the request gets 408. A new connection has the same time until its first byte.")
        .fixed("30s").flag("head-timeout"),
    Opt::new(Server, CLIENTS, "keepalive_timeout", time(10, DAY),
        "How long a connection stays open between an answer and the next request.")
        .fixed("60s").env(&["PUMA_PERSISTENT_TIMEOUT"]).flag("keepalive-timeout")
        .risk("A proxy in front must close its idle connections earlier than this, or it sends requests on closed ones."),
    Opt::new(Server, CLIENTS, "body_timeout", time(10, DAY),
        "Answer 408 if fewer than `body_progress` bytes of a request body arrive in this much time of waiting. Only waiting counts: a long upload may take as long \
        as it needs.").fixed("20s").flag("body-timeout"),
    Opt::new(Server, CLIENTS, "body_progress", size(1, 1 << 20),
        "Bytes of a request body that must arrive in each `body_timeout`.").fixed("1KB").flag("body-progress"),
    Opt::new(Server, CLIENTS, "write_timeout", time(10, DAY),
        "Close the connection of a client that has not read any of its answer for this long.").fixed("60s").flag("write-timeout"),

    Opt::new(Server, LOGS, "log_requests", Kind::Bool,
        "Write an access log.").fixed("true").env(&["LOG_REQUESTS"]).common(Some('v'), "log-requests"),
    Opt::new(Site, LOGS, "log_skip", Kind::List { check: log_skip },
        "Requests that the access log leaves out, by path, status or both: [\"/assets/*\", \"304\", \"/up 2xx\"].").preset(Unset("none")).flag("log-skip"),
    Opt::new(Server, LOGS, "access_log_format", Kind::Enum(&["combined", "json", "short"]),
        "Apache's combined format followed by durations; one JSON object per line; or a short line for people.")
        .preset(Unset("combined; json if `log_format` is json; short for one application in development, unless `access_log` names a file")).flag("access-log-format"),
    Opt::new(Server, LOGS, "log_format", Kind::Enum(&["text", "json"]),
        "Format of the server's events and of the applications' output: plain lines, or one JSON object per line, with the name of the event.")
        .fixed("text").flag("log-format"),
    Opt::new(Server, LOGS, "access_log", path(From::Settings),
        "File for the access log, reopened on HUP.").preset(Unset("standard output")).flag("access-log").alias(&["redirect-stdout"])
        .risk("Visitors' addresses and query strings are personal data.").roots_own(),
    Opt::new(Server, LOGS, "app_log", path(From::Settings),
        "File for the server's events and the applications' output, reopened on HUP.").preset(Unset("standard error")).flag("app-log").alias(&["redirect-stderr"]).roots_own(),
    Opt::new(Server, LOGS, "log_max_size", Kind::Bytes { min: 4 << 10, max: TB, off: true },
        "Rotate a log file that has reached this size: access.log becomes access.log.1, the previous access.log.1 becomes access.log.2 and so on.")
        .fixed("off").flag("log-max-size"),
    Opt::new(Server, LOGS, "log_keep", Kind::Int { min: 1, max: 1000 },
        "Number of old log files to keep, if `log_max_size` rotates them.").fixed("5").flag("log-keep"),
    Opt::new(Site, LOGS, "server_timing", Kind::Bool,
        "Tell the browser how long each step took, in a Server-Timing header.").fixed("false").flag("server-timing")
        .risk("Timings can reveal to a stranger what exists (a user, a cached page)."),

    Opt::new(Server, PROCESS, "pidfile", path(From::Settings),
        "File that holds the server's process id while it runs.").env(&["PIDFILE"]).common(None, "pidfile").roots_own(),
    Opt::new(Server, PROCESS, "control", Kind::Path { from: From::Settings, off: true },
        "Unix socket for `paceline status`, `purge`, `restart` and the other commands that talk to a running server. The application's processes get its path as \
        PACELINE_CONTROL. A server of plain files alone has no socket unless you set this.")
        .preset(Unset("tmp/paceline.sock below the application's root, with several sites below the directory served; .paceline.sock in the folder of `sites`"))
        .env(&["PACELINE_CONTROL"]).flag("control")
        .risk("Anyone who can open it can restart the applications, empty the cache and see the addresses of the pages in it. Its mode is 0600. It belongs to the \
        application's account if there is exactly one, otherwise to the server's.").roots_own(),
    Opt::new(Server, PROCESS, "control_url", Kind::Text { check: control_address::check_url },
        "Address of the control listener: tcp://127.0.0.1:9293 serves the dashboard and everything that the control socket answers, over HTTP. Without \
        `control_token` it is limited to loopback and to reading. unix:///PATH sets `control` instead. See docs/dashboard.md.").flag("control-url")
        .risk("Without a token, every account on this machine can read request paths and the log's last lines. There is no TLS: from other machines use ssh -L, or \
        a proxy with TLS.").roots_own(),
    Opt::new(Server, PROCESS, "control_token", Kind::Text { check: control_address::check_token },
        "Secret of at least 16 characters that clients of the control listener send (Authorization: Bearer). Without one, the listener only reads.")
        .env(&["PACELINE_CONTROL_TOKEN"]).flag("control-token")
        .risk("Anyone who has it can read everything there, empty the cache and restart. Other users of the machine can see the command line: use the variable or \
        the file."),
    Opt::new(Server, PROCESS, "incidents_dir", Kind::Path { from: From::Settings, off: true },
        "Folder for post-mortems of crashes, time-outs and failed starts. It keeps the last 50, each in a JSON file with mode 0600; the folder is created with mode \
        0700 for the first one. `off` keeps them in memory only. See docs/incidents.md.")
        .preset(Unset("tmp/paceline/incidents below the root, with one application; otherwise memory only")).flag("incidents-dir")
        .risk("They contain request paths and the last lines of the log. A server that runs as root writes none if others can write above the folder.").roots_own(),
    Opt::new(Server, TRACES, "otlp_endpoint", Kind::Text { check: collector },
        "OpenTelemetry collector that receives traces (OTLP over HTTP, JSON), like http://127.0.0.1:4318. Each request becomes a span in its caller's trace \
        (traceparent), and the application gets this span as its parent. See docs/monitoring.md.")
        .preset(Unset("no traces; traceparent is passed on unchanged")).env(&["OTEL_EXPORTER_OTLP_ENDPOINT"]).flag("otlp-endpoint"),
    Opt::new(Server, TRACES, "otlp_service_name", TEXT,
        "Name of this server in traces.").fixed("paceline").env(&["OTEL_SERVICE_NAME"]),
    Opt::new(Server, TRACES, "otlp_sample", Kind::Text { check: share },
        "Share of the traces begun by this server that is sent, from \"0\" to \"1\". For other traces the caller has decided.")
        .fixed("1").env(&["OTEL_TRACES_SAMPLER_ARG"]),
    Opt::new(Server, PROCESS, "tag", TEXT,
        "Text shown in the process title.").preset(Unset("the root's folder name")).common(None, "tag"),
    Opt::new(Server, PROCESS, "front_threads", Kind::Count { max: 256 },
        "Event-loop threads of the front, at most: one takes connections until it has no time left, then another one does, too. `auto` is one per core.").fixed("auto").flag("front-threads"),
];
