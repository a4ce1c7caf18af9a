//! Starts an app once, through the same processes that would serve it, and ends it again (`paceline check`).
//! It never serves a request.

use std::{io, sync::Arc, time::Duration};

use tokio::{runtime::Runtime, sync::oneshot};

use super::{
    app::App,
    orders::{Order, State},
    pages::NoPages,
    reaper::Reaper,
};
use crate::{
    config::{RubyProcess, SiteConfig},
    observe::{
        incidents::Incidents,
        log::{Log, LogConfig},
    },
};
use startup_report::StartupReport;

/// What an ended trial's processes get to end in.
const END: Duration = Duration::from_secs(5);

/// Where apps are tried.
pub struct Trial {
    runtime: Runtime,
    reaper: Reaper,
    log: Log,
}

impl Trial {
    pub fn new() -> io::Result<Trial> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let reaper = runtime.block_on(async { Reaper::start() })?;
        // What an app prints is in its report.
        Ok(Trial { runtime, reaper, log: Log::open(&LogConfig::nowhere())? })
    }

    /// Starts the site's app with one worker and nothing beside it. Err: the report of the start that failed.
    pub fn start(&self, site: &SiteConfig, reader: Option<RubyProcess>) -> Result<(), Arc<StartupReport>> {
        let mut site = SiteConfig { workers: 1, processes: Vec::new(), ..site.clone() };
        site.parts.cache = None;
        self.runtime.block_on(async {
            let (log, incidents) = (self.log.clone(), Incidents::forgetful());
            let app = App::new(site, reader, self.reaper.clone(), log, Arc::default(), incidents, Arc::new(NoPages));
            app.order(Order::Start);
            app.started().await;
            let state = app.state();
            let (done, ended) = oneshot::channel();
            app.order(Order::Stop { grace: END.into(), done });
            let _ = tokio::time::timeout(END, ended).await;
            match state {
                State::Failed { report, .. } => Err(report),
                _ => Ok(()),
            }
        })
    }
}
