//! Pages that the fronts of a cluster share: what another front has rendered is shown here without asking the
//! application, and of several fronts that miss the same page one renders it. It never waits longer than `tier` allows.

use std::{sync::Arc, time::Duration};

use ::cluster::{Position, SharedPage, Verdict};
use cache::{
    freshness::Freshness,
    record,
    reusing::{self, Use},
    status::{CacheStatus, Reason},
    stored::{Directory, Entry},
    Millis,
};
use http::{request::Parts, Response};
use tokio::time::{sleep, Instant};

use super::{
    answer::{self, StoredAnswer},
    cache_request::CacheRequest,
    flight::{FlightLead, Share},
    invalidation::target_of,
    kin::Kin,
    now,
    tier::{
        is_shared, most, new_token, variant, TierLease, TierPage, TierQuestion, TierSession, TierUse, TierValue,
        MAX_STEPS,
    },
    SiteCache,
};
use crate::{content::body::ResponseBody, exchange::Exchange, observe::in_flight::Step, support::clock};

/// Between two looks at a page that another front renders: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// How often a page is looked at again that is ahead of the purges that are known here.
const AHEAD_LOOKS: u32 = 10;
const AHEAD_PAUSE: Duration = Duration::from_millis(2);
/// A request waits so long for other fronts, from when it first waits.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What a request that misses gets from other fronts. It is moved once; a box for the answer would cost more.
#[allow(clippy::large_enum_variant)]
pub(super) enum Shared {
    Page(Response<ResponseBody>),
    /// This front renders it, for all if there is a lease.
    Render(Option<Box<TierLease>>),
}

/// What is made of a value. It is moved once.
#[allow(clippy::large_enum_variant)]
enum Taken {
    Page(Response<ResponseBody>),
    Directory(Directory),
    /// The purges before it are not known here yet.
    Ahead,
    Refused,
}

impl SiteCache {
    /// Whether a request may have a page of another front, and gives its own away: one that is for everybody, and does
    /// not change at a known time.
    fn tier_for(&self, wanted: &CacheRequest, exchange: &Exchange) -> Option<Arc<dyn TierSession>> {
        let tier = self.cache.tier.get()?.upgrade()?;
        let is_for_all = wanted.visitor.is_none() && exchange.requester.user.is_none() && wanted.flight.is_some();
        let is_shared = is_for_all && wanted.storable && wanted.until == Millis::MAX && self.cache.may_show(now());
        is_shared.then(|| tier.session()).flatten()
    }

