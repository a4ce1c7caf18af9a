//! Reads paceline.toml: every key and type is checked against the options table, and all mistakes are told at once,
//! each with file, line and column. It never looks at the file system beyond the text it is given.

use std::path::Path;

use toml_edit::{Document, Item, TableLike};

use super::{
    layer::Layer,
    options::{self, all, named, Opt, Scope},
    removed,
};

/// What the file says.
#[derive(Debug, Default)]
pub struct FromToml {
    pub layer: Layer,
    pub sites: Vec<TomlTable>,
    pub tls: Vec<TomlTable>,
}

/// One `[[site]]` or `[[tls]]`.
#[derive(Debug, Default)]
pub struct TomlTable {
    pub layer: Layer,
    /// `paceline.toml:7:3: ` of each key, and of the table itself under "".
    places: Vec<(&'static str, String)>,
}

impl TomlTable {
    /// Where the key stands, or else the table, as the beginning of a message.
    pub fn place(&self, key: &str) -> String {
        let of = |wanted: &str| self.places.iter().find(|(key, _)| *key == wanted).map(|(_, place)| place.clone());
        of(key).or_else(|| of("")).unwrap_or_default()
    }
}

/// Which keys a file may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The server's own file.
    Server,
    /// A file inside a folder of `sites`: only settings of that site.
    Folder,
}

/// `shown` names the file in messages.
pub fn read(text: &str, shown: &str, base: &Path, role: Role) -> Result<FromToml, Vec<String>> {
    let mut reader = Reader { text, shown, role, problems: Vec::new() };
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let place = reader.place(error.span().map(|span| span.start));
            return Err(vec![format!("{place}{}", error.message().trim().replace('\n', ", "))]);
        }
    };
    let mut read = FromToml::default();
    for (key, item) in document.as_table().iter() {
        let at = document.as_table().key(key).and_then(|key| key.span()).map(|span| span.start);
        match (key, role) {
            ("site", Role::Server) => reader.tables(&SITE, item, at, base, &mut read.sites),
            ("tls", Role::Server) if !item.is_str() => reader.tables(&TLS, item, at, base, &mut read.tls),
            _ => drop(reader.setting(key, item, at, None, &mut read.layer)),
        }
    }
    options::anchor(&mut read.layer, base);
    if reader.problems.is_empty() {
        Ok(read)
    } else {
        Err(reader.problems)
    }
}

/// A kind of table that the file may hold several of.
struct Tables {
    scope: Scope,
    /// What the table is not without, unless it has another instead, with what to say.
    required: &'static [(&'static str, Option<&'static str>, &'static str)],
    singular: &'static str,
}

const SITE: Tables = Tables {
    scope: Scope::OneSite,
    required: &[("root", Some("upstream"), "the site has no root: add root = \"/path/to/app\"")],
    singular: "a site begins with [[site]], in double brackets",
};
const TLS: Tables = Tables {
    scope: Scope::OneCertificate,
    required: &[
        ("cert", None, "the certificate has no file: add cert = \"/path/to/fullchain.pem\""),
        ("key", None, "the certificate has no key: add key = \"/path/to/privkey.pem\""),
    ],
    singular: "a certificate begins with [[tls]], in double brackets",
};

