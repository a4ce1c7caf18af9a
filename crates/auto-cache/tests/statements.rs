//! Statements as ActiveRecord, Sequel and people write them: what they read and change. One line for each.

use auto_cache::{
    effects::{Image, Read, Rows, Write},
    schema::Schema,
    sql::{
        shape::{Control, Shape},
        token::Dialect,
        value::{Class, Value},
    },
};

fn schema(dialect: Dialect) -> Schema {
    let mut schema = Schema::new(dialect);
    let (number, text) = (Class::from_type("bigint", dialect), Class::from_type("character varying(255)", dialect));
    schema
        .table("posts")
        .column("id", number)
        .column("author_id", number)
        .column_with_default("title", text, Value::Null)
        .column_with_default("views", number, Value::Integer(0));
    schema.table("authors").column("id", number).column("name", text);
    schema.table("tags").column("id", number).column("post_id", number);
    schema.view("recent", "SELECT * FROM posts WHERE views > 3");
    schema
}

fn show(rows: &Rows) -> String {
    let conditions: Vec<_> = rows
        .conditions
        .iter()
        .map(|(column, values)| {
            let values: Vec<_> =
                values.iter().map(|value| format!("{value:?}").replace("Integer", "").replace("Text", "")).collect();
            format!("{column}={}", values.join("|"))
        })
        .collect();
    let columns = rows
        .columns
        .iter()
        .map(|columns| format!("{{{}}}", columns.iter().map(String::as_str).collect::<Vec<_>>().join(" ")));
    let parts: Vec<_> = conditions.into_iter().chain(columns).collect();
    format!("{}[{}]", rows.table, parts.join(" "))
}

fn show_read(read: &Read) -> String {
    let mut parts: Vec<_> = read.rows.iter().map(show).collect();
    if read.everything {
        parts.push("everything".into());
    }
    if let Some(volatile) = &read.volatile {
        parts.push(format!("volatile:{volatile}"));
    }
    parts.join(" ")
}

fn read(dialect: Dialect, sql: &str, bound: &[Value]) -> String {
    let schema = schema(dialect);
    show_read(&Shape::parse(sql, &schema).read(bound, &schema))
}

fn show_image(image: &Image) -> String {
    let rows = Rows { table: String::new(), conditions: image.clone().into_iter().collect(), columns: None };
    show(&rows)
}

