//! The clock of a KDC: a request for a ticket that it refuses has its time on the refusal (RFC 4120, 5.9.1). Nobody's
//! name and no password is in the request. It never panics, whatever comes back.

use std::{
    fmt,
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ring::rand::{SecureRandom, SystemRandom};

use super::kdc::Address;
use crate::der::{integer, Reader};

/// Longest answer (bytes).
const MAX_ANSWER: usize = 64 << 10;
/// Who asks: nobody has this name.
const NOBODY: &str = "paceline-clock-check";

/// How much later than ours the other clock is (ms); less than 0: earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew(pub i64);

/// How exact an answer is. MIT's KDC repeats the time of the first request of a second, microseconds later each time, so
/// its answer may be a second old; the network adds to that.
const EXACTNESS: Duration = Duration::from_secs(2);

impl Skew {
    pub fn size(self) -> Duration {
        Duration::from_millis(self.0.unsigned_abs())
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.size() < EXACTNESS {
            return write!(f, "less than {} s", EXACTNESS.as_secs());
        }
        write!(f, "{:.0} s", self.0 as f64 / 1000.0)
    }
}

/// Asks a KDC for the time.
///
/// # Errors
/// There is no answer, or none that has the time.
pub fn skew(address: &Address, realm: &str, timeout: Duration) -> io::Result<Skew> {
    let mut nonce = [0; 4];
    SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    let began = SystemTime::now();
    let answer = exchange(address, &request(realm, nonce), timeout)?;
    let ended = SystemTime::now();
    let told = time_of(&answer).ok_or_else(|| io::Error::other("its answer has no time"))?;
    let ours = began + ended.duration_since(began).unwrap_or_default() / 2;
    let ours = ours.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    Ok(Skew(told - ours))
}

fn exchange(address: &Address, request: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
    let resolved = (address.host.as_str(), address.port).to_socket_addrs()?;
    let mut failure = io::Error::other("its name has no address");
    for target in resolved.take(4) {
        let mut stream = match TcpStream::connect_timeout(&target, timeout) {
            Ok(stream) => stream,
            Err(error) => {
                failure = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.write_all(&[&(request.len() as u32).to_be_bytes()[..], request].concat())?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_ANSWER {
            return Err(io::Error::other("it answers with something else than Kerberos"));
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer)?;
        return Ok(answer);
    }
    Err(failure)
}

/// An AS-REQ of nobody.
fn request(realm: &str, nonce: [u8; 4]) -> Vec<u8> {
    let text = |text: &str| der(0x1b, text.as_bytes());
    let name = |kind: u8, parts: &[&str]| {
        let parts: Vec<u8> = parts.iter().flat_map(|part| text(part)).collect();
        der(0x30, &[der(0xa0, &[2, 1, kind]), der(0xa1, &der(0x30, &parts))].concat())
    };
    let body = [
        der(0xa0, &[3, 5, 0, 0, 0, 0, 0]),
        der(0xa1, &name(1, &[NOBODY])),
        der(0xa2, &text(realm)),
        der(0xa3, &name(2, &["krbtgt", realm])),
        der(0xa5, &der(0x18, b"20370913024805Z")),
        // A KDC repeats its answer to a request that it has seen, and then its time is an old one.
        der(0xa7, &[2, 4, nonce[0] & 0x7f | 0x40, nonce[1], nonce[2], nonce[3]]),
        der(0xa8, &der(0x30, &[2, 1, 18, 2, 1, 17, 2, 1, 23])),
    ]
    .concat();
    let request = [der(0xa1, &[2, 1, 5]), der(0xa2, &[2, 1, 10]), der(0xa4, &der(0x30, &body))].concat();
    der(0x6a, &der(0x30, &request))
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head: &[u8] = match length {
        ..0x80 => &[tag, length as u8],
        _ => &[tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [head, content].concat()
}

/// The time of a KRB-ERROR (Unix time, ms).
fn time_of(answer: &[u8]) -> Option<i64> {
    let mut fields = Reader(Reader(Reader(answer).expect(0x7e)?).expect(0x30)?);
    let seconds = unix_time(Reader(fields.field(4)?).expect(0x18)?)?;
    let micros = fields.field(5).and_then(integer).unwrap_or(0);
    Some(seconds * 1000 + micros / 1000)
}

/// `20261125031500Z`
fn unix_time(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if text.len() != 14 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    if !(1..=12).contains(&month) {
        return None;
    }
    // Days since 1970-01-01, with years that begin in March (Hinnant, "chrono-compatible low-level date algorithms").
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_1970() {
        assert_eq!(unix_time(b"19700101000000Z"), Some(0));
        assert_eq!(unix_time(b"20000301000001Z"), Some(951_868_801));
        assert_eq!(unix_time(b"20261125031500Z"), Some(1_795_576_500));
        assert_eq!(unix_time(b"20261325031500Z"), None);
        assert_eq!(unix_time(b"2026112503150"), None);
    }

    #[test]
    fn no_more_is_said_than_is_known() {
        assert_eq!(Skew(-999).to_string(), "less than 2 s");
        assert_eq!(Skew(1_999).to_string(), "less than 2 s");
        assert_eq!(Skew(-3_600_400).to_string(), "-3600 s");
    }

    #[test]
    fn a_refusal_has_the_time() {
        let fields = [
            der(0xa0, &[2, 1, 5]),
            der(0xa1, &[2, 1, 30]),
            der(0xa4, &der(0x18, b"19700101000010Z")),
            der(0xa5, &[2, 2, 0x13, 0x88]),
        ]
        .concat();
        let whole = der(0x7e, &der(0x30, &fields));
        assert_eq!(time_of(&whole), Some(10_005));
        for end in 0..whole.len() {
            assert_eq!(time_of(&whole[..end]), None);
        }
    }
}
