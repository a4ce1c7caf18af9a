//! A failed start as tests render it, and a way to look at the pages: `cargo test -p startup-report write_samples --
//! --ignored`. It is never part of the program.

use super::{html, suggestion::testing::RAILS, text, Failure, StartupReport, Step};
use std::{path::Path, time::Duration};
use unix_user::RunAs;

/// An app in a temporary directory whose routes don't load.
pub fn failed(root: &Path) -> StartupReport {
    std::fs::create_dir_all(root.join("config")).unwrap();
    let routes = "Rails.application.routes.draw do\n  root \"breweries#index\"\n\n  resources :breweries do\n    resources :beers, only: %i[show new create]\n  end\n\n  mount Sidekick::Web => \"/sidekick\" if ENV[\"SIDEKICK\"] != \"<off>\" # the queue's own pages, for the staff only, behind the proxy's password\n\n  get \"/live\", to: \"live#show\"\n  get \"/feed\", to: \"feed#show\", defaults: { format: :xml }\nend\n";
    std::fs::write(root.join("config/routes.rb"), routes).unwrap();
    let mut report = StartupReport::new("brewery", root, "development");
    report.read_as = Some(RunAs::own());
    report.id = "3f9a01bc".into();
    report.versions = "ruby 3.1.2, rails 6.1.7".into();
    let ms = Duration::from_millis;
    report.done(Step::Found, ms(1));
    report.begin(Step::Bundler, ms(2));
    report.done(Step::Bundler, ms(214));
    report.begin(Step::Boot, ms(214));
    for line in [
        "DEPRECATION WARNING: Initialization autoloaded the constant <ApplicationHelper>.",
        "\x1b[33mwarning:\x1b[0m already initialized constant BREWERIES",
        "Loading 12 breweries ...",
    ] {
        report.push_output(line);
    }
    let place = root.join("config").display().to_string();
    report.fail(Failure::Exception {
        class: "NameError".into(),
        message: "uninitialized constant Sidekick\n\n  mount Sidekick::Web => \"/sidekick\" if ENV[\"SIDEKICK\"] != \"<off>\"\n        ^^^^^^^^".into(),
        file: Some(root.join("config/routes.rb")),
        line: Some(8),
        backtrace: vec![
            format!("{place}/routes.rb:8:in `block in <main>'"),
            "/usr/share/rubygems-integration/all/gems/actionpack-6.1.7/lib/action_dispatch/routing/route_set.rb:428:in `instance_exec'".into(),
            "/usr/share/rubygems-integration/all/gems/actionpack-6.1.7/lib/action_dispatch/routing/route_set.rb:410:in `draw'".into(),
            format!("{place}/routes.rb:1:in `<main>'"),
            "<internal:/usr/lib/ruby/vendor_ruby/rubygems/core_ext/kernel_require.rb>:85:in `require'".into(),
            "/usr/share/rubygems-integration/all/gems/railties-6.1.7/lib/rails/application/routes_reloader.rb:41:in `load_paths'".into(),
            format!("{place}/environment.rb:5:in `<main>'"),
        ],
        cause: None,
        detail: None,
    });
    report
}

fn root(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("paceline-sample-{}-{name}", std::process::id()))
}

#[test]
fn the_terminal_shows_every_part_without_control_characters() {
    let report = failed(&root("text"));
    let shown = text::render_with(&report, false, &RAILS);
    for part in [
        "brewery did not start",
        "✓ bundler",
        "212 ms",
        "✗ boot",
        "failed here",
        "· ready",
        "NameError: uninitialized constant Sidekick",
        "at config/routes.rb:8",
        "➜     8 │   mount Sidekick",
        "    3 │",
        "   12 │",
        "Nothing defines Sidekick",
        "DEPRECATION WARNING",
        "config/routes.rb:8 in block in <main>",
        "actionpack-6.1.7 lib/action_dispatch",
    ] {
        assert!(shown.contains(part), "lacks {part:?}:\n{shown}");
    }
    assert!(!shown.contains('\x1b') && shown.lines().all(|line| line.trim_end() == line));
    let coloured = text::render_with(&report, true, &RAILS);
    assert!(coloured.contains("\x1b[31m") && !coloured.contains("\x1b[33mwarning"));
}

#[test]
fn a_crash_is_shown_from_its_beginning() {
    let mut report = StartupReport::new("brewery", "/srv/brewery", "production");
    for line in ["hello", "/srv/brewery/x.rb:1: [BUG] Segmentation fault at 0x01"] {
        report.push_output(line);
    }
    (0..50).for_each(|n| report.push_output(format!("c:{n:04} p:---- METHOD /srv/brewery/x.rb")));
    report.fail(Failure::Exited { status: None, signal: Some(6), who: "preloader".into() });
    let shown = text::render_with(&report, false, &RAILS);
    assert!(shown.contains("lines)\n  /srv/brewery/x.rb:1: [BUG] Seg"), "{shown}");
    assert!(shown.contains("c:0018") && !shown.contains("c:0019") && !shown.contains("  hello"), "{shown}");
}

