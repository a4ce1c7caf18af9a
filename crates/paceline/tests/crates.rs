//! Which crates of this checkout each crate depends on: a new dependency is decided on here.

use std::{collections::BTreeSet, fs, path::Path};

/// A crate, and the crates of this checkout that it depends on. The gem carries paceline-native, -store and -xml, and
/// builds them alone.
const CRATES: &[(&str, &str)] = &[
    ("auto-cache", ""),
    ("balance", ""),
    ("bench", "client-pool units"),
    ("cache", "esi path-patterns"),
    ("client-pool", ""),
    ("cluster", ""),
    ("damage", "auto-cache esi http-guard mailbox negotiate paceline paceline-xml path-patterns sign-in"),
    ("directory", "secret"),
    ("doctor", "units"),
    ("egress", "cache client-pool http-guard"),
    ("esi", ""),
    ("http-guard", "cache"),
    ("mailbox", ""),
    ("negotiate", ""),
    ("openid", "client-pool sign-in"),
    (
        "paceline",
        "auto-cache balance bench cache client-pool cluster directory doctor egress esi http-guard mailbox negotiate openid paceline-store \
         path-patterns scheduled secret sign-in startup-report units unix-user",
    ),
    ("paceline-fuzz", "auto-cache esi http-guard mailbox negotiate paceline paceline-xml path-patterns sign-in"),
    ("paceline-native", "paceline-store paceline-xml"),
    ("paceline-store", ""),
    ("paceline-xml", ""),
    ("path-patterns", ""),
    ("scheduled", "cache path-patterns"),
    ("secret", ""),
    ("sign-in", "paceline-store secret"),
    ("startup-report", "units unix-user"),
    ("units", ""),
    ("unix-user", ""),
];

#[test]
fn crates_use_only_the_crates_that_the_table_allows() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = fs::read_dir(checkout.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for folder in folders.chain([checkout.join("fuzz")]) {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let manifest: toml_edit::DocumentMut = manifest.parse().unwrap();
        let mut used = BTreeSet::new();
        let targets = manifest.get("target").and_then(|all| all.as_table_like());
        let targets = targets.into_iter().flat_map(|all| all.iter()).filter_map(|(_, item)| item.as_table_like());
        for table in targets.chain([manifest.as_table() as &dyn toml_edit::TableLike]) {
            for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
                let own = table.get(kind).and_then(|all| all.as_table_like()).into_iter().flat_map(|all| all.iter());
                used.extend(own.filter(|(_, item)| item.get("path").is_some()).map(|(name, _)| name.to_owned()));
            }
        }
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        found.push((name, used.into_iter().collect::<Vec<_>>().join(" ")));
    }
    found.sort();
    let allowed: Vec<_> = CRATES.iter().map(|&(name, used)| (name.to_owned(), used.to_owned())).collect();
    assert_eq!(found, allowed, "the crates of the workspace that each crate uses, and what tests/crates.rs allows");
}
