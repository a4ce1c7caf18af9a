//! Tables and figures for the terminal.
//! It never prints.

use serde_json::Value;

use crate::cli::expected::Expected;

/// Numbers to the right, the rest to the left; the last column as wide as it is.
pub fn columns(heads: [&str; 3], rows: Vec<[String; 3]>) -> String {
    let wide = |index: usize| {
        let cells = rows.iter().map(|row| row[index].chars().count());
        cells.max().unwrap_or(0).max(heads[index].len())
    };
    let (first, second) = (wide(0), wide(1));
    let mut text = format!("  {:>first$}  {:<second$}  {}\n", heads[0], heads[1], heads[2]);
    for [one, two, three] in &rows {
        text.push_str(&format!("  {one:>first$}  {two:<second$}  {}\n", printable(three)));
    }
    text
}

/// Rows below their headings, the first row. Columns of figures stand to the right.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let wide: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let is_figure = |cell: &String| cell.is_empty() || cell.starts_with(|first: char| first.is_ascii_digit());
    let right: [bool; N] = std::array::from_fn(|column| rows.iter().skip(1).all(|row| is_figure(&row[column])));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(wide).zip(right).map(|((cell, wide), right)| {
            if right {
                format!("{cell:>wide$}")
            } else {
                format!("{cell:<wide$}")
            }
        });
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Nothing of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        whole => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

/// A count of an answer; 0: it is missing.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A text of an answer, for the terminal; empty: it is missing.
pub fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or(""))
}

/// Clients choose what stands in URLs: nothing of it is to reach the terminal as a command.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A time as the command line has it, in seconds.
pub fn seconds(text: &str) -> Result<f64, Expected> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let of_unit = units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = of_unit.unwrap_or((text, 1.0));
    number.trim().parse().map(|number: f64| number * seconds).map_err(|_| Expected("a time like 60s or 5m"))
}
