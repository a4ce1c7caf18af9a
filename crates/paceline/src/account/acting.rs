//! For the length of one call, or of each poll of a future, the thread reads files as an account may: the front is root
//! where it serves several accounts' files, and a link or an X-Sendfile of theirs must not lead to what only root can read.
//! It never leaves a thread as somebody else.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustix::{
    process::{getegid, getgroups, Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::Account;

/// Calls `act` as the account, or as ourselves where there is none.
pub fn acting<T>(account: Option<&Account>, act: impl FnOnce() -> T) -> T {
    let _back = account.map(As::new);
    act()
}

struct As {
    gid: Gid,
    groups: Vec<Gid>,
}

impl As {
    /// The kernel keeps identities for each thread; the real and the saved ones stay root's, for the way back.
    fn new(account: &Account) -> As {
        let back = As { gid: getegid(), groups: getgroups().unwrap_or_default() };
        let groups: Vec<Gid> = account.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let taken = set_thread_groups(&groups)
            .and_then(|()| set_thread_res_gid(None, Gid::from_raw(account.gid), None))
            .and_then(|()| set_thread_res_uid(None, Uid::from_raw(account.uid), None));
        if taken.is_err() {
            give_up();
        }
        back
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
    account: Option<Arc<Account>>,
    future: F,
}

impl<F: Future + Unpin> Acting<F> {
    pub fn new(account: Option<Arc<Account>>, future: F) -> Acting<F> {
        Acting { account, future }
    }
}

impl<F: Future + Unpin> Future for Acting<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let account = self.account.clone();
        acting(account.as_deref(), || Pin::new(&mut self.future).poll(cx))
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
        assert_eq!(acting(Some(&nobody), read), Err(std::io::ErrorKind::PermissionDenied));
        let panicked = std::panic::catch_unwind(|| acting(Some(&nobody), || panic!("in the middle")));
        assert!(panicked.is_err());
        assert_eq!((acting(None, read), getegid(), getgroups().unwrap()), (Ok(()), Gid::ROOT, groups));
    }
}
