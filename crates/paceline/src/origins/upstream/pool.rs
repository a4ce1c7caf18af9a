//! An upstream's connections, of each event loop its own: a connection is used by the loop that made it, which alone can
//! move its bytes. How they are made, shared and kept is `client_pool`'s. It never looks at a message.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::Arc,
    thread::{self, ThreadId},
    time::Duration,
};

use client_pool::{Connect, HttpSettings, Limits, Resolver, Trust, Trusts, Way};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{address::Address, failure::Failure, outgoing::Outgoing};

/// How long a connection of HTTP/1.1 is kept without a request. Many servers close theirs after 5 s (Node, Apache,
/// uvicorn): who closes first loses no request.
const KEEP: Duration = Duration::from_secs(4);
/// How long a connection of HTTP/2 is kept, whose servers say that they close.
const KEEP_HTTP2: Duration = Duration::from_secs(60);
/// How many are kept by each event loop.
pub const MAX: usize = 32;

const LIMITS: Limits =
    Limits { connections: usize::MAX, breaker: 0, idle: MAX, keep: KEEP, keep_http2: KEEP_HTTP2, sweeps: true };

type Origin = client_pool::Origin<Outgoing>;
/// A connection that one request has.
pub type Lease = client_pool::Lease<Outgoing>;
pub type Connection = client_pool::Connection<Outgoing>;

/// How an https upstream proves who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file with the certificates that are trusted; None: the system's.
    pub ca_file: Option<PathBuf>,
    /// The name that its certificate must have, which is asked for by SNI; None: the host of its address.
    pub name: Option<String>,
}

/// An upstream's connections.
pub struct Pool {
    pub address: Address,
    way: Way,
    connect_timeout: Duration,
    resolver: Arc<Resolver>,
    trusts: Arc<Trusts>,
    /// By event loop, and whether HTTP/1.1 is wanted.
    origins: Mutex<HashMap<(ThreadId, bool), Arc<Origin>>>,
}

impl Pool {
    pub fn new(address: Address, tls: UpstreamTls, connect_timeout: Duration) -> Pool {
        let trust = Trust { ca_file: tls.ca_file, sni: tls.name, ..Trust::default() };
        Pool {
            address,
            way: Way { trust, ..Way::default() },
            connect_timeout,
            resolver: Arc::default(),
            trusts: Arc::default(),
            origins: Mutex::default(),
        }
    }

    /// A connection for a request. `fresh`: none that has been used. `only_http1`: one that can go on with another
    /// protocol.
    pub async fn lease(&self, fresh: bool, only_http1: bool) -> Result<Lease, Failure> {
        // Without TLS all speak HTTP/1.1, and need not be kept apart.
        let only_http1 = only_http1 && self.address.is_https();
        let until = Instant::now() + self.connect_timeout;
        let origin = self.origin(only_http1);
        let leased = origin.lease(fresh, false, until).await;
        leased.map_err(|failure| Failure::of_opening(&failure, &self.address, self.connect_timeout))
    }

    fn origin(&self, only_http1: bool) -> Arc<Origin> {
        let key = (thread::current().id(), only_http1);
        self.origins.lock().entry(key).or_insert_with(|| Origin::new(self.connect(only_http1), LIMITS)).clone()
    }

    fn connect(&self, only_http1: bool) -> Connect {
        let (host, port, socket) = match &self.address {
            Address::Tcp { host, port, .. } => (host.clone(), *port, None),
            Address::Unix(path) => ("localhost".into(), 80, Some(path.clone())),
        };
        Connect {
            https: self.address.is_https(),
            host,
            socket,
            port,
            way: Way { only_http1, ..self.way.clone() },
            guard: None,
            resolver: self.resolver.clone(),
            trusts: self.trusts.clone(),
            http: HttpSettings { reads_early_answers: true, ..HttpSettings::default() },
            places: None,
        }
    }
}
