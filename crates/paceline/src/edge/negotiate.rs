//! A socket that was just accepted, up to where HTTP begins: PROXY header, TLS handshake, and which HTTP is spoken.
//! It never reads a request.

use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::{
    config::{CertificatePair, Config, Listening, ProxyProtocol},
    edge::{h1, h2, proxy_protocol, sniff::PeekedStream, tls},
    exchange::Connection,
    request::front::{drain::Stop, Front},
    support::{admission::Pass, certificate_store::CertificateStore, clock},
};

/// For the end of a connection that was only a handshake.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What the connections of one listener begin with.
#[derive(Clone)]
pub struct ConnectionSetup {
    tls: Option<tls::Acceptor>,
    certificates: Vec<CertificatePair>,
    h2c: bool,
    /// The time for a PROXY header, where there has to be one.
    proxy_protocol: Option<(ProxyProtocol, Duration)>,
}

impl ConnectionSetup {
    /// `automatic`: the certificates that the server gets by itself.
    pub fn new(
        listening: &Listening,
        automatic: Option<&Arc<CertificateStore>>,
        config: &Config,
    ) -> Result<ConnectionSetup, tls::AcceptorError> {
        let certificates = listening.tls.clone().unwrap_or_default();
        let tls = listening.tls.as_ref().map(|pairs| {
            tls::Acceptor::new(pairs, automatic.cloned(), config.tls.handshake_timeout, config.http2.enabled)
        });
        let proxy_protocol = match listening.proxy_protocol {
            ProxyProtocol::Off => None,
            wanted => Some((wanted, config.proxy_protocol_timeout)),
        };
        Ok(ConnectionSetup { tls: tls.transpose()?, certificates, h2c: listening.h2c, proxy_protocol })
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() {
            "https"
        } else {
            "http"
        }
    }

    /// What its owner should know at the start.
    pub fn warnings(&self) -> Vec<String> {
        let exposed = self.certificates.iter().filter(|pair| tls::certificate::is_exposed(&pair.key));
        let words =
            |pair: &CertificatePair| format!("{}: every user of this machine can read this key", pair.key.display());
        exposed.map(words).collect()
    }

    /// Looks at the certificates' files; returns what to log.
    pub fn look(&self) -> Vec<String> {
        self.tls.as_ref().map_or_else(Vec::new, |tls| tls.store().look())
    }
}

/// The two ends of a connection; None on a Unix socket.
pub type Peers = (Option<SocketAddr>, Option<SocketAddr>);

/// Serves what was accepted until it is closed, or until `stop` says so and the exchanges in hand are done.
pub async fn serve<S>(stream: S, peers: Peers, entrance: ConnectionSetup, server: Arc<Front>, stop: Stop)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // Each on the heap, and only while it is needed: an idle connection has no room for what began it, nor for what it
    // is not.
    let served = Box::pin(begin(stream, peers, entrance, server, stop)).await;
    if let Some((_pass, serving)) = served {
        serving.await;
    }
}

/// A connection that speaks HTTP, until its end.
type ServingFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Up to where HTTP begins. None: it does not.
async fn begin<S>(
    stream: S,
    peers: Peers,
    entrance: ConnectionSetup,
    server: Arc<Front>,
    mut stop: Stop,
) -> Option<(Pass, ServingFuture)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut facts = Connection {
        remote: peers.0.map(as_itself),
        local: peers.1.map(as_itself),
        tls: entrance.tls.is_some(),
        accepted: clock::now(),
        ..Connection::default()
    };
    let mut stream = PeekedStream::from(stream);
    if let Some((wanted, time)) = entrance.proxy_protocol {
        let trusted = &server.config.trusted_proxies;
        let is_trusted = !trusted.given || trusted.trusts(facts.remote.map(|remote| remote.ip()));
        let is_optional = wanted == ProxyProtocol::Optional;
        if !is_trusted && !is_optional {
            return None;
        }
        let header = if is_trusted {
            tokio::select! {
                header = timeout(time, proxy_protocol::read(&mut stream)) => header,
                _ = stop.closing() => return None,
            }
        } else {
            Ok(Ok(None))
        };
        match header {
            Ok(Ok(Some(ends))) => (facts.remote, facts.local) = (Some(ends.source), Some(ends.destination)),
            Ok(Ok(None)) => {}
            // Nothing of a header is taken off a connection that has none.
            Ok(Err(error)) if is_optional && error.kind() == std::io::ErrorKind::InvalidData => {}
            Err(_) if is_optional => {}
            // Without its header nobody knows who this is.
            _ => return None,
        }
    }
    let pass = match server.connections.enter(facts.remote.map(|remote| remote.ip())) {
        Ok(pass) => pass,
        Err(full) => {
            server.turned_away(full);
            // Within TLS nobody could read it before a handshake.
            if entrance.tls.is_none() {
                h1::turn_away(stream);
            }
            return None;
        }
    };
    let serving = match &entrance.tls {
        Some(tls) => encrypted(stream, facts, tls, server, stop).await,
        None => plain(stream, facts, entrance.h2c, server, stop).await,
    };
    Some((pass, serving?))
}

/// An IPv4 client of a socket for both families is one of IPv4 to all that follows.
fn as_itself(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

async fn plain<S>(
    mut stream: PeekedStream<S>,
    facts: Connection,
    h2c: bool,
    server: Arc<Front>,
    mut stop: Stop,
) -> Option<ServingFuture>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let sniffed = h2c || server.config.http2.enabled;
    let beginning = timeout(server.config.client.timeouts.head, stream.begins_http2());
    let found = tokio::select! {
        found = beginning, if sniffed => found,
        _ = stop.closing(), if sniffed => return None,
        else => Ok(Ok(false)),
    };
    match found {
        Ok(Ok(true)) => Some(Box::pin(h2::serve(stream, facts, server, stop))),
        Ok(Ok(false)) if !h2c => Some(Box::pin(h1::serve(stream, facts, server, stop))),
        // Gone, silent for too long, or no HTTP/2 where nothing else is spoken.
        _ => None,
    }
}

async fn encrypted<S>(
    stream: PeekedStream<S>,
    mut facts: Connection,
    tls: &tls::Acceptor,
    server: Arc<Front>,
    mut stop: Stop,
) -> Option<ServingFuture>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let agreed = tokio::select! {
        agreed = tls.accept(stream) => agreed,
        _ = stop.closing() => return None,
    };
    let mut stream = agreed?;
    if tls::handshake::was_validation(&stream) {
        let _ = timeout(LAST_WORD, stream.shutdown()).await;
        return None;
    }
    facts.certificate = tls.shown(&stream);
    Some(if tls::handshake::agreed_on_http2(&stream) {
        Box::pin(h2::serve(stream, facts, server, stop))
    } else {
        Box::pin(h1::serve(stream, facts, server, stop))
    })
}
