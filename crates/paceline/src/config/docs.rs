//! docs/configuration.md: an introduction, and every setting from the options table.
//! It never writes a file; `paceline config-docs` prints it, and a test holds the file to it.

use std::fmt::Write;

use super::options::{all, Opt, Scope, GROUPS};

const INTRODUCTION: &str = include_str!("introduction.md");

pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for group in GROUPS {
        let _ = write!(page, "\n## {group}\n");
        for option in all().filter(|option| option.group == *group) {
            page.push_str(&described(option));
        }
    }
    page
}

fn described(option: &Opt) -> String {
    let mut facts = vec![format!("in paceline.toml: {}", option.kind.words())];
    facts.extend(option.default_words().map(|words| format!("default: {words}")));
    match (option.short, option.long) {
        (_, "") => {}
        (Some(short), long) => facts.push(format!("flag: `-{short}`, `--{long}`")),
        (None, long) => facts.push(format!("flag: `--{long}`")),
    }
    if !option.env.is_empty() {
        let names: Vec<String> = option.env.iter().map(|name| format!("`{name}`")).collect();
        facts.push(format!("environment: {}", names.join(", ")));
    }
    facts.push(match option.scope {
        Scope::Server => "place: at the top, for the whole server".into(),
        Scope::Site => "place: at the top for every site, or in a `[[site]]`".into(),
        Scope::SiteByAdmin => {
            "place: at the top for every site, or in a `[[site]]`; never in a file inside a folder of `sites`".into()
        }
        Scope::OneSite => "place: in a `[[site]]`".into(),
        Scope::OneCertificate => "place: in a `[[tls]]`".into(),
    });
    let facts: String = facts.iter().map(|fact| format!("- {fact}\n")).collect();
    let risk = if option.risk.is_empty() { String::new() } else { format!("\nRisk: {}\n", option.risk) };
    format!("\n### `{}`\n\n{}\n\n{facts}{risk}", option.key, option.doc)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_DOCS=1 cargo test -p paceline --lib config::docs` writes the file anew.
    #[test]
    fn the_file_in_docs_is_this_page() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, markdown()).expect("docs/ can be written");
        }
        let file = std::fs::read_to_string(path).unwrap_or_default();
        assert!(file == markdown(), "docs/configuration.md is out of date: run this test with UPDATE_DOCS=1");
    }
}
