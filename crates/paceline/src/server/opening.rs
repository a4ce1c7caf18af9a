//! What the server has before it serves anybody: its listening sockets with what their connections begin with.
//! Also its cache. It never accepts.

use std::{io, sync::Arc, time::Duration};

use cache::record::checksum;

use super::handover::Inheritance;
use crate::{
    caching::{Cache, Disk},
    cluster::Cluster,
    config::{Bind, CacheDisk, Config, Listening, ProxyProtocol},
    edge::{
        listen::{self, Listener, Unbound},
        negotiate::ConnectionSetup,
        tls::AcceptorError,
    },
    observe::log::{Log, Name},
    support::{
        certificate_store::{CertificateStore, Proof},
        state_folder,
    },
};
use startup_report::{Failure, StartupReport, Step};

/// A socket and what its connections begin with.
pub struct BoundListener {
    pub listener: Listener,
    pub entrance: ConnectionSetup,
}

impl BoundListener {
    /// The socket for another thread.
    pub fn shared(&self) -> io::Result<BoundListener> {
        Ok(BoundListener { listener: self.listener.try_clone()?, entrance: self.entrance.clone() })
    }
}

/// Why there can't be a listener that is to be.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// The report of it, for the terminal.
    #[error("{0}")]
    Unbound(String),
    #[error(transparent)]
    Tls(#[from] AcceptorError),
}

pub fn open_listeners(
    config: &Config,
    automatic: Option<&Arc<CertificateStore>>,
    mut inheritance: Option<&mut Inheritance>,
) -> Result<Vec<BoundListener>, ListenerError> {
    let open = |listening: &Listening| {
        let inherited = inheritance.as_mut().and_then(|inheritance| inheritance.listener(&listening.bind));
        let opened = || {
            let unbound = |error| Unbound { bind: listening.bind.clone(), error };
            let opened = inherited.map_or_else(
                || listen::open(&listening.bind, config.binds.iter().map(|other| &other.bind)),
                |listener| listener.map_err(unbound),
            );
            opened.map_err(|unbound| ListenerError::Unbound(explained(&unbound, config)))
        };
        if let Bind::Fd(_) = listening.bind {
            let listener = opened()?;
            let manner = config.instead_of.iter().find(|given| listener.is_of(&given.bind)).unwrap_or(listening);
            return Ok(BoundListener { listener, entrance: ConnectionSetup::new(manner, automatic, config)? });
        }
        // Certificates first: a file that is missing takes no port.
        let entrance = ConnectionSetup::new(listening, automatic, config)?;
        Ok(BoundListener { listener: opened()?, entrance })
    };
    config.binds.iter().map(open).collect()
}

/// The given addresses that the sockets handed over leave without a listener, where somebody would miss them.
pub fn left_out(config: &Config, listeners: &[BoundListener]) -> Vec<String> {
    let special = config
        .instead_of
        .iter()
        .filter(|given| given.tls.is_some() || given.h2c || given.proxy_protocol != ProxyProtocol::Off);
    let missing = special.filter(|given| !listeners.iter().any(|one| one.listener.is_of(&given.bind)));
    let words = |given: &Listening| {
        format!(
            "{} is not among the sockets handed over (LISTEN_FDS): nobody listens there",
            listen::shown(&given.bind)
        )
    };
    missing.map(words).collect()
}

/// Why a socket could not be opened, and what to do about it.
fn explained(unbound: &Unbound, config: &Config) -> String {
    let site = config.sites.first().unwrap_or(&config.site_defaults);
    let (doing, error) = (format!("listen on {}", listen::shown(&unbound.bind)), unbound.error.to_string());
    let mut report = StartupReport::new(&site.name, &site.root, &site.environment);
    report.begin(Step::Found, Duration::ZERO);
    report.fail(Failure::System { doing: doing.clone(), error: error.clone() });
    let mut text = format!("could not {doing}: {error}\n");
    if let Some(suggestion) = startup_report::suggest(&report) {
        text.push_str(&format!("{}\n", suggestion.text));
        text.extend(suggestion.command.map(|command| format!("\n    {command}\n")));
    }
    text
}

/// The proofs that our listeners can give, the likeliest first: an authority looks at port 80 or 443 whatever ours are.
pub fn proofs(listeners: &[BoundListener]) -> Vec<Proof> {
    let ports = |scheme: &str| -> Vec<u16> {
        let of_scheme = listeners.iter().filter(|one| one.entrance.scheme() == scheme);
        of_scheme.filter_map(|one| one.listener.port()).collect()
    };
    let (http, https) = (ports("http"), ports("https"));
    let mut proofs = Vec::new();
    if !http.is_empty() {
        proofs.push(Proof::Http01);
    }
    if !https.is_empty() {
        proofs.push(Proof::TlsAlpn01);
        if https.contains(&443) && !http.contains(&80) {
            proofs.reverse();
        }
    }
    proofs
}

/// The page cache, with what is on disk from the last time.
pub fn cache(config: &Config, log: &Log, inheritance: Option<&mut Inheritance>) -> io::Result<Arc<Cache>> {
    let open = |CacheDisk { size, dir }: &CacheDisk| {
        let log = log.clone();
        match Disk::open(dir, *size, Arc::new(move |line| log.event(Name::Cache, line))) {
            Some(disk) => Cache::with_disk(config.cache_size, disk),
            None => Ok(Arc::new(Cache::new(config.cache_size))),
        }
    };
    match (inheritance, &config.cache_disk) {
        (Some(inheritance), disk) => inheritance.cache(config.cache_size, disk.as_ref(), open),
        (None, Some(disk)) => open(disk),
        (None, None) => Ok(Arc::new(Cache::new(config.cache_size))),
    }
}

/// This front as a member of its cluster. None: it is alone. `inherited`: the place of the front whose cache goes on here.
pub fn cluster(config: &Config, cache: &Arc<Cache>, log: &Log, inherited: Option<&str>) -> Option<Arc<Cluster>> {
    let settings = config.cluster.as_ref()?;
    let folder = config.cache_disk.as_ref().map(|disk| disk.dir.clone());
    // Several servers of one account may be in one cluster.
    let root = checksum(&[config.site_defaults.root.as_os_str().as_encoded_bytes()]);
    let memory = format!("cluster-{}-{root:016x}.json", state_folder::file_name(&settings.name));
    let memory = state_folder::path().map(|folder| folder.join(memory));
    Some(Cluster::open(settings, cache.clone(), folder.as_deref(), memory, inherited, log.clone()))
}

/// A server that was started by a process that holds the application ends with that: there is nothing to serve then.
pub fn depend_on_starter(config: &Config) {
    if config.adopt_control_fd.is_some() {
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
}
