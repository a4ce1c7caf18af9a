//! A socket that was just accepted, up to where HTTP begins: the TLS handshake, and which HTTP is spoken.
//! It never reads a request.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

use crate::{
    clock,
    config::{CertificatePair, Config, Listening},
    connection,
    exchange::Connection,
    server::Server,
    tls,
};

/// What the connections of one listener begin with.
#[derive(Clone)]
pub struct Entrance {
    tls: Option<tls::Acceptor>,
    certificates: Vec<CertificatePair>,
}

impl Entrance {
    /// Err: one line that says why there can't be TLS.
    pub fn new(listening: &Listening, config: &Config) -> Result<Entrance, String> {
        let certificates = listening.tls.clone().unwrap_or_default();
        let tls = listening.tls.as_ref().map(|pairs| tls::Acceptor::new(pairs, config.tls.handshake_timeout, false));
        Ok(Entrance { tls: tls.transpose()?, certificates })
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
pub async fn serve<S>(stream: S, peers: Peers, entrance: Entrance, server: Arc<Server>, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let accepted = clock::now();
    let facts = Connection { remote: peers.0, local: peers.1, tls: entrance.tls.is_some(), accepted };
    match &entrance.tls {
        None => connection::serve(stream, facts, server, stop).await,
        Some(tls) => {
            let agreed = tokio::select! {
                agreed = tls.accept(stream) => agreed,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Some(stream) = agreed else { return };
            connection::serve(stream, facts, server, stop).await;
        }
    }
}
