//! What is wrong with a document, and where.

/// The first mistake of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Whole words, without the place.
    pub message: String,
    /// The line, counted from 1; 0 if the mistake has no place.
    pub line: usize,
    /// The character of that line, counted from 1.
    pub column: usize,
}

/// A mistake whose place is a byte of the document. It becomes an [`Error`] once, at the end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub at: usize,
    pub message: String,
}

impl Mistake {
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Mistake { at, message: message.into() }
    }

    /// The mistake with line and column. `document` is what `at` counts in; it may hold bytes that are no UTF-8 after that
    /// place.
    pub fn place(self, document: &[u8]) -> Error {
        let before = &document[..self.at.min(document.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = 1 + before[start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        Error { message: self.message, line, column }
    }
}

/// A name or the like for a message: in quotes, and not more of it than anybody reads.
pub(super) fn quoted(text: &str) -> String {
    const MAX: usize = 60;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("\"{}...\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let error = Mistake::new(10, "x").place("ab\nc\u{e9}\u{20ac}def".as_bytes());
        assert_eq!((error.line, error.column), (2, 5));
        assert_eq!(Mistake::new(99, "x").place(b"a").column, 2);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(quoted("a\u{e9}"), "\"a\u{e9}\"");
        assert_eq!(quoted(&"\u{e9}".repeat(70)), format!("\"{}...\"", "\u{e9}".repeat(60)));
    }
}
