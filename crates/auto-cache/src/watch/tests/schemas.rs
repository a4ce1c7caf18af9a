//! What is believed of the schema of a database. It never looks at how SQL is read.

use super::*;

#[test]
fn without_a_schema_any_write_touches_any_page() {
    let mut site = Site::default();
    site.answer(&beer("i1"), "Pils");
    site.answer(&beer("i1"), "Pils");
    assert_eq!(site.counts(), (1, 0, 2));
    site.write(&update("i2"));
    assert_eq!(site.watch.size().0, 0);
    site.learn_schema(SCHEMA);
    site.answer(&beer("i1"), "Pils");
    site.write(&fields(&["S", "", "CREATE TABLE more (id INTEGER)", "0"]));
    assert_eq!(site.watch.size().0, 0, "the schema is another one");
}

/// With a trigger, by which a change of tags changes beers.
fn with_a_trigger() -> Vec<u8> {
    let sql = "CREATE TRIGGER renamed AFTER UPDATE ON tags BEGIN UPDATE beers SET name = 'x'; END";
    [SCHEMA, &fields(&["R", "tags", sql])].concat()
}

const ADD_TRIGGER: [&str; 4] = ["S", "", "CREATE TRIGGER renamed AFTER UPDATE ON tags BEGIN SELECT 1; END", "0"];

/// Whether the page of a beer is there yet after a tag was changed.
fn outlasts_a_tag(site: &mut Site) -> bool {
    site.answer(&beer("i1"), "Pils");
    assert_eq!(site.watch.size().0, 1);
    site.write(&fields(&["S", "", "UPDATE tags SET id = ? WHERE id = ?", "2", "i3", "i2"]));
    site.watch.size().0 == 1
}

#[test]
fn a_schema_from_before_a_change_is_not_believed() {
    let mut site = Site::new();
    assert!(outlasts_a_tag(&mut site));
    // Another process has read it already, and what it says comes after the change.
    site.watch.begin_schema(2, "7");
    site.write(&fields(&ADD_TRIGGER));
    site.watch.learn_schema(2, "7", SCHEMA).unwrap();
    assert!(!outlasts_a_tag(&mut site), "nobody has told the schema since");
    // It reads while a change is under way, and nothing of it is committed yet.
    site.watch.intend(1, "b", &fields(&ADD_TRIGGER), TIME).unwrap();
    site.watch.begin_schema(2, "8");
    site.watch.learn_schema(2, "8", SCHEMA).unwrap();
    site.watch.begin_schema(2, "9");
    site.done(1, "b");
    site.watch.learn_schema(2, "9", SCHEMA).unwrap();
    assert!(!outlasts_a_tag(&mut site));
    site.learn_schema(&with_a_trigger());
    assert!(!outlasts_a_tag(&mut site), "the trigger is known");
    // A change by a process that has ended counts as under way until it is lost.
    site.watch.intend(3, "c", &fields(&ADD_TRIGGER), TIME).unwrap();
    assert!(site.watch.left(3));
    site.learn_schema(SCHEMA);
    let moment = site.next();
    site.watch.lost(3, moment);
    assert!(!outlasts_a_tag(&mut site));
    site.learn_schema(SCHEMA);
    assert!(outlasts_a_tag(&mut site));
}

#[test]
fn a_write_that_was_announced_before_a_change_of_the_schema_may_change_more() {
    let mut site = Site::new();
    // It waits for a lock of the database.
    let rename = fields(&["S", "", "UPDATE tags SET id = ? WHERE id = ?", "2", "i3", "i2"]);
    site.watch.intend(2, "b", &rename, TIME).unwrap();
    site.write(&fields(&ADD_TRIGGER));
    site.learn_schema(&with_a_trigger());
    site.answer(&beer("i1"), "Pils");
    assert_eq!(site.watch.size().0, 0, "the trigger is about to change it");
    site.done(2, "b");
    site.answer(&beer("i1"), "x");
    assert_eq!(site.watch.size().0, 1);
}
