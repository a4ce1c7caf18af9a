//! Faults in how an application is set up and served.

use super::*;

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
    assert_eq!(found[0].trial, patch(Patch::named("cache_store")));
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
    // By what has answered, whatever is in the bundle.
    let of_rack = "headers[\"cache-control\"] = \"public, max-age=60\"";
    for (rails, framework, line) in [
        ("6.1.7", None, "expires_in 1.minute, public: true"),
        ("6.1.7", Some("rails"), "expires_in 1.minute, public: true"),
        ("6.1.7", Some("sinatra"), "cache_control :public, max_age: 60"),
        ("6.1.7", Some("rack"), of_rack),
        ("", Some("sinatra"), "cache_control :public, max_age: 60"),
        ("", Some("rack"), of_rack),
        ("", None, of_rack),
    ] {
        let found = first(|observations| {
            observations.rails = rails.into();
            observations.facts.gems = [("sinatra".to_owned(), "1".to_owned())].into();
            each(observations, |request| {
                page("private", &[])(request);
                request.evidence.framework = framework.map(str::to_owned);
            });
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
