//! The settings of several machines, in the words of `options`. It never reads a value.

use super::{
    groups::CLUSTER,
    option::{Opt, Scope::Server},
    value::Kind,
};

#[rustfmt::skip]
pub static CLUSTER_OPTIONS: &[Opt] = &[
    Opt::new(Server, CLUSTER, "cluster", Kind::Cluster,
        "The table [cluster] joins the servers of several machines: a purge on one of them reaches all (docs/cluster.md). They meet at a Valkey or Redis, 6.2 or \
        newer.\n\n\
        | key | meaning |\n| --- | --- |\n\
        | `url` | its address: `redis://HOST:PORT/DB`, `rediss://HOST:PORT` (TLS) or `unix:///PATH`, with `USER:PASSWORD@` before the host if it needs them; \
        `redis-sentinel://HOST:PORT,HOST:PORT/NAME` (`rediss-sentinel://`) asks sentinels for the primary; a list is the nodes of a Valkey Cluster |\n\
        | `name` | servers with the same name belong together. Default: `\"paceline\"` |\n\
        | `partition_ttl` | how long a server that can't reach it shows pages from its cache; after that, each is asked from the application. Default: `\"5s\"` |\n\
        | `password_file` | file with the password, in place of one in the URL |\n\
        | `sentinel_password_file` | file with the password of the sentinels, if they have one |\n\
        | `ca_file` | certificates in PEM that are trusted in place of the system's |\n\
        | `shared_cache` | `true`: the servers share their cached pages, too. Default: `false` |\n\
        | `shared_cache_object` | larger pages are not shared. Default: `\"1MB\"` |\n\
        | `shared_cache_time` | how long a request waits for an answer from there, before the application is asked, or a rate limit counts this server's requests \
        alone. Default: `\"20ms\"` |\n\
        | `shared_rate_limits` | `true`: [rate limits](limits.md#rate-limits) count the requests of all servers. Default: `false` |\n\nWithout the table a server is alone.")
        .risk("Anyone who can write there can drop all cached pages of all servers, and so make the applications generate them again. With \
        shared_cache the pages are stored there, too: who can read there can read them, and who can write there can show any page to all visitors."),
];
