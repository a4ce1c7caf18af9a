//! One fault in a clean application, and what is found first; and what must not be found.

use super::{
    find,
    samples::{asset, clean, each, fields, sql},
};
use crate::{
    candidate::{Candidate, Edit, Kind, Load, Trial},
    observation::{Compressible, Observations, ObservedRequest, Queue, Repeat, Server},
    profile::{Profile, ProfiledLine},
    protocol::*,
};

fn kinds(observations: &Observations) -> Vec<Kind> {
    find(observations).iter().map(|candidate| candidate.kind).collect()
}

/// What is found first in a clean application with this fault.
fn first(fault: impl Fn(&mut Observations)) -> Candidate {
    let mut observations = clean();
    fault(&mut observations);
    let found = find(&observations);
    assert!(!found.is_empty(), "nothing found");
    found[0].clone()
}

fn first_in_requests(fault: impl Fn(&mut ObservedRequest)) -> Candidate {
    first(|observations| each(observations, &fault))
}

fn other_server(observations: &mut Observations) {
    observations.server = Server::Other("Puma".into());
}

fn at(text: &str) -> String {
    text.into()
}

fn calls(origin: &str, count: u64, connect: f64, wait: f64) -> OutboundCalls {
    OutboundCalls {
        origin: origin.into(),
        calls: count,
        gets: count,
        connections: count,
        connect_us: connect,
        wait_us: wait,
        longest_us: wait / count.max(1) as f64,
        client: at("net_http"),
        at: at("app/controllers/x.rb:12"),
        ..OutboundCalls::default()
    }
}

#[test]
fn a_clean_application_has_no_candidates() {
    assert_eq!(kinds(&clean()), []);
    let mut under_puma = clean();
    other_server(&mut under_puma);
    under_puma.settings.compress = None;
    assert_eq!(kinds(&under_puma), []);
    let mut rack = clean();
    rack.rails.clear();
    rack.facts = Facts { environment: at("production"), yjit: at("missing"), ..Facts::default() };
    assert_eq!(kinds(&rack), []);
    assert_eq!(kinds(&Observations::default()), []);
}

/// What a developer's machine has does not matter there.
#[test]
fn a_development_is_left_alone() {
    let mut observations = clean();
    observations.facts.environment = at("development");
    observations.facts.log_level = Some(at("debug"));
    (observations.facts.eager_load, observations.facts.cache_classes) = (Some(false), Some(false));
    each(&mut observations, |request| {
        request.evidence.log = Some(Log { lines: 200, debug_lines: 190, us: 9_000.0, ..Log::default() });
    });
    assert_eq!(kinds(&observations), []);
}

#[test]
fn connections_that_are_opened_again_and_again() {
    let found = first_in_requests(|request| {
        let tls = OutboundCalls { tls_us: 9_000.0, ..calls("https://suppliers.example:443", 15, 3_000.0, 1_000.0) };
        request.evidence.outbound = vec![tls];
    });
    assert_eq!((found.kind, found.routes.as_slice()), (Kind::ColdConnections, &[at("GET /beers")][..]));
    assert_eq!(found.sentence, "15 TLS connections to suppliers.example in each request");
    assert_eq!(
        (found.fix.file.as_str(), found.fix.line.as_str()),
        ("config/initializers/paceline.rb", "Paceline::HTTP.install!")
    );
    assert_eq!(found.trial, super::patch(Patch::named("http_install")));
    assert!((found.ceiling_us - 12_000.0).abs() < 1.0, "{}", found.ceiling_us);

    let kept = |observations: &mut Observations| {
        each(observations, |request| {
            request.evidence.outbound = vec![OutboundCalls { connections: 0, ..calls("http://x", 15, 9_000.0, 0.0) }];
        });
    };
    let mut observations = clean();
    kept(&mut observations);
    assert_eq!(kinds(&observations), []);
}

