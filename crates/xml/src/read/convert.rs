//! What `Hash.from_xml` makes of a document: the steps of ActiveSupport::XMLConverter, decided here from the elements
//! instead of from hashes that are built only to be taken apart. Where its rules meet something odd this gives up
//! ([`Unusual`]), and Rails does it.

use super::{
    characters::is_blank,
    document::{Document, Number, Span},
    emit::{Groups, Op, Program, Value, Writer, CONTENT},
    symbols::Symbol,
};

/// The document is better left to Rails: two names of an element differ only in `-` and `_`, something is called
/// `__content__`, or an element has more than one `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusual;

/// The names that XMLConverter knows.
struct Names {
    content: Symbol,
    kind: Symbol,
    nil: Symbol,
    file: Symbol,
}

struct Converter<'a> {
    document: &'a mut Document,
    body: &'a str,
    names: Names,
    /// By symbol: the name with `_` for `-`.
    keys: Vec<Symbol>,
    groups: Groups,
    writer: Writer,
}

/// What is being written.
struct Frame {
    /// Where the groups and values of this element begin.
    groups: usize,
    values: usize,
    group: usize,
    /// One after the last group that is written.
    end: usize,
    value: u32,
    /// Only the values of one group, as an Array; otherwise a Hash of all.
    entries: bool,
    file: bool,
}

impl Document {
    /// The steps for what `Hash.from_xml` returns. `body` is what was read, as it was read.
    pub fn converted(&mut self, body: &str) -> Result<Program, Unusual> {
        let body = &body[self.skipped..];
        let mut intern = |name| self.symbols.intern(name);
        let names = Names { content: intern(CONTENT), kind: intern("type"), nil: intern("nil"), file: intern("file") };
        let mut keys: Vec<Symbol> = (0..self.symbols.len() as Symbol).collect();
        for key in &mut keys {
            let name = self.symbols.get(*key);
            if name.contains('-') {
                let name = name.replace('-', "_");
                *key = self.symbols.intern(&name);
            }
        }
        let (groups, writer) = (Groups::new(self), Writer::new(self));
        Converter { document: self, body, names, keys, groups, writer }.document()
    }
}

