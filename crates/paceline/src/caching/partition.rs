//! What parts the keys of one target, and who shares its page. It looks at no response.

use std::net::IpAddr;

use cache::parts::{wanted_format, wanted_part};
use http::{header, request::Parts, HeaderName};

use super::{cache_request::ForAll, sessions::Visitor};
use crate::exchange::{identity::User, Exchange};

/// What proxies say and the application sees, and that names nobody.
pub(super) const SEEN_OF_PROXIES: [&str; 4] =
    ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded-ssl"];

/// What parts the keys of one target: visitors under a rule, who has signed in, what proxies said, and which part of the page a script
/// asks for. With it who shares the page. None: it is one visitor's.
pub fn partition(visitor: Option<Visitor>, head: &Parts, exchange: &Exchange) -> (Vec<u8>, Option<ForAll>) {
    let mut bytes = visitor.map_or(Vec::new(), |visitor| visitor.partition().to_vec());
    // Somebody who has signed in shares no page with anybody else.
    bytes.extend(exchange.requester.user.iter().flat_map(User::partition));
    let (by_proxies, names_nobody) = by_proxies(head, exchange);
    bytes.extend(&by_proxies);
    let is_known = exchange.requester.user.is_some() || visitor.is_some_and(|visitor| visitor.0.is_some());
    let part = wanted_part(&head.headers);
    bytes.extend(&part);
    // By a rule also what says no Vary is kept.
    let format = visitor.and_then(|_| wanted_format(&head.headers));
    bytes.extend(format.iter().flat_map(|format| [b"accept:", &format[..], b"\n"].concat()));
    let is_page = part.is_empty() && format.is_none();
    let for_all = ForAll { by_proxies, asker: network(exchange.client.address) };
    (bytes, (names_nobody && !is_known && is_page).then_some(for_all))
}

/// What proxies said beside host and scheme. A proxy may have let it through from its client, and an app may render it, or
/// know its user by it: whether it names nobody.
fn by_proxies(head: &Parts, exchange: &Exchange) -> (Vec<u8>, bool) {
    if !exchange.client.proxied {
        return (Vec::new(), true);
    }
    const IN_THE_TARGET: [&str; 3] = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
    let forwarded =
        |name: &HeaderName| name.as_str().starts_with("x-forwarded-") && !IN_THE_TARGET.contains(&name.as_str());
    let by_proxy = |name: &HeaderName| forwarded(name) || name == header::HOST && exchange.client.host.is_some();
    let names_nobody = !head.headers.keys().any(|name| forwarded(name) && !SEEN_OF_PROXIES.contains(&name.as_str()));
    let fields = head.headers.iter().filter(|(name, _)| by_proxy(name));
    let mut said: Vec<_> =
        fields.map(|(name, value)| [name.as_str().as_bytes(), b"\0", value.as_bytes(), b"\0"].concat()).collect();
    said.sort();
    let mut bytes = said.concat();
    // What these say is in the target; that they are there an app can see as well.
    let present =
        [header::FORWARDED, HeaderName::from_static("x-forwarded-host"), HeaderName::from_static("x-forwarded-proto")];
    bytes.extend(present.map(|name| u8::from(head.headers.contains_key(name))));
    (bytes, names_nobody)
}

/// A number for the network of an address: who has one network's addresses may ask from all of them.
fn network(address: Option<IpAddr>) -> u64 {
    let number = |octets: &[u8]| octets.iter().fold(1, |number, octet| number << 8 | u64::from(*octet));
    match address {
        Some(IpAddr::V4(own)) => number(&own.octets()[..2]),
        Some(IpAddr::V6(own)) => number(&own.octets()[..6]),
        None => 0,
    }
}
