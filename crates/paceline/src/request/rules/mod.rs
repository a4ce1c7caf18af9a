//! The `[[rule]]`s of a site: which of them are for a request, and what they say of it. All of it is known without
//! waiting, but for a password that nobody has proved yet. It makes no response, and a site without rules has none of it.
//!
//! Reading order: `Rules` (which rules match), `passwords` (who may come in).

pub mod passwords;

use std::{net::IpAddr, sync::Arc};

use http::{header, HeaderMap, HeaderName, HeaderValue, StatusCode};

use self::passwords::{PasswordFile, PasswordFileError};
use crate::config::{
    parts::rules::{HeaderChanges, MaxBody, Redirect, Rule},
    SiteConfig,
};
use path_patterns::{Areas, Paths, PatternSet, Readings};

/// Fields by which caches keep a response.
const OF_CACHES: [&str; 6] = [
    "cache-control",
    "expires",
    "cdn-cache-control",
    "cloudflare-cdn-cache-control",
    "surrogate-control",
    "edge-control",
];

/// The rules of a site, in the order of the file.
pub struct Rules {
    all: Vec<CompiledRule>,
    /// The paths of those that protect something: each reading of a path counts.
    protected: Areas,
    /// Of each area, which rule it is of.
    protecting: Vec<usize>,
    /// Paths as they are written, with the rule and its path that each is of.
    written: (PatternSet, Vec<(usize, usize)>),
    /// Paths that rules are not for, with the rule that each is of.
    except: (PatternSet, Vec<usize>),
    /// An application is told names: none but those that we have proved.
    pub passes_users: bool,
}

struct CompiledRule {
    rule: Rule,
    passwords: Option<Arc<PasswordFile>>,
}

/// What is asked, as far as rules look at it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Without port. None: any host.
    pub host: Option<&'a str>,
    pub path: &'a str,
}

/// The rules that keep somebody out of a target.
pub struct ProtectingRules<'a>(Vec<&'a CompiledRule>);

/// A rule that lets nobody in without a password.
pub type PasswordRule<'a> = (&'a Rule, &'a Arc<PasswordFile>);

/// Whether the files of passwords of these sites can be used: a mistake is told before anybody is served.
///
/// # Errors
/// The first that can't.
pub fn check(sites: &[SiteConfig]) -> Result<(), PasswordFileError> {
    let rules = sites.iter().flat_map(|site| &site.parts.rules);
    rules.filter_map(|rule| rule.basic_auth.as_ref()).try_for_each(|basic| PasswordFile::new(&basic.file).load())
}

impl Rules {
    /// None: there are none.
    pub fn new(rules: &[Rule]) -> Option<Rules> {
        let mut files: Vec<Arc<PasswordFile>> = Vec::new();
        let mut all = Vec::new();
        for rule in rules {
            let passwords = rule.basic_auth.as_ref().map(|basic| {
                let known = files.iter().find(|file| file.path() == basic.file).cloned();
                known.unwrap_or_else(|| {
                    files.push(Arc::new(PasswordFile::new(&basic.file)));
                    files[files.len() - 1].clone()
                })
            });
            all.push(CompiledRule { rule: rule.clone(), passwords });
        }
        let passes_users = rules.iter().filter_map(|rule| rule.basic_auth.as_ref()).any(|basic| basic.pass_user);
        let numbered = || rules.iter().enumerate();
        let protecting: Vec<usize> = numbered().filter(|(_, rule)| rule.protects()).map(|(at, _)| at).collect();
        let areas = protecting.iter().map(|at| Paths { paths: &rules[*at].paths, except: &rules[*at].except });
        let written =
            numbered().flat_map(|(at, rule)| rule.paths.iter().enumerate().map(move |(nth, path)| ((at, nth), path)));
        let except = numbered().flat_map(|(at, rule)| rule.except.iter().map(move |path| (at, path)));
        let (written, except): ((Vec<_>, Vec<_>), (Vec<_>, Vec<_>)) = (written.unzip(), except.unzip());
        let rules = Rules {
            protected: Areas::new(areas),
            protecting,
            written: (PatternSet::new(written.1), written.0),
            except: (PatternSet::new(except.1), except.0),
            all,
            passes_users,
        };
        (!rules.all.is_empty()).then_some(rules)
    }

