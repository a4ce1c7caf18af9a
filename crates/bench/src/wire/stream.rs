//! Connections: TCP, a Unix socket, with TLS or without, and how long it took to open them. Never speaks HTTP.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use rustls_pki_types::ServerName;
use tokio::net::{lookup_host, TcpSocket, TcpStream, UnixStream};
use tokio_rustls::{client::TlsStream, TlsConnector};
use tokio_util::either::Either;

use crate::target::Target;

type Socket = Either<TcpStream, UnixStream>;

/// A connection to a server: plain, or with TLS.
pub type Stream = Either<Socket, Box<TlsStream<Socket>>>;

/// A plain TCP connection.
pub fn plain(stream: TcpStream) -> Stream {
    Either::Left(Either::Left(stream))
}

/// A connection that was opened now.
pub struct Opened {
    pub stream: Stream,
    /// Microseconds.
    pub connect: u32,
    /// Of the TLS handshake.
    pub tls: u32,
    /// TLS is used, and the server did not choose HTTP/2 (ALPN).
    pub refused_http2: bool,
}

/// Opens connections to one server, whose name is resolved once.
pub struct Dialer {
    target: Target,
    addresses: Vec<SocketAddr>,
    local: Option<IpAddr>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialer {
    /// `tls`: for https targets. `local`: where connections come from.
    pub async fn new(
        target: Target,
        tls: Option<Arc<rustls::ClientConfig>>,
        local: Option<IpAddr>,
    ) -> io::Result<Dialer> {
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
        Ok(Dialer { target, addresses, local, tls })
    }

    /// Whether all that the name stands for is this machine.
    pub fn is_loopback(&self) -> bool {
        self.target.socket.is_some() || self.addresses.iter().all(|address| address.ip().is_loopback())
    }

    pub async fn open(&self) -> io::Result<Opened> {
        let began = Instant::now();
        let socket = match &self.target.socket {
            Some(path) => Either::Right(UnixStream::connect(path).await?),
            None => {
                let stream = self.connect().await?;
                stream.set_nodelay(true)?;
                Either::Left(stream)
            }
        };
        let connect = micros(began);
        let Some((connector, name)) = &self.tls else {
            return Ok(Opened { stream: Either::Left(socket), connect, tls: 0, refused_http2: false });
        };
        let stream = connector.connect(name.clone(), socket).await?;
        let refused_http2 = stream.get_ref().1.alpn_protocol() != Some(b"h2");
        let tls = micros(began) - connect;
        Ok(Opened { stream: Either::Right(Box::new(stream)), connect, tls, refused_http2 })
    }
}

impl Dialer {
    async fn connect(&self) -> io::Result<TcpStream> {
        let Some(local) = self.local else { return TcpStream::connect(&self.addresses[..]).await };
        let mut failed = io::Error::other("-B: the server has no address of the same family");
        for address in self.addresses.iter().filter(|address| address.is_ipv4() == local.is_ipv4()) {
            let socket = if local.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.bind((local, 0).into())?;
            match socket.connect(*address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// Since `began`.
pub fn micros(began: Instant) -> u32 {
    u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX)
}
