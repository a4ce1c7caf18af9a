//! One request on its way to a worker, and to another one if the first is lost. It never makes the response.

use bytes::Bytes;
use http::{request::Parts, Method, Version};
use http_body_util::Limited;
use std::{sync::Arc, time::Duration};

use super::{
    comparison::End,
    conversation::{abandon, converse, Answer, Conversation, Request},
    expectations::RequestLine,
    origin::{Limits, Origin},
    queue::{Accompanied, Again, Class, Lease, Offer, OutcomeSlot, WorkerId},
    suspects::{Evidence, Fingerprint},
    Failure, RetryRefusal,
};
use crate::{
    content::spool::NamedSpool,
    exchange::{
        incoming::{Arriving, RequestBody},
        Exchange,
    },
    observe::{
        in_flight::{Held, Step},
        incidents::InHand,
    },
    origins::workers::{
        protocol::frame::{next_number, RequestNumber},
        rack::env,
    },
    support::clock::{self, Micros},
};

/// How often a request is given to another worker that none has read.
const UNREAD: u32 = 3;
/// With so many workers' deaths it is answered 502, though others were always in hand beside it.
const MOST_DEATHS: u32 = 3;

/// A request, and what became of it so far.
pub(super) struct Attempts<'a, O> {
    app: &'a O,
    head: &'a Parts,
    limits: Limits,
    number: RequestNumber,
    /// Encoded, as it is sent each time.
    frame: Bytes,
    /// The body, if it is in memory.
    in_memory: Bytes,
    /// A body that is passed on as it comes can't be sent twice.
    streamed: Option<Limited<Arriving>>,
    was_streamed: bool,
    /// A spooled body's file has to outlive the conversation.
    spooled: Option<Arc<NamedSpool>>,
    /// Known when there are suspects, or after a worker has died.
    fingerprint: Option<Fingerprint>,
    offer: Option<Offer>,
    again: Option<Again>,
    /// Whether its worker has others in hand. None: it may have any.
    accompanied: Option<Accompanied>,
    /// The worker, and its thread, that had it last, and since when.
    holder: (WorkerId, usize),
    given: Micros,
    deaths: u32,
    unread: u32,
}