impl Converter<'_> {
    fn document(mut self) -> Result<Program, Unusual> {
        let root = self.keys[self.document.elements[0].key as usize];
        if root == self.names.content {
            return Err(Unusual);
        }
        self.writer.push(Op::Key(root));
        self.elements()?;
        self.writer.push(Op::Hash(1));
        if root == self.names.file {
            self.writer.push(Op::File(root));
        }
        Ok(self.writer.finish())
    }

    /// Writes the root element and all that is in it.
    fn elements(&mut self) -> Result<(), Unusual> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut enter = Some(0);
        loop {
            if let Some(number) = enter.take() {
                match self.element(number)? {
                    Some(frame) => frames.push(frame),
                    None => match frames.last_mut() {
                        Some(above) => self.step(above),
                        None => return Ok(()),
                    },
                }
            }
            let Some(frame) = frames.last_mut() else { return Ok(()) };
            if frame.group == frame.end {
                if !frame.entries {
                    self.writer.push(Op::Hash((frame.end - frame.groups) as u32));
                    if frame.file {
                        self.writer.push(Op::File(self.names.file));
                    }
                }
                self.groups.list.truncate(frame.groups);
                self.groups.values.truncate(frame.values);
                frames.pop();
                match frames.last_mut() {
                    Some(above) => self.step(above),
                    None => return Ok(()),
                }
                continue;
            }
            let group = &self.groups.list[frame.group];
            if frame.value == u32::MAX {
                if !frame.entries {
                    self.writer.push(Op::Key(group.key));
                }
                frame.value = group.first;
            }
            match self.groups.values[frame.value as usize].0 {
                Value::Text(span) => {
                    self.writer.push(Op::Text(span));
                    self.step(frame);
                }
                Value::Element(number) => enter = Some(number),
            }
        }
    }

    /// One value is written; goes on to the next.
    fn step(&mut self, frame: &mut Frame) {
        frame.value = self.groups.values[frame.value as usize].1;
        if frame.value == u32::MAX {
            let count = self.groups.list[frame.group].count;
            if count > 1 || frame.entries {
                self.writer.push(Op::Array(count));
            }
            frame.group += 1;
        }
    }

    /// `process_hash`: writes what becomes of an element, or returns a frame for what is to be written of it.
    fn element(&mut self, number: Number) -> Result<Option<Frame>, Unusual> {
        let (groups, values) = (self.groups.list.len(), self.groups.values.len());
        self.document.group(number, self.names.content, Some(&self.keys), &mut self.groups);
        let end = self.groups.list.len();
        let mut frame = Frame { groups, values, group: groups, end, value: u32::MAX, entries: false, file: false };
        let (mut kind, mut content, mut nil, mut typed) = (None, None, false, false);
        for group in &self.groups.list[groups..] {
            let value = self.groups.values[group.first as usize].0;
            if group.key == self.names.kind {
                if group.count > 1 {
                    return Err(Unusual);
                }
                if let Value::Text(span) = value {
                    (kind, typed) = (Some(span), true);
                }
            } else if group.key == self.names.content {
                match (value, group.count, self.document.elements[number as usize].text) {
                    (Value::Text(span), 1, Some(text)) if span == text => content = Some(span),
                    _ => return Err(Unusual),
                }
            } else if group.key == self.names.nil {
                nil = group.count == 1
                    && matches!(value, Value::Text(span) if self.document.text(self.body, span) == "true");
            } else if group.key == self.names.file {
                frame.file = true;
            }
        }
        if self.groups.mixed {
            return Err(Unusual);
        }
        let kind_name = kind.map(|span| self.intern(span));
        if let Some(name) = kind_name {
            self.writer.push(Op::Allowed(name));
        }
        let kind = kind_name.map_or("", |name| self.document.symbols.get(name));
        let size = end - groups;
        let file = kind == "file";

        if kind == "array" {
            let entries = (groups..end).find(|at| {
                let group = &self.groups.list[*at];
                group.count > 1 || matches!(self.groups.values[group.first as usize].0, Value::Element(_))
            });
            match entries.filter(|_| content.is_none_or(|span| span.length > 0)) {
                Some(at) => {
                    (frame.group, frame.end, frame.entries) = (at, at + 1, true);
                    return Ok(Some(frame));
                }
                None => self.writer.push(Op::Array(0)),
            }
        } else if file || content.is_some_and(|span| size == 1 || !is_blank(self.document.text(self.body, span))) {
            self.content(number, kind_name, content);
        } else if kind == "string" && !nil {
            self.writer.push(Op::Empty);
        } else if size > 0 && !nil && !(typed && size == 1) {
            return Ok(Some(frame));
        } else {
            self.writer.push(Op::Nil);
        }
        self.groups.list.truncate(groups);
        self.groups.values.truncate(values);
        Ok(None)
    }

    /// `process_content`: the text, or what the parser for the type makes of it.
    fn content(&mut self, number: Number, kind: Option<Symbol>, content: Option<Span>) {
        self.writer.push(content.map_or(Op::Nil, Op::Text));
        let Some(kind) = kind else { return };
        let before = self.writer.ops.len();
        self.writer.push(Op::Convert(kind, 0));
        self.document.write_plain(number, self.names.content, Some(&self.keys), &mut self.groups, &mut self.writer);
        self.writer.push(Op::Call);
        self.writer.ops[before] = Op::Convert(kind, (self.writer.ops.len() - before - 1) as u32);
    }

    fn intern(&mut self, span: Span) -> Symbol {
        let text = self.document.text(self.body, span).to_owned();
        self.document.symbols.intern(&text)
    }
}
