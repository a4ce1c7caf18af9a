//! The names at the top of a public folder, for an early "no" to requests that are for the app.
//! It never says that a file is there: that is for those who open it to find out. It never reads the folder on an event loop.

use std::{borrow::Cow, collections::HashSet, fs, io, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use tokio::runtime::Handle;

use crate::support::{
    clock::{self, Micros},
    site_files::SiteFiles,
};

/// How old the names may be.
const FRESH: Micros = 500_000;
/// A folder with more is not read: pages that an app has stored, whose names are looked for one by one.
const MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Top(Arc<Mutex<Names>>);

#[derive(Debug, Default)]
struct Names {
    /// When reading them began.
    read: Option<Micros>,
    is_being_read: bool,
    /// None: not known.
    names: Option<HashSet<Vec<u8>>>,
}

impl Top {
    /// Whether nothing in the folder begins as this path does: neither the name nor, for a page, the name with `.html`.
    /// False while the names are read.
    pub(super) fn lacks(&self, files: &SiteFiles, public: &Path, url_path: &str) -> bool {
        let first = url_path.split('/').find(|segment| !segment.is_empty()).unwrap_or("index");
        let name: Cow<[u8]> = percent_decode_str(first).into();
        let mut names = self.0.lock();
        let now = clock::now();
        if names.read.is_none_or(|read| now >= read + FRESH) {
            if !names.is_being_read {
                names.is_being_read = self.read(files, public, now);
            }
            return false;
        }
        let Some(names) = &names.names else { return false };
        !names.contains(&*name) && !names.contains(&[&*name, b".html"].concat())
    }

    /// False: there is no event loop, and so nothing to read it beside.
    fn read(&self, files: &SiteFiles, public: &Path, now: Micros) -> bool {
        let Ok(event_loop) = Handle::try_current() else { return false };
        let (known, files, public) = (self.0.clone(), files.clone(), public.to_path_buf());
        event_loop.spawn(async move {
            let names = files.wait(move |_| list(&public)).await.unwrap_or(None);
            *known.lock() = Names { read: Some(now), is_being_read: false, names };
        });
        true
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