struct Reader<'a> {
    text: &'a str,
    shown: &'a str,
    role: Role,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn tables(&mut self, kind: &Tables, item: &Item, at: Option<usize>, base: &Path, read: &mut Vec<TomlTable>) {
        let tables: Option<Vec<(&dyn TableLike, Option<usize>)>> = match (item.as_array_of_tables(), item.as_array()) {
            (Some(tables), _) => Some(
                tables.iter().map(|table| (table as &dyn TableLike, table.span().map(|span| span.start))).collect(),
            ),
            (None, Some(array)) => array
                .iter()
                .map(|one| Some((one.as_inline_table()? as &dyn TableLike, one.span().map(|span| span.start))))
                .collect(),
            _ => None,
        };
        let Some(tables) = tables else {
            return self.problem(at, kind.singular.into());
        };
        for (table, at) in tables {
            let mut one = TomlTable::default();
            one.places.push(("", self.place(at)));
            for (key, item) in table.iter() {
                let at = table.key(key).and_then(|key| key.span()).map(|span| span.start);
                if let Some(key) = self.setting(key, item, at, Some(kind.scope), &mut one.layer) {
                    one.places.push((key, self.place(at)));
                }
            }
            for (key, instead, missing) in kind.required {
                if !one.layer.has(key) && !instead.is_some_and(|instead| one.layer.has(instead)) {
                    self.problem(at, (*missing).into());
                }
            }
            options::anchor(&mut one.layer, base);
            read.push(one);
        }
    }

    fn setting(
        &mut self,
        key: &str,
        item: &Item,
        at: Option<usize>,
        table: Option<Scope>,
        layer: &mut Layer,
    ) -> Option<&'static str> {
        let Some(option) = named(if table == Some(Scope::OneSite) && key == "hosts" { "host" } else { key }) else {
            let hint = || suggestion(key, |option| self.allowed(option, table));
            let problem = match removed::setting(key) {
                Some(instead) => format!("\"{key}\" is no longer a setting: {instead}"),
                None => {
                    format!(
                        "unknown key \"{key}\"{}",
                        hint().map_or_else(String::new, |near| format!(" (did you mean \"{near}\"?)"))
                    )
                }
            };
            self.problem(at, problem);
            return None;
        };
        if !self.allowed(option, table) {
            self.problem(
                at,
                match (option.scope, self.role) {
                    (Scope::OneCertificate, Role::Server) => format!("\"{key}\" belongs in a [[tls]]"),
                    (_, Role::Server) if table == Some(Scope::OneCertificate) => {
                        format!("\"{key}\" is not a setting of a certificate: move it above the first [[tls]]")
                    }
                    (Scope::Server, Role::Server) => {
                        format!("\"{key}\" is a setting of the whole server: move it above the first [[site]]")
                    }
                    (_, Role::Folder) => format!("\"{key}\" cannot be set in a folder of --sites"),
                    _ => format!("\"{key}\" belongs in a [[site]]"),
                },
            );
            return None;
        }
        match option.kind.from_toml(item) {
            Ok(_) if layer.has(option.key) => {
                self.problem(at, "\"host\" and \"hosts\" are the same setting: write only one of them".into())
            }
            Ok(value) => layer.set(option.key, value),
            Err(why) => {
                let at = why.place().or_else(|| item.span().map(|span| span.start)).or(at);
                self.problem(at, format!("\"{key}\" {why}"));
            }
        }
        Some(option.key)
    }

    /// `table`: the scope of the table's own settings; None at the top.
    fn allowed(&self, option: &Opt, table: Option<Scope>) -> bool {
        match option.scope {
            Scope::Server => table.is_none() && self.role == Role::Server,
            // Which names are proved to whom is for the server's owner to say.
            Scope::Site if option.key == "tls" && self.role == Role::Folder => false,
            Scope::Site => table != Some(Scope::OneCertificate),
            Scope::SiteByAdmin => table != Some(Scope::OneCertificate) && self.role == Role::Server,
            own => table == Some(own),
        }
    }

    fn problem(&mut self, at: Option<usize>, words: String) {
        let place = self.place(at);
        self.problems.push(format!("{place}{words}"));
    }

    fn place(&self, at: Option<usize>) -> String {
        let before = self.text.get(..at.unwrap_or(0)).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        format!("{}:{line}:{column}: ", self.shown)
    }
}

