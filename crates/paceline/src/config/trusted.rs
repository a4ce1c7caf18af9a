//! Which peers are believed when they speak for somebody else: networks, and Unix sockets.
//! It never reads a header.

use std::net::IpAddr;

use ipnet::IpNet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
    unix: bool,
    /// The owner has said who; otherwise it is the default.
    pub given: bool,
}

/// Words for networks.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// What `new` would not pass over.
pub fn is_known(text: &str) -> bool {
    matches!(text, "loopback" | "private" | "unix" | "none") || network(text).is_some()
}

fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

impl TrustedProxies {
    /// What is not given is this machine.
    pub fn new(list: &[String], given: bool) -> TrustedProxies {
        let mut trusted = TrustedProxies { networks: Vec::new(), unix: !given, given };
        if !given {
            trusted.add(&LOOPBACK);
        }
        for word in list {
            match word.as_str() {
                "loopback" => trusted.add(&LOOPBACK),
                "private" => trusted.add(&PRIVATE),
                "unix" => trusted.unix = true,
                word => trusted.networks.extend(network(word)),
            }
        }
        trusted
    }

    /// Whether `new` would not pass it over.
    pub fn knows(text: &str) -> bool {
        is_known(text)
    }

    fn add(&mut self, words: &[&str]) {
        self.networks.extend(words.iter().filter_map(|word| network(word)));
    }

    /// None is a Unix socket.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        match peer.map(|peer| peer.to_canonical()) {
            None => self.unix,
            Some(peer) => self.networks.iter().any(|network| network.contains(&peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_trusted() {
        for (words, given, peer, trusted) in [
            (&[][..], false, Some("127.0.0.1"), true),
            (&[], false, Some("::1"), true),
            (&[], false, Some("::ffff:127.0.0.1"), true),
            (&[], false, None, true),
            (&[], false, Some("10.0.0.1"), false),
            (&["none"], true, Some("127.0.0.1"), false),
            (&["none"], true, None, false),
            (&["10.0.0.0/8"], true, Some("10.9.9.9"), true),
            (&["10.0.0.0/8"], true, Some("127.0.0.1"), false),
            (&["192.0.2.7"], true, Some("192.0.2.7"), true),
            (&["192.0.2.7"], true, Some("192.0.2.8"), false),
            (&["private", "unix"], true, Some("172.31.0.1"), true),
            (&["private", "unix"], true, Some("fd00::1"), true),
            (&["private", "unix"], true, None, true),
            (&["loopback"], true, Some("127.9.9.9"), true),
            (&["2001:db8::/32"], true, Some("2001:db8:1::1"), true),
        ] {
            let list: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            let proxies = TrustedProxies::new(&list, given);
            assert_eq!(proxies.trusts(peer.map(|peer| peer.parse().unwrap())), trusted, "{words:?} {peer:?}");
        }
        for wrong in ["10.0.0.0/33", "proxy.test", "", "10.0.0"] {
            assert!(!is_known(wrong), "{wrong}");
        }
    }
}
