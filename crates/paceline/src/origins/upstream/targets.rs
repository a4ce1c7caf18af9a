//! What the setting `upstream` names: a server, several, or a name whose addresses come and go. It never resolves a name.

use std::fmt;

use super::address::{Address, AddressError};

/// `dns:NAME:PORT`: each address of the name is a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub https: bool,
    pub name: String,
    pub port: u16,
}

/// One entry of `upstream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Host(Address),
    Name(Service),
}

/// What is wrong with `upstream`, or with one of its entries. Its words go behind the setting's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("must be like dns:app.internal:3000 or dns:https://app.internal:443, not {text:?}: {why}")]
    Name { text: String, why: &'static str },
    #[error("names {0} twice")]
    Twice(Target),
    #[error("names no host")]
    Empty,
}

impl Target {
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let Some(rest) = text.strip_prefix("dns:") else { return Ok(Target::Host(Address::parse(text)?)) };
        let wrong = |why: &'static str| TargetError::Name { text: text.to_owned(), why };
        let url = if rest.contains("://") { rest.to_owned() } else { format!("http://{rest}") };
        let port = url.rsplit_once(':').map(|(_, port)| port.trim_end_matches('/'));
        let has_port = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
        match Address::parse(&url) {
            Ok(Address::Tcp { https, host, port }) => {
                if host.parse::<std::net::IpAddr>().is_ok() {
                    return Err(wrong("an IP address needs no dns:"));
                }
                if !has_port {
                    return Err(wrong("the port is missing"));
                }
                Ok(Target::Name(Service { https, name: host, port }))
            }
            Ok(Address::Unix(_)) => Err(wrong("a socket has no name")),
            Err(_) => Err(wrong("that is no name and port")),
        }
    }

    fn is_https(&self) -> bool {
        match self {
            Target::Host(address) => address.is_https(),
            Target::Name(service) => service.https,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Host(address) => address.fmt(out),
            Target::Name(Service { https: false, name, port }) => write!(out, "dns:{name}:{port}"),
            Target::Name(Service { https: true, name, port }) => write!(out, "dns:https://{name}:{port}"),
        }
    }
}

/// All entries of `upstream`, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets(Vec<Target>);

impl Targets {
    pub fn parse(texts: &[String]) -> Result<Targets, TargetError> {
        let mut targets = Vec::new();
        for text in texts {
            let target = Target::parse(text)?;
            if targets.contains(&target) {
                return Err(TargetError::Twice(target));
            }
            targets.push(target);
        }
        if targets.is_empty() {
            Err(TargetError::Empty)
        } else {
            Ok(Targets(targets))
        }
    }

    pub fn all(&self) -> &[Target] {
        &self.0
    }

    /// Whether TLS is spoken with one of them.
    pub fn is_https(&self) -> bool {
        self.0.iter().any(Target::is_https)
    }

    /// Whether there can be several hosts.
    pub fn is_balanced(&self) -> bool {
        self.0.len() > 1 || self.0.iter().any(|target| matches!(target, Target::Name(_)))
    }

    /// As a Host field would name the first one.
    pub fn authority(&self) -> String {
        match &self.0[..] {
            [Target::Host(address), ..] => address.authority(),
            [Target::Name(service), ..] => service.name.clone(),
            [] => String::new(),
        }
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, target) in self.0.iter().enumerate() {
            write!(out, "{}{target}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> Result<Targets, TargetError> {
        Targets::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn hosts_and_names_as_they_are_written() {
        for (texts, shown, https, balanced) in [
            (&["http://App.test:80"][..], "http://app.test", false, false),
            (&["http://10.0.0.11:3000", "https://10.0.0.12"], "http://10.0.0.11:3000, https://10.0.0.12", true, true),
            (&["dns:App.internal:3000"], "dns:app.internal:3000", false, true),
            (&["dns:https://app.internal:443"], "dns:https://app.internal:443", true, true),
            (
                &["http://unix:/run/a.sock", "http://[::1]:3000"],
                "http://unix:/run/a.sock, http://[::1]:3000",
                false,
                true,
            ),
        ] {
            let targets = parsed(texts).unwrap();
            assert_eq!(
                (targets.to_string().as_str(), targets.is_https(), targets.is_balanced()),
                (shown, https, balanced)
            );
        }
        assert_eq!(parsed(&["dns:app.internal:3000"]).unwrap().authority(), "app.internal");
    }

    #[test]
    fn what_is_no_target_is_told() {
        for (texts, told) in [
            (&[][..], "names no host"),
            (&["http://app", "http://APP:80"], "names http://app twice"),
            (&["http://app", "app"], "must be a URL like"),
            (&["dns:app"], "the port is missing"),
            (&["dns:10.0.0.1:80"], "an IP address needs no dns:"),
            (&["dns:unix:/run/a.sock"], "a socket has no name"),
            (&["dns:http://app/x:80"], "that is no name and port"),
            (&["dns:"], "that is no name and port"),
        ] {
            let error = parsed(texts).expect_err(told);
            assert!(error.to_string().contains(told), "{texts:?}: {error}");
        }
    }
}
