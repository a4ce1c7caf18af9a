//! Names with prefixes (Namespaces in XML 1.0): each is checked once, and a prefix has to be declared where it is used.

use super::{
    characters::is_plain_name,
    error::{quoted, Mistake},
    symbols::{Symbol, Symbols},
};

/// A name as it is used in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Qualified {
    pub prefix: Option<Symbol>,
    pub local: Symbol,
}

#[derive(Clone, Copy)]
enum Resolution {
    Nothing,
    Wrong,
    Name(Qualified),
}

pub(super) struct Namespaces {
    /// By symbol: what it is as a name.
    names: Vec<Resolution>,
    /// By symbol of a prefix: the symbol of the namespace's name that it stands for here.
    bound: Vec<Option<Symbol>>,
    /// What to go back to where elements end.
    before: Vec<(Symbol, Option<Symbol>)>,
    pub xmlns: Symbol,
    xml: Symbol,
    xml_name: Symbol,
}

impl Namespaces {
    pub fn new(symbols: &mut Symbols) -> Self {
        let (xmlns, xml) = (symbols.intern("xmlns"), symbols.intern("xml"));
        let xml_name = symbols.intern("http://www.w3.org/XML/1998/namespace");
        let mut bound = vec![None; symbols.len()];
        bound[xml as usize] = Some(xml_name);
        Namespaces { names: Vec::new(), bound, before: Vec::new(), xmlns, xml, xml_name }
    }

    /// The name that is `symbol`, which stands at `at`.
    pub fn qualified(&mut self, symbols: &mut Symbols, symbol: Symbol, at: usize) -> Result<Qualified, Mistake> {
        let place = symbol as usize;
        if self.names.len() <= place {
            self.names.resize(place + 1, Resolution::Nothing);
        }
        if let Resolution::Nothing = self.names[place] {
            self.names[place] = split(symbols, symbol).map_or(Resolution::Wrong, Resolution::Name);
        }
        match self.names[place] {
            Resolution::Name(name) => Ok(name),
            _ => Err(Mistake::new(at, format!("{} is no name with a prefix", quoted(symbols.get(symbol))))),
        }
    }

    /// What `leave` gets when the element ends that begins here.
    pub fn enter(&self) -> usize {
        self.before.len()
    }

    pub fn leave(&mut self, mark: usize) {
        for (prefix, bound) in self.before.drain(mark..).rev() {
            self.bound[prefix as usize] = bound;
        }
    }

    /// `xmlns:prefix="namespace"`, which stands at `at`.
    pub fn declare(&mut self, prefix: Symbol, namespace: Symbol, at: usize) -> Result<(), Mistake> {
        if prefix == self.xmlns {
            return Err(Mistake::new(at, "the prefix \"xmlns\" can't be declared"));
        }
        if (prefix == self.xml) != (namespace == self.xml_name) {
            return Err(Mistake::new(at, "the prefix \"xml\" and its namespace belong together"));
        }
        let place = prefix as usize;
        if self.bound.len() <= place {
            self.bound.resize(place + 1, None);
        }
        self.before.push((prefix, self.bound[place]));
        self.bound[place] = Some(namespace);
        Ok(())
    }

    /// The namespace of a prefix that is used at `at`.
    pub fn of(&self, symbols: &Symbols, prefix: Symbol, at: usize) -> Result<Symbol, Mistake> {
        let bound = self.bound.get(prefix as usize).copied().flatten();
        bound.ok_or_else(|| Mistake::new(at, format!("the prefix {} is not declared", quoted(symbols.get(prefix)))))
    }
}

fn split(symbols: &mut Symbols, symbol: Symbol) -> Option<Qualified> {
    let name = symbols.get(symbol);
    match name.split_once(':') {
        None => is_plain_name(name).then_some(Qualified { prefix: None, local: symbol }),
        Some((prefix, local)) => {
            let (prefix, local) = (prefix.to_owned(), local.to_owned());
            (is_plain_name(&prefix) && is_plain_name(&local))
                .then(|| Qualified { prefix: Some(symbols.intern(&prefix)), local: symbols.intern(&local) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_within_their_element() {
        let mut symbols = Symbols::new();
        let mut namespaces = Namespaces::new(&mut symbols);
        let name = symbols.intern("p:a");
        let Qualified { prefix, local } = namespaces.qualified(&mut symbols, name, 0).unwrap();
        let prefix = prefix.unwrap();
        assert_eq!((symbols.get(prefix), symbols.get(local)), ("p", "a"));
        assert!(namespaces.of(&symbols, prefix, 0).is_err());
        let (one, two) = (symbols.intern("one"), symbols.intern("two"));
        let outer = namespaces.enter();
        namespaces.declare(prefix, one, 0).unwrap();
        let inner = namespaces.enter();
        namespaces.declare(prefix, two, 0).unwrap();
        namespaces.declare(prefix, one, 0).unwrap();
        namespaces.declare(prefix, two, 0).unwrap();
        assert_eq!(namespaces.of(&symbols, prefix, 0), Ok(two));
        namespaces.leave(inner);
        assert_eq!(namespaces.of(&symbols, prefix, 0), Ok(one));
        namespaces.leave(outer);
        assert!(namespaces.of(&symbols, prefix, 0).is_err());
    }

    #[test]
    fn what_is_no_name_with_a_prefix() {
        let mut symbols = Symbols::new();
        let mut namespaces = Namespaces::new(&mut symbols);
        for wrong in ["a:", ":a", "a:b:c", "a:1", ":", ""] {
            let symbol = symbols.intern(wrong);
            assert!(namespaces.qualified(&mut symbols, symbol, 0).is_err(), "{wrong}");
        }
        let xml = symbols.intern("xml");
        assert!(namespaces.of(&symbols, xml, 0).is_ok());
        let (xmlns, other) = (symbols.intern("xmlns"), symbols.intern("other"));
        assert!(namespaces.of(&symbols, xmlns, 0).is_err());
        assert!(namespaces.declare(xmlns, other, 0).is_err() && namespaces.declare(xml, other, 0).is_err());
    }
}
