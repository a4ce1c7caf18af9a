//! Every setting, defined once: its key in paceline.toml, type, default, variables, flags and documentation.
//! The TOML reader, the command line and docs/configuration.md are made from this table. It never reads a value.

use std::time::Duration;

use super::{
    bind, control_web,
    option_checks::{
        account, collector, directory, email, environment, exact_host, host_name, ready_path, share, site_name,
        upstream, warm_up,
    },
    options_outbound::OUTBOUND_OPTIONS,
    trusted,
    value::{anything, From, Kind},
};
pub use super::{
    groups::*,
    option::{Opt, Preset, Scope},
};

/// Every setting.
pub fn all() -> impl Iterator<Item = &'static Opt> {
    OPTIONS.iter().chain(OUTBOUND_OPTIONS)
}

pub fn named(key: &str) -> Option<&'static Opt> {
    all().find(|option| option.key == key)
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
    Opt::new(Server, LISTEN, "bind", Kind::List { check: bind::check },
        "Address to listen on: tcp://HOST:PORT, https://HOST:PORT with the certificates of [[tls]], ssl://HOST:PORT?cert=FILE&key=FILE, \
        h2c://HOST:PORT for nothing but HTTP/2 without TLS, \
        unix:///PATH (with ?umask=0111 if wanted) or an IP address that takes the port from `port`. With ?proxy_protocol=1 each connection begins \
        with a PROXY protocol header, version 1 or 2. May be given several times.")
        .preset(Unset("`address` and `port`")).common(Some('b'), "bind")
        .risk("An address beyond loopback lets other machines in, also in development, where error pages show source code. \
        Only the socket file's permissions guard a Unix socket."),
    Opt::new(Server, LISTEN, "port", Kind::Int { min: 0, max: 65_535 },
        "TCP port to listen on; 0 takes a free one. Without an address it is served on loopback only.")
        .fixed("3000").env(&["PORT", "HTTP_PORT"]).common(Some('p'), "port")
        .risk("A platform that sets PORT usually expects HOST=0.0.0.0 too."),
    Opt::new(Server, LISTEN, "address", Kind::Text { check: bind::check_address },
        "IP address for `port`. 0.0.0.0 listens on every IPv4 address of the machine, :: on IPv6 too.")
        .fixed("127.0.0.1").env(&["BINDING", "HOST"]).flag("address").alias(&["host"])
        .risk("As with `bind`: anything but loopback lets other machines in."),

    Opt::new(OneCertificate, TLS, "cert", path(From::Settings),
        "PEM file of the certificate, followed by its chain. Its names decide for which hosts it is shown; the first [[tls]] is shown to all others. \
        Read again when it changes."),
    Opt::new(OneCertificate, TLS, "key", path(From::Settings),
        "PEM file of the certificate's private key, without a passphrase.")
        .risk("Whoever can read it can pose as this server: keep it at mode 0600."),
    Opt::new(Server, TLS, "tls_handshake_timeout", time(100, 600),
        "How long a client may take for the TLS handshake.").fixed("10s").flag("tls-handshake-timeout"),

    Opt::new(Site, TLS, "tls", Kind::Enum(&["files", "auto"]),
        "With \"auto\" each host of the site gets a certificate by itself (ACME), which is renewed ahead of time; this agrees to the authority's \
        terms of service. With \"files\" the certificates are those of [[tls]] and of the addresses. A file that has [[tls]] says it in its [[site]]s.")
        .fixed("files")
        .risk("The authority must reach this server by the host's name, on port 80 or 443. Names with a certificate are public (certificate transparency)."),
    Opt::new(Server, TLS, "acme_email", Kind::Text { check: email },
        "Address that the certificate authority may write to.").flag("acme-email"),
    Opt::new(Server, TLS, "acme_directory", Kind::Text { check: directory },
        "The certificate authority: the URL of its ACME directory (RFC 8555). https://acme-staging-v02.api.letsencrypt.org/directory is for trying things out.")
        .fixed("https://acme-v02.api.letsencrypt.org/directory").env(&["ACME_DIRECTORY"]).flag("acme-directory"),
    Opt::new(Server, TLS, "acme_ca_file", path(From::Settings),
        "PEM file of the root that the authority's own address is trusted by, when it is a private one.")
        .preset(Unset("the roots of this machine")).flag("acme-ca-file"),
    Opt::new(Server, TLS, "acme_dir", path(From::Settings),
        "Folder for the account key and the certificates, made with mode 0700.")
        .preset(Unset("acme in systemd's STATE_DIRECTORY; for root /var/lib/paceline/acme; otherwise paceline/acme in XDG_STATE_HOME or ~/.local/state"))
        .flag("acme-dir")
        .risk("Whoever can read it can pose as this server. Without it every start asks for new certificates, which authorities limit: keep it across deployments."),

    Opt::new(Site, TLS, "redirect_https", Kind::Bool,
        "Answer requests over http with a redirect to the same address over https (301 to GET and HEAD, otherwise 308).")
        .fixed("false").flag("redirect-https")
        .risk("Behind a proxy that does TLS and is not in `trusted_proxies`, or does not say so in X-Forwarded-Proto, browsers go in a circle."),
    Opt::new(Site, TLS, "hsts", time_or_off(0, 10 * 365 * DAY),
        "Tell browsers over https to use nothing else for so long (max-age of Strict-Transport-Security), like \"1y\"; \"0s\" takes it back. \
        A header of the application's own stands.")
        .fixed("off").flag("hsts")
        .risk("Browsers remember it: without TLS the site can't be reached by them until it has run out."),
    Opt::new(Site, TLS, "hsts_subdomains", Kind::Bool,
        "Say the same for every name below the host (includeSubDomains).").fixed("false").flag("hsts-subdomains"),

    Opt::new(Server, HTTP2, "http2", Kind::Bool,
        "Serve HTTP/2: over TLS to clients that ask for it (ALPN), without TLS to those that begin with it (prior knowledge).")
        .fixed("true").flag("http2"),
    Opt::new(Server, HTTP2, "http2_streams", Kind::Int { min: 1, max: 10_000 },
        "Requests that one connection may have under way at once (SETTINGS_MAX_CONCURRENT_STREAMS).").fixed("100").flag("http2-streams")
        .risk("One client may fill so much of the queue, and hold as many response buffers."),
    Opt::new(Server, HTTP2, "http2_header_list", size(1024, 1 << 20),
        "Bytes of one request's headers (SETTINGS_MAX_HEADER_LIST_SIZE); it bounds a header block in CONTINUATION frames too.")
        .fixed("64KB").flag("http2-header-list"),
    Opt::new(Server, HTTP2, "http2_resets", Kind::Int { min: 1, max: 1_000_000 },
        "Requests that a client may take back (RST_STREAM) within ten seconds before they are answered; then its connection is closed.")
        .fixed("200").flag("http2-resets")
        .risk("A large number lets one client start work in vain (rapid reset, CVE-2023-44487)."),
    Opt::new(Server, HTTP2, "http2_pending_resets", Kind::Int { min: 1, max: 10_000 },
        "Requests taken back so quickly that the server has not even seen them; with more of them at once the connection is closed.")
        .fixed("20").flag("http2-pending-resets"),
    Opt::new(Server, HTTP2, "http2_ping_interval", time_or_off(1000, DAY),
        "After this long without a sign of life a client is sent a ping.").fixed("30s").flag("http2-ping-interval"),
    Opt::new(Server, HTTP2, "http2_ping_timeout", time(100, 3600),
        "How long the answer to a ping may take before the connection is closed.").fixed("20s").flag("http2-ping-timeout"),
    Opt::new(Server, HTTP2, "http2_idle_timeout", time(100, DAY),
        "After this long without a request a connection is closed.").fixed("3m").flag("http2-idle-timeout"),

    Opt::new(Server, PROXIES, "trusted_proxies", Kind::List { check: trusted::check },
        "Peers whose X-Forwarded-For, -Proto, -Host, -Port and Forwarded headers are believed: addresses, networks like 10.0.0.0/8, \
        \"loopback\", \"private\" (RFC 1918, RFC 4193), \"unix\" (Unix sockets), or \"none\". From all others these headers are removed. \
        When it is given, it also says who may send a PROXY protocol header.")
        .preset(Unset("loopback and unix")).flag("trusted-proxies")
        .risk("A peer in it can pretend to be any client, over https."),

    Opt::new(Server, PROXIES, "proxy_protocol_timeout", time(100, 600),
        "How long the PROXY protocol header of a connection may take, on addresses that want one (`?proxy_protocol=1`).")
        .fixed("5s").flag("proxy-protocol-timeout"),

    Opt::new(Site, APP, "environment", Kind::Text { check: environment },
        "Environment of the application; it is given RACK_ENV, RAILS_ENV and APP_ENV.")
        .fixed("development").env(&["RAILS_ENV", "APP_ENV", "RACK_ENV"]).common(Some('e'), "environment")
        .risk("In development error pages show source code and settings; never let strangers reach it."),
    Opt::new(Site, APP, "workers", Kind::Workers { max: 512 },
        "Worker processes. Of \"MIN:MAX\" there are MIN, and more while requests wait because all threads are busy, as long as there is memory for them; \
        `auto` is one per core, or as many as there is memory for. 0 counts as 1, since the app always runs in a worker.")
        .preset(CoresUpTo(4)).env(&["WEB_CONCURRENCY"]).common(Some('w'), "workers")
        .risk("Each takes the application's memory once more, less what is shared by preloading."),
    Opt::new(Site, APP, "threads", Kind::Threads { max: 1024 },
        "Threads of each worker: so many requests it may have in hand at once. While they only wait for each other (Ruby runs one \
         thread at a time) new requests wait for the young ones, up to 100 ms. Of a \"MIN:MAX\" with MIN below MAX, MIN always go side by side.")
        .fixed("3").env(&["RAILS_MAX_THREADS", "PUMA_MAX_THREADS", "MAX_THREADS"]).common(Some('t'), "threads")
        .risk("Ruby runs one thread at a time: many threads make slow requests slower. The pool of config/database.yml must have as many connections."),
    Opt::new(Site, APP, "preload", Kind::Bool,
        "Load the application once and fork the workers from it, instead of once in each worker.")
        .fixed("true").flag("preload")
        .risk("Connections and threads opened while loading do not survive the fork; reopen them in before_worker_boot."),
    Opt::new(Site, APP, "kind", Kind::Enum(&["rails", "rack", "sinatra", "files"]),
        "What the root holds, when detection gets it wrong.")
        .preset(Unset("detected")).flag("kind"),
    Opt::new(Site, APP, "rackup", path(From::Root),
        "The rackup file (or Sinatra's Ruby file), below the root. On the command line: the argument without a flag.")
        .preset(Unset("config.ru")),
    Opt::new(Site, APP, "ruby", path(From::Search),
        "The Ruby to run: a path, or a name to look up in PATH.")
        .fixed("ruby").flag("ruby"),
    Opt::new(SiteByAdmin, APP, "user", Kind::Text { check: account },
        "User the application runs as, when the server is started as root. Without it that is the owner of the application's directory; \
        if that is root, only the server's single application is started, with a warning. `root` means it.")
        .preset(Unset("the owner of the application's directory")).env(&["PACELINE_USER"]).flag("user")
        .risk("With `root` a hole in the application is a hole in the machine."),
    Opt::new(SiteByAdmin, APP, "group", Kind::Text { check: account },
        "Group the application runs as, when the server is started as root.")
        .preset(Unset("the user's own")).env(&["PACELINE_GROUP"]).flag("group"),
    Opt::new(Site, APP, "env", Kind::Map,
        "Further environment variables of the application. A site's are added to those at the top.")
        .risk("Secrets written here are readable by whoever can read the file."),
    Opt::new(Site, APP, "process", Kind::Processes,
        "Programs that run beside the workers, such as a job queue: [[process]] with command = \"bin/jobs\", of one site as [[site.process]]. \
        Also in it: name, count, env, dir, stop_signal, stop_timeout, restart and restart_with_app; see docs/processes.md. A site's own take the place \
        of those at the top, which every other site gets."),
    Opt::new(Site, APP, "puma_config", Kind::Path { from: From::Root, off: true },
        "File with Puma's Ruby hooks (before_fork, before_worker_boot ...) to run, below the root. Without a paceline.toml its settings count too.")
        .preset(Unset("config/puma/ENVIRONMENT.rb or config/puma.rb, where it exists")),
    Opt::new(Site, APP, "on_demand", Kind::Bool,
        "Start the application when its first request comes, not with the server.")
        .fixed("false").flag("on-demand")
        .risk("The first visitor waits for the start."),

    Opt::new(Site, RUBY, "yjit", Kind::Enum(&["auto", "on", "off"]),
        "Ruby's compiler YJIT, where the Ruby has it. With \"auto\" it is switched on after the application has been loaded, by Ruby 3.3 and newer, outside development and test; \
        with \"on\" from the start, by Ruby 3.1 and 3.2 too. RUBYOPT, RUBY_YJIT_ENABLE and the application's own `config.yjit` win.")
        .fixed("auto").flag("yjit")
        .risk("Compiled code takes memory; before Ruby 3.2 YJIT was an experiment."),
    Opt::new(Site, RUBY, "malloc_arenas", Kind::Int { min: 0, max: 1024 },
        "Arenas of the C library's allocator (MALLOC_ARENA_MAX), unless that variable is set; 0 leaves it to the library.")
        .fixed("2").flag("malloc-arenas")
        .risk("Many arenas take memory that is never given back."),
    Opt::new(Site, RUBY, "allocator", Kind::Enum(&["system", "jemalloc"]),
        "The allocator of Ruby's processes. \"jemalloc\" loads libjemalloc.so.2 (Debian: libjemalloc2) by LD_PRELOAD where it is installed.")
        .fixed("system").flag("allocator"),
    Opt::new(Site, RUBY, "gc", Kind::Enum(&["auto", "app"]),
        "With \"auto\" Ruby's heap grows in small steps (RUBY_GC_HEAP_GROWTH_FACTOR=1.1 instead of 1.8) from the size that the application had when it was last loaded; \
        with \"app\" it is left alone. Any RUBY_GC_ variable of yours leaves it alone too.")
        .preset(ByEnvironment { development: "app", other: "auto" }).flag("gc"),
    Opt::new(Site, RUBY, "oob_gc", Kind::Bool,
        "Collect garbage between requests, when a worker has nothing to do, nobody waits and Ruby would do it soon anyway.")
        .preset(ByEnvironment { development: "false", other: "true" }).flag("oob-gc"),
    Opt::new(Site, RUBY, "warm_up", Kind::List { check: warm_up },
        "Paths that the preloader asks the application for (GET) before it forks, so that what first requests load and compile is shared by all workers. \
        An answer of 500 or an exception is told; the start goes on.")
        .flag("warm-up")
        .risk("The requests are real: name pages that change nothing. They open connections and may start threads in the process that is forked."),
    Opt::new(Site, RUBY, "compact", Kind::Bool,
        "Compact Ruby's heap before the fork (GC.compact), where Ruby's own `Process.warmup` (3.3) does not.")
        .fixed("false").flag("compact")
        .risk("A C extension that does not know of moving objects can crash."),
    Opt::new(Site, RUBY, "refork_after", Kind::Int { min: 0, max: 1_000_000_000 },
        "When a worker has answered so many requests, fork all workers anew from it, once after each start: they share what its requests have loaded, compiled \
        and cached. The worker first makes sure that a fork does no harm (no thread, connection or program of the application's is left in it); if one is, \
        it goes on as before and the log names it. 0: never. Puma's `fork_worker`.")
        .fixed("0").flag("refork-after")
        .risk("What C libraries keep to themselves (threads, handles) is not seen: end it in `before_refork` of config/puma.rb. Data that a request \
        left in a variable is in all later workers."),

    Opt::new(Site, RESTARTS, "ready_path", Kind::Text { check: ready_path },
        "Path that a new generation is asked for, over its workers and without a visitor, before it takes over from the old one: with an answer of 5xx, an exception \
        or no answer within `start_timeout` it has failed, and the old one goes on. `auto` is /up, or / if the application has no /up; `off` asks for nothing.")
        .preset(ByEnvironment { development: "off", other: "auto" }).flag("ready-path")
        .risk("The request is real: name a page that changes nothing."),
    Opt::new(Site, RESTARTS, "warm_requests", Kind::Int { min: 0, max: 1000 },
        "Pages that a new generation is asked for before it takes over, the most requested ones of those that the page cache keeps for everybody. \
        What it answers is thrown away. In ten seconds at most; 0 is none.")
        .preset(ByEnvironment { development: "0", other: "10" }).flag("warm-requests"),
    Opt::new(Site, RESTARTS, "drain_timeout", time(0, DAY),
        "How long the last requests of a worker may take that is replaced: after a restart, when the pool shrinks, when another of its threads is stuck.")
        .fixed("30s").flag("drain-timeout")
        .risk("What takes longer is cut off. Until then two generations are in memory."),
    Opt::new(Site, RESTARTS, "keep_previous", time_or_off(0, 30 * DAY),
        "How long after a restart the preloader of the generation before stays, so that `paceline rollback` needs no boot. Its workers end.")
        .preset(ByEnvironment { development: "off", other: "10m" }).flag("keep-previous")
        .risk("It takes the memory of a loaded application meanwhile."),

    Opt::new(Site, MEMORY, "worker_memory", bytes_or_off(1 << 20, TB),
        "When a worker has more memory than this for itself (private dirty pages, swapped out ones included; never RSS), another takes its place, and it ends when \
        it has answered what it has in hand. One at a time, the largest first. See docs/memory.md.").fixed("off").flag("worker-memory")
        .risk("Less than the application needs makes workers come and go; then the log says what it needs."),
    Opt::new(Site, MEMORY, "worker_memory_hard", bytes_or_off(1 << 20, TB),
        "A worker with more than this for itself is ended at once: of its requests GET, HEAD, OPTIONS, TRACE, PUT and DELETE are given to another one, others get 502.")
        .fixed("off").flag("worker-memory-hard")
        .risk("Work half done stays half done: let `worker_memory` be well below it."),
    Opt::new(Site, MEMORY, "site_memory", bytes_or_off(1 << 20, TB),
        "The same as `worker_memory` for what all workers of the site have together: the largest is replaced first.").fixed("off").flag("site-memory"),
    Opt::new(Site, MEMORY, "site_memory_hard", bytes_or_off(1 << 20, TB),
        "The same as `worker_memory_hard` for what all workers of the site have together: the largest is ended.").fixed("off").flag("site-memory-hard"),
    Opt::new(Site, MEMORY, "max_requests", Kind::Int { min: 0, max: 1_000_000_000 },
        "When a worker has answered so many requests, another takes its place, and it ends. One at a time. 0: never.").fixed("0").flag("max-requests")
        .risk("It hides a leak: `paceline memory` names the route."),
    Opt::new(Site, MEMORY, "max_requests_jitter", Kind::Int { min: 0, max: 1_000_000_000 },
        "Each worker takes up to so many requests more, by chance, so that they don't all come to their end together.").fixed("0").flag("max-requests-jitter"),
    Opt::new(Site, MEMORY, "workers_idle", time(100, DAY),
        "With `workers = \"MIN:MAX\"` one that the others could have done without for so long is taken away.").fixed("1m").flag("workers-idle"),

    Opt::new(OneSite, SITES, "name", Kind::Text { check: site_name },
        "Names the site in logs; unique.").preset(Unset("its first host, or the root's folder name")),
    Opt::new(OneSite, SITES, "host", Kind::List { check: host_name },
        "Host names the site answers, without port; *.example.org takes every name below it. Without any it answers what no other site does. May also be written `hosts`.")
        .preset(Unset("every host no other site has")),
    Opt::new(OneSite, SITES, "root", path(From::Settings),
        "The application's directory. Required, unless there is an `upstream`; may be a symbolic link such as Capistrano's `current`."),
    Opt::new(SiteByAdmin, SITES, "upstream", Kind::Text { check: upstream },
        "Hand the site's requests to another HTTP server instead of an application: http://HOST:PORT or http://unix:/PATH. No Ruby is started for it, and it needs no root; \
        files are served ahead of it from `public`, if the site names that or a root. `app_hard_timeout` bounds the wait for its answer.")
        .env(&["PACELINE_UPSTREAM"]).common(None, "upstream")
        .risk("What is sent to it is not encrypted. It is told the client's address in X-Forwarded-For, and has to believe this server alone."),
    Opt::new(Server, SITES, "sites", path(From::Settings),
        "Serve every folder in this directory as a site named by its folder, also those added while running.")
        .common(None, "sites"),

    Opt::new(Site, FILES, "public", path(From::Root),
        "Folder of static files, below the root.").fixed("public").flag("public")
        .risk("Everything in it is given to everybody, except names that begin with a dot."),
    Opt::new(Site, FILES, "static_files", Kind::Bool,
        "Serve files of `public` without Ruby. Beside an application a file whose name is new at the top of `public` is served after half \
         a second at most; until then its requests go to the application.").fixed("true").flag("static-files"),
    Opt::new(Site, FILES, "static_max_age", time_or_off(0, 366 * DAY),
        "max-age in Cache-Control of static files without a fingerprint in their name (with one it is a year).")
        .fixed("off").flag("static-max-age")
        .risk("Browsers will not ask again for so long, also when the file has changed."),
    Opt::new(Site, FILES, "x_sendfile", Kind::Bool,
        "Send the file that the application names in X-Sendfile or X-Accel-Redirect.")
        .fixed("true").env(&["X_SENDFILE_ENABLED"]).flag("x-sendfile")
        .risk("An application that lets visitors set these headers gives them any file it can read."),

    Opt::new(Site, FILES, "compress", Kind::Bool,
        "Compress responses with zstd, Brotli or gzip, whichever the browser prefers: text, JSON, XML, JavaScript, SVG and the like. \
        What the application flushes reaches the browser at once all the same. `Cache-Control: no-transform` leaves a response alone.")
        .fixed("true").env(&["GZIP_COMPRESSION_ENABLED"]).flag("compress")
        .risk("A page that shows a visitor's input beside a secret tells its length (BREACH); Rails masks its form tokens against that."),
    Opt::new(Site, FILES, "compress_effort", Kind::Enum(&["fast", "balanced", "small"]),
        "How hard to try: fast is gzip 1, br 2, zstd 1; balanced gzip 5, br 4, zstd 3; small gzip 9, br 8, zstd 12.")
        .fixed("balanced").flag("compress-effort"),
    Opt::new(Site, FILES, "compress_min", size(0, 1 << 30),
        "Smaller bodies are not worth it.").fixed("1KB").flag("compress-min"),

    Opt::new(Site, CACHE, "page_cache", Kind::Bool,
        "Keep responses and give them again, as far as their own Cache-Control allows (RFC 9111), as a CDN would. Each response tells in \
        Cache-Status what was done.").fixed("true").flag("page-cache")
        .risk("A page that says `public` or `max-age` and yet differs from visitor to visitor is shown to all of them: say `private` or `Vary`."),
    Opt::new(Server, CACHE, "cache_size", size(0, TB),
        "Memory for what is kept, of all sites, its index included.").fixed("64MB").flag("cache-size"),
    Opt::new(Server, CACHE, "cache_disk", Kind::Bytes { min: 8 << 20, max: TB, off: true },
        "Keep what is kept on disk as well, at most so much of it: it is there after a restart and after a crash. What an owner's rule keeps \
        for visitors (`[[cache]]`) stays in memory.").fixed("off").flag("cache-disk")
        .risk("Whoever reads the folder reads the pages. While the server starts it reads the file's index."),
    Opt::new(Server, CACHE, "cache_dir", path(From::Settings),
        "Folder for it, made with mode 0700 and for one server at a time.")
        .preset(Unset("tmp/cache/paceline below the root, with one site; otherwise it has to be given")).flag("cache-dir")
        .risk("A server that runs as root takes none where others may write above it."),
    Opt::new(Site, CACHE, "cache_object", size(0, 1 << 30),
        "Larger bodies are not kept.").fixed("4MB").flag("cache-object"),
    Opt::new(Site, CACHE, "cache_stale_if_error", time(0, 365 * DAY),
        "For so long after it has become stale a page may stand in for an error of the application, where it names no stale-if-error of its \
        own and does not forbid it (must-revalidate).").fixed("0s").flag("cache-stale-if-error"),
    Opt::new(Site, CACHE, "cache_obey_requests", Kind::Bool,
        "Clients may ask for a fresh page (Cache-Control: no-cache, max-age=0: what a browser's reload sends).").fixed("true").flag("cache-obey-requests")
        .risk("With true anybody can have a page made anew; with false a reload may show what was there before."),
    Opt::new(Site, CACHE, "cache", Kind::CacheRules,
        "The stubborn mode: pages that say `private` or `max-age=0` are kept all the same for a while, one for each visitor. A rule has `path` \
        (`*` stands for anything), `ttl`, `cookies = [\"_session\"]` (those that tell visitors apart; one page is kept for each of their values), \
        `ignore_cookies = [\"consent_*\"]` (those that no page depends on; `*` at the end stands for anything), \
        `set_cookie` (`refuse`: a response that sets a cookie is not kept; `strip`: it is kept without), `no_cache = true` (also what says \
        no-cache), `stale_while_revalidate` and `stale_if_error`. The first rule that covers a path counts. What says no-store is never kept. \
        After a POST, PUT, PATCH or DELETE what was kept for that visitor is dropped. In a site: [[site.cache]].")
        .risk("What a visitor's page depends on and the rule does not name (another cookie, his address) is taken from whoever came first; \
        a rule without `cookies` answers only visitors who bring no cookie but those of `ignore_cookies` and well-known analytics. \
        Requests with Authorization or an API key are never answered by a rule."),
    Opt::new(Site, CACHE, "esi", Kind::Bool,
        "Put pages together from fragments (ESI 1.0) where a response asks for it by Surrogate-Control: content=\"ESI/1.0\". Needs `page_cache`; \
        what is included is asked for in parallel, and kept by its own rules. See docs/esi.md.").fixed("true").flag("esi"),
    Opt::new(Site, CACHE, "esi_hosts", Kind::List { check: exact_host },
        "Other sites of this server that pages may include, by their hosts. Anything else than the site itself and these is refused.")
        .preset(Unset("none")).flag("esi-hosts")
        .risk("Whoever can write an include into a page (a comment that is not escaped) can show what these sites answer to anybody."),

    Opt::new(Site, LIMITS, "queue_max", Kind::Int { min: 0, max: 1_000_000 },
        "Requests that may wait for a worker thread; further ones get 503.").fixed("1000").flag("queue-max")
        .risk("A long queue only makes an overloaded site slow for all."),
    Opt::new(Site, LIMITS, "queue_timeout", time(1, DAY),
        "How long a request may wait for a worker thread before it gets 503.").fixed("30s").flag("queue-timeout"),
    Opt::new(Site, LIMITS, "app_soft_timeout", time_or_off(1, 7 * DAY),
        "After this long in the application the request's Ruby backtrace is logged; nothing else happens.")
        .fixed("30s").flag("app-soft-timeout"),
    Opt::new(Site, LIMITS, "app_hard_timeout", time_or_off(1, 7 * DAY),
        "After this long without an answer from the application the request gets 504 and its worker is replaced.")
        .preset(ByEnvironment { development: "off", other: "60s" }).flag("app-hard-timeout")
        .risk("The worker's other requests are cut off with it, and work half done stays half done. With `off` a stuck request holds its thread for ever."),
    Opt::new(Site, LIMITS, "upstream_connect_timeout", time(1, 3600),
        "How long a connection to the `upstream` may take before the request gets 504.").fixed("5s").flag("upstream-connect-timeout"),
    Opt::new(Site, LIMITS, "start_timeout", time(100, DAY),
        "How long the application may take to start.").fixed("2m").flag("start-timeout"),
    Opt::new(Server, LIMITS, "shutdown_delay", time(0, DAY),
        "How long after TERM or INT new connections are still taken, while readiness says `draining`: for a load balancer that \
        has to notice first.").fixed("0s").flag("shutdown-delay"),
    Opt::new(Server, LIMITS, "upgrade_timeout", time(100, DAY),
        "How long a new program may take until it serves in place of this one (USR2, `paceline upgrade`). After that this one goes on.")
        .fixed("5m").flag("upgrade-timeout"),
    Opt::new(Server, LIMITS, "shutdown_timeout", time(0, DAY),
        "How long requests under way may take after TERM or INT before they are cut off.")
        .fixed("30s").flag("shutdown-timeout")
        .risk("A supervisor such as systemd or Kubernetes may kill the server before that; give it more time than this."),

    Opt::new(Site, BODIES, "max_body", Kind::Bytes { min: 1, max: 1024 * TB, off: true },
        "Largest request body; larger ones get 413.").fixed("off").env(&["MAX_REQUEST_BODY"]).flag("max-body")
        .risk("With `off` an upload may fill the disk that holds temporary files."),
    Opt::new(Site, BODIES, "body_memory", size(0, 1 << 30),
        "Request bodies up to this stay in memory, larger ones go to a temporary file.").fixed("64KB").flag("body-memory")
        .risk("It counts once for every request under way."),
    Opt::new(Site, BODIES, "buffer_requests", Kind::Bool,
        "Receive a request's whole body before a worker thread is taken.").fixed("true").flag("buffer-requests")
        .risk("With false a slow upload holds a worker thread."),
    Opt::new(Site, BODIES, "early_hints", Kind::Bool,
        "Offer `rack.early_hints` to the application: Rails then sends 103 with the assets of a page ahead of it.")
        .fixed("false").flag("early-hints")
        .risk("Some old clients and proxies take a 103 for the response."),
    Opt::new(Server, BODIES, "buffer_memory", size(0, TB),
        "Memory that all bodies together may take while they wait for slow clients or are being received; beyond it they go to temporary files at once.")
        .fixed("256MB").flag("buffer-memory")
        .risk("With little of it many slow clients cost disk writes."),
    Opt::new(Site, BODIES, "response_memory", size(1024, 1 << 32),
        "Bytes of a response held in memory for a slow client; more goes to a temporary file.").fixed("1MB").flag("response-memory")
        .risk("It counts once for every slow client."),
    Opt::new(Site, BODIES, "response_spool", size(0, 1024 * TB),
        "Bytes of a response in its temporary file before its worker thread has to wait for the client.").fixed("1GB").flag("response-spool")
        .risk("It counts once for every slow client."),

    Opt::new(Server, CLIENTS, "max_connections", Kind::Int { min: 1, max: 10_000_000 },
        "Connections of clients at a time; further ones get 503 and are closed.").fixed("20000").flag("max-connections")
        .risk("Each needs a file descriptor: see LimitNOFILE of systemd or ulimit -n."),
    Opt::new(Server, CLIENTS, "max_connections_per_address", Kind::Int { min: 1, max: 10_000_000 },
        "Connections from one address (of IPv6: one /64) at a time; further ones get 503 and are closed.")
        .preset(Unset("no bound")).flag("max-connections-per-address")
        .risk("Many people may share an address, and behind a proxy all do. Without a bound one client can take all of max_connections."),
    Opt::new(Site, CLIENTS, "rate_limit", Kind::Rates,
        "How often one address (that of the client, if a trusted proxy tells it) may ask for paths that begin so; what is more gets 429 with Retry-After. `path = \"/login\"`, \
        `rate = \"5/s\"` (or /m, /h), `burst = 10` (how many at once; the rate's number if not given). In a site: [[site.rate_limit]].")
        .flag("rate-limit")
        .risk("Many people may share an address, and behind a proxy that is not in trusted_proxies all do."),
    Opt::new(Server, CLIENTS, "max_uri", size(256, 60 << 10),
        "Longest request target (path and query); longer ones get 414.").fixed("8KB").flag("max-uri"),
    Opt::new(Server, CLIENTS, "max_header_bytes", size(1024, 1 << 20),
        "All header fields of a request together; more get 431.").fixed("32KB").flag("max-header-bytes")
        .risk("A client may make the server hold so much for each connection."),
    Opt::new(Server, CLIENTS, "max_headers", Kind::Int { min: 10, max: 10_000 },
        "Header fields of a request; more get 431.").fixed("100").flag("max-headers"),
    Opt::new(Server, CLIENTS, "head_timeout", time(10, DAY),
        "How long a request head may take from its first byte to its last before it gets 408, and a new connection before its first byte.")
        .fixed("30s").flag("head-timeout"),
    Opt::new(Server, CLIENTS, "keepalive_timeout", time(10, DAY),
        "How long a connection is kept open between an answer and the next request.")
        .fixed("60s").flag("keepalive-timeout")
        .risk("A proxy in front has to close its idle connections earlier than this, or it will send requests to closed ones."),
    Opt::new(Server, CLIENTS, "body_timeout", time(10, DAY),
        "In each such time of waiting for a request body, `body_progress` bytes of it have to come; else it gets 408. \
        Only waiting counts: a long upload may take as long as it needs.").fixed("20s").flag("body-timeout"),
    Opt::new(Server, CLIENTS, "body_progress", size(1, 1 << 20),
        "Bytes of a request body that have to come in each `body_timeout`.").fixed("1KB").flag("body-progress"),
    Opt::new(Server, CLIENTS, "write_timeout", time(10, DAY),
        "A client that takes nothing of its answer for so long is let go.").fixed("60s").flag("write-timeout"),

    Opt::new(Server, LOGS, "log_requests", Kind::Bool,
        "Write an access log.").fixed("true").env(&["LOG_REQUESTS"]).common(Some('v'), "log-requests"),
    Opt::new(Server, LOGS, "access_log_format", Kind::Enum(&["combined", "json"]),
        "Apache's combined format followed by durations, or one JSON object a line.")
        .preset(Unset("combined; json where `log_format` is json")).flag("access-log-format"),
    Opt::new(Server, LOGS, "log_format", Kind::Enum(&["text", "json"]),
        "How the server's events and what applications print are written: as lines for people, or one JSON object a line, with the event's name.")
        .fixed("text").flag("log-format"),
    Opt::new(Server, LOGS, "access_log", path(From::Settings),
        "File of the access log, reopened on HUP.").preset(Unset("standard output")).flag("access-log").alias(&["redirect-stdout"])
        .risk("Addresses and query strings of visitors are personal data."),
    Opt::new(Server, LOGS, "app_log", path(From::Settings),
        "File of the server's events and of what applications print, reopened on HUP.").preset(Unset("standard error")).flag("app-log").alias(&["redirect-stderr"]),
    Opt::new(Server, LOGS, "log_max_size", Kind::Bytes { min: 4 << 10, max: TB, off: true },
        "A log file that has become so large is renamed to access.log.1, the one before to access.log.2 and so on, and a new one is begun.")
        .fixed("off").flag("log-max-size"),
    Opt::new(Server, LOGS, "log_keep", Kind::Int { min: 1, max: 1000 },
        "Old log files that stay, where `log_max_size` makes them.").fixed("5").flag("log-keep"),
    Opt::new(Site, LOGS, "server_timing", Kind::Bool,
        "Tell the browser how long each step took, in a Server-Timing header.").fixed("false").flag("server-timing")
        .risk("Timings can tell a stranger what exists (a user, a cached page)."),

    Opt::new(Server, PROCESS, "pidfile", path(From::Settings),
        "File that holds the server's process id while it runs.").env(&["PIDFILE"]).common(None, "pidfile"),
    Opt::new(Server, PROCESS, "control", Kind::Path { from: From::Settings, off: true },
        "Unix socket for purging the page cache and for its statistics (`paceline purge`, `paceline cache stats`, `Paceline.cache`). The application's \
        processes are given its path as PACELINE_CONTROL. Of a folder of plain files alone there is none unless it is named.")
        .preset(Unset("tmp/paceline.sock below the application's root, with several sites below the directory served; .paceline.sock in the folder of `sites`"))
        .env(&["PACELINE_CONTROL"]).flag("control")
        .risk("Whoever may open it can empty the cache and see the addresses of what is in it. Its mode is 0600; it belongs to the application's \
        account if there is exactly one, otherwise to the server's."),
    Opt::new(Server, PROCESS, "control_url", Kind::Text { check: control_web::check_url },
        "Address of the control listener: tcp://127.0.0.1:9293 serves the dashboard and what the control socket answers, over HTTP. Without `control_token` on \
        loopback alone, and for reading alone. unix:///PATH means `control`. See docs/dashboard.md.").flag("control-url")
        .risk("Without a token whoever has an account on this machine can read it: paths of requests, the log's last lines. There is no TLS: from elsewhere go \
        through ssh -L, or a proxy with TLS."),
    Opt::new(Server, PROCESS, "control_token", Kind::Text { check: control_web::check_token },
        "Secret of 16 characters or more that the control listener asks for (Authorization: Bearer), and without which nothing is changed over it.")
        .env(&["PACELINE_CONTROL_TOKEN"]).flag("control-token")
        .risk("Whoever has it can read everything there, empty the cache and restart. On the command line other users of the machine see it: use the variable or the file."),
    Opt::new(Server, PROCESS, "incidents_dir", Kind::Path { from: From::Settings, off: true },
        "Folder that post-mortems of crashes, time-outs and failed starts are kept in, the last 50, each a file of JSON with mode 0600; \
        made with mode 0700 when the first is written. `off` keeps them in memory alone. See docs/incidents.md.")
        .preset(Unset("tmp/paceline/incidents below the root, with one application; otherwise memory alone")).flag("incidents-dir")
        .risk("They hold paths of requests and the last lines of the log. A server that runs as root writes none where others may write above it."),
    Opt::new(Server, TRACES, "otlp_endpoint", Kind::Text { check: collector },
        "OpenTelemetry collector that traces are sent to (OTLP over HTTP, JSON), like http://127.0.0.1:4318. With it each request is a span in its caller's trace \
        (traceparent), and the application is told of it. See docs/monitoring.md.")
        .preset(Unset("no traces, and traceparent goes through unchanged")).env(&["OTEL_EXPORTER_OTLP_ENDPOINT"]).flag("otlp-endpoint"),
    Opt::new(Server, TRACES, "otlp_service_name", TEXT,
        "What traces call this server.").fixed("paceline").env(&["OTEL_SERVICE_NAME"]),
    Opt::new(Server, TRACES, "otlp_sample", Kind::Text { check: share },
        "The share of traces that begin here which is sent, from \"0\" to \"1\". Of others the caller has decided.")
        .fixed("1").env(&["OTEL_TRACES_SAMPLER_ARG"]),
    Opt::new(Server, PROCESS, "tag", TEXT,
        "Text shown in the process title.").preset(Unset("the root's folder name")).common(None, "tag"),
    Opt::new(Server, PROCESS, "front_threads", Kind::Count { max: 256 },
        "Event-loop threads of the front. `auto` is one per core.").fixed("auto").flag("front-threads"),
];