fn show_write(write: &Write) -> String {
    let changes = write.changes.iter().map(|change| {
        let images: Vec<_> = change.images.iter().map(show_image).collect();
        let columns =
            change.columns.iter().map(|columns| columns.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
        let columns: Vec<_> = columns.map(|columns| format!(" {{{columns}}}")).collect();
        format!("{}{}{}", change.table, images.join(""), columns.concat())
    });
    let mut parts: Vec<_> = changes.collect();
    if write.everything {
        parts.push("everything".into());
    }
    parts.join(" ")
}

fn write(dialect: Dialect, sql: &str, bound: &[Value]) -> String {
    let schema = schema(dialect);
    show_write(&Shape::parse(sql, &schema).write(bound, None, &schema))
}

/// All that differ at once.
fn compare<'a>(cases: impl Iterator<Item = (&'a str, String, &'a str)>) {
    let differs =
        |(sql, found, expected)| (found != expected).then(|| format!("{sql}\n  {found}\n  {expected} expected"));
    let differing: Vec<String> = cases.filter_map(differs).collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

use Dialect::{Postgres, Sqlite};

fn int(value: i64) -> Value {
    Value::Integer(value)
}

#[test]
fn reads_of_active_record() {
    let cases: &[(&str, &[Value], &str)] = &[
        (r#"SELECT "posts".* FROM "posts" WHERE "posts"."id" = ? LIMIT ?"#, &[int(3), int(1)], "posts[id=(3)]"),
        (
            r#"SELECT "posts".* FROM "posts" WHERE "posts"."author_id" IN (?, ?) ORDER BY "posts"."id" DESC"#,
            &[int(2), int(1)],
            "posts[author_id=(1)|(2)]",
        ),
        (
            r#"SELECT 1 AS one FROM "posts" WHERE "posts"."author_id" = ? LIMIT ?"#,
            &[int(7), int(1)],
            "posts[author_id=(7) {author_id}]",
        ),
        (r#"SELECT COUNT(*) FROM "posts""#, &[], "posts[{}]"),
        (r#"SELECT COUNT(DISTINCT "posts"."author_id") FROM "posts""#, &[], "posts[{author_id}]"),
        (
            r#"SELECT "posts".* FROM "posts" WHERE (views > 3 AND title = 'A') AND "posts"."author_id" IS NULL"#,
            &[],
            r#"posts[title=("a") author_id=Null]"#,
        ),
        (
            r#"SELECT "posts".* FROM "posts" INNER JOIN "tags" ON "tags"."post_id" = "posts"."id" WHERE "tags"."id" = ?"#,
            &[int(5)],
            "posts[] tags[id=(5)]",
        ),
        (
            r#"SELECT "posts".* FROM "posts" LEFT OUTER JOIN "tags" ON "tags"."post_id" = "posts"."id" WHERE "tags"."id" IS NULL AND "posts"."id" = 4"#,
            &[],
            "posts[id=(4)] tags[]",
        ),
        (r#"SELECT "posts".* FROM "posts" WHERE ("posts"."id" = 1 OR "posts"."id" = 2)"#, &[], "posts[id=(1)|(2)]"),
        (r#"SELECT "posts".* FROM "posts" WHERE "posts"."id" = 1 OR "posts"."views" = 2"#, &[], "posts[]"),
        (
            r#"SELECT "posts".* FROM "posts" WHERE "posts"."author_id" IN (SELECT "authors"."id" FROM "authors")"#,
            &[],
            "authors[] posts[]",
        ),
        (r#"SELECT "posts".* FROM "posts" WHERE "posts"."id" = ?"#, &[Value::Other], "posts[]"),
        (r#"SELECT "posts".* FROM "posts" WHERE 1=0"#, &[], "posts[]"),
        ("SELECT * FROM recent WHERE id = 1", &[], "posts[]"),
        (
            "SELECT a.id FROM posts AS a, authors b WHERE a.id = 3 AND b.name = 'x' /* controller:posts */",
            &[],
            r#"posts[id=(3)] authors[name=("x")]"#,
        ),
        ("SELECT sqlite_version(*)", &[], ""),
        ("PRAGMA table_info(\"posts\")", &[], ""),
        ("SELECT name FROM sqlite_master WHERE type = 'table'", &[], ""),
        ("SELECT * FROM posts WHERE created_at > datetime('now')", &[], "posts[] volatile:now"),
        ("SELECT * FROM posts WHERE date(created_at) = date(?)", &[Value::Text("Now".into())], "posts[] volatile:Now"),
        ("SELECT strftime('%Y', title) FROM posts GROUP BY 1", &[], "posts[]"),
        ("SELECT * FROM posts ORDER BY RANDOM() LIMIT 1", &[], "posts[] volatile:random"),
        ("SELECT own_function(id) FROM posts", &[], "posts[] everything volatile:own_function"),
        ("SELECT * FROM strangers", &[], "everything"),
        ("SELECT * FROM posts, strangers", &[], "posts[] everything"),
        ("SELECT * FROM posts WHERE id IN tags", &[], "posts[] tags[]"),
    ];
    compare(cases.iter().map(|(sql, bound, expected)| (*sql, read(Sqlite, sql, bound), *expected)));
}

#[test]
fn reads_in_postgresql() {
    let cases: &[(&str, &[Value], &str)] = &[
        (
            r#"SELECT "posts".* FROM "posts" WHERE "posts"."id" = $1 LIMIT $2"#,
            &[Value::Text("3".into()), int(1)],
            "posts[id=(3)]",
        ),
        (
            r#"SELECT * FROM "public"."posts" WHERE ("author_id" = 3) ORDER BY "id" LIMIT 10"#,
            &[],
            "posts[author_id=(3)]",
        ),
        ("SELECT * FROM posts WHERE title = E'it\\'s'", &[], r#"posts[title=("it's")]"#),
        ("SELECT * FROM posts WHERE id = 1 FOR UPDATE", &[], "posts[id=(1)]"),
        ("SELECT count(*) FROM posts WHERE created_at IS DISTINCT FROM views", &[], "posts[{views}]"),
        ("SELECT EXTRACT(year FROM title) FROM posts WHERE id = 1", &[], "posts[id=(1)]"),
        ("SELECT * FROM posts WHERE created_at > CURRENT_DATE", &[], "posts[] volatile:current_date"),
        ("SELECT count(posts) FROM posts", &[], "posts[]"),
        ("SELECT count(*) FROM posts NATURAL JOIN tags", &[], "posts[] tags[]"),
        ("WITH w AS (SELECT * FROM posts) SELECT * FROM w WHERE id = 1", &[], "posts[]"),
        ("SELECT * FROM posts WHERE id = 1 UNION SELECT * FROM posts WHERE id = 2", &[], "posts[]"),
        ("SHOW search_path", &[], "volatile:SHOW"),
        ("SELECT * FROM posts WHERE id = $$1$$", &[], "posts[id=(1)]"),
        ("SELECT relname FROM pg_catalog.pg_class", &[], ""),
        ("SELECT count(*) FROM pg_stat_activity", &[], "everything volatile:pg_stat_activity"),
    ];
    compare(cases.iter().map(|(sql, bound, expected)| (*sql, read(Postgres, sql, bound), *expected)));
}

/// As the gem tells one.
#[test]
fn what_another_server_has_is_never_known() {
    let mut schema = schema(Postgres);
    schema.view("rates", "SELECT * FROM unknown(foreign)");
    let read = Shape::parse("SELECT * FROM rates WHERE id = 1", &schema).read(&[], &schema);
    assert_eq!(show_read(&read), "everything volatile:rates");
}

#[test]
fn changes() {
    let cases: &[(Dialect, &str, &[Value], &str)] = &[
        (
            Sqlite,
            r#"UPDATE "posts" SET "title" = ?, "views" = ? WHERE "posts"."id" = ?"#,
            &[Value::Text("B".into()), int(1), int(3)],
            r#"posts[id=(3)][id=(3) title=("b") views=(1)] {title views}"#,
        ),
        (
            Sqlite,
            r#"UPDATE "posts" SET "views" = COALESCE("views", 0) + 1 WHERE "posts"."id" = 4"#,
            &[],
            "posts[id=(4)][id=(4)] {views}",
        ),
        (Sqlite, r#"DELETE FROM "posts" WHERE "posts"."author_id" = 2"#, &[], "posts[author_id=(2)]"),
        (
            Sqlite,
            r#"INSERT INTO "posts" ("author_id") VALUES (?)"#,
            &[int(5)],
            "posts[author_id=(5) title=Null views=(0)]",
        ),
        (Sqlite, "INSERT INTO posts (id, title) VALUES (NULL, ?)", &[Value::Null], "posts[title=Null views=(0)]"),
        (Sqlite, "REPLACE INTO posts (id) VALUES (1)", &[], "posts[]"),
        (Sqlite, "INSERT OR REPLACE INTO posts (id) VALUES (1)", &[], "posts[]"),
        (
            Postgres,
            r#"INSERT INTO "posts" ("author_id", "title") VALUES ($1, $2) RETURNING "id""#,
            &[int(5), Value::Null],
            "posts[author_id=(5) title=Null views=(0)]",
        ),
        (
            Postgres,
            r#"INSERT INTO "posts" ("id") VALUES (1) ON CONFLICT ("id") DO UPDATE SET "title" = 'x'"#,
            &[],
            "posts[]",
        ),
        (
            Postgres,
            r#"UPDATE "posts" SET "title" = 'x' WHERE "posts"."id" IN (SELECT "id" FROM "tags") AND "author_id" = 1"#,
            &[],
            r#"posts[author_id=(1)][author_id=(1) title=("x")] {title}"#,
        ),
        (Postgres, "WITH gone AS (DELETE FROM posts RETURNING id) SELECT count(*) FROM gone", &[], "posts[]"),
        (Postgres, "TRUNCATE TABLE posts RESTART IDENTITY", &[], "posts[]"),
        (Postgres, "TRUNCATE posts CASCADE", &[], "everything"),
        (Postgres, "SELECT own_function(1)", &[], "everything"),
        (Postgres, "SELECT * INTO copy FROM posts", &[], "everything"),
        (Postgres, "DO $$ BEGIN DELETE FROM posts; END $$", &[], "everything"),
        (Sqlite, "DELETE FROM strangers", &[], "everything"),
        (Sqlite, "CREATE INDEX i ON posts (id)", &[], "everything"),
        (Sqlite, "SELECT * FROM posts; DELETE FROM tags WHERE id = 1", &[], "tags[id=(1)]"),
        (Sqlite, "SELECT * FROM posts WHERE title = 'it''s; DELETE FROM tags'", &[], ""),
        (Sqlite, "VACUUM", &[], ""),
        (Sqlite, "UPDATE posts SET title = 'unfinished", &[], "everything"),
    ];
    compare(cases.iter().map(|(dialect, sql, bound, expected)| (*sql, write(*dialect, sql, bound), *expected)));
}

#[test]
fn transactions() {
    let schema = schema(Sqlite);
    let control = |sql: &str| Shape::parse(sql, &schema).transaction().cloned();
    assert_eq!(control("begin transaction"), Some(Control::Begin));
    assert_eq!(control("SAVEPOINT active_record_1"), Some(Control::Savepoint("active_record_1".into())));
    assert_eq!(control("ROLLBACK TO SAVEPOINT active_record_1"), Some(Control::RollbackTo("active_record_1".into())));
    assert_eq!(control("RELEASE SAVEPOINT active_record_1"), Some(Control::Release("active_record_1".into())));
    assert_eq!(control("ROLLBACK"), Some(Control::Rollback));
    assert_eq!(control("COMMIT TRANSACTION"), Some(Control::Commit));
    assert_eq!(control("SELECT 1"), None);
}

#[test]
fn triggers_and_foreign_keys_carry_on() {
    let mut schema = schema(Sqlite);
    schema.cascade("posts", "tags", false);
    schema.trigger("authors", "UPDATE posts SET views = 0");
    let write = |sql: &str| show_write(&Shape::parse(sql, &schema).write(&[], None, &schema));
    assert_eq!(write("DELETE FROM posts WHERE id = 1"), "tags[] posts[id=(1)]");
    assert_eq!(write("UPDATE posts SET views = 1 WHERE id = 1"), "posts[id=(1)][id=(1) views=(1)] {views}");
    assert_eq!(write("DELETE FROM authors WHERE id = 1"), "posts[] tags[] authors[] authors[id=(1)]");
    schema.trigger("tags", "SELECT own_function(1)");
    let write = |sql: &str| show_write(&Shape::parse(sql, &schema).write(&[], None, &schema));
    assert_eq!(write("DELETE FROM posts WHERE id = 1"), "everything");
}

#[test]
fn an_inserted_row_has_its_generated_key() {
    let schema = schema(Sqlite);
    let shape = Shape::parse("INSERT INTO posts (author_id) VALUES (1)", &schema);
    let write = |key| shape.write(&[], key, &schema);
    let page = |sql: &str| Shape::parse(sql, &schema).read(&[], &schema);
    let own = page("SELECT * FROM posts WHERE id = 9");
    let other = page("SELECT * FROM posts WHERE id = 8");
    assert!(write(None).touches(&own) && write(None).touches(&other));
    let known = write(Some(("id", int(9))));
    assert!(known.touches(&own) && !known.touches(&other));
    assert!(known.touches(&page("SELECT COUNT(*) FROM posts")));
    assert!(!known.touches(&page("SELECT COUNT(*) FROM posts WHERE author_id = 2")));
}
