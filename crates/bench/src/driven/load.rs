//! One load: so many connections, every answer checked. After its time nothing more is sent, and what is under way is
//! waited for, so that the server's work and the answers counted are the same. Never says whether a figure is good.
//!
//! The result is a line of JSON: `completed` (right answers), `timely` (of these, those within the time), `seconds`,
//! `failures` (pairs of what was wrong and how often), `latencies` (µs, by the name of the kind) or `p50` and `p99`
//! (µs), and `cookies` of the visitors. Latencies include connecting; with a rate they begin when the request was due.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    fs, io,
    rc::Rc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use tokio::{
    task::JoinSet,
    time::{sleep_until, timeout},
};

use super::{
    client::{Answer, Client},
    plan::{made_of, Keys, Kind, Plan, Request},
};

/// In which an answer must come.
const LIMIT: Duration = Duration::from_secs(30);
/// After so many wrong answers the load ends.
const MAX_FAILURES: usize = 20;

/// Reads the plan, works, writes the result.
pub async fn run() -> io::Result<()> {
    let plan: Plan = serde_json::from_reader(io::stdin())?;
    let load = Rc::new(Load::new(plan)?);
    let mut clients = JoinSet::new();
    match load.plan.rate {
        Some(rate) => open_loop(&load, rate, &mut clients).await,
        None => {
            for _ in 0..load.plan.connections {
                clients.spawn_local(closed_loop(load.clone()));
            }
        }
    }
    while clients.join_next().await.is_some() {}
    println!("{}", load.result());
    Ok(())
}

async fn closed_loop(load: Rc<Load>) {
    let mut client = Client::new(load.plan.port, load.plan.keep_alive);
    let mut bytes = Vec::new();
    while let Some(job) = load.next() {
        load.ask(&mut client, &mut bytes, job, Instant::now()).await;
    }
}

async fn open_loop(load: &Rc<Load>, rate: f64, clients: &mut JoinSet<()>) {
    let idle: Rc<RefCell<Vec<Client>>> = Rc::default();
    loop {
        let due = load.began + Duration::from_secs_f64(load.sent.get() as f64 / rate);
        if load.deadline.is_some_and(|deadline| due >= deadline) {
            return;
        }
        sleep_until(due.into()).await;
        let Some(job) = load.next() else { return };
        let (load, idle) = (load.clone(), idle.clone());
        clients.spawn_local(async move {
            let rested = idle.borrow_mut().pop();
            let mut client = rested.unwrap_or_else(|| Client::new(load.plan.port, load.plan.keep_alive));
            load.ask(&mut client, &mut Vec::new(), job, due).await;
            idle.borrow_mut().push(client);
        });
    }
}

/// What a client asks next.
struct Job {
    kind: usize,
    key: Option<u64>,
    visitor: Option<usize>,
}

struct Visitor {
    cookie: Option<String>,
    /// The number of the last page.
    last: Option<u64>,
}

struct Load {
    plan: Plan,
    requests: Vec<Request>,
    expected: Vec<Option<Vec<u8>>>,
    /// Of the first answer, where nothing else is expected.
    lengths: Vec<Cell<Option<usize>>>,
    began: Instant,
    deadline: Option<Instant>,
    sent: Cell<usize>,
    random: RefCell<Rng>,
    visitors: RefCell<Vec<Visitor>>,
    waiting: RefCell<VecDeque<usize>>,
    timely: Cell<usize>,
    progressed: Cell<Instant>,
    failed: Cell<usize>,
    failures: RefCell<BTreeMap<String, usize>>,
    /// µs
    latencies: RefCell<Vec<Vec<u32>>>,
}

