//! X-Forwarded-* and Forwarded: strangers are never believed, and what is left for the app says what the front has
//! understood. Input: a line of the peer's address and the networks that are trusted, then the request's fields.
#![cfg_attr(fuzzing, no_main)]

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use libfuzzer_sys::fuzz_target;
use paceline::{
    config::TrustedProxies,
    exchange::{Client, Connection},
    request::forwarded::client,
};
use paceline_fuzz::fields;

const OTHERS: [&str; 6] =
    ["forwarded", "x-real-ip", "client-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip"];

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut words = first.split(' ');
    let peer: Option<IpAddr> = words.next().and_then(|word| word.parse().ok());
    let networks: Vec<String> = words.map(str::to_owned).collect();
    let trusted = TrustedProxies::new(&networks, !networks.is_empty());
    let remote = peer.map(|peer| SocketAddr::new(peer, 9));
    let connection = Connection { remote, local: None, tls: false, accepted: 0, ..Connection::default() };

    let given = fields(lines);
    let mut headers = given.clone();
    let found = client(&mut headers, &connection, &trusted);
    if !trusted.trusts(peer) {
        assert_eq!(found, Client::of(&connection));
        assert!(!headers.keys().any(|name| name.as_str().starts_with("x-forwarded-")));
        assert!(!OTHERS.iter().any(|name| headers.contains_key(*name)));
        return;
    }
    // Nothing is made up: fields are only taken away or cut down to what counts.
    assert!(headers.keys().all(|name| given.contains_key(name)));
    if let Some(host) = &found.host {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        assert!((1..=255).contains(&host.len()) && host.bytes().all(fine), "{host:?}");
    }
    if !found.proxied {
        assert_eq!(found, Client::of(&connection));
    }
    assert!(one_at_most(&headers));

    // The app reads what is left and comes to the same.
    let mut left = headers.clone();
    let again = client(&mut left, &connection, &trusted);
    assert_eq!(Client { proxied: found.proxied, ..again }, found, "{headers:?}");
    assert_eq!(left, headers);
});

/// On lists Rack's versions disagree.
fn one_at_most(headers: &HeaderMap) -> bool {
    let single = |name: &&str| {
        let mut lines = headers.get_all(*name).iter();
        let first = lines.next();
        lines.next().is_none() && first.is_none_or(|line| !line.as_bytes().contains(&b','))
    };
    ["x-forwarded-proto", "x-forwarded-host", "x-forwarded-port"].iter().all(single)
}
