//! The settings as a whole: the table's sanity, precedence of the sources, addresses, sites and config/puma.rb.
//! It never looks into one source alone; those tests are beside it.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use super::{
    layer::preset,
    test_folder::{around, Folder},
    *,
};

fn flags(settings: &[(&str, &str)]) -> Flags {
    let mut flags = Flags::default();
    for (key, text) in settings {
        let option = all_options().find(|option| option.key == *key).expect(key);
        flags.layer.set(option.key, option.kind.parse(text).expect(text));
    }
    flags
}

fn loaded(folder: &Folder, given: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    around(&folder.0, env, |around| load(flags(given), around))
}

#[test]
fn these_settings_are_roots_own() {
    let mut keys: Vec<_> = super::options::roots_own().collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "access_log",
            "acme_dir",
            "app_log",
            "cache_dir",
            "cluster",
            "control",
            "control_url",
            "group",
            "incidents_dir",
            "pidfile",
            "sso",
            "user"
        ]
    );
}

#[test]
fn the_table_is_sane() {
    let (mut keys, mut long, mut short, mut env) = (vec![], vec![], vec![], vec![]);
    for option in all_options() {
        keys.push(option.key);
        long.extend(
            Some(option.long).filter(|long| !long.is_empty()).into_iter().chain(option.aliases.iter().copied()),
        );
        short.extend(option.short);
        env.extend(option.env.iter().copied());
        assert!(GROUPS.contains(&option.group), "{}", option.key);
        assert!(option.doc.ends_with('.'), "{}", option.key);
        for environment in ["development", "production"] {
            let unset = matches!(option.preset, Preset::Unset(_));
            assert_eq!(preset(option, environment, 8).is_none(), unset, "default of {}", option.key);
        }
    }
    fn unique<T: Ord + Copy>(names: &[T]) -> bool {
        names.iter().copied().collect::<BTreeSet<_>>().len() == names.len()
    }
    assert!(unique(&keys) && unique(&long) && unique(&short) && unique(&env));
}

#[test]
fn workers_and_their_limits() {
    let folder = Folder::with(&[("config.ru", "")]);
    let site = |text: &str| {
        let folder = Folder::with(&[("config.ru", ""), ("paceline.toml", text)]);
        loaded(&folder, &[], &[]).expect("fine").sites.remove(0)
    };
    let of = |site: &SiteConfig| (site.workers, site.workers_max, site.workers_auto);
    assert_eq!(of(&site("workers = \"2:5\"")), (2, 5, false));
    assert_eq!(of(&site("workers = 3")), (3, 3, false));
    assert_eq!(of(&site("workers = \"auto\"")), (8, 8, true));
    let given = loaded(&folder, &[("workers", "1:4")], &[]).expect("fine").sites.remove(0);
    assert_eq!((of(&given), given.threads_min, given.threads), ((1, 4, false), 1, 3));
    assert_eq!(given.limits, WorkerLimits::default());
    let text = "worker_memory = \"200MB\"\nsite_memory_hard = \"1GB\"\nmax_requests = 1000\nmax_requests_jitter = 50\n";
    let limits = WorkerLimits {
        worker: Some(200 << 20),
        site_hard: Some(1 << 30),
        requests: Some(1000),
        requests_jitter: 50,
        ..WorkerLimits::default()
    };
    assert_eq!(site(text).limits, limits);
}

#[test]
fn defaults_by_environment() {
    let folder = Folder::with(&[("config.ru", "")]);
    for (environment, workers, hard) in [("development", 1, None), ("test", 1, None), ("production", 4, Some(60))] {
        let config = loaded(&folder, &[], &[("RAILS_ENV", environment)]).expect("fine");
        let [site] = &config.sites[..] else { panic!("one site") };
        assert_eq!((site.workers, site.threads, site.environment.as_str()), (workers, 3, environment));
        assert_eq!(site.app_hard_timeout, hard.map(Duration::from_secs));
        assert_eq!(site.app_soft_timeout, Some(Duration::from_secs(30)));
        assert_eq!((site.body_memory, site.response_memory, site.response_spool), (65_536, 1 << 20, 1 << 30));
        assert_eq!((site.queue_max, site.max_body, site.static_max_age), (1000, None, None));
        assert!(site.preload && site.static_files && site.buffer_requests && site.x_sendfile && !site.on_demand);
        assert_eq!((&site.root, site.hosts.len()), (&folder.0, 0));
        assert_eq!(config.front_threads, 8);
        assert_eq!(config.binds, [Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 3000))).into()]);
    }
}

