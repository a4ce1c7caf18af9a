//! Headers of two answers, field by field. It never compares bodies.

use std::collections::BTreeMap;

use super::{HeaderChange, Mask};

/// They differ each time, or belong to the connection.
const ALWAYS_NOISE: [&str; 9] = [
    "date",
    "x-runtime",
    "x-request-id",
    "x-correlation-id",
    "server-timing",
    "age",
    "connection",
    "keep-alive",
    "transfer-encoding",
];
/// They are made of the body.
const OF_THE_BODY: [&str; 5] = ["etag", "content-length", "content-md5", "digest", "repr-digest"];

/// Values by lower-case name. Those of one name stay in order.
fn by_name(headers: &[(String, String)]) -> BTreeMap<String, Vec<&str>> {
    let mut fields: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, value) in headers {
        // Rack 2 joins several values with a line end.
        fields.entry(name.to_ascii_lowercase()).or_default().extend(value.split('\n'));
    }
    fields
}

type Values = (Option<String>, Option<String>);

/// The comparable values of both, without those that are always noise.
pub(super) fn paired(one: &[(String, String)], other: &[(String, String)]) -> Vec<(String, Values)> {
    let (one, other) = (by_name(one), by_name(other));
    let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let value = |fields: &BTreeMap<String, Vec<&str>>, name: &String| {
        fields.get(name).map(|values| match name.as_str() {
            "set-cookie" => values.iter().map(|value| without_value(value)).collect::<Vec<_>>().join("\n"),
            _ => values.join("\n"),
        })
    };
    names
        .into_iter()
        .filter(|name| !ALWAYS_NOISE.contains(&name.as_str()))
        .map(|name| (name.clone(), (value(&one, name), value(&other, name))))
        .collect()
}

/// A cookie's name and attributes. The value is encrypted or random, and the date of its end moves.
fn without_value(cookie: &str) -> String {
    let mut parts = cookie.split(';').map(str::trim);
    let name = parts.next().and_then(|pair| pair.split('=').next()).unwrap_or_default();
    let rest = parts.map(|part| match part.split_once('=') {
        Some((attribute, _)) if attribute.eq_ignore_ascii_case("expires") => attribute.to_ascii_lowercase(),
        _ => part.to_ascii_lowercase(),
    });
    std::iter::once(format!("{name}=…")).chain(rest).collect::<Vec<_>>().join("; ")
}

/// A field as the mask learns it: its name is part of what stands around a value.
pub(super) fn text(name: &str, value: &str) -> String {
    format!("\n{name}: {value}\n")
}

pub(super) fn changes(
    mask: &Mask,
    control: &[(String, String)],
    trial: &[(String, String)],
    is_same_body: bool,
) -> Vec<HeaderChange> {
    let mut changes = Vec::new();
    for (name, (before, after)) in paired(control, trial) {
        let is_same = match (&before, &after) {
            (Some(before), Some(after)) => {
                before == after
                    || !is_same_body && OF_THE_BODY.contains(&name.as_str())
                    || mask.is_same_text(&text(&name, before), &text(&name, after))
            }
            _ => mask.is_optional(&name),
        };
        if !is_same {
            changes.push(HeaderChange { name, control: before, trial: after });
        }
    }
    changes
}
