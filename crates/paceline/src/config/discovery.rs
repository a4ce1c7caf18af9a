//! The sites of a directory of applications: each folder is one, named by its folder.
//! It never watches the directory; whoever does calls it again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    layer::{Layer, View},
    paceline_toml::{self, Role},
    resolve, SiteConfig,
};

#[derive(Debug, Default)]
pub struct Discovered {
    /// In the order of their names.
    pub sites: Vec<SiteConfig>,
    /// Sites whose own paceline.toml is wrong, as they would be without it, and what is wrong.
    pub broken: Vec<(SiteConfig, String)>,
}

pub fn sites_in(dir: &Path, defaults: &SiteConfig) -> io::Result<Discovered> {
    let mut names: Vec<String> =
        fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.') && may_be_folder(&dir.join(name)));
    names.sort();
    let mut found = Discovered::default();
    for name in names {
        let base = base(&dir.join(&name), &name, defaults);
        match own_settings(&base.root) {
            Ok(own) => {
                let mut site = with_own(base, &own);
                site.puma_config = resolve::puma_config(own.get("puma_config"), &site.root, &site.environment);
                found.sites.push(site);
            }
            Err(problems) => found.broken.push((base, problems.join("\n"))),
        }
    }
    Ok(found)
}

/// A folder, or one that can't be seen at the moment, as on a file system that does not answer.
fn may_be_folder(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_dir(),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Where an application lies in its site's folder: in `current`, where a deployment makes that lead to the newest of its releases, also
/// while the link is away or leads nowhere. The folder itself would publish all releases as files.
fn root_in(folder: &Path) -> PathBuf {
    let current = folder.join("current");
    match current.is_dir() || current.is_symlink() || folder.join("releases").is_dir() {
        true => current,
        false => folder.to_path_buf(),
    }
}

fn base(folder: &Path, name: &str, defaults: &SiteConfig) -> SiteConfig {
    let root = root_in(folder);
    let rackup = defaults.rackup.as_ref().map(|path| root.join(path.strip_prefix(&defaults.root).unwrap_or(path)));
    SiteConfig { name: name.into(), hosts: hosts(name), root, rackup, on_demand: true, ..defaults.clone() }
}

/// `shop` answers shop, shop.localhost and shop.test; a name with a dot is a domain already.
fn hosts(name: &str) -> Vec<String> {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let host: String = name.chars().map(allowed).collect();
    let mut hosts = vec![host.clone(), format!("{host}.localhost")];
    if !host.contains('.') {
        hosts.push(format!("{host}.test"));
    }
    hosts
}

fn own_settings(root: &Path) -> Result<Layer, Vec<String>> {
    let path = root.join("paceline.toml");
    if !path.is_file() {
        return Ok(Layer::default());
    }
    let shown = path.display().to_string();
    let text = fs::read_to_string(&path).map_err(|why| vec![format!("{shown}: cannot be read: {why}")])?;
    paceline_toml::read(&text, &shown, root, Role::Folder).map(|read| read.layer)
}

/// The inherited settings with the folder's own in their place. Where the folder chooses another environment, settings
/// that were left to the defaults follow it.
fn with_own(base: SiteConfig, own: &Layer) -> SiteConfig {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let wanted = resolve::site(&View::new(vec![own], cores), &base.root);
    let mut site = base.clone();
    if own.has("environment") {
        let left = SiteConfig::with_defaults(&base.root, &base.environment);
        if base.workers == left.workers {
            site.workers = wanted.workers;
            site.workers_max = wanted.workers_max;
        }
        if base.app_hard_timeout == left.app_hard_timeout {
            site.app_hard_timeout = wanted.app_hard_timeout;
        }
    }
    macro_rules! take {
        ($($key:ident),*) => { $(if own.has(stringify!($key)) { site.$key = wanted.$key; })* };
    }
    take!(environment, workers, workers_idle, threads, preload, kind, rackup, ruby, on_demand);
    if own.has("process") {
        site.processes = wanted.processes;
    }
    if own.has("workers") {
        site.workers_max = wanted.workers_max;
        site.workers_auto = wanted.workers_auto;
    }
    for (key, limit, own_limit) in [
        ("worker_memory", &mut site.limits.worker, wanted.limits.worker),
        ("worker_memory_hard", &mut site.limits.worker_hard, wanted.limits.worker_hard),
        ("site_memory", &mut site.limits.site, wanted.limits.site),
        ("site_memory_hard", &mut site.limits.site_hard, wanted.limits.site_hard),
        ("max_requests", &mut site.limits.requests, wanted.limits.requests),
    ] {
        if own.has(key) {
            *limit = own_limit;
        }
    }
    if own.has("max_requests_jitter") {
        site.limits.requests_jitter = wanted.limits.requests_jitter;
    }
    if own.has("threads") {
        site.threads_min = wanted.threads_min;
    }
    take!(redirect_https, hsts, hsts_subdomains);
    take!(public, static_files, static_max_age, x_sendfile);
    take!(queue_max, queue_timeout, app_soft_timeout, app_hard_timeout, start_timeout);
    take!(max_body, body_memory, buffer_requests, response_memory, response_spool, early_hints, server_timing);
    site.env.extend(wanted.env);
    site
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn each_folder_is_a_site() {
        let folder = Folder::with(&[
            ("Shop/config.ru", ""),
            ("blog.example.org/current/config.ru", ""),
            ("blog.example.org/current/config/puma.rb", ""),
            (
                "own/paceline.toml",
                "threads = 9\nenvironment = \"production\"\non_demand = false\nenv.A = \"own\"\nrackup = \"x.ru\"",
            ),
            ("wrong/paceline.toml", "port = 1"),
            (".git/x", ""),
            ("file", ""),
        ]);
        std::os::unix::fs::symlink(folder.0.join("Shop"), folder.0.join("linked")).expect("symlink");
        let mut defaults = SiteConfig::with_defaults(Path::new("/elsewhere"), "development");
        defaults.env = [("A", "all"), ("B", "all")].map(|(key, text)| (key.to_string(), text.to_string())).into();
        let found = sites_in(&folder.0, &defaults).expect("readable");
        let names: Vec<_> = found.sites.iter().map(|site| site.name.as_str()).collect();
        assert_eq!(names, ["Shop", "blog.example.org", "linked", "own"]);
        let [shop, blog, linked, own] = &found.sites[..] else { panic!("four sites") };
        assert_eq!(shop.hosts, ["shop", "shop.localhost", "shop.test"]);
        assert!(shop.on_demand && shop.threads == 3 && shop.puma_config.is_none());
        assert_eq!(blog.hosts, ["blog.example.org", "blog.example.org.localhost"]);
        assert_eq!(blog.root, folder.0.join("blog.example.org/current"));
        assert_eq!(blog.puma_config, Some(blog.root.join("config/puma.rb")));
        assert_eq!(linked.root, folder.0.join("linked"));
        assert_eq!((own.threads, own.environment.as_str(), own.on_demand), (9, "production", false));
        assert_eq!(own.app_hard_timeout, Some(Duration::from_secs(60)));
        assert_eq!(own.rackup, Some(own.root.join("x.ru")));
        assert_eq!((own.env["A"].as_str(), own.env["B"].as_str()), ("own", "all"));
        assert_eq!(found.broken.len(), 1);
        assert!(found.broken[0].1.contains("wrong/paceline.toml:1:1: \"port\" cannot be set"), "{:?}", found.broken);
    }
}
