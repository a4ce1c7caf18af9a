//! Reports as the terminal and programs get them.

use super::*;
use crate::{
    candidate::{Candidate, Edit, Fix, Kind, Load, Measure, Place},
    mask::Difference,
    protocol::{Deliver, Patch},
    verdict::{Bound, Bytes, CompressedRoute, Gain, LoadFigures, UnderLoad},
};

fn fix(file: &str, line: &str, edit: Edit) -> Fix {
    Fix { file: file.into(), line: line.into(), edit }
}

fn shown() -> Edit {
    Edit::Shown { why: "your code".into() }
}

fn insert() -> Edit {
    Edit::Insert { lines: Vec::new(), place: Place::End, gem: true }
}

fn candidate(kind: Kind, route: &str, sentence: &str, fix: Fix, trial: Trial) -> Candidate {
    Candidate {
        kind,
        routes: if route.is_empty() { Vec::new() } else { vec![route.into()] },
        sentence: sentence.into(),
        short: fix.line.clone(),
        at: String::new(),
        fix,
        trial,
        measure: Measure::Wall,
        ceiling_us: 0.0,
        subject: String::new(),
        holds: Vec::new(),
    }
}

fn patch() -> Trial {
    Trial::Patch { trial: vec![Patch::named("x")], control: Vec::new(), deliver: Deliver::Gathered }
}

fn verdict(candidate: Candidate, gain_us: f64, of_us: f64, part: [f64; 2], bound: Bound) -> Verdict {
    let route = candidate.routes.first().cloned().unwrap_or_default();
    let interval_us = Some((of_us * part[0], of_us * part[1]));
    Verdict {
        candidate,
        standing: Standing::Worth,
        gains: vec![Gain { route, share: 0.1, gain_us, of_us, interval_us, bound }],
        bytes: Bytes::Same,
        saved_us: gain_us * 0.1,
        memory: None,
        load: None,
        compression: Vec::new(),
        rounds: 9,
    }
}

fn provision() -> Verdict {
    let fix = fix("config/initializers/paceline.rb", "Paceline::HTTP.install!", insert());
    let sentence = "15 TLS connections to suppliers.example in each request";
    let candidate = candidate(Kind::ColdConnections, "GET /provision", sentence, fix, patch());
    verdict(candidate, 1_120_000.0, 1_836_000.0, [0.58, 0.64], Bound::Measured)
}

fn feed() -> Verdict {
    let edit = Edit::Configure { setting: "config.paceline.xml".into(), line: String::new(), gem: true };
    let fix = fix("config/application.rb", "config.paceline.xml = true", edit);
    let candidate = candidate(Kind::BuilderXml, "GET /feed.atom", "Builder writes 1,200 tags in Ruby", fix, patch());
    verdict(candidate, 17_000.0, 19_000.0, [0.88, 0.91], Bound::Measured)
}

fn beers() -> Verdict {
    let fix = fix("", "Beer.includes(:brewery)", shown());
    let trial = Trial::WhatIf { trial: Vec::new() };
    let mut one = candidate(Kind::RepeatedQueries, "GET /beers", "the same query 31 times", fix, trial);
    one.short = "31 repeated queries".into();
    one.at = "app/views/beers/_row.erb:4".into();
    one.subject = "SELECT breweries".into();
    verdict(one, 41_000.0, 60_000.0, [0.6, 0.7], Bound::AtMost)
}

fn in_vain(short: &str, why: &str) -> Verdict {
    let mut verdict = feed();
    verdict.candidate.short = short.into();
    verdict.standing = Standing::NotWorth { why: why.into() };
    verdict
}

fn sample() -> Sample {
    let note = WriteNote {
        what: "INSERT INTO \"visits\" (\"path\") VALUES (?)".into(),
        at: "app/models/visit.rb:4".into(),
        kind: "sql".into(),
    };
    let dropped = |request: &str, why: Why| Dropped { request: request.into(), why };
    Sample {
        requests: 214,
        live: true,
        dropped: vec![
            dropped("GET /x", Why::Writes(note)),
            dropped("GET /y", Why::Failed { error: "NoMethodError: x".into() }),
            dropped("GET /z", Why::Status { status: 503, to: String::new() }),
            dropped("GET /account", Why::Status { status: 302, to: "/login".into() }),
        ],
        statuses: [(302, 9), (404, 3)].into(),
        noisy: vec!["GET /random".into()],
        programs: [("convert".into(), "app/models/image.rb:7".into()), ("true".into(), String::new())].into(),
        spent: vec![
            Spent {
                route: "GET /beers".into(),
                at: "app/views/beers/_row.erb:4".into(),
                us: 50_000.0,
                of_us: 60_000.0,
                ..Spent::default()
            },
            Spent {
                route: "GET /guide".into(),
                at: "app/models/guide.rb:9".into(),
                call: "sort_by".into(),
                us: 21_000.0,
                of_us: 50_000.0,
            },
        ],
        unconfined: ["files", "connections", "signals", "calls"].map(String::from).into(),
    }
}

