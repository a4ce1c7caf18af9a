//! The memory of frames that have come in part: a process that sends the beginnings of large ones on many channels and sockets takes no more
//! than those of its account may take together. It reads nothing.

use std::io;

use crate::support::buffer_memory::{Budget, BufferLease};

/// A frame of so many bytes needs no room there: there are as many as channels, and these are bounded.
const SMALL: usize = 1 << 20;

/// What is held of one.
pub struct HalfFrame {
    /// Of the frames of all processes of its account.
    budget: &'static Budget,
    /// None: it is small.
    lease: Option<BufferLease>,
}

impl HalfFrame {
    pub fn new(budget: &'static Budget) -> HalfFrame {
        HalfFrame { budget, lease: None }
    }

    /// So many bytes have been received and not been taken.
    ///
    /// # Errors
    /// InvalidData: there is no room for a frame of this size. Who has sent it is a process like any that sends what is no frame.
    pub fn hold(&mut self, received: usize) -> io::Result<()> {
        if received <= SMALL {
            self.lease = None;
            return Ok(());
        }
        let has_room = match &mut self.lease {
            Some(lease) => lease.grow(received.saturating_sub(lease.bytes())),
            None => {
                self.lease = self.budget.take(received);
                self.lease.is_some()
            }
        };
        if has_room {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "no memory is left for frames that have come in part"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_halves_together_have_a_bound() {
        static BUDGET: Budget = Budget::new(10 << 20);
        static OTHERS: Budget = Budget::new(10 << 20);
        let (mut one, mut other) = (HalfFrame::new(&BUDGET), HalfFrame::new(&BUDGET));
        assert!((1..=6).all(|megabytes| one.hold(megabytes << 20).is_ok()));
        assert_eq!(BUDGET.used(), 6 << 20);
        assert!(other.hold(SMALL).is_ok() && other.hold(4 << 20).is_ok());
        assert_eq!(other.hold(5 << 20).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(HalfFrame::new(&OTHERS).hold(10 << 20).is_ok(), "another account has its own");
        // It has come whole.
        one.hold(0).unwrap();
        assert!(other.hold(5 << 20).is_ok());
        drop(other);
        assert_eq!(BUDGET.used(), 0);
    }
}
