//! What Rails applications lack: migrations, secrets, compiled assets, environment variables, constants.
//! It never prints a secret.

use super::{
    case::{shell, Case, Occasion, Symptom},
    Suggestion,
};

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    migrations(s, case)
        .or_else(|| secrets(s, case))
        .or_else(|| assets(s, case))
        .or_else(|| variables(s))
        .or_else(|| loading(s, case))
}

fn migrations(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if !s.is(&["ActiveRecord::PendingMigrationError"]) && !s.says("Migrations are pending") {
        return None;
    }
    let count = s.after("You have ", &[' ']).filter(|count| count.parse::<u32>().is_ok_and(|count| count > 0));
    let text = match count {
        Some("1") => "One migration has not run on this database yet.".to_string(),
        Some(count) => format!("{count} migrations have not run on this database yet."),
        None => "Migrations have not run on this database yet.".to_string(),
    };
    Suggestion::with(text, case.rails("db:migrate"))
}

fn secrets(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.says("Missing `secret_key_base`") || s.says("secret_key_base for ") && s.says("must be a") {
        if case.has("config/credentials.yml.enc") && !case.has("config/master.key") {
            return Suggestion::say("The secret key is in config/credentials.yml.enc, but its master key is missing: put it into config/master.key, or into the environment variable RAILS_MASTER_KEY. (SECRET_KEY_BASE in the environment works without either.)");
        }
        return Suggestion::with("The app has no secret key for this environment. Add secret_key_base to its credentials, or set it in the environment: SECRET_KEY_BASE=$(bin/rails secret).", case.rails("credentials:edit"));
    }
    if s.is(&[
        "ActiveSupport::EncryptedFile::MissingKeyError",
        "ActiveSupport::EncryptedConfiguration::MissingKeyError",
    ]) || s.says("Missing encryption key to decrypt file")
    {
        let key = format!("config/credentials/{}.key", case.report.environment);
        return Suggestion::say(format!("The app's credentials are encrypted and their key is missing: ask your team for it and put it into config/master.key (or {key}), or into the environment variable RAILS_MASTER_KEY."));
    }
    if s.is(&[
        "ActiveSupport::MessageEncryptor::InvalidMessage",
        "ActiveSupport::EncryptedFile::InvalidKeyLengthError",
        "OpenSSL::Cipher::CipherError",
    ]) && (case.occasion == Occasion::Start || case.came_through("/encrypted_file.rb"))
    {
        return Suggestion::with("The key in config/master.key or RAILS_MASTER_KEY does not open the app's credentials: it belongs to other credentials, or is incomplete.", case.rails("credentials:show"));
    }
    // `Rails.application.credentials.mail!`, and the like of config.x.
    let blank = s.message.lines().next().and_then(|line| line.strip_prefix(':')?.strip_suffix(" is blank"));
    if let Some(name) = blank.filter(|_| s.is(&["KeyError"])) {
        let place = s.place(case).map(|place| format!(" ({place})")).unwrap_or_default();
        return Suggestion::with(
            format!(
                "The app's credentials or settings have no value for {name}{place}: add it for {}.",
                case.report.environment
            ),
            case.rails("credentials:edit"),
        );
    }
    None
}

fn assets(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.is(&["ExecJS::RuntimeUnavailable"]) || s.says("Could not find a JavaScript runtime") {
        return Suggestion::run(
            "Compiling assets needs a JavaScript runtime, and there is none on this machine.",
            "apt-get install nodejs",
        );
    }
    if s.says("app/assets/config/manifest.js") {
        return Suggestion::run(
            "Sprockets needs a manifest of the assets to compile, and the app has none.",
            "mkdir -p app/assets/config && echo '//= link_tree ../images' > app/assets/config/manifest.js",
        );
    }
    let missing = [
        "AssetNotPrecompiled",
        "MissingAssetError",
        "AssetNotFound",
        "Manifest::MissingEntryError",
        "AssetNotPrecompiledError",
    ];
    if missing.iter().any(|name| s.class.contains(name))
        || s.says_any(&["is not present in the asset pipeline", "public/assets/manifest"])
    {
        return Suggestion::with(
            "The app refers to an asset that has not been compiled.",
            case.rails("assets:precompile"),
        );
    }
    None
}

/// ENV.fetch("X") without X.
fn variables(s: &Symptom) -> Option<Suggestion> {
    if s.class != "KeyError" || s.says("looked up in: ") {
        return None;
    }
    let name = s.after("key not found: \"", &['"'])?;
    let variable = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let text = format!("The app needs the environment variable {name}, which is not set. Set it where you start Paceline, or for this app in paceline.toml: `env = {{ {name} = \"...\" }}`.");
    variable.then(|| Suggestion::run(text, format!("{}=... paceline", shell(name)))).flatten()
}

