//! Gems: missing, not in the bundle, built for another Ruby, and Gemfiles that can't be read.
//! It never guesses a gem for a file of the app.

use super::{
    case::{shell, Case, Symptom},
    files, Suggestion,
};

/// Were part of Ruby once and must be named in a Gemfile today.
const ONCE_STDLIB: [&str; 26] = [
    "abbrev",
    "base64",
    "benchmark",
    "bigdecimal",
    "csv",
    "drb",
    "fiddle",
    "getoptlong",
    "irb",
    "logger",
    "matrix",
    "mutex_m",
    "net-ftp",
    "net-imap",
    "net-pop",
    "net-smtp",
    "nkf",
    "observer",
    "ostruct",
    "prime",
    "pstore",
    "rdoc",
    "reline",
    "rexml",
    "rinda",
    "webrick",
];

/// Where Debian's packages of gems tell RubyGems about themselves.
const DEBIAN_GEMS: &str = "/usr/share/rubygems-integration";

/// Makes the empty directory of each of Debian's gems that lacks it, and prints it.
const MAKE_DIRECTORIES: &str =
    "ruby -e 'puts Gem::Specification.map(&:full_gem_path).grep(/rubygems-integration/)' | sudo xargs mkdir -pv";

/// Shared libraries of native gems, and Debian's package of each.
const LIBRARIES: [(&str, &str); 11] = [
    ("libpq.so", "libpq5"),
    ("libmariadb.so", "libmariadb3"),
    ("libmysqlclient.so", "default-libmysqlclient-dev"),
    ("libsqlite3.so", "libsqlite3-0"),
    ("libvips.so", "libvips42"),
    ("libMagick", "imagemagick"),
    ("libyaml", "libyaml-0-2"),
    ("libffi.so", "libffi8"),
    ("libxml2.so", "libxml2"),
    ("libxslt.so", "libxslt1.1"),
    ("libcurl.so", "libcurl4"),
];

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    gemfile(s, case)
        .or_else(|| bundler(s))
        .or_else(|| directory_of_debian(s, case))
        .or_else(|| missing_gem(s, case))
        .or_else(|| native(s, case))
        .or_else(|| load_error(s, case))
}

fn gemfile(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.is(&["Bundler::Dsl::DSLError", "Bundler::GemfileError", "Bundler::GemfileEvalError"])
        || s.says("There was an error parsing `")
    {
        let name = s.after("There was an error parsing `", &['`', '\'']).unwrap_or("Gemfile");
        let line =
            s.after("from ", &['\n']).and_then(|place| place.rsplit(':').find_map(|part| part.parse::<u32>().ok()));
        let line = line.or(s.line).map(|line| format!(" near line {line}")).unwrap_or_default();
        return Suggestion::run(format!("Bundler can't read {name}: look{line}."), "bundle check");
    }
    if s.is(&["Bundler::GemfileNotFound"]) {
        return Suggestion::run("The app asks for Bundler, but there is no Gemfile in its directory. Check that this is the right directory, or create one.", "bundle init");
    }
    if s.is(&["Bundler::LockfileError", "Bundler::GemfileLockNotFound"])
        || s.says("Your Gemfile.lock contains merge conflicts")
    {
        return Suggestion::run("Gemfile.lock is missing or broken (merge conflicts?): restore it from version control, or let Bundler write it again.", "bundle install");
    }
    if s.is(&["Bundler::ProductionError"])
        || s.says_any(&["The gemspecs for path gems changed", "in frozen mode", "deployment mode"])
    {
        return Suggestion::run("Gemfile and Gemfile.lock disagree, and Bundler may not change the lock here (frozen). Run this on your development machine, and commit Gemfile.lock.", "bundle install");
    }
    if s.is(&["Bundler::PathError"]) {
        let path = s.after("The path `", &['`']).unwrap_or("of a gem");
        return Suggestion::say(format!(
            "The Gemfile has a gem with the path {path}, which does not exist. {}",
            if case.has("Gemfile") { "Correct `path:` in the Gemfile." } else { "" }.trim()
        ));
    }
    None
}

fn bundler(s: &Symptom) -> Option<Suggestion> {
    let missing = s.says("required by your") && s.says("'bundler'")
        || s.says("can't find gem bundler")
        || s.says_any(&["cannot load such file -- bundler/setup", "cannot load such file -- bundler"])
            && s.class == "LoadError";
    if !missing {
        return None;
    }
    let version = s.after("'bundler' (", &[')']).map(|version| format!(":{version}")).unwrap_or_default();
    Suggestion::run(
        "The app has a Gemfile, but this Ruby has no suitable Bundler.",
        format!("gem install bundler{version}"),
    )
}

