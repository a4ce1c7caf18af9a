//! Reads a paceline.toml, with the rights of an account. It never understands it.

use std::{io, path::Path};

use unix_user::RunAs;

/// Bytes of a paceline.toml, at most.
const LARGEST_TOML: u64 = 1 << 20;

/// Why a paceline.toml can't be read. `file`: as it is shown.
#[derive(Debug, thiserror::Error)]
pub enum TomlFileError {
    #[error("{file}: cannot be read: {error}")]
    Unreadable { file: String, error: io::Error },
    #[error("{file}: cannot be read: it is not UTF-8")]
    NotUtf8 { file: String },
}

/// What a paceline.toml holds.
pub fn toml_text(path: &Path, shown: &str, run_as: &RunAs) -> Result<String, TomlFileError> {
    let file = || shown.to_owned();
    let bytes = unix_user::read(run_as, path, LARGEST_TOML)
        .map_err(|error| TomlFileError::Unreadable { file: file(), error })?;
    String::from_utf8(bytes).map_err(|_| TomlFileError::NotUtf8 { file: file() })
}
