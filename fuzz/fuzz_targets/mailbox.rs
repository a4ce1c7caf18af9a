//! A mailbox whose worker writes anything anywhere: what the front takes is an answer of bounded size or an error, and
//! what it posts lies within the memory.
#![cfg_attr(fuzzing, no_main)]

use std::os::fd::OwnedFd;

use libfuzzer_sys::fuzz_target;
use mailbox::{Mailbox, ANSWERS, SIZE};
use rustix::{
    fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags},
    io::pwrite,
};

fn memory() -> OwnedFd {
    let memory = memfd_create("mailbox", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, SIZE as u64).unwrap();
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    memory
}

fuzz_target!(|data: &[u8]| {
    let memory = memory();
    let mailbox = Mailbox::map(&memory).unwrap();
    // Each step: where (three bytes), how many bytes, and those.
    let mut rest = data;
    let mut posted = Vec::new();
    while let Some((&[a, b, c, length], more)) = rest.split_first_chunk::<4>() {
        let (bytes, more) = more.split_at(usize::from(length).min(more.len()));
        rest = more;
        let at = usize::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]) % (SIZE - 256);
        pwrite(&memory, bytes, at as u64).unwrap();
        posted.extend(mailbox.post(u64::from(a), bytes, false));
        if let (true, Some(last)) = (b % 2 == 0, posted.pop()) {
            mailbox.revoke(last);
        }
        mailbox.wake(b"wake");
        mailbox.await_notice();
        for _ in 0..8 {
            match mailbox.take() {
                Ok(Some(answer)) => assert!(answer.len() < ANSWERS),
                Ok(None) | Err(_) => break,
            }
        }
    }
});
