//! What a worker tells of a request and of its database, as it comes: fields that each end with NUL. It believes nothing
//! that is cut off or has another form.
//!
//! A record has entries: a letter, the place in the application that read it (`app/models/post.rb:7`, or empty), and
//!
//! | letter | then | means |
//! | --- | --- | --- |
//! | `S` | SQL, number of values, values | a statement that ran |
//! | `G` | column, value | the key that the statement before it has generated |
//! | `V` | source (`cookie header parameter query session request`), name, digest of the value or empty | it was read |
//! | `K` `F` `O` | a key of Rails.cache, a file, a URL | it was read |
//! | `M` | what | the moment, or chance |
//! | `R` | form (`hex uuid alphanumeric base64url`), text | a random text was made (`random_text`) |
//! | `W` | Unix milliseconds | the clock was read, and what was made of it is the same until then |
//! | `T` | path, method (or both empty) | a CSRF token was minted, for this form |
//! | `P` | secret, in Base64 | of the session, by which its tokens are found in the page |
//! | `C` | cookie, how it keeps the session | the session was read or its token used: `browser` (the cookie is the session, until the browser is closed), `expires` (it is, until its time is over), `server` (it names it) |
//! | `U` | why | something that can't be tracked: the page must not be kept |
//!
//! A value is `n` (NULL), `i42`, `r1.5`, `b0`, `b1`, `tTEXT` or `?`.
//!
//! A schema has entries without places: `D` dialect (`sqlite`, `postgres`), `T` table, `C` column, type, default (`?`: not
//! known), `N` (the table's columns are told apart by nothing: another collation) column, `G` (it has generated columns),
//! `V` view, SQL, `R` table, SQL (a trigger), `X` parent, child, `0` or `1` (also on update). `C`, `N` and `G` belong to the
//! table before them; views and triggers come after all tables.

use crate::{
    keys::{Name, Source},
    random_text::RandomText,
    schema::Schema,
    sql::{
        token::Dialect,
        value::{Class, Value},
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Entries of one record. A page that read more is not kept.
pub const MAX_ENTRIES: usize = 4096;

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// File and line of the application, or empty.
    pub place: String,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Statement {
        sql: String,
        bound: Vec<Value>,
        generated: Option<(String, Value)>,
    },
    Value {
        name: Name,
        digest: String,
    },
    CacheKey(String),
    File(String),
    Outbound(String),
    Moment(String),
    /// It never leaves memory.
    Random(RandomText),
    /// Unix milliseconds.
    GoodUntil(u64),
    Token {
        path: String,
        method: String,
    },
    /// Of the session, in Base64. It never leaves memory.
    Secret(String),
    SessionCookie {
        name: String,
        keeps: Keeps,
    },
    Untracked(String),
}

impl What {
    /// Whether this text is part of what was read.
    pub fn has(&self, text: &RandomText) -> bool {
        let is_in = |own: &str| text.is_in(own.as_bytes());
        let is_value = |value: &Value| matches!(value, Value::Text(own) if is_in(own));
        match self {
            What::Statement { sql, bound, generated } => {
                is_in(sql) || bound.iter().any(is_value) || generated.iter().any(|(_, value)| is_value(value))
            }
            What::Value { name, .. } => is_in(&name.name),
            What::CacheKey(own) | What::File(own) | What::Outbound(own) => is_in(own),
            What::Token { path, .. } => is_in(path),
            What::SessionCookie { name, .. } => is_in(name),
            What::Moment(_) | What::Random(_) | What::GoodUntil(_) | What::Secret(_) | What::Untracked(_) => false,
        }
    }
}

/// What the session's cookie is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// The session itself: the same value is the same session.
    Session,
    /// The session itself, until its time is over, which stands within it.
    SessionUntil,
    /// Its name: what is in it is known to the application alone.
    Name,
}

struct Fields<'a> {
    rest: std::slice::Split<'a, u8, fn(&u8) -> bool>,
    left: usize,
}

impl<'a> Fields<'a> {
    fn of(payload: &'a [u8]) -> Result<Fields<'a>, Malformed> {
        if payload.last().is_some_and(|last| *last != 0) {
            return Err(Malformed);
        }
        let is_end: fn(&u8) -> bool = |byte| *byte == 0;
        let left = payload.iter().filter(|byte| **byte == 0).count();
        Ok(Fields { rest: payload.split(is_end), left })
    }

    fn end(&self) -> bool {
        self.left == 0
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        self.left = self.left.checked_sub(1).ok_or(Malformed)?;
        self.rest.next().ok_or(Malformed)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)?;
        Ok(text.to_owned())
    }

