//! The protocol of a mailbox as two small machines, and every order in which their steps can follow one another (each
//! step is one atomic access or one system call, all in one order: the code uses SeqCst where that matters). It is
//! checked that no request is both served and taken back, that none is forgotten while both sides sleep, and that no
//! answer is. The steps are those of `post`, `wake`, `revoke` and `await_notice` here, and of `mailbox_take`,
//! `mailbox_sleep` and `paceline_mailbox_put` in gem/ext/paceline_native/mailbox.c.

use std::collections::HashSet;

const REQUESTS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Slot {
    Empty,
    Queued,
    Claimed,
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
                world.slots[at] = Slot::Claimed;
                world.taken = at + 1;
                world.thread = Thread::Serves(at);
            }
            Thread::Claims(_) => world.thread = Thread::Takes,
            Thread::Serves(at) => {
                assert_eq!(world.slots[at], Slot::Claimed, "served, and taken back: {self:?}");
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
            Thread::LooksAgain if world.next().is_some() => {
                world.sleeps = false;
                world.thread = Thread::Takes;
            }
            Thread::LooksAgain => world.thread = Thread::Sleeps,
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
            let forgotten = world.slots.contains(&Slot::Queued) || world.read < world.answers;
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
    // It is served although it was taken back, or counted twice.
    assert!(!matches!(std::panic::catch_unwind(|| explore(Flaw::RevokedWithoutCompare)), Ok(Ok(_))));
}
