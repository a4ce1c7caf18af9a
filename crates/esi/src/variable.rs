//! Variable references, `$(NAME{key}|default)` (4): finds them in bytes as they come and looks their values up in the
//! request. What is no reference is text; a reference is never an error.

use std::borrow::Cow;

use crate::facts::Facts;

/// A reference to something of the client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub(crate) name: Name,
    pub(crate) key: Option<Vec<u8>>,
    default: Vec<u8>,
}

/// What ESI 1.0 knows by name (the table in 4), and the path, as Akamai's ESI has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    AcceptLanguage,
    Cookie,
    Host,
    Referer,
    UserAgent,
    Query,
    Path,
    /// Evaluates to an empty string (4.2).
    Unknown,
}

/// What a variable has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Whether a list has the key (4.1.2).
    Truth(bool),
    /// From the request: the client wrote it.
    Sent(Cow<'a, [u8]>),
    /// The default (4.2): the document's author wrote it.
    Default(&'a [u8]),
}

impl Value<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Value::Truth(true) => b"true",
            Value::Truth(false) => b"false",
            Value::Sent(value) => value,
            Value::Default(value) => value,
        }
    }
}

impl Variable {
    /// The reference that `text` begins with, and its length; or how many bytes could have been one.
    pub(crate) fn parse(text: &[u8]) -> Result<(Variable, usize), usize> {
        let mut scan = Scan::default();
        for (at, byte) in text.iter().enumerate() {
            match scan.step(*byte) {
                Step::More => {}
                Step::No => return Err(at),
                Step::Done => return Ok((Variable::from_scanned(&text[..=at]), at + 1)),
            }
        }
        Err(text.len())
    }

    /// The reference that is all of `text`, which a scan has found.
    pub(crate) fn from_scanned(text: &[u8]) -> Variable {
        let inner = text.get(2..text.len().saturating_sub(1)).unwrap_or_default();
        let end = inner.iter().position(|byte| matches!(byte, b'{' | b'|')).unwrap_or(inner.len());
        let (name, mut rest) = inner.split_at(end);
        let mut key = None;
        if let Some(after) = rest.strip_prefix(b"{") {
            let end = after.iter().position(|byte| *byte == b'}').unwrap_or(after.len());
            key = Some(after[..end].to_vec());
            rest = after.get(end + 1..).unwrap_or_default();
        }
        let default = rest.strip_prefix(b"|").unwrap_or_default();
        let default = default.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'")).unwrap_or(default);
        Variable { name: Name::from_bytes(name), key, default: default.to_vec() }
    }

    pub(crate) fn value<'a>(&'a self, facts: &'a Facts) -> Value<'a> {
        let value = match (self.name, &self.key) {
            (Name::AcceptLanguage, Some(key)) => return Value::Truth(facts.accepts_language(key)),
            (Name::AcceptLanguage, None) => Cow::Borrowed(&facts.accept_language[..]),
            (Name::Cookie, Some(key)) => Cow::Borrowed(facts.cookie_named(key)),
            (Name::Cookie, None) => Cow::Borrowed(&facts.cookie[..]),
            (Name::UserAgent, Some(key)) => Cow::Borrowed(facts.of_user_agent(key)),
            (Name::UserAgent, None) => Cow::Borrowed(&facts.user_agent[..]),
            (Name::Query, Some(key)) => facts.query_parameter(key),
            (Name::Query, None) => Cow::Borrowed(&facts.query[..]),
            (Name::Host, None) => Cow::Borrowed(&facts.host[..]),
            (Name::Referer, None) => Cow::Borrowed(&facts.referer[..]),
            (Name::Path, None) => Cow::Borrowed(&facts.path[..]),
            (Name::Host | Name::Referer | Name::Path, Some(_)) | (Name::Unknown, _) => Cow::Borrowed(&b""[..]),
        };
        if value.is_empty() {
            Value::Default(&self.default)
        } else {
            Value::Sent(value)
        }
    }

    /// The value as text of an HTML page. What the client sent is escaped, or `<esi:vars>` would let anybody write
    /// markup into the page; a default stands as the author wrote it.
    pub fn to_html(&self, facts: &Facts) -> Vec<u8> {
        let value = self.value(facts);
        let Value::Sent(text) = &value else { return value.bytes().to_vec() };
        let mut html = Vec::with_capacity(text.len());
        for byte in text.iter() {
            match byte {
                b'&' => html.extend_from_slice(b"&amp;"),
                b'<' => html.extend_from_slice(b"&lt;"),
                b'>' => html.extend_from_slice(b"&gt;"),
                b'"' => html.extend_from_slice(b"&quot;"),
                b'\'' => html.extend_from_slice(b"&#39;"),
                byte => html.push(*byte),
            }
        }
        html
    }
}

impl Name {
    fn from_bytes(name: &[u8]) -> Name {
        match name {
            b"HTTP_ACCEPT_LANGUAGE" => Name::AcceptLanguage,
            b"HTTP_COOKIE" => Name::Cookie,
            b"HTTP_HOST" => Name::Host,
            b"HTTP_REFERER" => Name::Referer,
            b"HTTP_USER_AGENT" => Name::UserAgent,
            b"QUERY_STRING" => Name::Query,
            b"REQUEST_PATH" => Name::Path,
            _ => Name::Unknown,
        }
    }
}

/// Follows a reference byte by byte, from its `$`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Scan {
    #[default]
    Dollar,
    Parenthesis,
    NameStart,
    Name,
    KeyStart,
    Key,
    KeyEnd,
    DefaultStart,
    Bare,
    Quoted,
    QuotedEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// This byte can't be there: what was read is no reference.
    No,
    Done,
}

impl Scan {
    pub(crate) fn step(&mut self, byte: u8) -> Step {
        use Scan::*;
        *self = match (*self, byte) {
            (Dollar, b'$') => Parenthesis,
            (Parenthesis, b'(') => NameStart,
            (NameStart, b'A'..=b'Z' | b'_') => Name,
            (Name, b'A'..=b'Z' | b'_' | b'0'..=b'9') => Name,
            (Name, b'{') => KeyStart,
            (Name | KeyEnd, b'|') => DefaultStart,
            (Key, b'}') => KeyEnd,
            (KeyStart, b'}') => return Step::No,
            (KeyStart | Key, byte) if !byte.is_ascii_control() && !b"<>{\"' ".contains(&byte) => Key,
            (DefaultStart, b'\'') => Quoted,
            (Name | KeyEnd | DefaultStart | Bare | QuotedEnd, b')') => return Step::Done,
            (DefaultStart | Bare, byte) if !byte.is_ascii_control() && !b"<>(\"' ".contains(&byte) => Bare,
            (Quoted, b'\'') => QuotedEnd,
            (Quoted, _) => Quoted,
            _ => return Step::No,
        };
        Step::More
    }
}
