//! Values that rows are found by. Two that a database takes for equal have one canonical form here; two that differ may
//! share one. What has no reliable form is unknown, and matches everything.

use super::token::Dialect;

/// A value as the application sent it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    /// Bytes, a date, or whatever else the recorder has no name for.
    Other,
}

/// What a column's type says of how its values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Any column of SQLite whose collation is BINARY, NOCASE or RTRIM.
    Sqlite,
    /// PostgreSQL: smallint, integer, bigint.
    Integer,
    /// PostgreSQL: text, varchar, char, an enum, with a deterministic collation.
    Text,
    Boolean,
    Uuid,
    /// Compared in another way: rows are not told apart by it.
    Other,
}

/// The canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Known {
    Null,
    Integer(i64),
    Text(String),
}

/// From here on, a float does not say which integer it is.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Class {
    /// None: unknown.
    pub fn canonical(self, value: &Value) -> Option<Known> {
        if *value == Value::Null && self != Class::Other {
            return Some(Known::Null);
        }
        match self {
            Class::Sqlite | Class::Text => number_or_text(value),
            Class::Integer => integer(value),
            Class::Boolean => boolean(value),
            Class::Uuid => uuid(value),
            Class::Other => None,
        }
    }

    /// By the type that `PRAGMA table_info` or `format_type` names. What is not known here is `Other` in PostgreSQL.
    pub fn from_type(declared: &str, dialect: Dialect) -> Class {
        if dialect == Dialect::Sqlite {
            return Class::Sqlite;
        }
        let declared = declared.to_ascii_lowercase();
        let name = declared.split('(').next().unwrap_or_default().trim();
        match name {
            "smallint" | "integer" | "bigint" | "int2" | "int4" | "int8" => Class::Integer,
            "text" | "character varying" | "varchar" | "character" | "char" | "bpchar" => Class::Text,
            "boolean" | "bool" => Class::Boolean,
            "uuid" => Class::Uuid,
            _ => Class::Other,
        }
    }
}

fn whole(number: f64) -> Option<Known> {
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(Known::Integer(number as i64))
}

/// SQLite compares `'1'` and 1 by the column's affinity, and may ignore case and spaces at the end.
fn number_or_text(value: &Value) -> Option<Known> {
    match value {
        Value::Null => Some(Known::Null),
        Value::Boolean(value) => Some(Known::Integer((*value).into())),
        Value::Integer(value) => Some(Known::Integer(*value)),
        Value::Real(value) => whole(*value),
        Value::Text(text) => {
            let text = trim(text);
            if let Ok(number) = text.parse::<i64>() {
                return Some(Known::Integer(number));
            }
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => whole(number),
                _ if begins_like_number(text) => None,
                _ => Some(Known::Text(text.to_ascii_lowercase())),
            }
        }
        Value::Other => None,
    }
}

/// What databases call space, and no more: other kinds of space tell texts apart.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r'])
}

/// `1e400`, `1_000`, `12 monkeys`: some version may read a number there. A name or a slug that only begins with digits is
/// looked at once more, because those are frequent.
fn begins_like_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-', '.']);
    digits.starts_with(|char: char| char.is_ascii_digit())
        && digits.bytes().all(|byte| b"0123456789.eExX_+-".contains(&byte))
        && !is_date(text)
}

/// `2026-11-25`, also with a time.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 10 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[..4].iter().all(u8::is_ascii_digit)
}

fn integer(value: &Value) -> Option<Known> {
    match value {
        Value::Integer(value) => Some(Known::Integer(*value)),
        Value::Real(value) => whole(*value),
        Value::Text(text) => trim(text).parse().ok().map(Known::Integer),
        _ => None,
    }
}

fn boolean(value: &Value) -> Option<Known> {
    let is_true = match value {
        Value::Boolean(value) => *value,
        Value::Integer(value @ (0 | 1)) => *value == 1,
        Value::Text(text) => match trim(text).to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => true,
            "f" | "false" | "n" | "no" | "off" | "0" => false,
            _ => return None,
        },
        _ => return None,
    };
    Some(Known::Integer(is_true.into()))
}

fn uuid(value: &Value) -> Option<Known> {
    let Value::Text(text) = value else { return None };
    let digits: String = trim(text).chars().filter(|char| !"{}-".contains(*char)).collect();
    let valid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| Known::Text(digits.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn what_sqlite_takes_for_equal_has_one_form() {
        let one = Class::Sqlite.canonical(&Value::Integer(1));
        for same in [text("1"), text(" 1.0 "), text("1e0"), Value::Real(1.0), Value::Boolean(true), text("01")] {
            assert_eq!(Class::Sqlite.canonical(&same), one, "{same:?}");
        }
        assert_eq!(Class::Sqlite.canonical(&text("Ann  ")), Class::Sqlite.canonical(&text("ann")));
        assert_ne!(Class::Sqlite.canonical(&text("ann")), Class::Sqlite.canonical(&text("bob")));
        assert_eq!(Class::Sqlite.canonical(&text("9007199254740993")), Some(Known::Integer(9_007_199_254_740_993)));
    }

    #[test]
    fn what_may_be_rounded_or_cast_is_unknown() {
        for value in [
            Value::Real(0.5),
            Value::Real(1e300),
            text("1e400"),
            text("0.5"),
            text("99999999999999999999"),
            Value::Other,
        ] {
            assert_eq!(Class::Sqlite.canonical(&value), None, "{value:?}");
        }
        assert_eq!(Class::Integer.canonical(&text("0x10")), None);
        assert_eq!(Class::Integer.canonical(&Value::Real(1.5)), None);
        assert_eq!(Class::Other.canonical(&Value::Null), None);
    }

    #[test]
    fn the_forms_of_one_uuid_and_of_true() {
        let forms = ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"];
        assert_eq!(Class::Uuid.canonical(&text(forms[0])), Class::Uuid.canonical(&text(forms[1])));
        assert_eq!(Class::Boolean.canonical(&text("Yes")), Class::Boolean.canonical(&Value::Boolean(true)));
        assert_eq!(Class::Boolean.canonical(&text("tr")), None);
    }

    #[test]
    fn slugs_and_dates_are_text() {
        assert_eq!(Class::Sqlite.canonical(&text("12-monkeys")), Some(Known::Text("12-monkeys".into())));
        assert_eq!(Class::Sqlite.canonical(&text("2026-11-25")), Some(Known::Text("2026-11-25".into())));
    }
}
