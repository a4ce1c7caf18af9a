//! A mailbox: memory that the front shares with one worker thread, beside the socket between them. Through it a thread
//! that is at work takes its next requests, and leaves its answers, without a system call and without anybody being
//! woken.
//!
//! The front posts requests and takes answers; it can revoke a request until the thread has claimed it. Each side
//! sleeps on the socket, and says here that it does, so that the other one writes to the socket only then
//! (docs/worker-protocol.md, "Mailbox").
//!
//! The worker is not trusted: what it wrote is read once, compared with the bounds, and copied before anybody parses
//! it. It can break its own answers, and nothing else.

mod layout;
mod map;

use std::{
    io,
    os::fd::OwnedFd,
    sync::atomic::{AtomicU64, Ordering::*},
};

use bytes::Bytes;
use layout::{Word, ENTRY, SKIP};
use map::Map;
use parking_lot::Mutex;

pub use layout::{ANSWERS, REQUESTS, SIZE};

/// Longest request that is posted; longer ones go by the socket.
pub const MAX_REQUEST: usize = 16 << 10;

/// What lies in the mailbox is nothing that a worker of ours writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "corrupt mailbox: {}", self.0)
    }
}

impl std::error::Error for Corrupt {}

/// Where a request was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    number: u64,
    at: usize,
}

/// The front's side of one thread's mailbox.
pub struct Mailbox {
    map: Map,
    /// How many bytes of requests were posted, ever: the worker's copy of it is not read.
    posted: Mutex<u64>,
    /// How many bytes of answers were taken, ever.
    taken: Mutex<u64>,
    /// Another descriptor of the front's end of the socket.
    bell: Mutex<Option<OwnedFd>>,
}

impl Mailbox {
    /// Maps what a worker has sent. Fails if the memory has another size, or if the worker could still cut it (that
    /// would kill the front: SIGBUS).
    pub fn map(memory: &OwnedFd) -> io::Result<Mailbox> {
        let map = Map::new(memory)?;
        Ok(Mailbox { map, posted: Mutex::default(), taken: Mutex::default(), bell: Mutex::default() })
    }

    /// From now on the thread is woken through this descriptor of the front's end of its channel.
    pub fn set_bell(&self, bell: Option<OwnedFd>) {
        *self.bell.lock() = bell;
    }

    /// Posts an encoded REQUEST; `wake` has to be called soon. Of one that is `quick` the worker expects that the front
    /// looks here by itself: it may leave the answer before it untold. None: there is no room, or the request is too
    /// long.
    pub fn post(&self, number: u64, frame: &[u8], quick: bool) -> Option<Posted> {
        if frame.len() > MAX_REQUEST {
            return None;
        }
        let mut posted = self.posted.lock();
        let taken = self.word(Word::RequestsTaken).load(Acquire);
        let used = posted.checked_sub(taken).filter(|used| *used <= REQUESTS as u64)? as usize;
        let (skip, need) = room(*posted, frame.len(), REQUESTS);
        if used + skip + need > REQUESTS {
            return None;
        }
        if skip > 0 {
            self.map.request_word(offset(*posted, REQUESTS)).store(SKIP, Relaxed);
        }
        let at = offset(*posted + skip as u64, REQUESTS);
        self.map.write_request(at, if quick { layout::QUICK } else { 0 }, frame);
        self.map.request_word(at).store(number << 2 | layout::QUEUED, Relaxed);
        *posted += (skip + need) as u64;
        // SeqCst here and in the worker's `sleep`: either it sees the request, or `wake` sees that it sleeps.
        self.word(Word::RequestsWritten).store(*posted, SeqCst);
        Some(Posted { number, at })
    }

    /// Whether the thread sleeps.
    pub fn sleeps(&self) -> bool {
        self.word(Word::Sleeps).load(SeqCst) == 1
    }

    /// Wakes the thread if it sleeps, by sending `frame`.
    pub fn wake(&self, frame: &[u8]) {
        if self.rouse() {
            self.ring(frame);
        }
    }

    /// True: the thread sleeps, and from now on waits for the caller to send something through the socket, or to `ring`.
    /// It reads that before it takes anything from here.
    pub fn rouse(&self) -> bool {
        self.sleeps() && self.word(Word::Sleeps).swap(0, SeqCst) == 1
    }

    /// The thread is about to be woken by something else.
    pub fn note_awake(&self) {
        self.word(Word::Sleeps).store(0, SeqCst);
    }

    /// Takes a posted request back. False: the thread has claimed it.
    pub fn revoke(&self, posted: Posted) -> bool {
        let word = self.map.request_word(posted.at);
        let (queued, revoked) = (posted.number << 2 | layout::QUEUED, posted.number << 2 | layout::REVOKED);
        word.compare_exchange(queued, revoked, SeqCst, SeqCst).is_ok()
    }

    /// The next answer: an encoded frame, as it would have come through the socket.
    pub fn take(&self) -> Result<Option<Bytes>, Corrupt> {
        let mut taken = self.taken.lock();
        let written = self.word(Word::AnswersWritten).load(Acquire);
        loop {
            let there = written.checked_sub(*taken).ok_or(Corrupt("answers are fewer than were taken"))?;
            if there == 0 {
                return Ok(None);
            }
            if there > ANSWERS as u64 {
                return Err(Corrupt("more answers than there is room"));
            }
            let at = offset(*taken, ANSWERS);
            let to_end = ANSWERS - at;
            let length = self.map.answer_length(at);
            if length == u32::MAX {
                if to_end as u64 > there {
                    return Err(Corrupt("the end is skipped before it is reached"));
                }
                *taken += to_end as u64;
                continue;
            }
            let need = entry(length as usize);
            if need > to_end || need as u64 > there {
                return Err(Corrupt("an answer is longer than what was written"));
            }
            let bytes = self.map.copy_answer(at, length as usize);
            *taken += need as u64;
            self.word(Word::AnswersTaken).store(*taken, Release);
            return Ok(Some(bytes));
        }
    }

    /// The front is about to wait on the socket: from now on the worker says there when it has answered. True: it has
    /// already, and nothing needs to be waited for.
    pub fn await_notice(&self) -> bool {
        self.word(Word::FrontWaits).store(1, SeqCst);
        self.word(Word::AnswersWritten).load(SeqCst) != *self.taken.lock()
    }

    /// Sends `wake`, for a thread that waits for it (`rouse`).
    pub fn ring(&self, wake: &[u8]) {
        if let Some(bell) = &*self.bell.lock() {
            // A full socket wakes the thread as well.
            let _ = rustix::net::send(bell, wake, rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL);
        }
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        self.map.word(word)
    }
}

/// Bytes that an entry with so many bytes takes.
fn entry(length: usize) -> usize {
    (ENTRY + length).next_multiple_of(ENTRY)
}

/// Bytes to the end that are skipped, since an entry lies in one piece, and bytes of the entry.
fn room(position: u64, length: usize, size: usize) -> (usize, usize) {
    let (need, to_end) = (entry(length), size - offset(position, size));
    (if need > to_end { to_end } else { 0 }, need)
}

fn offset(position: u64, size: usize) -> usize {
    (position % size as u64) as usize
}

#[cfg(test)]
mod tests;
