//! Which addresses are those of the public Internet: what the guard against requests to inside (SSRF) lets pass.
//! Addresses are judged after DNS, one by one, when they are connected to. It never resolves a name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether everybody reaches the same machine by it (the registries of RFC 6890, "Globally Reachable").
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = a == 0
        || a == 10
        || a == 127
        || (a == 100 && b & 0xc0 == 64)
        || (a == 169 && b == 254)
        || (a == 172 && b & 0xf0 == 16)
        || (a == 192 && b == 0 && (c == 0 || c == 2))
        || (a == 192 && b == 88 && c == 99)
        || (a == 192 && b == 168)
        || (a == 198 && b & 0xfe == 18)
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113)
        || a >= 224;
    !reserved
}

fn v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // What leads to an IPv4 address is as public as that: mapped, compatible, translated (RFC 6052), 6to4, Teredo's is
    // never.
    let last = || Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => v4(last()),
        [0, 0, 0, 0, 0, 0, ..] => false,
        [0x2002, high, low, ..] => v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        // IETF protocol assignments, with Teredo among them; documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [0x64, 0xff9b, ..] | [0x100, 0, 0, ..] | [0x5f00, ..] => false,
        // Global unicast is 2000::/3; the rest is link-local, unique local, multicast or nobody's yet.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_not_public() {
        for inside in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
    }

    #[test]
    fn outside_is() {
        for outside in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.0.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::",
        ] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }
}