    /// Asks the other fronts, before the application is asked.
    pub(super) async fn ask_tier(
        self: &Arc<Self>,
        wanted: &mut CacheRequest,
        head: &Parts,
        exchange: &Exchange,
        leading: &mut FlightLead,
    ) -> Shared {
        let Some(session) = self.tier_for(wanted, exchange) else { return Shared::Render(None) };
        let primary = session.keys().primary(&target_of(&wanted.url), &wanted.partition);
        let mut key = match wanted.directory.as_deref() {
            Some(Entry::Directory(directory)) => variant(&session, primary, directory, &head.headers),
            _ => primary,
        };
        let (token, most) = (new_token(), most(&session));
        let (mut refused, mut pause, mut ahead, mut steps, mut until) = (None, FIRST_PAUSE, 0, 0, None);
        while steps < MAX_STEPS {
            let sent = now();
            let question = TierQuestion { key, token: token.clone(), refused: refused.clone(), most };
            match session.look(question).await {
                Some(TierValue::Found(value, time)) => {
                    match self.take_shared(
                        &session,
                        wanted,
                        head,
                        &TierPage { key, value: &value, time: time + (now() - sent) },
                        leading,
                    ) {
                        Taken::Page(response) => {
                            session.count(TierUse::Hit);
                            return Shared::Page(response);
                        }
                        Taken::Directory(directory) if key == primary => {
                            steps += 1;
                            key = variant(&session, primary, &directory, &head.headers);
                            self.lead_to(wanted, directory);
                        }
                        Taken::Ahead if ahead < AHEAD_LOOKS => {
                            ahead += 1;
                            sleep(AHEAD_PAUSE).await;
                        }
                        _ => {
                            steps += 1;
                            refused = Some(value.slice_ref(SharedPage::id(&value)));
                        }
                    }
                }
                Some(TierValue::Lead(granted)) => {
                    session.count(TierUse::Miss);
                    // What is purged from here on counts.
                    let Some(since) = session.position() else {
                        TierLease::new(session, primary, key, token, granted, Position::default()).pass_on();
                        return Shared::Render(None);
                    };
                    let lease = TierLease::new(session, primary, key, token, granted, since);
                    return Shared::Render(Some(Box::new(lease)));
                }
                Some(TierValue::Wait) => {
                    if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + LONGEST_WAIT) {
                        break;
                    }
                    exchange.live.step(Step::Waiting, clock::now());
                    sleep(pause).await;
                    pause = (pause * 3 / 2).min(LONGEST_PAUSE);
                }
                Some(TierValue::Alone) => break,
                None => return Shared::Render(None),
            }
        }
        session.count(TierUse::Miss);
        Shared::Render(None)
    }

    /// Looks at what was found.
    fn take_shared(
        self: &Arc<Self>,
        session: &Arc<dyn TierSession>,
        wanted: &mut CacheRequest,
        head: &Parts,
        found: &TierPage,
        leading: &mut FlightLead,
    ) -> Taken {
        let page = Some(found.value).filter(|value| value.len() as u64 <= most(session));
        let Some(page) = page.and_then(|value| SharedPage::from_bytes(value)) else { return Taken::Refused };
        let stored = match record::decode(found.key, page.record, false) {
            Some(Entry::Directory(directory)) => return Taken::Directory(directory),
            Some(Entry::Response(stored)) => Arc::try_unwrap(stored).ok(),
            _ => None,
        };
        let Some(mut stored) = stored.filter(|stored| stored.url == wanted.url) else { return Taken::Refused };
        let now = now();
        stored.freshness = Freshness { initial_age: page.age_at(found.time), response_time: now, ..stored.freshness };
        if !is_shared(&stored, now) || reusing::judge(&stored, &wanted.wishes, now) != Use::Fresh {
            return Taken::Refused;
        }
        let (verdict, moment) = session.judge(&page.since, &stored.url, &stored.tags);
        match verdict {
            Verdict::Current => {}
            Verdict::Ahead => return Taken::Ahead,
            Verdict::Purged => return Taken::Refused,
        }
        // Else there may be purges that have not reached this front.
        if !self.cache.may_show(super::now()) {
            return Taken::Refused;
        }
        let stored = Arc::new(stored);
        let kin = Kin::shared(wanted.url.clone(), wanted.primary, wanted.directory.clone());
        let (key, placed) = self.place(&kin, &head.headers, stored.clone(), moment);
        if matches!(placed, Err(Reason::Purged | Reason::Outdated)) {
            return Taken::Refused;
        }
        let answering = StoredAnswer { cache: &self.cache, key, stored: &stored, head, now };
        let Some(mut response) = answer::stored(&answering) else { return Taken::Refused };
        self.cache.uncacheable.forget(wanted.key);
        stored.count_hit();
        let mut status = CacheStatus::hit(reusing::ttl(&stored, now));
        status.detail = Some("shared");
        response.extensions_mut().insert(status);
        self.share(wanted, Share { stored, instead_of: None, body: None, primary: wanted.primary, variant: key });
        leading.land();
        Taken::Page(response)
    }

    /// What a page varies by, as another front has found out.
    fn lead_to(&self, wanted: &mut CacheRequest, directory: Directory) {
        let directory = Directory { url: wanted.url.clone(), ..directory };
        wanted.directory.get_or_insert_with(|| Arc::new(Entry::Directory(directory)));
    }
}
