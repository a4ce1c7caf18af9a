//! A place in the journal. It never says whether the journal still has it.

use std::fmt;

/// After the entry with this number and this mark. The default is the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Position {
    pub number: u64,
    pub mark: String,
}

impl Position {
    pub fn new(number: u64, mark: impl Into<String>) -> Position {
        Position { number, mark: mark.into() }
    }

    /// As it is displayed. None: it is not a position.
    pub fn parse(text: &str) -> Option<Position> {
        let (number, mark) = text.split_once('-')?;
        let is_mark = mark.bytes().all(|byte| byte.is_ascii_alphanumeric()) && mark.len() <= 64;
        is_mark.then_some(Position { number: number.parse().ok()?, mark: mark.into() })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_displayed() {
        for position in [Position::default(), Position::new(57, "9f3c"), Position::new(u64::MAX, "A0")] {
            assert_eq!(Position::parse(&position.to_string()), Some(position));
        }
        for text in ["", "57", "-9f3c", "57-9f 3c", "57-9f\n", "x-9f3c", "18446744073709551616-a"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }
}
