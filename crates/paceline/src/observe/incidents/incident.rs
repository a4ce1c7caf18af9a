//! What is known of one incident: when, which process, the requests in its hands, where its threads were, the last
//! lines of the log, its memory. And the same as JSON, in which it is asked for and kept. It never looks anything up.

use serde_json::{json, Value};

/// What a part of a kept incident may take, so that a file stays small.
const MAX_REQUESTS: usize = 64;
const MAX_BACKTRACES: usize = 32;
const LONGEST_TEXT: usize = 32 << 10;
const MAX_SAMPLES: usize = 600;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident => $word:literal,)+) => {
        /// What happened. The words are stable: programs may rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Kind::$variant => $word,)+
                }
            }

            /// What it means, in a line.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Kind::$variant => concat!($($doc,)+).trim_ascii(),)+
                }
            }
        }
    };
}

kinds! {
    /// A worker ended that was not told to
    WorkerDied => "worker-died",
    /// A worker did not become ready
    WorkerFailed => "worker-failed",
    /// A preloader ended that was not told to
    PreloaderDied => "preloader-died",
    /// A request was in the application for longer than `app_hard_timeout`; its worker was replaced
    TimedOut => "timed-out",
    /// A worker's channel broke; it was replaced
    Broken => "worker-broken",
    /// A worker took more memory than it may
    MemoryLimit => "memory-limit",
    /// An application did not start
    StartFailed => "start-failed",
    /// A new generation did not start; the old one goes on
    RestartFailed => "restart-failed",
    /// A new generation was rolled back
    RolledBack => "rolled-back",
    /// A side process ended that was not told to
    ProcessDied => "process-died",
    /// A page of the automatic page cache differed from the application's; its route was turned off
    PageDiffered => "page-differed",
}

/// A process of an application, as it was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    /// Numbers of the workers in the front that are gone with it, by which what is told later finds it.
    pub workers: Vec<u64>,
    /// 1-based; 0: the preloader.
    pub index: usize,
    pub pid: i32,
    pub generation: u64,
    /// Seconds that it lived.
    pub lived: f64,
}

/// A request that a process had in its hands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InHand {
    /// X-Request-Id.
    pub id: String,
    pub method: String,
    /// Without the query, which may hold secrets.
    pub path: String,
    /// 0: not known.
    pub thread: usize,
    /// Since its head was read, in milliseconds.
    pub age_ms: u64,
    /// What became of it, such as "answered 502"; empty: not known.
    pub outcome: String,
}

/// Where a Ruby thread was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backtrace {
    pub thread: String,
    pub lines: Vec<String>,
}

/// Memory of the process at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Unix seconds.
    pub at: f64,
    /// Private bytes.
    pub bytes: u64,
}

/// One incident.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// 8 hex digits; of a start that failed those of its report.
    pub id: String,
    /// Unix seconds.
    pub at: f64,
    pub kind: Kind,
    pub site: String,
    /// What happened, in a sentence.
    pub what: String,
    pub process: Option<Process>,
    pub requests: Vec<InHand>,
    pub backtraces: Vec<Backtrace>,
    /// The last lines of the log, the oldest first.
    pub log: Vec<String>,
    /// The oldest first.
    pub memory: Vec<Sample>,
    /// Why a start failed, as text.
    pub report: Option<String>,
    /// What came of it.
    pub after: Vec<String>,
    /// How often it happened just so, one after another.
    pub times: u64,
    /// Unix seconds of the last time.
    pub last: f64,
}

impl Incident {
    /// One that happened at this moment (Unix seconds).
    pub fn new(kind: Kind, site: &str, what: impl Into<String>, at: f64) -> Incident {
        Incident {
            id: uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect(),
            at,
            kind,
            site: site.into(),
            what: cut(what.into()),
            process: None,
            requests: Vec::new(),
            backtraces: Vec::new(),
            log: Vec::new(),
            memory: Vec::new(),
            report: None,
            after: Vec::new(),
            times: 1,
            last: at,
        }
    }

    pub fn of(mut self, process: Process) -> Incident {
        self.process = Some(process);
        self
    }

    pub fn with_memory(mut self, samples: impl IntoIterator<Item = Sample>) -> Incident {
        self.memory = samples.into_iter().collect();
        self.memory.drain(..self.memory.len().saturating_sub(MAX_SAMPLES));
        self
    }

    /// With the text of a start's report, and its number.
    pub fn with_report(mut self, id: &str, text: String) -> Incident {
        self.id = id.into();
        self.report = Some(cut(text));
        self
    }

    /// Adds a request, or what is new of one that is known.
    pub fn request(&mut self, request: InHand) {
        match self.requests.iter_mut().find(|known| known.id == request.id) {
            Some(known) => *known = request,
            None => {
                self.requests.push(request);
                self.requests.truncate(MAX_REQUESTS);
            }
        }
    }

