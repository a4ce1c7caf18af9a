//! Hosts and networks as settings name them. It never resolves a name.

use ipnet::IpNet;

use super::bind;

/// A name or an address without scheme and port; `*.` before a name stands for all below it.
pub fn is_host_name(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let word = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let address = name.starts_with('[') && bind::address(name).is_some();
    address || !name.is_empty() && name.bytes().all(word) && !name.starts_with('.')
}

/// A network, or a single address.
pub fn parse_network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from))
}
