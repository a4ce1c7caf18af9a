//! What a request brings that an application may read, whether it says so or not: cookies by name, header fields, the address. It says of
//! each whether it may show who somebody is; what is not known may. It decides nothing.

use std::net::IpAddr;

use ::auto_cache::{
    keys::Source,
    watch::{Field, Kind},
};
use cache::{
    cookies::{cookies, is_analytics},
    parts::{names_part, wanted_format},
};
use http::{header, HeaderMap};

/// Fields that decide how an answer travels, that the front puts right, or that are in each page's URL.
const BESIDE: [&str; 26] = [
    "accept-encoding",
    "cache-control",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "pragma",
    "range",
    // Of the front itself.
    "surrogate-capability",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-request-id",
    "x-request-start",
];
/// Fields in which many visitors are alike, or that differ with each request.
const COMMON: [&str; 29] = [
    "accept",
    "accept-charset",
    "cdn-loop",
    "cf-connecting-ip",
    "cf-ray",
    "cf-visitor",
    "client-ip",
    "content-type",
    "device-memory",
    "downlink",
    "dpr",
    "ect",
    "forwarded",
    "origin",
    "priority",
    "referer",
    "rtt",
    "traceparent",
    "tracestate",
    "true-client-ip",
    "user-agent",
    "via",
    "viewport-width",
    "width",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-forwarded-for",
    "x-real-ip",
    "x-turbo-request-id",
];
/// Client hints.
const HINTS: &str = "sec-ch-";
/// Fields of a few values, of which many visitors have each, and by which applications choose what they show: equal answers to others say
/// nothing of a value.
const FEW: [&str; 17] = [
    "accept-language",
    "cf-ipcountry",
    "dnt",
    "purpose",
    "save-data",
    "sec-ch-ua-mobile",
    "sec-ch-ua-platform",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "sec-gpc",
    "sec-purpose",
    "upgrade-insecure-requests",
    "x-forwarded-port",
    "x-moz",
    "x-purpose",
];
/// Stands for all values of such a field where many are needed.
const NONE_ALIKE: &[u8] = b"";

/// Only `name=value` and `; ` between: all programs read it alike. Of space, Rack takes away only what follows a semicolon.
pub(super) fn is_plain(cookies: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_whitespace);
    cookies.split(|byte| *byte == b';').enumerate().all(|(nth, pair)| {
        let pair = if nth > 0 { &pair[pair.iter().take_while(|byte| **byte == b' ').count()..] } else { pair };
        pair.is_empty() || pair.contains(&b'=') && !is_space(pair.first()) && !is_space(pair.last())
    })
}

