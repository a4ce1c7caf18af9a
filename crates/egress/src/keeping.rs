//! Responses that are kept for a site's own calls (RFC 9111, a private cache; the law is `crates/cache`), and calls for
//! the same that wait for one. What is asked with other credentials is kept apart. Nothing is kept on a guess. It never
//! asks anybody.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use cache::{
    directives::RequestDirectives,
    freshness::ExchangeTimes,
    invalidating::invalidated,
    key::{KeyMaker, Target},
    private,
    reusing::{judge, may_stand_in, Use},
    store::{How, Key, Moment, Store},
    stored::{Content, Directory, Entry, Stored},
    storing::{storable, Storable},
    updating::freshened,
    validating::{conditional, is_meant, CONDITIONS},
    Millis,
};
use http::{header, request, response, Method, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};

use super::Clock;

/// For so long calls for something that was not to be kept don't wait for each other.
const REMEMBERED: Duration = Duration::from_secs(60);
/// As many are remembered.
const MAX: usize = 10_000;

pub struct CallCache {
    store: Store<Entry>,
    keys: KeyMaker,
    /// The largest body that is kept.
    object: u64,
    flights: Mutex<HashMap<Key, watch::Receiver<()>>>,
    unkept: Mutex<HashMap<Key, Instant>>,
    clock: Clock,
}

/// A call whose answer may be kept, or be there.
pub struct Question {
    primary: Key,
    url: String,
    wishes: RequestDirectives,
    moment: Moment,
    sent: Millis,
}

/// What is there for a call.
pub enum CachedCall {
    /// It answers.
    Answer(Arc<Stored>),
    /// It has to be asked about; the request was made that question.
    Stale(Arc<Stored>),
    Nothing,
}

/// One call asks for all who want the same. They go on when this is dropped.
pub struct Flight {
    keeping: Arc<CallCache>,
    key: Key,
    _landing: watch::Sender<()>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.keeping.flights().remove(&self.key);
    }
}

impl CallCache {
    /// `budget`: bytes in all.
    pub fn new(budget: u64, clock: Clock) -> Arc<CallCache> {
        let secret = uuid::Uuid::new_v4().as_u64_pair();
        Arc::new(CallCache {
            store: Store::new(budget),
            keys: KeyMaker::new([secret.0, secret.1]),
            object: budget / 16,
            flights: Mutex::default(),
            unkept: Mutex::default(),
            clock,
        })
    }

    fn now(&self) -> Millis {
        (self.clock.age)()
    }

