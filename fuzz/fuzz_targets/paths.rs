//! The files that a URL's path may mean: always below the folder, never hidden, never the server's own settings; and no
//! spelling of a path finds a file of a protected folder.
#![cfg_attr(fuzzing, no_main)]

use std::{
    os::unix::ffi::OsStrExt,
    path::{Component, Path},
};

use libfuzzer_sys::fuzz_target;
use paceline::content::static_files::path::candidates;
use path_patterns::{Areas, Paths, Readings};

fn area(paths: &[&str], except: &[&str]) -> Areas {
    let owned = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    Areas::new([Paths { paths: &owned(paths), except: &owned(except) }])
}

fuzz_target!(|data: &[u8]| {
    let Ok(path) = std::str::from_utf8(data) else { return };
    let (folder, all_but) = (area(&["/folder/*"], &[]), area(&["/*"], &["/assets/*"]));
    let pages = ["/page", "/page.html", "/page/", "/page/index", "/page/index.html"].map(|page| area(&[page], &[]));
    let readings = Readings::of(path);
    let has = |area: &Areas| !area.first_of_each(&readings).is_empty();
    for file in candidates(path).into_iter().flatten() {
        let bytes = file.as_os_str().as_bytes();
        assert!(!bytes.iter().any(|byte| matches!(byte, 0 | b'\\')), "{file:?}");
        let is_protected = file.starts_with("folder");
        assert!(!is_protected || has(&folder), "{file:?} is not protected");
        let is_page = ["page", "page.html", "page/index.html"].iter().any(|page| file.as_path() == Path::new(page));
        assert!(!is_page || pages.iter().all(has), "{file:?} is not protected");
        // A file beside the folder answers for its index.
        let is_open = file.starts_with("assets") || file.ends_with("assets.html");
        assert!(is_open || has(&all_but), "{file:?} is not protected");
        assert!(!bytes.is_empty() && bytes.len() <= path.len() + "/index.html".len(), "{file:?}");
        for (depth, part) in file.components().enumerate() {
            let Component::Normal(name) = part else { panic!("{file:?} leaves the folder") };
            let name = name.as_bytes();
            assert!(!name.starts_with(b".") || depth == 0 && name.starts_with(b".well-known"), "{file:?} is hidden");
            assert_ne!(name, b"paceline.toml");
        }
    }
});
