//! The precompressed twins beside a file, such as `app.js.br`.
//! It never compresses anything.

use std::{
    ffi::OsString,
    io,
    path::Path,
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

/// A compressed copy such as `app.js.br`, opened.
pub(super) type Twin = (ContentCoding, OpenFile);

/// The twins beside `path` that are at least as new as `original`.
pub(super) fn twins(reader: Reader, path: &Path, original: &OpenFile) -> io::Result<Vec<Twin>> {
    let mut twins = Vec::new();
    for coding in ContentCoding::ALL {
        let mut name = OsString::from(path);
        name.push(extension(coding));
        let opened = open_file::open_if_present(reader, Path::new(&name))?;
        twins.extend(opened.filter(|twin| !is_older(twin.modified, original.modified)).map(|twin| (coding, twin)));
    }
    Ok(twins)
}

/// The twin to send. None: the original.
pub(super) fn choose(twins: Vec<Twin>, accepted: &AcceptEncoding) -> Option<Twin> {
    accepted.choose(twins.into_iter().map(|twin| (twin.0, twin.1.length, twin)))
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
