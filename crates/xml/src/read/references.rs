//! References in text and in values of attributes: to characters, to the five that XML predefines, and to entities that
//! the document declares itself. What these come to is bounded: by depth, and by the bytes that are read for them in
//! the whole document.

use std::collections::HashMap;

use memchr::{memchr, memchr2};

use super::{
    characters::{is_allowed, name_length},
    error::{quoted, Mistake},
    limits::Limits,
};

#[derive(Debug)]
pub(super) enum Entity {
    /// Its text, in which references to characters are done already (XML 1.0, 4.5).
    Text(String),
    /// It lies elsewhere, from where nothing is ever fetched.
    External,
}

pub(super) struct Entities {
    declared: HashMap<Box<str>, Entity>,
    /// How much may still be read for references.
    left: usize,
}

impl Entities {
    pub fn new(limits: &Limits) -> Self {
        Entities { declared: HashMap::new(), left: limits.expansion.min(Limits::MAX_EXPANSION) }
    }

    /// The first declaration of a name counts.
    pub fn declare(&mut self, name: &str, entity: Entity) {
        self.declared.entry(name.into()).or_insert(entity);
    }

    /// `raw`, which stands at `at` in the document, without its references and with line ends as they are meant.
    pub fn unescape(&mut self, raw: &str, at: usize, out: &mut String) -> Result<(), Mistake> {
        let mut done = 0;
        while let Some(found) = memchr2(b'&', b'\r', &raw.as_bytes()[done..]) {
            let here = done + found;
            out.push_str(&raw[done..here]);
            if raw.as_bytes()[here] == b'\r' {
                out.push('\n');
                done = here + 1 + usize::from(raw.as_bytes().get(here + 1) == Some(&b'\n'));
            } else {
                let inner = inside_reference(&raw[here..]).ok_or_else(|| Mistake::new(at + here, LONE))?;
                self.resolve(inner, at + here, out)?;
                done = here + inner.len() + 2;
            }
        }
        out.push_str(&raw[done..]);
        Ok(())
    }

    /// Writes what `&inner;` stands for, which stands at `at`.
    pub fn resolve(&mut self, inner: &str, at: usize, out: &mut String) -> Result<(), Mistake> {
        self.resolve_within(inner, at, 0, out)
    }

    fn resolve_within(&mut self, inner: &str, at: usize, depth: usize, out: &mut String) -> Result<(), Mistake> {
        if let Some(number) = inner.strip_prefix('#') {
            out.push(numbered(number).ok_or_else(|| Mistake::new(at, bad_number(inner)))?);
            return Ok(());
        }
        if let Some(character) = predefined(inner) {
            out.push(character);
            return Ok(());
        }
        if inner.is_empty() || name_length(inner) != inner.len() {
            return Err(Mistake::new(at, LONE));
        }
        let told = |what: &str| Mistake::new(at, format!("entity {} {what}", quoted(inner)));
        let text = match self.declared.get(inner) {
            Some(Entity::Text(text)) => text,
            Some(Entity::External) => return Err(told("lies outside of the document, where nothing is fetched")),
            None => return Err(told("is not declared")),
        };
        if depth == Limits::ENTITY_DEPTH {
            return Err(told(&format!("holds itself, or entities more than {} deep", Limits::ENTITY_DEPTH)));
        }
        self.left =
            self.left.checked_sub(text.len() + 1).ok_or_else(|| told("makes the document grow beyond its limit"))?;
        if text.contains('<') {
            return Err(told("holds markup, which is not read"));
        }
        if !text.contains('&') {
            out.push_str(text);
            return Ok(());
        }
        // A copy, which the budget has paid for.
        let text = text.clone();
        let mut done = 0;
        while let Some(found) = memchr(b'&', &text.as_bytes()[done..]) {
            let here = done + found;
            out.push_str(&text[done..here]);
            let inner = inside_reference(&text[here..]).ok_or_else(|| Mistake::new(at, LONE))?;
            self.resolve_within(inner, at, depth + 1, out)?;
            done = here + inner.len() + 2;
        }
        out.push_str(&text[done..]);
        Ok(())
    }
}

pub(super) const LONE: &str = "\"&\" that begins no reference";

pub(super) fn bad_number(inner: &str) -> String {
    format!("reference to no character: {}", quoted(&format!("&{inner};")))
}

/// What stands between `&`, which `text` begins with, and `;`.
pub(super) fn inside_reference(text: &str) -> Option<&str> {
    let rest = &text[1..];
    let length = match rest.strip_prefix('#') {
        Some(number) => 1 + number.bytes().position(|byte| !byte.is_ascii_alphanumeric())?,
        None => name_length(rest),
    };
    (length > 0 && rest.as_bytes().get(length) == Some(&b';')).then(|| &rest[..length])
}

/// The character with this number, as it stands after `&#`.
pub(super) fn numbered(number: &str) -> Option<char> {
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    if !digits.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok().and_then(char::from_u32).filter(|character| is_allowed(*character))
}

fn predefined(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unescape(entities: &mut Entities, raw: &str) -> Result<String, String> {
        let mut out = String::new();
        entities.unescape(raw, 0, &mut out).map_err(|mistake| format!("{}: {}", mistake.at, mistake.message))?;
        Ok(out)
    }

    #[test]
    fn references_and_line_ends() {
        let mut entities = Entities::new(&Limits::default());
        let all = "a&lt;&gt;&amp;amp;&quot;&apos;&#65;&#x0041;&#x1F600;\r\nb\rc\r\r\n&#13;";
        assert_eq!(unescape(&mut entities, all).unwrap(), "a<>&amp;\"'AA\u{1F600}\nb\nc\n\n\r");
        for (raw, at) in [("a&", 1), ("&;", 0), ("é& b;", 2), ("&b", 0), ("&#65", 0), ("&a b;", 0), ("&1;", 0)] {
            assert_eq!(unescape(&mut entities, raw), Err(format!("{at}: {LONE}")), "{raw}");
        }
        for raw in [
            "&#;",
            "&#x;",
            "&#0;",
            "&#xD800;",
            "&#x110000;",
            "&#99999999999999999999;",
            "&#X41;",
            "&#1;",
            "&#xFFFE;",
            "&#6f;",
        ] {
            assert!(unescape(&mut entities, raw).unwrap_err().contains("to no character"), "{raw}");
        }
        assert_eq!(unescape(&mut entities, "&AMP;"), Err("0: entity \"AMP\" is not declared".into()));
    }

    #[test]
    fn entities_are_bounded() {
        let mut entities = Entities::new(&Limits { expansion: 1000, ..Limits::default() });
        entities.declare("e", Entity::Text("x&f;y".into()));
        entities.declare("e", Entity::Text("second".into()));
        entities.declare("f", Entity::Text("&#60;&amp;".into()));
        entities.declare("loop", Entity::Text("&loop;".into()));
        entities.declare("markup", Entity::Text("<b/>".into()));
        entities.declare("file", Entity::External);
        entities.declare("empty", Entity::Text(String::new()));
        entities.declare("lt", Entity::Text("no".into()));
        assert_eq!(unescape(&mut entities, "&e;&lt;").unwrap(), "x<&y<");
        for (raw, message) in [("&loop;", "holds itself"), ("&markup;", "markup"), ("&file;", "fetched")] {
            assert!(unescape(&mut entities, raw).unwrap_err().contains(message), "{raw}");
        }
        // Not even nothing may be asked for too often.
        assert!(unescape(&mut entities, &"&empty;".repeat(1001)).unwrap_err().contains("beyond its limit"));
    }
}
