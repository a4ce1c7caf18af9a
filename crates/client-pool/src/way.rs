//! What a connection has to be like: whom we believe and who we are, which address, through which proxy, which versions
//! of HTTP. It opens nothing.

use std::{net::IpAddr, path::PathBuf};

use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::proxy::Proxy;

/// What a connection has to be like. Calls that want different ones never share any.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct Way {
    pub trust: Trust,
    /// In place of asking DNS.
    pub address: Option<IpAddr>,
    pub proxy: Option<Proxy>,
    /// HTTP/2 is not offered.
    pub only_http1: bool,
}

impl Way {
    /// Different for calls that must not share an answer; empty for what is usual.
    pub fn name(&self) -> String {
        if *self == Way::default() {
            String::new()
        } else {
            format!("{self:?}")
        }
    }
}

impl Way {
    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let proxy = self.proxy.as_ref();
        let of_proxy = proxy.map_or(0, |proxy| proxy.host.len() + proxy.authorization.as_ref().map_or(0, String::len));
        size_of::<Way>() + self.trust.bytes() + of_proxy
    }
}

impl Trust {
    /// Bytes of what it names and brings.
    pub fn bytes(&self) -> usize {
        let path = |path: &Option<PathBuf>| path.as_ref().map_or(0, |path| path.as_os_str().len());
        let identity = self.identity.as_ref().map_or(0, |(chain, key)| chain.len() + key.len());
        path(&self.ca_file) + path(&self.ca_path) + self.ca.len() + identity + self.sni.as_ref().map_or(0, String::len)
    }
}

/// How a TLS server proves who it is, and how we do.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct Trust {
    pub verify: Verify,
    pub ca_file: Option<PathBuf>,
    pub ca_path: Option<PathBuf>,
    /// Certificates one after another.
    pub ca: Vec<u8>,
    /// These besides the system's.
    pub system: bool,
    /// Our certificates one after another, and the private key; both or none.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    pub sni: Option<String>,
    pub min: Option<TlsVersion>,
    pub max: Option<TlsVersion>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verify {
    /// The chain and the name.
    #[default]
    All,
    /// The chain only.
    Chain,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

/// Certificates in DER that lie one after another; None if they do not.
pub fn certificates(mut bytes: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        // A SEQUENCE of definite length (X.690 sections 8.1.3, 8.9).
        let (&[0x30, first], rest) = bytes.split_first_chunk::<2>()? else { return None };
        let (head, length) = match first {
            0..=0x7f => (2, first as usize),
            0x81..=0x84 => {
                let count = (first & 0x7f) as usize;
                let length = rest.get(..count)?.iter().fold(0_usize, |sum, byte| sum << 8 | *byte as usize);
                (2 + count, length)
            }
            _ => return None,
        };
        let (one, others) = bytes.split_at_checked(head.checked_add(length)?)?;
        found.push(CertificateDer::from(one.to_vec()));
        bytes = others;
    }
    Some(found)
}

/// A private key in DER, of whichever format.
pub fn private_key(bytes: &[u8]) -> Option<PrivateKeyDer<'static>> {
    PrivateKeyDer::try_from(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_told_apart_by_their_lengths() {
        let long = [&[0x30, 0x81, 0x80][..], &[1; 0x80]].concat();
        let both = [&[0x30, 1, 7][..], &long].concat();
        let found = certificates(&both).unwrap();
        assert_eq!(found.iter().map(|one| one.len()).collect::<Vec<_>>(), [3, 0x83]);
        for damaged in [
            &[0x30][..],
            &[0x31, 0],
            &[0x30, 2, 1],
            &[0x30, 0x80],
            &[0x30, 0x84, 255, 255, 255, 255],
            &[0x30, 0x85, 0, 0, 0, 0, 0],
        ] {
            assert!(certificates(damaged).is_none(), "{damaged:?}");
        }
    }
}