#[test]
fn the_stronger_source_wins() {
    let puma = ("config/puma.rb", "threads 2\nworkers 2\nenvironment 'staging'");
    let toml = ("paceline.toml", "threads = 4");
    for (files, env, given, threads) in [
        (&[][..], &[][..], &[][..], 3),
        (&[puma], &[], &[], 2),
        (&[puma, toml], &[], &[], 4),
        (&[puma, toml], &[("MAX_THREADS", "5")], &[], 5),
        (&[puma], &[("MAX_THREADS", "5")], &[], 2),
        (&[puma], &[("MAX_THREADS", "5")], &[("threads", "6")], 6),
        (&[puma, toml], &[("MAX_THREADS", "5")], &[("threads", "6")], 6),
    ] {
        let config = loaded(&Folder::with(files), given, env).expect("fine");
        assert_eq!(config.sites[0].threads, threads, "{files:?} {env:?} {given:?}");
        let hooks = config.sites[0].puma_config.is_some();
        assert_eq!(hooks, files.contains(&puma), "the hooks run beside a paceline.toml too");
    }
}

#[test]
fn addresses() {
    let puma = ("config/puma.rb", "bind 'unix://tmp/a.sock'\nport 4000");
    for (given, env, files, binds) in [
        (&[("port", "0")][..], &[][..], &[][..], &["127.0.0.1:0"][..]),
        (&[], &[("PORT", "80")], &[], &["127.0.0.1:80"]),
        (&[], &[("PORT", "80"), ("HOST", "0.0.0.0")], &[], &["0.0.0.0:80"]),
        (&[], &[("BINDING", "::")], &[], &["[::]:3000"]),
        (&[("port", "81")], &[("PORT", "80"), ("HOST", "0.0.0.0")], &[], &["0.0.0.0:81"]),
        (&[("bind", "tcp://1.2.3.4:5")], &[("PORT", "80"), ("HOST", "0.0.0.0")], &[], &["1.2.3.4:5"]),
        (&[("bind", "0.0.0.0"), ("port", "82")], &[], &[], &["0.0.0.0:82"]),
        (&[("bind", "0.0.0.0")], &[], &[], &["0.0.0.0:3000"]),
        (&[("bind", "tcp://1.2.3.4:5"), ("port", "82")], &[], &[], &["1.2.3.4:5", "127.0.0.1:82"]),
        (&[], &[], &[puma], &["127.0.0.1:4000", "unix"]),
        (&[], &[("PORT", "80")], &[puma], &["127.0.0.1:4000", "unix"]),
        (&[], &[("PORT", "80"), ("HOST", "0.0.0.0")], &[puma], &["0.0.0.0:4000", "unix"]),
        (&[("port", "81")], &[("PORT", "80")], &[puma], &["127.0.0.1:81"]),
        (
            &[],
            &[("PORT", "80")],
            &[("config/puma.rb", "port 1, '0.0.0.0'\nport 2\nport 3")],
            &["127.0.0.1:2", "127.0.0.1:3", "0.0.0.0:1"],
        ),
        (&[], &[("PORT", "80")], &[("config/puma.rb", "bind \"tcp://[::]:#{8080}\"")], &["[::]:8080"]),
        (&[], &[("PORT", "80")], &[("config/puma.rb", "threads 1")], &["127.0.0.1:80"]),
        (&[], &[("PORT", "80")], &[("paceline.toml", "bind = [\"tcp://0.0.0.0:8080\"]")], &["0.0.0.0:8080"]),
        (&[], &[("PORT", "80")], &[("paceline.toml", "bind = [\"0.0.0.0\"]")], &["0.0.0.0:80"]),
        (&[], &[("PORT", "80")], &[("paceline.toml", "port = 8080")], &["127.0.0.1:80"]),
        (&[], &[("PORT", "80")], &[puma, ("paceline.toml", "port = 8080")], &["127.0.0.1:80"]),
        (&[], &[("PORT", "80")], &[puma, ("paceline.toml", "threads = 2")], &["127.0.0.1:4000", "unix"]),
        (&[], &[], &[puma, ("paceline.toml", "port = 8080")], &["127.0.0.1:8080"]),
        (&[], &[], &[puma, ("paceline.toml", "address = \"0.0.0.0\"")], &["0.0.0.0:4000", "unix"]),
        (&[], &[("LISTEN_FDS", "1"), ("LISTEN_PID", "77")], &[puma], &["fd 3"]),
    ] {
        let folder = Folder::with(files);
        let config = loaded(&folder, given, env).expect("fine");
        let shown = config.binds.iter().map(|listening| match &listening.bind {
            Bind::Tcp(address) => address.to_string(),
            Bind::Unix { path, .. } => {
                assert_eq!(*path, folder.0.join("tmp/a.sock"));
                "unix".into()
            }
            Bind::Fd(fd) => format!("fd {fd}"),
        });
        assert_eq!(shown.collect::<Vec<_>>(), binds, "{given:?} {env:?} {files:?}");
    }
}

