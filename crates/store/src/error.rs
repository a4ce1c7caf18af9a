//! What can go wrong with a store, told apart by what its user can do about it.

use std::{fmt, io};

/// An error with the words for its user.
#[derive(Debug)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file, or a record of it, is not what was written. Nothing was changed.
    Damaged,
    /// The file is none of ours.
    Foreign,
    /// No room on the disk, or none that this user may take. Nothing was changed.
    Full,
    /// A key of more than 511 bytes, or of none.
    Key,
    /// Too many processes and threads read at once.
    Readers,
    /// This process has it open in a way that it cannot be opened again: it was forked in the middle of a read.
    Forked,
    /// Another process has made it larger than what this one has mapped: ask again, and wait.
    Grown,
    /// LMDB could not write the head of the file, and has given up what it has open: open it again.
    Closed,
    /// What the system says.
    System(i32),
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.raw_os_error() {
            // ENOSPC, EDQUOT, EFBIG
            Some(28 | 122 | 27) => Error::new(Kind::Full, format!("no room left: {error}")),
            code => Error::new(Kind::System(code.unwrap_or(0)), error.to_string()),
        }
    }
}

impl From<heed::Error> for Error {
    fn from(error: heed::Error) -> Error {
        use heed::MdbError::*;
        match error {
            heed::Error::Io(error) => error.into(),
            heed::Error::EnvAlreadyOpened => {
                Error::new(Kind::Forked, "a transaction of this process, or of the one that it was forked from, is still reading the file that was here")
            }
            heed::Error::Mdb(MapFull) => Error::new(Kind::Full, "no address space left for a larger store"),
            heed::Error::Mdb(ReadersFull) => Error::new(Kind::Readers, "too many processes and threads read at once"),
            heed::Error::Mdb(BadValSize) => Error::new(Kind::Key, "a key has 1 to 511 bytes"),
            heed::Error::Mdb(Invalid | VersionMismatch) => {
                Error::new(Kind::Foreign, "not a store, or one of another version")
            }
            heed::Error::Mdb(MapResized) => Error::new(Kind::Grown, "the store has grown"),
            heed::Error::Mdb(Panic) => Error::new(Kind::Closed, "the head of the file could not be written"),
            heed::Error::Mdb(Corrupted | PageNotFound) => {
                Error::new(Kind::Damaged, format!("damaged: {error}"))
            }
            heed::Error::Mdb(Other(code)) => io::Error::from_raw_os_error(code).into(),
            error => Error::new(Kind::System(0), error.to_string()),
        }
    }
}
