//! Which `[[sso]]` or `[[rule]]` a path is in, and whether somebody may come in there. Applications and file systems differ in how
//! they read a path, so it is read in each of these ways, and is protected if any of them is. Pure; it never knows
//! whose request it is.

use std::{borrow::Cow, collections::BTreeSet};

use http::Uri;
use percent_encoding::percent_decode;

use crate::config::sign_on::{Allow, SignOn};

/// Below it are the addresses of single sign-on itself.
pub const RESERVED: &str = "/.paceline/sso/";

/// How often a path is decoded: an application behind another server may decode what that has decoded already.
const DECODINGS: usize = 3;

/// The paths of an area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    paths: Vec<String>,
    except: Vec<String>,
}

impl Paths {
    pub fn new(sign_on: &SignOn) -> Paths {
        Paths::from_patterns(&sign_on.paths, &sign_on.except)
    }

    pub fn from_patterns(paths: &[String], except: &[String]) -> Paths {
        Paths { paths: paths.iter().flat_map(|path| with_kin(path)).collect(), except: except.to_vec() }
    }

    /// Whether any reading of a path is protected.
    pub fn may_cover(&self, readings: &Readings<'_>) -> bool {
        readings.all().any(|reading| self.covers(reading))
    }

    /// Those of patterns as settings have them.
    pub fn of(paths: &[&str], except: &[&str]) -> Paths {
        let paths = paths.iter().flat_map(|path| with_kin(path)).collect();
        Paths { paths, except: except.iter().map(|one| one.to_string()).collect() }
    }

    /// Whether this reading of a path is protected. Letter case never opens a path, and `/admin/*` has `/admin`, too.
    fn covers(&self, reading: &[u8]) -> bool {
        let lower = reading.to_ascii_lowercase();
        let is_in = |pattern: &String| {
            let pattern = pattern.as_bytes();
            glob(pattern, &lower) || pattern.strip_suffix(b"/*").is_some_and(|folder| glob(folder, &lower))
        };
        self.paths.iter().any(is_in) && !self.except.iter().any(|pattern| glob(pattern.as_bytes(), reading))
    }
}

/// The pattern in small letters, and what applications and file servers answer in the same way: `/a.json`, `/a/` and
/// `/a/index.html` for `/a`, and all of these for each of them.
fn with_kin(path: &str) -> BTreeSet<String> {
    let path = path.to_ascii_lowercase();
    let mut all = BTreeSet::from([path.clone()]);
    if path.ends_with('*') {
        // The folder itself is in it, and a file beside it may answer for the folder.
        let folder = path.strip_suffix("/*").filter(|folder| !folder.is_empty() && !folder.ends_with('*'));
        all.extend(folder.map(|folder| format!("{folder}.*")));
        return all;
    }
    let whole = path.trim_end_matches('/');
    let stem = whole.strip_suffix(".html").unwrap_or(whole);
    for stem in [Some(stem), stem.strip_suffix("/index")].into_iter().flatten() {
        all.extend(["", "/", ".*", "/index", "/index/", "/index.*"].map(|end| format!("{stem}{end}")));
    }
    all
}

/// All that a path may mean. To find that out for a long one costs more than to compare it: once for all rules.
pub struct Readings<'a> {
    written: &'a str,
    /// Empty: everybody reads it as it is written.
    others: BTreeSet<Vec<u8>>,
}

impl<'a> Readings<'a> {
    pub fn of(path: &'a str) -> Readings<'a> {
        let others = if is_plain(path) { BTreeSet::new() } else { readings(path) };
        Readings { written: path, others }
    }

    /// Each of them, first as it is written.
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        let others = self.others.iter().map(Vec::as_slice);
        std::iter::once(self.written.as_bytes()).chain(others.filter(|other| *other != self.written.as_bytes()))
    }
}

/// The areas that a path is in: the first that matches a reading of it, for each of its readings. Empty: none.
pub fn areas(all: &[Paths], path: &str) -> Vec<usize> {
    let readings = Readings::of(path);
    let of = |reading: &[u8]| all.iter().position(|paths| paths.covers(reading));
    let mut found: Vec<usize> = readings.all().filter_map(of).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether everybody reads the path in the same way.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_letter = |byte: &u8| byte.is_ascii_graphic() && !b"%;\\".contains(byte);
    bytes.first() == Some(&b'/')
        && bytes.iter().all(is_letter)
        && !bytes.windows(2).any(|two| two == b"//" || two == b"/.")
}

