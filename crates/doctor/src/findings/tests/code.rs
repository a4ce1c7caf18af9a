//! Faults in the code of an application.

use super::*;

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
    assert_eq!(found.trial, patch(Patch::named("http_install")));
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

    // A polymorphic association loads from two tables, by one line.
    let found = first_in_requests(|request| {
        for (table, us) in [("beers", 900.0), ("cans", 9_000.0)] {
            let shape = format!("SELECT \"{table}\".* FROM \"{table}\" WHERE \"{table}\".\"id\" = ? LIMIT ?");
            let association = Some((at("Note"), at("subject")));
            request.evidence.sql.push(Sql { association, ..sql("Load", &shape, 17, 17, us) });
        }
    });
    let both = "the same query with other values 17 times: SELECT cans.* FROM cans WHERE cans.id = ? LIMIT ?; \
                and 17 times: SELECT beers.* FROM beers WHERE beers.id = ? LIMIT ?";
    assert_eq!((found.sentence.as_str(), found.short.as_str()), (both, "34 repeated queries"));
    assert_eq!(found.fix.line, "Note.includes(:subject)");
    let Trial::WhatIf { trial } = &found.trial else { panic!("{found:?}") };
    assert_eq!(trial[0].params["shapes"].as_array().map(Vec::len), Some(2));

    let cached = |request: &mut ObservedRequest| {
        request.evidence.sql.push(Sql { cached: 30, ..sql("Brewery Load", brewery, 31, 31, 9_000.0) });
    };
    let mut observations = clean();
    each(&mut observations, cached);
    assert_eq!(kinds(&observations), []);

    // By the time of its line.
    let found = first_in_requests(|request| {
        cached(request);
        let line = |at: &str| ProfiledLine {
            at: at.into(),
            call: "find_by (activerecord)".into(),
            us: 30_000.0,
            ..ProfiledLine::default()
        };
        let lines = vec![line("app/views/beers/_row.html.erb:4"), line("app/views/x.erb:2")];
        request.profile = Profile { readings: 40, total_us: 60_000.0, lines };
    });
    assert!(found.sentence.starts_with("the same query with other values 31 times, from the query cache: "));

    let by_style = "SELECT \"beers\".* FROM \"beers\" WHERE \"beers\".\"style\" = ?";
    let scan = Some(Scan { table: at("beers"), columns: vec![at("style")], ..Scan::default() });
    let found = first_in_requests(|request| {
        request.evidence.sql.push(Sql { scan: scan.clone(), ..sql("Beer Load", by_style, 1, 3, 8_000.0) });
    });
    assert_eq!((found.kind, found.fix.line.as_str()), (Kind::MissingIndex, "add_index :beers, :style"));
    let Trial::Patch { trial, control, .. } = found.trial else { panic!("{found:?}") };
    assert_eq!(control, [Patch::named("database_copy")]);
    assert_eq!(trial[0].params["columns"], serde_json::json!(["style"]));

    for (reads, text) in [
        (Reads::Whole, "the database reads all of beers to find style: "),
        (Reads::Sorted, "the database sorts beers by style for a few rows: "),
        (Reads::Part, "the database has no index of beers by style, only by a part of that: "),
    ] {
        let scan = scan.clone().map(|scan| Scan { reads, ..scan });
        let found = first_in_requests(|request| {
            request.evidence.sql.push(Sql { scan: scan.clone(), ..sql("Beer Load", by_style, 1, 3, 8_000.0) });
        });
        assert!(found.sentence.starts_with(text), "{}", found.sentence);
    }

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
    let scan = Scan { table, columns, rows: Some(200_000), matching: Some(40), ..Scan::default() };
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
    let short = View { name: at("app/views/beers/_row.html.erb"), count: 20, us: 2_100.0, own_us: 1_900.0 };
    each(&mut long_list, |request| request.evidence.views = vec![short.clone()]);
    assert_eq!(kinds(&long_list), [], "a short list");
    let slow = View { name: at("app/views/beers/_row.html.erb"), count: 31, us: 16_000.0, own_us: 14_000.0 };
    let found = first_in_requests(|request| request.evidence.views = vec![slow.clone()]);
    assert_eq!(
        (found.kind, found.short.as_str()),
        (Kind::SlowPartial, "31 renderings of app/views/beers/_row.html.erb")
    );
    assert!(found.fix.line.starts_with("cache(its record) {"));
    let mut kept = clean();
    each(&mut kept, |request| {
        request.evidence.views = vec![slow.clone()];
        request.evidence.cache =
            Some(Cache { reads: 31, hits: 30, us: 900.0, at: at("app/views/beers/_row.html.erb:1") });
    });
    assert_eq!(kinds(&kept), [], "it is in the cache already");

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

