//! Whether somebody may come into an area of `[[sso]]`, and what of a request's address is its own affair. Which area a path is in,
//! by whatever reading, says the crate `path-patterns`. Pure; it never knows whose request it is.

use std::borrow::Cow;

use http::Uri;

use crate::config::parts::sign_on::Allow;

/// Below it are the addresses of single sign-on itself.
pub const RESERVED: &str = "/.paceline/sso/";

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
    use path_patterns::{Areas, Paths, Readings};

    struct Area {
        paths: Vec<String>,
        except: Vec<String>,
    }

    impl Area {
        fn of(paths: &[&str], except: &[&str]) -> Area {
            let owned = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
            Area { paths: owned(paths), except: owned(except) }
        }
    }

    fn areas(all: &[Area], path: &str) -> Vec<usize> {
        let areas = Areas::new(all.iter().map(|area| Paths { paths: &area.paths, except: &area.except }));
        areas.first_of_each(&Readings::of(path))
    }

    #[test]
    fn no_spelling_leads_out_of_a_protected_path() {
        let all = [Area::of(&["/admin/*", "/secret"], &[])];
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
        let all = [Area::of(&["/report", "/wiki/index.html", "/plan.html"], &[])];
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
            let all = [Area::of(&[pattern], &[])];
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
            let all = [Area::of(&[pattern], &[])];
            for other in candidates(pattern).into_iter().flatten().flat_map(|file| &found[&file]) {
                pairs += 1;
                assert_eq!(areas(&all, other), [0], "{pattern} {other}");
            }
        }
        assert!(pairs > 1_000, "{pairs} pairs: too few to say anything");
    }

    #[test]
    fn no_spelling_of_an_exception_opens_another_path() {
        let all = [Area::of(&["/*"], &["/up", "/assets/*", "/api/*"])];
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
        let all = [Area::of(&["/reports/*"], &[]), Area::of(&["/*"], &["/up"])];
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
        let folder = [Area::of(&["/secret/*"], &[])];
        let all_but = [Area::of(&["/*"], &["/assets/*"])];
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
