//! What a document consists of, in its order. A list of pieces is the document: it can be kept and assembled for many
//! requests.

use bytes::Bytes;

use crate::{expression::Expression, template::Template, variable::Variable};

/// A part of a document. `vars`, `inline`, `comment`, `remove` and `<!--esi` have done their work when pieces come out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Markup that is no ESI, as it came.
    Text(Bytes),
    /// A reference within `vars` (3.7).
    Variable(Variable),
    /// 3.1
    Include(Include),
    /// 3.3: then come branches, then `EndChoose`.
    Choose,
    /// Begins a branch of the choose that is open, and ends the one before.
    When(Expression),
    Otherwise,
    EndChoose,
    /// 3.4: then come both branches, then `EndTry`.
    Try,
    /// Begins this branch of the try that is open, and ends the other.
    Attempt,
    Except,
    EndTry,
}

/// An `<esi:include>` (3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    pub src: Template,
    /// What to fetch when `src` fails.
    pub alt: Option<Template>,
    /// `onerror="continue"`: nothing stands in its place when both fail.
    pub continue_on_error: bool,
}
