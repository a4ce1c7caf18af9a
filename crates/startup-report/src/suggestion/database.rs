//! Databases: not created, without tables, not running, refusing the user, for SQLite, PostgreSQL and MySQL.
//! It never connects to one.

use super::{
    case::{Case, Symptom},
    Suggestion,
};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sqlite,
    Postgres,
    Mysql,
    Unknown,
}

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if !is_database(s) {
        return None;
    }
    // Rails says in its own words what the driver has said with all its facts.
    let mut told = s.clone();
    if let Some(cause) = case.cause().filter(|_| s.class.starts_with("ActiveRecord::")) {
        told.message = format!("{}\n{cause}", s.message);
    }
    let (s, kind) = (&told, kind(&told));
    settings(s, case)
        .or_else(|| missing(s, case))
        .or_else(|| tables(s, case))
        .or_else(|| pool(s, case))
        .or_else(|| access(s, kind, case))
        .or_else(|| unreachable(s, kind, case))
        .or_else(|| sqlite(s, case))
}

fn is_database(s: &Symptom) -> bool {
    let rooms =
        ["ActiveRecord::", "PG::", "Mysql2::", "Trilogy::", "SQLite3::", "Sequel::", "ROM::", "Sinatra::ActiveRecord"];
    rooms.iter().any(|room| s.class.starts_with(room))
        || s.says_any(&[
            "PG::",
            "Mysql2::",
            "Trilogy::",
            "SQLite3::",
            "Could not load database configuration",
            "Cannot load database configuration",
            "Cannot load `Rails.application.database_configuration`",
            "Active Record adapter",
        ])
}

fn kind(s: &Symptom) -> Kind {
    let names = |names: &[&str]| names.iter().any(|name| s.class.contains(name) || s.says(name));
    match () {
        () if names(&["SQLite3", "sqlite"]) => Kind::Sqlite,
        () if names(&["PG::", "postgres", "PGSQL", "port 5432"]) => Kind::Postgres,
        () if names(&["Mysql2", "Trilogy", "trilogy", "mysql", "MySQL"]) => Kind::Mysql,
        () => Kind::Unknown,
    }
}

/// config/database.yml itself.
fn settings(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.says("does not specify adapter") {
        let section = &case.report.environment;
        return Suggestion::say(format!("The section `{section}` of config/database.yml has no `adapter` (sqlite3, postgresql, mysql2, trilogy): add it, or `url`."));
    }
    if s.is(&["ActiveRecord::AdapterNotSpecified"])
        || s.says("database is not configured for")
        || s.says("` database is not configured")
    {
        return Suggestion::say(format!("config/database.yml has no section `{}`: add one.", case.report.environment));
    }
    if let Some(adapter) = unknown_adapter(s) {
        let text = format!("No gem of the bundle provides the adapter{adapter} of config/database.yml (or DATABASE_URL). Rails' own are sqlite3, postgresql, mysql2 and trilogy; check the spelling, or add the gem of the adapter to the Gemfile.");
        return Suggestion::say(text);
    }
    let unread = s.says_any(&[
        "Could not load database configuration. No such file",
        "Cannot load database configuration",
        "Cannot load `Rails.application.database_configuration`",
    ]);
    if unread && !case.has("config/database.yml") {
        let example = ["example", "sample", "dist", "sqlite3"]
            .into_iter()
            .find(|end| case.has(&format!("config/database.yml.{end}")));
        return match example {
            Some(end) => Suggestion::run(
                "config/database.yml is missing. There is an example: copy and adapt it.",
                format!("cp config/database.yml.{end} config/database.yml"),
            ),
            None => Suggestion::say(
                "config/database.yml is missing (or set DATABASE_URL): it says which database the app uses.",
            ),
        };
    }
    None
}

/// The adapter that there is none of, with a space before it; empty, if the message does not name it.
fn unknown_adapter(s: &Symptom) -> Option<String> {
    let quoted = |start| s.after(start, &['\'']).map(|name| format!(" {name}"));
    quoted("Could not load the '")
        .or_else(|| quoted("specifies nonexistent '"))
        .or_else(|| (s.is(&["ActiveRecord::AdapterNotFound"]) || s.says("nonexistent adapter")).then(String::new))
}

