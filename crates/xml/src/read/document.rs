//! A document that was read: elements in the order in which they begin, with what the hashes need of them.

use super::symbols::{Symbol, Symbols};

/// Text: a piece of the document itself, or of what was put together beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub at: u32,
    pub length: u32,
    pub source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Document,
    Beside,
}

pub(super) type Number = u32;

pub(super) struct Element {
    /// The name without its prefix.
    pub key: Symbol,
    /// Where its attributes are among all.
    pub attributes: std::ops::Range<u32>,
    pub first_child: Option<Number>,
    pub next: Option<Number>,
    /// All its text, if the hash is to have it.
    pub text: Option<Span>,
}

pub(super) struct Attribute {
    /// The whole name.
    pub key: Symbol,
    pub value: Span,
}

/// The elements of one document. The first one is the root.
pub struct Document {
    pub(super) elements: Vec<Element>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) symbols: Symbols,
    /// Text that does not stand in the document as it is meant.
    pub(super) beside: String,
    /// The bytes of a byte order mark, which are before what spans count in.
    pub(super) skipped: usize,
}

impl Document {
    /// What spans of [`Source::Beside`] are pieces of.
    pub fn beside(&self) -> &str {
        &self.beside
    }

    /// How many names there are; a [`super::Program`] may have added some.
    pub fn symbols(&self) -> usize {
        self.symbols.len()
    }

    /// The name with this number, which has to be below [`Document::symbols`].
    pub fn symbol(&self, number: u32) -> &str {
        self.symbols.get(number)
    }

    /// The bytes of the document before those that spans of [`Source::Document`] count.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Only names and texts are still needed.
    pub fn forget_elements(&mut self) {
        (self.elements, self.attributes) = (Vec::new(), Vec::new());
    }

    /// About how many bytes of memory it takes.
    pub fn size(&self) -> usize {
        self.elements.capacity() * size_of::<Element>()
            + self.attributes.capacity() * size_of::<Attribute>()
            + self.beside.capacity()
            + self.symbols.size()
    }

    /// `span`'s text; `body` is what was read, without a byte order mark.
    pub(super) fn text<'a>(&'a self, body: &'a str, span: Span) -> &'a str {
        let range = span.at as usize..(span.at + span.length) as usize;
        match span.source {
            Source::Document => &body[range],
            Source::Beside => &self.beside[range],
        }
    }
}
