//! What Ruby builds of a document, as a list of steps with a stack: the hashes of XmlMini's REXML backend. Only the
//! building itself is left to C, which has nothing to decide.

use super::{
    document::{Document, Number, Span},
    symbols::Symbol,
};

/// A step. Each takes what it needs from the top of the stack and leaves one value there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A name, as an interned String.
    Key(u32),
    /// A new String.
    Text(Span),
    /// A Hash of so many keys and values.
    Hash(u32),
    /// An Array of so many values.
    Array(u32),
    /// nil.
    Nil,
    /// A String without anything that is frozen, as Rails has it in its source.
    Empty,
    /// Leaves the stack as it is. Raises DisallowedType if the type with this name is not allowed.
    Allowed(u32),
    /// The parser for the type with this name, `XmlMini::PARSING`'s, gets the text on the stack, and its result takes
    /// the place. If there is no such parser, or it takes no more than the text, so many steps after this one are
    /// left out; otherwise it is called by `Call`.
    Convert(u32, u32),
    /// Calls the parser of the `Convert` before with the text and the Hash that are on the stack.
    Call,
    /// If the Hash on the stack has a StringIO under the key with this name, that takes its place.
    File(u32),
}

/// The steps for one document.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    pub ops: Vec<Op>,
    /// The most values that are on the stack at once.
    pub stack: usize,
}

pub(super) const CONTENT: &str = "__content__";

/// One of the values of an element's hash.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Text(Span),
    Element(Number),
}

/// By symbol: the key that a name becomes, if it is not the name itself.
pub(super) type Keys<'a> = Option<&'a [Symbol]>;

/// The values of one key, in their order.
pub(super) struct Group {
    pub key: Symbol,
    /// The name that the first of them has in the document.
    name: Symbol,
    pub first: u32,
    last: u32,
    pub count: u32,
}

/// Puts the values of elements into groups by key. What is grouped of an element stays until it is dropped, like a
/// stack.
pub(super) struct Groups {
    pub list: Vec<Group>,
    /// Values, and where the next one of the same group is.
    pub values: Vec<(Value, u32)>,
    /// By symbol: the group, if the mark is that of the element which is grouped.
    places: Vec<(u32, u32)>,
    mark: u32,
    /// Two names of an element have become one key.
    pub mixed: bool,
}

impl Groups {
    pub fn new(document: &Document) -> Self {
        Groups {
            list: Vec::new(),
            values: Vec::new(),
            places: vec![(0, 0); document.symbols.len()],
            mark: 0,
            mixed: false,
        }
    }

    /// A new element's groups begin.
    pub fn begin(&mut self) {
        self.mark += 1;
    }

    fn add(&mut self, name: Symbol, keys: Keys, value: Value) {
        let key = keys.map_or(name, |keys| keys[name as usize]);
        let at = self.values.len() as u32;
        self.values.push((value, u32::MAX));
        if self.places.len() <= key as usize {
            self.places.resize(key as usize + 1, (0, 0));
        }
        let (mark, group) = self.places[key as usize];
        if mark == self.mark {
            let group = &mut self.list[group as usize];
            self.mixed |= group.name != name;
            self.values[group.last as usize].1 = at;
            group.last = at;
            group.count += 1;
        } else {
            self.places[key as usize] = (self.mark, self.list.len() as u32);
            self.list.push(Group { key, name, first: at, last: at, count: 1 });
        }
    }
}

/// What is being written: an element's hash, of which some groups are done.
struct Frame {
    groups: usize,
    values: usize,
    group: usize,
    end: usize,
    /// The value of the group that comes next.
    value: u32,
}

/// Writes steps and knows how high the stack becomes.
pub(super) struct Writer {
    pub ops: Vec<Op>,
    height: usize,
    most: usize,
}

impl Writer {
    pub fn new(document: &Document) -> Self {
        let ops = Vec::with_capacity(3 * document.elements.len() + 2 * document.attributes.len() + 2);
        Writer { ops, height: 0, most: 0 }
    }

    pub fn push(&mut self, op: Op) {
        let taken = match op {
            Op::Hash(pairs) => 2 * pairs as usize,
            Op::Array(count) => count as usize,
            Op::Convert(..) | Op::File(_) => 1,
            Op::Call => 2,
            Op::Allowed(_) | Op::Key(_) | Op::Text(_) | Op::Nil | Op::Empty => 0,
        };
        let left = usize::from(!matches!(op, Op::Allowed(_)));
        self.height = self.height - taken + left;
        self.most = self.most.max(self.height);
        self.ops.push(op);
    }

    pub fn finish(self) -> Program {
        debug_assert_eq!(self.height, 1);
        Program { ops: self.ops, stack: self.most }
    }
}

impl Document {
    /// The hash as XmlMini's REXML backend gives it: attributes, elements, `__content__`.
    pub fn plain(&mut self) -> Program {
        let content = self.symbols.intern(CONTENT);
        let mut writer = Writer::new(self);
        let mut groups = Groups::new(self);
        writer.push(Op::Key(self.elements[0].key));
        self.write_plain(0, content, None, &mut groups, &mut writer);
        writer.push(Op::Hash(1));
        writer.finish()
    }

    /// Groups the values of one element.
    pub(super) fn group(&self, number: Number, content: Symbol, keys: Keys, groups: &mut Groups) {
        groups.begin();
        let element = &self.elements[number as usize];
        for attribute in &self.attributes[element.attributes.start as usize..element.attributes.end as usize] {
            groups.add(attribute.key, keys, Value::Text(attribute.value));
        }
        let mut child = element.first_child;
        while let Some(number) = child {
            let element = &self.elements[number as usize];
            groups.add(element.key, keys, Value::Element(number));
            child = element.next;
        }
        if let Some(text) = element.text {
            groups.add(content, keys, Value::Text(text));
        }
    }

    /// Writes the hash of one element.
    pub(super) fn write_plain(
        &self,
        root: Number,
        content: Symbol,
        keys: Keys,
        groups: &mut Groups,
        writer: &mut Writer,
    ) {
        let mut frames: Vec<Frame> = Vec::new();
        let mut enter = Some(root);
        loop {
            if let Some(number) = enter.take() {
                let (start, values) = (groups.list.len(), groups.values.len());
                self.group(number, content, keys, groups);
                frames.push(Frame { groups: start, values, group: start, end: groups.list.len(), value: u32::MAX });
            }
            let Some(frame) = frames.last_mut() else { return };
            if frame.group == frame.end {
                writer.push(Op::Hash((frame.end - frame.groups) as u32));
                groups.list.truncate(frame.groups);
                groups.values.truncate(frame.values);
                frames.pop();
                if let Some(above) = frames.last_mut() {
                    step(above, groups, writer);
                }
                continue;
            }
            let group = &groups.list[frame.group];
            if frame.value == u32::MAX {
                writer.push(Op::Key(group.key));
                frame.value = group.first;
            }
            match groups.values[frame.value as usize].0 {
                Value::Text(span) => {
                    writer.push(Op::Text(span));
                    step(frame, groups, writer);
                }
                Value::Element(number) => enter = Some(number),
            }
        }
    }
}

/// One value is written; goes on to the next.
fn step(frame: &mut Frame, groups: &Groups, writer: &mut Writer) {
    frame.value = groups.values[frame.value as usize].1;
    if frame.value == u32::MAX {
        let count = groups.list[frame.group].count;
        if count > 1 {
            writer.push(Op::Array(count));
        }
        frame.group += 1;
    }
}