fn missing(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let missing = s.is(&["ActiveRecord::NoDatabaseError"])
        || s.says("Unknown database")
        || s.says("database \"") && s.says("does not exist")
        || s.says("We could not find your database");
    if !missing {
        return None;
    }
    if let Some(folder) = s.after("dir_s_mkdir - ", &['\n']) {
        return Suggestion::say(format!(
            "The folder {folder} of SQLite's file does not exist, and can't be created: correct `database` in {}.",
            file(case)
        ));
    }
    let name = s
        .after("Unknown database '", &['\''])
        .or_else(|| s.after("database \"", &['"']))
        .or_else(|| s.after("We could not find your database: ", &[' ']).map(|name| name.trim_end_matches('.')));
    let name = name.map(|name| format!("The database {name}")).unwrap_or_else(|| "The app's database".into());
    Suggestion::with(
        format!("{name} does not exist. If its name in {} is right, create the database and its tables.", file(case)),
        case.rails("db:prepare"),
    )
}

fn tables(s: &Symptom, case: &Case) -> Option<Suggestion> {
    // PostgreSQL names the table, too.
    if s.says_any(&["no such column", "UndefinedColumn", "Unknown column"]) {
        return Suggestion::with(
            "The database lacks a column that the app expects: probably a migration has not run.",
            case.rails("db:migrate"),
        );
    }
    let table = s
        .after("no such table: ", &[':', ' ', '\''])
        .or_else(|| s.after("relation \"", &['"']))
        .or_else(|| s.after("Table '", &['\'']))
        .or_else(|| s.after("Could not find table '", &['\'']));
    let absent = s.says_any(&["no such table", "UndefinedTable", "doesn't exist", "Could not find table"])
        || s.says("relation \"") && s.says("does not exist");
    if let Some(table) = table.filter(|_| absent) {
        return Suggestion::with(
            format!("The database has no table {table}: the database is new, or its migrations have not run."),
            case.rails("db:prepare"),
        );
    }
    None
}

/// Connections that Rails hands out itself.
fn pool(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.is(&["ActiveRecord::ConnectionTimeoutError"]) {
        return Suggestion::say(format!("All database connections of this process are in use. `pool` in {} must be at least the number of threads of a worker (`paceline -t`), and larger if the code starts threads of its own.", file(case)));
    }
    let undefined = s.is(&["ActiveRecord::ConnectionNotDefined"]) || s.says("No connection pool for");
    undefined.then(|| Suggestion::say("The code asks for a database before it is told which one: it runs before Rails is initialized, or `establish_connection` or `connects_to` lacks this database or role.")).flatten()
}

fn access(s: &Symptom, kind: Kind, case: &Case) -> Option<Suggestion> {
    let file = file(case);
    if let Some(role) = s.after("role \"", &['"']).filter(|_| s.says("does not exist")) {
        return Suggestion::run(
            format!("PostgreSQL has no user {role}: create it, or correct `username` in {file}."),
            format!("sudo -u postgres createuser --createdb {}", super::case::shell(role)),
        );
    }
    if let Some(thing) = s.after("permission denied for ", &['\n']) {
        return Suggestion::say(format!(
            "The user of {file} may not use the {thing}: GRANT it to that user, or connect as the owner."
        ));
    }
    if !s.says_any(&[
        "Access denied",
        "authentication failed",
        "Peer authentication",
        "no password supplied",
        "with your username/password",
    ]) {
        return None;
    }
    let user = s
        .after("for user '", &['\''])
        .or_else(|| s.after("for user \"", &['"']))
        .or_else(|| s.after("username/password, username: ", &['.']))
        .map(|user| format!(" the user {user}"))
        .unwrap_or_else(|| " this user".into());
    let server = if kind == Kind::Postgres {
        "PostgreSQL"
    } else if kind == Kind::Mysql {
        "MySQL"
    } else {
        "The database"
    };
    let peer = if s.says("Peer authentication") {
        " (peer authentication: the system user must have the same name, or give `host: localhost` and a password)"
    } else {
        ""
    };
    Suggestion::say(format!(
        "{server} refuses{user}: check `username` and `password` in {file} (or DATABASE_URL) for {}{peer}.",
        case.report.environment
    ))
}

