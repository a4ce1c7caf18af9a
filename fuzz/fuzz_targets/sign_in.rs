//! What a browser sends to single sign-on: its cookies, and the path that it wants to go back to. An application never
//! gets the id of a session, an id has one text, and no path leads to another site. Input: the path in the first line,
//! then `Cookie` fields.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use sign_in::{CookieName, ReturnTo, SessionId};

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    check_path(&String::from_utf8_lossy(lines.next().unwrap_or_default()));
    // A field has no NUL and no line end: the parser of HTTP sees to that.
    let fields: Vec<&[u8]> = lines.filter(|line| !line.contains(&0) && !line.contains(&b'\r')).collect();
    check_cookies(&fields);
});

fn check_path(path: &str) {
    let Some(found) = ReturnTo::parse(path) else {
        assert_eq!(ReturnTo::parse_or_root(path).as_str(), "/");
        return;
    };
    assert_eq!(found.as_str(), path);
    // As a browser reads it in `Location` (WHATWG URL): tabs and line ends are left out, `\` is `/`.
    let read: String = path.chars().filter(|char| !"\t\r\n".contains(*char)).collect::<String>().replace('\\', "/");
    assert!(read.starts_with('/') && !read.starts_with("//"), "{path:?}");
    assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?}");
    // As a proxy may decode it before it sends it on.
    let decoded = path.to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/");
    assert!(!decoded.starts_with("//"), "{path:?}");
}

fn check_cookies(fields: &[&[u8]]) {
    let name = CookieName::of_session("shop");
    if let Some(id) = name.find(fields.iter().copied()) {
        // Its text is in a field, and is the only one for this id.
        let pair = format!("{}={}", name.as_str(), &*id.to_text());
        let squeezed =
            |field: &[u8]| field.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
        let has = |field: &&[u8]| squeezed(field).windows(pair.len()).any(|window| window == pair.as_bytes());
        assert!(fields.iter().any(has), "{pair}");
        assert_eq!(SessionId::parse(&id.to_text()).map(|again| again.key()), Some(id.key()));
        assert_eq!(
            name.find([name.set(&id, None).split(';').next().unwrap_or_default().as_bytes()]).map(|again| again.key()),
            Some(id.key())
        );
    }
    let kept: Vec<Vec<u8>> = fields.iter().filter_map(|field| name.remove_from(field)).collect();
    assert!(name.find(kept.iter().map(Vec::as_slice)).is_none(), "an application would get it");
    for (field, kept) in fields.iter().zip(fields.iter().map(|field| name.remove_from(field))) {
        // What is left is what was there, and taking it out once is enough.
        let Some(kept) = kept else { continue };
        assert!(kept.len() <= 2 * field.len());
        assert_eq!(name.remove_from(&kept).as_deref(), Some(kept.as_slice()));
    }
}
