//! Queries of the database: the same one again and again (N+1), and tables that are read whole for want of an index.

use super::{of, shown, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Edit, Fix, Kind, Trial},
    observation::{Observations, ObservedRequest},
    profile::Profile,
    protocol::{Deliver, Evidence, Patch, Reads, Scan, Sql},
    units,
};

/// A query that comes fewer times in a request is no loop.
const REPEATED: u64 = 5;
/// Such queries take so long together, or their loop is short. Microseconds.
const REPEATED_US: f64 = 500.0;
/// So many that Rails' query cache has answered take their time all the same, if the line that asks takes this part of it.
const ASKED: u64 = 20;
const ASKED_PART: f64 = 0.2;
/// Ruby makes the query's text and its records, which takes as long again as the database, about.
pub(super) const RUBY_OF_QUERY: f64 = 2.0;
/// What names an association to load with the records.
const INCLUDES: &str = ".includes(";
/// How ActiveRecord names the query of `exists?`, behind the model.
const EXISTS: &str = " Exists?";
/// Reading a table whole takes so long, or it is small. Microseconds.
const SCAN_US: f64 = 1_000.0;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    for look in Look::all(observations) {
        found.extend(repeated_queries(&look));
        found.extend(missing_indexes(observations, &look));
    }
}

fn is_repeated(sql: &Sql) -> bool {
    sql.count.saturating_sub(sql.cached) >= REPEATED
        && sql.shape.trim_start().to_ascii_uppercase().starts_with("SELECT")
}

/// All but one of them.
fn repeated_us(evidence: &Evidence, shape: &str) -> f64 {
    let same = evidence.sql.iter().filter(|sql| sql.shape == shape && is_repeated(sql));
    same.map(|sql| sql.us * RUBY_OF_QUERY * (1.0 - 1.0 / sql.count.max(1) as f64)).sum()
}

/// One that is asked again and again, and that the query cache answers.
fn is_asked(sql: &Sql) -> bool {
    sql.count >= ASKED && !is_repeated(sql) && sql.shape.trim_start().to_ascii_uppercase().starts_with("SELECT")
}

/// The database says nothing of its time: that of its line does.
fn asked_us(look: &Look, shape: &str) -> f64 {
    let all = look.route.requests.iter().flat_map(|request| &request.evidence.sql);
    let line = all.filter(|sql| sql.shape == shape && is_asked(sql)).map(|sql| sql.at.as_str()).next();
    let part = line.map_or(0.0, |at| Profile::of(look.route).part_at(at));
    if part >= ASKED_PART {
        part * look.wall_us
    } else {
        0.0
    }
}

fn repeated_queries(look: &Look) -> Vec<WeighedCandidate> {
    let mut shapes: Vec<&str> = Vec::new();
    let all = look.route.requests.iter().flat_map(|request| &request.evidence.sql);
    for sql in all.filter(|sql| is_repeated(sql) || is_asked(sql)) {
        if !shapes.contains(&sql.shape.as_str()) {
            shapes.push(&sql.shape);
        }
    }
    let repeated = shapes.into_iter().filter_map(|shape| Repeated::of(look, shape));
    // One association may load several tables (a polymorphic one does): that is one change.
    let mut all: Vec<Vec<Repeated>> = Vec::new();
    for one in repeated {
        let same = all.iter_mut().find(|known| known[0].line == one.line && known[0].sql.at == one.sql.at);
        match same.filter(|_| one.line.contains(INCLUDES)) {
            Some(known) => known.push(one),
            None => all.push(vec![one]),
        }
    }
    all.into_iter().filter_map(|same| repeated_query(look, same)).collect()
}

/// One shape of a route, where most of the queries are.
struct Repeated<'a> {
    shape: &'a str,
    sql: &'a Sql,
    us: f64,
    /// What loads its records at once.
    line: String,
}

impl<'a> Repeated<'a> {
    fn of(look: &Look<'a>, shape: &'a str) -> Option<Repeated<'a>> {
        let us = |request: &ObservedRequest| repeated_us(&request.evidence, shape);
        let count = |request: &ObservedRequest| {
            request.evidence.sql.iter().filter(|sql| sql.shape == shape).map(|sql| sql.count as f64).fold(0.0, f64::max)
        };
        let evidence = &look.most(|request| us(request).max(count(request) / 1e6)).evidence;
        let sql = evidence.sql.iter().filter(|sql| sql.shape == shape).max_by_key(|sql| sql.count)?;
        let us = match look.mean(us) {
            database_us if database_us > 0.0 => database_us,
            _ => asked_us(look, shape),
        };
        Some(Repeated { shape, sql, us, line: eager_line(sql, &evidence.sql) })
    }
}