#[test]
fn a_platforms_port_on_loopback_is_told() {
    let folder = Folder::with(&[]);
    let told = |env: &[(&str, &str)]| loaded(&folder, &[], env).expect("fine").notices.len();
    let of_file = |text, env: &[(&str, &str)]| {
        let folder = Folder::with(&[("config/puma.rb", text)]);
        loaded(&folder, &[], env).expect("fine").notices.join("\n")
    };
    let production = ("RAILS_ENV", "production");
    assert!(
        of_file("port 80", &[production]).contains("port 80 listens on this machine only; write port 80, \"0.0.0.0\"")
    );
    assert_eq!(of_file("port 80", &[]), "");
    assert_eq!(of_file("port 80, '0.0.0.0'", &[production]), "");
    assert_eq!(of_file("bind 'tcp://0.0.0.0:80'", &[production, ("PORT", "80")]), "");
    let moved = of_file("bind 'tcp://0.0.0.0:81'", &[("PORT", "80")]);
    assert_eq!(moved, "PORT=80 does not count, as with Puma: config/puma.rb names the addresses");
    assert!(of_file("workers 2", &[("WEB_CONCURRENCY", "5")])
        .contains("workers counts, as with Puma, and not the variable"));
    assert_eq!(told(&[("PORT", "80"), ("RAILS_ENV", "production")]), 1);
    assert_eq!(told(&[("PORT", "80"), ("RAILS_ENV", "production"), ("HOST", "127.0.0.1")]), 0);
    assert_eq!(told(&[("PORT", "80")]), 0);
}

#[test]
fn sites_of_the_file() {
    let text = "threads = 5\nenv = { A = \"1\", B = \"1\" }\n[[site]]\nhost = [\"Shop.test\", \"*.shop.test\"]\nroot = \"shop/current\"\nenv.B = \"2\"\nworkers = 2\n[[site]]\nroot = \"shop/current\"\n";
    let folder = Folder::with(&[("paceline.toml", text)]);
    let config = loaded(&folder, &[], &[]).expect("fine");
    let [shop, other] = &config.sites[..] else { panic!("two sites") };
    assert_eq!(shop.hosts, ["shop.test", "*.shop.test"]);
    assert_eq!((shop.name.as_str(), other.name.as_str()), ("shop.test", "shop"));
    assert_eq!((shop.workers, shop.threads, other.workers, other.threads), (2, 5, 1, 5));
    assert_eq!((shop.env["A"].as_str(), shop.env["B"].as_str(), other.env["B"].as_str()), ("1", "2", "1"));
    assert_eq!(shop.root, folder.0.join("shop/current"));
}