    /// Seconds for the Age field (section 5.1).
    pub fn age(&self, stored: &Stored) -> u64 {
        stored.freshness.age(self.now()) / 1000
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Key, watch::Receiver<()>>> {
        self.flights.lock()
    }

    /// None: whatever is answered is neither kept nor looked for: another method, a part, conditions of the caller's
    /// own. `way`: what else keeps calls apart.
    pub fn question(&self, head: &request::Parts, way: &str) -> Option<Question> {
        let plain =
            !head.headers.contains_key(header::RANGE) && !CONDITIONS.iter().any(|name| head.headers.contains_key(name));
        let wishes = RequestDirectives::of(&head.headers);
        if !(matches!(head.method, Method::GET | Method::HEAD) && plain) || wishes.no_store {
            return None;
        }
        let target = target(head)?;
        let mut partition = private::partition(&head.headers);
        partition.extend_from_slice(way.as_bytes());
        let primary = self.keys.primary(&target, &partition);
        Some(Question { primary, url: target.url(), wishes, moment: self.store.moment(), sent: self.now() })
    }

    /// Looks. `head` becomes a question about what is there if that has to be asked about.
    pub fn find(&self, question: &Question, head: &mut request::Parts) -> CachedCall {
        let Some(stored) = self.stored(question, head) else { return CachedCall::Nothing };
        match judge(&stored, &question.wishes, self.now()) {
            Use::Fresh | Use::Stale => CachedCall::Answer(stored),
            Use::WhileRevalidating | Use::Validate(_) => {
                if conditional(&mut head.headers, &stored) {
                    CachedCall::Stale(stored)
                } else {
                    CachedCall::Nothing
                }
            }
        }
    }

    fn stored(&self, question: &Question, head: &request::Parts) -> Option<Arc<Stored>> {
        match &*self.store.get(question.primary)? {
            Entry::Response(stored) => Some(stored.clone()),
            Entry::Directory(directory) => directory.nominations.iter().find_map(|nominated| {
                match &*self.store.get(self.keys.variant(question.primary, nominated, &head.headers))? {
                    Entry::Response(stored) => Some(stored.clone()),
                    _ => None,
                }
            }),
            _ => None,
        }
    }

    /// The call that asks for all; or, when another does, when that has its answer. None without waiting: calls for
    /// this don't wait for each other.
    pub async fn take_off(self: &Arc<Self>, question: &Question) -> Option<Flight> {
        let key = question.primary;
        let unkept = self.unkept.lock().get(&key).copied();
        if question.wishes.no_cache || unkept.is_some_and(|since| since.elapsed() < REMEMBERED) {
            return None;
        }
        let mut landing = {
            let mut flights = self.flights();
            match flights.get(&key) {
                Some(landing) => landing.clone(),
                None => {
                    let (landing, waiting) = watch::channel(());
                    flights.insert(key, waiting);
                    return Some(Flight { keeping: self.clone(), key, _landing: landing });
                }
            }
        };
        // Its end is the sender's.
        let _ = landing.changed().await;
        None
    }

    /// What is to be kept of an answer, once its body is there. None: nothing, and who waits need not wait any longer.
    pub fn storable(&self, question: &Question, head: &request::Parts, answer: &response::Parts) -> Option<Storable> {
        let mut asked = head.clone();
        asked.headers = private::request(&head.headers);
        let mut said = answer.clone();
        said.headers = private::response(&answer.headers);
        let at = ExchangeTimes { request_time: question.sent, response_time: self.now(), date: (self.clock.date)() };
        let length = answer.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let fits = length.is_none_or(|length: u64| length <= self.object);
        let stored = storable(&asked, &said, at, 0).ok().filter(|_| head.method == Method::GET && fits);
        if stored.is_none() && head.method == Method::GET {
            let mut unkept = self.unkept.lock();
            if unkept.len() >= MAX {
                unkept.clear();
            }
            unkept.insert(question.primary, Instant::now());
        }
        let mut storable = stored?;
        if storable.freshness.heuristic {
            // Nobody said for how long: it is asked about each time.
            storable.freshness.lifetime = 0;
        }
        Some(storable)
    }

    /// The largest body that is kept.
    pub fn object(&self) -> usize {
        self.object as usize
    }

    pub fn put(&self, question: &Question, head: &request::Parts, status: StatusCode, storable: Storable, body: Bytes) {
        let url: Arc<str> = question.url.as_str().into();
        let stored = Stored::new(url, status, storable, Content::Whole(body), &[]);
        self.keep(question, head, Arc::new(stored));
    }

    fn keep(&self, question: &Question, head: &request::Parts, stored: Arc<Stored>) {
        let variant = self.keys.variant(question.primary, &stored.nominated, &head.headers);
        if variant != question.primary {
            let previous = self.store.get(question.primary);
            let previous = previous.as_deref().and_then(|kept| match kept {
                Entry::Directory(directory) => Some(directory),
                _ => None,
            });
            let directory = Directory::with(previous, stored.url.clone(), stored.nominated.clone());
            let _ = self.store.insert_since(question.primary, Arc::new(Entry::Directory(directory)), question.moment);
        }
        let _ = self.store.insert_since(variant, Arc::new(Entry::Response(stored)), question.moment);
    }

    /// What is there, with what a 304 says of it. None: the 304 is about something else, or says that nothing is to be
    /// kept.
    pub fn freshen(
        &self,
        question: &Question,
        head: &request::Parts,
        stored: &Stored,
        answer: &response::Parts,
    ) -> Option<Arc<Stored>> {
        if !is_meant(stored, &answer.headers) {
            return None;
        }
        let at = ExchangeTimes { request_time: question.sent, response_time: self.now(), date: (self.clock.date)() };
        let mut newer = freshened(stored, &private::response(&answer.headers), at, 0).ok()?;
        if newer.freshness.heuristic {
            newer.freshness.lifetime = 0;
        }
        let newer = Arc::new(newer);
        self.keep(question, head, newer.clone());
        Some(newer)
    }

    /// Whether what is there may answer because nobody else does.
    pub fn stands_in(&self, question: &Question, stored: &Stored) -> bool {
        may_stand_in(stored, &question.wishes, self.now())
    }

    /// Drops what a call that changes something makes untrue (section 4.4).
    pub fn invalidate(&self, head: &request::Parts, answer: &response::Parts) {
        let Some(invalidated) = target(head).and_then(|target| invalidated(&head.method, &target, answer)) else {
            return;
        };
        for url in &invalidated.urls {
            self.store.purge_url(url, How::Drop);
        }
    }
}

fn target(head: &request::Parts) -> Option<Target<'_>> {
    Some(Target {
        scheme: head.uri.scheme_str()?,
        authority: head
            .headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok())
            .unwrap_or(head.uri.authority()?.as_str()),
        path: head.uri.path_and_query().map_or("/", |path| path.as_str()),
    })
}
