//! Visitors who each ask for another page as soon as they have one, for a while, on one copy of the application. Which
//! pages they ask for is the same whenever the number of the slice is, so that two copies can be compared.
//! It never asks for what is not in the sample.

#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::{Duration, Instant},
};

use doctor::protocol::{LoadRequest, LoadResult};
use fastrand::Rng;

use super::load_copy::LoadCopy;
use crate::origins::shadow::ShadowError;

/// Which requests come, by their shares.
pub struct Mix {
    /// Of each request, with those before it: 0 to 1.
    up_to: Vec<f64>,
}

impl Mix {
    pub fn new(shares: &[f64]) -> Mix {
        let all: f64 = shares.iter().sum();
        let mut sum = 0.0;
        let up_to = shares.iter().map(|share| {
            sum += if all > 0.0 { share / all } else { 1.0 / shares.len() as f64 };
            sum
        });
        Mix { up_to: up_to.collect() }
    }

    fn draw(&self, random: &mut Rng) -> usize {
        let part = random.f64();
        self.up_to.partition_point(|up_to| *up_to <= part).min(self.up_to.len().saturating_sub(1))
    }
}

/// How long a slice is.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// So many requests are measured, beside those with which it begins and ends.
    Requests(usize),
    Time(Duration),
}

/// What one slice gave.
#[derive(Debug, Default)]
pub struct Slice {
    /// Request and microseconds from its coming to its answer, in the order of their coming.
    pub times: Vec<(usize, f64)>,
    /// Requests that tried to write or failed, with why in a few words.
    pub failed: BTreeMap<usize, String>,
    /// Answers, with those that are not measured.
    pub answered: usize,
}

impl Slice {
    /// Mean time of the requests but these, microseconds.
    pub fn mean_us(&self, without: &BTreeMap<usize, String>) -> f64 {
        let mut count = 0;
        let times = self.times.iter().filter(|(request, _)| !without.contains_key(request));
        let sum: f64 = times.map(|(_, us)| us).inspect(|_| count += 1).sum();
        sum / f64::from(count)
    }
}

/// A request under way.
struct Visit {
    /// As they came, from 0.
    number: usize,
    request: usize,
    came: Instant,
}

/// `seed`: of the pages' order.
pub fn serve(copy: &mut LoadCopy, mix: &Mix, visitors: usize, length: Length, seed: u64) -> Result<Slice, ShadowError> {
    let began = Instant::now();
    let mut random = Rng::with_seed(seed);
    let (mut waiting, mut under_way) = (VecDeque::new(), HashMap::new());
    let (mut measured, mut slice) = (BTreeMap::new(), Slice::default());
    let mut came = 0;
    // The first of each visitor find an empty copy.
    let is_measured = |number: usize| match length {
        Length::Requests(count) => (visitors..visitors + count).contains(&number),
        Length::Time(_) => true,
    };
    loop {
        // Until the last one that counts has its answer, others wait behind it.
        let goes_on = match length {
            Length::Requests(count) => measured.len() < count,
            Length::Time(time) => began.elapsed() < time,
        };
        while goes_on && waiting.len() + under_way.len() < visitors {
            waiting.push_back(Visit { number: came, request: mix.draw(&mut random), came: Instant::now() });
            came += 1;
        }
        if !goes_on {
            waiting.clear();
        }
        while let Some(channel) = copy.free().filter(|_| !waiting.is_empty()) {
            let Some(visit) = waiting.pop_front() else { break };
            let id = visit.number as u64;
            copy.send(channel, &LoadRequest { id, request: visit.request })?;
            under_way.insert(id, visit);
        }
        if under_way.is_empty() {
            break;
        }
        for result in copy.answers(waiting.len())? {
            let Some(visit) = under_way.remove(&result.id) else { continue };
            slice.answered += 1;
            if is_measured(visit.number) {
                measured.insert(visit.number, (visit.request, visit.came.elapsed().as_micros() as f64));
            }
            if let Some(why) = failure(&result) {
                slice.failed.entry(visit.request).or_insert(why);
            }
        }
    }
    slice.times = measured.into_values().collect();
    Ok(slice)
}