    fn letter(&mut self) -> Result<u8, Malformed> {
        match self.bytes()? {
            [letter] => Ok(*letter),
            _ => Err(Malformed),
        }
    }
}

fn value(field: &[u8]) -> Result<Value, Malformed> {
    let (kind, rest) = field.split_first().ok_or(Malformed)?;
    let rest = std::str::from_utf8(rest).map_err(|_| Malformed)?;
    match (kind, rest) {
        (b'n', "") => Ok(Value::Null),
        (b'?', "") => Ok(Value::Other),
        (b'b', "0" | "1") => Ok(Value::Boolean(rest == "1")),
        (b'i', _) => rest.parse().map(Value::Integer).map_err(|_| Malformed),
        (b'r', _) => rest.parse().map(Value::Real).map_err(|_| Malformed),
        (b't', _) => Ok(Value::Text(rest.to_owned())),
        _ => Err(Malformed),
    }
}

fn source(text: &str) -> Result<Source, Malformed> {
    Ok(match text {
        "cookie" => Source::Cookie,
        "header" => Source::Header,
        "parameter" => Source::Parameter,
        "query" => Source::Query,
        "session" => Source::Session,
        "request" => Source::Request,
        _ => return Err(Malformed),
    })
}

fn keeps(text: &str) -> Result<Keeps, Malformed> {
    Ok(match text {
        "browser" => Keeps::Session,
        "expires" => Keeps::SessionUntil,
        "server" => Keeps::Name,
        _ => return Err(Malformed),
    })
}

pub fn record(payload: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let mut fields = Fields::of(payload)?;
    let mut entries: Vec<Entry> = Vec::new();
    while !fields.end() {
        if entries.len() == MAX_ENTRIES {
            return Err(Malformed);
        }
        let letter = fields.letter()?;
        let place = fields.text()?;
        if letter == b'G' {
            let key = (fields.text()?, value(fields.bytes()?)?);
            match entries.last_mut().map(|entry| &mut entry.what) {
                Some(What::Statement { generated: generated @ None, .. }) => *generated = Some(key),
                _ => return Err(Malformed),
            }
            continue;
        }
        entries.push(Entry { place, what: what(letter, &mut fields)? });
    }
    Ok(entries)
}

/// The files that a record names. None that can't be read.
pub fn files(payload: &[u8]) -> Vec<String> {
    let entries = record(payload).unwrap_or_default().into_iter();
    let files = entries.filter_map(|entry| match entry.what {
        What::File(path) => Some(path),
        _ => None,
    });
    files.collect()
}

fn what(letter: u8, fields: &mut Fields) -> Result<What, Malformed> {
    Ok(match letter {
        b'S' => {
            let sql = fields.text()?;
            let count: usize = fields.text()?.parse().map_err(|_| Malformed)?;
            if count > fields.left {
                return Err(Malformed);
            }
            let bound = (0..count).map(|_| value(fields.bytes()?)).collect::<Result<_, _>>()?;
            What::Statement { sql, bound, generated: None }
        }
        b'V' => {
            let source = source(&fields.text()?)?;
            What::Value { name: Name { source, name: fields.text()? }, digest: fields.text()? }
        }
        b'K' => What::CacheKey(fields.text()?),
        b'F' => What::File(fields.text()?),
        b'O' => What::Outbound(fields.text()?),
        b'M' => What::Moment(fields.text()?),
        b'R' => What::Random(RandomText::new(&fields.text()?, fields.text()?).ok_or(Malformed)?),
        b'W' => What::GoodUntil(fields.text()?.parse().map_err(|_| Malformed)?),
        b'T' => What::Token { path: fields.text()?, method: fields.text()? },
        b'P' => What::Secret(fields.text()?),
        b'C' => What::SessionCookie { name: fields.text()?, keeps: keeps(&fields.text()?)? },
        b'U' => What::Untracked(fields.text()?),
        _ => return Err(Malformed),
    })
}

