//! Where a front stands among those that replace each other: the process by whose pid the server is known, and the
//! front before. All of them end when that process is killed. It never replaces anything.

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::fcntl_dupfd_cloexec,
    pipe::{pipe_with, PipeFlags},
    process::{getpid, getppid, set_parent_process_death_signal, Signal},
};

pub struct Lineage {
    /// The pid by which the server is known.
    identity: i32,
    /// The front before this one, while it is there; None: this is the first.
    parent: Option<i32>,
    /// Told of each successor.
    stand_in: OwnedFd,
    /// Its other end; the first front becomes the stand-in.
    hearing: Option<OwnedFd>,
}

impl Lineage {
    pub fn first() -> io::Result<Lineage> {
        let (hearing, stand_in) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Lineage { identity: own_pid(), parent: None, stand_in, hearing: Some(hearing) })
    }

    /// Of a front that has just taken over. It outlives the one before, if that is not the one by whose pid the server
    /// is known.
    pub fn inherited(identity: i32, parent: i32, stand_in: OwnedFd) -> Lineage {
        if parent != identity {
            let _ = set_parent_process_death_signal(None);
        }
        Lineage { identity, parent: (parent != identity).then_some(parent), stand_in, hearing: None }
    }

    pub fn identity(&self) -> i32 {
        self.identity
    }

    /// None: this is not the first front.
    pub fn hearing(&mut self) -> Option<OwnedFd> {
        self.hearing.take()
    }

    /// The pipe to the stand-in, for a successor.
    pub fn stand_in(&self) -> io::Result<OwnedFd> {
        Ok(fcntl_dupfd_cloexec(&self.stand_in, 3)?)
    }

    /// The stand-in is to know who serves now.
    pub fn tell(&self, successor: i32) -> io::Result<()> {
        let line = format!("{successor}\n");
        rustix::io::write(&self.stand_in, line.as_bytes()).map(|_| ()).map_err(io::Error::from)
    }

    /// To be asked now and then. False: the process by whose pid the server is known was killed, and so are we to end.
    pub fn look(&mut self) -> bool {
        if self.hearing.is_some() || own_pid() == self.identity {
            return true;
        }
        let above = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        if above == self.identity {
            if self.parent.take().is_some() {
                // The front before us has ended, and the stand-in has us now.
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                return getppid().map(|pid| pid.as_raw_nonzero().get()) == Some(self.identity);
            }
            return true;
        }
        self.parent == Some(above)
    }
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}
