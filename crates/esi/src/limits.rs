//! What a document may ask for. It never counts: who does the work holds itself to these.

/// Bounds of one document that a client asked for, with all fragments in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one tag, and of one variable reference. Default: 16 KiB.
    pub tag: usize,
    /// Elements that are open at a time. Default: 32.
    pub nesting: usize,
    /// Fetches for the document and all fragments within it, so that fragments which include fragments can't multiply
    /// without end. Default: 256.
    pub fetches: usize,
    /// How deep fragments may be documents themselves: with 1 only the page is. Default: 5, Varnish's `max_esi_depth`,
    /// so that what was written for it works.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { tag: 16 * 1024, nesting: 32, fetches: 256, depth: 5 }
    }
}
