//! What a setting is: its key, type, default, variables, flags and documentation, and the words to define one with.
//! It knows no setting by name.

use super::value::Kind;

/// Where a setting may stand in paceline.toml.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Once, at the top.
    Server,
    /// In a `[[site]]`, or at the top for all sites.
    Site,
    /// As Site, but never in a file inside a folder of `sites`: that file belongs to the site's owner.
    SiteByAdmin,
    /// Only in a `[[site]]`.
    OneSite,
    /// Only in a `[[tls]]`.
    OneCertificate,
}

#[derive(Clone, Copy)]
pub enum Preset {
    /// Not set, with the words for it.
    Unset(&'static str),
    Fixed(&'static str),
    /// One for the environments development and test, another for all others.
    ByEnvironment {
        development: &'static str,
        other: &'static str,
    },
    /// 1 in development and test, otherwise the number of cores up to this.
    CoresUpTo(u64),
}

/// The setting with this key.
pub type Named = fn(&str) -> Option<&'static Opt>;

pub struct Opt {
    pub key: &'static str,
    pub kind: Kind,
    pub scope: Scope,
    pub group: &'static str,
    pub preset: Preset,
    /// Variables that set it; the first one that is set and not blank counts.
    pub env: &'static [&'static str],
    pub short: Option<char>,
    /// Name of the flag; empty: none.
    pub long: &'static str,
    pub aliases: &'static [&'static str],
    /// Shown in the short help (`-h`).
    pub common: bool,
    pub doc: &'static str,
    /// What can go wrong with it, for docs/configuration.md.
    pub risk: &'static str,
    /// By it a file could have root write or read where its owner may not, or run as whom its owner is not.
    pub is_roots_own: bool,
}

impl Opt {
    pub(super) const fn new(
        scope: Scope,
        group: &'static str,
        key: &'static str,
        kind: Kind,
        doc: &'static str,
    ) -> Opt {
        let preset = Preset::Unset("none");
        let (env, aliases): (&[&str], &[&str]) = (&[], &[]);
        let (short, long, risk, common, is_roots_own) = (None, "", "", false, false);
        Opt { key, kind, scope, group, preset, env, short, long, aliases, common, doc, risk, is_roots_own }
    }
    pub(super) const fn fixed(mut self, text: &'static str) -> Opt {
        self.preset = Preset::Fixed(text);
        self
    }
    pub(super) const fn preset(mut self, preset: Preset) -> Opt {
        self.preset = preset;
        self
    }
    pub(super) const fn env(mut self, names: &'static [&'static str]) -> Opt {
        self.env = names;
        self
    }
    pub(super) const fn flag(mut self, long: &'static str) -> Opt {
        self.long = long;
        self
    }
    /// A flag of the short help, with its letter if it has one.
    pub(super) const fn common(mut self, short: Option<char>, long: &'static str) -> Opt {
        self.common = true;
        self.short = short;
        self.long = long;
        self
    }
    pub(super) const fn alias(mut self, names: &'static [&'static str]) -> Opt {
        self.aliases = names;
        self
    }
    /// The default in words.
    pub fn default_words(&self) -> Option<String> {
        match self.preset {
            Preset::Unset("none") => None,
            Preset::Unset(words) | Preset::Fixed(words) => Some(words.into()),
            Preset::ByEnvironment { development, other } => {
                Some(format!("{development} in development and test, otherwise {other}"))
            }
            Preset::CoresUpTo(most) => {
                Some(format!("1 in development and test, otherwise one per core, at most {most}"))
            }
        }
    }
    pub(super) const fn roots_own(mut self) -> Opt {
        self.is_roots_own = true;
        self
    }
    pub(super) const fn risk(mut self, words: &'static str) -> Opt {
        self.risk = words;
        self
    }
}