#[test]
fn the_text() {
    let verdicts = vec![
        in_vain("threads 5 -> 3", "+0.4 %, noise"),
        beers(),
        feed(),
        provision(),
        in_vain("YJIT", "-11 %, +64 MB a worker"),
    ];
    let report = Report::new("shop", sample(), verdicts);
    let expected = "\
shop: three changes are worth it (214 replayed GETs, 9 rounds each, beside live traffic)
 1  GET /provision   -1,120 ms of 1,836 (61 %; 95 % sure: 58 to 64)   same bytes
    15 TLS connections to suppliers.example in each request
    + config/initializers/paceline.rb:  Paceline::HTTP.install!              paceline doctor apply 1
 2  GET /beers       up to -41 ms of 60 (what if the 31 repeated queries were free)   same bytes
    the same query 31 times   app/views/beers/_row.erb:4
    + Beer.includes(:brewery)
 3  GET /feed.atom   -17 ms of 19 (89 %; 95 % sure: 88 to 91)   same bytes
    Builder writes 1,200 tags in Ruby
    + config/application.rb:  config.paceline.xml = true                     paceline doctor apply 3
GET /guide spends 21 of 50 ms in app/models/guide.rb:9, in sort_by
looked at, not worth it: threads 5 -> 3 (+0.4 %, noise); YJIT (-11 %, +64 MB a worker)
GET /x was left out: it writes (INSERT INTO visits, app/models/visit.rb:4)
GET /y was left out: it fails (NoMethodError: x)
GET /z was left out: it is answered 503
GET /account was left out: it is answered 302 (to /login)
of the replayed GETs 12 got no page: 302 (9), 404 (3)
GET /random was not compared: its pages differ from one request to the next
programs that requests have started: convert (app/models/image.rb:7), true
not held by this kernel, only by guards: files, TCP connections, signals, modes and owners
";
    assert_eq!(report.text(), expected);
    assert!(report.text().lines().all(|line| line.chars().count() <= 100));
    assert_eq!((report.exit_code(), report.advice(2).unwrap().verdict.candidate.kind), (1, Kind::RepeatedQueries));
    assert!(report.advice(4).is_none());
}

/// While other trials go on; a page cache is spoken of when the causes are known.
#[test]
fn advice_is_told_when_its_trial_is_over() {
    let told = "worth it: GET /beers   up to -41 ms of 60 (what if the 31 repeated queries were free)   same bytes   + Beer.includes(:brewery)";
    assert_eq!(beers().at_once().as_deref(), Some(told));
    assert_eq!(in_vain("YJIT", "noise").at_once(), None);
    let mut cached = feed();
    cached.candidate.kind = Kind::CacheHeaders;
    assert_eq!(cached.at_once(), None);
}

