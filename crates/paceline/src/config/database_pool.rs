//! How many connections to its database a Rails application may open in a process, as config/database.yml says. It runs no
//! Ruby and connects to nothing: what it can't read as text, it says nothing of.

use std::fs;

use super::SiteConfig;

/// What Rails takes where nothing is said.
const BY_RAILS: usize = 5;

/// A line for `paceline check`, if the threads of a worker are more than the connections.
pub fn advice(site: &SiteConfig) -> Option<String> {
    let text = fs::read_to_string(site.root.join("config/database.yml")).ok()?;
    let pool = pool_of(&text, site)?;
    let SiteConfig { threads, stream_threads, name, .. } = site;
    (*threads > pool).then(|| {
        let streams = match stream_threads {
            0 => String::new(),
            streams => format!("; to {} if streams use the database", threads + streams),
        };
        format!(
            "warning site {name}: each worker has {threads} threads, and config/database.yml a pool of {pool}: requests wait for a \
             connection, and fail after 5 s. Set it to {threads}{streams}\n"
        )
    })
}

/// The pool that config/database.yml (`text`) gives a process of the site. None: it can't be told.
fn pool_of(text: &str, site: &SiteConfig) -> Option<usize> {
    let variable = |name: &str| site.env.get(name).cloned().or_else(|| std::env::var(name).ok());
    pool(text, &site.environment, &variable)
}

/// The pool of this environment's first database. None: it can't be told.
fn pool(text: &str, environment: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    if let Some(url) = variable("DATABASE_URL") {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        if let Some(pool) = query.split('&').find_map(|pair| pair.strip_prefix("pool=")) {
            return pool.parse().ok();
        }
    }
    let own = first_database(section(text, |head| head.split(':').next().map(str::trim) == Some(environment))?);
    let mut found = value(own);
    if found.is_none() {
        let merged = own.lines().find_map(|line| line.trim().strip_prefix("<<:")?.trim().strip_prefix('*'));
        if let Some(anchor) = merged {
            let is_it = |head: &str| head.split('&').nth(1).map(str::trim) == Some(anchor);
            found = value(section(text, is_it)?);
        }
    }
    found.map_or(Some(BY_RAILS), |found| number(found, variable))
}

/// The first of several databases, each of which is a section of its own; the section itself, if it is one.
fn first_database(section: &str) -> &str {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let is_said = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut at = 0;
    let mut first: Option<(usize, usize)> = None;
    for line in section.split_inclusive('\n') {
        match first {
            Some((begin, deep)) if is_said(line) && indentation(line) <= deep => return &section[begin..at],
            None if is_said(line) => {
                let value = line.split_once(':').map_or("", |(_, value)| value.trim());
                if !value.is_empty() && !value.starts_with('&') {
                    return section;
                }
                first = Some((at + line.len(), indentation(line)));
            }
            _ => {}
        }
        at += line.len();
    }
    first.map_or(section, |(begin, _)| &section[begin..])
}

/// The lines below a line without indentation.
fn section(text: &str, is_it: impl Fn(&str) -> bool) -> Option<&str> {
    let is_head = |line: &str| !line.starts_with([' ', '\t', '#', '\n', '\r']) && line.contains(':');
    let mut at = 0;
    let mut begin = None;
    for line in text.split_inclusive('\n') {
        match begin {
            Some(begin) if is_head(line) => return Some(&text[begin..at]),
            None if is_head(line) && is_it(line.trim_end()) => begin = Some(at + line.len()),
            _ => {}
        }
        at += line.len();
    }
    begin.map(|begin| &text[begin..])
}

/// What it says of the pool; Rails 8.1 says `max_connections`.
fn value(section: &str) -> Option<&str> {
    section.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        ["pool", "max_connections"].contains(&name.trim()).then(|| value.trim())
    })
}

/// A number, or ERB that adds numbers and variables with their defaults, as Rails' own files have it.
fn number(value: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let value = value.split(" #").next().unwrap_or(value).trim().trim_matches(['"', '\'']);
    match value.strip_prefix("<%=").and_then(|erb| erb.strip_suffix("%>")) {
        Some(erb) => erb.split('+').map(|term| self::term(term, variable)).sum(),
        None => value.parse().ok(),
    }
}

/// `5`, `ENV.fetch("X") { 5 }`, `ENV.fetch("X", 5).to_i`, `ENV["X"] || 5`.
fn term(term: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let term: String = term.chars().filter(|letter| !letter.is_whitespace()).collect();
    let term = term.strip_suffix(".to_i").unwrap_or(&term);
    if let Ok(number) = term.parse() {
        return Some(number);
    }
    let rest = ["ENV.fetch(", "ENV["].iter().find_map(|begin| term.strip_prefix(begin))?;
    let (name, default) = rest.strip_prefix(['"', '\''])?.split_once(['"', '\''])?;
    let default = default.trim_matches([')', ']', '{', '}', ',', '|', '"', '\'']);
    variable(name).and_then(|value| value.parse().ok()).or_else(|| default.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<usize> {
        let variable = |name: &str| (name == "RAILS_MAX_THREADS").then(|| "7".to_owned());
        pool(text, "production", &variable)
    }

    #[test]
    fn pools_as_rails_writes_them() {
        for (line, expected) in [
            ("pool: 12", Some(12)),
            ("pool: \"12\" # enough", Some(12)),
            ("pool: <%= ENV.fetch(\"RAILS_MAX_THREADS\") { 5 } %>", Some(7)),
            ("max_connections: <%= ENV.fetch('DB_POOL') { 6 } %>", Some(6)),
            ("pool: <%= ENV.fetch(\"RAILS_MAX_THREADS\", 3).to_i + 50 %>", Some(57)),
            ("pool: <%= ENV['DB_POOL'] || \"8\" %>", Some(8)),
            ("pool: <%= Rails.application.credentials.pool %>", None),
            ("pool: <%= ENV.fetch(\"DB_POOL\") %>", None),
            ("host: db", Some(5)),
            ("# pool: 12", Some(5)),
        ] {
            assert_eq!(of(&format!("production:\n  adapter: postgresql\n  {line}\n")), expected, "{line}");
        }
    }

    #[test]
    fn sections_and_what_they_merge() {
        let merged = "default: &default\n  pool: 9\n\n# pool: 1\ntest:\n  pool: 2\nproduction:\n  <<: *default\n  database: shop\n";
        assert_eq!(of(merged), Some(9));
        assert_eq!(of(&merged.replace("database: shop", "pool: 4")), Some(4));
        let several =
            "production:\n\n  primary: &primary\n    host: db\n    pool: 20\n  cable:\n    <<: *primary\n    pool: 3\n";
        assert_eq!(of(several), Some(20), "the first is the one of pages");
        let alike = "default: &default\n  pool: 9\nproduction:\n  primary:\n    <<: *default\n  cable:\n    pool: 3\n";
        assert_eq!(of(alike), Some(9));
        assert_eq!(of("development:\n  pool: 2\n"), None);
        let variable =
            |name: &str| (name == "DATABASE_URL").then(|| "postgres://db/shop?sslmode=require&pool=15".to_owned());
        assert_eq!(pool(merged, "production", &variable), Some(15));
    }
}
