//! Text of addresses without an allocation: each request has one in its log line and one in the worker's environment.
//! It never looks anything up.

use std::{fmt::Write, net::IpAddr};

/// The longest text of an address: IPv6 with an IPv4 tail (RFC 5952 section 5).
const LONGEST: usize = 45;

/// An address as text: `192.0.2.7`, `2001:db8::1`.
#[derive(Clone, Copy)]
pub struct AddressText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl AddressText {
    pub fn of(address: IpAddr) -> AddressText {
        let mut text = AddressText { bytes: [0; LONGEST], length: 0 };
        match address {
            // A third of what `Display` takes, which can also pad.
            IpAddr::V4(address) => {
                let mut number = itoa::Buffer::new();
                for (index, octet) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        text.push(".");
                    }
                    text.push(number.format(octet));
                }
            }
            IpAddr::V6(address) => {
                let _ = write!(text, "{address}");
            }
        }
        text
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    fn push(&mut self, piece: &str) {
        let end = self.length + piece.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(piece.as_bytes());
            self.length = end;
        }
    }
}

impl Write for AddressText {
    fn write_str(&mut self, piece: &str) -> std::fmt::Result {
        self.push(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_display_writes_them() {
        for text in [
            "0.0.0.0",
            "127.0.0.1",
            "192.0.2.7",
            "255.255.255.255",
            "::",
            "::1",
            "2001:db8::1",
            "::ffff:192.0.2.7",
            "2001:db8:1234:5678:9abc:def0:1234:5678",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(AddressText::of(address).as_str(), address.to_string(), "{text}");
        }
    }
}
