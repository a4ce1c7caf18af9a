//! Where what lies in a mailbox (docs/worker-protocol.md). gem/ext/paceline_native/mailbox.c has the same numbers.

/// Bytes of the requests' ring.
pub const REQUESTS: usize = 64 << 10;
/// Bytes of the answers' ring.
pub const ANSWERS: usize = 256 << 10;
/// Bytes before the rings: the words, each in a cache line of its own.
pub const HEAD: usize = 4096;
/// Bytes of the whole.
pub const SIZE: usize = HEAD + REQUESTS + ANSWERS;

/// Bytes before each entry: a word, its length (u32), and flags (u32). Of an answer the word and the flags are unused.
/// Entries begin at multiples of this.
pub const ENTRY: usize = 16;

/// A request's word is its number, shifted by two, and one of these. The front posts it as QUEUED; who changes that
/// first has it.
pub const QUEUED: u64 = 1;
/// The worker's thread has it (only the worker writes this).
#[cfg_attr(not(test), allow(dead_code))]
pub const CLAIMED: u64 = 2;
pub const REVOKED: u64 = 3;
/// A request's flag: it is expected to take less time than to wake the front for the answer before it.
pub const QUICK: u32 = 1;
/// In place of a request's word: the next entry lies at the beginning of the ring.
pub const SKIP: u64 = 0;

/// The words, by their offsets.
#[derive(Debug, Clone, Copy)]
pub enum Word {
    /// Bytes of requests posted, ever. The front writes it.
    RequestsWritten = 64,
    /// Bytes of requests that the worker has passed, ever. The worker writes it.
    RequestsTaken = 128,
    /// 1: the thread waits on its socket. The worker sets it, the front clears it.
    Sleeps = 192,
    /// Bytes of answers written, ever. The worker writes it.
    AnswersWritten = 256,
    /// Bytes of answers that the front has taken, ever. The front writes it.
    AnswersTaken = 320,
    /// 1: the front waits on the socket. The front sets it, the worker clears it.
    FrontWaits = 384,
}
