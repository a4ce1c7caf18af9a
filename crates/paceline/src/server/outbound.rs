//! The sockets on which sites' processes ask for outbound calls, and of each site the thread that makes them. A socket is opened
//! again when its file is lost, or when the front that had it has ended. It never makes a call itself.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::{leaving, site_thread::SiteThread};
use crate::{
    config::SiteConfig,
    support::{
        account_share::AccountShare,
        clock,
        private_socket::{self, SocketFile},
    },
};
use egress::{Clock, Egress, Share, Surroundings, WithRights};
use unix_user::{acting, RunAs};

/// What calls need to know of this server.
const SURROUNDINGS: Surroundings = Surroundings {
    clock: Clock { age: clock::age_millis, date: clock::unix_millis },
    left: |id| Box::pin(async move { leaving::left(&id).await }),
};
/// How apps learn where it is.
const VARIABLE: &str = "PACELINE_EGRESS";
/// How they learn that they are to tell whom they ask for.
const CANCEL: &str = "PACELINE_EGRESS_CANCEL";
/// Stands there where there is none.
const OFF: &str = "off";
/// Below a site's root.
const SOCKET: &str = "tmp/paceline-egress.sock";
/// How often it is tried to have a socket that could not be had.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What all sites ask with.
pub struct Outbound {
    /// Whom those see who tell of them.
    told: Arc<egress::Sites>,
    sites: HashMap<String, OutboundTask>,
}

/// One site's.
struct OutboundTask {
    path: PathBuf,
    run_as: RunAs,
    egress: Arc<Egress>,
    open: Option<(SocketFile, JoinHandle<()>)>,
    tried: Instant,
    thread: SiteThread,
}

impl Outbound {
    pub fn new(told: Arc<egress::Sites>) -> Outbound {
        Outbound { told, sites: HashMap::new() }
    }

    /// Lets a site's processes ask, which run as `run_as`, and tells them where. None: it is not known as whom, so none
    /// may. What they may do is changed if it did before.
    pub fn open(&mut self, site: &mut SiteConfig, run_as: Option<&RunAs>) {
        let (Some(policy), Some(run_as)) = (site.parts.egress.clone(), run_as) else {
            self.close(&site.name);
            site.env.entry(VARIABLE.into()).or_insert_with(|| OFF.into());
            return;
        };
        if policy.cancel {
            site.env.entry(CANCEL.into()).or_insert_with(|| "1".into());
        }
        let path = site.root.join(SOCKET);
        site.env.entry(VARIABLE.into()).or_insert_with(|| path.display().to_string());
        if let Some(asking) = self.sites.get(&site.name).filter(|asking| asking.is_at(&path, run_as)) {
            return asking.egress.change(policy);
        }
        let Ok(thread) = SiteThread::begin("egress") else { return };
        let mut asking = OutboundTask {
            path,
            run_as: run_as.clone(),
            egress: Egress::new(policy, SURROUNDINGS, share(run_as), rights(run_as)),
            open: None,
            tried: Instant::now(),
            thread,
        };
        asking.try_open();
        self.told.put(&site.name, asking.egress.clone());
        self.sites.insert(site.name.clone(), asking);
    }

    pub fn close(&mut self, site: &str) {
        self.told.remove(site);
        self.sites.remove(site);
    }

    /// Sees that the sockets are where they are looked for.
    pub fn look(&mut self) {
        for asking in self.sites.values_mut() {
            let lost = asking.open.as_ref().is_none_or(|(file, _)| !file.is_there());
            if lost && asking.tried.elapsed() >= TRY_AGAIN {
                asking.try_open();
            }
        }
    }
}

fn share(run_as: &RunAs) -> Share {
    let of = AccountShare::of(run_as);
    Share { callers: of.connections.clone(), upstreams: of.upstreams.clone(), heads: of.heads.clone() }
}

/// A call may name files of certificates: root reads none of them for an account.
fn rights(run_as: &RunAs) -> Option<WithRights> {
    let run_as = run_as.clone();
    run_as.account().is_some().then(|| -> WithRights { Box::new(move |read: &mut dyn FnMut()| acting(&run_as, read)) })
}

impl OutboundTask {
    fn is_at(&self, path: &Path, run_as: &RunAs) -> bool {
        self.path == path && self.run_as == *run_as
    }

    /// What can't be opened now is tried again later: those who ask make their calls by themselves meanwhile.
    fn try_open(&mut self) {
        self.tried = Instant::now();
        self.stop();
        let Ok((listener, file)) = private_socket::listen(&self.path, &self.run_as, false) else { return };
        let _within = self.thread.enter();
        let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
        let serving = egress::serve(listener, self.egress.clone());
        self.open = Some((file, self.thread.event_loop().spawn(serving)));
    }

    fn stop(&mut self) {
        if let Some((_, serving)) = self.open.take() {
            serving.abort();
        }
    }
}

impl Drop for OutboundTask {
    fn drop(&mut self) {
        self.stop();
    }
}