#[test]
fn calls_that_wait_for_each_other() {
    let serial = |request: &mut ObservedRequest| {
        request.evidence.outbound = vec![OutboundCalls { connections: 0, ..calls("http://x", 4, 0.0, 16_000.0) }];
    };
    let found = first_in_requests(serial);
    assert_eq!((found.kind, found.at.as_str()), (Kind::SerialCalls, "app/controllers/x.rb:12"));
    assert_eq!(found.sentence, "4 calls wait for each other, and none may need another's answer");
    let at_once = "Paceline::HTTP.all { |calls| urls.each { |url| calls.get(url) } }";
    assert_eq!(found.fix.line, format!("require \"paceline/http\"; {at_once}"));
    let used_already = first(|observations| {
        observations.facts.http = at("paceline");
        each(observations, serial);
    });
    assert_eq!(used_already.fix.line, at_once);
    assert!(matches!(found.trial, Trial::WhatIf { .. }) && matches!(found.fix.edit, Edit::Shown { .. }));

    let repeated = first_in_requests(|request| {
        serial(request);
        request.evidence.outbound[0].identical = 3;
    });
    assert!(repeated.sentence.starts_with("3 of 4 calls ask x for what an earlier one has already brought"));

    let mut at_once = clean();
    each(&mut at_once, |request| {
        // They waited longer than the request took: they ran at once.
        request.evidence.outbound = vec![OutboundCalls { connections: 0, ..calls("http://x", 4, 0.0, 60_000.0) }];
    });
    assert_eq!(kinds(&at_once), []);
}

#[test]
fn slow_queries() {
    let brewery = "SELECT \"breweries\".* FROM \"breweries\" WHERE \"breweries\".\"id\" = ? LIMIT ?";
    let found = first_in_requests(|request| {
        request.evidence.sql.push(sql("Brewery Load", brewery, 31, 31, 9_000.0));
    });
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::RepeatedQueries, "Beer.includes(:brewery)"));
    assert_eq!(found.at, "app/views/beers/_row.html.erb:4");
    assert!(found.sentence.starts_with("the same query with other values 31 times: SELECT breweries.* FROM"));

    let cached = |request: &mut ObservedRequest| {
        request.evidence.sql.push(Sql { cached: 30, ..sql("Brewery Load", brewery, 31, 31, 9_000.0) });
    };
    let mut observations = clean();
    each(&mut observations, cached);
    assert_eq!(kinds(&observations), []);

    let by_style = "SELECT \"beers\".* FROM \"beers\" WHERE \"beers\".\"style\" = ?";
    let scan = Some(Scan { table: at("beers"), columns: vec![at("style")], ..Scan::default() });
    let found = first_in_requests(|request| {
        request.evidence.sql.push(Sql { scan: scan.clone(), ..sql("Beer Load", by_style, 1, 3, 8_000.0) });
    });
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::MissingIndex, "add_index :beers, :style"));
    let Trial::Patch { trial, control, .. } = found.trial else { panic!("{found:?}") };
    assert_eq!(control, [Patch::named("database_copy")]);
    assert_eq!(trial[0].params["columns"], serde_json::json!(["style"]));

    let mut small = clean();
    each(&mut small, |request| {
        request.evidence.sql.push(Sql { scan: scan.clone(), ..sql("Beer Load", by_style, 1, 3, 300.0) });
    });
    assert_eq!(kinds(&small), [], "a small table is read at once");
}

