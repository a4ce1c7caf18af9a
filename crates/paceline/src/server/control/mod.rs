//! The control socket: what the server's owner asks of it from outside, as HTTP/1.1 over a Unix socket of mode 0600. It
//! lives on the main thread's loop, so that it answers however busy the sites are, and so that an app may ask while it
//! has a request in hand. With `control_url` the same is served on a TCP address, behind a gate; never beyond loopback
//! without a token.
//!
//! Reading order: `router` and `route` (what may be asked), `parts` (what parts of the server are asked), `answer` (the forms of
//! answers), `purging`, `statistics`, `generations`, `restarting`; `client` is the other end, for the command line. `web` is the TCP
//! listener, `gate` who may pass there, `relay` the socket for a browser.

mod advice;
mod answer;
pub mod client;
mod dashboard;
mod exposition;
pub mod gate;
mod generations;
mod guesses;
mod health;
mod incidents;
mod log;
pub mod maintenance;
mod memory;
mod observed;
mod parts;
mod patient;
mod prometheus;
mod puma_stats;
mod purging;
pub mod relay;
mod requests;
mod restarting;
mod route;
mod router;
mod statistics;
mod status;
mod upgrading;
pub mod web;

use std::{
    io,
    net::SocketAddr,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{sync::Semaphore, task::JoinHandle};

use self::{patient::Patient, web::Web};
use crate::{
    apps::startable_app::StartableApp,
    config::{self, AppKind, Config},
    observe::log::Name,
    request::front::Front,
    support::private_socket::{self, NoSocket, SocketFile},
};
use unix_user::{self, AccountRequest, RunAs};

/// How apps learn where it is.
pub const VARIABLE: &str = "PACELINE_CONTROL";
/// Stands there where it is off.
const OFF: &str = "off";
/// How long a request's head may take, and a connection's next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Those served at a time; the kernel lets others wait.
const MAX_CONNECTIONS: usize = 32;
/// How often it is tried to have the socket again after it was lost.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The socket of this server, which is opened again when its file is lost: by a deployment that turns `current`
/// elsewhere, or by somebody who empties tmp.
pub struct Control {
    path: Option<PathBuf>,
    named: bool,
    run_as: RunAs,
    open: Option<(UnixListener, SocketFile)>,
    serving: Option<JoinHandle<()>>,
    /// For those served at a time.
    places: Arc<Semaphore>,
    web: Option<Web>,
    /// What is told once there is a log.
    notice: Option<String>,
    tried: Instant,
}

/// Why the control routes can't be served where somebody wants them.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("control socket {}: {error}", path.display())]
    Socket { path: PathBuf, error: NoSocket },
    #[error("control_url tcp://{address}: {error}")]
    Address { address: SocketAddr, error: io::Error },
}

impl Control {
    /// Opens it, and tells the apps where it is. Err: somebody named a path or an address that can't be had.
    /// `successor`: another front is taken over from. `inherited`: the socket that another front has at a path, and
    /// whether it made the folder; it stays that one's until `own`.
    pub fn open(
        config: &mut Config,
        successor: bool,
        inherited: impl FnOnce(&Path) -> Option<(UnixListener, bool)>,
    ) -> Result<Control, ControlError> {
        let path = config.control.path.clone().filter(|_| config.control.named || !is_files_alone(config));
        let mut control = Control {
            path,
            named: config.control.named,
            run_as: run_as(config),
            open: None,
            serving: None,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            web: config.control_web.as_ref().map(|web| Web::open(web, successor)).transpose()?,
            notice: None,
            tried: Instant::now(),
        };
        if let Some(path) = &control.path {
            control.open = inherited(path).and_then(|(listener, made_folder)| {
                let file = SocketFile::of_another(path, &control.run_as, made_folder).ok()?;
                Some((listener, file))
            });
        }
        control.try_open().map_err(|why| control.at_path(why)).or_else(|why| {
            if control.named {
                Err(why)
            } else {
                control.notice =
                    Some(format!("{why}; starting without a control socket (set another path with --control PATH)"));
                Ok(())
            }
        })?;
        let value = control.path.as_ref().map_or_else(|| OFF.into(), |path| path.display().to_string());
        for site in config.sites.iter_mut().chain([&mut config.site_defaults]) {
            site.env.entry(VARIABLE.into()).or_insert_with(|| value.clone());
        }
        Ok(control)
    }

    fn try_open(&mut self) -> Result<(), NoSocket> {
        self.tried = Instant::now();
        let Some(path) = self.path.as_ref().filter(|_| self.open.as_ref().is_none_or(|(_, file)| !file.is_there()))
        else {
            return Ok(());
        };
        self.open = Some(private_socket::listen(path, &self.run_as, self.named)?);
        Ok(())
    }

