//! `[[rule]]`: what is done with requests for some paths and hosts before the application has them: redirects, response
//! headers, name and password, addresses, a bound for bodies. It reads the tables; it never opens a file of passwords.
//!
//! Reading order: `Rule`, `parse` (the table), `redirect` (where a redirect leads).

mod options;
mod parse;
pub mod redirect;

use std::path::PathBuf;

use http::{HeaderName, HeaderValue};

pub use self::{options::OPTIONS, redirect::Redirect};
use super::{weight_of_all, PART};
use crate::config::{layer::Layer, SiteConfig, TrustedProxies};

/// One `[[rule]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Paths that it is for, with `*` for anything. Never empty.
    pub paths: Vec<String>,
    /// Of these the ones that it is not for.
    pub except: Vec<String>,
    /// Hosts that it is for, in small letters; `*.example.org` is allowed. Empty: all of its site.
    pub hosts: Vec<String>,
    pub redirect: Option<Redirect>,
    pub headers: HeaderChanges,
    pub basic_auth: Option<BasicAuth>,
    /// The addresses that are let in. None: all.
    pub allow: Option<TrustedProxies>,
    /// The addresses that are not. None: there are none.
    pub deny: Option<TrustedProxies>,
    pub max_body: Option<MaxBody>,
}

impl Rule {
    pub fn weight(&self) -> usize {
        let parts = 1 + self.headers.set.len() + self.headers.remove.len() + self.hosts.len();
        weight_of_all(&self.paths) + weight_of_all(&self.except) + PART * parts
    }
}

/// What becomes of a response's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderChanges {
    pub remove: Vec<HeaderName>,
    pub set: Vec<(HeaderName, HeaderValue)>,
}

/// Name and password from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// Lines `name:hash`.
    pub file: PathBuf,
    /// What browsers show when they ask.
    pub realm: String,
    /// The application gets the name as REMOTE_USER.
    pub pass_user: bool,
}

/// The largest request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxBody {
    Bytes(u64),
    Unbounded,
}

impl Rule {
    /// Whether it keeps somebody out.
    pub fn protects(&self) -> bool {
        self.basic_auth.is_some() || self.allow.is_some() || self.deny.is_some()
    }

    /// Names the table for people.
    pub fn shown(&self) -> String {
        shown(&self.paths)
    }
}

/// Whether rules of this source name a file of passwords, which the server reads with its own rights.
pub fn have_passwords(layer: &Layer) -> bool {
    layer.table::<Vec<Rule>>("rule").is_some_and(|rules| rules.iter().any(|rule| rule.basic_auth.is_some()))
}

fn shown(paths: &[String]) -> String {
    format!("[[rule]] path = {:?}", paths.join(", "))
}

/// Rules that seem to protect something and do not: clients choose the host that they name, and a site without hosts
/// answers all of them.
pub fn check(sites: &[SiteConfig]) -> Vec<String> {
    let open = sites.iter().filter(|site| site.hosts.is_empty());
    let rules = open.flat_map(|site| site.parts.rules.iter().map(move |rule| (site, rule)));
    let wrong = rules.filter(|(_, rule)| rule.protects() && !rule.hosts.is_empty());
    let problem = |(site, rule): (&SiteConfig, &Rule)| {
        format!(
            "{} of site {:?} protects only {}, and the site answers every other host, too: add host = {:?} to its [[site]], \
             or remove host from the rule",
            rule.shown(),
            site.name,
            rule.hosts.join(", "),
            rule.hosts[0]
        )
    };
    wrong.map(problem).collect()
}

/// Rules that protect a host that none of their sites answers: a mistyped one protects nothing.
pub fn check_answered(sites: &[SiteConfig]) -> Vec<String> {
    let is_answered = |host: &String, rule: &Rule| {
        let with_it = sites.iter().filter(|site| site.parts.rules.contains(rule));
        with_it.flat_map(|site| &site.hosts).any(|own| overlap(own, host) || overlap(host, own))
    };
    let mut problems = Vec::new();
    // A site without hosts answers all.
    for site in sites.iter().filter(|site| !site.hosts.is_empty()) {
        for rule in site.parts.rules.iter().filter(|rule| rule.protects()) {
            let lost = rule.hosts.iter().filter(|host| !is_answered(host, rule));
            problems.extend(lost.map(|host| {
                format!(
                    "{} protects {host:?}, and no site answers that host (site {:?} answers {}): correct host in the rule, or add it to the [[site]]",
                    rule.shown(),
                    site.name,
                    site.hosts.join(", ")
                )
            }));
        }
    }
    problems
}

/// Whether a host is one of those that a pattern stands for: the same, or below it (`*.shop.test`).
fn overlap(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => host.len() > suffix.len() && host.to_ascii_lowercase().ends_with(&suffix.to_ascii_lowercase()),
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{
        load,
        test_folder::{around, Folder},
        Flags,
    };

    #[test]
    fn what_protects_nothing_is_refused() {
        let told = |toml: &str| {
            let folder = Folder::with(&[("config.ru", ""), ("paceline.toml", toml)]);
            around(&folder.0, &[], |around| load(Flags::default(), around)).err().map(|error| error.to_string())
        };
        let rule = "[[rule]]\nhost = \"a.test\"\nallow = \"10.0.0.0/8\"\n";
        assert!(
            told(rule).is_some_and(|why| why.contains("the site answers every other host, too")),
            "{:?}",
            told(rule)
        );
        let site = "[[site]]\nroot = \".\"\nhost = [\"a.test\", \"b.test\"]\n";
        assert_eq!(told(&format!("{rule}{site}")), None);
        for (host, is) in [("A.test", true), ("*.test", true), ("c.test", false), ("x.a.test", false)] {
            let rule = format!("[[rule]]\nhost = [\"a.test\", {host:?}]\ndeny = \"10.0.0.0/8\"\n{site}");
            let why = told(&rule);
            assert_eq!(why.is_none(), is, "{host}: {why:?}");
            assert!(is || why.is_some_and(|why| why.contains("no site answers that host")));
        }
        let redirect = "[[rule]]\nhost = \"www.a.test\"\nredirect = \"https://a.test\"\n";
        assert_eq!(told(redirect), None, "a redirect keeps nobody out");
        let both = "[[rule]]\nbasic_auth = \"staff\"\n[[sso]]\nkerberos = { keytab = \"k\" }\n";
        assert!(told(both).is_some_and(|why| why.contains("a browser sends only one of both")), "{:?}", told(both));
        let both =
            "[[rule]]\nbasic_auth = { file = \"staff\", pass_user = true }\n[[sso]]\nkerberos = { keytab = \"k\" }\n";
        assert!(
            told(both).is_some_and(|why| why.contains("has pass_user, and the site has an [[sso]]")),
            "{:?}",
            told(both)
        );
    }
}
