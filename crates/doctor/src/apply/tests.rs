//! Edits of small files, and what is refused.

use std::collections::HashMap;

use super::*;
use crate::candidate::Place;

const APPLICATION: &str = "require_relative \"boot\"\n\nmodule Shop\n  class Application < Rails::Application\n    \
                           config.load_defaults 6.1\n  end\nend\n";
const PRODUCTION: &str = "Rails.application.configure do\n  config.eager_load = true\n  # config.log_level = :warn\n  \
                          config.log_level = :debug\nend\n";

fn context() -> Context {
    Context { rails: "6.1.7".into(), now: "20261124120000".into() }
}

fn planned(file: &str, edit: Edit, files: &[(&str, &str)]) -> Result<Plan, CannotApply> {
    let files: HashMap<&str, &str> = files.iter().copied().collect();
    let fix = Fix { file: file.into(), line: String::new(), edit };
    plan(&fix, &context(), &|path| files.get(path).map(|text| (*text).to_string()))
}

/// The content of the only file, or why not.
fn edited(file: &str, edit: Edit, files: &[(&str, &str)]) -> Result<String, String> {
    let plan = planned(file, edit, files).map_err(|why| why.to_string())?;
    assert_eq!(plan.edits.len(), 1);
    assert_eq!(plan.edits[0].path, file);
    Ok(plan.edits[0].after.clone())
}

fn insert(lines: &[&str], place: Place, gem: bool) -> Edit {
    Edit::Insert { lines: lines.iter().map(|line| (*line).into()).collect(), place, gem }
}

fn configure(setting: &str, line: &str) -> Edit {
    Edit::Configure { setting: setting.into(), line: line.into(), gem: false }
}

fn setting(key: &str, value: &str) -> Edit {
    Edit::Setting { key: key.into(), value: value.into() }
}

#[test]
fn an_initializer_is_created_and_the_gem_added() {
    let install = insert(&["require \"paceline/http\"", "Paceline::HTTP.install!"], Place::End, true);
    let file = "config/initializers/paceline.rb";
    let plan = planned(file, install.clone(), &[("Gemfile", "gem \"rails\"")]).unwrap();
    assert_eq!(plan.edits[0].after, "gem \"rails\"\ngem \"paceline\"\n");
    assert_eq!(plan.edits[1].path, file);
    assert_eq!(
        plan.edits[1].after,
        "# frozen_string_literal: true\n\nrequire \"paceline/http\"\nPaceline::HTTP.install!\n"
    );
    assert_eq!(plan.then, ["bundle install"]);

    let plan =
        planned(file, install.clone(), &[("Gemfile", "  gem('paceline')\n"), (file, "require \"paceline/http\"\n")]);
    let plan = plan.unwrap();
    assert_eq!((plan.edits.len(), plan.then.len()), (1, 0));
    assert_eq!(plan.edits[0].after, "require \"paceline/http\"\nPaceline::HTTP.install!\n");

    assert_eq!(planned(file, install.clone(), &[]).unwrap().then, ["gem install paceline"]);
    let done = "require \"paceline/http\"\n  Paceline::HTTP.install!\n";
    let refused = planned(file, install, &[(file, done)]).unwrap_err();
    assert_eq!(refused.to_string(), "config/initializers/paceline.rb has this line already");
}

#[test]
fn lines_go_to_the_top_of_a_rackup_file() {
    let edit = || insert(&["require \"x\""], Place::Top, false);
    assert_eq!(
        edited("config.ru", edit(), &[("config.ru", "# x: true\n#\\ -p 1\nrun App\n")]),
        Ok("# x: true\n#\\ -p 1\nrequire \"x\"\nrun App\n".into())
    );
    assert_eq!(edited("config.ru", edit(), &[("config.ru", "run App")]), Ok("require \"x\"\nrun App".into()));
    assert_eq!(edited("config.ru", edit(), &[]), Err("there is no config.ru".into()));
}