impl Load {
    fn new(plan: Plan) -> io::Result<Self> {
        let read = |kind: &Kind| kind.expected.as_ref().map(fs::read).transpose();
        let visitors = plan.visitors.iter().flatten().map(|cookie| Visitor { cookie: cookie.clone(), last: None });
        let visitors: Vec<_> = visitors.collect();
        let began = Instant::now();
        let load = Self {
            requests: plan.kinds.iter().map(|kind| Request::new(kind, plan.keep_alive)).collect::<io::Result<_>>()?,
            expected: plan.kinds.iter().map(read).collect::<io::Result<_>>()?,
            lengths: plan.kinds.iter().map(|_| Cell::default()).collect(),
            deadline: plan.seconds.map(|seconds| began + Duration::from_secs_f64(seconds)),
            sent: Cell::default(),
            random: RefCell::new(Rng::with_seed(plan.seed)),
            waiting: RefCell::default(),
            visitors: RefCell::new(visitors),
            timely: Cell::default(),
            progressed: Cell::new(began),
            failed: Cell::default(),
            failures: RefCell::default(),
            latencies: RefCell::new(vec![Vec::new(); plan.kinds.len()]),
            began,
            plan,
        };
        let mut order: Vec<usize> = (0..load.visitors.borrow().len()).collect();
        load.random.borrow_mut().shuffle(&mut order);
        load.waiting.replace(order.into());
        Ok(load)
    }

    fn next(&self) -> Option<Job> {
        let sent = self.sent.get();
        let over = match (&self.plan.keys, self.plan.count, self.deadline) {
            (Some(Keys::Each(keys)), ..) => sent as u64 >= *keys,
            (_, Some(count), _) => sent >= count,
            (.., deadline) => deadline.is_none_or(|deadline| Instant::now() >= deadline),
        };
        if over || self.failed.get() > MAX_FAILURES {
            return None;
        }
        self.sent.set(sent + 1);
        let key = match self.plan.keys {
            Some(Keys::Random(keys)) => Some(self.random.borrow_mut().u64(..keys.max(1))),
            Some(Keys::Each(_)) => Some(sent as u64),
            None => None,
        };
        // More connections than visitors leave some without.
        let visitor = match self.plan.visitors {
            Some(_) => Some(self.waiting.borrow_mut().pop_front()?),
            None => None,
        };
        Some(Job { kind: self.choose(), key, visitor })
    }

    fn choose(&self) -> usize {
        if self.plan.kinds.len() == 1 {
            return 0;
        }
        let mut number = self.random.borrow_mut().f64();
        let found = self.plan.kinds.iter().position(|kind| {
            number -= kind.share;
            number < 0.0
        });
        found.unwrap_or(self.plan.kinds.len() - 1)
    }

    async fn ask(&self, client: &mut Client, bytes: &mut Vec<u8>, job: Job, began: Instant) {
        {
            let visitors = self.visitors.borrow();
            let cookie = job.visitor.and_then(|visitor| visitors[visitor].cookie.as_deref());
            self.requests[job.kind].write(bytes, job.key, cookie);
        }
        let wrong = match timeout(LIMIT, client.ask(bytes)).await {
            Ok(Ok(answer)) => self.wrong(&job, &answer),
            Ok(Err(why)) => Some(why.to_string()),
            Err(_) => {
                client.close();
                Some(format!("no answer for {} s", LIMIT.as_secs()))
            }
        };
        self.note(&job, began, wrong);
        if let Some(visitor) = job.visitor {
            self.waiting.borrow_mut().push_back(visitor);
        }
    }

    fn note(&self, job: &Job, began: Instant, wrong: Option<String>) {
        let now = Instant::now();
        self.progressed.set(now);
        if let Some(why) = wrong {
            self.failed.set(self.failed.get() + 1);
            let what = format!("{}: {why}", self.plan.kinds[job.kind].path);
            *self.failures.borrow_mut().entry(what).or_default() += 1;
            return;
        }
        let micros = u32::try_from((now - began).as_micros()).unwrap_or(u32::MAX);
        self.latencies.borrow_mut()[job.kind].push(micros);
        if self.deadline.is_none_or(|deadline| now <= deadline) {
            self.timely.set(self.timely.get() + 1);
        }
    }

