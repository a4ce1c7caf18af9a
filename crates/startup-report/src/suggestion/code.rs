//! Mistakes in the app's own code: syntax, unknown names, frozen objects.
//! It comes last: it never speaks where another rule knows the reason.

use super::{
    case::{shell, Case, Occasion, Symptom},
    Suggestion,
};
use std::path::PathBuf;

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let place = s.place(case).map(|place| format!(" ({place})")).unwrap_or_default();
    match s.class.as_str() {
        "SyntaxError" => syntax(s, case),
        "NameError" | "NoMethodError" | "ActionView::Template::Error" => name(s, case, &place),
        "FrozenError" => Suggestion::say(format!("The code changes an object that is frozen{place}: work on a copy (`dup`, or `+\"\"` for a string).")),
        "SystemStackError" => Suggestion::say(format!("A method calls itself endlessly{place}.")),
        "ArgumentError" if s.says("wrong number of arguments") => Suggestion::say(format!("A method is called with the wrong number of arguments{place}. If the method belongs to a gem, check that the gem's version fits the code.")),
        _ => None,
    }
}

fn syntax(s: &Symptom, case: &Case) -> Option<Suggestion> {
    // `/srv/app/x.rb:12: syntax error, ...`
    let said = s.message.lines().find_map(|line| {
        let (file, end, rest) = [".rb", ".erb"].iter().find_map(|end| {
            let (file, rest) = line.split_once(&format!("{end}:"))?;
            Some((file, end, rest))
        })?;
        let number: u32 = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        Some((PathBuf::from(format!("{}{end}", file.trim().trim_start_matches("--> "))), number))
    });
    let (file, line) = match (&s.file, s.line) {
        (Some(file), Some(line)) => (file.clone(), line),
        _ => said?,
    };
    let name = case.below_root(&file);
    if name.ends_with(".erb") {
        return Suggestion::say(format!("Ruby can't read the template {name}: look at line {line} and above it. The usual reason is a missing or extra `end`, bracket or quote."));
    }
    let end = s.says_any(&["end-of-input", "expected an `end`", "unexpected `end'", "unexpected end,"]);
    let hint = if end {
        " The usual reason is a missing or extra `end`, bracket or quote, often well above that line."
    } else {
        ""
    };
    Suggestion::run(format!("Ruby can't read {name}: look at line {line}.{hint}"), format!("ruby -wc {}", shell(&name)))
}

fn name(s: &Symptom, case: &Case, place: &str) -> Option<Suggestion> {
    // Names that newer Rubies dropped.
    for (gone, instead) in [
        ("`exists?' for File", "File.exist?"),
        ("`exists?' for Dir", "Dir.exist?"),
        ("'exists?' for class File", "File.exist?"),
        ("'exists?' for class Dir", "Dir.exist?"),
        ("constant Fixnum", "Integer"),
        ("constant Bignum", "Integer"),
    ] {
        if s.says(gone) {
            return Suggestion::say(format!(
                "This Ruby no longer has this method or class{place}: use {instead}, or update the gem that uses it."
            ));
        }
    }
    if let Some(meant) = meant(&s.message) {
        return Suggestion::say(format!("Probably a typo{place}. Did you mean {meant}?"));
    }
    if let Some(constant) = s.after("uninitialized constant ", &[' ', '\n', '(']) {
        let text = format!("Nothing defines {constant}{place}. Check its spelling, and that its file is required or in an autoloaded folder.");
        return if case.is_rails() {
            Suggestion::with(text, case.rails("zeitwerk:check"))
        } else {
            Suggestion::say(text)
        };
    }
    // In a request it is nearly always the code's own mistake, which no general advice helps.
    if s.says("for nil") && case.occasion == Occasion::Start {
        return Suggestion::say(format!(
            "A value is nil that should not be{place}: often a setting or credential is missing in {}.",
            case.report.environment
        ));
    }
    None
}

/// did_you_mean's names, one below the other or with commas; message and detail may both hold them.
fn meant(message: &str) -> Option<String> {
    let (_, names) = message.split_once("Did you mean?")?;
    let names = names.split("Did you mean?").next()?.split("\n\n").next()?;
    let names: Vec<&str> = names.split_whitespace().map(|name| name.trim_end_matches(',')).take(5).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::{for_request, suggest_with, testing::*};

    #[test]
    #[rustfmt::skip]
    fn mistakes_in_code() {
        for (machine, class, message, text, command) in [
            (&RAILS, "SyntaxError", "/srv/app/config/x.rb:7: syntax error, unexpected end-of-input", "look at line 7. The usual reason", "ruby -wc config/x.rb"),
            (&RAILS, "NameError", "undefined local variable or method `beerz'\nDid you mean?  beers\n               beer", "Did you mean beers, beer?", "-"),
            (&RAILS, "NameError", "undefined local variable or method `beerz'\nDid you mean?  beers\nDid you mean? beers", "Did you mean beers?", "-"),
            (&RAILS, "NameError", "uninitialized constant Breweryy", "Nothing defines Breweryy (config/x.rb:7)", "RAILS_ENV=production bin/rails zeitwerk:check"),
            (&RACK, "NameError", "uninitialized constant App", "Nothing defines App", "-"),
            (&RAILS, "NoMethodError", "undefined method `exists?' for File:Class", "File.exist?", "-"),
            (&RAILS, "NoMethodError", "undefined method `[]' for nil:NilClass", "missing in production", "-"),
            (&RAILS, "FrozenError", "can't modify frozen String: \"x\"", "dup", "-"),
            (&RAILS, "SystemStackError", "stack level too deep", "endlessly", "-"),
        ] {
            row(machine, class, message, text, command);
        }
    }

    #[test]
    fn a_cause_that_is_known_speaks_before_a_vague_exception() {
        let cause = "PG::ConnectionBad: Connection refused";
        for cause in [cause, &format!("RuntimeError: no settings\ncaused by {cause}")] {
            let failure = exception_of("NameError", "uninitialized constant X", cause);
            check(suggest_with(&report("test", failure), &RAILS), "PostgreSQL", "systemctl start postgresql", cause);
        }
    }

    #[test]
    fn a_template_that_can_not_be_read_is_named() {
        let failure = exception_of(
            "ActionView::SyntaxErrorInTemplate",
            "Encountered a syntax error while rendering template: check <% if true %>",
            "SyntaxError: /srv/app/app/views/beers/show.html.erb:4: syntax error, unexpected end-of-input",
        );
        let text = "the template app/views/beers/show.html.erb: look at line 4";
        check(for_request(&report("development", failure), &RAILS), text, "-", "a template");
    }

    #[test]
    fn a_request_is_given_no_advice_for_a_start() {
        for (class, message) in [("NoMethodError", "undefined method `[]' for nil:NilClass"), ("SystemExit", "exit")] {
            let report = report("development", exception(class, message));
            assert!(suggest_with(&report, &RAILS).is_some(), "{class}");
            assert_eq!(for_request(&report, &RAILS), None, "{class}");
        }
        let pending =
            report("development", exception("ActiveRecord::PendingMigrationError", "Migrations are pending."));
        check(for_request(&pending, &RAILS), "Migrations have not run", "bin/rails db:migrate", "pending");
    }

    #[test]
    #[rustfmt::skip]
    fn the_unknown_has_no_suggestion() {
        for (class, message) in [("RuntimeError", "boom"), ("", ""), ("StandardError", "x\n\n - \u{0}`'\"(")] {
            assert_eq!(suggest_with(&report("production", exception(class, message)), &RACK), None);
        }
    }
}
