//! The names of a document, each kept once and known by a number. Names from outside cannot make the search slow: the
//! table that they are in is keyed at random (std's), and the small one before it only ever saves a look into that.

use std::collections::HashMap;

pub(super) type Symbol = u32;

const NONE: Symbol = Symbol::MAX;
const RECENT: usize = 256;

pub(super) struct Symbols {
    numbers: HashMap<Box<str>, Symbol>,
    /// Where each ends in `text`.
    ends: Vec<usize>,
    text: String,
    recent: Box<[Symbol; RECENT]>,
}

impl Symbols {
    pub fn new() -> Self {
        Symbols { numbers: HashMap::new(), ends: Vec::new(), text: String::new(), recent: Box::new([NONE; RECENT]) }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn intern(&mut self, name: &str) -> Symbol {
        let bytes = name.as_bytes();
        let slot = match bytes {
            [first, .., last] => {
                (usize::from(*first) * 7
                    + usize::from(*last) * 31
                    + usize::from(bytes[bytes.len() / 2]) * 13
                    + bytes.len())
                    % RECENT
            }
            [only] => usize::from(*only),
            [] => 0,
        };
        let met = self.recent[slot];
        if met != NONE && self.get(met) == name {
            return met;
        }
        let symbol = match self.numbers.get(name) {
            Some(symbol) => *symbol,
            None => {
                let symbol = self.ends.len() as Symbol;
                self.numbers.insert(name.into(), symbol);
                self.text.push_str(name);
                self.ends.push(self.text.len());
                symbol
            }
        };
        self.recent[slot] = symbol;
        symbol
    }

    pub fn get(&self, symbol: Symbol) -> &str {
        let at = symbol as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    /// About how many bytes of memory this takes.
    pub fn size(&self) -> usize {
        2 * self.text.len() + self.ends.len() * 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let mut symbols = Symbols::new();
        let names: Vec<String> = (0..2000).map(|number| format!("n{number}")).collect();
        let first: Vec<Symbol> = names.iter().map(|name| symbols.intern(name)).collect();
        let again: Vec<Symbol> = names.iter().rev().map(|name| symbols.intern(name)).collect();
        assert!(again.iter().rev().eq(&first));
        assert_eq!(symbols.len(), 2000);
        assert!(names.iter().zip(&first).all(|(name, symbol)| symbols.get(*symbol) == name));
        let empty = symbols.intern("");
        assert_eq!(symbols.intern(""), empty);
        assert_eq!(symbols.get(empty), "");
    }
}
