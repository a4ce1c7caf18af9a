//! Which threads take the signals that tell the server what to do: its main thread alone, so that none is lost while it
//! becomes another program. It never handles one.

use std::{mem::MaybeUninit, ptr};

/// Those that a front is told by.
pub const TOLD_BY: [i32; 9] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPWR,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Lets them wait, for this thread.
pub fn block() {
    set(libc::SIG_BLOCK);
}

/// Lets them come to this thread, also those that have waited.
pub fn unblock() {
    set(libc::SIG_UNBLOCK);
}

#[allow(unsafe_code)]
fn set(how: i32) {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that the other calls are given, which outlives them; the numbers are
    // those of signals; the previous mask is not asked for.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for signal in TOLD_BY {
            libc::sigaddset(signals.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, signals.as_ptr(), ptr::null_mut());
    }
}
