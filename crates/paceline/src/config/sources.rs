//! The sources of settings, and which of them win. It never reads one.

use super::{
    layer::{Layer, View},
    options::{self, named},
    paceline_toml::TomlTable,
};

/// What Puma takes from its file whatever its variables say (WEB_CONCURRENCY, PUMA_MAX_THREADS, PUMA_PERSISTENT_TIMEOUT).
const FROM_FILE: [&str; 3] = ["workers", "threads", "keepalive_timeout"];

/// The part of config/puma.rb that stands above the environment, where paceline.toml says nothing of it.
pub fn as_puma(puma: &Layer, toml: &Layer, tables: &[TomlTable]) -> Layer {
    let mut layer = Layer::default();
    let is_free = |key: &str| !toml.has(key) && !tables.iter().any(|table| table.layer.has(key));
    for key in FROM_FILE.into_iter().filter(|key| is_free(key)) {
        if let Some(value) = puma.get(key) {
            layer.set(key, value.clone());
        }
    }
    layer
}

/// The sources of server-wide settings.
pub struct Sources<'a> {
    pub flags: &'a Layer,
    pub as_puma: &'a Layer,
    pub environment: &'a Layer,
    pub toml: &'a Layer,
    pub puma: &'a Layer,
    /// As messages name it.
    pub puma_file: &'a str,
    pub cores: usize,
    pub in_container: bool,
}

impl Sources<'_> {
    pub fn server(&self) -> View<'_> {
        options::view(vec![self.flags, self.as_puma, self.environment, self.toml, self.puma], self.cores)
    }

    /// The view of one site, whose own table stands above the file's top level.
    pub fn site<'a>(&'a self, own: &'a Layer) -> View<'a> {
        options::view(vec![self.flags, self.as_puma, self.environment, own, self.toml, self.puma], self.cores)
    }

    /// What the sites of a directory have below their own settings.
    pub fn inherited(&self) -> Inherited {
        let mut puma = self.puma.clone();
        // The server's own file is named there; each folder looks for hooks of its own.
        puma.remove("puma_config");
        let layers = [self.flags, self.as_puma, self.environment, self.toml].map(Layer::clone);
        Inherited { layers: layers.into_iter().chain([puma]).collect(), cores: self.cores }
    }

    /// A notice for each variable that does not count, since config/puma.rb says something else.
    pub fn overruled(&self) -> Vec<String> {
        let differs = |key: &&&str| match (self.as_puma.get(key), self.environment.get(key)) {
            (Some(puma), Some(variable)) => puma != variable && !self.flags.has(key),
            _ => false,
        };
        let told = |key: &str| {
            let variables = named(key).map(|option| option.env.join(", ")).unwrap_or_default();
            format!("{}: {key} counts, as with Puma, and not the variable ({variables})", self.puma_file)
        };
        FROM_FILE.iter().filter(differs).map(|key| told(key)).collect()
    }
}

/// What the sites of a directory inherit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inherited {
    /// The settings of each source, the strongest first.
    pub layers: Vec<Layer>,
    /// Of this machine, which some defaults follow.
    pub cores: usize,
}
