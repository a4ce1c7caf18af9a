//! The way through a document: each piece of markup that quick-xml finds is held to XML's rules and kept, or refused.

use memchr::{memchr, memchr2, memmem};
use quick_xml::{errors::SyntaxError, events::Event, Error as TokenError, Reader};

use super::{
    attributes::Attributes,
    characters::{first_forbidden, is_blank, is_space, name_length, skip_space},
    doctype::{self, DOUBLE_HYPHEN},
    document::{Attribute, Document, Element, Number, Source, Span},
    error::{quoted, Error, Mistake},
    limits::Limits,
    namespaces::Namespaces,
    references::{Entities, LONE},
    symbols::{Symbol, Symbols},
};

const OUTSIDE: &str = "text outside of the root element";

/// Reads a whole document, which has to be UTF-8, with or without a byte order mark. An encoding that it declares is
/// not looked at.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Document, Error> {
    if bytes.len() > limits.bytes.min(Limits::MAX_BYTES) {
        let message = format!("the document is larger than {} bytes", limits.bytes.min(Limits::MAX_BYTES));
        return Err(Error { message, line: 0, column: 0 });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Mistake::new(error.valid_up_to(), "the document is not valid UTF-8").place(bytes))?;
    let body = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if let Some(at) = first_forbidden(body) {
        let character = body[at..].chars().next().map_or(0, u32::from);
        let message = format!("character U+{character:04X} is not allowed");
        return Err(Mistake::new(at, message).place(body.as_bytes()));
    }
    // quick-xml would pass over a second one without counting it.
    if body.starts_with('\u{FEFF}') {
        return Err(Mistake::new(0, OUTSIDE).place(body.as_bytes()));
    }
    let mut parser = Parser::new(body, limits);
    parser.document.skipped = text.len() - body.len();
    match parser.read() {
        Ok(()) => Ok(parser.document),
        Err(mistake) => Err(mistake.place(body.as_bytes())),
    }
}

/// An element whose end has not come.
struct Open {
    number: Number,
    last_child: Option<Number>,
    /// Its name with its prefix, and where it stands.
    name: (usize, usize),
    prefixes: usize,
    text: Text,
    /// What `Text::Joined` has. Kept for the next element that is as deep.
    joined: String,
    /// Whether nothing but white space stands in the document as its text.
    blank: bool,
}

#[derive(PartialEq)]
enum Text {
    None,
    Piece(Span),
    Joined,
}

struct Parser<'a> {
    body: &'a str,
    limits: &'a Limits,
    document: Document,
    namespaces: Namespaces,
    entities: Entities,
    /// The first `depth` of them are open.
    open: Vec<Open>,
    depth: usize,
    /// By symbol: the element that last had an attribute of this name, counted from 1.
    seen: Vec<u32>,
    expanded: Vec<(Symbol, Symbol)>,
    doctype: bool,
    /// Something has been that is no white space.
    begun: bool,
}

type ParseResult<T = ()> = Result<T, Mistake>;

impl<'a> Parser<'a> {
    fn new(body: &'a str, limits: &'a Limits) -> Self {
        let mut symbols = Symbols::new();
        let namespaces = Namespaces::new(&mut symbols);
        // A guess; most records are some 30 bytes long.
        let elements = Vec::with_capacity((body.len() / 32).min(limits.elements).min(100_000) + 1);
        Parser {
            body,
            limits,
            document: Document { elements, attributes: Vec::new(), symbols, beside: String::new(), skipped: 0 },
            namespaces,
            entities: Entities::new(limits),
            open: Vec::new(),
            depth: 0,
            seen: Vec::new(),
            expanded: Vec::new(),
            doctype: false,
            begun: false,
        }
    }

    fn read(&mut self) -> ParseResult {
        let mut reader = Reader::from_str(self.body);
        let config = reader.config_mut();
        // What it would check is checked here, with the place of the mistake.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        let mut start = 0;
        loop {
            let event = match reader.read_event() {
                Ok(event) => event,
                Err(error) => return Err(self.unfinished(&error, start)),
            };
            let end = reader.buffer_position() as usize;
            match event {
                Event::Start(_) => self.start(start, end - 1, false)?,
                Event::Empty(_) => self.start(start, end - 2, true)?,
                Event::End(_) => self.end(start, end)?,
                Event::Text(_) => self.text(start, end)?,
                Event::GeneralRef(_) => self.reference(start, end)?,
                Event::CData(_) => self.cdata(start + 9, end - 3, start)?,
                Event::Comment(_) => self.comment(start, end)?,
                Event::PI(_) => self.instruction(start, end)?,
                Event::Decl(_) => self.declaration(start, end)?,
                Event::DocType(_) => self.doctype(start, end)?,
                Event::Eof => return self.finish(),
            }
            start = end;
        }
    }