    /// The files of passwords, each once.
    pub fn password_files(&self) -> Vec<Arc<PasswordFile>> {
        let mut files: Vec<Arc<PasswordFile>> = Vec::new();
        for file in self.all.iter().filter_map(|one| one.passwords.as_ref()) {
            if !files.iter().any(|known| Arc::ptr_eq(known, file)) {
                files.push(file.clone());
            }
        }
        files
    }

    /// Those that keep somebody out, and are for this target as anybody may read it.
    pub fn protecting(&self, target: Target<'_>) -> ProtectingRules<'_> {
        if !self.protecting.iter().any(|at| self.all[*at].is_for_host(target.host)) {
            return ProtectingRules(Vec::new());
        }
        let covering = self.protected.of(&Readings::of(target.path)).into_iter();
        let rules = covering.map(|area| &self.all[self.protecting[area]]);
        ProtectingRules(rules.filter(|one| one.is_for_host(target.host)).collect())
    }

    /// Those that are for a path as it is written, each with the first of its paths that matches.
    fn matching<'a>(&'a self, host: Option<&'a str>, path: &[u8]) -> impl Iterator<Item = (&'a CompiledRule, &'a str)> {
        let mut found: Vec<_> = self.written.0.matching(path).into_iter().map(|at| self.written.1[at]).collect();
        found.dedup_by_key(|(rule, _)| *rule);
        if !found.is_empty() {
            let except: Vec<_> = self.except.0.matching(path).into_iter().map(|at| self.except.1[at]).collect();
            found.retain(|(rule, _)| except.binary_search(rule).is_err());
        }
        let rules = found.into_iter().map(|(rule, nth)| (&self.all[rule], nth));
        rules.filter(move |(one, _)| one.is_for_host(host)).map(|(one, nth)| (one, one.rule.paths[nth].as_str()))
    }

    /// The first redirect that is for this target, with the path of its rule that matches.
    pub fn redirect<'a>(&'a self, target: Target<'a>) -> Option<(&'a Redirect, &'a str)> {
        let mut matching = self.matching(target.host, target.path.as_bytes());
        matching.find_map(|(one, path)| Some((one.rule.redirect.as_ref()?, path)))
    }

    /// The largest body, of the first rule that has one; `u64::MAX`: unbounded. None: as the site says. A path that may be
    /// read in several ways has the smallest of what they have.
    pub fn max_body(&self, target: Target<'_>, of_site: Option<u64>) -> Option<u64> {
        if !self.all.iter().any(|one| one.rule.max_body.is_some()) {
            return None;
        }
        let of = |path: &[u8]| match self.matching(target.host, path).find_map(|(one, _)| one.rule.max_body) {
            Some(MaxBody::Bytes(bytes)) => bytes,
            Some(MaxBody::Unbounded) => u64::MAX,
            None => of_site.unwrap_or(u64::MAX),
        };
        Readings::of(target.path).all().map(of).min()
    }

    /// Changes the fields of a response. Of an error, and of what nobody may keep, none by which a cache would keep it.
    pub fn change(&self, target: Target<'_>, status: StatusCode, headers: &mut HeaderMap) {
        let is_kept_out = status.as_u16() >= 400 || headers.get_all(header::CACHE_CONTROL).iter().any(says_no_store);
        for (one, _) in self.matching(target.host, target.path.as_bytes()) {
            for name in one.rule.headers.remove.iter().filter(|name| !is_kept_out || *name != header::CACHE_CONTROL) {
                headers.remove(name);
            }
            let may_set = |(name, value): &&(HeaderName, HeaderValue)| {
                !is_kept_out || !OF_CACHES.contains(&name.as_str()) || says_no_store(value)
            };
            for (name, value) in one.rule.headers.set.iter().filter(may_set) {
                headers.insert(name, value.clone());
            }
        }
    }

    /// Whether some of them let in only some visitors.
    pub fn are_for_some(&self) -> bool {
        self.all.iter().any(|one| one.rule.allow.is_some() || one.passwords.is_some())
    }

    /// Whether there are changes of responses at all.
    pub fn changes_headers(&self) -> bool {
        self.all.iter().any(|one| one.rule.headers != HeaderChanges::default())
    }
}

