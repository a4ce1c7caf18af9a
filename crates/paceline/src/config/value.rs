//! The types a setting can have, and how each is read from text (flags, environment, config/puma.rb) or from TOML.
//! It never decides which setting wins and knows no setting by name.

use std::{borrow::Cow, collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use toml_edit::Item;
use units::{parse_bytes, parse_duration, show_bytes, show_duration};

use super::{
    bind::BindError,
    table::{TableKind, TableProblem, TableSetting, TableValue},
};
use crate::{observe::traces, origins::upstream::TargetError};

/// What a setting's value may be.
#[derive(Clone, Copy)]
pub enum Kind {
    Bool,
    Int {
        min: u64,
        max: u64,
    },
    /// A number of processes or threads: a number (0 counts as 1) or `auto` for the number of cores.
    Count {
        max: u64,
    },
    /// A number of processes as `Count`, or `MIN:MAX`.
    Workers {
        max: u64,
    },
    /// A number of threads, or Puma's `MIN:MAX`.
    Threads {
        max: u64,
    },
    /// Bytes with an optional unit. With `off`, `"off"` and 0 mean no bound.
    Bytes {
        min: u64,
        max: u64,
        off: bool,
    },
    /// A time with a unit. With `off`, `"off"` means never.
    Duration {
        min: Duration,
        max: Duration,
        off: bool,
    },
    Path {
        from: From,
        off: bool,
    },
    Text {
        check: Check,
    },
    /// One string or a list of them.
    List {
        check: Check,
    },
    Enum(&'static [&'static str]),
    /// Names and texts: a table in TOML.
    Map,
    /// A table of a part, or several.
    Table(&'static TableKind),
}

/// Refuses a text that can't be the setting's.
pub type Check = fn(&str) -> Result<(), ValueError>;

pub fn anything(_: &str) -> Result<(), ValueError> {
    Ok(())
}

/// Why a value can't be used. Its words go behind the setting's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It is of another kind, does not look like one of these, or is out of bounds.
    #[error("must be {expected}, not {found}")]
    Mismatch { expected: Cow<'static, str>, found: String },
    /// A range whose least is above its most.
    #[error("must be MIN:MAX with MIN not above MAX, not {0:?}")]
    Backwards(String),
    /// One of a table of texts.
    #[error("{key} must be a string in quotes, not {found}")]
    Entry { key: String, found: String },
    /// A secret that could be guessed, or that no header can carry.
    #[error("must have {shortest} characters or more, no spaces: `openssl rand -hex 16` makes one")]
    WeakToken { shortest: usize },
    #[error(transparent)]
    Table(#[from] TableProblem),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Traces(#[from] traces::SettingError),
    /// An address of an upstream.
    #[error("{0}")]
    Upstream(TargetError),
}

impl ValueError {
    /// Where in the file it is, if that is not where the setting begins.
    pub fn place(&self) -> Option<usize> {
        match self {
            ValueError::Table(problem) => problem.at,
            _ => None,
        }
    }

    /// `expected`: what goes behind "must be".
    pub fn mismatch(expected: impl Into<Cow<'static, str>>, found: impl fmt::Debug) -> ValueError {
        ValueError::Mismatch { expected: expected.into(), found: format!("{found:?}") }
    }
}

/// What a relative path is relative to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The directory of the file that says it; for flags and the environment the directory served.
    Settings,
    /// The site's root.
    Root,
    /// A program: without a slash it is looked up in PATH, with one it is as `Settings`.
    Search,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    Int(u64),
    /// From ... to ..., which is more.
    Between(u64, u64),
    Auto,
    Duration(Duration),
    Off,
    Path(PathBuf),
    Text(String),
    List(Vec<String>),
    Map(BTreeMap<String, String>),
    Table(TableValue),
}

impl Value {
    pub fn table<T: TableSetting>(value: T) -> Value {
        Value::Table(TableValue::new(value))
    }
}

impl Kind {
    /// A setting that is this table.
    pub const fn table<T: TableSetting>() -> Kind {
        Kind::Table(TableKind::of::<T>())
    }

    /// Reads a flag, a variable or a line of config/puma.rb. A bare number is bytes or seconds.
    pub fn parse(&self, text: &str) -> Result<Value, ValueError> {
        let wrong = || self.refusal(&format!("{text:?}"));
        match *self {
            Kind::Workers { .. } | Kind::Threads { .. } if is_backwards(text) => {
                Err(ValueError::Backwards(text.to_owned()))
            }
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(Value::Bool(true)),
                "false" | "0" | "no" | "off" => Ok(Value::Bool(false)),
                _ => Err(wrong()),
            },
            Kind::Int { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(Value::Int).ok_or_else(wrong)
            }
            Kind::Count { .. } if text == "auto" => Ok(Value::Auto),
            Kind::Count { max } => {
                text.parse::<u64>().ok().filter(|n| *n <= max).map(|n| Value::Int(n.max(1))).ok_or_else(wrong)
            }
            Kind::Workers { max } => match text.split_once(':') {
                None => Kind::Count { max }.parse(text).map_err(|_| wrong()),
                Some((least, most)) => match (least.parse::<u64>(), most.parse::<u64>()) {
                    (Ok(least), Ok(most)) if least <= most && most <= max => Ok(match (least.max(1), most.max(1)) {
                        (least, most) if least < most => Value::Between(least, most),
                        (_, most) => Value::Int(most),
                    }),
                    _ => Err(wrong()),
                },
            },
            Kind::Threads { max } => {
                let (least, most) = text.split_once(':').unwrap_or((text, text));
                match (least.parse::<u64>(), most.parse::<u64>()) {
                    (Ok(least), Ok(most)) if least <= most && most <= max => Ok(if (2..most).contains(&least) {
                        Value::Between(least, most)
                    } else {
                        Value::Int(most.max(1))
                    }),
                    _ => Err(wrong()),
                }
            }
            Kind::Bytes { off: true, .. } if matches!(text, "off" | "0") => Ok(Value::Off),
            Kind::Bytes { min, max, .. } => {
                parse_bytes(text).filter(|n| (min..=max).contains(n)).map(Value::Int).ok_or_else(wrong)
            }
            Kind::Duration { off: true, .. } if text == "off" => Ok(Value::Off),
            Kind::Duration { min, max, .. } => parse_duration(text)
                .or_else(|| text.parse().ok().map(Duration::from_secs))
                .filter(|d| (min..=max).contains(d))
                .map(Value::Duration)
                .ok_or_else(wrong),
            Kind::Path { off: true, .. } if text == "off" => Ok(Value::Off),
            Kind::Path { .. } if text.is_empty() || text.contains('\0') => Err(wrong()),
            Kind::Path { .. } => Ok(Value::Path(PathBuf::from(text))),
            Kind::Text { check } => check(text).map(|()| Value::Text(text.to_string())),
            Kind::List { check } => check(text).map(|()| Value::List(vec![text.to_string()])),
            Kind::Enum(words) if words.contains(&text) => Ok(Value::Text(text.to_string())),
            Kind::Table(table) => Ok((table.from_text)(text).ok_or_else(wrong)?.map(Value::Table)?),
            Kind::Enum(_) | Kind::Map => Err(wrong()),
        }
    }

    /// Reads a value of paceline.toml, which has types of its own: a number is not a text.
    pub fn from_toml(&self, item: &Item) -> Result<Value, ValueError> {
        let wrong = || self.refusal(&described(item));
        match *self {
            Kind::Bool => item.as_bool().map(Value::Bool).ok_or_else(wrong),
            Kind::Int { .. } => self.parse(&item.as_integer().ok_or_else(wrong)?.to_string()),
            Kind::Count { .. } | Kind::Workers { .. } | Kind::Threads { .. } | Kind::Bytes { .. } => {
                match (item.as_integer(), item.as_str()) {
                    (Some(number), _) => self.parse(&number.to_string()),
                    (None, Some(text)) => self.parse(text),
                    _ => Err(wrong()),
                }
            }
            Kind::Duration { .. } => match item.as_str() {
                Some(text) if text.parse::<u64>().is_err() => self.parse(text),
                _ => Err(wrong()),
            },
            Kind::Path { off: true, .. } if item.as_bool() == Some(false) => Ok(Value::Off),
            Kind::Path { .. } | Kind::Text { .. } | Kind::Enum(_) => self.parse(item.as_str().ok_or_else(wrong)?),
            Kind::List { check } => {
                let texts: Vec<&str> = match (item.as_str(), item.as_array()) {
                    (Some(text), _) => vec![text],
                    (None, Some(array)) => {
                        array.iter().map(|one| one.as_str()).collect::<Option<_>>().ok_or_else(wrong)?
                    }
                    _ => return Err(wrong()),
                };
                texts.iter().try_for_each(|text| check(text))?;
                Ok(Value::List(texts.into_iter().map(String::from).collect()))
            }
            // What stands there may be a secret, or have a password in it.
            Kind::Table(table) => {
                let read = (table.from_toml)(item);
                let read = read.ok_or_else(|| self.refusal(&format!("a TOML {}", item.type_name())))?;
                Ok(read.map(Value::Table)?)
            }
            Kind::Map => {
                let table = item.as_table_like().ok_or_else(wrong)?;
                table
                    .iter()
                    .map(|(key, value)| match value.as_str() {
                        Some(text) if !text.contains('\0') => Ok((key.to_string(), text.to_string())),
                        _ => Err(ValueError::Entry { key: key.to_string(), found: described(value) }),
                    })
                    .collect::<Result<_, _>>()
                    .map(Value::Map)
            }
        }
    }

    fn refusal(&self, found: &str) -> ValueError {
        ValueError::Mismatch { expected: self.words().into(), found: found.to_owned() }
    }

    /// What a value must be, in words, for messages and the documentation.
    pub fn words(&self) -> String {
        let or_off = |off: bool| if off { ", or \"off\"" } else { "" };
        match *self {
            Kind::Bool => "true or false".into(),
            Kind::Int { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Count { max } => format!("a whole number up to {max}, or \"auto\" for the number of cores"),
            Kind::Workers { max } => {
                format!("a whole number up to {max}, \"MIN:MAX\", or \"auto\" for as many as there are cores and memory for")
            }
            Kind::Threads { max } => format!("a whole number up to {max} (or \"MIN:MAX\")"),
            Kind::Bytes { min, max, off } => {
                let (min, max) = (show_bytes(min), show_bytes(max));
                format!("a size like \"64KB\" or \"1MB\" from {min} to {max}{}", or_off(off))
            }
            Kind::Duration { min, max, off } => {
                let (min, max) = (show_duration(min), show_duration(max));
                format!("a time like \"200ms\", \"5s\" or \"2m\" from {min} to {max}{}", or_off(off))
            }
            Kind::Path { off, .. } => format!("a path{}", or_off(off)),
            Kind::Text { .. } => "a string".into(),
            Kind::List { .. } => "a string or a list of strings".into(),
            Kind::Enum(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                match words.split_last() {
                    Some((last, [])) => last.clone(),
                    Some((last, others)) => format!("{} or {last}", others.join(", ")),
                    None => String::new(),
                }
            }
            Kind::Map => "a table of names and strings".into(),
            Kind::Table(table) => table.words.into(),
        }
    }
}

/// A value of TOML, for messages.
pub(super) fn described(item: &Item) -> String {
    match (item.as_value(), item.type_name()) {
        (Some(value), "integer" | "float" | "boolean" | "string" | "datetime") => {
            value.clone().decorated("", "").to_string()
        }
        (_, name) => format!("a TOML {name}"),
    }
}

/// `5:4`: two numbers, the larger one first.
fn is_backwards(range: &str) -> bool {
    let Some((min, max)) = range.split_once(':') else { return false };
    matches!((min.parse::<u64>(), max.parse::<u64>()), (Ok(min), Ok(max)) if min > max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Kind = Kind::Bytes { min: 1, max: 1 << 40, off: true };
    const YEARS: Kind = Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(u64::MAX), off: true };
    const TIME: Kind = Kind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(86_400), off: true };

    #[test]
    fn texts() {
        let millis = |n| Value::Duration(Duration::from_millis(n));
        let good = [
            (Kind::Bool, "true", Value::Bool(true)),
            (Kind::Bool, "0", Value::Bool(false)),
            (Kind::Int { min: 0, max: 9 }, "9", Value::Int(9)),
            (Kind::Count { max: 9 }, "auto", Value::Auto),
            (Kind::Count { max: 9 }, "0", Value::Int(1)),
            (Kind::Workers { max: 9 }, "3", Value::Int(3)),
            (Kind::Workers { max: 9 }, "1:4", Value::Between(1, 4)),
            (Kind::Workers { max: 9 }, "0:1", Value::Int(1)),
            (Kind::Workers { max: 9 }, "auto", Value::Auto),
            (Kind::Threads { max: 9 }, "0:5", Value::Int(5)),
            (Kind::Threads { max: 9 }, "2:5", Value::Between(2, 5)),
            (Kind::Threads { max: 9 }, "0:1", Value::Int(1)),
            (Kind::Threads { max: 9 }, "4:4", Value::Int(4)),
            (Kind::Threads { max: 9 }, "5", Value::Int(5)),
            (SIZE, "1", Value::Int(1)),
            (SIZE, "64KB", Value::Int(65_536)),
            (SIZE, "64kb", Value::Int(65_536)),
            (SIZE, "1 MiB", Value::Int(1 << 20)),
            (SIZE, "1G", Value::Int(1 << 30)),
            (SIZE, "0", Value::Off),
            (SIZE, "off", Value::Off),
            (TIME, "200ms", millis(200)),
            (TIME, "5s", millis(5000)),
            (TIME, "5", millis(5000)),
            (TIME, "2m", millis(120_000)),
            (TIME, "1h", millis(3_600_000)),
            (YEARS, "1y", millis(365 * 86_400_000)),
            (TIME, "off", Value::Off),
            (Kind::Enum(&["a", "b"]), "b", Value::Text("b".into())),
        ];
        for (kind, text, value) in good {
            assert_eq!(kind.parse(text), Ok(value), "{text}");
        }
        let bad = [
            (Kind::Bool, "maybe"),
            (Kind::Int { min: 1, max: 9 }, "0"),
            (Kind::Int { min: 1, max: 9 }, "10"),
            (Kind::Int { min: 1, max: 9 }, "-1"),
            (Kind::Count { max: 9 }, "10"),
            (Kind::Count { max: 9 }, ""),
            (Kind::Workers { max: 9 }, "4:2"),
            (Kind::Workers { max: 9 }, "1:10"),
            (Kind::Workers { max: 9 }, "1:"),
            (Kind::Threads { max: 9 }, "5:3"),
            (Kind::Threads { max: 9 }, ":3"),
            (SIZE, "64XB"),
            (SIZE, "KB"),
            (SIZE, "99999999999TB"),
            (SIZE, "-1"),
            (TIME, "5x"),
            (TIME, "2d"),
            (TIME, "1.5s"),
            (Kind::Path { from: From::Settings, off: false }, ""),
            (Kind::Enum(&["a", "b"]), "c"),
        ];
        for (kind, text) in bad {
            assert!(kind.parse(text).is_err_and(|why| why.to_string().contains("must be")), "{text}");
        }
    }

    #[test]
    fn sizes_and_times_are_shown_as_they_are_read() {
        for text in ["1B", "64KB", "3MB", "1GB", "2TB"] {
            assert_eq!(parse_bytes(text).map(show_bytes).as_deref(), Some(text));
        }
        for text in ["1ms", "5s", "2m", "3h", "7d"] {
            assert_eq!(parse_duration(text).map(show_duration).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_range_that_is_backwards_is_told_so() {
        for kind in [Kind::Workers { max: 9 }, Kind::Threads { max: 9 }] {
            assert_eq!(
                kind.parse("5:4").unwrap_err().to_string(),
                "must be MIN:MAX with MIN not above MAX, not \"5:4\""
            );
            assert!(kind.parse("5:x").unwrap_err().to_string().contains("a whole number up to 9"));
        }
    }
}
