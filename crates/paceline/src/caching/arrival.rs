//! What is made of the origin's answer: it is stored, shared, put in the place of an older one, or only passed on; and
//! what an unsafe request has changed is dropped. It never asks the origin.

use std::sync::Arc;

use bytes::Bytes;
use cache::{
    freshness::{ExchangeTimes, Holds},
    invalidating,
    partial::ContentRange,
    status::{CacheStatus, Reason},
    store::Key,
    stored::Stored,
    storing::{self, storable, Storable},
    stubborn::SetCookie,
    targeted, updating, validating,
};
use http::{header, request::Parts, response, HeaderMap, Method, Response, StatusCode};
use http_body::Body;

use super::{
    answer::{self, dated, HoldsUntil, StoredAnswer},
    cache_request::CacheRequest,
    exchanged,
    fetch_start::FetchStart,
    flight::{Fetch, FlightGuard, FlightLead, OriginAnswer, Share},
    keeping::StoreTask,
    kin::Kin,
    now,
    sharing::purged,
    streaming::SharedBody,
    tier_pages::Shared,
    SiteCache,
};
use crate::{content::body::ResponseBody, exchange::Exchange};

/// A question as it was put to the origin.
#[derive(Clone, Copy)]
struct FetchContext {
    at: ExchangeTimes,
    start: FetchStart,
    /// It was put about what is stored.
    validated: bool,
    /// The client asked for less than what was asked for.
    less: bool,
    /// When the answer holds; known when it has come.
    holds: Holds,
}

impl SiteCache {
    /// Asks the origin for all who want the same.
    pub fn lead(
        self: &Arc<Self>,
        mut wanted: Box<CacheRequest>,
        head: Parts,
        exchange: Exchange,
        fetch: Fetch,
    ) -> FlightGuard {
        let leading = wanted.leading.take().unwrap_or_else(|| FlightLead::new(self, wanted.flight.clone()));
        FlightGuard::new(wanted.flight.clone(), async move {
            let leading = leading;
            leading.cache().ask(wanted, head, exchange, fetch, leading).await
        })
    }

    async fn ask(
        self: Arc<Self>,
        mut wanted: Box<CacheRequest>,
        head: Parts,
        exchange: Exchange,
        fetch: Fetch,
        mut leading: FlightLead,
    ) -> OriginAnswer {
        match self.ask_tier(&mut wanted, &head, &exchange, &mut leading).await {
            Shared::Page(response) => return OriginAnswer { response, exchange },
            Shared::Render(lease) => wanted.lease = lease,
        }
        let mut asked = head.clone();
        let whole = wanted.stored.clone().filter(|_| wanted.has_whole());
        let validated = match &whole {
            Some(stored) => validating::conditional(&mut asked.headers, stored),
            None => {
                validating::unconditional(&mut asked.headers);
                false
            }
        };
        let less = asked.headers.len() != head.headers.len() || validated;
        let start = self.begin();
        let OriginAnswer { response, exchange } = fetch(asked, exchange).await;
        let start = start.answered(&exchange);
        let at = exchanged(start.request_time);
        let asked_for = FetchContext { at, start, validated, less, holds: Holds::ALWAYS };
        let response = self.arrived(&mut wanted, &head, response, &asked_for, &mut leading);
        wanted.lease.take().into_iter().for_each(|lease| lease.let_all_go());
        OriginAnswer { response, exchange }
    }

    /// What came of a request that was passed on for itself, and answered (`start`). When it is there, so is on disk what
    /// the request has purged, and on the other fronts unless that takes long.
    pub async fn passed(
        self: &Arc<Self>,
        mut wanted: Box<CacheRequest>,
        head: &Parts,
        response: Response<ResponseBody>,
        start: FetchStart,
    ) -> Response<ResponseBody> {
        let at = exchanged(start.request_time);
        let asked = FetchContext { at, start, validated: false, less: false, holds: Holds::ALWAYS };
        let mut leading = FlightLead::new(self, None);
        let response = self.arrived(&mut wanted, head, response, &asked, &mut leading);
        purged(std::mem::take(&mut wanted.purging)).await;
        response
    }

    fn arrived(
        self: &Arc<Self>,
        wanted: &mut CacheRequest,
        head: &Parts,
        response: Response<ResponseBody>,
        asked: &FetchContext,
        leading: &mut FlightLead,
    ) -> Response<ResponseBody> {
        let (mut parts, body) = response.into_parts();
        let holds = self.told_of_changes(wanted, head, &mut parts, asked.at, asked.start.wall);
        let response = Response::from_parts(parts, body);
        let mut response = self.taken(wanted, head, response, &FetchContext { holds, ..*asked }, leading);
        if holds.is_bounded() && response.extensions().get::<HoldsUntil>().is_none() {
            response.extensions_mut().insert(HoldsUntil(holds.until));
        }
        response
    }