    pub fn backtrace(&mut self, backtrace: Backtrace) {
        if self.backtraces.len() < MAX_BACKTRACES {
            self.backtraces.push(backtrace);
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "at": self.at,
            "kind": self.kind.as_str(),
            "site": self.site,
            "what": self.what,
            "process": self.process.as_ref().map(|process| json!({
                "workers": process.workers,
                "index": process.index,
                "pid": process.pid,
                "generation": process.generation,
                "lived": process.lived,
            })),
            "requests": self.requests.iter().map(|request| json!({
                "id": request.id,
                "method": request.method,
                "path": request.path,
                "thread": request.thread,
                "age_ms": request.age_ms,
                "outcome": request.outcome,
            })).collect::<Vec<_>>(),
            "backtraces": self.backtraces.iter()
                .map(|backtrace| json!({ "thread": backtrace.thread, "lines": backtrace.lines }))
                .collect::<Vec<_>>(),
            "log": self.log,
            "memory": self.memory.iter().map(|sample| json!([sample.at, sample.bytes])).collect::<Vec<_>>(),
            "report": self.report,
            "after": self.after,
            "times": self.times,
            "last": self.last,
        })
    }

    /// None: it is no incident, or not of this version.
    pub fn from_json(value: &Value) -> Option<Incident> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |value: &Value| value.as_array().map_or_else(Vec::new, |all| all.iter().filter_map(text).collect());
        let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let small = |value: &Value| usize::try_from(value.as_u64().unwrap_or(0)).unwrap_or(0);
        let kind = value["kind"].as_str()?;
        let at = value["at"].as_f64()?;
        let process = value["process"].as_object().map(|_| &value["process"]).map(|process| Process {
            workers: each(&process["workers"]).iter().filter_map(Value::as_u64).collect(),
            index: small(&process["index"]),
            pid: process["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0),
            generation: process["generation"].as_u64().unwrap_or(0),
            lived: process["lived"].as_f64().unwrap_or(0.0),
        });
        let request = |request: &Value| InHand {
            id: text(&request["id"]).unwrap_or_default(),
            method: text(&request["method"]).unwrap_or_default(),
            path: text(&request["path"]).unwrap_or_default(),
            thread: small(&request["thread"]),
            age_ms: request["age_ms"].as_u64().unwrap_or(0),
            outcome: text(&request["outcome"]).unwrap_or_default(),
        };
        let backtrace =
            |one: &Value| Backtrace { thread: text(&one["thread"]).unwrap_or_default(), lines: texts(&one["lines"]) };
        let sample = |one: &Value| Some(Sample { at: one[0].as_f64()?, bytes: one[1].as_u64()? });
        Some(Incident {
            id: text(&value["id"])?,
            at,
            kind: Kind::ALL.iter().copied().find(|known| known.as_str() == kind)?,
            site: text(&value["site"])?,
            what: text(&value["what"])?,
            process,
            requests: each(&value["requests"]).iter().map(request).collect(),
            backtraces: each(&value["backtraces"]).iter().map(backtrace).collect(),
            log: texts(&value["log"]),
            memory: each(&value["memory"]).iter().filter_map(sample).collect(),
            report: text(&value["report"]),
            after: texts(&value["after"]),
            times: value["times"].as_u64().unwrap_or(1),
            last: value["last"].as_f64().unwrap_or(at),
        })
    }
}

/// No more of a text than a file is to hold.
pub fn cut(text: String) -> String {
    cut_to(text, LONGEST_TEXT)
}

/// The first so many bytes of a text.
pub fn cut_to(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let mut incident = Incident::new(Kind::TimedOut, "shop", "GET /slow took too long", 1_700_000_000.25)
            .of(Process { workers: vec![7], index: 2, pid: 4711, generation: 3, lived: 12.5 })
            .with_memory([Sample { at: 1_700_000_000.0, bytes: 1 << 20 }]);
        incident.request(InHand {
            id: "a".into(),
            method: "GET".into(),
            path: "/slow".into(),
            thread: 1,
            age_ms: 9,
            outcome: String::new(),
        });
        incident.request(InHand { id: "a".into(), outcome: "answered 504".into(), ..incident.requests[0].clone() });
        incident.backtrace(Backtrace { thread: "1".into(), lines: vec!["app.rb:1".into()] });
        incident.log = vec!["[shop.2] hello".into()];
        incident.after = vec!["replaced".into()];
        let again = Incident::from_json(&incident.to_json()).unwrap();
        assert_eq!(again, incident);
        assert_eq!(again.requests.len(), 1);
        assert_eq!(again.requests[0].outcome, "answered 504");
        for broken in
            [json!({}), json!({ "id": "a", "at": 1.0, "kind": "later", "site": "s", "what": "w" }), json!([1])]
        {
            assert_eq!(Incident::from_json(&broken), None);
        }
    }

    #[test]
    fn kinds_are_documented() {
        let docs = include_str!("../../../../../docs/incidents.md");
        for kind in Kind::ALL {
            let row = format!("| `{}` | {} |", kind.as_str(), kind.meaning());
            assert!(docs.contains(&row), "docs/incidents.md lacks the row\n{row}");
        }
    }

    #[test]
    fn no_part_grows_without_end() {
        let mut incident = Incident::new(Kind::WorkerDied, "shop", "é".repeat(1 << 20), 0.0)
            .with_memory((0..10_000).map(|n| Sample { at: f64::from(n), bytes: 1 }));
        for n in 0..1000 {
            incident.request(InHand { id: n.to_string(), ..InHand::default() });
            incident.backtrace(Backtrace::default());
        }
        assert!(incident.what.len() < LONGEST_TEXT + 8);
        assert_eq!((incident.requests.len(), incident.backtraces.len()), (MAX_REQUESTS, MAX_BACKTRACES));
        assert_eq!((incident.memory.len(), incident.memory[599].at), (MAX_SAMPLES, 9999.0));
    }
}