/// Some Bundlers (2.3.27, which Debian's Ruby 3.1.7 comes with) take an installed gem for deleted if its directory is
/// missing. Many of Debian's gems have none, as all their files are elsewhere.
fn directory_of_debian(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let (before, _) = s.message.split_once(".gem for installation")?;
    let gem = before.rsplit_once("Could not find ")?.1;
    if !case.has(DEBIAN_GEMS) {
        return None;
    }
    Suggestion::run(
        format!("Bundler treats {gem} as deleted. If it is a Debian package, it only lacks a directory below {DEBIAN_GEMS}: create the missing directories; they may be empty. Otherwise run `bundle install` without --local."),
        MAKE_DIRECTORIES,
    )
}

fn missing_gem(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if let Some(gem) =
        s.message.split_once(" is not part of the bundle").and_then(|(before, _)| before.split_whitespace().last())
    {
        return Suggestion::run(
            format!("The app needs {gem}, but it is not in the Gemfile{}.", case.or_group()),
            format!("bundle add {}", shell(gem)),
        );
    }
    if s.says("You have already activated") {
        let gem = s.after("You have already activated ", &[',']).unwrap_or("a gem");
        return Suggestion::run(format!("{gem} was loaded before Bundler could choose the version in Gemfile.lock. Look for a `require` before `bundler/setup` (RUBYOPT, config/puma.rb), or use the newer version."), "bundle update");
    }
    if s.is(&["Bundler::VersionConflict", "Bundler::SolveFailure"]) {
        return Suggestion::run(
            "The Gemfile's requirements contradict each other; Bundler says above which.",
            "bundle update",
        );
    }
    if s.is(&["Bundler::GitError"]) {
        return Suggestion::run("A gem from a git repository is not checked out yet.", "bundle install");
    }
    let names = [
        "Bundler::GemNotFound",
        "Gem::MissingSpecError",
        "Gem::MissingSpecVersionError",
        "Gem::GemNotFoundException",
        "Gem::LoadError",
    ];
    let found = s.is(&names) || s.says_any(&["in locally installed gems", "in any of the sources"]);
    if !found || s.says("cannot load such file") {
        return None;
    }
    let gems = s
        .after("Could not find gem '", &['\''])
        .or_else(|| s.after("Could not find '", &['\'']))
        .or_else(|| s.after("can't find gem ", &[' ']))
        .or_else(|| {
            s.after("Could not find ", &['\n'])
                .map(|text| text.split(" in ").next().unwrap_or(text).trim_end_matches(" for installation"))
        });
    let name = gems.unwrap_or("A gem");
    let plural = if name.contains(", ") { "are" } else { "is" };
    if case.has("Gemfile") || s.class.starts_with("Bundler::") {
        return Suggestion::run(
            format!("{name} {plural} in the Gemfile but not installed for this Ruby."),
            "bundle install",
        );
    }
    let gem = name.split_whitespace().next().unwrap_or(name);
    Suggestion::run(format!("The gem {name} is not installed for this Ruby."), format!("gem install {}", shell(gem)))
}

/// Extensions that don't fit this Ruby, or lack a library.
fn native(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.class != "LoadError" {
        return None;
    }
    let command = if case.has("Gemfile") { "bundle pristine" } else { "gem pristine --all" };
    let other_ruby = s.says_any(&["incompatible library version", "undefined symbol", "libruby"]);
    if other_ruby {
        return Suggestion::run("A gem's native extension was built for another Ruby: build it again.", command);
    }
    // Copied from a Mac or another kind of processor, or only in part.
    if s.says_any(&["invalid ELF header", "wrong ELF class", "file too short"]) {
        let file =
            s.after(" - ", &['\n']).map(|file| format!(" ({})", case.below_root(file.as_ref()))).unwrap_or_default();
        return Suggestion::run(
            format!(
                "A native extension{file} is damaged, or was built for another system: build it again on this machine."
            ),
            command,
        );
    }
    if s.says("cannot open shared object file") {
        let library = s
            .message
            .split([' ', ':'])
            .find(|word| word.starts_with("lib") && word.contains(".so"))
            .unwrap_or("A library");
        let text = format!("{library}, a system library that a gem's native extension needs, is not installed.");
        let package = LIBRARIES.iter().find(|(name, _)| library.starts_with(name));
        return match package {
            Some((_, package)) => Suggestion::run(text, format!("apt-get install {package}")),
            None => Suggestion::say(format!("{text} `apt-file search {library}` finds its package.")),
        };
    }
    let extension = s.after("cannot load such file -- ", &['\n']).filter(|file| is_extension(file))?;
    Suggestion::run(
        format!("The native extension {extension} of a gem was built for another Ruby, or not at all: build it again."),
        command,
    )
}