#[test]
fn pages_that_know_their_writes_are_for_one_machine() {
    let cluster = "[cluster]\nurl = \"redis://valkey\"\n";
    for (mode, is_refused) in [("serve", true), ("verify", false)] {
        let text = format!("{cluster}[auto_cache]\nmode = \"{mode}\"\n");
        let folder = Folder::with(&[("config.ru", ""), ("paceline.toml", &text)]);
        let problems = loaded(&folder, &[], &[]).map_or_else(|error| error.problems, |_| Vec::new());
        assert_eq!(problems.len(), usize::from(is_refused), "{problems:?}");
        assert!(problems.iter().all(|problem| problem.contains("does not work with [cluster]")), "{problems:?}");
    }
}

#[test]
fn sites_in_conflict() {
    let site = "[[site]]\nroot = \"a\"\n";
    for (text, told) in [
        (format!("{site}host = \"a\"\n{site}host = [\"b\", \"A\"]"), "paceline.toml:6:1: host \"a\" already belongs to site \"a\""),
        (format!("{site}{site}"), "paceline.toml:3:1: site \"a\" and site \"a\" both have no host: only one site can answer all other hosts; add host = ... to one of them"),
        (format!("{site}host=\"a\"\nname=\"x\"\n{site}name=\"x\""), "paceline.toml:7:1: another site is already named \"x\""),
    ] {
        let folder = Folder::with(&[("paceline.toml", &text)]);
        assert_eq!(loaded(&folder, &[], &[]).expect_err("conflict").problems, [told]);
    }
}

#[test]
fn where_the_cache_is_on_disk() {
    let folder = Folder::with(&[("public/a", "")]);
    assert_eq!(loaded(&folder, &[], &[]).expect("fine").cache_disk, None);
    assert_eq!(loaded(&folder, &[("cache_disk", "off")], &[]).expect("fine").cache_disk, None);
    let disk = loaded(&folder, &[("cache_disk", "1GB")], &[]).expect("fine").cache_disk.expect("on");
    assert_eq!((disk.size, disk.dir), (1 << 30, folder.0.join("tmp/cache/paceline")));
    let text = "cache_disk = \"8MB\"\n[[site]]\nroot = \"a\"\nhost = \"a\"\n[[site]]\nroot = \"b\"\n";
    let folder = Folder::with(&[("paceline.toml", text), ("a/public/x", ""), ("b/public/x", "")]);
    let told = loaded(&folder, &[], &[]).expect_err("which?").problems;
    assert!(told[0].starts_with("cache_disk: with several sites it needs a cache_dir"), "{told:?}");
    assert!(loaded(&folder, &[("cache_dir", "kept")], &[]).is_ok());
}

#[test]
fn a_directory_of_sites() {
    let folder = Folder::with(&[("apps/shop/config.ru", ""), ("config/puma.rb", "raise 'not asked'")]);
    let config = loaded(&folder, &[("sites", "apps"), ("threads", "7")], &[]).expect("fine");
    assert_eq!(config.sites_dir, Some(folder.0.join("apps")));
    assert!(config.sites.is_empty());
    assert_eq!(config.site_defaults.threads, 7);
    let missing = loaded(&folder, &[("sites", "none")], &[]).expect_err("missing");
    assert!(missing.problems[0].ends_with("none is not a directory"));
}

