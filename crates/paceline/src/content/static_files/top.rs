//! The names at the top of a public folder, for an early "no" to requests that are for the app.
//! It never says that a file is there: that is for those who open it to find out.

use std::{collections::HashSet, fs, io, os::unix::ffi::OsStrExt, path::Path};

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use crate::support::clock::{self, Micros};

/// How old the names may be.
const FRESH: Micros = 500_000;
/// A folder with more is not read: pages that an app has stored, whose names are looked for one by one.
const MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Top(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    read: Option<Micros>,
    /// None: not known.
    names: Option<HashSet<Vec<u8>>>,
}

impl Top {
    /// Whether nothing in the folder begins as this path does: neither the name nor, for a page, the name with `.html`.
    pub(super) fn lacks(&self, public: &Path, url_path: &str) -> bool {
        let first = url_path.split('/').find(|segment| !segment.is_empty()).unwrap_or("index");
        let mut name: Vec<u8> = percent_decode_str(first).collect();
        let mut names = self.0.lock();
        let now = clock::now();
        if names.read.is_none_or(|read| now >= read + FRESH) {
            *names = Names { read: Some(now), names: list(public).unwrap_or(None) };
        }
        let Some(names) = &names.names else { return false };
        if names.contains(&name) {
            return false;
        }
        name.extend_from_slice(b".html");
        !names.contains(&name)
    }
}

/// None: too many.
fn list(public: &Path) -> io::Result<Option<HashSet<Vec<u8>>>> {
    let entries = match fs::read_dir(public) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(HashSet::new())),
        Err(error) => return Err(error),
    };
    let mut names = HashSet::new();
    for entry in entries {
        if names.len() == MAX {
            return Ok(None);
        }
        names.insert(entry?.file_name().as_bytes().to_vec());
    }
    Ok(Some(names))
}