/// A compiled file, by the names that gems give theirs: `sqlite3/sqlite3_native`, `pg_ext`, `msgpack/msgpack`.
fn is_extension(file: &str) -> bool {
    let is_twice = file.split_once('/').is_some_and(|(gem, name)| gem == name);
    is_twice || ["_native", "_ext", ".so"].iter().any(|end| file.ends_with(end))
}

fn load_error(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.class != "LoadError" {
        return None;
    }
    let file = s.after("cannot load such file -- ", &['\n', '\''])?;
    let of_app = file.starts_with(['/', '.']) || case.has(&format!("{file}.rb")) || case.has(&format!("lib/{file}.rb"));
    if of_app {
        // Ruby says the same of a file that it may not read.
        if let Some(unread) =
            [file.to_string(), format!("{file}.rb")].iter().find(|path| path.starts_with('/') && case.has(path))
        {
            return files::forbidden(Some(unread), case);
        }
        let name = case.below_root(file.as_ref());
        let place = s.place(case).map(|place| format!(" {place} requires it.")).unwrap_or_default();
        let there = ["", "lib/"].map(|folder| format!("{folder}{file}.rb")).into_iter().find(|path| case.has(path));
        if let Some(there) = there.filter(|_| !file.starts_with(['/', '.'])) {
            return Suggestion::say(format!(
                "{there} is in the app, but not on Ruby's load path: use `require_relative`.{place}"
            ));
        }
        return Suggestion::say(format!("The file {name} is missing. Check {}.{place}", case.name_of_file()));
    }
    let gem = gem_of(file);
    if ONCE_STDLIB.contains(&gem.as_str()) {
        let text = format!("{gem} no longer comes with Ruby itself");
        return if case.has("Gemfile") {
            Suggestion::run(format!("{text}; add it to the Gemfile."), format!("bundle add {gem}"))
        } else {
            Suggestion::run(format!("{text}; install it as a gem."), format!("gem install {gem}"))
        };
    }
    if case.has("Gemfile") {
        return Suggestion::run(
            format!("No gem of the bundle has the file `{file}`; probably the Gemfile lacks {gem}{}.", case.or_group()),
            format!("bundle add {}", shell(&gem)),
        );
    }
    Suggestion::run(
        format!("No installed gem has the file `{file}`; probably the gem {gem} is missing (the app has no Gemfile)."),
        format!("gem install {}", shell(&gem)),
    )
}

/// The gem that most likely holds a required file.
fn gem_of(file: &str) -> String {
    let first = file.split('/').next().unwrap_or(file);
    let known = match first {
        "active_record" | "active_support" | "action_pack" | "active_model" | "active_job" | "action_cable" => {
            first.replace('_', "")
        }
        "action_controller" | "action_dispatch" => "actionpack".into(),
        "action_mailer" | "action_view" => first.replace('_', ""),
        "rspec" | "omniauth" | "sinatra" | "net" | "dry" | "google" | "opentelemetry" if file.contains('/') => {
            let second = file.split('/').nth(1).unwrap_or_default();
            match (first, second) {
                ("sinatra", "base" | "main" | "version") => "sinatra".into(),
                ("sinatra", "reloader" | "json" | "namespace" | "cookies" | "streaming") => "sinatra-contrib".into(),
                _ => format!("{first}-{second}"),
            }
        }
        "bundler" => "bundler".into(),
        "rack" if file.starts_with("rack/handler") => "rackup".into(),
        "rack" if file.starts_with("rack/session") => "rack-session".into(),
        _ => first.to_string(),
    };
    known.trim_end_matches(".rb").to_string()
}

#[cfg(test)]
mod tests {
    use super::{
        super::testing::{row, Machine, BUNDLED, DEBIAN, RACK, RAILS},
        MAKE_DIRECTORIES,
    };

