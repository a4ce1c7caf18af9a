//! Lines of a shadow's socket, bounded in size and in time: what is at the other end is an application, and is believed
//! no more than a client of the network.
//! It never looks into a line.

#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

/// Bytes of a line that is taken.
pub const MAX_LINE: usize = 16 << 20;
/// Bytes of a line that is read to its end and dropped; a longer one ends the conversation.
const MAX_SKIPPED: usize = 256 << 20;
const PIECE: usize = 64 << 10;

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("it has ended")]
    Ended,
    #[error("it was silent for {} s", .0.as_secs())]
    Silent(Duration),
    /// The next line can be read.
    #[error("its answer has more than {} MB", MAX_LINE >> 20)]
    TooLong,
    #[error("its answer never ends")]
    Endless,
    #[error(transparent)]
    System(io::Error),
}

pub struct Lines {
    stream: UnixStream,
    /// Bytes of the lines to come.
    received: Vec<u8>,
}

impl Lines {
    pub fn new(stream: UnixStream) -> Lines {
        Lines { stream, received: Vec::new() }
    }

    /// The next line without its end, within this time.
    pub fn read(&mut self, patience: Duration) -> Result<Vec<u8>, LineError> {
        let deadline = Instant::now() + patience;
        let (mut searched, mut skipped) = (0, 0);
        loop {
            if let Some(end) = self.received[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.received, rest);
                line.pop();
                return if skipped > 0 || line.len() > MAX_LINE { Err(LineError::TooLong) } else { Ok(line) };
            }
            if self.received.len() > MAX_LINE {
                skipped += self.received.len();
                self.received.clear();
            }
            if skipped > MAX_SKIPPED {
                return Err(LineError::Endless);
            }
            searched = self.received.len();
            self.fill(deadline, patience)?;
        }
    }

    fn fill(&mut self, deadline: Instant, patience: Duration) -> Result<(), LineError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LineError::Silent(patience));
        }
        self.stream.set_read_timeout(Some(left)).map_err(LineError::System)?;
        let mut piece = [0; PIECE];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(LineError::Ended),
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Err(LineError::Silent(patience)),
                io::ErrorKind::ConnectionReset => Err(LineError::Ended),
                _ => Err(LineError::System(error)),
            },
        }
    }

    /// Sends a line; its end is added. Each write may take this long.
    pub fn write(&mut self, line: &[u8], patience: Duration) -> Result<(), LineError> {
        self.stream.set_write_timeout(Some(patience)).map_err(LineError::System)?;
        let written = self.stream.write_all(line).and_then(|()| self.stream.write_all(b"\n"));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LineError::Silent(patience),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => LineError::Ended,
            _ => LineError::System(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn pair() -> (Lines, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Lines::new(ours), theirs)
    }

    #[test]
    fn lines_may_come_in_pieces_and_together() {
        let (mut lines, mut theirs) = pair();
        theirs.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.read(PATIENCE).unwrap(), b"one");
        theirs.write_all(b"o\n\nrest").unwrap();
        assert_eq!((lines.read(PATIENCE).unwrap(), lines.read(PATIENCE).unwrap()), (b"two".to_vec(), Vec::new()));
        drop(theirs);
        assert!(matches!(lines.read(PATIENCE), Err(LineError::Ended)));
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_read() {
        let (mut lines, mut theirs) = pair();
        let writing = std::thread::spawn(move || {
            theirs.write_all(&vec![b'x'; MAX_LINE + 2]).unwrap();
            theirs.write_all(b"\nnext\n").unwrap();
        });
        assert!(matches!(lines.read(PATIENCE), Err(LineError::TooLong)));
        assert_eq!(lines.read(PATIENCE).unwrap(), b"next");
        writing.join().unwrap();
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (mut lines, mut theirs) = pair();
        assert!(matches!(lines.read(Duration::from_millis(20)), Err(LineError::Silent(_))));
        // Not for one who says a little from time to time, either.
        theirs.write_all(b"{").unwrap();
        assert!(matches!(lines.read(Duration::from_millis(20)), Err(LineError::Silent(_))));
        assert!(matches!(lines.write(&vec![0; 8 << 20], Duration::from_millis(20)), Err(LineError::Silent(_))));
        drop(theirs);
        assert!(matches!(lines.write(b"x", PATIENCE), Err(LineError::Ended)));
    }
}
