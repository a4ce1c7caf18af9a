//! The memory of frames that have come in part: a process that sends the beginnings of large ones on many channels and sockets takes no more
//! than all may take together. It reads nothing.

use std::io;

use crate::support::buffer_memory::{Budget, BufferLease};

/// Of the frames of all processes.
static FRAMES: Budget = Budget::new(256 << 20);
/// A frame of so many bytes needs no room there: there are as many as channels, and these are bounded.
const SMALL: usize = 1 << 20;

/// What is held of one. None: it is small.
#[derive(Default)]
pub struct HalfFrame(Option<BufferLease>);

impl HalfFrame {
    /// So many bytes have been received and not been taken.
    ///
    /// # Errors
    /// InvalidData: there is no room for a frame of this size. Who has sent it is a process like any that sends what is no frame.
    pub fn hold(&mut self, received: usize) -> io::Result<()> {
        self.within(&FRAMES, received)
    }

    fn within(&mut self, budget: &'static Budget, received: usize) -> io::Result<()> {
        if received <= SMALL {
            self.0 = None;
            return Ok(());
        }
        let has_room = match &mut self.0 {
            Some(lease) => lease.grow(received.saturating_sub(lease.bytes())),
            None => {
                self.0 = budget.take(received);
                self.0.is_some()
            }
        };
        match has_room {
            true => Ok(()),
            false => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "no memory is left for frames that have come in part"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_halves_together_have_a_bound() {
        static BUDGET: Budget = Budget::new(10 << 20);
        let (mut one, mut other) = (HalfFrame::default(), HalfFrame::default());
        assert!((1..=6).all(|megabytes| one.within(&BUDGET, megabytes << 20).is_ok()));
        assert_eq!(BUDGET.used(), 6 << 20);
        assert!(other.within(&BUDGET, SMALL).is_ok() && other.within(&BUDGET, 4 << 20).is_ok());
        assert_eq!(other.within(&BUDGET, 5 << 20).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // It has come whole.
        one.within(&BUDGET, 0).unwrap();
        assert!(other.within(&BUDGET, 5 << 20).is_ok());
        drop(other);
        assert_eq!(BUDGET.used(), 0);
    }
}
