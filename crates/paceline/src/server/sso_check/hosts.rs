//! By which names browsers know a site: as it is told, else by its settings, else by its keytab. It asks nobody.

use negotiate::keytab::Keytab;

use super::Line;
use crate::config::{parts::sign_on::SignOn, SiteConfig};

/// The names, and what is to be said of them.
pub fn of(site: &SiteConfig, sign_on: &SignOn, told: &[String]) -> (Vec<String>, Option<Line>) {
    if !told.is_empty() {
        return (told.to_vec(), None);
    }
    let named: Vec<_> = site.hosts.iter().filter(|host| !host.contains('*')).cloned().collect();
    if !named.is_empty() {
        return (named, None);
    }
    let keytab = sign_on.kerberos.as_ref().and_then(|kerberos| Keytab::read(&kerberos.keytab).ok());
    let entries = keytab.iter().flat_map(|keytab| &keytab.entries);
    let mut hosts: Vec<_> =
        entries.filter_map(|entry| entry.service.strip_prefix("HTTP/")).map(str::to_owned).collect();
    hosts.sort();
    hosts.dedup();
    let doubt = match hosts.first() {
        Some(first) => Line::warning(
            "name",
            format!("the site answers every host; checked as {}, which the keytab has", hosts.join(", ")),
            format!("If browsers know it by another name: paceline sso check NAME, such as {first}."),
        ),
        None => Line::warning(
            "name",
            "the site answers every host, so it is not known by which name browsers reach it",
            "Name it: paceline sso check web.example.com; or set host in [[site]].",
        ),
    };
    (hosts, Some(doubt))
}