    fn finish(&self) -> ParseResult {
        if let Some(open) = self.open[..self.depth].last() {
            let (at, end) = open.name;
            return Err(Mistake::new(at - 1, format!("element {} is not closed", quoted(&self.body[at..end]))));
        }
        if self.document.elements.is_empty() {
            return Err(Mistake::new(self.body.len(), "the document has no root element"));
        }
        Ok(())
    }

    /// What quick-xml found no end of.
    fn unfinished(&self, error: &TokenError, start: usize) -> Mistake {
        let what = match error {
            TokenError::Syntax(SyntaxError::UnclosedComment) => "there is no end to a comment",
            TokenError::Syntax(SyntaxError::UnclosedCData) => "there is no end to a CDATA section",
            TokenError::Syntax(SyntaxError::UnclosedPI | SyntaxError::UnclosedXmlDecl) => {
                "there is no end to a processing instruction"
            }
            TokenError::Syntax(SyntaxError::UnclosedDoctype) => "there is no end to the document type declaration",
            TokenError::Syntax(SyntaxError::InvalidBangMarkup) => "\"<!\" that begins nothing",
            TokenError::Syntax(_) => "there is no end to a tag",
            TokenError::IllFormed(_) if self.body[start..].starts_with("<!") => {
                "the document type declaration has no name"
            }
            TokenError::IllFormed(_) => LONE,
            _ => "this can't be read",
        };
        Mistake::new(start, what)
    }

    fn start(&mut self, start: usize, end: usize, empty: bool) -> ParseResult {
        let name = start + 1..start + 1 + name_length(&self.body[start + 1..end]);
        if name.is_empty() {
            return Err(Mistake::new(start, "\"<\" that begins no tag"));
        }
        if self.depth == 0 && !self.document.elements.is_empty() {
            return Err(Mistake::new(start, "a second root element"));
        }
        if self.depth >= self.limits.depth {
            return Err(Mistake::new(start, "The document is too deep"));
        }
        if self.document.elements.len() >= self.limits.elements {
            return Err(Mistake::new(start, format!("the document has more than {} elements", self.limits.elements)));
        }
        self.begun = true;
        let symbol = self.document.symbols.intern(&self.body[name.clone()]);
        let qualified = self.namespaces.qualified(&mut self.document.symbols, symbol, name.start)?;
        let prefixes = self.namespaces.enter();
        let attributes = self.attributes(name.end, end)?;
        if let Some(prefix) = qualified.prefix {
            self.namespaces.of(&self.document.symbols, prefix, name.start)?;
        }

        let number = self.document.elements.len() as Number;
        let element = Element { key: qualified.local, attributes, first_child: None, next: None, text: None };
        self.document.elements.push(element);
        if let Some(parent) = self.open[..self.depth].last_mut() {
            let elements = &mut self.document.elements;
            match parent.last_child.replace(number) {
                Some(before) => elements[before as usize].next = Some(number),
                None => elements[parent.number as usize].first_child = Some(number),
            }
        }
        if empty {
            self.namespaces.leave(prefixes);
            return Ok(());
        }
        let name = (name.start, name.end);
        match self.open.get_mut(self.depth) {
            Some(open) => {
                open.joined.clear();
                let joined = std::mem::take(&mut open.joined);
                *open = Open { number, last_child: None, name, prefixes, text: Text::None, joined, blank: true };
            }
            None => {
                let joined = String::new();
                self.open.push(Open {
                    number,
                    last_child: None,
                    name,
                    prefixes,
                    text: Text::None,
                    joined,
                    blank: true,
                });
            }
        }
        self.depth += 1;
        Ok(())
    }

