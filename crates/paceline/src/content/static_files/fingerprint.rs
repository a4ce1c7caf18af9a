//! Whether a file's name carries a digest of its content, so that the name is never used for other bytes.
//! It never computes a digest; in doubt the answer is no, for a wrong "immutable" sticks to browsers for a year.

use std::path::Path;

/// Folders that the asset pipelines write to: Sprockets and Propshaft, Webpacker and Shakapacker, Vite Ruby.
const ASSET_FOLDERS: [&str; 3] = ["assets", "packs", "vite"];

/// MD5 and longer are taken for digests everywhere, shorter ones in the asset folders only.
const LONG_DIGEST: usize = 32;
const SHORT_DIGEST: usize = 8;

/// `relative` is a path below the public folder.
pub(super) fn is_fingerprinted(relative: &Path) -> bool {
    let Some(name) = relative.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let among_assets = relative.iter().any(|segment| ASSET_FOLDERS.iter().any(|folder| segment == *folder));
    let Some((stem, _)) = name.rsplit_once('.') else {
        return false;
    };
    let mut parts = stem.split('.');
    let first = parts.next().unwrap_or_default();
    // `app-DIGEST.js`, `DIGEST.png`
    let (before, after) = first.rsplit_once('-').unwrap_or(("", first));
    if is_long_digest(after) || among_assets && !before.is_empty() && is_short_digest(after) {
        return true;
    }
    if among_assets && is_mixed_hash(first) {
        return true;
    }
    // `app.DIGEST.js`, `app.DIGEST.js.map`
    parts.any(|part| is_long_digest(part) || among_assets && is_short_digest(part))
}

fn is_long_digest(text: &str) -> bool {
    text.len() >= LONG_DIGEST && is_lower_hex(text)
}

/// Both a digit and a letter, as nearly every digest has: `20240131` is a date and `fabaceae` a plant.
fn is_short_digest(text: &str) -> bool {
    text.len() >= SHORT_DIGEST
        && is_lower_hex(text)
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Vite's `index-BcD3_xYz`: eight characters of base64url (or esbuild's base32) after a dash, changing their kind so
/// often that they are no word, camel case or numbered version.
fn is_mixed_hash(stem: &str) -> bool {
    let bytes = stem.as_bytes();
    let Some((before, hash)) = bytes.split_last_chunk::<SHORT_DIGEST>() else {
        return false;
    };
    if before.len() < 2 || !before.ends_with(b"-") {
        return false;
    }
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        b'-' | b'_' => Some(3),
        _ => None,
    };
    let has_upper = hash.iter().any(u8::is_ascii_uppercase);
    let changes = hash.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    hash.iter().all(|byte| kind(*byte).is_some()) && has_upper && changes >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_digests_and_nothing_else() {
        let sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        let table = [
            (format!("assets/application-{sha256}.css"), true), // Sprockets
            (format!("assets/admin/application-{sha256}.js.map"), true),
            (format!("shop/assets/application-{sha256}.js"), true),
            (format!("static/application-{sha256}.js"), true),
            (format!("static/{md5}.png"), true),              // webpack's file-loader
            ("assets/application-0123abcd.css".into(), true), // Propshaft
            ("assets/application-0123abcd.digested.css".into(), true),
            ("packs/js/application-3632bab2e6f3.js".into(), true), // Webpacker
            ("packs/js/main.0f1e2d3c.chunk.js".into(), true),
            ("vite/assets/index-BcD3_xYz.js".into(), true), // Vite
            ("vite/assets/index-b-D3_xY9.css".into(), true),
            ("assets/chunk-XK3J2LQ7.js".into(), true), // esbuild
            ("assets/application.css".into(), false),
            ("assets/report-20240131.pdf".into(), false),
            ("assets/fabaceae-fabaceae.jpg".into(), false),
            ("assets/application-controls.js".into(), false),
            ("assets/icon-retina2x.png".into(), false),
            ("assets/image-version2.png".into(), false),
            ("assets/nav-iconHome.svg".into(), false),
            ("assets/0123abcd.css".into(), false),
            ("assets/BcD3_xYz.css".into(), false),
            ("uploads/avatar-0123abcd.png".into(), false),
            ("app-0123abcd.css".into(), false),
            ("assets/app-0123abc.css".into(), false),
            (format!("assets/application-{}.css", sha256.to_uppercase()), false),
            (format!("assets/application-{sha256}"), false),
            ("assets/café-été.css".into(), false),
            ("".into(), false),
        ];
        for (path, expected) in table {
            assert_eq!(is_fingerprinted(Path::new(&path)), expected, "{path}");
        }
    }
}
