//! Who has sent a request, as far as the steps have found out: somebody who has signed in, a crawler. It never finds it
//! out itself.

use super::{
    crawlers::{Crawler, Verdict},
    identity::User,
};

/// Who has sent the request.
#[derive(Clone, Default)]
pub struct Requester {
    /// Who has signed in.
    pub user: Option<User>,
    /// Files of passwords that have let them in, by their numbers.
    pub proved: Vec<u64>,
    /// Whether it is a crawler. See `crawler`.
    pub crawling: Verdict,
}

impl Requester {
    /// The crawler whose request it is. None also where somebody has signed in.
    pub fn crawler(&self) -> Option<Crawler> {
        self.crawling.crawler.filter(|_| self.user.is_none() && self.proved.is_empty())
    }
}