    /// Keeps the attributes that stand from `at` to `end`.
    fn attributes(&mut self, at: usize, end: usize) -> ParseResult<std::ops::Range<u32>> {
        let first = self.document.attributes.len();
        if at == end {
            return Ok(first as u32..first as u32);
        }
        let stamp = self.document.elements.len() as u32 + 1;
        let mut prefixed = 0;
        for attribute in Attributes::new(self.body, at..end) {
            let attribute = attribute?;
            let at = attribute.name.start;
            if self.document.attributes.len() - first == self.limits.attributes {
                return Err(Mistake::new(
                    at,
                    format!("an element has more than {} attributes", self.limits.attributes),
                ));
            }
            let name = &self.body[attribute.name];
            let key = self.document.symbols.intern(name);
            let qualified = self.namespaces.qualified(&mut self.document.symbols, key, at)?;
            if self.seen.len() <= key as usize {
                self.seen.resize(key as usize + 1, 0);
            }
            if std::mem::replace(&mut self.seen[key as usize], stamp) == stamp {
                return Err(Mistake::new(at, format!("attribute {} twice", quoted(name))));
            }
            let value = self.value(attribute.value.start, attribute.value.end)?;
            match qualified.prefix {
                Some(prefix) if prefix == self.namespaces.xmlns => {
                    let namespace = self.document.text(self.body, value).to_owned();
                    let namespace = self.document.symbols.intern(&namespace);
                    self.namespaces.declare(qualified.local, namespace, at)?;
                }
                Some(_) => prefixed += 1,
                None => {}
            }
            self.document.attributes.push(Attribute { key, value });
        }
        if prefixed > 0 {
            self.prefixed(first, at)?;
        }
        Ok(first as u32..self.document.attributes.len() as u32)
    }

