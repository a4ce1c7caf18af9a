//! Pages that one front of a cluster prepares for all of them: whether another has rendered a page for the same time, or
//! does so now, and what becomes of one that is rendered here. What is taken from another front is held until its time, as
//! if it had been rendered here. It never waits for another front's page, and without a cluster there is none.

use std::sync::{Arc, Weak};

use ::cluster::{Position, SharedPage, Verdict};
use cache::{
    record,
    store::Key,
    stored::{Directory, Entry},
    Millis,
};
use http::HeaderMap;

use super::{PageRecord, PreparedPage, ScheduledPage, FORMAT};
use crate::{
    caching::{
        invalidation::target_of,
        now,
        tier::{most, new_token, variant, OwnPage, TierLease, TierPage, MAX_STEPS},
        SiteCache, TierQuestion, TierSession, TierValue,
    },
    support::clock,
};

/// The clocks of two servers may differ so much. What another has begun to render so long before it was due here is as good.
const CLOCKS_DIFFER: Millis = 1_000;

/// A page that is to be prepared.
pub struct Preparation<'a> {
    pub page: &'a Arc<ScheduledPage>,
    /// The fields of the request that it answers.
    pub request: &'a HeaderMap,
    /// When it changes.
    pub at: Millis,
    /// Since when it is to be rendered, by the time of day. What was rendered before that is rendered again.
    pub due: Millis,
}

/// Who renders a page.
pub enum Preparer {
    /// Another front has: here it is.
    Done(Arc<PreparedPage>),
    /// Another front does, or that is known in a moment.
    Another,
    /// This front: for all if there is a lease.
    This(Option<PreparationLease>),
}

/// What is made of a value.
enum Taken {
    Page(Arc<PreparedPage>),
    Directory(Directory),
    /// The purges before it are not known here yet.
    Ahead,
    Refused,
}

impl SiteCache {
    /// Asks the other fronts for a page. Only a thread that may wait asks.
    pub fn ask_others(self: &Arc<Self>, wanted: &Preparation) -> Preparer {
        let tier = self.cache.tier.get().and_then(Weak::upgrade).filter(|_| self.cache.may_show(now()));
        let Some(session) = tier.and_then(|tier| tier.session()) else { return Preparer::This(None) };
        // A page from before a purge would be of no use to those who know the purge.
        if self.cache.may_be_announced(&wanted.page.url) || session.position().is_none() {
            return Preparer::Another;
        }
        let partition = [FORMAT, &wanted.at.to_be_bytes()[..], &wanted.page.by_proxies[..]].concat();
        let primary = session.keys().primary(&target_of(&wanted.page.url), &partition);
        let (token, most) = (new_token(), most(&session));
        let (mut key, mut refused) = (primary, None);
        for _ in 0..MAX_STEPS {
            let sent = now();
            let question = TierQuestion { key, token: token.clone(), refused: refused.clone(), most };
            match session.look_and_wait(question) {
                Some(TierValue::Found(value, time)) => {
                    match self.take_prepared(
                        &session,
                        wanted,
                        primary,
                        &TierPage { key, value: &value, time: time + (now() - sent) },
                    ) {
                        Taken::Page(prepared) => return Preparer::Done(prepared),
                        Taken::Directory(directory) if key == primary => {
                            key = variant(&session, primary, &directory, wanted.request);
                        }
                        Taken::Ahead => return Preparer::Another,
                        _ => refused = Some(value.slice_ref(SharedPage::id(&value))),
                    }
                }
                Some(TierValue::Lead(granted)) => {
                    let Some(since) = session.position() else {
                        // Dropped, it passes on.
                        drop(TierLease::new(session, primary, key, token, granted, Position::default()));
                        return Preparer::Another;
                    };
                    let lease = TierLease::new(session, primary, key, token, granted, since);
                    return Preparer::This(Some(PreparationLease(Box::new(lease))));
                }
                Some(TierValue::Wait) => return Preparer::Another,
                Some(TierValue::Alone) | None => break,
            }
        }
        Preparer::This(None)
    }

    /// Looks at what was found.
    fn take_prepared(
        self: &Arc<Self>,
        session: &Arc<dyn TierSession>,
        wanted: &Preparation,
        primary: Key,
        found: &TierPage,
    ) -> Taken {
        let Some(shared) = SharedPage::from_bytes(found.value) else { return Taken::Refused };
        if let Some(Entry::Directory(directory)) = record::decode(found.key, shared.record, false) {
            return Taken::Directory(directory);
        }
        let Some((record, [])) = PageRecord::decode(shared.record) else { return Taken::Refused };
        let page = wanted.page;
        let is_wanted = record.at == wanted.at && *record.url == *page.url && record.by_proxies == page.by_proxies;
        // Somebody may have changed something since the application was asked for it.
        let age = found.time.saturating_sub(shared.granted / 1000);
        let is_recent = age <= clock::unix_millis().saturating_sub(wanted.due) + CLOCKS_DIFFER;
        if !is_wanted || !is_recent {
            return Taken::Refused;
        }
        let (request, moment) = (wanted.request.clone(), self.cache.moment());
        let Ok(mut prepared) = self.prepared(page, request, record.rendered, wanted.at, moment) else {
            return Taken::Refused;
        };
        // It answers this request, by what it varies by itself.
        if session.keys().variant(primary, &prepared.storable.nominated, wanted.request) != found.key {
            return Taken::Refused;
        }
        let (verdict, moment) = session.judge(&shared.since, &page.url, &prepared.tags);
        prepared.moment = moment;
        match verdict {
            Verdict::Current => Taken::Page(Arc::new(prepared)),
            Verdict::Ahead => Taken::Ahead,
            Verdict::Purged => Taken::Refused,
        }
    }
}

/// Permission to render a page for all fronts. Dropped without one, it passes on to the next.
pub struct PreparationLease(Box<TierLease>);

impl PreparationLease {
    /// The page is held here: the others may have it, until its time.
    pub fn share(self, prepared: &PreparedPage) {
        let PreparationLease(lease) = self;
        let left = prepared.at.saturating_sub(clock::unix_millis());
        let Ok(record) = PageRecord::encode(prepared) else { return };
        if !lease.fits(Some(prepared.rendered.body.len() as u64)) {
            return lease.end_unshared(false);
        }
        let nominated = &prepared.storable.nominated;
        let key = lease.key_of(nominated, &prepared.request);
        let directory = Directory::with(None, prepared.page.url.clone(), nominated.clone());
        lease.bring(OwnPage { key, record: &record, directory, age: 0, remaining: left }, now());
    }

    /// The page can't be prepared here, so perhaps nowhere: each front sees for itself, and waits for nobody.
    pub fn decline(self) {
        self.0.end_unshared(false);
    }

    /// The application has failed here: each front asks its own.
    pub fn fail(self) {
        self.0.let_all_go();
    }
}

#[cfg(test)]
mod tests;
