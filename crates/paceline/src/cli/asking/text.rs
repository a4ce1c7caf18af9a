//! Tables and figures for the terminal.
//! It never prints.

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
        let cells = row.iter().zip(wide).zip(right).map(|((cell, wide), right)| match right {
            true => format!("{cell:>wide$}"),
            false => format!("{cell:<wide$}"),
        });
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Seconds as people say them.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Milliseconds, in seconds when there are many.
pub fn millis(millis: f64) -> String {
    match millis {
        ..1.0 => format!("{millis:.2} ms"),
        ..1000.0 => format!("{millis:.1} ms"),
        _ => format!("{:.2} s", millis / 1000.0),
    }
}

/// Nothing of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        whole => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

/// Clients choose what stands in URLs: nothing of it is to reach the terminal as a command.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn size(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}