pub fn schema(payload: &[u8]) -> Result<Schema, Malformed> {
    let mut fields = Fields::of(payload)?;
    if fields.letter()? != b'D' {
        return Err(Malformed);
    }
    let dialect = match fields.text()?.as_str() {
        "sqlite" => Dialect::Sqlite,
        "postgres" => Dialect::Postgres,
        _ => return Err(Malformed),
    };
    let mut schema = Schema::new(dialect);
    let mut table: Option<String> = None;
    while !fields.end() {
        let letter = fields.letter()?;
        match letter {
            b'T' => {
                let name = fields.text()?;
                schema.table(&name);
                table = Some(name);
            }
            b'C' | b'N' | b'G' => {
                let table = schema.table(table.as_ref().ok_or(Malformed)?);
                match letter {
                    b'G' => drop(table.generated()),
                    b'N' => drop(table.column(&fields.text()?, Class::Other)),
                    _ => {
                        let (name, class) = (fields.text()?, Class::from_type(&fields.text()?, dialect));
                        match value(fields.bytes()?)? {
                            Value::Other => table.column(&name, class),
                            default => table.column_with_default(&name, class, default),
                        };
                    }
                }
            }
            b'V' => schema.view(&fields.text()?, &fields.text()?),
            b'R' => schema.trigger(&fields.text()?, &fields.text()?),
            b'X' => schema.cascade(&fields.text()?, &fields.text()?, fields.text()? != "0"),
            _ => return Err(Malformed),
        }
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::shape::Shape;

    fn fields(texts: &[&str]) -> Vec<u8> {
        texts.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect()
    }

    #[test]
    fn a_record() {
        let payload = fields(&[
            "S",
            "app/models/post.rb:7",
            "SELECT 1",
            "2",
            "i3",
            "tx",
            "G",
            "",
            "id",
            "i9",
            "V",
            "",
            "cookie",
            "locale",
            "",
            "M",
            "",
            "Time.now",
        ]);
        let entries = record(&payload).unwrap();
        let generated = Some(("id".into(), Value::Integer(9)));
        let bound = vec![Value::Integer(3), Value::Text("x".into())];
        assert_eq!(entries[0].what, What::Statement { sql: "SELECT 1".into(), bound, generated });
        assert_eq!(entries[0].place, "app/models/post.rb:7");
        assert_eq!(entries.len(), 3);
        assert_eq!(record(b""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let whole = fields(&["S", "", "SELECT 1", "1", "i3", "M", "", "now"]);
        for length in 1..whole.len() {
            let cut = record(&whole[..length]);
            // After a whole entry, it is a shorter record.
            assert!(cut.is_err() || cut.is_ok_and(|entries| entries.len() == 1), "{length}");
        }
        for texts in [
            &["X", ""][..],
            &["S", "", "q", "9999999999"],
            &["S", "", "q", "1", "z"],
            &["G", "", "id", "i1"],
            &["V", "", "x", "y", ""],
            &["C", "", "_session", "elsewhere"],
            &["W", "", "soon"],
            &["R", "", "rand", "1a2b3c4d"],
            &["R", "", "hex", "1a2b"],
            &["R", "", "hex", "1a2b3c4\"><script>"],
            &["R", "", "uuid", "1a2b3c4d"],
        ] {
            assert_eq!(record(&fields(texts)), Err(Malformed), "{texts:?}");
        }
    }

    #[test]
    fn a_schema() {
        let payload = fields(&[
            "D",
            "sqlite",
            "T",
            "posts",
            "C",
            "id",
            "INTEGER",
            "?",
            "C",
            "title",
            "TEXT",
            "n",
            "N",
            "odd",
            "T",
            "tags",
            "C",
            "id",
            "INTEGER",
            "?",
            "V",
            "recent",
            "SELECT * FROM posts",
            "R",
            "tags",
            "DELETE FROM posts",
            "X",
            "posts",
            "tags",
            "0",
        ]);
        let schema = schema(&payload).unwrap();
        let write = Shape::parse("DELETE FROM tags WHERE id = 1", &schema).write(&[], None, &schema);
        let read = |sql| Shape::parse(sql, &schema).read(&[], &schema);
        assert!(
            write.touches(&read("SELECT * FROM recent")) && write.touches(&read("SELECT * FROM tags WHERE id = 1"))
        );
        assert_eq!(read("SELECT * FROM posts WHERE odd = 1").rows[0].conditions, []);
        assert!(
            super::schema(&fields(&["D", "oracle"])).is_err() && super::schema(&fields(&["D", "sqlite", "G"])).is_err()
        );
    }
}
