//! What is asked at one run of the server that has the shared pages. A request waits for no command longer than
//! `shared_cache_time`; what need not be waited for is sent in the background. It never decides what a page is good for.

use std::{
    future::Future,
    pin::Pin,
    sync::{atomic::Ordering::Relaxed, Arc},
    time::Duration,
};

use ::cluster::{Position, Verdict};
use bytes::Bytes;
use cache::{
    key::KeyMaker,
    store::{Key, Moment},
};
use redis::{FromRedisValue, Script, ScriptInvocation};
use tokio::{
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::{
    super::{error::LinkError, link, now, Cluster},
    scripts::{ALONE, SCRIPTS},
    Connected, Tier,
};
use crate::caching::{Granted, TierQuestion, TierRelease, TierSession, TierUse, TierValue, TierWrite};

/// For how long a permission is given; it is renewed while its front waits for the page.
const PERMISSION: Duration = Duration::from_secs(2);
/// Bytes of pages that may be on their way at once; more are not shared.
const MAX_WRITING: u64 = 16 << 20;

#[derive(Clone)]
pub(super) struct Session {
    cluster: Arc<Cluster>,
    connected: Arc<Connected>,
}

impl Session {
    pub fn new(cluster: Arc<Cluster>, connected: Arc<Connected>) -> Session {
        Session { cluster, connected }
    }

    fn tier(&self) -> Option<&Tier> {
        self.cluster.tier.as_ref()
    }

    fn key(&self, kind: &str, key: Key) -> String {
        self.cluster.link.key(&format!("{kind}:{}:{:032x}", self.connected.run, key.0))
    }

    fn lease(&self, key: Key) -> String {
        self.key("lease", key)
    }

    fn page(&self, key: Key) -> String {
        self.key("page", key)
    }

    /// Runs a script. None: it failed, or took longer.
    async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>, time: Duration) -> Option<T> {
        let why = match timeout(time, self.send(script)).await {
            Ok(Ok(answer)) => {
                self.cluster.tier_succeeded();
                return Some(answer);
            }
            Ok(Err(error)) => {
                self.disconnect();
                LinkError::from(error)
            }
            Err(_) => LinkError::NoAnswer(time),
        };
        self.cluster.tier_failed(true, why);
        None
    }

    async fn send<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> redis::RedisResult<T> {
        script.invoke_async(&mut self.connected.connection.clone()).await
    }

    /// This connection is broken: the next request asks for another.
    fn disconnect(&self) {
        let Some(tier) = self.tier() else { return };
        let mut connected = tier.connected.lock();
        if connected.as_ref().is_some_and(|known| Arc::ptr_eq(known, &self.connected)) {
            *connected = None;
        }
    }

    fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(event_loop) = self.cluster.event_loop.get() {
            event_loop.spawn(work);
        }
    }

    async fn ask(&self, question: TierQuestion) -> Option<TierValue> {
        let tier = self.tier()?;
        // A request that leaves while the answer is on its way, or waits too long for it, keeps nothing from the others.
        let mut unheard = Unheard { session: self.clone(), question: Some(question.clone()) };
        let mut script = SCRIPTS.look.prepare_invoke();
        script.key(self.page(question.key)).key(self.lease(question.key));
        script.arg(&*question.token).arg(PERMISSION.as_millis() as u64).arg(ALONE).arg(question.most);
        // No value begins with nothing: the script takes an empty one for none.
        script.arg(question.refused.as_deref().unwrap_or_default());
        let (word, time, page): (String, u64, Vec<u8>) = self.run(&script, tier.settings.time).await?;
        unheard.question = None;
        Some(match word.as_str() {
            // It does not keep to what it was asked.
            "page" if page.len() as u64 > question.most => return None,
            "page" => {
                tier.figures.bytes_read.fetch_add(page.len() as u64, Relaxed);
                TierValue::Found(Bytes::from(page), time / 1000)
            }
            "lead" => TierValue::Lead(Granted { at: time, known: now() }),
            "wait" => TierValue::Wait,
            _ => TierValue::Alone,
        })
    }

    async fn store(self, write: TierWrite) {
        let Some(tier) = self.tier() else { return };
        let TierWrite { lease, token, page: (key, page), directory, expires } = write;
        let length = (page.len() + directory.as_ref().map_or(0, |(_, bytes)| bytes.len())) as u64;
        let mut script = SCRIPTS.write.prepare_invoke();
        script.key(self.lease(lease)).key(self.page(key));
        script.arg(&*token).arg(expires).arg(page);
        if let Some((key, bytes)) = directory {
            script.key(self.page(key)).arg(bytes);
        }
        match self.run::<u64>(&script, link::ANSWER_TIME).await {
            Some(0) => {
                tier.figures.late.fetch_add(1, Relaxed);
            }
            Some(_) => {
                tier.figures.writes.fetch_add(1, Relaxed);
                tier.figures.bytes_written.fetch_add(length, Relaxed);
            }
            None => {}
        }
    }

    async fn release_at(self, release: TierRelease) {
        let mut script = SCRIPTS.release.prepare_invoke();
        script.key(self.lease(release.lease)).key(self.page(release.lease));
        script.arg(&*release.token).arg(release.alone.as_millis() as u64).arg(ALONE).arg(u8::from(release.is_outdated));
        // It is no news if that fails: it follows on something that has failed, or the permission ends by itself.
        let _ = timeout(link::ANSWER_TIME, self.send::<u64>(&script)).await;
    }
}