/// Names that belong to no file, and files that don't hold their name.
fn loading(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.is(&["Zeitwerk::NameError"]) || s.says("to define constant") {
        let file = s
            .after("expected file ", &[' '])
            .map(|file| case.below_root(file.as_ref()))
            .unwrap_or_else(|| "The file".into());
        let constant = s.after("to define constant ", &[',', ' ']).unwrap_or("its constant");
        return Suggestion::with(
            format!("Because of its name, {file} must define {constant}, but it does not: rename one of them."),
            case.rails("zeitwerk:check"),
        );
    }
    // concurrent-ruby 1.3.5 no longer requires logger, on which Rails up to 7.0 relied.
    if s.says("LoggerThreadSafeLevel::Logger") {
        return Suggestion::run("This Rails does not load Ruby's logger itself: add `require \"logger\"` above `require \"rails\"` in config/boot.rb, or keep concurrent-ruby below 1.3.5.", "bundle add concurrent-ruby --version '< 1.3.5'");
    }
    if s.says("missing run or map statement") {
        return Suggestion::say("config.ru does not run an application: add a line such as `run MyApp`.");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{for_request, suggest_with, testing::*};
    use crate::Failure;

    #[test]
    fn a_hash_is_not_the_environment() {
        let missing = exception("KeyError", "key not found: \"HOPS\"\nlooked up in: Hash");
        assert_eq!(suggest_with(&report("production", missing), &RAILS), None);
    }

    #[test]
    fn what_an_application_decrypts_itself_says_nothing_of_its_credentials() {
        let class = "ActiveSupport::MessageEncryptor::InvalidMessage";
        let mut report = report("production", exception(class, class));
        assert_eq!(for_request(&report, &RAILS), None);
        if let Some(Failure::Exception { backtrace, .. }) = &mut report.failure {
            backtrace.push("/gems/activesupport-6.1.7/lib/active_support/encrypted_file.rb:99:in `decrypt'".into());
        }
        check(for_request(&report, &RAILS), "does not open", "RAILS_ENV=production bin/rails credentials:show", class);
    }

    const LOCKED: Machine = Machine(&["bin/rails", "config/credentials.yml.enc"]);

    #[test]
    #[rustfmt::skip]
    fn rails_applications() {
        let prepare = "RAILS_ENV=production bin/rails";
        for (machine, class, message, text, command) in [
            (&RAILS, "ActiveRecord::PendingMigrationError", "\n\nMigrations are pending.\nYou have 1 pending migration:\n", "One migration", format!("{prepare} db:migrate")),
            (&RAILS, "ActiveRecord::PendingMigrationError", "You have 12 pending migrations", "12 migrations", format!("{prepare} db:migrate")),
            (&BUNDLED, "ActiveRecord::PendingMigrationError", "Migrations are pending.", "Migrations have not run", "RACK_ENV=production bundle exec rake db:migrate".into()),
            (&RAILS, "ArgumentError", "Missing `secret_key_base` for 'production' environment, set this string with `bin/rails credentials:edit`", "SECRET_KEY_BASE=$(bin/rails secret)", format!("{prepare} credentials:edit")),
            (&LOCKED, "ArgumentError", "Missing `secret_key_base` for 'production' environment", "RAILS_MASTER_KEY", "-".into()),
            (&RAILS, "ActiveSupport::EncryptedFile::MissingKeyError", "Missing encryption key to decrypt file with.", "config/master.key", "-".into()),
            (&RAILS, "ActiveSupport::MessageEncryptor::InvalidMessage", "ActiveSupport::MessageEncryptor::InvalidMessage", "does not open", format!("{prepare} credentials:show")),
            (&RAILS, "KeyError", ":mail is blank", "no value for mail (config/x.rb:7): add it for production", format!("{prepare} credentials:edit")),
            (&RAILS, "ExecJS::RuntimeUnavailable", "Could not find a JavaScript runtime.", "JavaScript runtime", "apt-get install nodejs".into()),
            (&RAILS, "Sprockets::Rails::Helper::AssetNotPrecompiled", "Asset `x.css` was not declared", "not been compiled", format!("{prepare} assets:precompile")),
            (&RAILS, "Sprockets::Railtie::ManifestNeededError", "Expected to find a manifest file in `app/assets/config/manifest.js`", "manifest", "mkdir -p app/assets/config && echo '//= link_tree ../images' > app/assets/config/manifest.js".into()),
            (&RAILS, "KeyError", "key not found: \"SMTP_HOST\"", "SMTP_HOST, which is not set", "SMTP_HOST=... paceline".into()),
            (&RAILS, "Zeitwerk::NameError", "expected file /srv/app/app/models/beer.rb to define constant Beer, but didn't", "app/models/beer.rb must define Beer", format!("{prepare} zeitwerk:check")),
            (&RACK, "RuntimeError", "missing run or map statement", "run MyApp", "-".into()),
            (&RAILS, "NameError", "uninitialized constant ActiveSupport::LoggerThreadSafeLevel::Logger", "require \"logger\"", "bundle add concurrent-ruby --version '< 1.3.5'".into()),
        ] {
            row(machine, class, message, text, &command);
        }
    }
}