    /// Checks the prefixes of an element's attributes, and that no two of them mean the same name.
    fn prefixed(&mut self, first: usize, at: usize) -> ParseResult {
        self.expanded.clear();
        for attribute in &self.document.attributes[first..] {
            let qualified = self.namespaces.qualified(&mut self.document.symbols, attribute.key, at)?;
            match qualified.prefix {
                Some(prefix) if prefix != self.namespaces.xmlns => {
                    let namespace = self.namespaces.of(&self.document.symbols, prefix, at)?;
                    self.expanded.push((namespace, qualified.local));
                }
                _ => {}
            }
        }
        self.expanded.sort_unstable();
        match self.expanded.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let local = quoted(self.document.symbols.get(pair[0].1));
                Err(Mistake::new(at, format!("attribute {local} of one namespace twice")))
            }
            None => Ok(()),
        }
    }

    fn value(&mut self, at: usize, end: usize) -> ParseResult<Span> {
        let raw = &self.body[at..end];
        if memchr2(b'&', b'\r', raw.as_bytes()).is_none() {
            return Ok(piece(at, end));
        }
        let from = self.document.beside.len();
        self.entities.unescape(raw, at, &mut self.document.beside)?;
        Ok(Span { at: from as u32, length: (self.document.beside.len() - from) as u32, source: Source::Beside })
    }

    fn end(&mut self, start: usize, end: usize) -> ParseResult {
        let inner = &self.body[start + 2..end - 1];
        let name = inner.trim_end_matches([' ', '\t', '\r', '\n']);
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err(Mistake::new(start, format!("end tag {} of no element", quoted(&format!("</{name}>")))));
        };
        let open = &mut self.open[depth];
        let expected = &self.body[open.name.0..open.name.1];
        if name != expected {
            let message =
                format!("end tag {} where element {} is open", quoted(&format!("</{name}>")), quoted(expected));
            return Err(Mistake::new(start, message));
        }
        let element = &mut self.document.elements[open.number as usize];
        // White space between elements is no text.
        if !(open.blank && open.last_child.is_some()) {
            element.text = match open.text {
                Text::None => None,
                Text::Piece(span) => Some(span),
                Text::Joined => {
                    let from = self.document.beside.len();
                    self.document.beside.push_str(&open.joined);
                    Some(Span { at: from as u32, length: open.joined.len() as u32, source: Source::Beside })
                }
            };
        }
        self.namespaces.leave(open.prefixes);
        self.depth = depth;
        Ok(())
    }

    fn text(&mut self, start: usize, end: usize) -> ParseResult {
        if start == end {
            return Ok(());
        }
        let raw = &self.body[start..end];
        let Some(open) = self.open[..self.depth].last_mut() else { return self.outside(start, end) };
        if let Some(found) = memchr(b']', raw.as_bytes()).and_then(|_| memmem::find(raw.as_bytes(), b"]]>")) {
            return Err(Mistake::new(start + found, "\"]]>\" in text"));
        }
        open.blank = open.blank && is_blank(raw);
        self.append(start, end);
        Ok(())
    }

    /// Adds a piece of the document to the text of the innermost element, of which there is one.
    fn append(&mut self, start: usize, end: usize) {
        let raw = &self.body[start..end];
        let open = &mut self.open[self.depth - 1];
        let plain = memchr(b'\r', raw.as_bytes()).is_none();
        if open.text == Text::None && plain {
            open.text = Text::Piece(piece(start, end));
            return;
        }
        let joined = join(open, self.body);
        if plain {
            joined.push_str(raw);
            return;
        }
        let mut rest = raw;
        while let Some(found) = memchr(b'\r', rest.as_bytes()) {
            joined.push_str(&rest[..found]);
            joined.push('\n');
            rest = &rest[found + 1..];
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
        joined.push_str(rest);
    }

    /// `&...;` in text. A space by reference is no white space between elements.
    fn reference(&mut self, start: usize, end: usize) -> ParseResult {
        let Some(open) = self.open[..self.depth].last_mut() else { return self.outside(start, end) };
        open.blank = false;
        let joined = join(open, self.body);
        self.entities.resolve(&self.body[start + 1..end - 1], start, joined)
    }

    fn cdata(&mut self, start: usize, end: usize, markup: usize) -> ParseResult {
        let Some(open) = self.open[..self.depth].last_mut() else {
            return Err(Mistake::new(markup, "a CDATA section outside of the root element"));
        };
        open.blank = open.blank && is_blank(&self.body[start..end]);
        // Text that is there, even if it is empty.
        self.append(start, end);
        Ok(())
    }

    fn outside(&mut self, start: usize, end: usize) -> ParseResult {
        match skip_space(&self.body.as_bytes()[..end], start) {
            at if at == end => Ok(()),
            at => Err(Mistake::new(at, OUTSIDE)),
        }
    }

    fn comment(&mut self, start: usize, end: usize) -> ParseResult {
        self.begun = true;
        let inner = &self.body.as_bytes()[start + 4..end - 2];
        match memmem::find(inner, b"--") {
            Some(found) => Err(Mistake::new(start + 4 + found, DOUBLE_HYPHEN)),
            None => Ok(()),
        }
    }

    fn instruction(&mut self, start: usize, end: usize) -> ParseResult {
        self.begun = true;
        let inner = &self.body[start + 2..end - 2];
        let length = name_length(inner);
        let apart = inner.as_bytes().get(length).is_none_or(|byte| is_space(*byte));
        if length == 0 || !apart || inner[..length].contains(':') {
            return Err(Mistake::new(start, "a processing instruction without a name"));
        }
        Ok(())
    }

    /// `<?xml ...?>`. White space may come before it, as with REXML.
    fn declaration(&mut self, start: usize, end: usize) -> ParseResult {
        if self.begun {
            return Err(Mistake::new(start, "the XML declaration is not at the beginning"));
        }
        self.begun = true;
        let mut attributes = Vec::new();
        for attribute in Attributes::new(self.body, start + 5..end - 2).take(4) {
            let attribute = attribute?;
            attributes.push((&self.body[attribute.name], &self.body[attribute.value]));
        }
        let mut rest = &attributes[..];
        let mut take = |name: &str, good: fn(&str) -> bool| match rest {
            [(found, value), after @ ..] if *found == name => {
                rest = after;
                Some(good(value))
            }
            _ => None,
        };
        let version = take("version", |value| {
            value
                .strip_prefix("1.")
                .is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
        });
        let encoding = take("encoding", |value| {
            value.starts_with(|first: char| first.is_ascii_alphabetic())
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        });
        let standalone = take("standalone", |value| matches!(value, "yes" | "no"));
        if version != Some(true) || encoding == Some(false) || standalone == Some(false) || !rest.is_empty() {
            return Err(Mistake::new(start, "the XML declaration is not as it should be"));
        }
        Ok(())
    }

    fn doctype(&mut self, start: usize, end: usize) -> ParseResult {
        if self.doctype || !self.document.elements.is_empty() {
            return Err(Mistake::new(
                start,
                "a document type declaration that is not before the root element, or the second",
            ));
        }
        (self.doctype, self.begun) = (true, true);
        doctype::read(&self.body[start..end], start, &mut self.entities)
    }
}

fn piece(at: usize, end: usize) -> Span {
    Span { at: at as u32, length: (end - at) as u32, source: Source::Document }
}

/// The text of an element, to be added to.
fn join<'o>(open: &'o mut Open, body: &str) -> &'o mut String {
    if let Text::Piece(span) = open.text {
        open.joined.push_str(&body[span.at as usize..(span.at + span.length) as usize]);
    }
    open.text = Text::Joined;
    &mut open.joined
}
