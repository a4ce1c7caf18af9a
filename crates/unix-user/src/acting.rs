//! For the length of one call, or of each poll of a future, the thread reads files as an account may: the front is root
//! where it serves several accounts' files, and a link or an X-Sendfile of theirs must not lead to what only root can
//! read. It never leaves a thread as somebody else.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use rustix::{
    process::{getegid, getgroups, Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::{Account, RunAs};

/// Calls `act` with the rights of an account, or with our own where it is to be as us.
pub fn acting<T>(run_as: &RunAs, act: impl FnOnce() -> T) -> T {
    match run_as {
        RunAs::Ourselves | RunAs::Root(_) => act(),
        RunAs::Account(account) => {
            let _back = As::new(account).unwrap_or_else(|_| give_up());
            act()
        }
    }
}

/// Acts as an account that the kernel may refuse us; `act` has not been called then.
pub(crate) fn try_acting<T>(account: &Account, act: impl FnOnce() -> T) -> io::Result<T> {
    let _back = As::new(account)?;
    Ok(act())
}

/// Whether threads of ours can become the account. Root can't in a container without the capabilities for it.
pub(crate) fn is_possible(account: &Account) -> io::Result<()> {
    try_acting(account, || ())
}

struct As {
    gid: Gid,
    groups: Vec<Gid>,
}

impl As {
    /// The kernel keeps identities for each thread; the real and the saved ones stay root's, for the way back.
    fn new(account: &Account) -> io::Result<As> {
        let (gid, before) = (getegid(), getgroups()?);
        let groups: Vec<Gid> = account.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        set_thread_groups(&groups)?;
        // From here on it is dropped, also by an error, and with it what has been taken.
        let back = As { gid, groups: before };
        set_thread_res_gid(None, Gid::from_raw(account.gid), None)?;
        set_thread_res_uid(None, Uid::from_raw(account.uid), None)?;
        Ok(back)
    }
}

impl Drop for As {
    fn drop(&mut self) {
        let back = set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| set_thread_res_gid(None, self.gid, None))
            .and_then(|()| set_thread_groups(&self.groups));
        if back.is_err() {
            give_up();
        }
    }
}

/// A thread that may be anybody must not go on.
fn give_up() -> ! {
    eprintln!("paceline: the kernel refused to switch a thread's user");
    std::process::abort()
}

/// A future that acts as the account whenever it is polled.
pub struct Acting<F> {
    run_as: RunAs,
    future: F,
}

impl<F: Future + Unpin> Acting<F> {
    pub fn new(run_as: RunAs, future: F) -> Acting<F> {
        Acting { run_as, future }
    }
}

impl<F: Future + Unpin> Future for Acting<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Acting { run_as, future } = &mut *self;
        acting(run_as, || Pin::new(future).poll(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_account_decides_what_can_be_read_and_the_thread_comes_back() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("only root can act as somebody else");
        }
        let nobody = Account { uid: 65534, gid: 65534, groups: vec![65534], name: None, home: PathBuf::from("/") };
        let read = || std::fs::read("/etc/shadow").map(|_| ()).map_err(|error| error.kind());
        let groups = getgroups().unwrap();
        let nobody = RunAs::Account(nobody.into());
        assert_eq!(acting(&nobody, read), Err(io::ErrorKind::PermissionDenied));
        let panicked = std::panic::catch_unwind(|| acting(&nobody, || panic!("in the middle")));
        assert!(panicked.is_err());
        assert_eq!((acting(&RunAs::Root(None), read), getegid(), getgroups().unwrap()), (Ok(()), Gid::ROOT, groups));
    }
}
