//! A new connection to an upstream: its name resolved, its addresses judged, connected to, through a proxy if one is
//! asked for, TLS, and HTTP begun. It never keeps one.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use ipnet::IpNet;
use rustls_pki_types::ServerName;
use tokio::{
    net::{TcpStream, UnixStream},
    task::spawn_blocking,
    time::{timeout_at, Instant},
};
use tokio_rustls::TlsConnector;

use super::{
    connection::{ConnectTimes, Connection, HttpSettings, RequestBody},
    dial::{dial, said},
    failure::Failure,
    handshake,
    places::Places,
    public::is_public,
    resolver::Resolver,
    trust::Trusts,
    way::Way,
};

/// Where to, and how.
pub struct Connect {
    pub https: bool,
    pub host: String,
    /// A Unix socket in place of host and port.
    pub socket: Option<PathBuf>,
    pub port: u16,
    pub way: Way,
    /// Addresses that are forbidden but for these; None: none are.
    pub guard: Option<Vec<IpNet>>,
    pub resolver: Arc<Resolver>,
    pub trusts: Arc<Trusts>,
    pub http: HttpSettings,
    /// None: it takes no place among those of others.
    pub places: Option<Arc<Places>>,
}

impl fmt::Display for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Connect {
    pub async fn open<B: RequestBody>(&self, until: Instant) -> Result<Connection<B>, Failure> {
        timeout_at(until, self.open_in_place()).await.unwrap_or(Err(Failure::OpenTimeout(None)))
    }

    async fn open_in_place<B: RequestBody>(&self) -> Result<Connection<B>, Failure> {
        let Some(places) = &self.places else { return self.try_open().await };
        let place = places.take().await?;
        Ok(self.try_open().await?.in_place(place))
    }

    async fn try_open<B: RequestBody>(&self) -> Result<Connection<B>, Failure> {
        let mut opened = ConnectTimes::default();
        let began = Instant::now();
        if let Some(path) = &self.socket {
            let stream = UnixStream::connect(path).await.map_err(|error| {
                let errno = error.raw_os_error().unwrap_or(libc::ECONNREFUSED);
                Failure::Connect { address: None, errno, message: said(errno) }
            })?;
            opened.connect = began.elapsed();
            return Connection::speak(stream, false, None, opened, &self.http).await;
        }
        let (host, port) = match &self.way.proxy {
            Some(proxy) => (proxy.host.as_str(), proxy.port),
            None => (self.host.as_str(), self.port),
        };
        let addresses = match self.way.address {
            Some(address) => [address].into(),
            None => self.resolver.resolve(host).await?,
        };
        opened.dns = began.elapsed();
        let allowed = match (&self.guard, &self.way.proxy) {
            (None, _) => addresses.to_vec(),
            (Some(but), None) => self.judged(but, &addresses)?,
            // The proxy is whoever it is; whom it is asked for is judged by what we know of the name.
            (Some(but), Some(_)) => {
                self.judged(but, &self.resolver.resolve(&self.host).await?)?;
                addresses.to_vec()
            }
        };
        let began = Instant::now();
        let (mut stream, address) = dial(&allowed, port).await?;
        if let Some(proxy) = self.way.proxy.as_ref().filter(|_| self.https) {
            proxy.tunnel(&mut stream, &self.to_string()).await?;
        }
        opened.connect = began.elapsed();
        if self.https {
            self.secure(stream, address, opened).await
        } else {
            Connection::speak(stream, false, Some(address), opened, &self.http).await
        }
    }

    /// Those of the upstream's addresses that the guard lets pass, and at least one.
    fn judged(&self, but: &[IpNet], addresses: &[IpAddr]) -> Result<Vec<IpAddr>, Failure> {
        let passes = |address: &IpAddr| is_public(*address) || but.iter().any(|net| net.contains(address));
        let allowed: Vec<_> = addresses.iter().copied().filter(passes).collect();
        match addresses.first() {
            Some(&address) if allowed.is_empty() => {
                let message = format!("{} is not public: its address is {address}", self.host);
                Err(Failure::Denied { address: Some(address), message })
            }
            _ => Ok(allowed),
        }
    }

    async fn secure<B: RequestBody>(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        mut opened: ConnectTimes,
    ) -> Result<Connection<B>, Failure> {
        let began = Instant::now();
        // It may read files, the system's certificates among them: an event loop must not wait for a disk.
        let (trusts, trust, only_http1) = (self.trusts.clone(), self.way.trust.clone(), self.way.only_http1);
        let config = spawn_blocking(move || trusts.config(&trust, only_http1))
            .await
            .unwrap_or_else(|_| Err(Failure::Protocol("a mistake in Paceline; please report it".into())))?;
        let name = self.way.trust.sni.as_deref().unwrap_or(&self.host);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name =
            ServerName::try_from(name).map_err(|_| Failure::Unsupported("the name can be no server's".into()))?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
            match handshake::failure(&error) {
                // On a connection of its own the process would not be held to the guard.
                Failure::Unsupported(why) if self.guard.is_some() => Failure::Tls(why),
                failure => failure,
            }
        })?;
        opened.tls = began.elapsed();
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Connection::speak(stream, http2, Some(address), opened, &self.http).await
    }
}