#[test]
fn a_missing_index_of_postgresql_is_no_more_than_supposed() {
    let by_style = "SELECT \"beers\".* FROM \"beers\" WHERE \"beers\".\"style\" = ?";
    let counted = "SELECT COUNT(*) FROM \"beers\" WHERE \"beers\".\"style\" = ?";
    let (table, columns) = (at("beers"), vec![at("style")]);
    let scan = Scan { table, columns, rows: Some(200_000), matching: Some(40), cost: None };
    let with = |request: &mut ObservedRequest, scan: &Scan| {
        let scan = Some(scan.clone());
        for (shape, us) in [(by_style, 8_000.0), (counted, 2_000.0)] {
            request.evidence.sql.push(Sql { scan: scan.clone(), ..sql("Beer Load", shape, 1, 3, us) });
        }
    };
    let mut observations = clean();
    observations.routes.iter_mut().flat_map(|route| &mut route.requests).for_each(|request| with(request, &scan));
    let [found] = &find(&observations)[..] else { panic!("one index for all routes: {:?}", kinds(&observations)) };
    assert_eq!((found.kind, found.routes.len()), (Kind::MissingIndex, 2));
    assert_eq!(found.fix.line, "add_index :beers, :style, algorithm: :concurrently");
    assert!(matches!(found.fix.edit, Edit::Migration { concurrently: true, .. }));
    assert_eq!(found.short, "reads of all of beers");
    let sentence = "PostgreSQL reads all 200,000 rows of beers to find about 40 by style: SELECT beers.* FROM beers";
    assert!(found.sentence.starts_with(sentence), "{}", found.sentence);
    let Trial::WhatIf { trial } = &found.trial else { panic!("{found:?}") };
    assert_eq!((trial[0].name.as_str(), &trial[0].params["all"]), ("free_sql", &true.into()));
    assert_eq!(trial[0].params["shapes"], serde_json::json!([by_style, counted]));

    let asked = Scan { cost: Some((4_250.4, 8.3)), ..scan };
    let found = first_in_requests(|request| with(request, &asked));
    assert!(found.sentence.contains(" (its planner's cost: 4,250, with the index 8): "), "{}", found.sentence);
    let plain = first(|observations| {
        observations.rails.clear();
        each(observations, |request| with(request, &asked));
    });
    assert_eq!(plain.fix.line, "CREATE INDEX CONCURRENTLY ON beers (style)");
}

#[test]
fn slow_markup() {
    let found = first_in_requests(|request| {
        request.evidence.xml = Some(Xml { tags: 1200, us: 15_000.0, at: at("app/views/feed.builder:3") });
    });
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::BuilderXml, "config.paceline.xml = true"));
    assert_eq!(found.sentence, "Builder writes 1,200 tags in Ruby");

    let found = first_in_requests(|request| {
        request.evidence.xml_mini = Some(XmlMini { backend: at("REXML"), calls: 1, us: 5_000.0, at: at("") });
    });
    assert_eq!((found.kind, found.sentence.as_str()), (Kind::XmlMini, "REXML reads XML in Ruby, 1 time"));

    let light = View { name: at("app/views/beers/_row.html.erb"), count: 200, us: 16_000.0, own_us: 14_000.0 };
    let mut long_list = clean();
    each(&mut long_list, |request| request.evidence.views = vec![light.clone()]);
    assert_eq!(kinds(&long_list), [], "many quick renderings");
    let slow = View { name: at("app/views/beers/_row.html.erb"), count: 31, us: 16_000.0, own_us: 14_000.0 };
    let found = first_in_requests(|request| request.evidence.views = vec![slow.clone()]);
    assert_eq!(
        (found.kind, found.short.as_str()),
        (Kind::SlowPartial, "31 renderings of app/views/beers/_row.html.erb")
    );
    assert!(found.fix.line.starts_with("cache(row) {"));

    let mut queries_within = clean();
    each(&mut queries_within, |request| {
        request.evidence.views = vec![slow.clone()];
        request.evidence.sql =
            vec![sql("Brewery Load", "SELECT \"breweries\".* FROM \"breweries\" WHERE \"id\" = ?", 31, 31, 5_000.0)];
        request.evidence.sql[0].at = at("app/models/beer.rb:9");
    });
    assert_eq!(kinds(&queries_within), [Kind::RepeatedQueries], "the partial is slow by its queries");

    let found = first_in_requests(|request| {
        request.evidence.json = Some(Json { us: 12_000.0, bytes: 90_000, at: at("app/controllers/api.rb:7") });
    });
    assert_eq!(
        (found.kind, found.sentence.as_str()),
        (Kind::WholeRecords, "87.9 KB of JSON from 31 records, with all of their columns")
    );
}

