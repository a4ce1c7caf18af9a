//! Addresses to listen on, as Puma writes them: `tcp://HOST:PORT`, `unix:///PATH?umask=0111`, or only an address.
//! It never opens a socket.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
};

use super::Bind;

/// Refuses what `parse` would refuse; an address without a port is welcome.
pub fn check(text: &str) -> Result<(), String> {
    if address(text).is_some() {
        return Ok(());
    }
    parse(text, Path::new("/")).map(drop)
}

pub fn check_address(text: &str) -> Result<(), String> {
    address(text).map(drop).ok_or_else(|| format!("must be an IP address or localhost, not {text:?}"))
}

/// `0.0.0.0`, `::`, `[::1]` or `localhost`: an address to combine with the port.
pub fn address(text: &str) -> Option<IpAddr> {
    if text == "localhost" {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text).parse().ok()
}

/// Relative socket paths are below `base`.
pub fn parse(text: &str, base: &Path) -> Result<Bind, String> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None if text.starts_with('/') => ("unix", text),
        None => ("tcp", text),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    match scheme {
        "tcp" | "http" => tcp(place.trim_end_matches('/')).map(Bind::Tcp).map_err(|why| format!("{text}: {why}")),
        "unix" if place.is_empty() || place == "/" => Err(format!("{text}: names no socket file")),
        "unix" if place.starts_with('@') => Err(format!("{text}: abstract sockets are not served; name a file")),
        "unix" => {
            let umask = query
                .split('&')
                .find_map(|pair| pair.strip_prefix("umask="))
                .map(|mask| u32::from_str_radix(mask, 8).ok().filter(|mask| *mask <= 0o777))
                .map(|mask| mask.ok_or_else(|| format!("{text}: umask must be an octal number like 0111")))
                .transpose()?;
            Ok(Bind::Unix { path: base.join(PathBuf::from(place)), umask })
        }
        "fd" => place
            .parse()
            .ok()
            .filter(|fd| *fd > 2)
            .map(Bind::Fd)
            .ok_or_else(|| format!("{text}: must name a file descriptor from 3 up")),
        "ssl" | "https" => Err(format!("{text}: TLS is not served by this version; bind tcp:// behind a TLS proxy")),
        _ => Err(format!("{text}: must begin with tcp:// or unix://")),
    }
}

fn tcp(place: &str) -> Result<SocketAddr, String> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.starts_with('[') => (host, port),
        _ => return Err("must have a port, like tcp://127.0.0.1:3000".into()),
    };
    let port: u16 = port.parse().map_err(|_| format!("{port:?} is no port from 0 to 65535"))?;
    match address(host) {
        Some(address) => Ok(SocketAddr::new(address, port)),
        None if host.is_empty() => Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
        None => (host, port)
            .to_socket_addrs()
            .map_err(|why| format!("cannot find host {host:?} ({why})"))?
            .next()
            .ok_or_else(|| format!("host {host:?} has no address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("unix://tmp/a.sock", unix("/app/tmp/a.sock", None)),
            ("/run/a.sock", unix("/run/a.sock", None)),
            ("fd://5", Bind::Fd(5)),
        ] {
            assert_eq!(parse(text, Path::new("/app")), Ok(bind), "{text}");
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for (text, words) in [
            ("tcp://0.0.0.0", "must have a port"),
            ("tcp://::1:80", "must have a port"),
            ("tcp://0.0.0.0:99999", "no port"),
            ("x", "must have a port"),
            ("ssl://0.0.0.0:443?key=k", "TLS is not served"),
            ("unix://", "names no socket file"),
            ("unix://@hidden", "abstract"),
            ("unix:///a?umask=9", "octal"),
            ("fd://1", "file descriptor"),
            ("gopher://x:1", "must begin with"),
        ] {
            assert!(check(text).is_err_and(|why| why.contains(words)), "{text}");
        }
        for text in ["0.0.0.0", "::", "[::1]", "localhost"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
