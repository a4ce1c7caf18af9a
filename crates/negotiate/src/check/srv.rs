//! SRV records (RFC 2782), which the system's resolver has no function for: one question to the name servers of
//! resolv.conf, by UDP. What is no answer to it is dropped; it never panics.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use super::kdc::Address;

const PATIENCE: Duration = Duration::from_secs(2);
const TYPE_SRV: u16 = 33;
const MAX_RECORDS: u16 = 32;

/// The targets of a name, best first. None at all: no name server knows any, or none answers.
pub fn lookup(name: &str) -> Vec<Address> {
    let configured = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = configured.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let servers = servers.filter_map(|address| address.trim().parse::<IpAddr>().ok());
    servers.take(3).find_map(|server| ask(SocketAddr::new(server, 53), name)).unwrap_or_default()
}

fn ask(server: SocketAddr, name: &str) -> Option<Vec<Address>> {
    let id = rand_id();
    let question = question(id, name)?;
    let local: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((local, 0)).ok()?;
    // Only this server's datagrams come in.
    socket.connect(server).ok()?;
    socket.send(&question).ok()?;
    let end = Instant::now() + PATIENCE;
    let mut buffer = [0; 4096];
    loop {
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        socket.set_read_timeout(Some(left)).ok()?;
        let length = socket.recv(&mut buffer).ok()?;
        if let Some(addresses) = answer(buffer.get(..length)?, id, &question) {
            return Some(addresses);
        }
    }
}

/// A number that nobody can guess.
fn rand_id() -> u16 {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 2];
    // Without any it is still compared with the answer's.
    let _ = SystemRandom::new().fill(&mut bytes);
    u16::from_be_bytes(bytes)
}

fn question(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut bytes = id.to_be_bytes().to_vec();
    // Recursion is wanted; one question.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        bytes.push(length);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(TYPE_SRV.to_be_bytes());
    bytes.extend([0, 1]);
    (bytes.len() <= 12 + 255 + 4).then_some(bytes)
}

/// None: it is no answer to this question.
fn answer(bytes: &[u8], id: u16, question: &[u8]) -> Option<Vec<Address>> {
    let word = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?));
    let is_response = bytes.get(2)? & 0x80 != 0;
    if word(0)? != id || !is_response || word(4)? != 1 || bytes.get(12..question.len())? != question.get(12..)? {
        return None;
    }
    let mut at = question.len();
    let mut found = Vec::new();
    for _ in 0..word(6)?.min(MAX_RECORDS) {
        at = name(bytes, at)?.1;
        let (kind, length) = (word(at)?, usize::from(word(at + 8)?));
        let data = at + 10;
        if kind == TYPE_SRV {
            let host = name(bytes, data + 6)?.0;
            // A lone dot: decidedly no such service.
            if !host.is_empty() {
                found.push((word(data)?, Address { host, port: word(data + 4)? }));
            }
        }
        at = data + length;
    }
    found.sort_by_key(|(priority, _)| *priority);
    Some(found.into_iter().map(|(_, address)| address).collect())
}

/// A name, and where it ends. Pointers lead only backwards, so the reading ends.
fn name(bytes: &[u8], start: usize) -> Option<(String, usize)> {
    let (mut at, mut end, mut text) = (start, None, String::new());
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some((text, end.unwrap_or(at + 1))),
            1..=63 => {
                if !text.is_empty() {
                    text.push('.');
                }
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)) || text.len() > 255 {
                    return None;
                }
                text.extend(label.iter().map(|byte| char::from(*byte)));
                at += 1 + length;
            }
            0xc0.. => {
                end.get_or_insert(at + 2);
                let target = (length & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?);
                if target >= at {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(question: &[u8]) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2] = 0x81;
        bytes[7] = 2;
        for (priority, host) in [(20u8, &b"\x03dc2"[..]), (10, b"\x03dc1")] {
            bytes.extend(b"\xc0\x0c\0\x21\0\x01\0\0\0\x3c\0\x0c");
            bytes.extend([0, priority, 0, 100, 0, 88]);
            bytes.extend(host);
            // The question's last two labels: example.com.
            bytes.extend(b"\xc0\x1b");
        }
        bytes
    }

    #[test]
    fn the_best_target_comes_first() {
        let question = question(7, "_kerberos._tcp.example.com").unwrap();
        let found = answer(&reply(&question), 7, &question).unwrap();
        let shown: Vec<_> = found.iter().map(Address::to_string).collect();
        assert_eq!(shown, ["dc1.example.com:88", "dc2.example.com:88"]);
    }

    #[test]
    fn what_is_cut_off_or_asked_by_others_is_no_answer() {
        let question = question(7, "_kerberos._tcp.example.com").unwrap();
        let whole = reply(&question);
        assert_eq!(answer(&whole, 8, &question), None);
        for end in 0..whole.len() {
            assert_eq!(answer(&whole[..end], 7, &question), None);
        }
        assert_eq!(name(b"\xc0\x00", 0), None);
    }
}