impl TierSession for Session {
    fn keys(&self) -> &KeyMaker {
        &self.connected.keys
    }

    fn max_object(&self) -> u64 {
        self.tier().map_or(0, |tier| tier.settings.object)
    }

    fn look(&self, question: TierQuestion) -> Pin<Box<dyn Future<Output = Option<TierValue>> + Send + '_>> {
        Box::pin(self.ask(question))
    }

    fn look_and_wait(&self, question: TierQuestion) -> Option<TierValue> {
        // This loop ends with the process, and others before.
        self.cluster.event_loop.get()?.block_on(self.ask(question))
    }

    fn renew(&self, lease: Key, token: Arc<str>) -> Option<AbortHandle> {
        let session = self.clone();
        let renewing = async move {
            let script: &Script = &SCRIPTS.renew;
            loop {
                sleep(PERMISSION / 3).await;
                let mut script = script.prepare_invoke();
                script.key(session.lease(lease)).arg(&*token).arg(PERMISSION.as_millis() as u64);
                // Another front has it.
                if session.run::<u64>(&script, link::ANSWER_TIME).await == Some(0) {
                    return;
                }
            }
        };
        Some(self.cluster.event_loop.get()?.spawn(renewing).abort_handle())
    }

    fn write(&self, write: TierWrite) {
        let Some(tier) = self.tier() else { return };
        let length = write.page.1.len() as u64;
        if tier.writing.fetch_add(length, Relaxed) + length > MAX_WRITING {
            tier.writing.fetch_sub(length, Relaxed);
            let TierWrite { lease, token, .. } = write;
            return self.release(TierRelease { lease, token, alone: Duration::ZERO, is_outdated: false });
        }
        let session = self.clone();
        self.in_background(async move {
            session.clone().store(write).await;
            if let Some(tier) = session.tier() {
                tier.writing.fetch_sub(length, Relaxed);
            }
        });
    }

    fn release(&self, release: TierRelease) {
        self.in_background(self.clone().release_at(release));
    }

    fn position(&self) -> Option<Position> {
        let follower = self.cluster.follower.lock();
        if follower.behind() > 0 {
            return None;
        }
        follower.at().cloned()
    }

    fn judge(&self, since: &Position, url: &str, tags: &[Arc<str>]) -> (Verdict, Moment) {
        // An entry of the journal is obeyed only after it was read, and none is read while this is held. An own purge is
        // announced before it is done. So what is purged after the moment is refused by that.
        let follower = self.cluster.follower.lock();
        let moment = self.cluster.cache.moment();
        if self.cluster.cache.is_announced(url, tags) {
            return (Verdict::Purged, moment);
        }
        (follower.judge(since, url, tags), moment)
    }

    fn count(&self, use_of_it: TierUse) {
        let Some(tier) = self.tier() else { return };
        let count = match use_of_it {
            TierUse::Hit => &tier.figures.hits,
            TierUse::Miss => &tier.figures.misses,
        };
        count.fetch_add(1, Relaxed);
    }
}

/// A question whose answer nobody has heard: if it is a permission, it is given back.
struct Unheard {
    session: Session,
    question: Option<TierQuestion>,
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(TierQuestion { key, token, .. }) = self.question.take() {
            self.session.release(TierRelease { lease: key, token, alone: Duration::ZERO, is_outdated: false });
        }
    }
}