    fn taken(
        self: &Arc<Self>,
        wanted: &mut CacheRequest,
        head: &Parts,
        response: Response<ResponseBody>,
        asked: &FetchContext,
        leading: &mut FlightLead,
    ) -> Response<ResponseBody> {
        let (parts, body) = response.into_parts();
        let mut asked = *asked;
        if !invalidating::is_safe(&head.method) {
            self.invalidate(wanted, head, &parts);
            // What it brings itself is newer than that.
            if asked.start.may_be_stored() {
                asked.start.moment = self.cache.store.moment();
            }
        }
        let asked = &asked;
        if let Some(response) = self.stale_if_error(wanted, head, parts.status) {
            return response;
        }
        if head.method == Method::HEAD {
            self.heard(wanted, &parts, asked.at, asked.start.moment);
        }
        let not_modified = parts.status == StatusCode::NOT_MODIFIED && asked.validated;
        if let Some(stored) = wanted.stored.clone().filter(|_| not_modified) {
            return self.still_good(wanted, head, &stored, parts, asked, leading);
        }
        let decided = if wanted.storable && head.method != Method::HEAD {
            self.decide(wanted, head, &parts, asked).and_then(|decided| self.fits(decided, &parts, &body))
        } else {
            Err(wanted.status.reason.unwrap_or(Reason::Method))
        };
        let storable = match decided {
            Ok(mut storable) => {
                storable.freshness.holds = asked.holds;
                storable
            }
            Err(reason) => return self.passed_on(wanted, head, Response::from_parts(parts, body), reason),
        };
        self.store_and_give(wanted, head, Response::from_parts(parts, body), storable, asked, leading)
    }

    /// The origin failed: what is stored is given instead, if it may be (RFC 5861 section 4).
    fn stale_if_error(
        self: &Arc<Self>,
        wanted: &CacheRequest,
        head: &Parts,
        failed: StatusCode,
    ) -> Option<Response<ResponseBody>> {
        if !matches!(failed.as_u16(), 500 | 502 | 503 | 504) || head.method == Method::POST {
            return None;
        }
        let forward_status = Some(failed.as_u16());
        let mut status = CacheStatus { hit: true, forward_status, detail: Some("stale-if-error"), ..wanted.status };
        let mut response = self.stand_in(wanted, head, now(), &mut status)?;
        if let Some(stored) = wanted.stored.clone() {
            // Those who wait need not hear the same from the origin.
            let (primary, variant) = (wanted.primary, wanted.key);
            self.share(wanted, Share { stored, instead_of: forward_status, body: None, primary, variant });
        }
        response.extensions_mut().insert(status);
        Some(response)
    }

    /// It goes to who asked, and is not stored for this reason.
    fn passed_on(
        &self,
        wanted: &mut CacheRequest,
        head: &Parts,
        response: Response<ResponseBody>,
        reason: Reason,
    ) -> Response<ResponseBody> {
        let (mut parts, body) = response.into_parts();
        self.not_stored(wanted, head, &parts, reason);
        let says = wanted.storable && head.method == Method::GET;
        // This one's own reason says more than that there was one lately.
        if says && wanted.status.reason.is_none_or(|reason| reason == Reason::Uncacheable) {
            wanted.status.reason = Some(reason);
        }
        targeted::consume(&mut parts.headers);
        with_status(Response::from_parts(parts, body), wanted)
    }

    /// By the owner's rule, if there is one for the path; else by what request and response say.
    fn decide(
        &self,
        wanted: &CacheRequest,
        head: &Parts,
        parts: &response::Parts,
        asked: &FetchContext,
    ) -> Result<Storable, Reason> {
        let (at, began) = (asked.at, asked.start.began);
        let Some((rule, visitor)) = self.rule_of(wanted).zip(wanted.visitor) else {
            return storable(head, parts, at, self.settings.stale_if_error);
        };
        let decided = rule.storable(head, parts, at);
        // Of who has just changed something the next page is not kept; whether or not this one could be.
        if self.may_be_shown_once(rule, &head.headers, parts, began) {
            return Err(Reason::Cookies);
        }
        let decided = decided?;
        if rule.set_cookie == SetCookie::Strip {
            self.renewed(rule, visitor, &head.headers, &parts.headers);
        }
        Ok(decided)
    }

    fn fits(&self, decided: Storable, parts: &response::Parts, body: &ResponseBody) -> Result<Storable, Reason> {
        let said = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let length = body.size_hint().exact().or(said);
        match body {
            ResponseBody::Hijacked(_) => Err(Reason::Upgrade),
            _ if length.is_some_and(|length| length > self.settings.object) => Err(Reason::Size),
            _ => Ok(decided),
        }
    }

