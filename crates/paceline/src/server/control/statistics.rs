//! What the page cache did and holds, as JSON. Looks through what is stored away from the event loops, a part at a
//! time. It never changes anything.

use std::{cmp::Reverse, collections::BinaryHeap, collections::HashMap, sync::Arc};

use cache::{status::Forward, stored::Entry};
use serde_json::{json, Map, Value};

use super::answer::{aside, JsonResult};
use crate::{
    caching::{Counters, DiskUsage, SiteCache},
    request::front::Front,
};

/// URLs and paths that are shown.
const MAX: usize = 10;
/// Responses with the most hits that are looked at for them: a URL may have several.
const LOOKED_AT: usize = 256;

/// GET /cache/stats.
pub async fn of_cache(server: Arc<Front>) -> JsonResult {
    aside(move || {
        let sites: Vec<_> = server
            .routes()
            .all()
            .iter()
            .filter_map(|site| Some((site.config.name.clone(), site.cache.clone()?)))
            .collect();
        let store = server.cache.store();
        let used = store.usage();
        let mut top = Top::default();
        store.each(|_, kept| {
            if let Entry::Response(stored) = &**kept {
                top.see(&stored.url, stored.hits(), stored.whole().map_or(0, |body| body.len() as u64));
            }
        });
        json!({
            "bytes": used.bytes,
            "budget": used.budget,
            "objects": used.objects,
            "responses": top.responses,
            "evicted": used.evicted,
            "purged": used.purged,
            "refused": used.refused,
            "disk": server.cache.disk().map(|disk| of_disk(&disk.usage())),
            "sites": sites.iter().map(|(name, cache)| (name.clone(), of_site(cache))).collect::<Map<_, _>>(),
            "top": top.shown(),
        })
    })
    .await
}

fn of_disk(used: &DiskUsage) -> Value {
    json!({
        "bytes": used.bytes,
        "budget": used.budget,
        "responses": used.responses,
        "hits": used.hits,
        "misses": used.misses,
        "written": used.written,
        "evicted": used.evicted,
        "unwritten": used.unwritten,
        "damaged": used.damaged,
        "given_up": used.given_up,
        "again_in": used.again_in.map(|time| time.as_secs()),
    })
}

fn of_site(cache: &SiteCache) -> Value {
    let mut site = counted(&cache.counters);
    let missed = cache.counters.top_missed(MAX).into_iter().map(|missed| {
        json!({
            "path": missed.path,
            "requests": missed.requests,
            "detail": missed.reason.as_str(),
            "header": missed.reason.advice(),
        })
    });
    site.insert("missed".into(), missed.collect());
    site.into()
}

fn counted(counters: &Counters) -> Map<String, Value> {
    let all: HashMap<String, u64> = counters.all().into_iter().collect();
    let count = |name: &str| all.get(name).copied().unwrap_or(0);
    let beginning = |start: &str| -> Map<String, Value> {
        let words = all.iter().filter_map(|(name, count)| Some((name.strip_prefix(start)?.to_owned(), json!(count))));
        words.collect()
    };
    let forwarded: u64 = Forward::ALL.iter().map(|forward| count(&format!("fwd={}", forward.as_str()))).sum();
    let (hits, asked) = (count("hit"), count("hit") + forwarded);
    let ratio = if asked == 0 { Value::Null } else { json!((hits as f64 / asked as f64 * 1e4).round() / 1e4) };
    let mut site = Map::new();
    for (name, value) in [("requests", asked), ("hits", hits), ("forwarded", forwarded)] {
        site.insert(name.into(), value.into());
    }
    site.insert("hit_ratio".into(), ratio);
    for name in ["stale", "collapsed", "stored"] {
        site.insert(name.into(), count(name).into());
    }
    site.insert("fwd".into(), beginning("fwd=").into());
    site.insert("detail".into(), beginning("detail=").into());
    site
}

/// Those with the most hits of all that are seen; it keeps only so many.
#[derive(Default)]
struct Top {
    responses: u64,
    most: BinaryHeap<Reverse<(u64, u64, Arc<str>)>>,
}

impl Top {
    fn see(&mut self, url: &Arc<str>, hits: u64, bytes: u64) {
        self.responses += 1;
        let least = self.most.peek().map_or(0, |Reverse((hits, ..))| *hits);
        if hits > 0 && (self.most.len() < LOOKED_AT || hits > least) {
            self.most.push(Reverse((hits, bytes, url.clone())));
            if self.most.len() > LOOKED_AT {
                self.most.pop();
            }
        }
    }

    /// By URL, the most first.
    fn shown(self) -> Vec<Value> {
        let mut urls: HashMap<Arc<str>, (u64, u64, u64)> = HashMap::new();
        for Reverse((hits, bytes, url)) in self.most {
            let (all, held, responses) = urls.entry(url).or_default();
            (*all, *held, *responses) = (*all + hits, *held + bytes, *responses + 1);
        }
        let mut urls: Vec<_> = urls.into_iter().collect();
        urls.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
        let shown = urls.into_iter().take(MAX).map(|(url, (hits, bytes, responses))| {
            json!({ "url": *url, "hits": hits, "body_bytes": bytes, "responses": responses })
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::status::{CacheStatus, Reason};

    #[test]
    fn the_most_used_urls_with_all_their_variants() {
        let mut top = Top::default();
        for n in 0..1000_u64 {
            top.see(&format!("http://a/{n}").into(), n, 5);
        }
        top.see(&"http://a/999".into(), 999, 7);
        top.see(&"http://a/never".into(), 0, 7);
        assert_eq!(top.responses, 1002);
        let shown = top.shown();
        assert_eq!(shown.len(), MAX);
        assert_eq!(shown[0], json!({ "url": "http://a/999", "hits": 1998, "body_bytes": 12, "responses": 2 }));
        assert_eq!(shown[9]["hits"], 990);
    }

    #[test]
    fn counts_by_word_and_the_ratio() {
        let counters = Counters::default();
        assert_eq!(counted(&counters)["hit_ratio"], Value::Null);
        for _ in 0..2 {
            counters.count(&CacheStatus::hit(1000), "/a");
        }
        counters.count(&CacheStatus { stored: true, ..CacheStatus::forward(Forward::UriMiss) }, "/a");
        counters.count(&CacheStatus::bypass(Reason::Method), "/b");
        let stand_in = CacheStatus { hit: true, ttl: Some(-5), ..CacheStatus::forward(Forward::Stale) };
        counters.count(&stand_in, "/c");
        let site = counted(&counters);
        assert_eq!((&site["requests"], &site["hits"], &site["hit_ratio"]), (&json!(5), &json!(3), &json!(0.6)));
        assert_eq!(site["stale"], 1);
        assert_eq!(site["fwd"], json!({ "uri-miss": 1, "bypass": 1 }));
        assert_eq!((&site["detail"], &site["stored"]), (&json!({ "method": 1 }), &json!(1)));
    }
}
