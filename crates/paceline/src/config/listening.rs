//! Where the server listens, by the source that says it, and with which certificates.
//! It never opens a socket, and reads no source.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
};

use super::{
    bind::{self, BindError, BindFault},
    layer::{is_development, Layer},
    paceline_toml::TomlTable,
    sources::Sources,
    value::Value,
    Bind, CertificatePair, Listening, OwnCertificate, SiteConfig,
};
use crate::support::{explanation::Explanation, state_folder};

/// Who says where to listen.
#[derive(Clone, Copy)]
enum Listener<'a> {
    Flags(&'a Layer),
    Toml(&'a Layer),
    Puma(&'a Layer),
    Environment(&'a Layer),
}

impl Sources<'_> {
    /// As with Puma: flags, then the addresses of a file, then PORT. `port` of paceline.toml, which can't name a variable,
    /// is what PORT replaces.
    fn listener(&self) -> Option<Listener<'_>> {
        let says = |layer: &Layer| layer.has("bind") || layer.has("port");
        let has_port = self.environment.has("port");
        if says(self.flags) {
            Some(Listener::Flags(self.flags))
        } else if self.toml.has("bind") || self.toml.has("port") && !has_port {
            Some(Listener::Toml(self.toml))
        } else if says(self.puma) && !says(self.toml) {
            Some(Listener::Puma(self.puma))
        } else {
            has_port.then_some(Listener::Environment(self.environment))
        }
    }

    /// Where to listen. `has_certificates`: there are some for addresses that name none.
    pub fn binds(
        &self,
        base: &Path,
        has_certificates: bool,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Listening>, BindError> {
        let view = self.server();
        let wrong = || BindError { address: "address".into(), fault: BindFault::NotAnAddress };
        let address = view.text("address").and_then(|text| bind::address(&text)).ok_or_else(wrong)?;
        let default_port = u16::try_from(view.number("port")).unwrap_or(3000);
        let Some(listener) = self.listener() else {
            return Ok(vec![Bind::Tcp((address, default_port).into()).into()]);
        };
        if let Listener::Puma(layer) = listener {
            return self.binds_of_puma(layer, base, has_certificates, notices);
        }
        let (Listener::Flags(layer) | Listener::Toml(layer) | Listener::Puma(layer) | Listener::Environment(layer)) =
            listener;
        let port_beside =
            port_of(self.environment).filter(|_| matches!(listener, Listener::Toml(_))).or(port_of(layer));
        let mut port_used = false;
        let mut binds = Vec::new();
        if let Some(Value::List(texts)) = layer.get("bind") {
            for text in texts {
                binds.push(match bind::address(text) {
                    Some(address) => {
                        port_used = true;
                        Bind::Tcp((address, port_beside.unwrap_or(default_port)).into()).into()
                    }
                    None => bind::parse(text, base)?,
                });
            }
        }
        if let Some(port) = port_of(layer).filter(|_| !port_used) {
            binds.push(Bind::Tcp((address, port).into()).into());
        }
        let platform = matches!(listener, Listener::Environment(_)) && view.given("address").is_none();
        if platform && !is_development(view.environment()) {
            notices.push(
                "PORT listens on loopback only; set HOST=0.0.0.0 to make it reachable from other machines".into(),
            );
        }
        Ok(binds)
    }

    /// The addresses of config/puma.rb, which end no start.
    fn binds_of_puma(
        &self,
        layer: &Layer,
        base: &Path,
        has_certificates: bool,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Listening>, BindError> {
        let view = self.server();
        let given = view.given("address").and_then(|_| bind::address(&view.text("address")?));
        let address =
            given.unwrap_or(if self.in_container { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::LOCALHOST.into() });
        let texts = match layer.get("bind") {
            Some(Value::List(texts)) => &texts[..],
            _ => &[],
        };
        let ports =
            port_of(layer).into_iter().chain(texts.iter().filter_map(|text| text.strip_prefix(':')?.parse().ok()));
        let ports: Vec<u16> = ports.collect();
        let mut binds: Vec<Listening> = ports.iter().map(|port| Bind::Tcp((address, *port).into()).into()).collect();
        let mut refused = None;
        for text in texts.iter().filter(|text| !text.starts_with(':')) {
            let parsed = match bind::address(text) {
                Some(address) => Ok(Bind::Tcp((address, 9292).into()).into()),
                None => bind::parse(text, base),
            };
            let is_bare =
                |listening: &Listening| listening.tls.as_ref().is_some_and(Vec::is_empty) && !has_certificates;
            match parsed {
                Ok(listening) if is_bare(&listening) => {
                    refused.get_or_insert(BindError { address: text.clone(), fault: BindFault::NoCertificate });
                    notices.push(format!(
                        "{}: {text}: {}: nobody listens there",
                        self.puma_file,
                        BindFault::NoCertificate
                    ));
                }
                Ok(listening) => binds.push(listening),
                Err(why) => {
                    notices.push(format!("{}: bind {why}: nobody listens there", self.puma_file));
                    refused.get_or_insert(why);
                }
            }
        }
        if let (true, Some(why)) = (binds.is_empty(), refused) {
            return Err(why);
        }
        if given.is_none() && !self.in_container && !ports.is_empty() && !is_development(view.environment()) {
            let port = ports[0];
            notices.push(format!(
                "{}: port {port} listens on this machine only; write port {port}, \"0.0.0.0\", or set HOST=0.0.0.0, to make it \
                 reachable from other machines, as Puma does",
                self.puma_file
            ));
        }
        let is_there =
            |port: u16| binds.iter().any(|one| matches!(&one.bind, Bind::Tcp(address) if address.port() == port));
        if let Some(port) = port_of(self.environment).filter(|port| !is_there(*port)) {
            notices.push(format!("PORT={port} does not count, as with Puma: {} names the addresses", self.puma_file));
        }
        Ok(binds)
    }
}

fn port_of(layer: &Layer) -> Option<u16> {
    match layer.get("port") {
        Some(Value::Int(port)) => u16::try_from(*port).ok(),
        _ => None,
    }
}

/// Has all addresses serve https, and says which certificate there is to be for those that have none.
pub fn own_certificate(binds: &mut [Listening], sites: &[SiteConfig]) -> Result<OwnCertificate, Explanation> {
    let folder = state_folder::path()
        .ok_or_else(|| Explanation::new("https: no folder for a certificate: set HOME or XDG_STATE_HOME"))?;
    let mut names: Vec<String> = ["localhost", "*.localhost", "127.0.0.1", "::1"].map(String::from).into();
    names.extend(sites.iter().flat_map(|site| site.hosts.iter().cloned()));
    for listening in binds.iter_mut().filter(|listening| !listening.h2c) {
        let Bind::Tcp(address) = listening.bind else { continue };
        listening.tls.get_or_insert_default();
        names.extend((!address.ip().is_unspecified()).then(|| address.ip().to_string()));
    }
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let path = |name: &str| folder.join("https").join(name);
    Ok(OwnCertificate { pair: CertificatePair { cert: path("localhost.pem"), key: path("localhost-key.pem") }, names })
}

/// Gives TLS addresses that have no certificate by now the server's own. Whether there are any.
pub fn share_own(binds: &mut [Listening], own: &OwnCertificate) -> bool {
    let without = binds.iter_mut().filter_map(|listening| listening.tls.as_mut().filter(|pairs| pairs.is_empty()));
    without.map(|pairs| pairs.push(own.pair.clone())).count() > 0
}

/// Gives TLS addresses without a certificate of their own those of the whole server. `has_own`: the rest gets the server's own.
pub fn share_certificates(
    binds: &mut [Listening],
    tables: &[TomlTable],
    automatic: bool,
    has_own: bool,
    notices: &mut Vec<String>,
) -> Vec<String> {
    let path = |table: &TomlTable, key: &str| match table.layer.get(key) {
        Some(Value::Path(path)) => path.clone(),
        _ => Default::default(),
    };
    let pairs: Vec<_> =
        tables.iter().map(|table| CertificatePair { cert: path(table, "cert"), key: path(table, "key") }).collect();
    let mut problems = Vec::new();
    for listening in binds.iter_mut() {
        let Some(own) = listening.tls.as_mut().filter(|own| own.is_empty()) else { continue };
        own.extend(pairs.iter().cloned());
        if own.is_empty() && !automatic && !has_own {
            problems.push("TLS needs a certificate: add [[tls]] with cert and key to paceline.toml, or ?cert=...&key=... to the address, or tls = \"auto\" to a [[site]] with a host; in development --https makes one".into());
        }
    }
    if binds.iter().all(|listening| listening.tls.is_none()) {
        for (_, what) in [(!pairs.is_empty(), "[[tls]]"), (automatic, "tls = \"auto\"")].iter().filter(|(is, _)| *is) {
            notices.push(format!("{what} has no effect: no address begins with https://"));
        }
    }
    problems.dedup();
    problems
}