    #[test]
    #[rustfmt::skip]
    fn gems_and_gemfiles() {
        const OWN: Machine = Machine(&["config.ru", "beer.rb", "lib/hops.rb"]);
        for (machine, class, message, text, command) in [
            (&RAILS, "Bundler::GemNotFound", "Could not find nokogiri-1.13.0, puma-5.0 in any of the sources", "nokogiri-1.13.0, puma-5.0 are in the Gemfile", "bundle install"),
            (&RAILS, "Bundler::GemNotFound", "Could not find gem 'foo (~> 1)' in locally installed gems.", "foo (~> 1) is in the Gemfile", "bundle install"),
            (&RACK, "Gem::MissingSpecError", "Could not find 'roda' (>= 0) among 80 total gem(s)", "The gem roda is not installed", "gem install roda"),
            (&BUNDLED, "LoadError", "cannot load such file -- roda", "the Gemfile lacks roda", "bundle add roda"),
            (&RACK, "LoadError", "cannot load such file -- sinatra/base", "the app has no Gemfile", "gem install sinatra"),
            (&RACK, "LoadError", "cannot load such file -- active_record", "the gem activerecord is missing", "gem install activerecord"),
            (&BUNDLED, "LoadError", "cannot load such file -- csv", "no longer comes with Ruby", "bundle add csv"),
            (&BUNDLED, "LoadError", "cannot load such file -- net/smtp", "net-smtp no longer comes", "bundle add net-smtp"),
            (&RAILS, "LoadError", "cannot load such file -- /srv/app/lib/beer", "The file lib/beer is missing", "-"),
            (&OWN, "LoadError", "cannot load such file -- /srv/app/beer", "deploy, the account that runs the app, may not open beer.rb", "ls -ld beer.rb"),
            (&OWN, "LoadError", "cannot load such file -- beer", "beer.rb is in the app, but not on Ruby's load path: use `require_relative`. config/x.rb:7 requires it.", "-"),
            (&OWN, "LoadError", "cannot load such file -- hops", "lib/hops.rb is in the app, but not on", "-"),
            (&RACK, "LoadError", "cannot load such file -- bundler/setup", "no suitable Bundler", "gem install bundler"),
            (&RAILS, "Gem::GemNotFoundException", "Could not find 'bundler' (2.4.1) required by your /srv/app/Gemfile.lock.", "no suitable Bundler", "gem install bundler:2.4.1"),
            (&RAILS, "Bundler::Dsl::DSLError", "\n[!] There was an error parsing `Gemfile`: syntax error. Bundler cannot continue.\n\n #  from /srv/app/Gemfile:4\n", "near line 4", "bundle check"),
            (&RACK, "Bundler::GemfileNotFound", "Could not locate Gemfile", "no Gemfile", "bundle init"),
            (&RAILS, "Bundler::ProductionError", "You are trying to install in deployment mode after changing your Gemfile.", "disagree", "bundle install"),
            (&RAILS, "Gem::LoadError", "pg is not part of the bundle. Add it to your Gemfile.", "it is not in the Gemfile", "bundle add pg"),
            (&RAILS, "Gem::LoadError", "You have already activated rack 3.0, but your Gemfile requires rack 2.2.", "rack 3.0 was loaded before", "bundle update"),
            (&RAILS, "LoadError", "libpq.so.5: cannot open shared object file: No such file or directory - /x/pg_ext.so", "libpq.so.5", "apt-get install libpq5"),
            (&RAILS, "LoadError", "cannot load such file -- sqlite3/sqlite3_native", "built for another Ruby", "bundle pristine"),
            (&RAILS, "LoadError", "cannot load such file -- pg_ext", "extension pg_ext of a gem was built for another Ruby", "bundle pristine"),
            (&RAILS, "LoadError", "cannot load such file -- msgpack/msgpack", "extension msgpack/msgpack", "bundle pristine"),
            (&RAILS, "LoadError", "libruby-3.0.so.3.0: cannot open shared object file: No such file or directory - /x/bcrypt_ext.so", "built for another Ruby", "bundle pristine"),
            (&RACK, "LoadError", "/srv/app/ext/hops.so: invalid ELF header - /srv/app/ext/hops.so", "extension (ext/hops.so) is damaged", "gem pristine --all"),
            (&BUNDLED, "LoadError", "cannot load such file -- byebug", "lacks byebug, or has it only in a group that production does not load", "bundle add byebug"),
            (&RAILS, "LoadError", "incompatible library version - /x/bcrypt_ext.so", "built for another Ruby", "bundle pristine"),
            (&DEBIAN, "Bundler::GemNotFound", "Could not find rotp-6.2.0.gem for installation", "Bundler treats rotp-6.2.0 as deleted", MAKE_DIRECTORIES),
            (&DEBIAN, "Bundler::InstallError", "Bundler::GemNotFound: Could not find rotp-6.2.0.gem for installation\nAn error occurred", "Bundler treats rotp-6.2.0 as deleted", MAKE_DIRECTORIES),
            (&RAILS, "Bundler::GemNotFound", "Could not find rotp-6.2.0.gem for installation", "rotp-6.2.0.gem is in the Gemfile", "bundle install"),
            (&RAILS, "Bundler::GitError", "The git source https://example.org/x is not yet checked out.", "not checked out", "bundle install"),
        ] {
            row(machine, class, message, text, command);
        }
    }
}
