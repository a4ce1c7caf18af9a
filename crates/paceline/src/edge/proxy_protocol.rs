//! The PROXY protocol, versions 1 and 2 (haproxy.org, doc/proxy-protocol.txt): who a connection is really from, told by
//! a load balancer in the connection's first bytes. It never guesses: a connection whose header is wrong is not served.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::io::AsyncRead;

use crate::edge::sniff::PeekedStream;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Longest header of version 1, with its line end.
const LINE: usize = 107;
/// Fixed part of version 2.
const FIXED: usize = 16;
/// Most that may follow it here: addresses and some TLVs. The protocol would allow 65,535.
const VARIABLE: usize = 2048;

/// Both ends of the connection that the sender accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyAddresses {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

/// No header of either version.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Incomplete,
    /// Bytes of the header. None: the sender speaks for itself (LOCAL), or of no TCP connection (UNKNOWN).
    Complete(usize, Option<ProxyAddresses>),
}

/// Reads the header off the beginning of a connection.
pub async fn read<S: AsyncRead + Unpin>(stream: &mut PeekedStream<S>) -> io::Result<Option<ProxyAddresses>> {
    loop {
        match parse(stream.seen()) {
            Ok(Parsed::Complete(length, ends)) => {
                stream.consume(length);
                return Ok(ends);
            }
            Ok(Parsed::Incomplete) => stream.see_more().await?,
            Err(Broken) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Parsed, Broken> {
    let begins = |word: &[u8]| {
        let common = bytes.len().min(word.len());
        bytes[..common] == word[..common]
    };
    if begins(SIGNATURE) {
        version2(bytes)
    } else if begins(b"PROXY ") {
        version1(bytes)
    } else {
        Err(Broken)
    }
}

fn version1(bytes: &[u8]) -> Result<Parsed, Broken> {
    let head = &bytes[..bytes.len().min(LINE)];
    let Some(end) = head.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LINE { Ok(Parsed::Incomplete) } else { Err(Broken) };
    };
    let line = std::str::from_utf8(&head[..end]).map_err(|_| Broken)?;
    let words: Vec<&str> = line.split(' ').collect();
    let ends = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family @ ("TCP4" | "TCP6"), from, to, from_port, to_port] => {
            let source = SocketAddr::new(address(family, from)?, port(from_port)?);
            Some(ProxyAddresses { source, destination: SocketAddr::new(address(family, to)?, port(to_port)?) })
        }
        _ => return Err(Broken),
    };
    Ok(Parsed::Complete(end + 2, ends))
}

fn address(family: &str, text: &str) -> Result<IpAddr, Broken> {
    let address: IpAddr = text.parse().map_err(|_| Broken)?;
    if address.is_ipv4() == (family == "TCP4") {
        Ok(address)
    } else {
        Err(Broken)
    }
}

fn port(text: &str) -> Result<u16, Broken> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).ok_or(Broken)
}

fn version2(bytes: &[u8]) -> Result<Parsed, Broken> {
    if bytes.len() < FIXED {
        return Ok(Parsed::Incomplete);
    }
    let (command, family) = (bytes[12], bytes[13]);
    let length = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if command >> 4 != 2 || length > VARIABLE {
        return Err(Broken);
    }
    let Some(rest) = bytes.get(FIXED..FIXED + length) else { return Ok(Parsed::Incomplete) };
    let ends = match (command & 15, family) {
        // LOCAL: a health check of the balancer's own.
        (0, _) => None,
        (1, 0x11) => Some(ends::<4>(rest, |octets| Ipv4Addr::from(octets).into())?),
        (1, 0x21) => Some(ends::<16>(rest, |octets| Ipv6Addr::from(octets).into())?),
        // Not over TCP (UDP, Unix sockets, unspecified): the addresses say nothing to us.
        (1, 0x00 | 0x12 | 0x22 | 0x31 | 0x32) => None,
        _ => return Err(Broken),
    };
    Ok(Parsed::Complete(FIXED + length, ends))
}

