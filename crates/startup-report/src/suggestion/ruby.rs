//! The wrong Ruby: another version than the app asks for, or one too old for Paceline.
//! It never looks for other Rubies itself.

use super::{
    case::{shell, Case, Symptom},
    Suggestion,
};

/// The oldest Ruby the worker's side runs on.
const OLDEST: (u32, u32) = (3, 1);

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.is(&["Bundler::RubyVersionMismatch"]) || s.says("Your Ruby version is") {
        let running = s.after("Your Ruby version is ", &[',']).unwrap_or("another");
        let wanted = s.after("Gemfile specified ", &['\n']).unwrap_or("another").trim_end_matches('.');
        return other_ruby(format!("The Gemfile asks for Ruby {wanted}, and this is Ruby {running}."), wanted, case);
    }
    if let Some(running) = too_old(&case.report.versions) {
        return other_ruby(format!("Paceline needs Ruby 3.1 or newer, and this is Ruby {running}."), "3.3", case);
    }
    // New syntax or methods under an old Ruby: the app says itself which one it wants.
    let wanted = case.seen.first_line(&case.report.root.join(".ruby-version"))?;
    let wanted = wanted.trim_start_matches("ruby-").to_string();
    let running = version_of(&case.report.versions)?;
    let differs = minor(&wanted)? != minor(running)?;
    let lacks = s.is(&["SyntaxError"]) || s.is(&["NoMethodError"]) && !s.says("for nil");
    if differs && case.has(".ruby-version") && lacks {
        return other_ruby(format!(".ruby-version asks for Ruby {wanted}, and this is Ruby {running}, which may lack features that the code uses."), &wanted, case);
    }
    None
}

fn other_ruby(text: String, wanted: &str, case: &Case) -> Option<Suggestion> {
    let version = shell(wanted.trim_start_matches(['~', '>', '=', ' ']));
    let text =
        format!("{text} Install the right one and point Paceline at it (`ruby = \"/path/to/ruby\"` in paceline.toml)");
    let install = [
        ("rbenv", "rbenv install"),
        ("mise", "mise install ruby@"),
        ("asdf", "asdf install ruby"),
        ("rvm", "rvm install"),
    ];
    match install.into_iter().find(|(program, _)| case.seen.program(program)) {
        Some((_, command)) if command.ends_with('@') => {
            Suggestion::run(format!("{text}."), format!("{command}{version}"))
        }
        Some((_, command)) => Suggestion::run(format!("{text}."), format!("{command} {version}")),
        None => Suggestion::say(format!("{text}, or change the version the app asks for.")),
    }
}

/// `3.1.2` of `ruby 3.1.2, rails 6.1.7`.
fn version_of(versions: &str) -> Option<&str> {
    versions
        .split(", ")
        .find_map(|part| part.trim().strip_prefix("ruby "))
        .map(|version| version.split(['p', ' ']).next().unwrap_or(version))
}

fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn too_old(versions: &str) -> Option<&str> {
    version_of(versions).filter(|version| minor(version).is_some_and(|version| version < OLDEST))
}

#[cfg(test)]
mod tests {
    use super::super::{suggest_with, testing::*};

    #[test]
    fn the_wrong_ruby() {
        let mismatch = "Your Ruby version is 3.1.2, but your Gemfile specified 3.3.0";
        row(&RAILS, "Bundler::RubyVersionMismatch", mismatch, "asks for Ruby 3.3.0, and this is Ruby 3.1.2", "-");
        row(&Machine(&["$rbenv"]), "Bundler::RubyVersionMismatch", mismatch, "paceline.toml", "rbenv install 3.3.0");
        row(&Machine(&["$mise"]), "Bundler::RubyVersionMismatch", mismatch, "paceline.toml", "mise install ruby@3.3.0");
        row(
            &Machine(&[".ruby-version", "$rbenv"]),
            "SyntaxError",
            "config/x.rb:7: syntax error",
            ".ruby-version asks for Ruby 3.3.0",
            "rbenv install 3.3.0",
        );
    }

    #[test]
    fn too_old_for_paceline() {
        let mut old = report("production", exception("NoMethodError", "undefined method `x'"));
        old.versions = "ruby 2.7.5p203, rails 6.1.7".into();
        check(suggest_with(&old, &RAILS), "needs Ruby 3.1 or newer, and this is Ruby 2.7.5.", "-", "old");
    }
}
