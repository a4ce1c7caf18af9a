//! Answers that serve again for a while, in bounded memory. The clock is an argument. It stores what it is given and
//! knows nothing of people.

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::{Duration, Instant},
};

/// The oldest answers make room for new ones.
pub struct Cache<K, V> {
    ttl: Duration,
    max: usize,
    answers: HashMap<K, (V, Instant)>,
    /// In the order in which they came. One whose time differs was stored again later.
    order: VecDeque<(K, Instant)>,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    pub fn new(ttl: Duration, max: usize) -> Cache<K, V> {
        Cache { ttl, max, answers: HashMap::new(), order: VecDeque::new() }
    }

    pub fn get<Q>(&self, key: &Q, now: Instant) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (answer, stored) = self.answers.get(key)?;
        (now.saturating_duration_since(*stored) < self.ttl).then(|| answer.clone())
    }

    pub fn put(&mut self, key: K, answer: V, now: Instant) {
        if self.ttl.is_zero() || self.max == 0 {
            return;
        }
        self.order.push_back((key.clone(), now));
        self.answers.insert(key, (answer, now));
        while let Some((oldest, stored)) = self.order.front() {
            let current = self.answers.get(oldest).is_some_and(|(_, time)| time == stored);
            let expired = now.saturating_duration_since(*stored) >= self.ttl;
            if current && !expired && self.order.len() <= self.max {
                break;
            }
            if current {
                self.answers.remove(oldest);
            }
            self.order.pop_front();
        }
    }

    pub fn clear(&mut self) {
        self.answers.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    #[test]
    fn an_answer_serves_until_its_time_is_over() {
        let start = Instant::now();
        let mut cache = Cache::new(TTL, 8);
        cache.put("alice".to_owned(), 1, start);
        assert_eq!(cache.get("alice", start + TTL / 2), Some(1));
        assert_eq!(cache.get("alice", start + TTL), None);
        cache.put("alice".to_owned(), 2, start + TTL);
        assert_eq!(cache.get("alice", start + TTL * 3 / 2), Some(2));
    }

    #[test]
    fn memory_is_bounded_however_often_the_same_is_stored() {
        let start = Instant::now();
        let mut cache = Cache::new(TTL, 8);
        for number in 0..1000u32 {
            cache.put(number % 20, number, start + Duration::from_millis(number.into()));
            assert!(cache.answers.len() <= 8 && cache.order.len() <= 8);
        }
        assert_eq!(cache.get(&19, start + Duration::from_secs(1)), Some(999));
        assert_eq!(cache.get(&0, start + Duration::from_secs(1)), None);
    }

    #[test]
    fn without_time_or_room_nothing_is_stored() {
        for mut cache in [Cache::new(Duration::ZERO, 8), Cache::new(TTL, 0)] {
            cache.put(1, 1, Instant::now());
            assert_eq!(cache.get(&1, Instant::now()), None);
        }
    }
}
