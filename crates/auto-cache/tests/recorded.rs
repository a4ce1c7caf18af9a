//! What the Ruby side has sent of a Rails application (gem/test/auto_cache), in `recorded/`: both sides agree on its form,
//! and the update of a post touches the pages that it must, and no other.

use auto_cache::{
    effects::{Read, Write},
    keys::Source,
    schema::Schema,
    sql::shape::Shape,
    wire::{self, What},
};

fn read(payload: &[u8], schema: &Schema) -> (Read, Write) {
    let (mut read, mut write) = (Read::default(), Write::default());
    for entry in wire::record(payload).unwrap() {
        let What::Statement { sql, bound, generated } = entry.what else { continue };
        assert!(entry.place.starts_with("shop.rb:"), "{}", entry.place);
        let shape = Shape::parse(&sql, schema);
        let generated = generated.as_ref().map(|(column, value)| (column.as_str(), value.clone()));
        write.add(shape.write(&bound, generated, schema));
        if !shape.writes() {
            let own = shape.read(&bound, schema);
            assert_eq!((own.everything, own.volatile), (false, None), "{sql}");
            read.rows.extend(own.rows);
        }
    }
    (read, write)
}

#[test]
fn a_write_of_rails_touches_pages_of_rails() {
    let schema = wire::schema(include_bytes!("recorded/schema")).unwrap();
    let visit = read(include_bytes!("recorded/visit"), &schema).1;
    let touched = |payload| visit.touches(&read(payload, &schema).0);
    assert!(touched(include_bytes!("recorded/posts-1")), "the post itself");
    assert!(touched(include_bytes!("recorded/joined")), "posts of all kinds");
    assert!(!touched(include_bytes!("recorded/counted")), "another number of visits is no other number of posts");
}

#[test]
fn every_answer_of_rails_depends_on_its_format() {
    let entries = wire::record(include_bytes!("recorded/counted")).unwrap();
    let names = entries.iter().filter_map(|entry| match &entry.what {
        What::Value { name, .. } => Some((name.source, name.name.as_str())),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    assert_eq!(names, [(Source::Header, "x-requested-with"), (Source::Request, "accept")]);
}
