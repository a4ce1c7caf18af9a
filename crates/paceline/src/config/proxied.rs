//! Sites with an `upstream`: what they can't have beside it, and what follows from it.
//! It never asks the upstream.

use super::{
    options::{named, APP, RUBY},
    paceline_toml::TomlTable,
    sources::Sources,
    SiteConfig,
};
use crate::origins::upstream::Targets;

/// Settings of applications that have a meaning here too: who reads the files, and how much errors show.
const OF_USE: &[&str] = &["environment", "user", "group"];

/// Checks and completes the `sites`, whose `tables` are those of paceline.toml where there are any. Returns all that is
/// wrong.
pub fn settle(sources: &Sources, tables: &[TomlTable], sites: &mut [SiteConfig], has_sites_dir: bool) -> Vec<String> {
    let mut problems = Vec::new();
    if sources.server().given("upstream").is_some() && (!tables.is_empty() || has_sites_dir) {
        problems.push(
            "upstream: at the top it works for a single site only; with several write upstream = ... in its [[site]]"
                .into(),
        );
    }
    if tables.is_empty() && sources.server().given("upstream").is_some() && sources.flags.has("rackup") {
        problems.push("a site has a rackup file or an upstream, not both: remove one of them".into());
    }
    problems.extend(tls_problems(sources, tables, sites));
    problems.extend(target_problems(sources, tables, sites));
    for (table, site) in tables.iter().zip(sites).filter(|(table, _)| table.layer.has("upstream")) {
        let of_apps = table.layer.keys().filter(|key| {
            let group = named(key).map(|option| option.group);
            (group == Some(APP) || group == Some(RUBY)) && !OF_USE.contains(key)
        });
        problems.extend(of_apps.map(|key| {
            format!(
                "{}\"{key}\" has no effect with \"upstream\": no application is started for this site",
                table.place(key)
            )
        }));
        let view = sources.site(&table.layer);
        if !table.layer.has("root") {
            // The folder that is served otherwise is not this site's.
            site.static_files &= view.given("public").is_some();
            if let (Some(upstream), true) = (&site.upstream, view.given("name").is_none() && site.hosts.is_empty()) {
                site.name = upstream.authority();
            }
        }
    }
    problems
}

/// Hosts that can't be balanced, and settings of balancing where there is one host.
fn target_problems(sources: &Sources, tables: &[TomlTable], sites: &[SiteConfig]) -> Vec<String> {
    let wrong = |texts: Vec<String>, place: String| {
        Targets::parse(&texts).err().map(|why| format!("{place}\"upstream\" {why}"))
    };
    let own = tables.iter().filter(|table| table.layer.has("upstream"));
    let mut problems: Vec<_> =
        own.filter_map(|table| wrong(sources.site(&table.layer).list("upstream"), table.place("upstream"))).collect();
    if sources.server().given("upstream").is_some() {
        problems.extend(wrong(sources.server().list("upstream"), String::new()));
    }
    let is_balanced = |site: &SiteConfig| site.upstream.as_ref().is_some_and(Targets::is_balanced);
    for key in ["upstream_check", "upstream_check_interval", "upstream_sticky"] {
        let useless = |place: String| format!("{place}\"{key}\" has no effect without several hosts in upstream");
        let single = tables.iter().zip(sites).filter(|(table, site)| table.layer.has(key) && !is_balanced(site));
        problems.extend(single.map(|(table, _)| useless(table.place(key))));
        if tables.is_empty() && sources.server().given(key).is_some() && !sites.iter().any(is_balanced) {
            problems.push(useless(String::new()));
        }
    }
    problems
}

