//! What a worker tells the automatic page cache: records, schemas, and the SQL in them. A statement that names a table is
//! touched by a change of that table or is not a read, whatever else it says; and a body with holes is filled to what it
//! was. Input: a byte that says which, then the text.
#![cfg_attr(fuzzing, no_main)]

use auto_cache::{
    effects::{Change, Image, Write},
    holes::{Template, Visitor},
    random_text::{places, RandomText},
    schema::Schema,
    sql::{
        shape::Shape,
        token::{tokens, Dialect, Token},
        value::{Class, Value},
    },
    wire,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, rest)) = data.split_first() else { return };
    match which % 5 {
        0 => check_record(rest),
        1 => drop(wire::schema(rest)),
        2 => check_body(rest),
        3 => check_sql(&String::from_utf8_lossy(rest), Dialect::Sqlite),
        _ => check_sql(&String::from_utf8_lossy(rest), Dialect::Postgres),
    }
});

fn check_record(payload: &[u8]) {
    let Ok(entries) = wire::record(payload) else { return };
    assert!(entries.len() <= wire::MAX_ENTRIES && entries.len() <= payload.len());
}

fn check_sql(sql: &str, dialect: Dialect) {
    let mut schema = Schema::new(dialect);
    schema
        .table("posts")
        .column("id", Class::from_type("integer", dialect))
        .column("title", Class::from_type("text", dialect));
    schema.table("tags").column("id", Class::from_type("integer", dialect));
    schema.view("recent", "SELECT * FROM posts");
    let shape = Shape::parse(sql, &schema);
    let bound = [Value::Integer(1), Value::Text("now".into())];
    let (read, write) = (shape.read(&bound, &schema), shape.write(&bound, Some(("id", Value::Integer(1))), &schema));
    assert_eq!(write.is_empty(), !shape.writes());
    // Without values, no more is known than with them.
    let unknown = shape.write(&[], None, &schema);
    assert!(!write.touches(&read) || unknown.touches(&shape.read(&[], &schema)), "{sql}");
    // A SELECT of a table is touched by a change of any of its rows, if the row is not known.
    let Ok(tokens) = tokens(sql, dialect) else {
        assert!(read.everything && write.everything, "{sql}");
        return;
    };
    let one = !tokens.iter().any(|token| matches!(token, Token::Symbol(symbol) if symbol == ";"));
    if !one || tokens.first() != Some(&Token::Word("select".into())) {
        return;
    }
    for table in ["posts", "tags"] {
        let named = tokens.contains(&Token::Word(table.into())) || tokens.contains(&Token::Quoted(table.into()));
        let change = Change { table: table.into(), images: vec![Image::new()], columns: None };
        let write = Write { everything: false, changes: vec![change] };
        assert!(!named || write.touches(&read), "{sql}");
    }
}

fn check_body(body: &[u8]) {
    let (secret, nonce) = ([b'A'; 32], "0123456789abcdef");
    let forms = [(String::from("/posts"), String::from("post"))];
    let random = [("hex", "1a2b3c4d"), ("alphanumeric", "Ab3Ab3Ab3")];
    let random = random.map(|(form, text)| RandomText::new(form, text.into()).expect("they are of these forms"));
    let texts = places(body, &random).unwrap_or_default();
    assert!(texts.iter().all(|(range, _)| random.iter().any(|text| text.is_in(&body[range.clone()]))));
    let visitor = Visitor { secret: Some(&secret), forms: &forms, nonce: Some(nonce), texts: &texts };
    let template = Template::cut(body, &visitor);
    if template.texts() == texts.len() {
        assert!(texts.is_empty() || random.iter().all(|text| !text.is_in(template.text())));
    }
    let filled = template.fill(Some(&secret), Some(nonce), || [7; 32]).expect("secret and nonce are there");
    assert_eq!(filled.len(), body.len());
    if template.tokens() + template.texts() == 0 {
        assert_eq!(filled, body);
    }
    // It has the same holes once more.
    let again = Template::cut(&filled, &Visitor { texts: &[], ..visitor });
    assert!(again.tokens() >= template.tokens());
}
