//! One tag's name and attributes. It knows which elements there are, not where they may stand.

use crate::ErrorKind;

/// The elements of ESI 1.0 (3). Names are always lowercase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Include,
    Inline,
    Choose,
    When,
    Otherwise,
    Try,
    Attempt,
    Except,
    Comment,
    Remove,
    Vars,
}

impl Element {
    const ALL: [Element; 11] = [
        Element::Include,
        Element::Inline,
        Element::Choose,
        Element::When,
        Element::Otherwise,
        Element::Try,
        Element::Attempt,
        Element::Except,
        Element::Comment,
        Element::Remove,
        Element::Vars,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Element::Include => "include",
            Element::Inline => "inline",
            Element::Choose => "choose",
            Element::When => "when",
            Element::Otherwise => "otherwise",
            Element::Try => "try",
            Element::Attempt => "attempt",
            Element::Except => "except",
            Element::Comment => "comment",
            Element::Remove => "remove",
            Element::Vars => "vars",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tag {
    pub element: Element,
    /// `</esi:...>`
    pub closes: bool,
    /// `<esi:.../>`
    pub empty: bool,
    attributes: Vec<Attribute>,
}

/// Name and value.
type Attribute = (Vec<u8>, Vec<u8>);

impl Tag {
    /// Reads all of a tag, from `<` to `>`.
    pub(crate) fn parse(text: &[u8]) -> Result<Tag, ErrorKind> {
        let inner = text.strip_suffix(b">").unwrap_or(text);
        let closes = inner.starts_with(b"</");
        let inner = inner.strip_prefix(b"</esi:").or_else(|| inner.strip_prefix(b"<esi:")).unwrap_or_default();
        let end = inner.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'/').unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let element = Element::ALL.into_iter().find(|element| element.name().as_bytes() == name);
        let element = element.ok_or_else(|| {
            ErrorKind::UnknownElement(String::from_utf8_lossy(&name[..name.len().min(40)]).escape_debug().to_string())
        })?;
        let rest = rest.trim_ascii_end();
        let (rest, empty) = rest.strip_suffix(b"/").map_or((rest, false), |rest| (rest, true));
        let malformed = |what: &str| ErrorKind::MalformedTag(format!("{what} in <esi:{}>", element.name()));
        if closes && (empty || !rest.trim_ascii().is_empty()) {
            return Err(malformed("there is something after the name, though it closes,"));
        }
        Ok(Tag { element, closes, empty, attributes: attributes(rest).map_err(malformed)? })
    }

    /// An attribute's value, if it has one that is not empty.
    pub(crate) fn attribute(&self, name: &str) -> Option<&[u8]> {
        let found = self.attributes.iter().find(|(key, _)| key == name.as_bytes());
        found.map(|(_, value)| &value[..]).filter(|value| !value.trim_ascii().is_empty())
    }

    pub(crate) fn required(&self, name: &'static str) -> Result<&[u8], ErrorKind> {
        self.attribute(name).ok_or(ErrorKind::MissingAttribute { element: self.element.name(), attribute: name })
    }
}

fn attributes(mut rest: &[u8]) -> Result<Vec<Attribute>, &'static str> {
    let mut found: Vec<Attribute> = Vec::new();
    loop {
        let trimmed = rest.trim_ascii_start();
        if trimmed.is_empty() {
            return Ok(found);
        }
        if trimmed.len() == rest.len() {
            return Err("an attribute does not stand apart");
        }
        let end = trimmed.iter().position(|byte| !is_name(*byte)).unwrap_or(trimmed.len());
        let (name, after) = trimmed.split_at(end);
        let value = after.trim_ascii_start().strip_prefix(b"=").map(<[u8]>::trim_ascii_start);
        let (Some([quote @ (b'"' | b'\''), value @ ..]), false) = (value, name.is_empty()) else {
            return Err("there is no attribute with a quoted value");
        };
        let end = value.iter().position(|byte| byte == quote).ok_or("an attribute's value is not closed")?;
        if found.iter().any(|(key, _)| key == name) {
            return Err("an attribute stands twice");
        }
        // The elements have four attributes at most; more of them are a way to make the search above slow.
        if found.len() == 32 {
            return Err("there are too many attributes");
        }
        found.push((name.to_vec(), unescaped(&value[..end])));
        rest = &value[end + 1..];
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)
}

/// XML's own five entities, since an attribute can't have all characters otherwise; any other `&` stands for itself.
fn unescaped(value: &[u8]) -> Vec<u8> {
    const ENTITIES: [(&[u8], u8); 5] =
        [(b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&quot;", b'"'), (b"&apos;", b'\'')];
    let (mut plain, mut rest) = (Vec::with_capacity(value.len()), value);
    while let [first, after @ ..] = rest {
        let entity = ENTITIES.iter().find(|(name, _)| *first == b'&' && rest.starts_with(name));
        plain.push(entity.map_or(*first, |(_, character)| *character));
        rest = entity.map_or(after, |(name, _)| &rest[name.len()..]);
    }
    plain
}
