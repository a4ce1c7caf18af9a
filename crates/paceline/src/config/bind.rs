//! Addresses to listen on, as Puma writes them: `tcp://HOST:PORT`, `ssl://HOST:PORT?cert=...&key=...`,
//! `unix:///PATH?umask=0111`, or only an address. It never opens a socket or reads a certificate.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
};

use super::{Bind, CertificatePair, Listening, ProxyProtocol};

/// Why there can't be a listener at an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {fault}")]
pub struct BindError {
    /// As it was given.
    pub address: String,
    pub fault: BindFault,
}

/// What is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindFault {
    #[error("must begin with tcp://, ssl:// or unix://")]
    Scheme,
    #[error("not an IP address")]
    NotAnAddress,
    #[error("must have a port, like tcp://127.0.0.1:3000")]
    NoPort,
    #[error("{0:?} is not a port from 0 to 65535")]
    Port(String),
    /// The resolver's words.
    #[error("cannot find host {host:?} ({why})")]
    UnknownHost { host: String, why: String },
    #[error("host {0:?} has no address")]
    HostWithoutAddress(String),
    #[error("must name a file descriptor from 3 up")]
    FileDescriptor,
    #[error("must have a socket file, like unix:///run/shop.sock")]
    NoSocketFile,
    #[error("abstract sockets are not supported; name a file")]
    AbstractSocket,
    #[error("umask must be an octal number like 0111")]
    Umask,
    #[error("proxy_protocol must be 0, 1 or optional")]
    ProxyProtocol,
    #[error("client certificates (ca, verify_mode) are not supported; remove these parameters")]
    ClientCertificates,
    #[error("TLS needs a certificate: name cert and key, or add [[tls]] to paceline.toml")]
    NoCertificate,
    #[error("cert and key belong together, like ssl://0.0.0.0:443?cert=shop.pem&key=shop.key")]
    IncompletePair,
}

/// `0.0.0.0`, `::`, `[::1]` or `localhost`: an address to combine with the port.
pub fn address(text: &str) -> Option<IpAddr> {
    if text == "localhost" {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text).parse().ok()
}

/// Relative paths are below `base`.
pub fn parse(text: &str, base: &Path) -> Result<Listening, BindError> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        // As Ruby's File.join leaves it.
        None if text.starts_with("unix:/") => ("unix", &text["unix:".len()..]),
        None if text.starts_with('/') => ("unix", text),
        None => ("tcp", text),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let query = Query(query);
    let tcp = || tcp(place.trim_end_matches('/')).map(Bind::Tcp);
    let bind = match scheme {
        "tcp" | "http" | "ssl" | "https" | "h2c" => tcp(),
        "unix" => unix(place, &query, base),
        "fd" => {
            let fd = place.parse().ok().filter(|fd| *fd > 2);
            fd.map(Bind::Fd).ok_or(BindFault::FileDescriptor)
        }
        _ => Err(BindFault::Scheme),
    };
    let at = |fault: BindFault| BindError { address: text.to_owned(), fault };
    let tls = matches!(scheme, "ssl" | "https").then(|| certificates(&query, base)).transpose().map_err(at)?;
    let proxy_protocol = match query.get("proxy_protocol").as_deref() {
        None | Some("0" | "false") => ProxyProtocol::Off,
        Some("1" | "true") => ProxyProtocol::Required,
        Some("optional") => ProxyProtocol::Optional,
        Some(_) => return Err(at(BindFault::ProxyProtocol)),
    };
    Ok(Listening { bind: bind.map_err(at)?, tls, proxy_protocol, h2c: scheme == "h2c" })
}

/// What follows the question mark.
struct Query<'a>(&'a str);

impl Query<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        Some(percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned())
    }
}

fn unix(place: &str, query: &Query, base: &Path) -> Result<Bind, BindFault> {
    if place.is_empty() || place == "/" {
        return Err(BindFault::NoSocketFile);
    }
    if place.starts_with('@') {
        return Err(BindFault::AbstractSocket);
    }
    let octal = |mask: String| u32::from_str_radix(&mask, 8).ok().filter(|mask| *mask <= 0o777);
    let umask = query.get("umask").map(|mask| octal(mask).ok_or(BindFault::Umask));
    Ok(Bind::Unix { path: base.join(PathBuf::from(place)), umask: umask.transpose()? })
}

