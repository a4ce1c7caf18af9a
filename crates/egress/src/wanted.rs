//! What a call asks for beside HTTP's own: the field `Paceline-Egress` of its request (docs/egress-protocol.md). What
//! can't be understood is refused, never left out. It decides nothing.

use std::time::Duration;

use client_pool::{Failure, Proxy, TlsVersion, Verify, Way};
use http::HeaderMap;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// The request's field, and the response's.
pub const FIELD: &str = "paceline-egress";
/// The response's, in place of a response.
pub const ERROR_FIELD: &str = "paceline-egress-error";

/// What Net::HTTP allows for a connection, and what we do unless told otherwise.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// A longer time means for ever.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What one call asks for.
#[derive(Debug, Default)]
pub struct CallOptions {
    /// From the call's arrival to a connection that can be used.
    pub open_timeout: Duration,
    /// From the call's arrival to the last byte of the response.
    pub deadline: Option<Duration>,
    pub way: Way,
    /// Public addresses only.
    pub guard: bool,
    /// The id of the exchange that it is made for.
    pub exchange: Option<String>,
    /// A response that was kept may answer.
    pub cache: bool,
    /// The process is about to make the call by itself, and asks whether it may.
    pub own: bool,
}

impl CallOptions {
    /// What the request's fields say.
    pub fn of(headers: &HeaderMap) -> Result<CallOptions, Failure> {
        let mut wanted = CallOptions { open_timeout: OPEN_TIMEOUT, cache: true, ..CallOptions::default() };
        let mut lines = headers.get_all(FIELD).iter();
        let Some(line) = lines.next() else { return Ok(wanted) };
        let refused = |why: String| Err(Failure::Unsupported(why));
        if lines.next().is_some() {
            return refused("several fields Paceline-Egress".into());
        }
        let Ok(members) = Parser::new(line.as_bytes()).parse::<Dictionary>() else {
            return refused("Paceline-Egress is no dictionary (RFC 9651)".into());
        };
        let (mut certificate, mut key, mut verify_host) = (None, None, true);
        for (name, entry) in &members {
            let ListEntry::Item(item) = entry else { return refused(format!("{name} is a list")) };
            let taken = MemberValue(&item.bare_item);
            let way = &mut wanted.way;
            let trust = &mut way.trust;
            let understood = match name.as_str() {
                "open_timeout" => taken.seconds().map(|time| wanted.open_timeout = time),
                "deadline" => taken.seconds().map(|time| wanted.deadline = Some(time)),
                "verify" => taken.boolean().map(|yes| {
                    if !yes {
                        trust.verify = Verify::Nothing;
                    }
                }),
                "verify_host" => taken.boolean().map(|yes| verify_host = yes),
                "ca_file" => taken.text().map(|path| trust.ca_file = Some(path.into())),
                "ca_path" => taken.text().map(|path| trust.ca_path = Some(path.into())),
                "system" => taken.boolean().map(|yes| trust.system = yes),
                "ca" => taken.bytes().map(|bytes| trust.ca = bytes),
                "cert" => taken.bytes().map(|bytes| certificate = Some(bytes)),
                "key" => taken.bytes().map(|bytes| key = Some(bytes)),
                "sni" => taken.text().map(|name| trust.sni = Some(name.to_owned())),
                "address" => taken.text().and_then(|text| text.parse().ok()).map(|address| way.address = Some(address)),
                "proxy" => taken.text().and_then(Proxy::parse).map(|proxy| way.proxy = Some(proxy)),
                "http" => (taken.text() == Some("1.1")).then(|| way.only_http1 = true),
                "tls_min" => taken.version().map(|version| trust.min = Some(version)),
                "tls_max" => taken.version().map(|version| trust.max = Some(version)),
                "exchange" => taken.text().map(|id| wanted.exchange = Some(id.to_owned())),
                "cache" => taken.boolean().map(|yes| wanted.cache = yes),
                "own" => taken.boolean().map(|yes| wanted.own = yes),
                "guard" => taken.boolean().map(|yes| wanted.guard = yes),
                _ => None,
            };
            if understood.is_none() {
                return refused(format!("{name} can't be honoured as it stands"));
            }
        }
        if !verify_host && wanted.way.trust.verify == Verify::All {
            wanted.way.trust.verify = Verify::Chain;
        }
        wanted.way.trust.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return refused("cert and key go together".into()),
        };
        Ok(wanted)
    }
}