fn unreachable(s: &Symptom, kind: Kind, case: &Case) -> Option<Suggestion> {
    let refused = s.is(&[
        "PG::ConnectionBad",
        "ActiveRecord::ConnectionNotEstablished",
        "ActiveRecord::DatabaseConnectionError",
        "Mysql2::Error::ConnectionError",
        "Trilogy::BaseConnectionError",
        "Sequel::DatabaseConnectionError",
    ]) || s.says_any(&["Connection refused", "could not connect", "Can't connect", "unable to connect"]);
    if !refused || kind == Kind::Sqlite {
        return None;
    }
    if let Some(host) = s
        .after("could not translate host name \"", &['"'])
        .or_else(|| s.after("Unknown MySQL server host '", &['\'']))
        .or_else(|| s.after("Unknown server host '", &['\'']))
    {
        return Suggestion::say(format!(
            "There is no host named {host}: correct `host` in {} (or DATABASE_URL).",
            file(case)
        ));
    }
    let host = s.after("server at \"", &['"']).or_else(|| s.after("server on '", &['\'']));
    let local = host.is_none_or(|host| {
        host.starts_with("localhost") || host.starts_with("127.") || host.starts_with("::1") || host.starts_with('/')
    });
    let (name, service) = match kind {
        Kind::Postgres => ("PostgreSQL", "postgresql"),
        Kind::Mysql => ("MySQL (or MariaDB)", "mariadb"),
        _ => ("The database server", ""),
    };
    let port = s.after("\", port ", &[' ']).map(|port| format!(", port {port}")).unwrap_or_default();
    let wanted = host.map(|host| format!(" at {host}{port}")).unwrap_or_default();
    let text = format!(
        "{name} does not answer{wanted}: it is not running, or `host` and `port` in {} point elsewhere.",
        file(case)
    );
    match service {
        "" => Suggestion::say(text),
        service if local => Suggestion::run(text, format!("systemctl start {service}")),
        _ => Suggestion::say(text),
    }
}

fn sqlite(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let user = case.seen.user();
    match () {
        () if s.says_any(&["unable to open database file", "CantOpen"]) => {
            Suggestion::with(format!("SQLite can't open the file from {}: the file or its folder is missing, or {user} may not write there.", file(case)), case.rails("db:prepare"))
        }
        () if s.says_any(&["readonly database", "ReadOnly"]) => {
            let folder = if case.has("storage") { "storage" } else { "db" };
            Suggestion::run(format!("{user} may not write to SQLite's file (or its folder, which holds the journal)."), format!("sudo chown -R {user} {folder}"))
        }
        () if s.says_any(&["database is locked", "Busy"]) => Suggestion::say("Another process holds SQLite's lock: a console, a migration, or an older server of this app. Raise `timeout` in config/database.yml if it is only slow."),
        () if s.says_any(&["file is not a database", "malformed"]) => Suggestion::say(format!("The file that {} names is not a SQLite database, or is damaged: restore it from a backup.", file(case))),
        () => None,
    }
}

/// Where this app says which database it uses.
fn file(case: &Case) -> &'static str {
    if case.has("config/database.yml") || case.is_rails() {
        "config/database.yml"
    } else {
        "the app's database settings"
    }
}

#[cfg(test)]
mod tests {
    use super::super::{suggest_with, testing::*};