#[test]
fn config_puma_rb() {
    let styles = concat!(env!("CARGO_MANIFEST_DIR"), "/../../gem/test/puma_configs/");
    for (name, environment, threads, notices) in [
        ("rails_5", "development", 5, 0),
        ("rails_6", "development", 5, 0),
        ("rails_7_1", "development", 5, 0),
        ("rails_8", "development", 3, 0),
        ("cluster", "production", 6, 5),
    ] {
        let text = std::fs::read_to_string(format!("{styles}{name}.rb")).expect(name);
        let folder = Folder::with(&[("config/puma.rb", &text)]);
        let config = loaded(&folder, &[], &[]).expect(name);
        let site = &config.sites[0];
        assert_eq!(
            (site.environment.as_str(), site.threads, config.notices.len()),
            (environment, threads, notices),
            "{name}"
        );
        assert_eq!(site.puma_config, Some(folder.0.join("config/puma.rb")), "{name}");
        if name == "cluster" {
            assert_eq!(site.rackup, Some(folder.0.join("shop.ru")));
            assert_eq!(config.log.app_path, Some(folder.0.join("log/app.log")));
            assert_eq!(config.shutdown_timeout, Duration::from_secs(25));
            assert_eq!(config.tag.as_deref(), Some("shop"));
        }
    }
}

/// It holds the pipes open on which Ruby answers.
#[test]
fn config_puma_rb_that_leaves_a_process_behind() {
    let text = "threads 2\nFile.write('left', fork { sleep })\nworkers 3";
    let folder = Folder::with(&[("config/puma.rb", text)]);
    let config = loaded(&folder, &[], &[]);
    let left = std::fs::read_to_string(folder.0.join("left")).expect("a pid");
    assert!(std::process::Command::new("kill").arg(left).status().expect("kill").success());
    let site = &config.expect("fine").sites[0];
    assert_eq!((site.threads, site.workers), (2, 3));
}

#[test]
fn config_puma_rb_of_one_environment_and_its_mistakes() {
    let folder = Folder::with(&[("config/puma.rb", "threads 1"), ("config/puma/staging.rb", "threads 2")]);
    let threads = |env: &[(&str, &str)]| loaded(&folder, &[], env).expect("fine").sites[0].threads;
    assert_eq!((threads(&[]), threads(&[("RAILS_ENV", "staging")])), (1, 2));
    for (text, told) in [
        (
            "\nworkerz 3",
            &["NoMethodError", "undefined method `workerz'", "config/puma.rb:2", "read config/puma.rb"][..],
        ),
        ("threads 2\n\nraise 'oh'", &["RuntimeError", "oh", "config/puma.rb:3"]),
        ("puts 'so far'; exit 3", &["exit", "so far"]),
        ("\ndef x", &["SyntaxError", "config/puma.rb"]),
        ("require 'no_such_thing'", &["LoadError", "no_such_thing"]),
    ] {
        folder.write("config/puma.rb", text);
        let problems = loaded(&folder, &[], &[]).expect_err("wrong").problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        told.iter().for_each(|words| assert!(problems[0].contains(words), "{words}: {}", problems[0]));
    }
    folder.write("config/puma.rb", "threads 5000\nworkers 2");
    let site = loaded(&folder, &[], &[]).expect("nothing in it ends the start").sites.remove(0);
    assert_eq!((site.threads, site.workers), (3, 2));
    let missing = loaded(&folder, &[("ruby", "no-such-ruby")], &[]).expect_err("no Ruby").problems;
    assert!(missing[0].starts_with("no-such-ruby: not found, but config/puma.rb needs Ruby"), "{missing:?}");
    let without =
        around(&folder.0, &[], |around| load(Flags { config_file: ConfigFile::None, ..Flags::default() }, around));
    assert_eq!(without.expect("fine").sites[0].puma_config, None);
}

