//! Where the KDCs of a realm are: krb5.conf, else the DNS. Only what a check asks is read: the library itself reads
//! all of the file when it needs it.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::{Path, PathBuf},
};

use super::srv;

/// Files that one configuration may include.
const MAX_FILES: usize = 64;
const KERBEROS_PORT: u16 = 88;

/// Where a KDC listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What krb5.conf says of realms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    pub default_realm: Option<String>,
    pub kdcs: BTreeMap<String, Vec<Address>>,
}

impl Configuration {
    /// The files of `KRB5_CONFIG`, else /etc/krb5.conf, and what they include. With what could not be read, if
    /// anything.
    pub fn read() -> (Configuration, Option<String>) {
        let paths = env::var("KRB5_CONFIG").unwrap_or_else(|_| "/etc/krb5.conf".into());
        let mut configuration = Configuration::default();
        let mut waiting: Vec<PathBuf> = paths.split(':').map(PathBuf::from).collect();
        let (mut problem, mut at) = (None, 0);
        while at < waiting.len().min(MAX_FILES) {
            match fs::read_to_string(&waiting[at]) {
                Ok(text) => {
                    let included = configuration.add(&text);
                    waiting.extend(included.into_iter().flat_map(files));
                }
                Err(error) => problem = Some(format!("{}: {error}", waiting[at].display())),
            }
            at += 1;
        }
        (configuration, problem)
    }

    /// Adds a file's text. The result are the files and directories that it includes.
    fn add(&mut self, text: &str) -> Vec<Include> {
        let mut included = Vec::new();
        let (mut section, mut realm) = (String::new(), None::<String>);
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(path) = line.strip_prefix("includedir ") {
                included.push(Include::Directory(path.trim().into()));
            } else if let Some(path) = line.strip_prefix("include ") {
                included.push(Include::File(path.trim().into()));
            } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                (section, realm) = (name.trim().to_owned(), None);
            } else if line.starts_with('}') {
                realm = None;
            } else if let Some((key, value)) = line.split_once('=') {
                let (key, value) = (key.trim().trim_end_matches('*'), value.trim().trim_matches('"'));
                match (section.as_str(), &realm, key) {
                    ("libdefaults", None, "default_realm") => {
                        self.default_realm.get_or_insert(value.to_owned());
                    }
                    ("realms", None, name) if value.starts_with('{') => realm = Some(name.to_owned()),
                    ("realms", Some(name), "kdc") => {
                        self.kdcs.entry(name.clone()).or_default().extend(address(value));
                    }
                    _ => {}
                }
            }
        }
        included
    }
}

enum Include {
    File(PathBuf),
    Directory(PathBuf),
}

/// The files of an include. Of a directory: those whose names are letters, digits, dashes and underscores, or end with
/// `.conf`, as the library takes them.
fn files(include: Include) -> Vec<PathBuf> {
    let directory = match include {
        Include::File(path) => return vec![path],
        Include::Directory(path) => path,
    };
    let is_taken = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        plain || name.ends_with(".conf") && !name.starts_with('.')
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| is_taken(path)).collect();
    paths.sort();
    paths
}

/// `host`, `host:port`, `[::1]:port`, `tcp/host:port`. None: a Unix socket or a proxy by HTTPS, which no check asks.
fn address(text: &str) -> Option<Address> {
    let text = text.split_whitespace().next()?;
    if text.contains("://") || text.starts_with('/') {
        return None;
    }
    let text = text.strip_prefix("tcp/").or_else(|| text.strip_prefix("udp/")).unwrap_or(text);
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let port = rest.strip_prefix(':').map_or(Some(KERBEROS_PORT), |port| port.parse().ok())?;
        return Some(Address { host: host.into(), port });
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => Some(Address { host: host.into(), port: port.parse().ok()? }),
        _ => Some(Address { host: text.into(), port: KERBEROS_PORT }),
    }
}

/// Those of the configuration; if it has none, those of the DNS (`_kerberos._tcp.REALM`).
pub fn kdcs(configuration: &Configuration, realm: &str) -> Vec<Address> {
    match configuration.kdcs.get(realm) {
        Some(known) if !known.is_empty() => known.clone(),
        _ => srv::lookup(&format!("_kerberos._tcp.{}", realm.to_ascii_lowercase())),
    }
}

/// The realm that names without one belong to, on this machine.
pub fn default_realm() -> Option<String> {
    Configuration::read().0.default_realm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_kdcs_of_each_realm_and_the_default_one() {
        let mut configuration = Configuration::default();
        let included = configuration.add(
            "[libdefaults]\n  default_realm = EXAMPLE.COM\n\n# kdc = no\nincludedir /etc/krb5.conf.d/\n[realms]\n EXAMPLE.COM = {\n  kdc = kdc1.example.com\n\
             \tkdc = kdc2.example.com:8888\n  kdc = [2001:db8::1]:99\n kdc = https://proxy.example.com/\n }\n OTHER.TEST = {\n admin_server = a\n }\n[domain_realm]\n kdc = x\n",
        );
        assert!(matches!(&included[..], [Include::Directory(path)] if path == Path::new("/etc/krb5.conf.d/")));
        assert_eq!(configuration.default_realm.as_deref(), Some("EXAMPLE.COM"));
        let shown: Vec<_> = configuration.kdcs["EXAMPLE.COM"].iter().map(Address::to_string).collect();
        assert_eq!(shown, ["kdc1.example.com:88", "kdc2.example.com:8888", "[2001:db8::1]:99"]);
        assert!(!configuration.kdcs.contains_key("OTHER.TEST"));
    }
}