/// Shapes that one line cures.
fn repeated_query(look: &Look, mut same: Vec<Repeated>) -> Option<WeighedCandidate> {
    let ceiling_us = same.iter().map(|one| one.us).sum();
    if ceiling_us < REPEATED_US || !look.is_notable(ceiling_us) {
        return None;
    }
    same.sort_by(|one, other| other.us.total_cmp(&one.us).then(one.shape.cmp(other.shape)));
    let [Repeated { sql, shape, line, .. }, others @ ..] = &same[..] else { return None };
    let what = if sql.distinct > 1 { "the same query with other values" } else { "the same query" };
    let cached = if is_asked(sql) { ", from the query cache" } else { "" };
    let mut sentence = format!("{what} {} times{cached}: {}", units::grouped(sql.count), shortened(shape));
    for other in others {
        sentence.push_str(&format!("; and {} times: {}", units::grouped(other.sql.count), shortened(other.shape)));
    }
    let count = same.iter().map(|one| one.sql.count).sum();
    let mut shapes: Vec<String> = same.iter().map(|one| one.shape.to_owned()).collect();
    shapes.sort();
    let fix = shown("", line.as_str(), "it is a change of the application's own code");
    let trial = Trial::WhatIf { trial: vec![Patch::named("free_sql").with("shapes", shapes)] };
    let candidate = of(look.route, Kind::RepeatedQueries, sentence, fix, trial);
    let short = format!("{} repeated queries", units::grouped(count));
    Some(look.found(Candidate { at: sql.at.clone(), subject: (*shape).into(), short, ceiling_us, ..candidate }))
}

/// What loads the records at once, as far as the queries tell: `Beer.includes(:brewery)`.
fn eager_line(sql: &Sql, all: &[Sql]) -> String {
    let table = table_of(&sql.shape);
    let model = model_of(sql).or_else(|| table.as_deref().map(class_name));
    let (Some(table), Some(model)) = (table, model) else {
        return "one query for all of them, before the loop".into();
    };
    if sql.distinct <= 1 {
        return "keep the result in a variable, before the loop".into();
    }
    let column = column_of(&sql.shape);
    let column = column.as_deref().unwrap_or("id");
    if sql.shape.to_ascii_uppercase().contains("COUNT(") {
        let key = key_of(&sql.shape).unwrap_or(column);
        return format!("{model}.where({key}: ...).group(:{key}).count, before the loop");
    }
    if sql.name.ends_with(EXISTS) {
        let key = key_of(&sql.shape).unwrap_or(column);
        return format!("{model}.where({key}: ...).distinct.pluck(:{key}), before the loop");
    }
    if let Some(line) = included(sql, all) {
        return line;
    }
    // By an id: each of a list belongs to one of them. By a key to another table: each of that table has many. The key of a polymorphic association
    // does not name the table.
    let (owner, association) = match column.strip_suffix("_id") {
        Some(owner) if column != "id" && sql.shape.contains(&format!("{owner}_type")) => (list_of(sql, all), table),
        Some(owner) if column != "id" => (Some(class_name(owner)), table),
        _ => (list_of(sql, all), underscored(&model)),
    };
    match owner {
        Some(owner) => format!("{owner}.includes(:{association})"),
        None => format!(".includes(:{association}) where the list is loaded"),
    }
}

/// By the associations that load the records and those that they hang from: `Event.includes(subject: :user)`.
fn included(sql: &Sql, all: &[Sql]) -> Option<String> {
    const DEEPEST: usize = 4;
    let (owner, name) = sql.association.as_ref()?;
    let mut owner = owner;
    let mut path = format!(":{name}");
    for _ in 0..DEEPEST {
        let loads_owner = |other: &&Sql| is_repeated(other) && model_of(other).as_ref() == Some(owner);
        let above = all.iter().filter(loads_owner).find_map(|other| other.association.as_ref());
        let Some((above, name)) = above.filter(|(above, _)| above != owner) else { break };
        path = if path.starts_with(':') { format!("{name}: {path}") } else { format!("{name}: {{ {path} }}") };
        owner = above;
    }
    Some(format!("{owner}.includes({path})"))
}