    /// It says that it may not be stored: then what is stored in its place is outdated, and nobody waits for its like.
    fn not_stored(&self, wanted: &mut CacheRequest, head: &Parts, parts: &response::Parts, reason: Reason) {
        if head.method != Method::GET || !wanted.storable || parts.status.is_server_error() {
            return;
        }
        if wanted.stored.is_some()
            && parts.status != StatusCode::NOT_MODIFIED
            && parts.status != StatusCode::PARTIAL_CONTENT
        {
            self.cache.take(wanted.key, wanted.visitor.is_some());
        }
        // These are about a client's own condition or range, and say nothing of the page.
        let own = matches!(parts.status.as_u16(), 206 | 304 | 412 | 416);
        if reason != Reason::RequestNoStore && !own {
            self.cache.uncacheable.mark(wanted.key, now());
            wanted.lease.take().into_iter().for_each(|lease| lease.end_unshared(true));
        }
    }

    /// 304: what is stored is good for another while.
    fn still_good(
        self: &Arc<Self>,
        wanted: &mut CacheRequest,
        head: &Parts,
        stored: &Arc<Stored>,
        parts: response::Parts,
        asked: &FetchContext,
        leading: &mut FlightLead,
    ) -> Response<ResponseBody> {
        wanted.status.forward_status = Some(304);
        let renewed = match self.rule_of(wanted) {
            Some(rule) => rule.storable(head, &merged(stored, &parts), asked.at).map(|storable| {
                Stored::new(stored.url.clone(), stored.status, storable, stored.content.clone(), &self.tags(wanted))
            }),
            None => updating::freshened(stored, &parts.headers, asked.at, self.settings.stale_if_error),
        };
        let (current, key) = match renewed {
            Ok(mut renewed) => {
                // What was said of the page before, it need not say again.
                let until = asked.holds.until.min(stored.freshness.holds.until);
                renewed.freshness.holds = Holds { until, ..stored.freshness.holds };
                let renewed = Arc::new(renewed);
                let (key, inserted) = self.place(&Kin::of(wanted), &head.headers, renewed.clone(), asked.start.moment);
                if let Some(lease) = wanted.lease.take() {
                    lease.conclude(&renewed, inserted, &head.headers);
                }
                wanted.status.stored = inserted.is_ok();
                wanted.status.ttl = Some(cache::reusing::ttl(&renewed, now()));
                self.offer(wanted, renewed.clone(), key, None);
                (renewed, key)
            }
            Err(reason) => {
                wanted.status.reason = Some(reason);
                self.cache.take(wanted.key, wanted.visitor.is_some());
                (stored.clone(), wanted.key)
            }
        };
        leading.land();
        let answering = StoredAnswer { cache: &self.cache, key, stored: &current, head, now: now() };
        let status = wanted.status;
        let mut response = answer::stored(&answering).unwrap_or_else(|| Response::new(ResponseBody::Empty));
        if parts.headers.contains_key(header::SET_COOKIE) {
            response.headers_mut().remove(header::SET_COOKIE);
            own_fields(&mut response, &parts.headers);
        }
        response.extensions_mut().insert(status);
        response
    }

    fn store_and_give(
        self: &Arc<Self>,
        wanted: &mut CacheRequest,
        head: &Parts,
        response: Response<ResponseBody>,
        mut storable: Storable,
        asked: &FetchContext,
        leading: &mut FlightLead,
    ) -> Response<ResponseBody> {
        let (mut parts, body) = response.into_parts();
        dated(&mut storable.headers, asked.at.date);
        self.learn_search(wanted, &parts.headers);
        targeted::consume(&mut parts.headers);
        let is_partial = parts.status == StatusCode::PARTIAL_CONTENT;
        let range = if is_partial { ContentRange::of(&parts.headers) } else { None };
        if is_partial && range.is_none() {
            wanted.status.reason = Some(Reason::Range);
            return with_status(Response::from_parts(parts, body), wanted);
        }
        self.cache.uncacheable.forget(wanted.key);
        wanted.status.reason = None;
        if let Some(lease) =
            wanted.lease.take_if(|lease| !lease.may_share(parts.status, &storable, body.size_hint().exact()))
        {
            lease.end_unshared(false);
        }
        let keeping = StoreTask {
            lease: wanted.lease.take(),
            cache: self.clone(),
            wanted: Kin::of(wanted),
            request: head.headers.clone(),
            status: parts.status,
            range,
            before: wanted.stored.clone(),
            tags: self.tags(wanted),
            moment: asked.start.moment,
            storable,
        };
        wanted.status.stored = asked.start.may_be_stored();
        if !wanted.status.stored {
            wanted.status.reason = Some(Reason::Canary);
        }
        match body {
            ResponseBody::Empty => {
                self.store_whole(wanted, head, Response::from_parts(parts, Bytes::new()), keeping, asked, leading)
            }
            ResponseBody::Whole(bytes) => {
                self.store_whole(wanted, head, Response::from_parts(parts, bytes), keeping, asked, leading)
            }
            body => self.store_stream(wanted, Response::from_parts(parts, body), keeping, leading),
        }
    }