impl<'a> ProtectingRules<'a> {
    /// Whether all of them let this address in. None: a Unix socket.
    pub fn admit(&self, address: Option<IpAddr>) -> bool {
        let is_out = |rule: &Rule| {
            rule.deny.as_ref().is_some_and(|deny| deny.trusts(address))
                || rule.allow.as_ref().is_some_and(|allow| !allow.trusts(address))
        };
        !self.0.iter().any(|one| is_out(&one.rule))
    }

    /// Whether one of them lets in only some addresses: a cache of others would give it to all.
    pub fn are_for_some(&self) -> bool {
        self.0.iter().any(|one| one.rule.allow.is_some())
    }

    /// Those that ask for a name and a password.
    pub fn passwords(&self) -> impl Iterator<Item = PasswordRule<'a>> + use<'a, '_> {
        self.0.iter().filter_map(|one| Some((&one.rule, one.passwords.as_ref()?)))
    }
}

fn says_no_store(value: &HeaderValue) -> bool {
    value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("no-store"))
}

impl CompiledRule {
    fn is_for_host(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return true };
        let host = host.strip_suffix('.').unwrap_or(host);
        let is = |pattern: &String| match pattern.strip_prefix('*') {
            Some(suffix) => {
                let at = host.len().checked_sub(suffix.len()).filter(|at| *at > 0);
                at.and_then(|at| host.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
            }
            None => host.eq_ignore_ascii_case(pattern),
        };
        self.rule.hosts.is_empty() || self.rule.hosts.iter().any(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TableSetting;

    fn rules(text: &str) -> Rules {
        let document: toml_edit::DocumentMut = text.parse().unwrap();
        Rules::new(&Vec::from_toml(&document["rule"]).unwrap().unwrap()).unwrap()
    }

    fn at(path: &str) -> Target<'_> {
        Target { host: Some("shop.test"), path }
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn no_rules_are_nothing() {
        assert!(Rules::new(&[]).is_none());
    }

    #[test]
    fn the_first_redirect_counts() {
        let rules = rules(
            "[[rule]]\npath = \"/old/new\"\nredirect = \"/newest\"\n[[rule]]\npath = \"/old/*\"\nexcept = \"/old/kept\"\nredirect = \"/new/*\"\n\
             [[rule]]\nhost = \"*.old.test\"\nredirect = \"https://shop.test\"\n",
        );
        let pattern = |target| rules.redirect(target).map(|(_, pattern)| pattern);
        assert_eq!(pattern(at("/old/new")), Some("/old/new"));
        assert_eq!(pattern(at("/old/1")), Some("/old/*"));
        assert_eq!(pattern(at("/old/kept")), None);
        assert_eq!(pattern(at("/OLD/1")), None, "the path as it is written");
        for (host, is) in [("www.old.test", true), ("WWW.OLD.TEST.", true), ("old.test", false), ("a.bold.test", false)]
        {
            assert_eq!(pattern(Target { host: Some(host), path: "/" }).is_some(), is, "{host}");
        }
    }

    #[test]
    fn every_rule_has_to_let_an_address_in() {
        let rules = rules(
            "[[rule]]\ndeny = \"192.0.2.66\"\n[[rule]]\npath = \"/admin/*\"\nallow = [\"192.0.2.0/24\", \"unix\"]\n",
        );
        for (path, from, is) in [
            ("/", address("192.0.2.66"), false),
            ("/", address("198.51.100.1"), true),
            ("/admin/x", address("198.51.100.1"), false),
            ("/admin/x", address("192.0.2.1"), true),
            ("/admin/x", address("192.0.2.66"), false),
            ("/admin/x", None, true),
        ] {
            assert_eq!(rules.protecting(at(path)).admit(from), is, "{path} {from:?}");
        }
    }

    #[test]
    fn no_spelling_leads_around_a_rule() {
        let rules =
            rules("[[rule]]\npath = [\"/admin/*\", \"/secret\"]\nallow = \"10.0.0.0/8\"\nbasic_auth = \"/none\"\n");
        for path in [
            "/admin",
            "/ADMIN/x",
            "//admin/x",
            "/a/../admin/x",
            "/%61dmin/x",
            "/secret.json",
            "/secret/",
            "/x/..%2fsecret",
        ] {
            let protecting = rules.protecting(at(path));
            assert!(!protecting.admit(address("192.0.2.1")), "{path}");
            assert_eq!(protecting.passwords().count(), 1, "{path}");
        }
        let open = rules.protecting(at("/up"));
        assert!(open.admit(address("192.0.2.1")) && open.passwords().next().is_none());
        let part = Target { host: None, path: "/secret" };
        assert_eq!(rules.protecting(part).passwords().count(), 1);
    }

    #[test]
    fn bodies_have_the_bound_of_the_first_rule() {
        let rules = rules(
            "[[rule]]\npath = \"/uploads/*\"\nmax_body = \"1GB\"\n[[rule]]\npath = \"/login\"\nmax_body = \"1KB\"\n[[rule]]\npath = \"/free\"\nmax_body = \"off\"\n",
        );
        let of = |path| rules.max_body(at(path), Some(50 << 20));
        assert_eq!(of("/uploads/a"), Some(1 << 30));
        assert_eq!(of("/login"), Some(1 << 10));
        assert_eq!(of("/%6cogin"), Some(1 << 10), "another spelling has no larger one");
        assert_eq!(of("/uploads/..%2flogin"), Some(1 << 10));
        assert_eq!(of("/"), Some(50 << 20));
        assert_eq!(of("/free"), Some(u64::MAX));
    }

    #[test]
    fn headers_are_changed_in_order() {
        let rules = rules(
            "[[rule]]\nheaders = { set = { X-A = \"all\", X-B = \"all\" }, remove = [\"Server\"] }\n\
             [[rule]]\npath = \"/a/*\"\nheaders = { set = { X-A = \"a\" }, remove = [\"X-B\"] }\n",
        );
        let mut headers = HeaderMap::new();
        headers.insert("server", http::HeaderValue::from_static("app"));
        rules.change(at("/a/1"), StatusCode::OK, &mut headers);
        assert_eq!((headers.len(), &headers["x-a"]), (1, &http::HeaderValue::from_static("a")));
        rules.change(at("/b"), StatusCode::OK, &mut headers);
        assert_eq!((headers.len(), &headers["x-a"]), (2, &http::HeaderValue::from_static("all")));
    }

    #[test]
    fn no_cache_keeps_an_error() {
        let rules = rules(
            "[[rule]]\nheaders = { set = { Cache-Control = \"max-age=60\", CDN-Cache-Control = \"max-age=60\", X-A = \"a\" }, remove = [\"Cache-Control\"] }\n",
        );
        for (status, said, told) in [
            (200, "max-age=0", ("max-age=60", true)),
            (200, "private, No-Store", ("private, No-Store", false)),
            (503, "no-store", ("no-store", false)),
            (404, "no-cache", ("no-cache", false)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(said));
            rules.change(at("/"), StatusCode::from_u16(status).unwrap(), &mut headers);
            let found = (headers["cache-control"].to_str().unwrap(), headers.contains_key("cdn-cache-control"));
            assert_eq!((found, headers.contains_key("x-a")), (told, true), "{status} {said}");
        }
    }

    #[test]
    fn what_only_some_addresses_may_see_is_protected() {
        let of = |text: &str| rules(text).are_for_some();
        assert!(!of("[[rule]]\ndeny = \"192.0.2.1\"\n") && of("[[rule]]\npath = \"/a\"\nbasic_auth = \"/f\"\n"));
        let rules = rules("[[rule]]\npath = \"/a\"\nallow = \"10.0.0.0/8\"\n[[rule]]\ndeny = \"192.0.2.1\"\n");
        let are_for_some = |path| rules.protecting(at(path)).are_for_some();
        assert!(are_for_some("/a") && are_for_some("/A/") && !are_for_some("/b"));
    }

    #[test]
    fn a_file_is_read_once_for_all_its_rules() {
        let rules =
            rules("[[rule]]\npath = \"/a\"\nbasic_auth = \"/f\"\n[[rule]]\npath = \"/b\"\nbasic_auth = \"/f\"\n");
        assert_eq!((rules.password_files().len(), rules.passes_users), (1, false));
    }
}