/// One that is known to be of a middleware, or of the application behind all of them.
fn line_in(middleware: &str, place: &str, call: &str, us: f64) -> ProfiledLine {
    ProfiledLine { at: at(place), call: at(call), us, middleware: Some(at(middleware)), ..ProfiledLine::default() }
}

#[test]
fn a_line_that_does_what_it_need_not() {
    let profiled = |at: &str, call: &str, part: f64| Profile {
        readings: 40,
        total_us: 60_000.0,
        lines: vec![
            ProfiledLine {
                at: at.into(),
                call: call.into(),
                leaf: call.into(),
                us: 60_000.0 * part,
                ..ProfiledLine::default()
            },
            ProfiledLine {
                at: "app/views/x.erb:2".into(),
                call: "render (actionview)".into(),
                us: 60_000.0 * (1.0 - part),
                ..ProfiledLine::default()
            },
        ],
    };
    let parsing = |request: &mut ObservedRequest| {
        request.profile = profiled("app/models/settings.rb:7", "load_file (psych)", 0.6);
    };
    let found = first_in_requests(parsing);
    assert_eq!((found.kind, found.at.as_str()), (Kind::SlowLine, "app/models/settings.rb:7"));
    assert_eq!(found.sentence, "12 of 20 ms pass in one line: it parses in each request, by load_file (psych)");
    assert!((found.ceiling_us - 12_000.0).abs() < 1.0, "{found:?}");
    let patch = Patch::named("free_line").with("at", "app/models/settings.rb:7").with("method", "load_file");
    assert_eq!(found.trial, Trial::WhatIf { trial: vec![patch] });
    for (call, method) in [
        ("Psych.load_file (psych)", Some("load_file")),
        ("Kernel#sleep", Some("sleep")),
        ("gsub", None),
        ("raise", None),
    ] {
        let found = first_in_requests(|request| request.profile = profiled("app/a.rb:1", call, 0.6));
        let patch = match method {
            Some(method) => Patch::named("free_line").with("at", "app/a.rb:1").with("method", method),
            None => Patch::named("free_method").with("at", "app/a.rb:1"),
        };
        assert_eq!(found.trial, Trial::WhatIf { trial: vec![patch] });
        assert!((found.ceiling_us - 12_000.0).abs() < 1.0, "{found:?}");
    }

    // A line that makes a template and renders it: leaving out the one would leave the other.
    let found = first_in_requests(|request| {
        let template = |call: &str, us| ProfiledLine { at: at("app/a.rb:1"), call: at(call), us, ..Default::default() };
        let lines = vec![template("initialize (erb)", 20_000.0), template("result (erb)", 25_000.0)];
        request.profile = Profile { readings: 40, total_us: 60_000.0, lines };
    });
    assert_eq!(
        found.sentence,
        "15 of 20 ms pass in one line: it compiles a template in each request, by initialize (erb)"
    );
    let around = Trial::WhatIf { trial: vec![Patch::named("free_method").with("at", "app/a.rb:1")] };
    assert_eq!(found.trial, around);
    assert!((found.ceiling_us - 15_000.0).abs() < 1.0, "{found:?}");

    // It reads what the program says.
    let found = first_in_requests(|request| {
        let call = |call: &str, us| ProfiledLine { at: at("app/a.rb:1"), call: at(call), us, ..Default::default() };
        let lines = vec![call("popen", 5_000.0), call("read", 25_000.0)];
        request.profile = Profile { readings: 40, total_us: 60_000.0, lines };
    });
    assert_eq!(found.sentence, "10 of 20 ms pass in one line: it runs a program, by read");

    // What it calls is nothing that is known: the exceptions are.
    for (count, sentence) in [(900, "6.0 of 20 ms pass in one line: it raises exceptions, by Integer"), (3, "")] {
        let mut observations = clean();
        each(&mut observations, |request| {
            request.profile = profiled("app/a.rb:1", "Integer", 0.3);
            request.evidence.raised = vec![RaisedExceptions { at: at("app/a.rb:1"), count }];
        });
        let found = super::find(&observations);
        assert_eq!(found.first().map_or("", |one| one.sentence.as_str()), sentence);
    }

    for (at, call, part) in
        [("app/a.rb:1", "load_file (psych)", 0.1), ("app/a.rb:1", "step (sqlite3)", 0.6), ("", "sleep", 0.6)]
    {
        let mut observations = clean();
        each(&mut observations, |request| request.profile = profiled(at, call, part));
        assert_eq!(kinds(&observations), [], "{at} {call} {part}");
    }

    for (part, is_said) in [(0.6, true), (0.3, false)] {
        let mut observations = clean();
        each(&mut observations, |request| request.profile = profiled("lib/prices.rb:9", "sort_by", part));
        let found = super::find(&observations);
        assert_eq!(found.first().map(|one| one.at.as_str()), is_said.then_some("lib/prices.rb:9"));
        for found in found {
            assert_eq!(found.sentence, "12 of 20 ms pass in one line: it computes in each request, by sort_by");
            assert_eq!(found.short, "the method around lib/prices.rb:9");
        }
    }

    // Behind a middleware that takes half of the request.
    let mut behind = clean();
    each(&mut behind, |request| {
        let line =
            |at: &str, call: &str, us| ProfiledLine { at: at.into(), call: call.into(), us, ..Default::default() };
        let lines = vec![
            line("lib/stamp.rb:9", "load_file (psych)", 34_000.0),
            line("lib/prices.rb:9", "hexdigest (digest)", 20_000.0),
        ];
        request.profile = Profile { readings: 40, total_us: 60_000.0, lines };
        request.evidence.middleware =
            vec![Middleware { name: at("Stamp"), at: at("lib/stamp.rb:5"), own_us: 14_000.0 }];
    });
    let found: Vec<_> = super::find(&behind).into_iter().map(|one| (one.kind, one.at)).collect();
    assert_eq!(found, [(Kind::SlowMiddleware, at("lib/stamp.rb:9")), (Kind::SlowLine, at("lib/prices.rb:9"))]);

    // Behind two of them, of which each takes less than the line does: those count for nothing, whatever comes first.
    let mut behind_two = clean();
    each(&mut behind_two, |request| {
        let lines = vec![
            line_in("", "lib/prices.rb:9", "hexdigest (digest)", 22_000.0),
            line_in("Stamp", "lib/stamp.rb:9", "load_file (psych)", 20_000.0),
            line_in("Rates", "lib/rates.rb:9", "read (csv)", 18_000.0),
        ];
        request.profile = Profile { readings: 40, total_us: 60_000.0, lines };
        let middleware = |name: &str, own_us| Middleware { name: at(name), at: String::new(), own_us };
        request.evidence.middleware = vec![middleware("Stamp", 8_400.0), middleware("Rates", 7_600.0)];
    });
    let found: Vec<_> = super::find(&behind_two).into_iter().map(|one| one.at).collect();
    assert_eq!(found, ["lib/prices.rb:9", "lib/stamp.rb:9", "lib/rates.rb:9"]);

    // By whose line it is, however long both seem to take: a middleware's own work in another file is no finding of its own.
    let mut whose = clean();
    each(&mut whose, |request| {
        let lines = vec![
            line_in("Stamp", "lib/rates.rb:3", "load_file (psych)", 30_000.0),
            line_in("", "lib/prices.rb:9", "hexdigest (digest)", 30_000.0),
        ];
        request.profile = Profile { readings: 40, total_us: 60_000.0, lines };
        request.evidence.middleware =
            vec![Middleware { name: at("Stamp"), at: at("lib/stamp.rb:5"), own_us: 14_000.0 }];
    });
    let found: Vec<_> = super::find(&whose).into_iter().map(|one| (one.kind, one.at)).collect();
    assert_eq!(found, [(Kind::SlowMiddleware, at("lib/rates.rb:3")), (Kind::SlowLine, at("lib/prices.rb:9"))]);

    // What Ruby is started with makes any line quicker, and explains none.
    let mut slow_ruby = clean();
    slow_ruby.facts.yjit = "off".into();
    each(&mut slow_ruby, |request| request.profile = profiled("app/a.rb:1", "load_file (psych)", 0.21));
    assert!(kinds(&slow_ruby).contains(&Kind::SlowLine), "{:?}", kinds(&slow_ruby));

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
    // The observed replay takes a quarter more.
    let stamper = Middleware { name: at("Stamper"), at: at("lib/stamper.rb:7"), own_us: 7_500.0 };
    let found = first_in_requests(|request| request.evidence.middleware = vec![stamper.clone()]);
    assert_eq!(
        (found.kind, found.sentence.as_str(), found.at.as_str()),
        (Kind::SlowMiddleware, "the middleware Stamper takes 6.0 ms of each request", "lib/stamper.rb:7")
    );
    let found = first_in_requests(|request| {
        request.evidence.middleware = vec![stamper.clone()];
        let line = |place: &str, us| ProfiledLine { at: at(place), call: at("sort"), us, ..Default::default() };
        let lines = vec![line("lib/stamper.rb:9", 1_000.0), line("lib/stamper.rb:12", 5_000.0), line("", 9_000.0)];
        request.profile = Profile { readings: 40, total_us: 15_000.0, lines };
    });
    assert_eq!((found.kind, found.at.as_str()), (Kind::SlowMiddleware, "lib/stamper.rb:12"));

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