/// What a path may mean: as it is and decoded, with and without dots resolved, parameters and doubled slashes.
fn readings(path: &str) -> BTreeSet<Vec<u8>> {
    let mut decoded = vec![path.as_bytes().to_vec()];
    for _ in 0..DECODINGS {
        let last = &decoded[decoded.len() - 1];
        let next: Vec<u8> = percent_decode(last).collect();
        if next == *last {
            break;
        }
        decoded.push(next);
    }
    let mut all = BTreeSet::new();
    for one in decoded {
        let slashes = one.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect::<Vec<u8>>();
        // A NUL ends a name for programs in C.
        let short = one.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        for reading in [one, slashes, short] {
            let bare = without_parameters(&reading);
            for reading in [reading, bare] {
                all.insert(resolved(&reading));
                all.insert(squeezed(&reading));
                all.insert(reading);
            }
        }
    }
    all
}

/// Without `;name=value` at the end of segments, which some servers take for parameters.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let bare: Vec<&[u8]> =
        segments.map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default()).collect();
    bare.join(&b'/')
}

/// One slash in the place of several.
fn squeezed(path: &[u8]) -> Vec<u8> {
    let mut kept = path.to_vec();
    kept.dedup_by(|later, earlier| *later == b'/' && *earlier == b'/');
    kept
}

/// `.`, `..` and empty segments resolved (RFC 3986 section 5.2.4).
fn resolved(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_folder = false;
    for segment in path.split(|byte| *byte == b'/') {
        is_folder = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    let mut whole = vec![b'/'];
    whole.extend(kept.join(&b'/'));
    if is_folder && whole.len() > 1 {
        whole.push(b'/');
    }
    whole
}

/// Whether a path matches as it is written.
pub fn matches(pattern: &str, path: &str) -> bool {
    glob(pattern.as_bytes(), path.as_bytes())
}

/// `*` matches anything, slashes included.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == text[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((before, taken)) = star else { return false };
                star = Some((before, taken + 1));
                (at, from) = (before + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Somebody who wants to come in.
pub struct Visitor<'a> {
    pub name: &'a str,
    pub groups: &'a [String],
    /// None: they were not signed in by a realm.
    pub realm: Option<&'a str>,
}

/// Whether one of `allow` is for them. Nothing in it is for everybody who has signed in.
pub fn admits(allow: &[Allow], visitor: &Visitor<'_>) -> bool {
    let is_for = |one: &Allow| match one {
        Allow::User(name) => visitor.name == name,
        Allow::Group(name) => visitor.groups.iter().any(|group| group == name),
        Allow::Realm(name) => visitor.realm == Some(name),
    };
    allow.is_empty() || allow.iter().any(is_for)
}

/// The parameter of a link that shows a page as it will be.
pub const PREVIEW: &str = "paceline-preview";

/// The target as logs show it: of the gate's own addresses without what an identity provider has put behind them, and of a
/// link to a preview without what makes it valid.
pub fn shown(uri: &Uri) -> Cow<'_, Uri> {
    if is_reserved(uri.path()) {
        return Cow::Owned(uri.path().parse().unwrap_or_default());
    }
    let Some(query) = uri.query().filter(|query| query.contains(PREVIEW)) else { return Cow::Borrowed(uri) };
    let hidden = |pair| match str::split_once(pair, '=') {
        Some((PREVIEW, _)) => format!("{PREVIEW}=hidden"),
        _ => pair.to_owned(),
    };
    let query: Vec<String> = query.split('&').map(hidden).collect();
    Cow::Owned(format!("{}?{}", uri.path(), query.join("&")).parse().unwrap_or_default())
}