    fn wrong(&self, job: &Job, answer: &Answer) -> Option<String> {
        let kind = &self.plan.kinds[job.kind];
        if answer.status != 200 {
            return Some(format!("status {}", answer.status));
        }
        if let Some(visitor) = job.visitor {
            return self.wrong_visit(visitor, answer);
        }
        if let Some((name, hit)) = &kind.hit {
            let value = answer.field(name);
            if !value.is_some_and(|value| hit.is(value)) {
                return Some(format!("{name}: {}", value.unwrap_or("none")));
            }
        }
        if kind.any {
            return None;
        }
        let Some(expected) = &self.expected[job.kind] else {
            let length = self.lengths[job.kind].get().unwrap_or(answer.body.len());
            self.lengths[job.kind].set(Some(length));
            return (length != answer.body.len()).then(|| format!("{} bytes instead of {length}", answer.body.len()));
        };
        match &kind.pieces {
            None if answer.body == expected.as_slice() => None,
            None if answer.body.len() != expected.len() => {
                Some(format!("{} bytes instead of {}", answer.body.len(), expected.len()))
            }
            Some(lengths) => {
                let mut rest = expected.as_slice();
                let pieces = lengths.iter().map(|length| {
                    let (piece, after) = rest.split_at((*length).min(rest.len()));
                    rest = after;
                    piece
                });
                (!made_of(answer.body, &pieces.collect::<Vec<_>>())).then(|| "other content".to_owned())
            }
            None => Some("other content".to_owned()),
        }
    }

    /// Each page must count one more than the visitor's last one did.
    fn wrong_visit(&self, visitor: usize, answer: &Answer) -> Option<String> {
        let visitor = &mut self.visitors.borrow_mut()[visitor];
        let page = String::from_utf8_lossy(answer.body);
        let count = page.split_once("<h1>Visit ").and_then(|(_, rest)| rest.split_once("</h1>"));
        let count = count.and_then(|(number, rest)| Some((number.parse::<u64>().ok()?, rest)));
        let Some((count, rest)) = count else { return Some("the page is another".into()) };
        if !rest.contains("</ul>") {
            return Some("the page is another".into());
        }
        if let Some(last) = visitor.last.filter(|last| count != last + 1) {
            return Some(format!("counts {count} after {last}"));
        }
        visitor.last = Some(count);
        if let Some(set) = answer.field("set-cookie") {
            visitor.cookie = Some(set.split(';').next().unwrap_or_default().to_owned());
        }
        None
    }

    fn result(&self) -> serde_json::Value {
        let latencies = self.latencies.borrow();
        let seconds = self.plan.seconds.filter(|_| self.deadline_counts());
        let mut result = serde_json::json!({
            "completed": latencies.iter().map(Vec::len).sum::<usize>(),
            "timely": self.timely.get(),
            "seconds": seconds.unwrap_or_else(|| (self.progressed.get() - self.began).as_secs_f64()),
            "failures": self.failures.borrow().iter().collect::<Vec<_>>(),
        });
        if self.plan.percentiles {
            let mut all: Vec<u32> = latencies.iter().flatten().copied().collect();
            all.sort_unstable();
            result["p50"] = percentile(&all, 50).into();
            result["p99"] = percentile(&all, 99).into();
        } else {
            let names = self.plan.kinds.iter().map(|kind| kind.name.clone());
            let named = names.zip(latencies.iter().map(|some| serde_json::json!(some)));
            result["latencies"] = serde_json::Value::Object(named.collect());
        }
        if self.plan.visitors.is_some() {
            result["cookies"] = self.visitors.borrow().iter().map(|visitor| visitor.cookie.clone()).collect();
        }
        result
    }

    /// Whether the time ends the load.
    fn deadline_counts(&self) -> bool {
        self.plan.count.is_none() && !matches!(self.plan.keys, Some(Keys::Each(_)))
    }
}

/// By the nearest rank: a value that was measured.
fn percentile(sorted: &[u32], percent: usize) -> Option<u32> {
    sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<u32> = (1..=100).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (Some(50), Some(99)));
        assert_eq!((percentile(&[7], 99), percentile(&[], 50)), (Some(7), None));
    }
}