#[test]
fn a_line_that_does_what_it_need_not() {
    let profiled = |at: &str, call: &str, part: f64| Profile {
        readings: 40,
        total_us: 60_000.0,
        lines: vec![
            ProfiledLine { at: at.into(), call: call.into(), leaf: call.into(), us: 60_000.0 * part },
            ProfiledLine { at: "app/views/x.erb:2".into(), us: 60_000.0 * (1.0 - part), ..ProfiledLine::default() },
        ],
    };
    let parsing = |request: &mut ObservedRequest| {
        request.profile = profiled("app/models/settings.rb:7", "load_file (psych)", 0.6);
    };
    let found = first_in_requests(parsing);
    assert_eq!((found.kind, found.at.as_str()), (Kind::SlowLine, "app/models/settings.rb:7"));
    assert_eq!(found.sentence, "12 of 20 ms pass in one line: it parses in each request, by load_file (psych)");
    let Trial::Computed { gain_us, .. } = found.trial else { panic!("{found:?}") };
    assert!((gain_us - 12_000.0).abs() < 1.0, "{gain_us}");

    for (at, call, part) in
        [("app/a.rb:1", "load_file (psych)", 0.1), ("app/a.rb:1", "step (sqlite3)", 0.6), ("", "sleep", 0.6)]
    {
        let mut observations = clean();
        each(&mut observations, |request| request.profile = profiled(at, call, part));
        assert_eq!(kinds(&observations), [], "{at} {call} {part}");
    }

    let mut explained = clean();
    each(&mut explained, |request| {
        parsing(request);
        let at = at("app/models/settings.rb:7");
        request.evidence.pstore = Some(PStore { transactions: 3, us: 11_000.0, bytes: 400_000, at, writes: 0 });
    });
    assert_eq!(kinds(&explained), [Kind::PStore], "another rule has found the line");
}

#[test]
fn slow_stores() {
    let store = PStore { transactions: 3, us: 6_000.0, bytes: 400_000, at: at("app/models/guide.rb:9"), writes: 0 };
    let found = first_in_requests(|request| request.evidence.pstore = Some(store.clone()));
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::PStore, "Paceline::PStore.replace!"));
    let Trial::Patch { control, .. } = found.trial else { panic!("{found:?}") };
    assert_eq!(control, [Patch::named("pstore_copy")]);

    let found = first(|observations| {
        observations.facts.session_store = Some(at("Rack::Session::PStoreStore"));
        observations.routes.iter_mut().flat_map(|route| &mut route.requests).for_each(|request| {
            request.evidence.pstore = Some(store.clone());
        });
    });
    assert_eq!((found.kind, found.routes.len()), (Kind::FileSessions, 2));
    let Trial::Patch { trial, .. } = found.trial else { panic!("{found:?}") };
    assert_eq!(trial, [Patch::named("session_store")]);

    let found = first_in_requests(|request| {
        request.evidence.session = Some(Session { store: at("CookieStore"), bytes: 3_800, changed: true });
    });
    assert_eq!(
        (found.kind, found.sentence.as_str()),
        (Kind::LargeSession, "the session is a cookie of 3.7 KB, sent with every request")
    );
    let found = first_in_requests(|request| {
        request.request.headers = fields(&[("Cookie", &"x".repeat(5_000))]);
    });
    assert_eq!(found.kind, Kind::LargeSession);
}

#[test]
fn work_that_does_not_belong_into_a_request() {
    let found = first_in_requests(|request| {
        request.evidence.middleware = vec![Middleware { name: at("Stamper"), own_us: 6_000.0 }];
    });
    assert_eq!(
        (found.kind, found.sentence.as_str()),
        (Kind::SlowMiddleware, "the middleware Stamper takes 6.0 ms of each request")
    );

    let found = first_in_requests(|request| {
        request.evidence.mail = Some(Mail { count: 1, us: 900.0, at: at("app/controllers/x.rb:4") });
    });
    assert_eq!(found.kind, Kind::SyncMail);
    assert_eq!(found.sentence, "a mail is sent before the page is answered, and it waits for smtp");
    let mut harmless = clean();
    harmless.facts.mail_delivery = Some(at("file"));
    each(&mut harmless, |request| request.evidence.mail = Some(Mail { count: 1, us: 900.0, at: at("") }));
    assert_eq!(kinds(&harmless), []);
}

