//! A stream to Valkey or Redis, by TCP, TLS or a Unix socket. It never speaks on it, and never turns the check of a certificate off.

use std::{io, net::IpAddr, sync::Arc};

use client_pool::Failure;
use redis::ConnectionAddr;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{lookup_host, TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

/// Bytes go out and come in.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Connects. `tls`: for an address that wants it.
pub async fn open(address: &ConnectionAddr, tls: Option<&Arc<ClientConfig>>) -> io::Result<Box<dyn ByteStream>> {
    let stream: Box<dyn ByteStream> = match address {
        ConnectionAddr::Tcp(host, port) => Box::new(dial(host, *port).await?),
        ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
            let tls = tls.ok_or_else(|| io::Error::other("no certificates were read for TLS"))?;
            // An IPv6 address stands in brackets in a URL.
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let name = ServerName::try_from(bare).map_err(io::Error::other)?.to_owned();
            Box::new(TlsConnector::from(tls.clone()).connect(name, dial(host, *port).await?).await?)
        }
        ConnectionAddr::Unix(path) => Box::new(UnixStream::connect(path).await?),
        _ => return Err(io::Error::other("its address says that certificates are not to be checked")),
    };
    Ok(stream)
}

/// The first connection that is made, of those to all addresses of the host.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let found = lookup_host((host.trim_start_matches('[').trim_end_matches(']'), port)).await?;
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    match client_pool::dial(&addresses, port).await {
        Ok((stream, _)) => Ok(stream),
        Err(Failure::Connect { errno, .. }) => Err(io::Error::from_raw_os_error(errno)),
        Err(error) => Err(io::Error::other(error)),
    }
}
