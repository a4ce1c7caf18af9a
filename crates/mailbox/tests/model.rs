//! The protocol of a mailbox as two small machines, and every order in which their steps can follow one another (each
//! step is one atomic access or one system call, all in one order: the code uses SeqCst where that matters). It is
//! checked that no request is both served and taken back, that none is forgotten while both sides sleep, and that no
//! answer is; and that a request which was sent through the socket to a thread that sleeps is served before those that
//! were posted after it. The steps are those of `post`, `wake`, `rouse`, `revoke` and `await_notice` here, and of
//! `mailbox_take`, `mailbox_sleep` and `paceline_mailbox_put` in gem/ext/paceline_native/mailbox.c.

use std::collections::HashSet;

const REQUESTS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Slot {
    Empty,
    Queued,
    Claimed,
    Served,
    Revoked,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Front {
    /// Deals with whatever comes next: posts a request, takes one back, takes answers, or waits.
    Free,
    /// Has posted and is to look whether the thread sleeps.
    MayWake,
    /// Has seen that it sleeps, and is to take the word and to ring.
    Wakes,
    /// Found no answer, and is to say that it waits.
    MayWait,
    /// Has said it, and looks once more.
    LooksAgain,
    /// Waits for the socket.
    Waits,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Thread {
    /// Looks for a request.
    Takes,
    /// Has seen one queued, and is to claim it.
    Claims(usize),
    /// Has the request, and is to answer.
    Serves(usize),
    /// Has written its answer, and is to look whether there is more.
    Answered,
    /// Is to tell the front.
    Tells,
    /// Found nothing: is to say that it sleeps.
    MaySleep,
    /// Has said it, and looks once more.
    LooksAgain,
    /// Found a request then, or comes from elsewhere: is to take its word back.
    WakesUp,
    /// Waits for the socket.
    Sleeps,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    slots: [Slot; REQUESTS],
    written: usize,
    taken: usize,
    answers: usize,
    read: usize,
    sleeps: bool,
    waits: bool,
    /// Bytes in the socket, each way.
    rung: bool,
    /// A request in the socket, and how many had been posted before it.
    sent: Option<usize>,
    /// The front has sent all requests that it sends through the socket.
    has_sent: bool,
    noticed: bool,
    untold: usize,
    revoked: usize,
    front: Front,
    thread: Thread,
}

/// What is left out of the protocol on purpose, to see that the check would find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    None,
    NoSecondLookBeforeSleep,
    NoSecondLookBeforeWaiting,
    TakesItsWordBackBlindly,
    RevokedWithoutCompare,
    NotTold,
}

impl World {
    fn start() -> World {
        World {
            slots: [Slot::Empty; REQUESTS],
            written: 0,
            taken: 0,
            answers: 0,
            read: 0,
            sleeps: false,
            waits: false,
            rung: false,
            sent: None,
            has_sent: false,
            noticed: false,
            untold: 0,
            revoked: 0,
            front: Front::Free,
            thread: Thread::Takes,
        }
    }

    /// The next request that is queued; those that were taken back are passed.
    fn next(&mut self) -> Option<usize> {
        while self.taken < self.written && self.slots[self.taken] != Slot::Queued {
            self.taken += 1;
        }
        (self.taken < self.written).then_some(self.taken)
    }

    fn front_steps(&self, flaw: Flaw) -> Vec<World> {
        let mut steps = Vec::new();
        let mut step = |change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            steps.push(world);
        };
        match self.front {
            Front::Free => {
                if self.written < REQUESTS {
                    step(&|world| {
                        world.slots[world.written] = Slot::Queued;
                        world.written += 1;
                        world.front = Front::MayWake;
                    });
                }
                // All that it has given is done: the next request goes by the socket, if the thread sleeps.
                let in_hand = self.slots.iter().any(|slot| matches!(slot, Slot::Queued | Slot::Claimed));
                if self.sleeps && !self.has_sent && !in_hand {
                    step(&|world| {
                        world.sleeps = false;
                        world.sent = Some(world.written);
                        world.has_sent = true;
                    });
                }
                for at in 0..self.written {
                    match self.slots[at] {
                        Slot::Queued => step(&|world| {
                            world.slots[at] = Slot::Revoked;
                            world.revoked += 1;
                        }),
                        // It had looked before the thread claimed it.
                        Slot::Claimed if flaw == Flaw::RevokedWithoutCompare => step(&|world| {
                            world.slots[at] = Slot::Revoked;
                            world.revoked += 1;
                        }),
                        _ => {}
                    }
                }
                if self.read < self.answers {
                    step(&|world| world.read = world.answers);
                } else {
                    step(&|world| world.front = Front::MayWait);
                }
            }
            Front::MayWait => step(&|world| {
                world.waits = true;
                world.front = if flaw == Flaw::NoSecondLookBeforeWaiting { Front::Waits } else { Front::LooksAgain };
            }),
            Front::MayWake if self.sleeps => step(&|world| world.front = Front::Wakes),
            Front::MayWake => step(&|world| world.front = Front::Free),
            Front::Wakes => step(&|world| {
                world.rung |= world.sleeps;
                world.sleeps = false;
                world.front = Front::Free;
            }),
            Front::LooksAgain if self.read < self.answers => step(&|world| world.front = Front::Free),
            Front::LooksAgain => step(&|world| world.front = Front::Waits),
            Front::Waits => {
                if self.noticed {
                    step(&|world| {
                        world.noticed = false;
                        world.front = Front::Free;
                    });
                }
                // A client's request comes.
                if self.written < REQUESTS {
                    step(&|world| world.front = Front::Free);
                }
            }
        }
        steps
    }

    fn thread_steps(&self, flaw: Flaw) -> Vec<World> {
        let mut world = self.clone();
        match self.thread {
            Thread::Takes => world.thread = world.next().map_or(Thread::MaySleep, Thread::Claims),
            Thread::Claims(at) if world.slots[at] == Slot::Queued => {
                let overtaken = world.sent.is_some_and(|before| at >= before);
                assert!(!overtaken, "served before what was sent earlier: {self:?}");
                world.slots[at] = Slot::Claimed;
                world.taken = at + 1;
                world.thread = Thread::Serves(at);
            }
            Thread::Claims(_) => world.thread = Thread::Takes,
            Thread::Serves(at) => {
                assert_eq!(world.slots[at], Slot::Claimed, "served, and taken back: {self:?}");
                world.slots[at] = Slot::Served;
                world.answers += 1;
                world.untold += 1;
                world.thread = Thread::Answered;
            }
            Thread::Answered if flaw == Flaw::NotTold => world.thread = Thread::Takes,
            Thread::Answered => world.thread = if world.next().is_none() { Thread::Tells } else { Thread::Takes },
            Thread::Tells => {
                world.untold = 0;
                world.noticed |= world.waits;
                world.waits = false;
                world.thread = Thread::Takes;
            }
            Thread::MaySleep if world.untold > 0 && flaw != Flaw::NotTold => world.thread = Thread::Tells,
            Thread::MaySleep => {
                world.sleeps = true;
                world.thread = if flaw == Flaw::NoSecondLookBeforeSleep { Thread::Sleeps } else { Thread::LooksAgain };
            }
            Thread::LooksAgain if world.next().is_some() => world.thread = Thread::WakesUp,
            Thread::LooksAgain => world.thread = Thread::Sleeps,
            Thread::WakesUp if world.sleeps || flaw == Flaw::TakesItsWordBackBlindly => {
                world.sleeps = false;
                world.thread = Thread::Takes;
            }
            // The front was faster, and has sent something.
            Thread::WakesUp => world.thread = Thread::Sleeps,
            Thread::Sleeps if world.sent.is_some() => {
                world.sent = None;
                world.thread = Thread::Takes;
            }
            Thread::Sleeps if world.rung => {
                world.rung = false;
                world.thread = Thread::Takes;
            }
            Thread::Sleeps => return Vec::new(),
        }
        vec![world]
    }
}