/// The model of the list that is gone through: as many rows as there are queries, loaded by few queries.
fn list_of(sql: &Sql, all: &[Sql]) -> Option<String> {
    let is_list = |other: &&Sql| other.shape != sql.shape && other.count < REPEATED && other.rows >= sql.distinct;
    let nearest =
        all.iter().filter(is_list).filter(|other| model_of(other).is_some()).min_by_key(|other| other.rows)?;
    model_of(nearest)
}

/// `Brewery Load` is Brewery.
fn model_of(sql: &Sql) -> Option<String> {
    let model = [" Load", " Count", EXISTS].iter().find_map(|what| sql.name.strip_suffix(what))?;
    let is_class = model.starts_with(|letter: char| letter.is_ascii_uppercase());
    (is_class && !model.contains(' ')).then(|| model.to_string())
}

/// The column by which a loop asks, which is a key of another table mostly: in any condition.
fn key_of(shape: &str) -> Option<&str> {
    let at = shape.to_ascii_uppercase().find(" WHERE ")?;
    let words = shape.get(at + 7..)?.split([' ', '=', '(', ')', '<', '>']);
    let names = words.map(|word| word.rsplit('.').next().unwrap_or(word).trim_matches(['"', '`', '[', ']']));
    let mut keys = names.filter(|name| is_name(name) && name.ends_with("_id"));
    keys.next()
}

/// Behind FROM.
fn table_of(shape: &str) -> Option<String> {
    name_behind(shape, " FROM ")
}

/// The first column behind WHERE.
fn column_of(shape: &str) -> Option<String> {
    let at = shape.to_ascii_uppercase().find(" WHERE ")?;
    let condition = shape.get(at + 7..)?;
    let column = condition.split(['=', ' ', '<', '>']).next()?;
    let name = column.rsplit('.').next()?.trim_matches(['"', '`', '[', ']', '(']);
    is_name(name).then(|| name.to_string())
}

fn name_behind(shape: &str, word: &str) -> Option<String> {
    let at = shape.to_ascii_uppercase().find(word)?;
    let rest = shape.get(at + word.len()..)?;
    let name = rest.split([' ', ',', ';']).next()?.rsplit('.').next()?.trim_matches(['"', '`', '[', ']']);
    is_name(name).then(|| name.to_string())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `beer_styles` is BeerStyle.
fn class_name(table: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    singular(table).split('_').map(capital).collect()
}

fn singular(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ies") {
        return format!("{stem}y");
    }
    let is_long = ["sses", "shes", "ches", "xes", "zes"].iter().any(|end| word.ends_with(end));
    match word.strip_suffix(if is_long { "es" } else { "s" }) {
        Some(stem) if !stem.ends_with('s') || is_long => stem.into(),
        _ => word.into(),
    }
}