    #[test]
    #[rustfmt::skip]
    fn databases() {
        let prepare = "RAILS_ENV=production bin/rails db:prepare";
        const EXAMPLE: Machine = Machine(&["bin/rails", "config/database.yml.example"]);
        for (machine, class, message, text, command) in [
            (&RAILS, "ActiveRecord::NoDatabaseError", "FATAL:  database \"shop\" does not exist", "database shop does not exist. If its name in config/database.yml", prepare),
            (&RAILS, "ActiveRecord::NoDatabaseError", "We could not find your database: shop. Available", "database shop", prepare),
            (&RAILS, "Mysql2::Error", "Unknown database 'shop'", "database shop", prepare),
            (&RAILS, "ActiveRecord::StatementInvalid", "SQLite3::SQLException: no such table: beers", "no table beers", prepare),
            (&RAILS, "ActiveRecord::StatementInvalid", "Could not find table 'beers'", "no table beers", prepare),
            (&RAILS, "ActiveRecord::StatementInvalid", "PG::UndefinedTable: ERROR:  relation \"beers\" does not exist", "no table beers", prepare),
            (&RAILS, "ActiveRecord::StatementInvalid", "Mysql2::Error: Table 'shop.beers' doesn't exist", "no table shop.beers", prepare),
            (&RACK, "SQLite3::SQLException", "no such table: beers", "its migrations have not run", "-"),
            (&BUNDLED, "SQLite3::SQLException", "no such table: beers", "no table beers", "RACK_ENV=production bundle exec rake db:migrate"),
            (&RAILS, "ActiveRecord::StatementInvalid", "SQLite3::SQLException: no such column: hops", "column", "RAILS_ENV=production bin/rails db:migrate"),
            (&RAILS, "PG::ConnectionBad", "connection to server at \"127.0.0.1\", port 5432 failed: Connection refused", "PostgreSQL does not answer at 127.0.0.1", "systemctl start postgresql"),
            (&RAILS, "PG::ConnectionBad", "connection to server at \"db.example.org\", port 5432 failed: Connection refused", "config/database.yml", "-"),
            (&RAILS, "PG::ConnectionBad", "could not translate host name \"db\" to address: Name or service not known", "no host named db", "-"),
            (&RAILS, "ActiveRecord::ConnectionNotEstablished", "connection to server on socket \"/var/run/postgresql/.s.PGSQL.5432\" failed", "PostgreSQL does not answer", "systemctl start postgresql"),
            (&RAILS, "Mysql2::Error::ConnectionError", "Can't connect to MySQL server on '127.0.0.1:3306' (111)", "MySQL (or MariaDB) does not answer at 127.0.0.1:3306", "systemctl start mariadb"),
            (&RAILS, "Trilogy::BaseConnectionError", "trilogy_connect - unable to connect to localhost:3306", "MySQL", "systemctl start mariadb"),
            (&RAILS, "ActiveRecord::DatabaseConnectionError", "There is an issue connecting with your hostname", "does not answer", "-"),
            (&RAILS, "Mysql2::Error::ConnectionError", "Access denied for user 'shop'@'localhost' (using password: NO)", "MySQL refuses the user shop", "-"),
            (&RAILS, "PG::ConnectionBad", "FATAL:  password authentication failed for user \"shop\"", "PostgreSQL refuses the user shop", "-"),
            (&RAILS, "PG::ConnectionBad", "FATAL:  role \"shop\" does not exist", "no user shop", "sudo -u postgres createuser --createdb shop"),
            (&RAILS, "ActiveRecord::DatabaseConnectionError", "There is an issue connecting to your database with your username/password, username: shop.", "refuses the user shop", "-"),
            (&RAILS, "ActiveRecord::StatementInvalid", "PG::UndefinedColumn: ERROR:  column \"hops\" of relation \"beers\" does not exist", "column", "RAILS_ENV=production bin/rails db:migrate"),
            (&RAILS, "ActiveRecord::StatementInvalid", "PG::InsufficientPrivilege: ERROR:  permission denied for table beers", "may not use the table beers", "-"),
            (&RAILS, "ActiveRecord::ConnectionTimeoutError", "could not obtain a connection from the pool within 5.000 seconds", "`pool` in config/database.yml", "-"),
            (&RAILS, "ActiveRecord::ConnectionNotEstablished", "No connection pool for 'ActiveRecord::Base' found.", "before it is told which one", "-"),
            (&RAILS, "ActiveRecord::AdapterNotSpecified", "The `production` database is not configured for the `production` environment.", "no section `production`", "-"),
            (&RAILS, "ActiveRecord::AdapterNotSpecified", "database configuration does not specify adapter", "`production` of config/database.yml has no `adapter`", "-"),
            (&RAILS, "LoadError", "Could not load the 'sqlite4' Active Record adapter. Ensure that the adapter is spelled correctly in config/database.yml", "adapter sqlite4 of config/database.yml", "-"),
            (&RAILS, "ActiveRecord::AdapterNotFound", "Database configuration specifies nonexistent 'sqlite4' adapter. Available adapters are: mysql2.", "adapter sqlite4 of config/database.yml", "-"),
            (&RAILS, "LoadError", "Error loading the 'postgresql' Active Record adapter. Missing a gem it depends on? pg is not part of the bundle.", "not in the Gemfile", "bundle add pg"),
            (&RAILS, "ActiveRecord::NoDatabaseError", "No such file or directory @ dir_s_mkdir - /mnt/data", "The folder /mnt/data of SQLite's file", "-"),
            (&EXAMPLE, "RuntimeError", "Could not load database configuration. No such file - [\"config/database.yml\"]", "There is an example: copy and adapt it", "cp config/database.yml.example config/database.yml"),
            (&RAILS, "SQLite3::CantOpenException", "unable to open database file", "can't open the file", prepare),
            (&RAILS, "ActiveRecord::StatementInvalid", "SQLite3::ReadOnlyException: attempt to write a readonly database", "deploy may not write to SQLite's file", "sudo chown -R deploy db"),
            (&RAILS, "SQLite3::BusyException", "database is locked", "lock", "-"),
        ] {
            row(machine, class, message, text, command);
        }
    }

    /// Rails 7 says in its own words what the driver says with all its facts.
    #[test]
    fn the_driver_knows_more_than_rails() {
        let failure = exception_of(
            "ActiveRecord::DatabaseConnectionError",
            "There is an issue connecting to your database with your username/password, username: shop.",
            "PG::ConnectionBad: connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  role \"shop\" does not exist",
        );
        let command = "sudo -u postgres createuser --createdb shop";
        check(suggest_with(&report("production", failure), &RAILS), "no user shop", command, "role");
    }
}