    fn at_path(&self, error: NoSocket) -> ControlError {
        ControlError::Socket { path: self.path.clone().unwrap_or_default(), error }
    }

    /// Answers from now on. Must be called within the event loop that is to do it.
    pub fn serve(&mut self, server: &Arc<Front>) {
        if let Some(web) = &mut self.web {
            web.serve(server);
        }
        self.answer_on_socket(server);
    }

    fn answer_on_socket(&mut self, server: &Arc<Front>) {
        self.notice.take().into_iter().for_each(|notice| server.log.event(Name::Notice, notice));
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
        let listener = self.open.as_ref().and_then(|(listener, _)| listener.try_clone().ok());
        if let Some(listener) = listener.and_then(|listener| tokio::net::UnixListener::from_std(listener).ok()) {
            self.serving = Some(tokio::spawn(accept(listener, server.clone(), self.places.clone())));
        }
    }

    /// For a front that takes over: path, socket, and whether its folder was made for it. None: there is none, or it
    /// was lost.
    pub fn handed(&self) -> Option<(PathBuf, OwnedFd, bool)> {
        let (listener, file) = self.open.as_ref().filter(|(_, file)| file.is_there())?;
        Some((self.path.clone()?, listener.try_clone().ok()?.into(), file.made_folder()))
    }

    /// The socket is this front's from now on, and removed in the end.
    pub fn own(&mut self) {
        if let Some((_, file)) = &mut self.open {
            file.set_foreign(false);
        }
    }

    /// Asked no more, since another front is. `taken`: it has this very socket.
    pub fn leave(&mut self, taken: bool) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
        if let Some((_, file)) = &mut self.open {
            file.set_foreign(taken);
        }
        self.open = None;
        self.web = None;
    }

    /// Resolves when those have their answers who have asked.
    pub async fn answered(&self) {
        let _ = self.places.acquire_many(MAX_CONNECTIONS as u32).await;
    }

    /// Sees that it is where it is looked for.
    pub fn look(&mut self, server: &Arc<Front>) {
        if let Some(web) = &mut self.web {
            web.look(server);
        }
        let lost = self.open.as_ref().is_none_or(|(_, file)| !file.is_there());
        if !lost || self.path.is_none() || self.tried.elapsed() < TRY_AGAIN {
            return;
        }
        // A failure was told when the server started, or will be by whoever looks for the socket.
        if self.try_open().is_ok() {
            self.answer_on_socket(server);
        }
    }
}

/// A server of nothing but files has nothing to be asked, and is not to put anything among them.
fn is_files_alone(config: &Config) -> bool {
    let kind = |site: &config::SiteConfig| config::detect_site(site, &site.root).ok().map(|found| found.kind);
    let is_files = |site: &config::SiteConfig| site.upstream.is_none() && kind(site) == Some(AppKind::Files);
    config.sites_dir.is_none() && config.sites.iter().all(is_files)
}

/// Who may use it, beside root: the account of all applications, if they have one and the same.
fn run_as(config: &Config) -> RunAs {
    common(config).unwrap_or_else(RunAs::own)
}

fn common(config: &Config) -> Option<RunAs> {
    let of_site = |site: &config::SiteConfig| StartableApp::at(site).ok()?.run_as(site).ok();
    let mut applications = config.sites.iter().filter(|site| site.upstream.is_none());
    let first = match (&config.sites_dir, applications.next()) {
        (None, Some(first)) => of_site(first)?,
        // Those that are yet to come run as it too.
        (Some(_), first) if config.site_defaults.user.is_some() => {
            let own = &config.site_defaults;
            let (user, group) = (own.user.as_deref(), own.group.as_deref());
            let all =
                unix_user::of_app(&AccountRequest { user, group, ..AccountRequest::default() }, &own.root, &[]).ok()?;
            first.is_none_or(|first| of_site(first).as_ref() == Some(&all)).then_some(all)?
        }
        _ => return None,
    };
    applications.all(|site| of_site(site).as_ref() == Some(&first)).then_some(first)
}

async fn accept(listener: tokio::net::UnixListener, server: Arc<Front>, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, std::convert::Infallible>(router::answer(request, server).await) }
            });
            let mut connection = http1::Builder::new();
            connection
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(64 << 10)
                .half_close(true);
            // What somebody sends who does not speak HTTP is answered 400 or not at all.
            let stream = Patient::new(stream, web::UNTAKEN);
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