    /// Stores a response that is there as a whole. A client that asked for less gets less of it.
    fn store_whole(
        &self,
        wanted: &mut CacheRequest,
        head: &Parts,
        response: Response<Bytes>,
        keeping: StoreTask,
        asked: &FetchContext,
        leading: &mut FlightLead,
    ) -> Response<ResponseBody> {
        let (parts, bytes) = response.into_parts();
        let kept = keeping.keep(bytes.clone());
        if let Err(reason) = &kept.stored {
            wanted.status.stored = false;
            wanted.status.reason = Some(*reason);
        }
        let given = || {
            let stored = &kept.response;
            answer::stored(&StoredAnswer { cache: &self.cache, key: kept.key, stored, head, now: now() })
        };
        let less = asked.less.then(given).flatten().map(|mut response| {
            response.headers_mut().remove(header::AGE);
            own_fields(&mut response, &parts.headers);
            response
        });
        self.offer(wanted, kept.response, kept.key, None);
        leading.land();
        let response = less.unwrap_or_else(|| {
            let body = if bytes.is_empty() { ResponseBody::Empty } else { ResponseBody::Whole(bytes) };
            Response::from_parts(parts, body)
        });
        with_status(response, wanted)
    }

    /// Stores a response while it arrives. Those who wait read it at the same time.
    fn store_stream(
        &self,
        wanted: &mut CacheRequest,
        response: Response<ResponseBody>,
        keeping: StoreTask,
        leading: &mut FlightLead,
    ) -> Response<ResponseBody> {
        let (mut parts, body) = response.into_parts();
        let length = body.size_hint().exact();
        let (head_of_it, key) = keeping.announced();
        let completed: super::streaming::StoreWhole = Box::new(move |bytes| {
            let Some(bytes) = bytes else {
                keeping.outgrow();
                return None;
            };
            Some(keeping.keep(bytes)).filter(|kept| kept.stored.is_ok()).map(|kept| kept.response)
        });
        // Those who can't have it need not wait for its body.
        let (landing, landed) =
            if is_for_others(&head_of_it) { (Some(leading.take()), None) } else { (None, Some(leading.take())) };
        let shared = SharedBody::start(body, self.settings.object, completed, move || drop(landing));
        let reader = shared.reader();
        self.offer(wanted, head_of_it, key, Some(shared));
        drop(landed);
        if let Some(length) = length {
            parts.headers.insert(header::CONTENT_LENGTH, length.into());
        }
        let body = reader.map_or(ResponseBody::Empty, ResponseBody::stream);
        with_status(Response::from_parts(parts, body), wanted)
    }

    /// Gives it to those who wait.
    fn offer(&self, wanted: &CacheRequest, stored: Arc<Stored>, variant: Key, body: Option<Arc<SharedBody>>) {
        if is_for_others(&stored) {
            self.share(wanted, Share { stored, instead_of: None, body, primary: wanted.primary, variant });
        } else if wanted.flight.is_some() {
            self.cache.uncacheable.mark(wanted.key, now());
        }
    }

    fn tags(&self, wanted: &CacheRequest) -> Vec<Arc<str>> {
        wanted.visitor.and_then(|visitor| visitor.tag()).into_iter().collect()
    }
}

/// Whether those who wait may have it: what has to be validated for each request is nobody else's.
fn is_for_others(stored: &Stored) -> bool {
    stored.is_fresh(now()) && !stored.freshness.no_cache && stored.status != StatusCode::PARTIAL_CONTENT
}

/// A stored response's head with the fields of a 304, for a rule to judge.
fn merged(stored: &Stored, parts: &response::Parts) -> response::Parts {
    let mut merged = Response::new(()).into_parts().0;
    merged.status = stored.status;
    merged.headers = stored.headers.clone();
    for (name, value) in storing::kept(&parts.headers).iter().filter(|(name, _)| **name != header::ETAG) {
        merged.headers.insert(name, value.clone());
    }
    merged
}

/// A response that says what the cache did.
fn with_status(mut response: Response<ResponseBody>, wanted: &CacheRequest) -> Response<ResponseBody> {
    response.extensions_mut().insert(wanted.status);
    response
}

/// Fields that go to who asked, and are not in what is stored.
fn own_fields(response: &mut Response<ResponseBody>, told: &HeaderMap) {
    if !response.headers().contains_key(header::SET_COOKIE) {
        for line in told.get_all(header::SET_COOKIE) {
            response.headers_mut().append(header::SET_COOKIE, line.clone());
        }
    }
}