/// A new paceline.toml of `bin/rails generate paceline:install` has comments alone.
#[test]
fn a_paceline_toml_leaves_in_force_what_it_does_not_set() {
    let puma = ("config/puma.rb", "workers 3\nthreads 8\nport 5555\npersistent_timeout 75");
    let of = |toml: &str| {
        let folder = Folder::with(&[puma, ("config.ru", ""), ("paceline.toml", toml)]);
        let config = loaded(&folder, &[], &[]).expect("fine");
        let site = &config.sites[0];
        let Bind::Tcp(address) = &config.binds[0].bind else { panic!("an address") };
        (site.workers, site.threads, address.port(), config.client.timeouts.idle.as_secs())
    };
    assert_eq!(of("# workers = 2\n"), (3, 8, 5555, 75));
    assert_eq!(of("[[rule]]\npath = \"/a\"\nredirect = \"/b\"\n"), (3, 8, 5555, 75));
    assert_eq!(of("[[site]]\nhost = \"a.test\"\nroot = \".\"\n"), (3, 8, 5555, 75));
    assert_eq!(of("workers = 2"), (2, 8, 5555, 75));
    assert_eq!(of("threads = 2\nport = 80\nkeepalive_timeout = \"5s\""), (3, 2, 80, 5));
    assert_eq!(of("puma_config = \"off\""), (1, 3, 3000, 60));
    let two = "[[site]]\nroot = \".\"\nhost = \"a\"\n[[site]]\nroot = \".\"\nhost = \"b\"\n";
    assert_eq!(of(two), (1, 3, 3000, 60), "of several applications none decides for all");
}

#[test]
fn the_queue_of_a_plugin_is_a_process_beside_the_others() {
    let puma = ("config/puma.rb", "plugin :solid_queue");
    let names = |toml: &str| {
        let folder = Folder::with(&[puma, ("config.ru", ""), ("paceline.toml", toml)]);
        let config = loaded(&folder, &[], &[]).expect("fine");
        config.sites[0].processes.iter().map(|process| process.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["solid_queue"]);
    assert_eq!(names("[[process]]\ncommand = \"bin/css\""), ["css", "solid_queue"]);
    assert_eq!(names("[[process]]\ncommand = \"bin/jobs\""), ["jobs"]);
}

#[test]
fn a_port_of_the_file_is_open_in_a_container() {
    let folder = Folder::with(&[("config/puma.rb", "port 3000")]);
    let binds = |env: &[(&str, &str)]| {
        let config = around(&folder.0, env, |around| {
            let around = Surroundings { in_container: true, cwd: around.cwd.clone(), ..*around };
            load(Flags::default(), &around)
        });
        config.expect("fine").binds
    };
    let tcp = |text: &str| vec![Listening::from(Bind::Tcp(text.parse().expect("address")))];
    assert_eq!(binds(&[]), tcp("[::]:3000"));
    assert_eq!(binds(&[("HOST", "127.0.0.1")]), tcp("127.0.0.1:3000"));
}

#[test]
fn addresses_of_the_file_that_can_not_be_had_end_no_start() {
    let binds = |text: &str| {
        let folder = Folder::with(&[("config/puma.rb", text)]);
        loaded(&folder, &[], &[]).map(|config| (config.binds.len(), config.notices.join("\n")))
    };
    for (text, told) in [
        ("bind 'unix://@hidden'\nport 1", "abstract sockets are not supported"),
        ("ssl_bind '0.0.0.0', 443, verify_mode: 'peer', ca: 'x', cert: 'c', key: 'k'\nport 1", "client certificates"),
        ("ssl_bind '0.0.0.0', 443\nport 1", "TLS needs a certificate"),
        ("bind 'tcp://no-such-host.invalid:1'\nport 1", "cannot find host"),
    ] {
        let (count, notices) = binds(text).expect("it starts");
        assert!(count == 1 && notices.contains(told), "{text}: {notices}");
    }
    assert!(binds("bind 'unix://@hidden'").is_err(), "nothing is left to listen on");
}

#[test]
fn connections_may_begin_with_a_proxy_header() {
    let folder = Folder::with(&[("config/puma.rb", "port 1\nset_remote_address proxy_protocol: :v1")]);
    let binds = loaded(&folder, &[], &[]).expect("fine").binds;
    assert_eq!(binds[0].proxy_protocol, ProxyProtocol::Optional);
}