#[cfg(test)]
thread_local! {
    /// A broken rule, for the model: nothing counts but what records name.
    pub static IS_BLIND: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

pub fn each_field(headers: &HeaderMap, address: Option<IpAddr>, see: &mut dyn FnMut(Field)) {
    #[cfg(test)]
    if IS_BLIND.get() {
        return;
    }
    let mut tell =
        |kind, source, name: &[u8], value: &[u8], alike: &[u8]| see(Field { kind, source, name, value, alike });
    for (name, value) in headers {
        let (name, value) = (name.as_str(), value.as_bytes());
        if BESIDE.contains(&name) || names_part(name) {
            continue;
        }
        let is_one_of_few = FEW.contains(&name);
        let is_common = is_one_of_few || COMMON.contains(&name) || name.starts_with(HINTS);
        let kind = if is_common { Kind::Common } else { Kind::Personal };
        tell(kind, Source::Header, name.as_bytes(), value, if is_one_of_few { NONE_ALIKE } else { value });
    }
    // That answers for many browsers are alike says nothing of JSON.
    if let Some(format) = wanted_format(headers) {
        tell(Kind::Common, Source::Request, b"format", &format, NONE_ALIKE);
    }
    if headers.get_all(header::COOKIE).iter().all(|line| is_plain(line.as_bytes())) {
        for (name, value) in cookies(headers) {
            let kind = if is_analytics(name) { Kind::Common } else { Kind::Personal };
            tell(kind, Source::Cookie, name, value, value);
        }
    } else {
        // Nobody knows what the application makes of them.
        for line in headers.get_all(header::COOKIE) {
            tell(Kind::Personal, Source::Cookie, b"*", line.as_bytes(), line.as_bytes());
        }
    }
    match address {
        Some(IpAddr::V4(own)) => {
            let own = own.octets();
            tell(Kind::Common, Source::Request, b"address", &own, &own[..2]);
        }
        Some(IpAddr::V6(own)) => {
            let own = own.octets();
            tell(Kind::Common, Source::Request, b"address", &own, &own[..6]);
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn found(fields: &[(&'static str, &'static str)]) -> Vec<(Kind, Source, String)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let mut found = Vec::new();
        each_field(&headers, None, &mut |field| {
            found.push((field.kind, field.source, String::from_utf8_lossy(field.name).into_owned()));
        });
        found
    }

    #[test]
    fn what_is_not_known_may_show_who_somebody_is() {
        for name in
            ["private-token", "x-user", "x-tenant", "remote-user", "from", "x-anything", "authorization", "baggage"]
        {
            assert_eq!(found(&[(name, "1")]), [(Kind::Personal, Source::Header, name.to_owned())]);
        }
        for name in ["user-agent", "accept-language", "sec-ch-ua-mobile", "referer"] {
            assert_eq!(found(&[(name, "1")]), [(Kind::Common, Source::Header, name.to_owned())]);
        }
        assert_eq!(found(&[("host", "a"), ("if-none-match", "\"a\""), ("turbo-frame", "list")]), []);
    }

    #[test]
    fn many_values_of_a_field_say_nothing_of_one_that_applications_choose_by() {
        let alike = |name: &'static str, values: [&'static str; 2]| {
            let of = |value: &'static str| {
                let mut headers = HeaderMap::new();
                headers.append(name, HeaderValue::from_static(value));
                let mut found = Vec::new();
                each_field(&headers, None, &mut |field| {
                    found.push((field.name.to_vec(), field.value.to_vec(), field.alike.to_vec()));
                });
                found
            };
            let [one, other] = values.map(of);
            let pairs = one.into_iter().zip(other).filter(|(one, other)| one.1 != other.1);
            pairs.map(|(one, other)| one.2 == other.2).collect::<Vec<_>>()
        };
        assert_eq!(alike("user-agent", ["a", "b"]), [false]);
        assert_eq!(alike("accept-language", ["de", "fr"]), [true]);
        assert_eq!(alike("sec-fetch-mode", ["cors", "navigate"]), [true]);
        assert_eq!(alike("accept", ["text/html, */*", "text/css, */*"]), [false], "of browsers");
        assert_eq!(alike("accept", ["application/json", "text/csv"]), [false, true]);
    }

    #[test]
    fn each_cookie_counts_by_itself() {
        let cookie = |kind, name: &str| (kind, Source::Cookie, name.to_owned());
        assert_eq!(
            found(&[("cookie", "_shop=1; _ga=GA1.2.3"), ("cookie", "theme=dark")]),
            [cookie(Kind::Personal, "_shop"), cookie(Kind::Common, "_ga"), cookie(Kind::Personal, "theme")]
        );
        assert_eq!(found(&[("cookie", "_shop=1 ; theme")]), [cookie(Kind::Personal, "*")]);
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let networks = |text: &str| {
            let mut found = Vec::new();
            each_field(&HeaderMap::new(), text.parse().ok(), &mut |field| {
                found.push((field.value.to_vec(), field.alike.to_vec()));
            });
            found.remove(0)
        };
        let (one, other) = (networks("192.0.2.1"), networks("192.0.77.2"));
        assert!(one.0 != other.0 && one.1 == other.1 && one.1 != networks("198.51.100.1").1);
        assert_eq!(networks("2001:db8:1::1").1, networks("2001:db8:1:2::1").1);
    }
}