/// How many states there are; Err: one in which something is forgotten.
fn explore(flaw: Flaw) -> Result<usize, World> {
    let (mut seen, mut open) = (HashSet::new(), vec![World::start()]);
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let steps: Vec<_> = world.front_steps(flaw).into_iter().chain(world.thread_steps(flaw)).collect();
        if steps.is_empty() {
            let forgotten = world.slots.contains(&Slot::Queued) || world.read < world.answers || world.sent.is_some();
            if forgotten || world.answers + world.revoked != REQUESTS {
                return Err(world);
            }
        }
        open.extend(steps);
    }
    Ok(seen.len())
}

#[test]
fn whatever_the_order_nothing_is_forgotten_and_nothing_served_twice() {
    let states = explore(Flaw::None).unwrap();
    assert!(states > 1000, "{states}");
}

#[test]
fn the_check_finds_what_is_left_out() {
    for flaw in [Flaw::NoSecondLookBeforeSleep, Flaw::NoSecondLookBeforeWaiting, Flaw::NotTold] {
        assert!(explore(flaw).is_err(), "{flaw:?}");
    }
    // It is served although it was taken back, or counted twice; or it overtakes what was sent.
    for flaw in [Flaw::RevokedWithoutCompare, Flaw::TakesItsWordBackBlindly] {
        assert!(!matches!(std::panic::catch_unwind(|| explore(flaw)), Ok(Ok(_))), "{flaw:?}");
    }
}
