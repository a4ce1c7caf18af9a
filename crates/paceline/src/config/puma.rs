//! Asks Ruby what config/puma.rb says.
//! It never obeys it: the settings become one source among others.

use std::path::{Path, PathBuf};

use super::layer::Layer;

/// What the file says.
#[derive(Debug, Default)]
pub struct FromPuma {
    pub layer: Layer,
    /// `directory`: the application's root.
    pub directory: Option<PathBuf>,
    pub notices: Vec<String>,
}

pub fn read(_path: &Path, _root: &Path, _environment: &str, _ruby: &Path) -> Result<FromPuma, String> {
    Ok(FromPuma::default())
}
