//! Which hosts get their certificate by themselves (`tls = "auto"`), from whom, and where it is kept.
//! It never asks anybody for one.

use std::{net::IpAddr, path::PathBuf};

use super::{layer::View, paceline_toml::TomlTable, sources::Sources, AcmeConfig, SiteConfig};

/// None: nobody asks for it. `tables` are those of the `sites`, where there are any. Err: all that is wrong.
pub fn settings(
    sources: &Sources,
    tables: &[TomlTable],
    sites: &[SiteConfig],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<AcmeConfig>, Vec<String>> {
    let server = sources.server();
    let (mut hosts, mut problems) = (Vec::new(), Vec::new());
    for (table, site) in tables.iter().zip(sites) {
        if !is_automatic(&sources.site(&table.layer)) {
            continue;
        }
        if site.hosts.is_empty() && table.layer.has("tls") {
            problems.push(format!(
                "{}tls = \"auto\" needs the host names: add host = \"shop.example\"",
                table.place("tls")
            ));
        }
        for host in &site.hosts {
            match refusal(host) {
                Some(why) => problems.push(format!(
                    "{}host {host:?} cannot have tls = \"auto\": {why}; name its hosts, or give the site tls = \"files\" and a [[tls]]",
                    table.place("host")
                )),
                None if hosts.contains(host) => {}
                None => hosts.push(host.clone()),
            }
        }
    }
    if hosts.is_empty() && problems.is_empty() && is_automatic(&server) {
        problems
            .push("tls = \"auto\" needs host names: write a [[site]] with its root and host = \"shop.example\"".into());
    }
    let dir = server.path("acme_dir").or_else(|| usual_dir(env, rustix::process::geteuid().is_root()));
    if dir.is_none() && !hosts.is_empty() {
        problems.push("tls = \"auto\" has no folder for its certificates: set acme_dir".into());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(dir.filter(|_| !hosts.is_empty()).map(|dir| AcmeConfig {
        hosts,
        directory: server.text("acme_directory").unwrap_or_default(),
        ca_file: server.path("acme_ca_file"),
        email: server.text("acme_email"),
        dir,
    }))
}

fn is_automatic(view: &View) -> bool {
    view.text("tls").as_deref() == Some("auto")
}

/// Why no certificate can be had for the host without further ado.
fn refusal(host: &str) -> Option<&'static str> {
    match host {
        _ if host.starts_with("*.") => Some("a wildcard certificate needs access to the DNS"),
        _ if host.starts_with('[') || host.parse::<IpAddr>().is_ok() => Some("it is an address, not a name"),
        _ if host.ends_with('.') || host.len() > 253 => Some("it is not a valid name for a certificate"),
        _ => None,
    }
}

fn usual_dir(env: &dyn Fn(&str) -> Option<String>, root: bool) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|text| text.starts_with('/'));
    // systemd names several, with colons between.
    let state = set("STATE_DIRECTORY").and_then(|list| list.split(':').next().map(PathBuf::from));
    state
        .map(|dir| dir.join("acme"))
        .or_else(|| root.then(|| "/var/lib/paceline/acme".into()))
        .or_else(|| set("XDG_STATE_HOME").map(|dir| PathBuf::from(dir).join("paceline/acme")))
        .or_else(|| set("HOME").map(|dir| PathBuf::from(dir).join(".local/state/paceline/acme")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        load,
        test_folder::{around, Folder},
        Config, ConfigError, Flags,
    };

    fn loaded(toml: &str) -> Result<Config, ConfigError> {
        let folder = Folder::with(&[("paceline.toml", toml), ("config.ru", "")]);
        around(&folder.0, &[], |around| load(Flags::default(), around))
    }

    #[test]
    fn hosts_of_the_sites() {
        let site = |rest: &str| format!("[[site]]\nroot = \".\"\n{rest}\n");
        let top = "bind = \"https://127.0.0.1:0\"\nacme_dir = \"kept\"\n";
        let auto = format!("{top}tls = \"auto\"\n");
        for (toml, hosts) in [
            (format!("{auto}{}", site("host = [\"a.test\", \"B.test\"]")), &["a.test", "b.test"][..]),
            (
                format!("{auto}{}{}", site("host = \"a.test\""), site("host = \"*.b.test\"\ntls = \"files\"")),
                &["a.test"],
            ),
            (format!("{auto}{}{}", site("host = \"a.test\""), site("")), &["a.test"]),
            (format!("{top}{}{}", site("host = \"a.test\""), site("host = \"b.test\"\ntls = \"auto\"")), &["b.test"]),
        ] {
            let automatic = loaded(&toml).expect(&toml).tls.automatic.expect(&toml);
            assert_eq!(automatic.hosts, hosts, "{toml}");
            assert!(automatic.dir.is_absolute() && automatic.directory.contains("letsencrypt"));
        }
        for (toml, told) in [
            (auto.clone(), "needs host names: write a [[site]]"),
            (
                format!("{auto}{}", site("host = \"*.a.test\"")),
                "paceline.toml:6:1: host \"*.a.test\" cannot have tls = \"auto\": a wildcard certificate",
            ),
            (format!("{auto}{}", site("host = \"10.0.0.1\"")), "it is an address, not a name"),
            (format!("{auto}{}", site("host = \"[::1]\"")), "it is an address, not a name"),
            (format!("{top}{}", site("tls = \"auto\"")), "paceline.toml:5:1: tls = \"auto\" needs the host names"),
            (format!("{top}{}", site("host = \"a.test\"")), "TLS needs a certificate"),
            ("acme_directory = \"http://a.test\"".into(), "begins with https://"),
            ("acme_email = \"me\"".into(), "must be an address like"),
            ("tls = \"always\"".into(), "\"files\" or \"auto\""),
        ] {
            let error = loaded(&toml).expect_err(&toml);
            assert!(error.to_string().contains(told), "{toml}\n{error}");
        }
        assert!(loaded(&format!("tls = \"auto\"\n{}", site("host = \"a.test\""))).expect("fine").notices[0]
            .contains("has no effect"));
    }

    #[test]
    fn where_things_are_kept() {
        let dir = |names: &[(&str, &str)], root| {
            let found =
                usual_dir(&|name| names.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()), root);
            found.map(|dir| dir.display().to_string())
        };
        assert_eq!(
            dir(&[("STATE_DIRECTORY", "/var/lib/a:/b"), ("HOME", "/h")], true).as_deref(),
            Some("/var/lib/a/acme")
        );
        assert_eq!(dir(&[("HOME", "/h")], true).as_deref(), Some("/var/lib/paceline/acme"));
        assert_eq!(dir(&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")], false).as_deref(), Some("/x/paceline/acme"));
        assert_eq!(dir(&[("HOME", "/h")], false).as_deref(), Some("/h/.local/state/paceline/acme"));
        assert_eq!(dir(&[("HOME", "h")], false), None);
    }
}
