//! The memory itself: mapped, and read and written within its bounds. All of the crate's unsafe code is here.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::OwnedFd,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use bytes::Bytes;
use rustix::{
    fs::{fcntl_get_seals, fstat, SealFlags},
    mm::{madvise, mmap, munmap, Advice, MapFlags, ProtFlags},
};

use crate::layout::{Word, ANSWERS, ENTRY, HEAD, REQUESTS, SIZE};

pub struct Map(NonNull<u8>);

// SAFETY: the memory is shared with another process anyway: it is only touched by atomics and by copies of bytes that
// nobody trusts.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub fn new(memory: &OwnedFd) -> io::Result<Map> {
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if fstat(memory)?.st_size != SIZE as i64 {
            return invalid("a mailbox of another size");
        }
        if !fcntl_get_seals(memory)?.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return invalid("a mailbox that its worker can cut");
        }
        // SAFETY: a new mapping at an address that the kernel chooses; its size is sealed.
        let at =
            unsafe { mmap(ptr::null_mut(), SIZE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, memory, 0)? };
        // SAFETY: the range is the mapping just made. Processes that the front starts don't need it.
        let _ = unsafe { madvise(at, SIZE, Advice::LinuxDontFork) };
        NonNull::new(at.cast()).map(Map).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub fn word(&self, word: Word) -> &AtomicU64 {
        self.atomic(word as usize)
    }

    /// The word of the request at `at` in the requests' ring.
    pub fn request_word(&self, at: usize) -> &AtomicU64 {
        assert!(at + ENTRY <= REQUESTS);
        self.atomic(HEAD + at)
    }

    /// Writes a request's length, flags and bytes, but for its word.
    pub fn write_request(&self, at: usize, flags: u32, frame: &[u8]) {
        assert!(at + ENTRY + frame.len() <= REQUESTS);
        // SAFETY: within the mapping, by the line above. The worker reads it when it has seen RequestsWritten, which is
        // stored later.
        unsafe {
            self.0.add(HEAD + at + 8).cast::<u32>().write(frame.len() as u32);
            self.0.add(HEAD + at + 12).cast::<u32>().write(flags);
            ptr::copy_nonoverlapping(frame.as_ptr(), self.0.add(HEAD + at + ENTRY).as_ptr(), frame.len());
        }
    }

    /// Bytes of the requests' ring: what a worker reads.
    #[cfg(test)]
    pub fn request_bytes(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= REQUESTS);
        // SAFETY: within the mapping, by the line above.
        unsafe { std::slice::from_raw_parts(self.0.add(HEAD + at).as_ptr(), length) }.to_vec()
    }

    /// Writes an answer's length and bytes: what a worker does.
    #[cfg(test)]
    pub fn write_answer(&self, at: usize, length: u32, bytes: &[u8]) {
        assert!(at + ENTRY + bytes.len() <= ANSWERS);
        // SAFETY: within the mapping, by the line above.
        unsafe {
            AtomicU32::from_ptr(self.0.add(HEAD + REQUESTS + at + 8).cast().as_ptr()).store(length, Relaxed);
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.add(HEAD + REQUESTS + at + ENTRY).as_ptr(), bytes.len());
        }
    }

    /// The length that stands before the answer at `at`. It may be any.
    pub fn answer_length(&self, at: usize) -> u32 {
        assert!(at + ENTRY <= ANSWERS);
        // SAFETY: within the mapping and aligned: entries begin at multiples of 8.
        unsafe { AtomicU32::from_ptr(self.0.add(HEAD + REQUESTS + at + 8).cast().as_ptr()) }.load(Relaxed)
    }

    /// A copy of `length` bytes of the answer at `at`.
    pub fn copy_answer(&self, at: usize, length: usize) -> Bytes {
        assert!(at + ENTRY + length <= ANSWERS);
        let mut copy = Vec::<u8>::with_capacity(length);
        // SAFETY: within the mapping, by the assertion, and within the capacity. What a worker writes meanwhile garbles
        // the copy, which is parsed as anything that comes from a worker.
        unsafe {
            ptr::copy_nonoverlapping(self.0.add(HEAD + REQUESTS + at + ENTRY).as_ptr(), copy.as_mut_ptr(), length);
            copy.set_len(length);
        }
        copy.into()
    }

    fn atomic(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0 && at + 8 <= SIZE);
        // SAFETY: aligned and within the mapping, which lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.0.add(at).cast().as_ptr()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), SIZE) };
    }
}