/// BeerStyle is `beer_style`.
fn underscored(class: &str) -> String {
    let mut text = String::new();
    for (nth, letter) in class.rsplit("::").next().unwrap_or(class).chars().enumerate() {
        if letter.is_ascii_uppercase() && nth > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

fn shortened(shape: &str) -> String {
    const LETTERS: usize = 120;
    let plain = shape.replace(['"', '`'], "");
    if plain.chars().count() > LETTERS {
        plain.chars().take(LETTERS).chain(['…']).collect()
    } else {
        plain
    }
}

fn scans(request: &ObservedRequest) -> impl Iterator<Item = &Sql> {
    request.evidence.sql.iter().filter(|sql| sql.scan.as_ref().is_some_and(|scan| !scan.columns.is_empty()))
}

fn missing_indexes(observations: &Observations, look: &Look) -> Vec<WeighedCandidate> {
    let mut wanted: Vec<(String, Vec<String>)> = Vec::new();
    for scan in look.route.requests.iter().flat_map(scans).filter_map(|sql| sql.scan.as_ref()) {
        let index = (scan.table.clone(), scan.columns.clone());
        if !wanted.contains(&index) {
            wanted.push(index);
        }
    }
    wanted.into_iter().filter_map(|(table, columns)| missing_index(observations, look, &table, &columns)).collect()
}

fn missing_index(
    observations: &Observations,
    look: &Look,
    table: &str,
    columns: &[String],
) -> Option<WeighedCandidate> {
    let is_this = |sql: &&Sql| sql.scan.as_ref().is_some_and(|scan| scan.table == table && scan.columns == columns);
    let us = |request: &ObservedRequest| scans(request).filter(is_this).map(|sql| sql.us).sum::<f64>();
    let ceiling_us = look.mean(us);
    if ceiling_us < SCAN_US || !look.is_notable(ceiling_us) {
        return None;
    }
    let sql = scans(look.most(us)).find(is_this)?;
    let scan = sql.scan.as_ref()?;
    // PostgreSQL lets others write while it makes one, if it is told to.
    let is_copied = scan.rows.is_none();
    let names = match columns {
        [one] => format!(":{one}"),
        several => format!("[{}]", several.iter().map(|column| format!(":{column}")).collect::<Vec<_>>().join(", ")),
    };
    let fix = if observations.rails.is_empty() {
        shown(
            "",
            format!("CREATE INDEX {}ON {table} ({})", if is_copied { "" } else { "CONCURRENTLY " }, columns.join(", ")),
            "the application has no migrations of Rails",
        )
    } else {
        Fix {
            file: "db/migrate".into(),
            line: format!("add_index :{table}, {names}{}", if is_copied { "" } else { ", algorithm: :concurrently" }),
            edit: Edit::Migration { table: table.into(), columns: columns.to_vec(), concurrently: !is_copied },
        }
    };
    let trial = if is_copied {
        Trial::Patch {
            trial: vec![Patch::named("index").with("table", table).with("columns", columns.to_vec())],
            control: vec![Patch::named("database_copy")],
            deliver: Deliver::Gathered,
        }
    } else {
        // No index is made on a database that others use: what if there were nothing left to read?
        let patch = Patch::named("free_sql").with("shapes", scanning(observations, is_this)).with("all", true);
        Trial::WhatIf { trial: vec![patch] }
    };
    let sentence = format!("{}: {}", reading(scan), shortened(&sql.shape));
    let candidate = of(look.route, Kind::MissingIndex, sentence, fix, trial);
    let short = if is_copied { candidate.short.clone() } else { format!("reads of all of {table}") };
    Some(look.found(Candidate { at: sql.at.clone(), subject: sql.shape.clone(), short, ceiling_us, ..candidate }))
}

/// The shapes of these queries, on any route: one index is for all of them.
fn scanning(observations: &Observations, is_this: impl Fn(&&Sql) -> bool) -> Vec<String> {
    let mut shapes: Vec<String> = Vec::new();
    let requests = observations.routes.iter().flat_map(|route| &route.requests);
    for sql in requests.flat_map(scans).filter(is_this) {
        if !shapes.contains(&sql.shape) {
            shapes.push(sql.shape.clone());
        }
    }
    shapes
}

fn reading(scan: &Scan) -> String {
    let (table, columns) = (&scan.table, scan.columns.join(" and "));
    let Some(rows) = scan.rows else {
        return match scan.reads {
            Reads::Whole => format!("the database reads all of {table} to find {columns}"),
            Reads::Sorted => format!("the database sorts {table} by {columns} for a few rows"),
            Reads::Part => format!("the database has no index of {table} by {columns}, only by a part of that"),
        };
    };
    let found = match scan.matching {
        Some(matching) => format!("about {} by {columns}", units::grouped(matching)),
        None => columns,
    };
    let shown = |cost: f64| units::grouped(cost.max(1.0).round() as u64);
    let cost = scan.cost.map_or_else(String::new, |(before, after)| {
        format!(" (its planner's cost: {}, with the index {})", shown(before), shown(after))
    });
    format!("PostgreSQL reads all {} rows of {table} to find {found}{cost}", units::grouped(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        let brewery = "SELECT \"breweries\".* FROM \"breweries\" WHERE \"breweries\".\"id\" = ? LIMIT ?";
        assert_eq!(table_of(brewery).as_deref(), Some("breweries"));
        assert_eq!(column_of(brewery).as_deref(), Some("id"));
        assert_eq!(column_of("SELECT * FROM x WHERE (`a`.`b_id` = ?)").as_deref(), Some("b_id"));
        assert_eq!(table_of("SELECT 1"), None);
        for (table, class) in [
            ("breweries", "Brewery"),
            ("beer_styles", "BeerStyle"),
            ("boxes", "Box"),
            ("glass", "Glass"),
            ("news", "New"),
        ] {
            assert_eq!(class_name(table), class);
        }
        assert_eq!(underscored("Shop::BeerStyle"), "beer_style");
    }

    #[test]
    fn the_line_names_the_list_and_the_association() {
        let sql = |name: &str, shape: &str, count: u64, rows: u64| Sql {
            name: name.into(),
            shape: shape.into(),
            count,
            rows,
            distinct: count,
            ..Sql::default()
        };
        let beers = sql("Beer Load", "SELECT \"beers\".* FROM \"beers\"", 1, 31);
        let users = sql("User Load", "SELECT \"users\".* FROM \"users\" WHERE \"users\".\"id\" = ?", 1, 1);
        let by_id =
            sql("Brewery Load", "SELECT \"breweries\".* FROM \"breweries\" WHERE \"breweries\".\"id\" = ?", 31, 31);
        let by_key =
            sql("Review Load", "SELECT \"reviews\".* FROM \"reviews\" WHERE \"reviews\".\"beer_id\" = ?", 31, 90);
        let polymorphic =
            "SELECT \"files\".* FROM \"files\" WHERE \"files\".\"owner_id\" = ? AND \"files\".\"owner_type\" = ?";
        let by_key_and_type = sql("Attachment Load", polymorphic, 31, 31);
        let counted = sql("", "SELECT COUNT(*) FROM \"reviews\" WHERE \"reviews\".\"beer_id\" = ?", 31, 31);
        let shown = "SELECT COUNT(*) FROM \"reviews\" WHERE \"reviews\".\"hidden\" = ? AND \"reviews\".\"beer_id\" = ?";
        let counted_by_two = sql("Review Count", shown, 31, 31);
        let exists =
            "SELECT ? AS one FROM \"reviews\" WHERE \"reviews\".\"hidden\" = ? AND \"reviews\".\"beer_id\" = ? LIMIT ?";
        let exists = sql("Review Exists?", exists, 31, 31);
        let raw = sql("", "SELECT 1", 31, 31);
        let same = Sql { distinct: 1, ..by_id.clone() };
        let all = [beers, users, by_id.clone()];
        for (one, line) in [
            (&by_id, "Beer.includes(:brewery)"),
            (&by_key, "Beer.includes(:reviews)"),
            (&by_key_and_type, "Beer.includes(:files)"),
            (&counted, "Review.where(beer_id: ...).group(:beer_id).count, before the loop"),
            (&counted_by_two, "Review.where(beer_id: ...).group(:beer_id).count, before the loop"),
            (&exists, "Review.where(beer_id: ...).distinct.pluck(:beer_id), before the loop"),
            (&raw, "one query for all of them, before the loop"),
            (&same, "keep the result in a variable, before the loop"),
        ] {
            assert_eq!(eager_line(one, &all), line);
        }
        assert_eq!(eager_line(&by_id, &[]), ".includes(:brewery) where the list is loaded");

        // As Rails tells: of another name than the table's, and by what hangs from something polymorphic.
        let by =
            |sql: &Sql, owner: &str, name: &str| Sql { association: Some((owner.into(), name.into())), ..sql.clone() };
        let author = by(
            &sql("User Load", "SELECT \"users\".* FROM \"users\" WHERE \"users\".\"id\" = ?", 31, 31),
            "Post",
            "author",
        );
        let subject = by(
            &sql("Post Load", "SELECT \"posts\".* FROM \"posts\" WHERE \"posts\".\"id\" = ?", 31, 31),
            "Event",
            "subject",
        );
        let feed = by(
            &sql("Event Load", "SELECT \"events\".* FROM \"events\" WHERE \"events\".\"feed_id\" = ?", 9, 31),
            "Feed",
            "events",
        );
        assert_eq!(eager_line(&author, &[]), "Post.includes(:author)");
        assert_eq!(eager_line(&author, std::slice::from_ref(&subject)), "Event.includes(subject: :author)");
        assert_eq!(eager_line(&author, &[subject, feed]), "Feed.includes(events: { subject: :author })");
    }
}