/// A member's value.
struct MemberValue<'a>(&'a BareItem);

impl<'a> MemberValue<'a> {
    fn seconds(&self) -> Option<Duration> {
        let thousandths = match self.0 {
            BareItem::Decimal(number) => i64::from(number.as_integer_scaled_1000()),
            BareItem::Integer(number) => i64::from(*number).checked_mul(1000)?,
            _ => return None,
        };
        Some(Duration::from_millis(u64::try_from(thousandths).ok()?).min(LONGEST))
    }

    fn boolean(&self) -> Option<bool> {
        self.0.as_boolean()
    }

    fn text(&self) -> Option<&'a str> {
        match self.0 {
            BareItem::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        self.0.as_byte_sequence().filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec)
    }

    fn version(&self) -> Option<TlsVersion> {
        match self.text()? {
            "1.2" => Some(TlsVersion::Tls12),
            "1.3" => Some(TlsVersion::Tls13),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(value: &'static str) -> Result<CallOptions, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(FIELD, HeaderValue::from_static(value));
        CallOptions::of(&headers)
    }

    #[test]
    fn nothing_asked_for_is_what_net_http_does() {
        let wanted = CallOptions::of(&HeaderMap::new()).unwrap();
        assert_eq!((wanted.open_timeout, wanted.deadline, wanted.guard), (Duration::from_secs(60), None, false));
        assert_eq!(wanted.way, Way::default());
        assert_eq!(wanted.way.trust.verify, Verify::All);
    }

    #[test]
    fn each_member_is_understood() {
        let wanted = of(
            r#"open_timeout=2.5, deadline=3, verify_host=?0, ca_file="/a", ca_path="/b", ca=:MAA=:, cert=:MAA=:, key=:MAA=:, sni="x", address="::1", proxy="http://me:pw@proxy:3128", http="1.1", tls_min="1.2", tls_max="1.3", own, guard"#,
        )
        .unwrap();
        assert_eq!(wanted.open_timeout, Duration::from_millis(2500));
        assert_eq!(wanted.deadline, Some(Duration::from_secs(3)));
        assert!(wanted.guard && wanted.own && wanted.way.only_http1 && wanted.way.proxy.is_some());
        assert_eq!(wanted.way.address, Some("::1".parse().unwrap()));
        let trust = wanted.way.trust;
        assert_eq!(trust.verify, Verify::Chain);
        assert_eq!((trust.ca_file, trust.ca_path, trust.ca), (Some("/a".into()), Some("/b".into()), vec![0x30, 0]));
        assert_eq!(trust.identity, Some((vec![0x30, 0], vec![0x30, 0])));
        assert_eq!((trust.min, trust.max), (Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)));
        assert_eq!(of("verify=?0, verify_host=?0").unwrap().way.trust.verify, Verify::Nothing);
        assert_eq!(of("verify, verify_host").unwrap().way.trust.verify, Verify::All);
    }

    #[test]
    fn what_can_not_be_honoured_is_refused() {
        for value in [
            "verfy=?0",
            "verify=0",
            "verify=(?0)",
            "open_timeout=-1",
            "open_timeout=\"2\"",
            "address=\"host\"",
            "http=\"2\"",
            "tls_min=\"1.0\"",
            "cert=:MAA=:",
            "ca=::",
            "proxy=\"socks5://x\"",
            "=",
        ] {
            assert!(matches!(of(value), Err(Failure::Unsupported(_))), "{value}");
        }
    }
}
