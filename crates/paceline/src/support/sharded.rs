//! Which of a fixed number of places the calling thread uses of what all threads share, so that they seldom meet.
//! It never gives a thread another place later.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The places. When there are more threads some share one.
pub const STRIPES: usize = 16;

/// The calling thread's place.
pub fn here() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HERE: Cell<usize> = const { Cell::new(STRIPES) });
    HERE.with(|here| {
        if here.get() == STRIPES {
            here.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        here.get()
    })
}