#[test]
fn settings_that_are_a_mistake() {
    let found = first(|observations| {
        observations.facts.log_level = Some(at("debug"));
        each(observations, |request| {
            request.evidence.log =
                Some(Log { lines: 120, bytes: 9_000, us: 2_000.0, debug_lines: 100, ..Log::default() });
        });
    });
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::DebugLog, "config.log_level = :info"));
    assert_eq!(found.fix.file, "config/environments/production.rb");

    let found = first(|observations| observations.facts.eager_load = Some(false));
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::EagerLoad, "config.eager_load = true"));
    let found = first(|observations| observations.facts.perform_caching = Some(false));
    let line = "config.action_controller.perform_caching = true";
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::FragmentsNotKept, line));
    let found = first(|observations| observations.facts.template_caching = Some(false));
    assert_eq!(found.fix.line, "config.action_view.cache_template_loading = true");

    let found = first(|observations| observations.facts.cache_classes = Some(false));
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::CodeReloading, "config.cache_classes = true"));
    let found = first(|observations| {
        observations.rails = at("7.2.0");
        observations.facts.cache_classes = Some(false);
    });
    assert_eq!(found.fix.line, "config.enable_reloading = false");

    let found = first(|observations| observations.facts.yjit = at("off"));
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::Yjit, "yjit = \"on\""));
    let mut waiting = clean();
    waiting.facts.yjit = at("off");
    waiting.routes.iter_mut().flat_map(|route| &mut route.requests).for_each(|request| request.cpu_us = 2_000.0);
    assert_eq!(kinds(&waiting), []);
}

#[test]
fn a_cache_that_workers_do_not_share() {
    let with = |store: &str, workers: u32, reads: u64| {
        let mut observations = clean();
        observations.facts.cache_store = Some(format!("ActiveSupport::Cache::{store}"));
        observations.settings.workers = Some(workers);
        each(&mut observations, |request| {
            request.evidence.cache =
                Some(Cache { reads, hits: 1, us: 9.0, at: at("app/views/beers/index.html.erb:2") });
        });
        observations
    };
    let found = find(&with("MemoryStore", 4, 3));
    assert_eq!((found.len(), found[0].kind), (1, Kind::CacheStore));
    assert!(
        found[0].sentence.starts_with("Rails.cache is in the memory of each of 4 workers: "),
        "{}",
        found[0].sentence
    );
    assert_eq!(found[0].at, "app/views/beers/index.html.erb:2");
    assert_eq!(found[0].fix.file, "config/environments/production.rb");
    assert!(matches!(&found[0].fix.edit, Edit::Configure { gem: true, .. }));
    let found = find(&with("NullStore", 1, 3));
    assert_eq!(found[0].sentence, "Rails.cache keeps nothing (NullStore), and a request reads 3 entries of it");

    // One process has nothing to share; files are shared.
    assert_eq!(kinds(&with("MemoryStore", 1, 3)), []);
    assert_eq!(kinds(&with("FileStore", 4, 3)), []);
    let mut files = with("FileStore", 1, 200);
    let read = files.routes[0].requests[0].evidence.cache.clone().map(|cache| Cache { us: 8_000.0, ..cache });
    files.routes.iter_mut().flat_map(|route| &mut route.requests).for_each(|request| {
        request.evidence.cache.clone_from(&read);
    });
    let found = find(&files);
    assert_eq!((found.len(), found[0].kind, found[0].routes.len()), (1, Kind::CacheStore, 2));
    assert!(found[0].sentence.starts_with("a request opens 200 files of Rails.cache, "), "{}", found[0].sentence);
    assert_eq!(found[0].trial, super::patch(Patch::named("cache_store")));
    assert!(matches!(&found[0].fix.edit, Edit::Configure { gem: true, .. }));
    let mut unused = with("NullStore", 4, 3);
    each(&mut unused, |request| request.evidence.cache = None);
    assert_eq!(kinds(&unused), []);
    let mut development = with("NullStore", 4, 3);
    development.facts.environment = at("development");
    assert_eq!(kinds(&development), []);
}