#[test]
fn the_gem_alone() {
    let edit = || insert(&["gem \"paceline\""], Place::End, false);
    let plan = planned("Gemfile", edit(), &[("Gemfile", "gem \"puma\"\n")]).unwrap();
    assert_eq!((plan.edits.len(), plan.then.len()), (1, 1));
    assert_eq!(
        edited("Gemfile", edit(), &[("Gemfile", "gem 'paceline', '1'\n")]),
        Err("Gemfile has this line already".into())
    );
}

#[test]
fn a_setting_is_replaced_or_added_to_its_block() {
    let line = "config.log_level = :info";
    let file = "config/environments/production.rb";
    let level = || configure("config.log_level", line);
    let with = |text: &str| edited(file, level(), &[(file, text)]);
    assert_eq!(with(PRODUCTION).unwrap(), PRODUCTION.replace(":debug", ":info"));
    let block = "require \"x\"\n\nRails.application.configure do\n  if x\n    y\n  end\nend\n";
    assert_eq!(with(block).unwrap(), block.replace("  end\nend", "  end\n  config.log_level = :info\nend"));
    for (text, why) in [
        ("  config.log_level = :info\n", "has this line already"),
        (
            "config.log_level = ENV.fetch(\"L\", \"info\")\n",
            "production.rb:1 sets it by a condition: config.log_level = ENV",
        ),
        ("config.log_level = x ? :a : :b\n", "by a condition"),
        ("config.log_level =\n  :debug\n", "by a condition"),
        ("config.log_level = :a\nconfig.log_level = :b\n", "more than once, again in line 2"),
        ("config.log_levels = 1\n", "has no block for this line that is understood; add: config.log_level = :info"),
    ] {
        let refused = with(text).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(edited(file, level(), &[]), Err(format!("there is no {file}")));

    let xml = configure("config.paceline.xml", "config.paceline.xml = true");
    let application = "config/application.rb";
    assert_eq!(
        edited(application, xml, &[(application, APPLICATION)]).unwrap(),
        APPLICATION.replace("6.1\n", "6.1\n    config.paceline.xml = true\n")
    );
    let store = "Rails.application.config.session_store :paceline_store";
    let file = "config/initializers/session_store.rb";
    let edit = || configure("Rails.application.config.session_store", store);
    assert_eq!(edited(file, edit(), &[]).unwrap(), format!("# frozen_string_literal: true\n\n{store}\n"));
    assert_eq!(
        edited(file, edit(), &[(file, "Rails.application.config.session_store :x\n")]).unwrap(),
        format!("{store}\n")
    );
    assert_eq!(edited(file, edit(), &[(file, "# x")]).unwrap(), format!("# x\n{store}\n"));
}

#[test]
fn a_key_of_paceline_toml() {
    let toml = "# ours\nbind = \"x\"\nthreads = 5\n\n# the shop\n[[site]]\nroot = \"/srv\"\n";
    let with =
        |key: &str, value: &str, text: &str| edited("paceline.toml", setting(key, value), &[("paceline.toml", text)]);
    assert_eq!(with("threads", "3", toml).unwrap(), toml.replace("threads = 5", "threads = 3"));
    assert_eq!(with("yjit", "\"on\"", toml).unwrap(), toml.replace("= 5\n", "= 5\nyjit = \"on\"\n"));
    assert_eq!(with("yjit", "\"on\"", "[[site]]\n").unwrap(), "yjit = \"on\"\n[[site]]\n");
    assert_eq!(edited("paceline.toml", setting("threads", "3"), &[]).unwrap(), "threads = 3\n");
    for (before, after) in [
        ("threads = 5  # of each worker\n", "threads = 3  # of each worker\n"),
        ("threads = \"2:5\" # \"a\"\n", "threads = 3 # \"a\"\n"),
    ] {
        assert_eq!(with("threads", "3", before).unwrap(), after);
    }
    assert_eq!(with("allocator", "\"jemalloc\"", "allocator = \"a#\\\"#\"\n").unwrap(), "allocator = \"jemalloc\"\n");
    for (key, value, text, why) in [
        ("threads", "5", toml, "already"),
        ("threads", "5", "threads = 5 # enough\n", "already"),
        ("root", "\"/x\"", toml, "paceline.toml:7 sets root for a site"),
        ("env", "{ A = \"1\" }", "env = { B = \"2\" }\n", "to several values; add yours: env = { A = \"1\" }"),
    ] {
        let refused = with(key, value, text).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    let puma = edited("paceline.toml", setting("threads", "3"), &[("config/puma.rb", "")]).unwrap_err();
    assert!(puma.contains("config/puma.rb"), "{puma}");
}

#[test]
fn a_statement_of_pumas_configuration() {
    let threads = || Edit::Puma { name: "threads".into(), line: "threads 3, 3".into() };
    let of = |text: &str| edited("config/puma.rb", threads(), &[("config/puma.rb", text)]);
    assert_eq!(of("workers 2\nthreads 1, 5\npreload_app!\n").unwrap(), "workers 2\nthreads 3, 3\npreload_app!\n");
    assert_eq!(of("threads(5, 5) # all\n").unwrap(), "threads 3, 3\n");
    let rails = "threads_count = ENV.fetch(\"RAILS_MAX_THREADS\", 3)\nthreads threads_count, threads_count\n";
    assert_eq!(of(rails).unwrap(), rails.replace("threads threads_count, threads_count", "threads 3, 3"));
    assert_eq!(of("workers 2").unwrap(), "workers 2\nthreads 3, 3\n");
    for (text, why) in [
        ("threads 3, 3\n", "has this line already"),
        ("threads 1, Integer(ENV[\"T\"])\n", "config/puma.rb:1 says it by a condition"),
        ("if big\n  threads 5, 5\nend\n", "config/puma.rb:2 says it by a condition"),
        ("threads 1, 1\nthreads 2, 2\n", "more than once, again in line 2"),
    ] {
        assert!(of(text).unwrap_err().contains(why), "{text}");
    }
    assert!(planned("config/puma.rb", threads(), &[]).is_err());
    let preload = Edit::Puma { name: "preload_app!".into(), line: "preload_app!".into() };
    let files = [("config/puma.rb", "workers 2\n")];
    assert_eq!(edited("config/puma.rb", preload, &files).unwrap(), "workers 2\npreload_app!\n");
}

#[test]
fn a_file_keeps_its_line_ends() {
    let windows = |text: &str| text.replace('\n', "\r\n");
    let file = "config/environments/production.rb";
    let level = || configure("config.log_level", "config.log_level = :info");
    let after = edited(file, level(), &[(file, windows(PRODUCTION).as_str())]);
    assert_eq!(after.unwrap(), windows(&PRODUCTION.replace(":debug", ":info")));
    for (name, edit, before, after) in [
        (
            "paceline.toml",
            setting("threads", "3"),
            "# ours\nthreads = 5\n[[site]]\n",
            "# ours\nthreads = 3\n[[site]]\n",
        ),
        ("config.ru", insert(&["require \"x\""], Place::Top, false), "# x\nrun App\n", "# x\nrequire \"x\"\nrun App\n"),
        ("config/initializers/a.rb", insert(&["a"], Place::End, false), "b\nc", "b\nc\na\n"),
        (
            "config/puma.rb",
            Edit::Puma { name: "threads".into(), line: "threads 3, 3".into() },
            "threads 1, 5\nworkers 2\n",
            "threads 3, 3\nworkers 2\n",
        ),
    ] {
        assert_eq!(edited(name, edit, &[(name, windows(before).as_str())]).unwrap(), windows(after), "{name}");
    }
    let refused =
        edited("paceline.toml", setting("threads", "3"), &[("paceline.toml", "threads = 5\r\nworkers = 1\n")]);
    assert_eq!(refused.unwrap_err(), "paceline.toml has lines that end with CR LF and others that do not");
}

#[test]
fn what_a_running_server_can_try() {
    let puma = |name: &str, line: &str| Edit::Puma { name: name.into(), line: line.into() };
    for (edit, tried) in [
        (setting("threads", "3"), Some("threads = 3")),
        (setting("allocator", "\"jemalloc\""), Some("allocator = \"jemalloc\"")),
        (setting("compress", "true"), None),
        (puma("threads", "threads 3, 3"), Some("threads = 3")),
        (puma("threads", "threads 2, 9"), Some("threads = \"2:9\"")),
        (puma("workers", "workers 3"), Some("workers = 3")),
        (puma("preload_app!", "preload_app!"), Some("preload = true")),
        (puma("port", "port 80"), None),
        (insert(&["Paceline::HTTP.install!"], Place::End, true), None),
    ] {
        let fix = Fix { file: "paceline.toml".into(), line: String::new(), edit };
        assert_eq!(process_setting(&fix).as_deref(), tried);
    }
}

#[test]
fn an_index_is_a_migration() {
    let edit = |columns: &[&str]| Edit::Migration {
        table: "beers".into(),
        columns: columns.iter().map(|column| (*column).into()).collect(),
        concurrently: false,
    };
    let plan = planned("db/migrate", edit(&["style", "price"]), &[]).unwrap();
    assert_eq!(plan.then, ["bin/rails db:migrate"]);
    assert_eq!(plan.edits[0].path, "db/migrate/20261124120000_add_index_to_beers_on_style_and_price.rb");
    assert_eq!(
        plan.edits[0].after,
        "# frozen_string_literal: true\n\nclass AddIndexToBeersOnStyleAndPrice < ActiveRecord::Migration[6.1]\n  def change\n    add_index :beers, [:style, :price]\n  end\nend\n"
    );
    assert!(planned("db/migrate", edit(&["style"]), &[]).unwrap().edits[0]
        .after
        .contains("add_index :beers, :style\n"));
    let beside = Edit::Migration { table: "beers".into(), columns: vec!["style".into()], concurrently: true };
    assert!(planned("db/migrate", beside, &[]).unwrap().edits[0].after.contains(
        "[6.1]\n  disable_ddl_transaction!\n\n  def change\n    add_index :beers, :style, algorithm: :concurrently\n  end\n"
    ));
    assert!(planned("db/migrate", edit(&["x\"; end"]), &[]).is_err() && planned("db/migrate", edit(&[]), &[]).is_err());
}

#[test]
fn what_only_the_author_can_do_is_shown() {
    let refused = planned("", Edit::Shown { why: "it is your code".into() }, &[]).unwrap_err();
    assert_eq!(refused.to_string(), "only you can do this: it is your code");
}

#[test]
fn a_patch_shows_the_edits() {
    let edit = |before: Option<&str>, after: &str| FileEdit {
        path: "a.rb".into(),
        before: before.map(Into::into),
        after: after.into(),
    };
    for (before, after, diff) in [
        (None, "x\ny\n", "--- /dev/null\n+++ b/a.rb\n@@ -0,0 +1,2 @@\n+x\n+y\n"),
        (
            Some("1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
            "1\n2\n3\n4\nnew\n6\n7\n8\n9\n",
            "--- a/a.rb\n+++ b/a.rb\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+new\n 6\n 7\n 8\n",
        ),
        (Some("1\n"), "1\n2\n", "--- a/a.rb\n+++ b/a.rb\n@@ -1,1 +1,2 @@\n 1\n+2\n"),
        (Some("1"), "1\n2\n", "--- a/a.rb\n+++ b/a.rb\n@@ -1,1 +1,2 @@\n-1\n\\ No newline at end of file\n+1\n+2\n"),
        (Some("1\n1\n"), "1\n1\n1\n", "--- a/a.rb\n+++ b/a.rb\n@@ -1,2 +1,3 @@\n 1\n 1\n+1\n"),
        (Some("same\n"), "same\n", ""),
    ] {
        assert_eq!(unified_diff(&[edit(before, after)]), diff);
    }
}
