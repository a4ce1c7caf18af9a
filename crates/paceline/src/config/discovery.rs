//! The sites of a directory of applications: each folder is one, named by its folder.
//! It never watches the directory; whoever does calls it again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    layer::{preset, Layer, View},
    options::{Preset, OPTIONS},
    paceline_toml::{self, Role},
    resolve, SiteConfig,
};

#[derive(Debug, Default)]
pub struct Discovered {
    /// In the order of their names.
    pub sites: Vec<SiteConfig>,
    /// Folders that are no site, with the reason: a mistake in their paceline.toml.
    pub problems: Vec<String>,
}

pub fn sites_in(dir: &Path, defaults: &SiteConfig) -> io::Result<Discovered> {
    let mut names: Vec<String> =
        fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.') && dir.join(name).is_dir());
    names.sort();
    let mut found = Discovered::default();
    for name in names {
        match site(&dir.join(&name), &name, defaults) {
            Ok(site) => found.sites.push(site),
            Err(mut problems) => found.problems.append(&mut problems),
        }
    }
    Ok(found)
}

fn site(folder: &Path, name: &str, defaults: &SiteConfig) -> Result<SiteConfig, Vec<String>> {
    let root = Some(folder.join("current")).filter(|current| current.is_dir()).unwrap_or_else(|| folder.to_path_buf());
    let host = name.to_ascii_lowercase();
    let mut hosts = vec![host.clone(), format!("{host}.localhost")];
    if !host.contains('.') {
        hosts.push(format!("{host}.test"));
    }
    let base = SiteConfig { name: name.into(), hosts, root: root.clone(), on_demand: true, ..defaults.clone() };
    let own = own_settings(&root)?;
    let mut site = with_own(base, &own);
    site.puma_config = resolve::puma_config(own.get("puma_config"), &root, &site.environment);
    Ok(site)
}

fn own_settings(root: &Path) -> Result<Layer, Vec<String>> {
    let path: PathBuf = root.join("paceline.toml");
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
    let view = View::new(vec![own], cores);
    let environment = if own.has("environment") { view.environment().to_string() } else { base.environment.clone() };
    let wanted = resolve::site(&view, &base.root);
    let untouched = |key: &str| {
        let left = |environment: &str| {
            let mut layer = Layer::default();
            let option = OPTIONS.iter().find(|option| option.key == key)?;
            layer.set(option.key, preset(option, environment, cores)?);
            let site = resolve::site(&View::new(vec![&layer], cores), &base.root);
            Some((site.workers, site.app_hard_timeout))
        };
        let by_environment = OPTIONS.iter().any(|option| {
            option.key == key && matches!(option.preset, Preset::ByEnvironment { .. } | Preset::CoresUpTo(_))
        });
        by_environment && environment != base.environment && left(&base.environment).is_some()
    };
    let mut site = SiteConfig { environment: environment.clone(), ..base.clone() };
    macro_rules! take {
        ($($key:ident),*) => { $(if own.has(stringify!($key)) || untouched(stringify!($key)) { site.$key = wanted.$key.clone(); })* };
    }
    take!(workers, threads, preload, kind, rackup, ruby, on_demand, public, static_files, static_max_age, x_sendfile);
    take!(queue_max, queue_timeout, app_soft_timeout, app_hard_timeout, start_timeout);
    take!(max_body, body_memory, buffer_requests, response_memory, response_spool, server_timing);
    site.env.extend(wanted.env);
    site
}
