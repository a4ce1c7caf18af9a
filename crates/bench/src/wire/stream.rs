//! Connections: TCP, a Unix socket, with TLS or without, and how long it took to open them. Never speaks HTTP.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{lookup_host, TcpStream, UnixStream},
};
use tokio_rustls::{client::TlsStream, TlsConnector};

use crate::target::Target;

/// A connection to a server.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    TlsUnix(Box<TlsStream<UnixStream>>),
}

/// A connection that was opened now.
pub struct Opened {
    pub stream: Stream,
    /// Microseconds.
    pub connect: u32,
    /// Of the TLS handshake.
    pub tls: u32,
    /// The server chose HTTP/2 (ALPN).
    pub chose_http2: bool,
}

/// Opens connections to one server, whose name is resolved once.
pub struct Dialer {
    target: Target,
    addresses: Vec<SocketAddr>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialer {
    /// `tls`: for https targets.
    pub async fn new(target: Target, tls: Option<Arc<rustls::ClientConfig>>) -> io::Result<Dialer> {
        let addresses = match target.socket {
            Some(_) => Vec::new(),
            None => lookup_host((target.host.as_str(), target.port)).await?.collect(),
        };
        let tls = match tls.filter(|_| target.https) {
            Some(config) => {
                let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
                Some((TlsConnector::from(config), name))
            }
            None => None,
        };
        Ok(Dialer { target, addresses, tls })
    }

    /// Whether all that the name stands for is this machine.
    pub fn is_loopback(&self) -> bool {
        self.target.socket.is_some() || self.addresses.iter().all(|address| address.ip().is_loopback())
    }

    pub async fn open(&self) -> io::Result<Opened> {
        let began = Instant::now();
        if let Some(path) = &self.target.socket {
            let stream = UnixStream::connect(path).await?;
            let connect = micros(began);
            let Some((connector, name)) = &self.tls else {
                return Ok(Opened { stream: Stream::Unix(stream), connect, tls: 0, chose_http2: false });
            };
            let stream = connector.connect(name.clone(), stream).await?;
            let chose_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let tls = micros(began) - connect;
            return Ok(Opened { stream: Stream::TlsUnix(Box::new(stream)), connect, tls, chose_http2 });
        }
        let stream = TcpStream::connect(&self.addresses[..]).await?;
        stream.set_nodelay(true)?;
        let connect = micros(began);
        let Some((connector, name)) = &self.tls else {
            return Ok(Opened { stream: Stream::Tcp(stream), connect, tls: 0, chose_http2: false });
        };
        let stream = connector.connect(name.clone(), stream).await?;
        let chose_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Opened { stream: Stream::Tls(Box::new(stream)), connect, tls: micros(began) - connect, chose_http2 })
    }
}

/// Since `began`.
pub fn micros(began: Instant) -> u32 {
    u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX)
}

macro_rules! each {
    ($self:expr, $stream:ident => $what:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $what,
            Stream::Unix($stream) => $what,
            Stream::Tls($stream) => $what,
            Stream::TlsUnix($stream) => $what,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
