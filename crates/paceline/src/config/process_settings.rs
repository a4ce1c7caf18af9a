//! Settings of an application's processes that a running server can try before it is started again: lines of
//! paceline.toml, put together with what the other sources say. It reads no file, and changes no other setting.

use super::{
    layer::Layer,
    options,
    paceline_toml::{self, Role},
    resolve,
    sources::Inherited,
    value::Value,
    SiteConfig,
};

/// What processes are started with. Everything else of a site the front itself uses.
const KEYS: [&str; 7] = ["allocator", "env", "malloc_arenas", "preload", "threads", "workers", "yjit"];
/// Sources that stand above paceline.toml: flags, what config/puma.rb says where paceline.toml says nothing, and variables of
/// the environment.
const STRONGER: usize = 3;
/// Of these the part of config/puma.rb.
const AS_PUMA: usize = 1;
/// Letters of a variable's number.
const MAX_NUMBER: usize = 20;

/// Why the settings are not tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{0}")]
    Wrong(String),
    #[error("\"{0}\" is read only when the server starts")]
    OfServer(&'static str),
    #[error("\"env\" {0}: only numbers of the garbage collector (RUBY_GC_) are tried")]
    Variable(String),
    #[error("no effect: already set to this value, or overridden by a flag or environment variable")]
    Nothing,
}

/// `site` with the settings of `text`, which has the rank of paceline.toml among the sources.
pub fn with_settings(text: &str, inherited: &Inherited, site: &SiteConfig) -> Result<SiteConfig, SettingsError> {
    let read = paceline_toml::read(text, "settings", &site.root, Role::Folder);
    let said = read.map_err(|wrong| SettingsError::Wrong(wrong.join("\n")))?.layer;
    if let Some(other) = said.keys().find(|key| !KEYS.contains(key)) {
        return Err(SettingsError::OfServer(other));
    }
    check_variables(&said)?;
    let mut sources = inherited.layers.clone();
    if let Some(as_puma) = sources.get_mut(AS_PUMA) {
        said.keys().for_each(|key| as_puma.remove(key));
    }
    let mut layers: Vec<&Layer> = sources.iter().collect();
    layers.insert(STRONGER.min(layers.len()), &said);
    let all = resolve::site(&options::view(layers, inherited.cores), &site.root);
    let mut changed = site.clone();
    said.keys().for_each(|key| take(key, &said, &all, &mut changed));
    if changed == *site {
        Err(SettingsError::Nothing)
    } else {
        Ok(changed)
    }
}

