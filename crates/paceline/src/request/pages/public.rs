//! The app's own error pages: public/500.html and its like.
//! It never follows a page out of a bound, and reads anew each time: the app may change them.

use bytes::Bytes;
use std::{io::Read, path::Path};

use unix_user::Reader;

const LARGEST: u64 = 1024 * 1024;

/// The file, when it is a regular one of at most 1 MiB that `reader` opens. It waits for the disk.
pub fn public_page(reader: Reader, path: &Path) -> Option<Bytes> {
    let file = reader(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > LARGEST {
        return None;
    }
    let mut page = Vec::with_capacity(found.len() as usize);
    file.take(LARGEST + 1).read_to_end(&mut page).ok()?;
    (page.len() as u64 <= LARGEST).then(|| page.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unix_user::plain;

    #[test]
    fn only_small_regular_files_are_pages() {
        let public = std::env::temp_dir().join(format!("paceline-public-{}", std::process::id()));
        std::fs::create_dir_all(public.join("503.html")).unwrap();
        std::fs::write(public.join("500.html"), "<h1>Sorry</h1>").unwrap();
        std::fs::write(public.join("502.html"), vec![b'x'; LARGEST as usize + 1]).unwrap();
        assert_eq!(public_page(plain, &public.join("500.html")).as_deref(), Some(&b"<h1>Sorry</h1>"[..]));
        for status in [404, 502, 503] {
            assert_eq!(public_page(plain, &public.join(format!("{status}.html"))), None, "{status}");
        }
        std::fs::remove_dir_all(public).unwrap();
    }
}
