//! The page for a request, where its route has proved to be right and all is known that the page depends on. What is not known makes
//! a miss. It fills no holes, and looks at no clock.

use std::{
    cell::OnceCell,
    sync::{atomic::Ordering::Relaxed, Arc},
};

use super::{
    cookie,
    life::{Mode, Stage},
    made::is_release,
    pages::Page,
    Around, Watch,
};
use crate::{
    holes::Secret,
    keys::{Held, Name, Source},
};

/// A request that may be answered with a page.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// Scheme, host, path and query.
    pub url: &'a str,
    /// Unix milliseconds.
    pub now: u64,
}

/// A page, and what its holes are filled with.
#[derive(Debug, Clone)]
pub struct Hit {
    pub page: Arc<Page>,
    pub secret: Option<Secret>,
}

impl Page {
    /// Milliseconds. A clock that was set back makes it old.
    pub fn age(&self, now: u64) -> u64 {
        now.checked_sub(self.at).unwrap_or(u64::MAX)
    }

    pub fn has_its_files(&self, around: &impl Around) -> bool {
        self.files.iter().all(|(path, mark)| around.file(path) == *mark)
    }

    pub fn tokens(&self) -> usize {
        self.head.tokens() + self.template.tokens()
    }

    pub fn nonces(&self) -> usize {
        self.head.nonces() + self.template.nonces()
    }
}

impl Watch {
    /// Counts a hit that is shown.
    pub fn serve(&self, asked: &PageRequest, around: &impl Around) -> Option<Hit> {
        let hit = self.find_page(asked, around)?;
        self.routes.find(&hit.page.route)?.served.fetch_add(1, Relaxed);
        Some(hit)
    }

    /// A page that would be shown.
    pub fn find_page(&self, asked: &PageRequest, around: &impl Around) -> Option<Hit> {
        if self.policy.mode != Mode::Serve {
            return None;
        }
        // Most pages depend on no session.
        let session = OnceCell::new();
        let session = || {
            let known = || self.sessions.cookie().map(|name| self.sessions.of(&around.held(&cookie(name)), asked.now));
            *session.get_or_init(known)
        };
        let held = |name: &Name| match name.source {
            Source::Session => session().map_or(Held::Unknown, |session| session.held(&name.name)),
            _ if is_release(name) => {
                self.release.as_ref().map_or(Held::Unknown, |release| Held::Present(release.clone().into_bytes()))
            }
            _ => around.held(name),
        };
        let page = self.pages.find(asked.url, held)?;
        let route = self.routes.find(&page.route)?;
        if route.life.stage(self.policy.mode) != Stage::Serving {
            return None;
        }
        if page.age(asked.now) >= self.policy.max_ttl || !page.has_its_files(around) {
            return None;
        }
        let has_tokens = page.tokens() > 0;
        let secret = if has_tokens { session().and_then(|session| session.secret().copied()) } else { None };
        if has_tokens && secret.is_none() {
            return None;
        }
        Some(Hit { page: page.clone(), secret })
    }
}