#[test]
fn the_browser_shows_every_part_escaped() {
    let report = failed(&root("html"));
    let page = html::development_html_with(&report, &RAILS);
    for part in [
        "<h1>brewery did not start</h1>",
        "<li class=\"done\"",
        "212 ms",
        "<li class=\"failed\"",
        "<li class=\"later\"",
        "<h2>NameError</h2>",
        "config/routes.rb<b>:8</b>",
        "<mark class=\"line\"><i>8</i>",
        "&lt;off&gt;",
        "Nothing defines Sidekick",
        "&lt;ApplicationHelper&gt;",
        "reload this page",
        "<meta name=\"robots\" content=\"noindex\">",
        "3f9a01bc",
    ] {
        assert!(page.contains(part), "lacks {part:?}");
    }
    for raw in ["<off>", "<ApplicationHelper>", "<main>'", "http://", "https://", "<script", "src=", "url("] {
        assert!(!page.contains(raw), "has {raw:?}");
    }
}

#[test]
fn every_kind_of_failure_renders() {
    let failures = [
        Failure::Exited { status: Some(1), signal: None, who: "<preloader>".into() },
        Failure::Exited { status: None, signal: Some(11), who: "worker 2".into() },
        Failure::TimedOut { after: Duration::from_secs(60) },
        Failure::System { doing: "start <ruby>".into(), error: "No such file or directory".into() },
        Failure::Exception {
            class: String::new(),
            message: String::new(),
            file: Some("/dev/zero".into()),
            line: None,
            backtrace: vec![String::new()],
            cause: Some(String::new()),
            detail: None,
        },
    ];
    for failure in failures {
        let mut report = StartupReport::new("<site>", "/nonexistent/<root>", "production");
        report.fail(failure);
        let page = html::development_html_with(&report, &RAILS);
        assert!(
            !page.contains("<site>")
                && !page.contains("<root>")
                && !page.contains("<preloader>")
                && !page.contains("<ruby>")
        );
        assert!(text::render_with(&report, false, &RAILS).contains("<site> did not start"));
    }
}

#[test]
fn production_shows_only_the_id() {
    let page = html::production_html("3f9a01bc<");
    assert!(page.contains("3f9a01bc&lt;") && page.contains("noindex"));
}

#[test]
fn hidden_characters_become_visible_and_all_is_escaped() {
    for (raw, shown) in
        [("plain", "plain"), ("a\u{1b}[0m\0", "a\u{fffd}[0m\u{fffd}"), ("a\n\tb", "a\n\tb"), ("ä€😀", "ä€😀")]
    {
        assert_eq!(html::visible(raw), shown);
    }
    assert_eq!(html::badge("<&>\"").into_string(), "<b class=\"badge\">&lt;&amp;&gt;&quot;</b>");
    assert_eq!(html::with_code("run `a <b>` now").into_string(), "run <code>a &lt;b&gt;</code> now");
    assert_eq!(html::with_code("odd ` <tick>").into_string(), "odd ` &lt;tick&gt;");
}

/// Writes pages to look at into $PACELINE_SAMPLES (or the temporary directory).
#[test]
#[ignore = "writes files to look at"]
fn write_samples() {
    let to = std::env::var_os("PACELINE_SAMPLES").map_or_else(std::env::temp_dir, Into::into);
    std::fs::create_dir_all(&to).unwrap();
    let app = to.join("brewery");
    let report = failed(&app);
    let mut killed = StartupReport::new("brewery", &app, "production");
    killed.versions = "ruby 3.1.2".into();
    killed.done(Step::Found, Duration::from_millis(1));
    killed.begin(Step::Boot, Duration::from_millis(1));
    killed.fail(Failure::Exited { status: None, signal: Some(9), who: "preloader".into() });
    let mut gem = StartupReport::new("shop.example.org", &app, "development");
    gem.done(Step::Found, Duration::from_millis(1));
    gem.begin(Step::Bundler, Duration::from_millis(1));
    gem.fail(Failure::Exception {
        class: "Bundler::GemNotFound".into(),
        message: "Could not find nokogiri-1.15.4 in locally installed gems".into(),
        file: None,
        line: None,
        backtrace: vec![],
        cause: None,
        detail: None,
    });
    for (name, page) in [
        ("exception", html::development_html_with(&report, &RAILS)),
        ("killed", html::development_html_with(&killed, &RAILS)),
        ("gem", html::development_html_with(&gem, &RAILS)),
        ("production", html::production_html("3f9a01bc")),
    ] {
        std::fs::write(to.join(format!("{name}.html")), page).unwrap();
    }
    std::fs::write(to.join("exception.txt"), text::render_with(&report, true, &RAILS)).unwrap();
}
