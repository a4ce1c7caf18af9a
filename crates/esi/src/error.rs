//! What is wrong with a document, and where. It never decides whether that fails the page.

use std::fmt;

/// The first thing in a document that is not ESI 1.0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    /// Bytes of the document before the tag that is wrong; of text in the wrong place and of elements that nobody
    /// closes, before the opening tag of the element that it is about.
    pub at: u64,
}

/// What is wrong. Sections are those of the W3C Note "ESI Language Specification 1.0".
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A tag is longer than `Limits::tag`.
    TagTooLong { limit: usize },
    /// More elements are open than `Limits::nesting`.
    NestedTooDeep { limit: usize },
    /// No element of ESI 1.0 has this name.
    UnknownElement(String),
    /// A tag is not XML: an attribute without a quoted value, twice, or something that is no attribute.
    MalformedTag(String),
    /// The element needs this attribute, and a value in it (3.1, 3.3).
    MissingAttribute { element: &'static str, attribute: &'static str },
    /// `when` or `otherwise` outside `choose`, `attempt` or `except` outside `try` (3.3, 3.4).
    Misplaced { element: &'static str, within: &'static str },
    /// Markup directly in `choose` or `try` (3.3, 3.4).
    TextWithin(&'static str),
    /// An ESI element directly in `choose` or `try` that may not be there (3.3, 3.4).
    NotAllowedWithin { element: &'static str, within: &'static str },
    /// A second `otherwise`, `attempt` or `except`, or a `when` after `otherwise` (3.3, 3.4).
    OneTooMany { element: &'static str, within: &'static str },
    /// `choose` without `when`, `try` without `attempt` or `except` (3.3, 3.4).
    Lacks { element: &'static str, needs: &'static str },
    /// A closing tag that closes nothing, or not what was opened last.
    UnexpectedEnd { element: &'static str, open: Option<&'static str> },
    /// The document ends within this element, tag or `<!--esi` comment.
    Unclosed(&'static str),
    /// The test of a `when` is no expression (5).
    Expression(ExpressionError),
}

/// Why an expression is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    pub reason: &'static str,
    /// Bytes of the expression before it.
    pub at: usize,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TagTooLong { limit } => write!(f, "a tag has more than {limit} bytes"),
            Self::NestedTooDeep { limit } => write!(f, "more than {limit} elements are open"),
            Self::UnknownElement(name) => write!(f, "<esi:{name}> is no element of ESI 1.0"),
            Self::MalformedTag(reason) => f.write_str(reason),
            Self::MissingAttribute { element, attribute } => {
                write!(f, "<esi:{element}> needs the attribute {attribute}")
            }
            Self::Misplaced { element, within } => write!(f, "<esi:{element}> stands outside of <esi:{within}>"),
            Self::TextWithin(within) => write!(f, "there is text directly in <esi:{within}>"),
            Self::NotAllowedWithin { element, within } => {
                write!(f, "<esi:{element}> stands directly in <esi:{within}>")
            }
            Self::OneTooMany { element, within } => write!(f, "<esi:{within}> has no place for this <esi:{element}>"),
            Self::Lacks { element, needs } => write!(f, "<esi:{element}> has no <esi:{needs}>"),
            Self::UnexpectedEnd { element, open: Some(open) } => {
                write!(f, "</esi:{element}> stands where </esi:{open}> is due")
            }
            Self::UnexpectedEnd { element, open: None } => write!(f, "</esi:{element}> closes nothing"),
            Self::Unclosed(what) => write!(f, "{what} is not closed"),
            Self::Expression(error) => write!(f, "the test is no expression: {error}"),
        }
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.reason, self.at)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.kind, self.at)
    }
}

impl std::error::Error for Error {}
impl std::error::Error for ExpressionError {}