/// The certificate named in the address; without one those of the whole server are meant.
fn certificates(query: &Query, base: &Path) -> Result<Vec<CertificatePair>, BindFault> {
    // Silently not asking for client certificates would open what somebody meant to close.
    if query.get("ca").is_some() || query.get("verify_mode").is_some_and(|mode| mode != "none") {
        return Err(BindFault::ClientCertificates);
    }
    match (query.get("cert"), query.get("key")) {
        (Some(cert), Some(key)) => Ok(vec![CertificatePair { cert: base.join(cert), key: base.join(key) }]),
        (None, None) => Ok(Vec::new()),
        _ => Err(BindFault::IncompletePair),
    }
}

fn tcp(place: &str) -> Result<SocketAddr, BindFault> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.starts_with('[') => (host, port),
        _ => return Err(BindFault::NoPort),
    };
    let port: u16 = port.parse().map_err(|_| BindFault::Port(port.to_owned()))?;
    match address(host) {
        Some(address) => Ok(SocketAddr::new(address, port)),
        None if host.is_empty() => Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
        None => (host, port)
            .to_socket_addrs()
            .map_err(|why| BindFault::UnknownHost { host: host.to_owned(), why: why.to_string() })?
            .next()
            .ok_or_else(|| BindFault::HostWithoutAddress(host.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::option_checks::bind as check;

    #[test]
    fn addresses() {
        let unix = |path: &str, umask| Bind::Unix { path: path.into(), umask };
        let tcp = |text: &str| Bind::Tcp(text.parse().expect(text));
        for (text, bind) in [
            ("tcp://0.0.0.0:80", tcp("0.0.0.0:80")),
            ("tcp://[::1]:80/", tcp("[::1]:80")),
            ("tcp://localhost:0", tcp("127.0.0.1:0")),
            ("tcp://:9292?backlog=5", tcp("127.0.0.1:9292")),
            ("127.0.0.1:81", tcp("127.0.0.1:81")),
            (":81", tcp("127.0.0.1:81")),
            ("unix:///run/a.sock", unix("/run/a.sock", None)),
            ("unix:///run/a.sock?backlog=9&umask=0111", unix("/run/a.sock", Some(0o111))),
            ("unix:/run/a.sock?umask=0111", unix("/run/a.sock", Some(0o111))),
            ("unix://tmp/a.sock", unix("/app/tmp/a.sock", None)),
            ("/run/a.sock", unix("/run/a.sock", None)),
            ("fd://5", Bind::Fd(5)),
        ] {
            assert_eq!(parse(text, Path::new("/app")), Ok(bind.into()), "{text}");
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for (text, words) in [
            ("tcp://0.0.0.0", "must have a port"),
            ("tcp://::1:80", "must have a port"),
            ("tcp://0.0.0.0:99999", "not a port"),
            ("x", "must have a port"),
            ("ssl://0.0.0.0:443?key=k", "belong together"),
            ("ssl://0.0.0.0:443?cert=c&key=k&verify_mode=peer&ca=x", "client certificates"),
            ("tcp://:1?proxy_protocol=v2", "must be 0, 1 or optional"),
            ("unix://", "must have a socket file, like unix:///run/shop.sock"),
            ("unix://@hidden", "abstract"),
            ("unix:///a?umask=9", "octal"),
            ("fd://1", "file descriptor"),
            ("gopher://x:1", "must begin with"),
        ] {
            assert!(check(text).is_err_and(|why| why.to_string().contains(words)), "{text}");
        }
        for text in ["0.0.0.0", "::", "[::1]", "localhost"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn tls_and_the_proxy_protocol() {
        let bind = Bind::Tcp("0.0.0.0:443".parse().expect("address"));
        let pair = CertificatePair { cert: "/app/a b.pem".into(), key: "/etc/k".into() };
        for (text, tls, proxy_protocol) in [
            (
                "ssl://0.0.0.0:443?cert=a%20b.pem&key=/etc/k&no_tlsv1=true&verify_mode=none",
                Some(vec![pair]),
                ProxyProtocol::Off,
            ),
            ("https://0.0.0.0:443", Some(vec![]), ProxyProtocol::Off),
            ("https://0.0.0.0:443?proxy_protocol=1", Some(vec![]), ProxyProtocol::Required),
            ("tcp://0.0.0.0:443?proxy_protocol=true", None, ProxyProtocol::Required),
            ("tcp://0.0.0.0:443?proxy_protocol=0", None, ProxyProtocol::Off),
            ("tcp://0.0.0.0:443?proxy_protocol=optional", None, ProxyProtocol::Optional),
            ("h2c://0.0.0.0:443", None, ProxyProtocol::Off),
        ] {
            let expected = Listening { bind: bind.clone(), tls, proxy_protocol, h2c: text.starts_with("h2c:") };
            assert_eq!(parse(text, Path::new("/app")), Ok(expected), "{text}");
        }
    }
}
