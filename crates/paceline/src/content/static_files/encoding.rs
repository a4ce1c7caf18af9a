//! The precompressed twins beside a file, such as `app.js.br`.
//! It never compresses anything.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::open_file::{self, OpenFile};
use http_guard::coding::{AcceptEncoding, ContentCoding};
use unix_user::Reader;

fn extension(coding: ContentCoding) -> &'static str {
    match coding {
        ContentCoding::Zstd => ".zst",
        ContentCoding::Brotli => ".br",
        ContentCoding::Gzip => ".gz",
    }
}

/// A compressed copy such as `app.js.br`.
#[derive(Debug)]
pub(super) struct Twin {
    coding: ContentCoding,
    path: PathBuf,
    length: u64,
}

/// The twins beside `path` that are at least as new as `original`.
pub(super) fn twins(path: &Path, original: &OpenFile) -> Vec<Twin> {
    let twin = |coding: ContentCoding| {
        let mut name = OsString::from(path);
        name.push(extension(coding));
        let metadata = fs::metadata(&name).ok()?;
        let fresh = metadata.is_file() && !is_older(metadata.modified().ok()?, original.modified);
        fresh.then(|| Twin { coding, path: name.into(), length: metadata.len() })
    };
    ContentCoding::ALL.into_iter().filter_map(twin).collect()
}

/// The twin to send, opened. None: the original.
pub(super) fn open_twin(
    reader: Reader,
    twins: Vec<Twin>,
    accepted: &AcceptEncoding,
    original: &OpenFile,
) -> io::Result<Option<(ContentCoding, OpenFile)>> {
    let Some(twin) = accepted.choose(twins.into_iter().map(|twin| (twin.coding, twin.length, twin))) else {
        return Ok(None);
    };
    let opened = open_file::open_if_present(reader, &twin.path)?;
    Ok(opened.filter(|opened| !is_older(opened.modified, original.modified)).map(|opened| (twin.coding, opened)))
}

/// Some compressors copy the original's time in whole seconds only; such a twin is not older than its original.
fn is_older(twin: SystemTime, original: SystemTime) -> bool {
    let has_fraction = twin.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() != 0);
    let slack = if has_fraction { Duration::ZERO } else { Duration::from_nanos(999_999_999) };
    original.duration_since(twin).is_ok_and(|behind| behind > slack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_ages() {
        let at = |seconds, nanos| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        assert!(!is_older(at(5, 7), at(5, 7)));
        assert!(!is_older(at(6, 0), at(5, 7)));
        assert!(is_older(at(5, 6), at(5, 7)));
        assert!(!is_older(at(5, 0), at(5, 7)), "truncated to seconds");
        assert!(is_older(at(4, 0), at(5, 0)));
    }
}
