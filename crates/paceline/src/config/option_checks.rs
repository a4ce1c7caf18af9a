//! What a setting's text has to look like, where its type does not say it all.
//! It never says what the setting is for.

use ipnet::IpNet;

use super::{bind, value::ValueError};
use crate::{observe::traces, request::access_log::Skip, upstream::Target};

pub(super) fn environment(text: &str) -> Result<(), ValueError> {
    let fine = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        && !text.starts_with('.');
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("a word like production", text))
}

pub(super) fn warm_up(text: &str) -> Result<(), ValueError> {
    let fine = text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic());
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("a path like /login", text))
}

pub(super) fn ready_path(text: &str) -> Result<(), ValueError> {
    let fine = ["auto", "off"].contains(&text) || warm_up(text).is_ok();
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("a path like /up, auto or off", text))
}

pub(super) fn log_skip(text: &str) -> Result<(), ValueError> {
    let expected = "a path like /up or /assets/*, a status like 304 or 2xx, or both";
    Skip::parse(text).map(drop).ok_or_else(|| ValueError::mismatch(expected, text))
}

pub(super) fn account(text: &str) -> Result<(), ValueError> {
    let fine =
        !text.is_empty() && !text.starts_with('-') && !text.chars().any(|c| c.is_control() || " :/,".contains(c));
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("a name such as deploy, or a number", text))
}

pub(super) fn email(text: &str) -> Result<(), ValueError> {
    let fine = text.is_ascii()
        && text.split_once('@').is_some_and(|(who, place)| !who.is_empty() && place.contains('.'))
        && !text.bytes().any(|b| b.is_ascii_whitespace() || b.is_ascii_control() || b":,?".contains(&b));
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("an address like you@shop.example", text))
}

pub(super) fn directory(text: &str) -> Result<(), ValueError> {
    let uri = text.parse::<http::Uri>().ok();
    let fine = uri.is_some_and(|uri| uri.scheme_str() == Some("https") && uri.host().is_some());
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("an address that begins with https://", text))
}

pub(super) fn upstream(text: &str) -> Result<(), ValueError> {
    Target::parse(text).map(drop).map_err(ValueError::Upstream)
}

pub(super) fn upstream_check(text: &str) -> Result<(), ValueError> {
    let fine = text == "off" || warm_up(text).is_ok();
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("a path like /up, or off", text))
}

pub(super) fn site_name(text: &str) -> Result<(), ValueError> {
    let fine = !text.is_empty() && !text.chars().any(|c| c.is_control() || c == '/');
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("a name without slashes", text))
}

pub(super) fn exact_host(text: &str) -> Result<(), ValueError> {
    match text.starts_with("*.") {
        true => Err(ValueError::mismatch("whole host names without scheme and port like shop.test", text)),
        false => host_name(text),
    }
}

pub(super) fn host_name(text: &str) -> Result<(), ValueError> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let word = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let address = name.starts_with('[') && bind::address(name).is_some();
    let fine = address || !name.is_empty() && name.bytes().all(word) && !name.starts_with('.');
    fine.then_some(()).ok_or_else(|| ValueError::mismatch("a host name without scheme and port like shop.test", text))
}

pub(super) fn network(text: &str) -> Result<(), ValueError> {
    parse_network(text).map(drop).ok_or_else(|| ValueError::mismatch("a network like 10.1.0.0/16 or an address", text))
}

/// A network, or a single address.
pub(super) fn parse_network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from))
}

pub(super) fn collector(text: &str) -> Result<(), ValueError> {
    Ok(traces::Endpoint::parse(text).map(drop)?)
}

pub(super) fn share(text: &str) -> Result<(), ValueError> {
    Ok(traces::share(text).map(drop)?)
}