#[test]
fn garbage() {
    let much = |observations: &mut Observations| {
        observations
            .routes
            .iter_mut()
            .flat_map(|route| &mut route.requests)
            .for_each(|request| request.gc_us = 5_000.0);
    };
    let slots = first(|observations| {
        much(observations);
        observations.settings.env.insert(at("RUBY_GC_HEAP_FREE_SLOTS"), at("10"));
    });
    assert!(slots.sentence.ends_with("of a request, with RUBY_GC_HEAP_FREE_SLOTS"), "{}", slots.sentence);
    let own = first(|observations| {
        much(observations);
        other_server(observations);
        observations.settings.env.insert(at("RUBY_GC_MALLOC_LIMIT"), at("1000"));
    });
    let Trial::Environment { unset, .. } = own.trial else { panic!("{own:?}") };
    assert_eq!(unset, ["RUBY_GC_MALLOC_LIMIT"]);
    let usual = first(|observations| {
        much(observations);
        other_server(observations);
    });
    assert!(usual.fix.line.starts_with("RUBY_GC_MALLOC_LIMIT=67108864 "), "{}", usual.fix.line);
    let forced = first(|observations| {
        much(observations);
        observations.routes.iter_mut().flat_map(|route| &mut route.requests).for_each(|request| {
            request.allocated = 3_000;
            request.evidence.gc = Some(Gc { us: 5_000.0, runs: 1 });
        });
    });
    assert!(forced.sentence.ends_with("though there is little: GC.start is called"), "{}", forced.sentence);
    let by_variables = first(|observations| {
        each(observations, |request| {
            (request.gc_us, request.allocated) = (5_000.0, 3_000);
            request.evidence.gc = Some(Gc { us: 5_000.0, runs: 1 });
        });
        observations.settings.env.insert(at("RUBY_GC_MALLOC_LIMIT"), at("1000"));
    });
    assert!(by_variables.sentence.ends_with("of a request, with RUBY_GC_MALLOC_LIMIT"), "{}", by_variables.sentence);
}

/// A copy has served for a moment only; the workers' heap may be in another state.
#[test]
fn garbage_of_live_requests() {
    let live = |requests: u64, gc_us: f64| {
        let mut observations = clean();
        observations.queue = Some(Queue { requests, gc_us, app_us: 20_000.0, ..Queue::default() });
        find(&observations)
    };
    let found = live(100, 10_000.0);
    assert_eq!((found.len(), found[0].kind), (1, Kind::GcSettings));
    assert!(found[0].sentence.starts_with("collecting garbage takes 50 % of a request"), "{}", found[0].sentence);
    assert_eq!(live(100, 1_000.0), []);
    assert_eq!(live(5, 10_000.0), [], "too few requests to tell");
}