/// Whether it is one of the addresses of single sign-on itself.
pub fn is_reserved(path: &str) -> bool {
    path.starts_with(RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::static_files::path::candidates;

    #[test]
    fn stars_match_anything() {
        for (pattern, text, does) in [
            ("/*", "/", true),
            ("/*", "/a/b", true),
            ("/a*z", "/az", true),
            ("/a*z", "/abz/", false),
            ("*/x/*", "/a/x/b", true),
            ("/a", "/a/", false),
            ("/a*b*c", "/a-b-b-c", true),
            ("/a*b*c", "/a-c", false),
            ("", "", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), does, "{pattern} {text}");
        }
    }

    #[test]
    fn no_spelling_leads_out_of_a_protected_path() {
        let all = [Paths::of(&["/admin/*", "/secret"], &[])];
        for path in [
            "/admin",
            "/admin/",
            "/admin/x",
            "/ADMIN/x",
            "/secret",
            "//secret",
            "/./secret",
            "/up/../secret",
            "/up/..//secret",
            "/%73ecret",
            "/%2573ecret",
            "/%2e%2e/secret",
            "/up/%2e%2e/secret",
            "/up/%2e%2e%2fsecret",
            "/up/%252e%252e/secret",
            "/up/..%2fsecret",
            "/up/..%5csecret",
            "/up\\..\\secret",
            "/secret;a=b",
            "/up/..;/secret",
            "/up/..;a=b/secret",
            "/up/%2e%2e;/secret",
            "/secret%00.css",
            "/secret%3Bx",
            "/up/.//../secret",
            "/../secret",
            "/../../../admin/x",
            "/admin/../up",
            "/Secret",
        ] {
            assert_eq!(areas(&all, path), [0], "{path}");
        }
        for path in ["/", "/up", "/secrets", "/a/secret", "/administration", "/%75p", "/up/", "/secret/x"] {
            assert!(areas(&all, path).is_empty(), "{path}");
        }
    }

    #[test]
    fn what_is_answered_in_the_same_way_is_protected_too() {
        let all = [Paths::of(&["/report", "/wiki/index.html", "/plan.html"], &[])];
        for path in
            ["/report.json", "/report/", "/report.html", "/wiki", "/wiki/", "/wiki/index", "/plan", "/plan.html"]
        {
            assert_eq!(areas(&all, path), [0], "{path}");
        }
        assert!(areas(&all, "/reports").is_empty() && areas(&all, "/wiki/other").is_empty());
    }

    #[test]
    fn the_index_of_a_folder_has_many_names() {
        for (pattern, paths) in [
            ("/secret.html", &["/secret", "/secret/", "/SECRET.HTML"][..]),
            ("/wiki/index.html", &["/wiki", "/wiki/", "/wiki/index", "/wiki/index/", "/wiki.html"]),
            ("/admin", &["/admin/", "/admin/index.html", "/admin/index", "/admin/index/", "/admin.html"]),
            ("/", &["/index.html", "/index", "/index/", "//", "/%69ndex"]),
            ("/index.html", &["/", "/index"]),
            ("/admin/", &["/admin", "/admin/index"]),
            ("/admin/*", &["/admin.html", "/admin.json"]),
        ] {
            let all = [Paths::of(&[pattern], &[])];
            assert_eq!(areas(&all, pattern), [0]);
            paths.iter().for_each(|path| assert_eq!(areas(&all, path), [0], "{pattern} {path}"));
            for other in ["/other", "/administration", "/admins/", "/wikis", "/secrets/index.html"] {
                assert!(areas(&all, other).is_empty(), "{pattern} {other}");
            }
        }
    }

    /// Whatever answers a path that is protected is protected by all its other names.
    #[test]
    fn no_other_name_finds_the_file_of_a_protected_path() {
        const PARTS: [&str; 7] = ["/", "a", "index", ".html", "/index.html", "/index", ".1"];
        let mut paths = vec![String::from("/")];
        for from in 0..1 + PARTS.len() + PARTS.len().pow(2) + PARTS.len().pow(3) {
            let longer: Vec<String> = PARTS.iter().map(|part| format!("{}{part}", paths[from])).collect();
            paths.extend(longer);
        }
        let mut found = std::collections::HashMap::<_, Vec<&str>>::new();
        for path in &paths {
            for file in candidates(path).into_iter().flatten() {
                found.entry(file).or_default().push(path);
            }
        }
        let mut pairs = 0;
        // Settings with doubled slashes name no path that anybody asks for.
        for pattern in paths.iter().filter(|pattern| !pattern.contains("//") && pattern.len() < 16) {
            let all = [Paths::of(&[pattern], &[])];
            for other in candidates(pattern).into_iter().flatten().flat_map(|file| &found[&file]) {
                pairs += 1;
                assert_eq!(areas(&all, other), [0], "{pattern} {other}");
            }
        }
        assert!(pairs > 1_000, "{pairs} pairs: too few to say anything");
    }

    #[test]
    fn no_spelling_of_an_exception_opens_another_path() {
        let all = [Paths::of(&["/*"], &["/up", "/assets/*", "/api/*"])];
        for path in ["/up", "/assets/a.css", "/api/", "/api/v1/a%20b", "/%75p"] {
            let open = areas(&all, path).is_empty();
            // Another spelling of it is protected: that is never wrong.
            assert_eq!(open, !path.starts_with("/%"), "{path}");
        }
        for path in [
            "/",
            "/Up",
            "/up/",
            "/up/../secret",
            "/assets/../secret",
            "/assets/..%2fsecret",
            "/assets/%2e%2e/secret",
            "/assets/..;/secret",
            "/assets\\..\\secret",
            "/assets/%252e%252e/secret",
            "/api/../assets/../secret",
            "/up;a",
            "/api",
        ] {
            assert_eq!(areas(&all, path), [0], "{path}");
        }
    }

    #[test]
    fn a_path_that_may_be_in_two_areas_is_in_both() {
        let all = [Paths::of(&["/reports/*"], &[]), Paths::of(&["/*"], &["/up"])];
        assert_eq!(areas(&all, "/reports/1"), [0]);
        assert_eq!(areas(&all, "/x"), [1]);
        assert_eq!(areas(&all, "/reports/../x"), [0, 1]);
        assert_eq!(areas(&all, "/up"), Vec::<usize>::new());
    }

    /// Whatever a path is made of: no file of a protected folder is found by one that is not protected.
    #[test]
    fn no_spelling_of_a_path_finds_a_protected_file() {
        const PARTS: [&str; 26] = [
            "/",
            "/",
            "/",
            "..",
            ".",
            "%2e",
            "%2E%2e",
            "%2f",
            "%5c",
            "\\",
            "%25",
            "secret",
            "Secret",
            "%73ecret",
            "up",
            "assets",
            "a",
            ";",
            ";a=b",
            "%00",
            "//",
            "index.html",
            ".html",
            "%20",
            "%3b",
            "secret/a",
        ];
        let folder = [Paths::of(&["/secret/*"], &[])];
        let all_but = [Paths::of(&["/*"], &["/assets/*"])];
        let (mut seed, mut found) = (7_u64, 0);
        for _ in 0..60_000 {
            let mut path = String::from("/");
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                path.push_str(PARTS[(seed >> 33) as usize % PARTS.len()]);
            }
            for file in candidates(&path).into_iter().flatten() {
                let is_secret = file.starts_with("secret");
                found += u32::from(is_secret);
                assert!(!is_secret || !areas(&folder, &path).is_empty(), "{path}: {file:?}");
                // A file beside the folder answers for its index.
                let is_open = file.starts_with("assets") || file.ends_with("assets.html");
                assert!(is_open || !areas(&all_but, &path).is_empty(), "{path}: {file:?}");
            }
        }
        assert!(found > 300, "{found} files: too few to say anything");
    }

    #[test]
    fn what_a_provider_sends_a_browser_back_with_is_in_no_log() {
        let of = |uri: &str| shown(&uri.parse().unwrap()).to_string();
        assert_eq!(of("/.paceline/sso/callback?code=secret&state=x"), "/.paceline/sso/callback");
        assert_eq!(of("/a?b=c"), "/a?b=c");
    }

    #[test]
    fn what_makes_a_link_to_a_preview_valid_is_in_no_log() {
        let of = |uri: &str| shown(&uri.parse().unwrap()).to_string();
        assert_eq!(of("/a?b=c&paceline-preview=secret&d"), "/a?b=c&paceline-preview=hidden&d");
        assert_eq!(
            of("/a?paceline-preview=one&paceline-preview=two"),
            "/a?paceline-preview=hidden&paceline-preview=hidden"
        );
        assert_eq!(of("/a?x=paceline-preview"), "/a?x=paceline-preview");
    }

    #[test]
    fn one_of_those_allowed_is_enough() {
        let allow = [Allow::Group("staff".into()), Allow::User("bob".into()), Allow::Realm("A.TEST".into())];
        let who = |name, groups: &[&str], realm| {
            let groups: Vec<String> = groups.iter().map(|group| group.to_string()).collect();
            admits(&allow, &Visitor { name, groups: &groups, realm })
        };
        assert!(who("alice", &["staff"], None) && who("bob", &[], None) && who("eve", &[], Some("A.TEST")));
        assert!(!who("eve", &["Staff", "staffx"], Some("a.test")) && !who("Bob", &[], None));
        assert!(admits(&[], &Visitor { name: "eve", groups: &[], realm: None }));
    }
}