/// As behind `GET /beers`.
fn failure(result: &LoadResult) -> Option<String> {
    match (&result.write, &result.error) {
        (Some(write), _) => Some(format!("tries to write ({}: {})", write.kind, write.what)),
        (None, Some(error)) => Some(format!("fails: {error}")),
        (None, None) => (result.status >= 500).then(|| format!("is answered {}", result.status)),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        os::unix::net::UnixStream,
        sync::{
            atomic::{AtomicUsize, Ordering::SeqCst},
            Arc,
        },
    };

    use serde_json::Value;

    use super::*;

    /// Channels on which threads answer what `answer` makes of a request.
    fn copy(channels: usize, answer: impl Fn(usize) -> Option<String> + Send + Clone + 'static) -> LoadCopy {
        let stream = |_| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let answer = answer.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(theirs.try_clone().unwrap()).lines().map_while(Result::ok) {
                    let asked: Value = serde_json::from_str(&line).unwrap();
                    let Some(rest) = answer(asked["request"].as_u64().unwrap() as usize) else { return };
                    let line = format!("{{\"id\":{},{rest}}}\n", asked["id"]);
                    if (&theirs).write_all(line.as_bytes()).is_err() {
                        return;
                    }
                }
            });
            ours
        };
        LoadCopy::over(vec![(0..channels).map(stream).collect()]).unwrap()
    }

    fn fine(_: usize) -> Option<String> {
        Some("\"status\":200".into())
    }

    #[test]
    fn so_many_are_measured_and_nothing_is_left() {
        let mut copy = copy(2, fine);
        let slice = serve(&mut copy, &Mix::new(&[1.0, 3.0]), 5, Length::Requests(400), 1).unwrap();
        assert_eq!((slice.times.len(), slice.failed.len(), copy.is_idle()), (400, 0, true));
        // More, where the thread of the last one waits for a processor and the other goes on.
        assert!(slice.answered >= 405, "{}", slice.answered);
        let second = slice.times.iter().filter(|(request, _)| *request == 1).count();
        // Three of four, and a standard deviation of 9.
        assert!((260..340).contains(&second), "{second}");
        let again = serve(&mut copy, &Mix::new(&[1.0, 3.0]), 5, Length::Requests(400), 1).unwrap();
        let order = |slice: &Slice| slice.times.iter().map(|(request, _)| *request).collect::<Vec<_>>();
        assert_eq!(order(&slice), order(&again), "the same pages in the same order");
    }

    #[test]
    fn no_more_at_once_than_there_are_channels_and_visitors() {
        for (channels, visitors, most) in [(3, 8, 3), (4, 2, 2)] {
            let (now, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (counted, highest) = (now.clone(), seen.clone());
            let answer = move |_| {
                highest.fetch_max(counted.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::yield_now();
                counted.fetch_sub(1, SeqCst);
                fine(0)
            };
            serve(&mut copy(channels, answer), &Mix::new(&[1.0]), visitors, Length::Requests(50), 1).unwrap();
            assert!(seen.load(SeqCst) <= most, "{channels} {visitors}");
        }
    }

    #[test]
    fn what_fails_is_told_by_request() {
        let answer = |request: usize| {
            Some(match request {
                0 => "\"status\":200".to_owned(),
                1 => "\"status\":500,\"error\":\"KeyError\"".into(),
                _ => "\"status\":200,\"write\":{\"kind\":\"sql\",\"what\":\"INSERT INTO visits\",\"at\":\"\"}".into(),
            })
        };
        let slice = serve(&mut copy(2, answer), &Mix::new(&[1.0; 3]), 2, Length::Requests(60), 1).unwrap();
        let told: Vec<_> = slice.failed.values().map(String::as_str).collect();
        assert_eq!(told, ["fails: KeyError", "tries to write (sql: INSERT INTO visits)"]);
        let kept = slice.times.iter().filter(|(request, _)| *request == 0);
        let (count, sum) = kept.fold((0.0, 0.0), |(count, sum), (_, us)| (count + 1.0, sum + us));
        assert!((slice.mean_us(&slice.failed) - sum / count).abs() < 1e-6);
    }

    #[test]
    fn one_that_breaks_off_ends_it() {
        for answer in [|_| None, |_| Some("\"status\":7".to_owned()), |_| Some("\"status\":".to_owned())] {
            assert!(serve(&mut copy(1, answer), &Mix::new(&[1.0]), 1, Length::Requests(1), 1).is_err());
        }
    }
}
