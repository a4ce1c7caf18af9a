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
