//! The front's side beside a worker that a test plays: well-behaved, or hostile.

use std::{io::Write, os::unix::net::UnixStream};

use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};

use super::*;

/// Memory as a worker makes it.
fn memory(size: usize, seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("mailbox", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, size as u64).unwrap();
    fcntl_add_seals(&memory, seals).unwrap();
    memory
}

fn sealed() -> OwnedFd {
    memory(SIZE, SealFlags::SHRINK | SealFlags::GROW)
}

/// The worker's side.
struct Worker(Map);

impl Worker {
    fn word(&self, word: Word) -> &AtomicU64 {
        self.0.word(word)
    }

    /// Claims the next request: its number and its bytes.
    fn claim(&self) -> Option<(u64, Vec<u8>)> {
        loop {
            let taken = self.word(Word::RequestsTaken).load(Relaxed);
            if taken == self.word(Word::RequestsWritten).load(SeqCst) {
                return None;
            }
            let at = offset(taken, REQUESTS);
            let word = self.0.request_word(at);
            let state = word.load(Relaxed);
            if state == SKIP {
                self.word(Word::RequestsTaken).store(taken + (REQUESTS - at) as u64, Release);
                continue;
            }
            let length = u32::from_ne_bytes(self.0.request_bytes(at + 8, 4).try_into().unwrap()) as usize;
            let claimed =
                word.compare_exchange(state & !3 | layout::QUEUED, state & !3 | layout::CLAIMED, SeqCst, SeqCst);
            let bytes = self.0.request_bytes(at + ENTRY, length);
            self.word(Word::RequestsTaken).store(taken + entry(length) as u64, Release);
            if claimed.is_ok() {
                return Some((state >> 2, bytes));
            }
        }
    }

    /// Leaves an answer; false: there is no room.
    fn answer(&self, bytes: &[u8]) -> bool {
        let (written, taken) =
            (self.word(Word::AnswersWritten).load(Relaxed), self.word(Word::AnswersTaken).load(Acquire));
        let (skip, need) = room(written, bytes.len(), ANSWERS);
        if (written - taken) as usize + skip + need > ANSWERS {
            return false;
        }
        if skip > 0 {
            self.0.write_answer(offset(written, ANSWERS), u32::MAX, &[]);
        }
        self.0.write_answer(offset(written + skip as u64, ANSWERS), bytes.len() as u32, bytes);
        self.word(Word::AnswersWritten).store(written + (skip + need) as u64, SeqCst);
        true
    }
}

fn pair() -> (Mailbox, Worker) {
    let memory = sealed();
    (Mailbox::map(&memory).unwrap(), Worker(Map::new(&memory).unwrap()))
}

