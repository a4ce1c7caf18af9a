//! The kept pages of a site, for the actor of its application. It decides nothing.

use std::sync::{Arc, Weak};

use http_guard::host;

use super::popular;
use crate::{
    apps::{
        pages::{SitePages, Turn},
        ready_check::Page,
    },
    caching::MadeBy,
    config::SiteConfig,
    request::front::Front,
};

/// What the page cache keeps of the site of this name.
pub struct KeptPages {
    server: Weak<Front>,
    site: String,
    hosts: Vec<String>,
}

impl KeptPages {
    pub fn of(server: &Arc<Front>, site: &SiteConfig) -> KeptPages {
        KeptPages { server: Arc::downgrade(server), site: site.name.clone(), hosts: site.hosts.clone() }
    }
}

impl SitePages for KeptPages {
    fn popular(&self, most: usize) -> Vec<Page> {
        popular::of_site(&self.server, &self.site, most)
    }

    fn purge(&self) -> usize {
        let Some(server) = self.server.upgrade() else { return 0 };
        let routes = server.routes();
        server.cache.purge_site(&self.hosts, |authority| {
            routes.find(host::split_host(authority).0).is_some_and(|found| found.config.name == self.site)
        })
    }

    fn made_by(&self, now: Option<&str>) -> MadeBy {
        self.server.upgrade().map_or(MadeBy::Unknown, |server| server.cache.made_by(&self.site, now))
    }

    fn note_code(&self, code: Option<String>) {
        if let Some(server) = self.server.upgrade() {
            server.cache.note_code(&self.site, code);
        }
    }

    fn turn(&self) -> Turn {
        self.server.upgrade().map_or_else(Turn::default, |server| server.cache.code_turn(&self.site))
    }
}