/// Settings of TLS where there is none, and certificates that can't be read: requests would find out otherwise.
fn tls_problems(sources: &Sources, tables: &[TomlTable], sites: &[SiteConfig]) -> Vec<String> {
    let is_https = |site: &SiteConfig| site.upstream.as_ref().is_some_and(Targets::is_https);
    let mut problems = Vec::new();
    for key in ["upstream_ca_file", "upstream_tls_name"] {
        let useless = |place: String| format!("{place}\"{key}\" has no effect without an https upstream");
        let plain = tables.iter().zip(sites).filter(|(table, site)| table.layer.has(key) && !is_https(site));
        problems.extend(plain.map(|(table, _)| useless(table.place(key))));
        // Where there are several sites it is the one for those that are https.
        if tables.is_empty() && sources.server().given(key).is_some() && !sites.iter().any(is_https) {
            problems.push(useless(String::new()));
        }
    }
    let mut files: Vec<_> =
        sites.iter().filter(|site| is_https(site)).filter_map(|site| site.upstream_tls.ca_file.as_deref()).collect();
    files.sort();
    files.dedup();
    for file in files {
        if let Err(why) = client_pool::check_ca_file(file) {
            problems.push(format!("upstream_ca_file: {} can't be used: {why}", file.display()));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use crate::config::{
        load,
        test_folder::{around, Folder},
        Config, ConfigError, Flags, SiteConfig,
    };

    fn loaded(toml: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let folder = Folder::with(&[("paceline.toml", toml), ("public/index.html", "")]);
        around(&folder.0, env, |around| load(Flags::default(), around))
    }

    fn site(toml: &str) -> SiteConfig {
        loaded(toml, &[]).expect(toml).sites.remove(0)
    }

    #[test]
    fn a_site_needs_no_root_beside_an_upstream() {
        let shop = site("[[site]]\nhost = \"shop.test\"\nupstream = \"http://127.0.0.1:8000\"");
        assert_eq!((shop.serves().as_str(), shop.name.as_str()), ("http://127.0.0.1:8000", "shop.test"));
        assert!(!shop.static_files);
        let own = site("[[site]]\nupstream = \"http://unix:/run/a.sock\"\npublic = \"public\"\nuser = \"root\"\nenvironment = \"x\"");
        assert_eq!((own.static_files, own.name.as_str()), (true, "localhost"));
        assert!(site("[[site]]\nroot = \".\"\nupstream = \"http://app:1\"").static_files);
        let [only] = &loaded("upstream = \"http://app:1\"", &[]).expect("fine").sites[..] else { panic!("one site") };
        assert!(only.static_files && only.upstream.is_some());
        let set = loaded("", &[("PACELINE_UPSTREAM", "http://app:1")]).expect("fine");
        assert!(set.sites[0].upstream.is_some());
    }

    #[test]
    fn a_site_may_have_several_hosts() {
        let shop = site("[[site]]\nupstream = [\"http://10.0.0.1:3000\", \"dns:app:81\"]\nupstream_check = \"/up\"");
        assert_eq!((shop.serves().as_str(), shop.name.as_str()), ("http://10.0.0.1:3000, dns:app:81", "10.0.0.1:3000"));
        let check = shop.upstream_check.expect("a check");
        assert_eq!((check.path.as_str(), check.every.as_secs()), ("/up", 2));
        let off = site("upstream = [\"http://a\", \"http://b\"]\nupstream_check = \"off\"");
        assert!(off.upstream.is_some_and(|hosts| hosts.is_balanced()) && off.upstream_check.is_none());
    }

    #[test]
    fn what_can_not_be_is_told() {
        let of_site = |rest: &str| format!("[[site]]\nupstream = \"http://app:1\"\n{rest}");
        for (toml, told) in [
            (of_site("workers = 2"), "paceline.toml:3:1: \"workers\" has no effect with \"upstream\""),
            (of_site("kind = \"rack\""), "\"kind\" has no effect"),
            (of_site("yjit = \"on\""), "\"yjit\" has no effect"),
            ("[[site]]\nupstream = \"https://app/x\"".into(), "remove the path: requests keep their own path"),
            ("[[site]]\nupstream = \"http://app/x\"".into(), "remove the path: requests keep their own path"),
            (
                of_site("upstream_tls_name = \"a.test\""),
                "paceline.toml:3:1: \"upstream_tls_name\" has no effect without an https upstream",
            ),
            (
                "upstream = \"http://app\"\nupstream_ca_file = \"ca.pem\"".into(),
                "\"upstream_ca_file\" has no effect without",
            ),
            ("upstream = \"https://app\"\nupstream_ca_file = \"none.pem\"".into(), "none.pem can't be used: I/O error"),
            (
                "upstream = \"https://app\"\nupstream_ca_file = \"public/index.html\"".into(),
                "index.html can't be used: it has no certificate",
            ),
            ("[[site]]\nupstream = []".into(), "paceline.toml:2:1: \"upstream\" names no host"),
            ("upstream = [\"http://app\", \"http://app:80\"]".into(), "\"upstream\" names http://app twice"),
            ("[[site]]\nupstream = [\"http://app\", \"app\"]".into(), "must be a URL like"),
            (of_site("upstream_check = \"/up\""), "\"upstream_check\" has no effect without several hosts"),
            (
                "upstream = [\"http://a\", \"http://b\"]\nupstream_check = \"up\"".into(),
                "must be a path like /up, or off",
            ),
            ("upstream = \"http://app:1\"\n[[site]]\nroot = \".\"".into(), "write upstream = ... in its [[site]]"),
            ("upstream = \"http://app:1\"\nsites = \".\"".into(), "write upstream = ... in its [[site]]"),
            ("[[site]]\nhost = \"a.test\"".into(), "the site has no root"),
        ] {
            let error = loaded(&toml, &[]).expect_err(&toml);
            assert!(error.to_string().contains(told), "{toml}\n{error}");
        }
    }
}
