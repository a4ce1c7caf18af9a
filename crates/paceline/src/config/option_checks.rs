//! What a setting's text has to look like, where its type does not say it all.
//! It never says what the setting is for.

use std::path::Path;

use super::{
    bind,
    hosts::{is_host_name, parse_network},
    trusted,
    value::ValueError,
};
use crate::{exchange::access_log::Skip, observe::traces, origins::upstream::Target};

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
    if text.starts_with("*.") {
        Err(ValueError::mismatch("whole host names without scheme and port like shop.test", text))
    } else {
        host_name(text)
    }
}

pub(super) fn host_name(text: &str) -> Result<(), ValueError> {
    is_host_name(text)
        .then_some(())
        .ok_or_else(|| ValueError::mismatch("a host name without scheme and port like shop.test", text))
}

pub(super) fn network(text: &str) -> Result<(), ValueError> {
    parse_network(text).map(drop).ok_or_else(|| ValueError::mismatch("a network like 10.1.0.0/16 or an address", text))
}

pub(super) fn collector(text: &str) -> Result<(), ValueError> {
    Ok(traces::Endpoint::parse(text).map(drop)?)
}

pub(super) fn share(text: &str) -> Result<(), ValueError> {
    Ok(traces::share(text).map(drop)?)
}

/// Refuses what `bind::parse` would refuse; an address without a port is welcome.
pub(super) fn bind(text: &str) -> Result<(), ValueError> {
    if bind::address(text).is_some() {
        return Ok(());
    }
    Ok(bind::parse(text, Path::new("/")).map(drop)?)
}

pub(super) fn bind_address(text: &str) -> Result<(), ValueError> {
    bind::address(text).map(drop).ok_or_else(|| ValueError::mismatch("an IP address or localhost", text))
}

pub(super) fn trusted_proxy(text: &str) -> Result<(), ValueError> {
    let expected = "an address, a network like 10.0.0.0/8, \"loopback\", \"private\", \"unix\" or \"none\"";
    trusted::is_known(text).then_some(()).ok_or_else(|| ValueError::mismatch(expected, text))
}
