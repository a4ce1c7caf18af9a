//! The TLS handshake of one connection, within its time, and what was agreed: HTTP/2 or HTTP/1.1 (ALPN, RFC 7301).
//! It never says why a handshake failed: that is the client's affair.

use std::{sync::Arc, time::Duration};

use rustls::{crypto::CryptoProvider, sign::CertifiedKey, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{server::TlsStream, TlsAcceptor};

use super::{certificate::CertificateError, Store};
use crate::{
    config::CertificatePair,
    support::certificate_store::{CertificateStore, VALIDATION_PROTOCOL},
};

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Why there can't be TLS on a listener.
#[derive(Debug, thiserror::Error)]
pub enum AcceptorError {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Makes TLS connections of those accepted on one listener.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
    store: Arc<Store>,
    timeout: Duration,
}

impl Acceptor {
    pub fn new(
        pairs: &[CertificatePair],
        automatic: Option<Arc<CertificateStore>>,
        timeout: Duration,
        http2: bool,
    ) -> Result<Acceptor, AcceptorError> {
        let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
        let offered: &[&[u8]] = match (http2, automatic.is_some()) {
            (true, true) => &[HTTP2, HTTP1, VALIDATION_PROTOCOL],
            (true, false) => &[HTTP2, HTTP1],
            (false, true) => &[HTTP1, VALIDATION_PROTOCOL],
            (false, false) => &[HTTP1],
        };
        let store = Arc::new(Store::load(pairs, automatic, provider.clone())?);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(store.clone());
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        // A client that comes again saves a round trip; the keys of tickets are made here and rotate by themselves.
        config.ticketer = rustls::crypto::ring::Ticketer::new()?;
        Ok(Acceptor { acceptor: Arc::new(config).into(), store, timeout })
    }

    /// None: there was no TLS to be had with this client, or not in time.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Option<TlsStream<S>> {
        tokio::time::timeout(self.timeout, self.acceptor.accept(stream)).await.ok()?.ok()
    }

    /// The certificate that this connection's client was shown.
    pub fn shown<S>(&self, stream: &TlsStream<S>) -> Option<Arc<CertifiedKey>> {
        self.store.shown(stream.get_ref().1.server_name())
    }

    pub fn store(&self) -> &Store {
        &self.store
    }
}

/// Whether the client only wanted to see a proof: there is nothing more to say to it.
pub fn was_validation<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(VALIDATION_PROTOCOL)
}

/// Whether client and server agreed on HTTP/2.
pub fn agreed_on_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}