#[test]
fn requests_come_in_order_and_answers_go_back() {
    let (front, worker) = pair();
    for number in 1..5000u64 {
        let frame = vec![number as u8; number as usize * 37 % 5000];
        front.post(number, &frame, false).unwrap();
        assert_eq!(worker.claim(), Some((number, frame.clone())));
        assert_eq!(worker.claim(), None);
        assert_eq!(front.take(), Ok(None));
        assert!(worker.answer(&frame) && worker.answer(b""));
        assert_eq!(front.take().unwrap().unwrap(), frame);
        assert_eq!(front.take().unwrap().unwrap(), b""[..]);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_fits_when_there_is_room_again() {
    let (front, worker) = pair();
    assert_eq!(front.post(1, &[0; MAX_REQUEST + 1], false), None);
    let posted = (1..).take_while(|number| front.post(*number, &[7; MAX_REQUEST], false).is_some()).count();
    assert_eq!(posted, 3, "each with its entry, in one piece");
    worker.claim().unwrap();
    assert!(front.post(9, &[7; MAX_REQUEST], false).is_some());
    let left = (1..).take_while(|_| worker.answer(&[7; 60_000])).count();
    assert_eq!(left, 4);
    front.take().unwrap().unwrap();
    assert!(worker.answer(&[7; 60_000]));
}

#[test]
fn a_request_is_claimed_or_revoked_but_never_both() {
    let (front, worker) = pair();
    let [first, second, third] = [1, 2, 3].map(|number| front.post(number, b"x", false).unwrap());
    assert!(front.revoke(second) && !front.revoke(second));
    assert_eq!(worker.claim().unwrap().0, 1);
    assert_eq!(worker.claim().unwrap().0, 3);
    assert!(!front.revoke(first) && !front.revoke(third));
    // Another one lies in its place by now.
    while offset(*front.posted.lock(), REQUESTS) != first.at {
        front.post(4, &[0; 4080], false).unwrap();
        worker.claim().unwrap();
    }
    front.post(5, b"x", false).unwrap();
    assert!(!front.revoke(first));
    assert_eq!(worker.claim().unwrap().0, 5);
}

#[test]
fn only_a_thread_that_sleeps_is_woken_and_once() {
    let (front, worker) = pair();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    front.set_bell(Some(ours.into()));
    let mut woken = || std::io::Read::read(&mut theirs, &mut [0; 64]).unwrap_or(0);
    front.wake(b"wake");
    assert_eq!(woken(), 0);
    worker.word(Word::Sleeps).store(1, SeqCst);
    assert!(front.sleeps());
    front.wake(b"wake");
    front.wake(b"wake");
    assert_eq!(woken(), 4);
    worker.word(Word::Sleeps).store(1, SeqCst);
    front.note_awake();
    front.wake(b"wake");
    assert_eq!(woken(), 0);
    theirs.write_all(b"x").unwrap();
    front.set_bell(None);
}

#[test]
fn the_front_does_not_wait_for_what_is_there() {
    let (front, worker) = pair();
    assert!(!front.await_notice());
    assert_eq!(worker.word(Word::FrontWaits).load(SeqCst), 1);
    worker.answer(b"answer");
    assert!(front.await_notice());
}

#[test]
fn memory_that_its_worker_could_cut_is_not_mapped() {
    for (size, seals) in [
        (SIZE, SealFlags::empty()),
        (SIZE, SealFlags::GROW),
        (SIZE - 1, SealFlags::SHRINK | SealFlags::GROW),
        (SIZE + 1, SealFlags::SHRINK | SealFlags::GROW),
    ] {
        assert!(Mailbox::map(&memory(size, seals)).is_err(), "{size} {seals:?}");
    }
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    assert!(Mailbox::map(&pipe).is_err());
}

#[test]
fn whatever_a_worker_writes_is_an_answer_or_an_error() {
    let (front, worker) = pair();
    let mut seed = 42u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..200_000 {
        let odd = [0, 1, 15, 16, 17, ANSWERS as u64, ANSWERS as u64 + 16, u64::MAX, random() % (2 * ANSWERS as u64)];
        let value = odd[(random() % odd.len() as u64) as usize];
        match random() % 6 {
            0 => worker.word(Word::AnswersWritten).store(value, SeqCst),
            1 => worker.word(Word::RequestsTaken).store(value, SeqCst),
            2 => worker.word(Word::RequestsWritten).store(value, SeqCst),
            3 => worker.word(Word::AnswersTaken).store(value, SeqCst),
            4 => {
                let at = offset(random(), ANSWERS) / ENTRY * ENTRY;
                worker.0.write_answer(at, value as u32, &[]);
            }
            _ => worker.0.request_word(offset(random(), REQUESTS) / ENTRY * ENTRY).store(value, SeqCst),
        }
        if let Some(posted) = front.post(random() % 1000, &[1; 100], false) {
            front.revoke(posted);
        }
        // It never leaves what it has, and never more than a ring of it.
        if let Ok(Some(answer)) = front.take() {
            assert!(answer.len() <= ANSWERS);
        }
    }
}
