//! SQL as people may be shown it: each text and number in it is a `?`, because it may be a visitor's. It understands nothing else of
//! it, so it reads any database's; where it is not sure, it shows less.

/// Bytes that are written, about.
const ENOUGH: usize = 2000;

pub fn without_literals(sql: &str) -> String {
    let mut shown = String::new();
    let mut rest = sql;
    let mut before = ' ';
    while let Some(first) = rest.chars().next().filter(|_| shown.len() < ENOUGH) {
        let (length, part) = piece(rest, first, before, &shown);
        shown.push_str(part);
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    shown.trim().to_owned()
}

/// The next piece: its bytes, and what is shown of them.
fn piece<'a>(rest: &'a str, first: char, before: char, shown: &str) -> (usize, &'a str) {
    let is_name = |letter: char| letter.is_alphanumeric() || "_$".contains(letter);
    let until = |from: usize, end: &str| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    match first {
        '\'' => (quoted(rest, '\'', "eE".contains(before)), "?"),
        '"' => {
            let length = quoted(rest, '"', false);
            // SQLite takes it for a text where it knows no such name.
            let is_compared = shown.trim_end().ends_with(['=', '<', '>']) && !rest[length..].starts_with('.');
            (length, if is_compared { "?" } else { &rest[..length] })
        }
        '-' if rest.starts_with("--") => (until(2, "\n"), " "),
        '/' if rest.starts_with("/*") => (until(2, "*/"), ""),
        '$' if !is_name(before) => {
            let tag = rest[1..]
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .map_or("", |end| &rest[..end + 2]);
            if tag.ends_with('$') {
                (until(tag.len(), tag), "?")
            } else {
                (1, "$")
            }
        }
        _ if first.is_ascii_digit() && !is_name(before) && before != '?' => {
            (rest.find(|letter| !is_name(letter) && letter != '.').unwrap_or(rest.len()), "?")
        }
        _ => (first.len_utf8(), &rest[..first.len_utf8()]),
    }
}

/// Bytes of a quoted text, where a doubled quote is one.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && escapes || letter == quote && letters.peek().is_some_and(|(_, next)| *next == quote) {
            letters.next();
        } else if letter == quote {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        for (sql, shown) in [
            (
                "UPDATE \"users\" SET \"token\" = 'a''b' WHERE \"users\".\"id\" = 7",
                "UPDATE \"users\" SET \"token\" = ? WHERE \"users\".\"id\" = ?",
            ),
            (
                "SELECT * FROM t1 WHERE a = $1 AND b IN (1.5, -2e9, x'00')",
                "SELECT * FROM t1 WHERE a = $1 AND b IN (?, -?, x?)",
            ),
            ("SET a = E'b\\'c', d = $q$e'f$q$, g = $$h$$", "SET a = E?, d = ?, g = ?"),
            ("SET token = \"secret\" WHERE a = \"b\".c", "SET token = ? WHERE a = \"b\".c"),
            ("/*user:me@shop.test*/ SELECT ?1 -- secret\nFROM a", "SELECT ?1  FROM a"),
            ("SET a = 'torn b = c", "SET a = ?"),
            ("SELECT 'für' AS ß", "SELECT ? AS ß"),
        ] {
            assert_eq!(without_literals(sql), shown);
        }
        assert!(without_literals(&"(,".repeat(1 << 20)).len() <= ENOUGH + 1);
    }
}
