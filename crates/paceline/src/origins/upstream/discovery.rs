//! The addresses of names (`dns:NAME:PORT`), looked up again and again. A name that can't be resolved keeps its hosts: a
//! name server that is away must not take the site along. It never asks a host.

use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{net::lookup_host, time::sleep};

use super::{
    address::Address,
    hosts::Hosts,
    targets::{Service, Target},
};

/// How often a name is resolved. The system does not tell how long an answer holds.
const AGAIN: Duration = Duration::from_secs(5);
/// How often while it has no address.
const SOON: Duration = Duration::from_secs(1);

/// Looks up the names of the upstream until its hosts are not watched any more.
pub fn begin(hosts: &Arc<Hosts>) {
    for (index, target) in hosts.targets.all().iter().enumerate() {
        if let Target::Name(service) = target {
            let task = tokio::spawn(look_up(Arc::downgrade(hosts), index, service.clone()));
            hosts.resolve_by(task.abort_handle());
        }
    }
}

async fn look_up(hosts: Weak<Hosts>, target: usize, service: Service) {
    let mut is_lost = false;
    loop {
        let found = resolve(&service).await;
        let Some(hosts) = hosts.upgrade() else { return };
        match found {
            Ok(found) => {
                hosts.settle(target, &service, &found);
                if std::mem::take(&mut is_lost) {
                    hosts.say(format!("upstream {}: the name is resolved again", service.name));
                }
            }
            Err(why) => {
                if !std::mem::replace(&mut is_lost, true) {
                    hosts.say(format!(
                        "upstream {}: the name can't be resolved, its hosts stay as they were: {why}",
                        service.name
                    ));
                }
            }
        }
        drop(hosts);
        sleep(if is_lost { SOON } else { AGAIN }).await;
    }
}

/// All addresses of the name, by the system's resolver, at least one.
async fn resolve(service: &Service) -> io::Result<Vec<Address>> {
    // The event loop does not wait: tokio asks the system in a thread of its own.
    let found = lookup_host((service.name.as_str(), service.port)).await?;
    let address = |found: std::net::SocketAddr| Address::Tcp {
        https: service.https,
        host: found.ip().to_canonical().to_string(),
        port: service.port,
    };
    let found: Vec<_> = found.map(address).collect();
    if found.is_empty() {
        Err(io::Error::other("it has no address"))
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_has_the_addresses_that_the_system_says() {
        let service = |name: &str| Service { https: true, name: name.into(), port: 3000 };
        let found = resolve(&service("localhost")).await.unwrap();
        let shown: Vec<_> = found.iter().map(Address::to_string).collect();
        assert!(
            shown.iter().all(|url| ["https://127.0.0.1:3000", "https://[::1]:3000"].contains(&url.as_str())),
            "{shown:?}"
        );
        assert!(!shown.is_empty());
        assert!(resolve(&service("no-such-host.invalid")).await.is_err());
    }
}
