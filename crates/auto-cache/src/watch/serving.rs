//! The page for a request, where its route has proved to be right and all is known that the page depends on. What is not known makes
//! a miss. And what an answer that is no page says of the page that would have been shown. It fills no holes, and looks at no clock.

use std::{
    cell::OnceCell,
    sync::{atomic::Ordering::Relaxed, Arc},
};

use super::{
    cookie,
    life::{Mode, Stage},
    made::is_release,
    pages::Page,
    routes::{Difference, Route},
    sessions::{KnownSession, Sessions},
    Alarm, Around, Watch,
};
use crate::{
    holes::Secret,
    keys::{Held, Name, Source},
    random_text::is_broken,
};

/// A request that may be answered with a page.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// Scheme, host, path and query.
    pub url: &'a str,
    /// Unix milliseconds.
    pub now: u64,
}

/// An answer of the application to a GET that is no page: a redirect, or that there is nothing, or not for this visitor.
#[derive(Debug, Clone, Copy)]
pub struct OtherAnswer<'a> {
    pub url: &'a str,
    /// The moment when its request was handed to the application.
    pub began: u64,
    /// Unix milliseconds.
    pub now: u64,
    pub status: u16,
}

/// A page, and what its holes are filled with.
#[derive(Debug, Clone)]
pub struct Hit {
    pub page: Arc<Page>,
    pub secret: Option<Secret>,
}

/// What is known of a request without the application.
struct Known<'a, A> {
    sessions: &'a Sessions,
    release: Option<&'a str>,
    now: u64,
    around: &'a A,
    /// Most pages depend on no session.
    session: OnceCell<Option<KnownSession<'a>>>,
}

impl<'a, A: Around> Known<'a, A> {
    fn of(sessions: &'a Sessions, release: Option<&'a str>, now: u64, around: &'a A) -> Known<'a, A> {
        Known { sessions, release, now, around, session: OnceCell::new() }
    }

    fn session(&self) -> Option<KnownSession<'a>> {
        let known = || {
            let name = self.sessions.cookie()?;
            Some(self.sessions.of(&self.around.held(&cookie(name)), self.now))
        };
        *self.session.get_or_init(known)
    }

    fn held(&self, name: &Name) -> Held {
        match name.source {
            Source::Session => self.session().map_or(Held::Unknown, |session| session.held(&name.name)),
            _ if is_release(name) => self.release.map_or(Held::Unknown, |release| Held::Present(release.into())),
            _ => self.around.held(name),
        }
    }
}

impl Page {
    /// Milliseconds. A clock that was set back makes it old.
    pub fn age(&self, now: u64) -> u64 {
        now.checked_sub(self.at).unwrap_or(u64::MAX)
    }

    /// Milliseconds that it is good for yet; 0: it is not shown any more.
    pub fn left(&self, now: u64, max_ttl: u64) -> u64 {
        max_ttl.saturating_sub(self.age(now)).min(self.ends().saturating_sub(now))
    }

    /// When the clock makes it another one (Unix milliseconds).
    pub fn ends(&self) -> u64 {
        self.good_until.unwrap_or(u64::MAX)
    }

    /// All are asked about, so that `around` can tell which of them it does not know.
    pub fn has_its_files(&self, around: &impl Around) -> bool {
        self.files.iter().fold(true, |all, (path, mark)| (around.file(path) == *mark) && all)
    }

    pub fn tokens(&self) -> usize {
        self.head.tokens() + self.template.tokens()
    }

    pub fn nonces(&self) -> usize {
        self.head.nonces() + self.template.nonces()
    }

    /// Another answer was equal to it.
    pub(super) fn confirm(&self) {
        self.is_confirmed.store(true, Relaxed);
    }

    /// Nothing of it came by chance but what is cut out.
    fn may_be_shown(&self) -> bool {
        self.is_confirmed.load(Relaxed) || self.template.texts() == 0 || is_broken!(PageIsNotConfirmed)
    }

    /// It is another one for each who is shown it.
    pub fn has_holes(&self) -> bool {
        self.head.whole().is_none() || self.template.whole().is_none()
    }
}

impl Watch {
    /// Counts a hit that is shown.
    pub fn serve(&self, asked: &PageRequest, around: &impl Around) -> Option<Hit> {
        let hit = self.find_page(asked, around)?;
        self.routes.find(&hit.page.route)?.served.fetch_add(1, Relaxed);
        Some(hit)
    }

    /// The files that pages of this URL were made of.
    pub fn files_of(&self, url: &str) -> Vec<String> {
        self.pages.files_of(url).into_iter().map(str::to_owned).collect()
    }

    /// A page that would be shown.
    pub fn find_page(&self, asked: &PageRequest, around: &impl Around) -> Option<Hit> {
        if self.policy.mode != Mode::Serve {
            return None;
        }
        self.fitting(asked, around, |page| {
            let Some(Route { life, .. }) = self.routes.find(&page.route) else { return false };
            let is_serving = life.stage(self.policy.mode) == Stage::Serving;
            is_serving
                && page.may_be_shown()
                && self.unnamed.may_show(&life.across, &page.makers, &self.brought(around))
        })
    }

    /// The application has answered with no page where one would be shown. Some: its route has just been turned off.
    pub fn answered_otherwise(&mut self, answer: &OtherAnswer, around: &impl Around) -> Option<Alarm> {
        let asked = PageRequest { url: answer.url, now: answer.now };
        let page = self.fitting(&asked, around, |page| page.kept <= answer.began)?.page;
        if self.told.unsettles(answer.began, &page.read, &page.keys) {
            return None;
        }
        self.routes.of(&page.route).requests += 1;
        self.differs(&page.route, Difference::of_status(answer.url, answer.status, answer.now))
    }

    /// The application's answer to this request can't be kept. What is there in its place is not what the application answers now.
    pub fn drop_fitting(&mut self, asked: &PageRequest, around: &impl Around) {
        let known = Known::of(&self.sessions, self.release.as_deref(), asked.now, around);
        self.pages.drop_found(asked.url, |name| known.held(name));
    }

    /// A page that fits the request, and for which `counts` is true.
    fn fitting(&self, asked: &PageRequest, around: &impl Around, counts: impl Fn(&Page) -> bool) -> Option<Hit> {
        let known = Known::of(&self.sessions, self.release.as_deref(), asked.now, around);
        let page = self.pages.find(asked.url, |name| known.held(name)).filter(|page| counts(page))?;
        if page.left(asked.now, self.policy.max_ttl) == 0 || !page.has_its_files(around) {
            return None;
        }
        let has_tokens = page.tokens() > 0;
        let secret = if has_tokens { known.session().and_then(|session| session.secret().copied()) } else { None };
        if has_tokens && secret.is_none() {
            return None;
        }
        Some(Hit { page: page.clone(), secret })
    }
}