#[test]
fn pages_that_a_cache_could_answer() {
    let page = |control: &'static str, more: &'static [(&str, &str)]| {
        move |request: &mut ObservedRequest| {
            request.repeat = Repeat { is_same_twice: true, is_same_for_visitors: Some(true), asks_for_nobody: true };
            request.evidence.session = None;
            request.headers = fields(&[("Content-Type", "text/html")]);
            request.headers.extend(fields(&[("Cache-Control", control)]));
            request.headers.extend(fields(more));
        }
    };
    for (control, more, kind) in [
        ("max-age=0, private, must-revalidate", &[][..], Kind::CacheHeaders),
        ("public, max-age=60", &[("Vary", "*")][..], Kind::CacheVary),
        ("public, max-age=60", &[("Set-Cookie", "_shop=1; HttpOnly")][..], Kind::CacheCookie),
    ] {
        assert_eq!(first_in_requests(page(control, more)).kind, kind, "{control}");
    }
    // Without proof nothing is said: nobody compared, the application asked, or it used a session or set a cookie.
    let unproven = |change: fn(&mut ObservedRequest)| {
        let mut observations = clean();
        each(&mut observations, |request| {
            page("private", &[])(request);
            request.request.headers.clear();
            change(request);
        });
        kinds(&observations)
    };
    assert_eq!(unproven(|_| {}), [Kind::CacheHeaders]);
    for change in [
        (|request| request.repeat.is_same_for_visitors = None) as fn(&mut ObservedRequest),
        |request| request.repeat.asks_for_nobody = false,
        |request| request.evidence.session = Some(Session::default()),
        |request| request.headers.extend(fields(&[("Set-Cookie", "a=b")])),
    ] {
        assert_eq!(unproven(change), []);
    }
    for (rails, gem, line) in [
        ("6.1.7", "", "expires_in 1.minute, public: true"),
        ("", "sinatra", "cache_control :public, max_age: 60"),
        ("", "", "headers[\"cache-control\"] = \"public, max-age=60\""),
    ] {
        let found = first(|observations| {
            observations.rails = rails.into();
            observations.facts.gems = [(gem.to_owned(), "1".to_owned())].into();
            each(observations, page("private", &[]));
        });
        assert_eq!(found.fix.line, line);
    }
    for (control, more) in [("no-store", &[][..]), ("public, max-age=60", &[("Vary", "Accept")][..])] {
        let mut observations = clean();
        each(&mut observations, page(control, more));
        assert_eq!(kinds(&observations), [], "{control}");
    }
    let mut quick = clean();
    each(&mut quick, |request| {
        page("private", &[])(request);
        request.wall_us = 4_000.0;
    });
    assert_eq!(kinds(&quick), []);
    let mut personal = clean();
    each(&mut personal, |request| {
        page("private", &[])(request);
        request.repeat.is_same_for_visitors = Some(false);
    });
    assert_eq!(kinds(&personal), []);
}

#[test]
fn how_bytes_reach_the_visitor() {
    let found = first(|observations| {
        other_server(observations);
        each(observations, |request| request.pieces = 1_300);
    });
    assert_eq!(
        (found.kind, found.sentence.as_str()),
        (Kind::SmallWrites, "the body comes in 1,300 pieces, and Puma sends each by itself")
    );
    let mut gathered = clean();
    each(&mut gathered, |request| request.pieces = 1_300);
    assert_eq!(kinds(&gathered), [], "Paceline gathers them");

    let plain = |path: &str| {
        let mut asset = asset(path, "text/css", 90_000);
        asset.headers = fields(&[("Content-Type", "text/css"), ("Cache-Control", "max-age=31536000"), ("ETag", "1")]);
        asset
    };
    let found = first(|observations| observations.assets = vec![plain("/assets/app-0123abcd.css")]);
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::UncompressedAssets, "compress = true"));
    let found = first(|observations| observations.assets = vec![asset("/app.css", "text/css", 30_000)]);
    assert_eq!(found.kind, Kind::UnfingerprintedAssets);
    let found = first(|observations| observations.settings.compress = Some(false));
    assert_eq!((found.kind, found.trial), (Kind::UncompressedPages, Trial::Compression));
    assert_eq!((found.routes.len(), found.fix.line.as_str()), (2, "compress = true"));
}

#[test]
fn text_of_a_type_that_is_not_compressed() {
    let page = |bytes: u64, compressible: Compressible| {
        move |request: &mut ObservedRequest| {
            (request.body_bytes, request.compressible) = (bytes, compressible);
            request.headers = fields(&[("Content-Type", "application/x-price-list")]);
        }
    };
    let found = first_in_requests(page(3_000, Compressible::OtherType));
    assert_eq!((found.kind, found.trial), (Kind::UncompressedPages, Trial::Compression));
    let why = "2.9 KB of text are sent without compression, because their type is application/x-price-list";
    assert_eq!(found.sentence, why);
    assert!(matches!(found.fix.edit, Edit::Shown { .. }));
    for (bytes, compressible, compress) in [
        (900, Compressible::OtherType, Some(true)),
        (3_000, Compressible::No, Some(true)),
        (3_000, Compressible::No, Some(false)),
        (900, Compressible::Yes, Some(false)),
        (3_000, Compressible::Yes, None),
    ] {
        let mut observations = clean();
        observations.routes.truncate(1);
        observations.settings.compress = compress;
        each(&mut observations, page(bytes, compressible));
        assert_eq!(kinds(&observations), [], "{bytes} {compressible:?} {compress:?}");
    }
}