/// The nearest key, if one is near.
fn suggestion(key: &str, allowed: impl Fn(&Opt) -> bool) -> Option<&'static str> {
    let wanted = key.replace('-', "_").to_ascii_lowercase();
    all()
        .filter(|option| allowed(option))
        .map(|option| (strsim::damerau_levenshtein(&wanted, option.key), option.key))
        .filter(|(distance, key)| *distance <= 1 + key.len() / 4)
        .min()
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    fn problems(text: &str, role: Role) -> Vec<String> {
        read(text, "p.toml", Path::new("/srv"), role).err().unwrap_or_default()
    }

    #[test]
    fn mistakes_with_their_places() {
        for (text, told) in [
            ("worker = 2", "p.toml:1:1: unknown key \"worker\" (did you mean \"workers\"?)"),
            ("\n  max-body = 1", "p.toml:2:3: unknown key \"max-body\" (did you mean \"max_body\"?)"),
            ("xyzzy = 2", "p.toml:1:1: unknown key \"xyzzy\""),
            (
                "gc = \"app\"",
                "p.toml:1:1: \"gc\" is no longer a setting: remove it: Ruby's own settings of the garbage collector apply. To trade CPU time for memory set RUBY_GC_ variables in env (docs/ruby-tuning.md)",
            ),
            (
                "tune = \"auto\"",
                "p.toml:1:1: \"tune\" is no longer a setting: remove it: run paceline doctor, which tries the same settings, and paceline doctor apply N for what it advises (docs/doctor.md)",
            ),
            ("port = \"80\"", "p.toml:1:8: \"port\" must be a whole number from 0 to 65535, not \"80\""),
            ("port = 70000", "p.toml:1:8: \"port\" must be a whole number from 0 to 65535, not \"70000\""),
            ("preload = 1", "p.toml:1:11: \"preload\" must be true or false, not 1"),
            ("env = { A = 1 }", "p.toml:1:7: \"env\" A must be a string in quotes, not 1"),
            (
                "kind = \"php\"",
                "p.toml:1:8: \"kind\" must be \"rails\", \"rack\", \"sinatra\" or \"files\", not \"php\"",
            ),
            ("root = \"/x\"", "p.toml:1:1: \"root\" belongs in a [[site]]"),
            ("[site]\nroot = \"x\"", "p.toml:1:2: a site begins with [[site]], in double brackets"),
            (
                "[[site]]\nroot=\"a\"\nport=1",
                "p.toml:3:1: \"port\" is a setting of the whole server: move it above the first [[site]]",
            ),
            ("[[tls]]\ncert=\"a\"", "p.toml:1:1: the certificate has no key: add key = \"/path/to/privkey.pem\""),
            ("cert=\"a\"", "p.toml:1:1: \"cert\" belongs in a [[tls]]"),
            (
                "[[tls]]\ncert=\"a\"\nkey=\"b\"\nthreads=1",
                "p.toml:4:1: \"threads\" is not a setting of a certificate: move it above the first [[tls]]",
            ),
            ("[[site]]\nname=\"a\"", "p.toml:1:1: the site has no root: add root = \"/path/to/app\""),
            (
                "[[site]]\nroot=\"a\"\nhost=\"http://x\"",
                "p.toml:3:6: \"host\" must be a host name without scheme and port like shop.test, not \"http://x\"",
            ),
            (
                "[[site]]\nroot=\"a\"\nhost=\"a\"\nhosts=\"b\"",
                "p.toml:4:1: \"host\" and \"hosts\" are the same setting: write only one of them",
            ),
        ] {
            assert_eq!(problems(text, Role::Server), [told]);
        }
        for text in ["queue_timeout = 5", "queue_timeout = \"5\"", "queue_timeout = \"off\""] {
            assert!(problems(text, Role::Server)[0].contains("must be a time like"), "{text}");
        }
        assert_eq!(problems("a=1\nb=2\n\nport=false", Role::Server).len(), 3);
        assert!(problems("threads = ", Role::Server)[0].starts_with("p.toml:1:"));
        assert!(problems("a = 1\na = 2\n", Role::Server)[0].starts_with("p.toml:2:1: "));
    }

    #[test]
    fn a_folder_speaks_only_for_its_site() {
        assert_eq!(problems("port = 1", Role::Folder), ["p.toml:1:1: \"port\" cannot be set in a folder of --sites"]);
        assert!(problems("[[site]]", Role::Folder)[0].contains("unknown key"));
        assert!(problems("threads = 1\nenv.A = \"b\"", Role::Folder).is_empty());
    }

    #[test]
    fn paths_are_below_the_file() {
        let text = "pidfile=\"a.pid\"\nruby=\"bin/ruby\"\npublic=\"p\"\n[[site]]\nroot=\"shop\"\nruby=\"ruby3.3\"";
        let read = read(text, "p.toml", Path::new("/srv"), Role::Server).expect("fine");
        let path = |path: &str| Some(Value::Path(path.into()));
        assert_eq!(read.layer.get("pidfile").cloned(), path("/srv/a.pid"));
        assert_eq!(read.layer.get("ruby").cloned(), path("/srv/bin/ruby"));
        assert_eq!(read.layer.get("public").cloned(), path("p"));
        assert_eq!(read.sites[0].layer.get("root").cloned(), path("/srv/shop"));
        assert_eq!(read.sites[0].layer.get("ruby").cloned(), path("ruby3.3"));
    }
}