#[test]
fn other_outcomes() {
    let mut changes = feed();
    changes.standing = Standing::Changes;
    let difference = Difference { status: Some((200, 500)), ..Difference::default() };
    changes.bytes = Bytes::Differ { request: "GET /feed.atom".into(), difference };
    let mut failed = feed();
    (failed.candidate.short, failed.standing) =
        ("YJIT".into(), Standing::Failed { why: "Ruby was built without it".into() });
    let fix = fix("config/environments/production.rb", "config.eager_load = true", shown());
    let trial = Trial::Untried { why: "it slows the first requests only".into() };
    let mut untried = provision();
    untried.candidate = candidate(Kind::EagerLoad, "", "production loads code when it is needed", fix, trial);
    (untried.gains, untried.bytes, untried.rounds) = (Vec::new(), Bytes::NotCompared, 0);
    let report = Report::new("shop", Sample { requests: 1, ..Sample::default() }, vec![changes, failed, untried]);
    let expected = "\
shop: one change is worth it (1 replayed GET, 9 rounds each)
 1  all pages        (not tried: it slows the first requests only)
    production loads code when it is needed
    + config/environments/production.rb:  config.eager_load = true
 -  GET /feed.atom   -17 ms of 19 (89 %; 95 % sure: 88 to 91)   bytes differ: GET /feed.atom: status 200 became 500
    + config/application.rb:  config.paceline.xml = true
could not be tried: YJIT (Ruby was built without it)
";
    assert_eq!(report.text(), expected);
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn what_was_tried_under_load() {
    let load = |threads| Load { workers: 2, threads, threads_min: 1 };
    let trial = Trial::Load { from: load(1), to: load(4), visitors: 8 };
    let edit = Edit::Setting { key: "threads".into(), value: "4".into() };
    let fix = fix("paceline.toml", "threads = 4", edit);
    let sentence = "one of twenty requests waits 30 ms or longer for a thread";
    let mut quicker = verdict(
        candidate(Kind::TooFewThreads, "", sentence, fix, trial),
        12_000.0,
        40_000.0,
        [0.25, 0.34],
        Bound::Measured,
    );
    quicker.bytes = Bytes::NotCompared;
    quicker.memory = Some(5 << 20);
    let control = LoadFigures { per_second: 200.0, p99_us: 90_000.0, memory: Some(60 << 20), cpu_us: None };
    let trial = LoadFigures { per_second: 286.0, p99_us: 50_000.0, memory: Some(65 << 20), cpu_us: None };
    quicker.load = Some(UnderLoad { control, trial });
    let mut smaller = quicker.clone();
    smaller.candidate.kind = Kind::TooManyThreads;
    (smaller.gains, smaller.memory, smaller.saved_us) = (Vec::new(), Some(-(21 << 20)), 0.0);
    let report = Report::new("shop", Sample { requests: 3, ..Sample::default() }, vec![quicker, smaller]);
    let expected = "\
shop: two changes are worth it (3 replayed GETs, 9 rounds each)
 1  all pages   -12 ms of 40 at 8 visitors at once (30 %; 95 % sure: 25 to 34)
    one of twenty requests waits 30 ms or longer for a thread
    200 -> 286 requests/s; 99 of 100 answered within 90 -> 50 ms; 5.0 MB more memory
    + paceline.toml:  threads = 4                                            paceline doctor apply 1
 2  all pages   -21.0 MB of 60.0 MB (35 % of the workers' memory)
    one of twenty requests waits 30 ms or longer for a thread
    200 -> 286 requests/s; 99 of 100 answered within 90 -> 50 ms; 21.0 MB less memory
    + paceline.toml:  threads = 4                                            paceline doctor apply 2
";
    assert_eq!(report.text(), expected);
    assert_eq!(report.json()["advice"][0]["load"]["visitors"], 8);
    assert_eq!(report.json()["advice"][0]["fix"]["setting"], "threads = 4");
    assert_eq!(report.json()["advice"][0]["load"]["trial"]["per_second"], 286.0);
}

/// Of two allocators the one that saves more is advice.
#[test]
fn memory_and_bytes() {
    let allocator = |name: &str, variable: &str, memory: i64| {
        let env = [(variable.to_string(), "2".to_string())].into();
        let trial = Trial::Memory { env, load: Load { workers: 1, threads: 5, threads_min: 1 } };
        let edit = Edit::Setting { key: "allocator".into(), value: String::new() };
        let fix = fix("paceline.toml", &format!("allocator = {name:?}"), edit);
        let sentence = "5 threads of a worker keep what becomes free";
        let mut one =
            verdict(candidate(Kind::Allocator, "", sentence, fix, trial), 0.0, 0.0, [0.0, 0.0], Bound::Measured);
        one.candidate.short = name.into();
        let figures = |memory, cpu_us| LoadFigures { memory: Some(memory), cpu_us: Some(cpu_us), ..Default::default() };
        one.load = Some(UnderLoad { control: figures(120 << 20, 12_000.0), trial: figures(80 << 20, 11_800.0) });
        (one.gains, one.saved_us, one.memory, one.bytes) = (Vec::new(), 0.0, Some(memory), Bytes::NotCompared);
        one
    };
    let line = fix("paceline.toml", "compress = true", Edit::Setting { key: "compress".into(), value: "true".into() });
    let sentence = "30 KB of text are sent without compression";
    let pages = candidate(Kind::UncompressedPages, "GET /all", sentence, line, Trial::Compression);
    let mut pages = verdict(pages, 27_000.0, 0.0, [0.0, 0.0], Bound::Computed);
    let route = |route: &str| CompressedRoute {
        route: route.into(),
        share: 0.1,
        coding: "gzip".into(),
        before: 31_000,
        after: 3_100,
        cpu_us: 310.0,
    };
    pages.compression = vec![route("GET /all"), route("GET /a")];
    pages.gains.push(Gain { route: "GET /a".into(), ..pages.gains[0].clone() });
    (pages.bytes, pages.gains[0].interval_us) = (Bytes::NotCompared, None);
    let all = vec![
        allocator("two arenas", "MALLOC_ARENA_MAX", -(30 << 20)),
        pages,
        allocator("jemalloc", "LD_PRELOAD", -(40 << 20)),
        allocator("third", "X", -(20 << 20)),
    ];
    let report = Report::new("shop", Sample { requests: 3, ..Sample::default() }, all);
    let expected = "\
shop: two changes are worth it (3 replayed GETs, 9 rounds each)
 1  GET /all, GET /a   -27.2 KB of 30.3 KB (90 %) by gzip, for 0.31 ms of the processor
    30 KB of text are sent without compression
    also GET /a -27.2 KB of 30.3 KB (90 %)
    + paceline.toml:  compress = true                                        paceline doctor apply 1
 2  all pages          -40.0 MB of 120 MB (33 % of a worker's memory)
    5 threads of a worker keep what becomes free
    with 5 threads a request takes 12 ms of the processor, with it 1.7 % less
    + paceline.toml:  allocator = \"jemalloc\"                                 paceline doctor apply 2
looked at, not worth it: two arenas (jemalloc saves more memory); third (jemalloc saves more memory)
";
    assert_eq!(report.text(), expected);
    let json = report.json();
    assert_eq!((&json["advice"][0]["trial"], &json["advice"][1]["trial"]), (&"compression".into(), &"memory".into()));
    assert_eq!(json["advice"][0]["compression"][1]["after"], 3_100);
    assert_eq!(json["advice"][1]["environment"]["set"]["LD_PRELOAD"], "2");
    assert_eq!(json["advice"][1]["load"]["visitors"], 5);
    let kept: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(kept, report);
}

#[test]
fn nothing_to_say() {
    let report = Report::new("shop", Sample { requests: 30, ..Sample::default() }, Vec::new());
    assert_eq!((report.text().as_str(), report.exit_code()), ("shop: nothing to change (30 replayed GETs)\n", 0));
}

/// Many routes of one change, and what was computed.
#[test]
fn several_routes() {
    let mut many = provision();
    let route = |name: &str, gain_us: f64| Gain { route: name.into(), gain_us, ..many.gains[0].clone() };
    let more = [route("GET /a", 30_000.0), route("GET /b", 20_000.0), route("GET /c", -10.0)];
    many.gains.extend(more);
    let trial = Trial::Computed { gain_us: 40_000.0, why: "answered from the page cache".into() };
    let mut computed = beers();
    (computed.candidate.trial, computed.bytes, computed.gains[0].bound) = (trial, Bytes::NotCompared, Bound::Computed);
    computed.gains[0].interval_us = None;
    let text = Report::new("shop", Sample::default(), vec![many, computed]).text();
    assert!(text.contains("\n 1  GET /provision and 2 more   -1,120 ms of 1,836"), "{text}");
    assert!(text.contains("\n    also GET /a -30 ms of 1,836, GET /b -20 ms of 1,836\n"), "{text}");
    assert!(text.contains(" -41 ms of 60 (computed: answered from the page cache)\n"), "{text}");
}

/// An index was tried, and the loop that uses it could be saved at most.
#[test]
fn what_was_tried_goes_before_what_could_be() {
    let mut index = feed();
    index.candidate.subject = "SELECT breweries".into();
    index.candidate.kind = Kind::MissingIndex;
    let kinds = |verdicts: Vec<Verdict>| -> Vec<Kind> {
        let report = Report::new("shop", Sample::default(), verdicts);
        report.advice.iter().map(|one| one.verdict.candidate.kind).collect()
    };
    assert_eq!(kinds(vec![beers(), index.clone()]), [Kind::MissingIndex, Kind::RepeatedQueries]);
    assert_eq!(
        kinds(vec![beers(), provision(), index]),
        [Kind::ColdConnections, Kind::MissingIndex, Kind::RepeatedQueries]
    );
    assert_eq!(kinds(vec![beers(), feed()]), [Kind::RepeatedQueries, Kind::BuilderXml]);
}

/// A cache would hide the cause, and is not needed once it is gone.
#[test]
fn a_cache_goes_behind_the_causes() {
    let cached = |of_us: f64| {
        let fix = fix("", "expires_in 1.minute, public: true", shown());
        let trial = Trial::Computed { gain_us: of_us - 100.0, why: "x".into() };
        let one = candidate(Kind::CacheHeaders, "GET /beers", "the page is the same", fix, trial);
        verdict(one, of_us - 100.0, of_us, [0.0, 0.0], Bound::Computed)
    };
    let report = Report::new("shop", Sample::default(), vec![cached(60_000.0), beers()]);
    let kinds: Vec<Kind> = report.advice.iter().map(|one| one.verdict.candidate.kind).collect();
    assert_eq!(kinds, [Kind::RepeatedQueries, Kind::CacheHeaders]);
    let report = Report::new("shop", Sample::default(), vec![cached(45_000.0), beers()]);
    assert_eq!((report.advice.len(), report.others.len()), (1, 1));
    let expected = "looked at, not worth it: expires_in 1.minute, public: true (quick enough without what slows it)\n";
    assert!(report.text().ends_with(expected), "{}", report.text());
    assert_eq!(Report::new("shop", Sample::default(), vec![cached(45_000.0)]).advice.len(), 1);
}

#[test]
fn fewer_bytes_go_behind_what_takes_the_time() {
    let compress = |gain_us| {
        let fix = fix("paceline.toml", "compress = true", shown());
        let one = candidate(Kind::UncompressedPages, "GET /beers", "34 KB of text", fix, Trial::Compression);
        verdict(one, gain_us, 0.0, [0.0, 0.0], Bound::Computed)
    };
    let line = |gain_us| {
        let trial = Trial::Computed { gain_us, why: String::new() };
        let one = candidate(Kind::SlowLine, "GET /beers", "it sorts", fix("", "once", shown()), trial);
        verdict(one, gain_us, 50_000.0, [0.0, 0.0], Bound::AtMost)
    };
    for (line_us, first) in [(15_000.0, Kind::SlowLine), (5_000.0, Kind::UncompressedPages)] {
        let report = Report::new("shop", Sample::default(), vec![compress(24_000.0), line(line_us)]);
        assert_eq!(report.advice[0].verdict.candidate.kind, first, "{line_us}");
    }
}

#[test]
fn json_for_programs() {
    let report = Report::new("shop", sample(), vec![provision(), in_vain("YJIT", "noise")]);
    let json = report.json();
    assert_eq!(json["version"], 1);
    let first = &json["advice"][0];
    assert_eq!((first["number"].as_u64(), first["kind"].as_str()), (Some(1), Some("cold_connections")));
    assert_eq!((&first["fix"]["can_apply"], &first["fix"]["setting"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(first["gains"][0]["bound"], "measured");
    assert_eq!(first["bytes"], "same");
    assert_eq!(
        (json["others"][0]["standing"].as_str(), json["others"][0]["why"].as_str()),
        (Some("not_worth"), Some("noise"))
    );
    assert_eq!(json["sample"]["left_out"][0]["at"], "app/models/visit.rb:4");
    assert_eq!(json["sample"]["programs"]["convert"], "app/models/image.rb:7");
    assert_eq!(json["sample"]["unconfined"][1], "connections");
    assert_eq!(first["saved_us"], 112_000.0);
    let mut untried = provision();
    untried.candidate.trial = Trial::Untried { why: "no".into() };
    let json = Report::new("shop", sample(), vec![untried]).json();
    assert_eq!(json["advice"][0]["saved_us"], serde_json::Value::Null, "what puts it in order is no gain");
    // It can be kept.
    let kept: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(kept, report);
}

/// The blocks of docs/doctor.md that show one advice.
#[test]
fn the_documentation_shows_what_is_printed() {
    let docs = include_str!("../../../../docs/doctor.md");
    let load = Load { workers: 1, threads: 5, threads_min: 1 };
    let setting = |line: &str| fix("paceline.toml", line, Edit::Setting { key: "x".into(), value: "x".into() });
    let figures = |memory, cpu_us| LoadFigures { memory, cpu_us, ..LoadFigures::default() };
    let without_time = |candidate: Candidate| {
        let mut one = verdict(candidate, 0.0, 0.0, [0.0, 0.0], Bound::Computed);
        (one.bytes, one.gains[0].interval_us) = (Bytes::NotCompared, None);
        one
    };

    let line =
        fix("config/puma.rb", "threads 5, 5", Edit::Puma { name: "threads".into(), line: "threads 5, 5".into() });
    let sentence =
        "one of twenty requests waits 67 ms or longer for a thread, while requests compute 0.9 % of their time only";
    let trial = Trial::Load { from: Load { threads: 1, ..load }, to: load, visitors: 4 };
    let waiting = candidate(Kind::TooFewThreads, "", sentence, line, trial);
    let mut waiting = verdict(waiting, 70_000.0, 92_000.0, [0.73, 0.79], Bound::Measured);
    let control = LoadFigures { per_second: 43.0, p99_us: 159_000.0, ..LoadFigures::default() };
    let trial = LoadFigures { per_second: 182.0, p99_us: 33_000.0, ..LoadFigures::default() };
    (waiting.bytes, waiting.load) = (Bytes::NotCompared, Some(UnderLoad { control, trial }));

    let sentence = "the C library's allocator keeps memory that was freed";
    let trial = Trial::Memory { env: [("LD_PRELOAD".to_string(), "x".to_string())].into(), load };
    let mut memory = without_time(candidate(Kind::Allocator, "", sentence, setting("allocator = \"jemalloc\""), trial));
    let (control, trial) = (figures(Some(120 << 20), Some(12_000.0)), figures(Some(80 << 20), Some(11_796.0)));
    (memory.gains, memory.memory) = (Vec::new(), Some(-(40 << 20)));
    memory.load = Some(UnderLoad { control, trial });

    let sentence = "31 KB of text are sent without compression";
    let line = setting("compress = true");
    let mut pages = without_time(candidate(Kind::UncompressedPages, "GET /all", sentence, line, Trial::Compression));
    let (route, coding) = ("GET /all".into(), "gzip".into());
    pages.compression =
        vec![CompressedRoute { route, share: 1.0, coding, before: 31 << 10, after: 3 << 10, cpu_us: 310.0 }];

    let shape = "SELECT orders.* FROM orders WHERE orders.customer = ?";
    let asked = "(its planner's cost: 8,450, with the index 72)";
    let sentence = format!("PostgreSQL reads all 200,000 rows of orders to find about 20 by customer {asked}: {shape}");
    let line = "add_index :orders, :customer, algorithm: :concurrently";
    let edit = Edit::Migration { table: "orders".into(), columns: vec!["customer".into()], concurrently: true };
    let index = fix("db/migrate", line, edit);
    let index =
        candidate(Kind::MissingIndex, "GET /customers/*", &sentence, index, Trial::WhatIf { trial: Vec::new() });
    let short = "reads of all of orders".into();
    let index = Candidate { short, at: "app/controllers/customers_controller.rb:9".into(), ..index };
    let index = verdict(index, 21_000.0, 24_000.0, [0.8, 0.9], Bound::AtMost);

    for one in [waiting, memory, pages, index] {
        let report = Report::new("shop", Sample::default(), vec![one]);
        for line in report.text().lines().skip(1) {
            assert!(docs.contains(&format!("\n    {line}\n")), "docs/doctor.md has no line:\n    {line}");
        }
    }
}

/// However much the partial takes: some of it is theirs.
#[test]
fn a_partial_stands_behind_the_queries_in_it() {
    let fix = fix("", "cache(its record) { ... }", shown());
    let trial = Trial::WhatIf { trial: Vec::new() };
    let partial = |route: &str| {
        let mut one = candidate(Kind::SlowPartial, route, "a partial is rendered 31 times", fix.clone(), trial.clone());
        (one.subject, one.holds) = ("app/views/beers/_row.erb".into(), vec![beers().candidate.subject]);
        verdict(one, 50_000.0, 60_000.0, [0.7, 0.9], Bound::AtMost)
    };
    let kinds = |route: &str| {
        let report = Report::new("shop", Sample::default(), vec![partial(route), feed(), beers()]);
        report.advice.iter().map(|one| one.verdict.candidate.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("GET /beers"), [Kind::RepeatedQueries, Kind::SlowPartial, Kind::BuilderXml]);
    assert_eq!(kinds("GET /news"), [Kind::SlowPartial, Kind::RepeatedQueries, Kind::BuilderXml]);
}