#[test]
fn what_shows_under_load() {
    let waiting = |observations: &mut Observations, part: f64| {
        if let Some(queue) = &mut observations.queue {
            queue.p95_us = 80_000.0;
        }
        observations.routes.iter_mut().flat_map(|route| &mut route.requests).for_each(|request| {
            request.cpu_us = request.wall_us * part;
        });
    };
    let found = first(|observations| waiting(observations, 0.1));
    let from = Load { workers: 2, threads: 3, threads_min: 3 };
    assert_eq!(
        (found.kind, found.trial),
        (Kind::TooFewThreads, Trial::Load { from, to: Load { threads: 10, threads_min: 1, ..from }, visitors: 30 })
    );
    assert_eq!((found.short.as_str(), found.fix.line.as_str()), ("threads 3 -> 10", "threads = 10"));
    let found = first(|observations| {
        waiting(observations, 0.1);
        observations.settings.puma_config = Some("config/puma.rb".into());
    });
    assert_eq!((found.fix.file.as_str(), found.fix.line.as_str()), ("config/puma.rb", "threads 10, 10"));
    assert_eq!(found.trial, Trial::Load { from, to: Load { threads: 10, threads_min: 10, ..from }, visitors: 30 });
    let found = first(|observations| {
        waiting(observations, 0.1);
        observations.queue = Some(Queue { requests: 100, p95_us: 40_000.0, app_us: 20_000.0, ..Queue::default() });
        (observations.settings.workers, observations.settings.threads) = (Some(1), Some(1));
    });
    assert_eq!(found.short, "threads 1 -> 4", "enough for three visitors at once");
    let found = first(|observations| {
        waiting(observations, 0.9);
        observations.machine.cores = Some(8);
    });
    assert_eq!((found.kind, found.short.as_str()), (Kind::QueueWaits, "workers 2 -> 8"));
    let mut busy = clean();
    waiting(&mut busy, 0.9);
    assert_eq!(kinds(&busy), [], "all processors are in use");
    busy.machine.cores = Some(8);
    busy.machine.memory_available = Some(300 << 20);
    assert_eq!(kinds(&busy), [], "there is no memory for more workers");
    let found = first(|observations| {
        other_server(observations);
        observations.settings.threads = Some(16);
        observations
            .routes
            .iter_mut()
            .flat_map(|route| &mut route.requests)
            .for_each(|request| request.cpu_us = 19_000.0);
    });
    assert_eq!((found.kind, found.short.as_str()), (Kind::TooManyThreads, "threads 16 -> 3"));

    let found = first(|observations| {
        (observations.machine.swapped, observations.machine.major_faults) = (Some(150 << 20), Some(40.0));
        observations.settings.workers = Some(4);
    });
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::MemoryPressure, "workers = 2"));
    let found = first(|observations| observations.settings.preload = Some(false));
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::Preload, "preload = true"));
}

/// One change for two routes is one candidate, and what saves most comes first.
#[test]
fn candidates_are_merged_and_ordered() {
    let mut observations = clean();
    let cold = |us: f64| vec![calls("http://x", 5, us, 0.0)];
    observations.routes[0].requests.iter_mut().for_each(|request| request.evidence.outbound = cold(2_000.0));
    observations.routes[1].requests.iter_mut().for_each(|request| {
        request.evidence.outbound = cold(9_000.0);
        request.evidence.xml = Some(Xml { tags: 500, us: 15_000.0, at: at("") });
    });
    let found = find(&observations);
    assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::BuilderXml, Kind::ColdConnections]);
    assert_eq!(found[1].routes, ["GET /beers/*", "GET /beers"], "the route with most to gain first");
}