fn ends<const N: usize>(bytes: &[u8], address: fn([u8; N]) -> IpAddr) -> Result<ProxyAddresses, Broken> {
    let at =
        |from: usize| bytes.get(from..from + N).and_then(|octets| octets.try_into().ok()).map(address).ok_or(Broken);
    let port = |from: usize| match bytes.get(from..from + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(Broken),
    };
    let source = SocketAddr::new(at(0)?, port(2 * N)?);
    Ok(ProxyAddresses { source, destination: SocketAddr::new(at(N)?, port(2 * N + 2)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(source: &str, destination: &str) -> Option<ProxyAddresses> {
        Some(ProxyAddresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() })
    }

    fn version2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend((rest.len() as u16).to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    fn good() -> Vec<(Vec<u8>, Option<ProxyAddresses>)> {
        let v4 = [192, 0, 2, 9, 10, 0, 0, 1, 0x12, 0x34, 1, 187];
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 3, 4);
        let longest = format!("PROXY UNKNOWN {0} {0} 65535 65535\r\n", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        vec![
            (b"PROXY TCP4 192.0.2.9 10.0.0.1 4660 443\r\n".to_vec(), ends("192.0.2.9:4660", "10.0.0.1:443")),
            (b"PROXY TCP6 ::1 ::2 3 4\r\n".to_vec(), ends("[::1]:3", "[::2]:4")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (longest.into_bytes(), None),
            (version2(0x21, 0x11, &v4), ends("192.0.2.9:4660", "10.0.0.1:443")),
            (version2(0x21, 0x11, &[&v4[..], b"\x04\0\0"].concat()), ends("192.0.2.9:4660", "10.0.0.1:443")),
            (version2(0x21, 0x21, &v6), ends("[::1]:3", "[::2]:4")),
            (version2(0x20, 0x00, b""), None),
            (version2(0x20, 0x11, &v4), None),
            (version2(0x21, 0x31, &[0; 216]), None),
            (version2(0x21, 0x00, b"xyz"), None),
        ]
    }

    #[test]
    fn headers_of_both_versions_at_every_split() {
        for (header, ends) in good() {
            for split in 0..header.len() {
                assert_eq!(parse(&header[..split]), Ok(Parsed::Incomplete), "{header:?} {split}");
            }
            let with_more = [&header[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
            for bytes in [&header, &with_more] {
                assert_eq!(parse(bytes), Ok(Parsed::Complete(header.len(), ends)), "{header:?}");
            }
        }
    }

    #[test]
    fn what_is_no_header() {
        let v4 = [0; 12];
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"PROXY",
            b"PROXYTCP4",
            b"PROXY TCP4 192.0.2.9 10.0.0.1 1\r\n",
            b"PROXY TCP4 192.0.2.9 10.0.0.1 1 2 3\r\n",
            b"PROXY TCP4  192.0.2.9 10.0.0.1 1 2\r\n",
            b"PROXY TCP4 ::1 ::2 1 2\r\n",
            b"PROXY TCP6 192.0.2.9 10.0.0.1 1 2\r\n",
            b"PROXY TCP4 192.0.2.9 10.0.0.1 65536 2\r\n",
            b"PROXY TCP4 192.0.2.9 10.0.0.1 +1 2\r\n",
            b"PROXY TCP4 192.0.2.9 10.0.0.1 01 2\r\n",
            b"PROXY UDP4 192.0.2.9 10.0.0.1 1 2\r\n",
            b"PROXY TCP4 \xff\xff 10.0.0.1 1 2\r\n",
            &[b'P', b'R', b'O', b'X', b'Y', b' '].iter().copied().chain([b'x'; 110]).collect::<Vec<_>>(),
            &version2(0x11, 0x11, &v4),
            &version2(0x22, 0x11, &v4),
            &version2(0x21, 0x41, &v4),
            &version2(0x21, 0x11, &v4[..11]),
            &version2(0x21, 0x21, &v4),
            &version2(0x21, 0x11, &[0; 3000]),
        ] {
            let parsed = parse(bytes);
            assert!(parsed == Err(Broken) || bytes == b"PROXY" && parsed == Ok(Parsed::Incomplete), "{bytes:?}");
        }
    }

    #[test]
    fn noise_never_panics() {
        let mut state = 7u32;
        for (mut header, _) in good() {
            for _ in 0..2000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 16) as usize % header.len();
                header[at] ^= (state >> 8) as u8;
                let _ = parse(&header);
                let _ = parse(&header[..at]);
            }
        }
    }
}