impl<'a, O: Origin> Attempts<'a, O> {
    /// Err: workers died with requests like this one.
    pub fn new(
        app: &'a O,
        head: &'a Parts,
        body: RequestBody,
        exchange: &mut Exchange,
    ) -> Result<Attempts<'a, O>, Failure> {
        let limits = app.limits();
        let facts = env::Facts {
            client: &exchange.client,
            local: exchange.connection.local,
            request_id: &exchange.id,
            user: exchange.requester.user.as_ref(),
            received: exchange.timeline.received,
            // HTTP/2 has no connection to give away, but a stream that was asked to be a WebSocket.
            may_hijack: head.version != Version::HTTP_2 || exchange.offers.upgrade.is_some(),
            number: next_number(),
            early_hints: limits.early_hints,
        };
        let in_memory = match &body {
            RequestBody::Memory(bytes) => bytes.clone(),
            _ => Bytes::new(),
        };
        let mut fingerprint = None;
        let suspects = app.suspects();
        if suspects.any() {
            let known = suspects.fingerprint(head, &in_memory, exchange.client.address);
            if let Some(time) = suspects.refuses(known, clock::now()) {
                return Err(Failure::Refused(time));
            }
            fingerprint = Some(known);
        }
        let (number, frame) = (facts.number, Bytes::from(env::request_frame(head, &facts, &body)));
        let (streamed, spooled) = match body {
            RequestBody::Streamed { body, .. } => (Some(body), None),
            RequestBody::Spooled { file, .. } => (None, Some(file)),
            RequestBody::Memory(_) => (None, None),
        };
        let whole = streamed.is_none() && spooled.is_none();
        let offer = if whole { Offer::new(number, &frame, abandon) } else { None };
        exchange.timeline.queued = clock::now();
        exchange.live.step(Step::Queued, exchange.timeline.queued);
        Ok(Attempts {
            app,
            head,
            limits,
            number,
            frame,
            in_memory,
            was_streamed: streamed.is_some(),
            streamed,
            spooled,
            fingerprint,
            offer,
            again: None,
            accompanied: None,
            holder: (0, 0),
            given: 0,
            deaths: 0,
            unread: 0,
        })
    }

    pub fn hard_timeout(&self) -> Option<Duration> {
        self.limits.hard_timeout
    }

    /// Waits for a worker thread, gives it the request and waits for its answer.
    pub async fn ask(&mut self, exchange: &mut Exchange) -> Result<Answer, Failure> {
        let request = RequestLine { method: self.head.method.as_str(), path: self.head.uri.path() };
        let class = match exchange.requester.crawler() {
            Some(crawler) => Class::Crawler { is_patient: crawler.is_patient },
            None => Class::Visitor,
        };
        let leased = self.app.lease(class, request, self.again, self.offer.take()).await;
        let mut lease = leased.map_err(Failure::Unavailable)?;
        self.again = Some(Again { worker: lease.worker, alone: self.deaths > 0 });
        self.accompanied = lease.accompanied.take();
        if let (Some(file), Some(account)) = (&self.spooled, lease.run_as.account()) {
            if let Err(error) = file.give_to(account.uid) {
                lease.give_back();
                return Err(Failure::Spool(error));
            }
        }
        self.given = clock::now();
        exchange.timeline.handed_over = self.given;
        self.holder = (lease.worker, lease.channel().thread);
        let held = exchange.live.hold(self.holder.0, self.holder.1, self.given);
        let noted = lease.noted.take();
        exchange.worker.by_canary = noted.as_ref().is_some_and(OutcomeSlot::is_canarys);
        let answer = match self.begin(lease, held, exchange) {
            Ok(conversation) => converse(conversation).await,
            Err(answer) => answer,
        };
        if let Some(noted) = noted {
            noted.note(ended(&answer, self.given));
        }
        if let Some(known) = self.fingerprint.filter(|_| answer.is_the_apps()) {
            self.app.suspects().answered(known, self.given);
        }
        Ok(answer)
    }

    fn begin(&mut self, lease: Lease, held: Held, exchange: &Exchange) -> Result<Box<Conversation>, Answer> {
        let request = Request {
            number: self.number,
            frame: self.frame.clone(),
            body: self.streamed.take(),
            spooled: self.spooled.clone(),
            method: self.head.method.clone(),
            uri: self.head.uri.clone(),
            soft_timeout: self.limits.soft_timeout,
            hard_timeout: self.limits.hard_timeout,
            memory: self.limits.response_memory,
            spool: self.limits.response_spool,
            after_reply: self.limits.after_reply,
            hints: exchange.offers.hints.clone(),
            counters: exchange.worker.counters.clone(),
            record: exchange.worker.record.clone(),
            held,
        };
        Conversation::begin(lease, request)
    }

    /// What follows from the loss of a worker: Ok, the request is asked again.
    #[cold]
    pub fn retry(&mut self, answer: Answer, exchange: &Exchange) -> Result<(), Failure> {
        match answer {
            Answer::TimedOut => {
                self.note_loss(exchange, "answered 504");
                Err(Failure::TimedOut)
            }
            // Who sent it can't be known; nor whether this request was answered to somebody else.
            Answer::Misdirected => {
                self.note_loss(exchange, "answered 502");
                Err(Failure::Misdirected)
            }
            Answer::Untaken if !self.was_streamed => Ok(()),
            Answer::Untaken => Err(Failure::WorkerDied(RetryRefusal::NotRepeatable)),
            Answer::Unread if !self.was_streamed && self.unread < UNREAD => {
                self.unread += 1;
                self.note_loss(exchange, "given to another worker");
                Ok(())
            }
            answer => {
                let died = matches!(answer, Answer::Died);
                if let Some(why) = self.refusal(died, exchange) {
                    self.note_loss(exchange, "answered 502");
                    return Err(Failure::WorkerDied(why));
                }
                self.note_loss(exchange, "given to another worker");
                self.again = Some(Again { worker: self.holder.0, alone: self.deaths > 0 });
                Ok(())
            }
        }
    }

    /// Why a request is not asked again whose worker died or has gone; None: it is.
    fn refusal(&mut self, died: bool, exchange: &Exchange) -> Option<RetryRefusal> {
        let suspects = self.app.suspects();
        let client = exchange.client.address;
        let known = self.fingerprint.unwrap_or_else(|| suspects.fingerprint(self.head, &self.in_memory, client));
        self.fingerprint = Some(known);
        let alone = self.accompanied.as_ref().is_some_and(|accompanied| !accompanied.is_so());
        if died {
            let evidence = if alone {
                Evidence::Alone
            } else if self.deaths == 0 {
                Evidence::First
            } else {
                Evidence::Beside
            };
            suspects.died(known, evidence, self.given, clock::now());
            self.deaths += 1;
        }
        let guilty = died && (alone || self.deaths >= MOST_DEATHS);
        if self.was_streamed || !is_idempotent(&self.head.method) {
            Some(RetryRefusal::NotRepeatable)
        } else if guilty || suspects.refuses(known, clock::now()).is_some() {
            Some(RetryRefusal::TwoDied)
        } else {
            (!suspects.may_ask_again(known, clock::now())).then_some(RetryRefusal::NoneLeft)
        }
    }

    /// For the post-mortem of the worker. A response that had begun when its worker died is not among these: it is cut
    /// off.
    fn note_loss(&self, exchange: &Exchange, outcome: &str) {
        let (worker, thread) = self.holder;
        let request = InHand {
            id: exchange.id.clone(),
            method: self.head.method.as_str().into(),
            path: self.head.uri.path().into(),
            thread,
            age_ms: clock::now().saturating_sub(exchange.timeline.head_read) / 1000,
            outcome: outcome.into(),
        };
        self.app.lost(worker, request);
    }
}

/// For the comparison of two generations.
#[cold]
fn ended(answer: &Answer, since: clock::Micros) -> End {
    match answer {
        Answer::Response { status, .. } => End::Answered(*status, clock::now().saturating_sub(since)),
        Answer::Hijacked { head, .. } => End::Answered(head.as_ref().map_or(200, |head| head.0), 0),
        Answer::Raised(_) => End::Raised,
        Answer::TimedOut => End::TimedOut,
        // It was draining, and says nothing of the code.
        Answer::Untaken => End::Answered(200, 0),
        Answer::Died | Answer::Unread | Answer::Misdirected => End::Died,
    }
}

fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE].contains(method)
}
