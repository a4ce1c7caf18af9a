//! The file of settings that a command line names, and what is wrong with a command line. It never reads the file.

use std::path::{Path, PathBuf};

use crate::config::{self, ConfigFile};

/// What is wrong with the command line, beyond what clap finds.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("--{option} {value}: {error}")]
    Value { option: &'static str, value: String, error: config::ValueError },
    #[error("{0}: no such file, directory or command; see paceline --help")]
    Target(String),
    #[error("-C {0}: must end in .toml (paceline's own) or .rb (Puma's)")]
    ConfigKind(String),
    #[error("-C {}: no such file", .0.display())]
    NoConfigFile(PathBuf),
}

/// What -C names.
pub(super) fn config_file(path: Option<&str>, cwd: &Path) -> Result<ConfigFile, ArgumentError> {
    let file = match path {
        None => ConfigFile::Usual,
        Some("-") => ConfigFile::None,
        Some(path) if path.ends_with(".toml") => ConfigFile::Toml(path.into()),
        Some(path) if path.ends_with(".rb") => ConfigFile::Puma(path.into()),
        Some(path) => return Err(ArgumentError::ConfigKind(path.to_owned())),
    };
    match &file {
        ConfigFile::Toml(path) | ConfigFile::Puma(path) if !cwd.join(path).is_file() => {
            Err(ArgumentError::NoConfigFile(path.clone()))
        }
        _ => Ok(file),
    }
}
