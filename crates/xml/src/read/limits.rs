//! How much of a document is taken. Every limit has its own message; nothing beyond a limit is ever held in memory.

/// The most of everything. What is larger is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the document, as UTF-8; never more than [`Limits::MOST_BYTES`].
    pub bytes: usize,
    /// Elements within each other.
    pub depth: usize,
    /// Elements altogether.
    pub elements: usize,
    /// Attributes of one element.
    pub attributes: usize,
    /// Bytes of the values of entities that are read where they are referred to, with one more for each reference.
    pub expansion: usize,
}

impl Limits {
    /// Places in a document are kept in 32 bits.
    pub const MAX_BYTES: usize = 1 << 30;
    /// Entities within entities. One that holds itself ends here.
    pub const ENTITY_DEPTH: usize = 16;
    /// The most that `expansion` can be.
    pub const MAX_EXPANSION: usize = 1 << 28;
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 64 << 20, depth: 100, elements: 1_000_000, attributes: 1_000, expansion: 65_536 }
    }
}