/// A variable could decide over the code that is run.
fn check_variables(said: &Layer) -> Result<(), SettingsError> {
    let Some(Value::Map(variables)) = said.get("env") else { return Ok(()) };
    let is_number = |text: &str| {
        (1..=MAX_NUMBER).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let is_fine = |name: &str, text: &str| name.starts_with("RUBY_GC_") && is_number(text);
    match variables.iter().find(|(name, text)| !is_fine(name, text)) {
        Some((name, _)) => Err(SettingsError::Variable(name.clone())),
        None => Ok(()),
    }
}

/// Takes what is `said` over into the site, as `all` sources together have it.
fn take(key: &str, said: &Layer, all: &SiteConfig, site: &mut SiteConfig) {
    match key {
        "allocator" => site.tuning.jemalloc = all.tuning.jemalloc,
        "malloc_arenas" => site.tuning.malloc_arenas = all.tuning.malloc_arenas,
        "yjit" => site.tuning.yjit.clone_from(&all.tuning.yjit),
        "preload" => site.preload = all.preload,
        "workers" => {
            (site.workers, site.workers_max, site.workers_auto) = (all.workers, all.workers_max, all.workers_auto);
        }
        "threads" => {
            (site.threads, site.threads_min) = (all.threads, all.threads_min);
            // With one thread nothing goes on beside it.
            if all.stream_threads == 0 || site.stream_threads == 0 {
                site.stream_threads = all.stream_threads;
            }
        }
        "env" => {
            let Some(Value::Map(variables)) = said.get(key) else { return };
            let named = all.env.iter().filter(|(name, _)| variables.contains_key(*name));
            site.env.extend(named.map(|(name, text)| (name.clone(), text.clone())));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn layer(text: &str) -> Layer {
        paceline_toml::read(text, "p.toml", Path::new("/srv/shop"), Role::Server).expect("fine").layer
    }

    /// Flags, environment, paceline.toml and config/puma.rb.
    fn sources(all: [&str; 4]) -> Inherited {
        let [flags, environment, toml, puma] = all.map(layer);
        let as_puma = crate::config::sources::as_puma(&puma, &toml, &[]);
        Inherited { layers: vec![flags, as_puma, environment, toml, puma], cores: 2 }
    }

    fn site(inherited: &Inherited) -> SiteConfig {
        resolve::site(&options::view(inherited.layers.iter().collect(), inherited.cores), Path::new("/srv/shop"))
    }

    fn tried(text: &str, all: [&str; 4]) -> Result<SiteConfig, SettingsError> {
        let inherited = sources(all);
        with_settings(text, &inherited, &site(&inherited))
    }

    #[test]
    fn lines_of_paceline_toml_change_the_settings_of_processes() {
        let before = ["", "", "threads = 3\nqueue_max = 7\nenvironment = \"production\"", "workers = 2"];
        let changed = tried("threads = \"2:9\"", before).expect("tried");
        let others = SiteConfig { threads: 9, threads_min: 2, ..site(&sources(before)) };
        assert_eq!(changed, others, "and nothing else");
        let of = |text: &str| tried(text, before).expect("tried");
        assert_eq!(of("workers = 3").workers, 3);
        assert_eq!(of("yjit = \"on\"").tuning.yjit, "on");
        assert_eq!(of("malloc_arenas = 3").tuning.malloc_arenas, Some(3));
        assert!(of("allocator = \"jemalloc\"").tuning.jemalloc);
        assert!(!of("preload = false").preload);
        let variables = "env = { RUBY_GC_HEAP_FREE_SLOTS = \"200000\" }";
        assert_eq!(of(variables).env["RUBY_GC_HEAP_FREE_SLOTS"], "200000");
        let env = tried(variables, ["", "", "env = { SHOP = \"a\" }", ""]).expect("tried").env;
        assert_eq!(env.len(), 2, "those that are there stay");
        assert_eq!(
            tried("threads = 5", ["", "", "", "threads = 1"]).expect("tried").threads,
            5,
            "config/puma.rb says 1"
        );
    }

    #[test]
    fn one_thread_has_no_others_beside_it() {
        assert_eq!(tried("threads = 1", ["", "", "", ""]).expect("tried").stream_threads, 0);
        assert_ne!(tried("threads = 5", ["", "", "threads = 1", ""]).expect("tried").stream_threads, 0);
        let own = tried("threads = 5", ["", "", "stream_threads = 2", ""]).expect("tried");
        assert_eq!(own.stream_threads, 2);
    }

    #[test]
    fn what_is_not_tried_is_told() {
        for (text, all, why) in [
            ("threads = 9", ["threads = 4", "", "", ""], "a flag"),
            ("threads = 9", ["", "threads = 4", "", ""], "a flag"),
            ("threads = 4", ["", "", "", "threads = 4"], "already set to this value"),
            ("compress = true", [""; 4], "\"compress\" is read only when the server starts"),
            ("env = { LD_PRELOAD = \"/tmp/x.so\" }", [""; 4], "\"env\" LD_PRELOAD"),
            ("env = { RUBY_GC_HEAP_FREE_SLOTS = \"/tmp/x\" }", [""; 4], "\"env\" RUBY_GC_HEAP_FREE_SLOTS"),
            ("port = 80", [""; 4], "cannot be set"),
            ("threads =", [""; 4], "settings:1:"),
        ] {
            let told = tried(text, all).expect_err(text).to_string();
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!(tried("threads = 9", ["", "", "", "threads = 4"]).is_ok(), "it is stronger than config/puma.rb");
    }
}
