//! The TLS handshake of one connection, within its time, and what was agreed: HTTP/2 or HTTP/1.1 (ALPN, RFC 7301).
//! It never says why a handshake failed: that is the client's affair.

use std::{sync::Arc, time::Duration};

use rustls::{crypto::CryptoProvider, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{server::TlsStream, TlsAcceptor};

use super::Store;
use crate::config::CertificatePair;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Makes TLS connections of those accepted on one listener.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
    store: Arc<Store>,
    timeout: Duration,
}

impl Acceptor {
    /// Err: one line that says which certificate is wrong.
    pub fn new(pairs: &[CertificatePair], timeout: Duration, http2: bool) -> Result<Acceptor, String> {
        let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
        let store = Arc::new(Store::load(pairs, provider.clone())?);
        let failed = |error: rustls::Error| format!("TLS: {error}");
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(store.clone());
        let offered: &[&[u8]] = if http2 { &[HTTP2, HTTP1] } else { &[HTTP1] };
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        // A client that comes again saves a round trip; the keys of tickets are made here and rotate by themselves.
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(failed)?;
        Ok(Acceptor { acceptor: Arc::new(config).into(), store, timeout })
    }

    /// None: there was no TLS to be had with this client, or not in time.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Option<TlsStream<S>> {
        tokio::time::timeout(self.timeout, self.acceptor.accept(stream)).await.ok()?.ok()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }
}

/// Whether client and server agreed on HTTP/2.
pub fn agreed_on_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}
