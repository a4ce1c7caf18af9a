//! How a process of the model announces a write: it connects, says which code it has loaded, waits for the answer, and gives up
//! where gem/lib/paceline/auto_cache/journal.rb does. It does the write itself nowhere.

use super::{
    database::{fields, schema},
    process::{Call, CallStage, Calling, Frame, Link, Telling, JOINER},
    world::{Broken, World},
};
use crate::caching::auto::journal::{DONE, INTENT, READING, RELEASE, SCHEMA};

/// What came of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    Waits,
    /// The process goes on, with an answer or without.
    Over,
    /// An exception (as of `Timeout`) ended it.
    Raised,
}

/// Of so many steps in which a thread waits, one is interrupted.
const INTERRUPTED: usize = 400;

impl World {
    /// A step of this thread's call. `at`: of the process.
    pub fn call(&mut self, at: usize, thread: usize, calling: &mut Calling) -> Progress {
        let holder = &mut self.processes[at].journal.holder;
        if holder.is_some_and(|other| other != thread) {
            return Progress::Waits;
        }
        *holder = Some(thread);
        let progress = self.hold(at, calling);
        if progress != Progress::Waits {
            self.processes[at].journal.holder = None;
        }
        progress
    }

    fn hold(&mut self, at: usize, calling: &mut Calling) -> Progress {
        match calling.stage {
            CallStage::Begins => self.begin_call(at, calling),
            CallStage::Joins | CallStage::Sent if self.processes[at].journal.is_answered => {
                if calling.stage == CallStage::Sent {
                    return Progress::Over;
                }
                self.processes[at].journal.missed = false;
                self.say(at, calling)
            }
            CallStage::Joins | CallStage::Sent => self.await_answer(at, calling),
            CallStage::Outlasts => {
                let closed = self.processes[at].journal.closed;
                // After a second the front has read the end of it, or is late.
                let is_known = closed.is_none_or(|link| !self.links.contains_key(&link)) || self.is_late;
                if is_known {
                    Progress::Over
                } else {
                    Progress::Waits
                }
            }
        }
    }

    fn begin_call(&mut self, at: usize, calling: &mut Calling) -> Progress {
        if self.processes[at].journal.link.is_some() {
            return self.say(at, calling);
        }
        if !self.processes[at].journal.can_open {
            self.processes[at].journal.missed = true;
            return self.could_not_connect(calling);
        }
        self.connect(at);
        let process = &mut self.processes[at];
        let Some(release) = process.release.clone() else { return self.say(at, calling) };
        let mut payload = [release.as_bytes(), b"\0"].concat();
        process.journal.awaited.clone_from(&payload);
        process.journal.is_answered = false;
        if process.journal.missed {
            payload.extend(b"missed\0");
        }
        calling.stage = CallStage::Joins;
        self.send(at, Frame::Say(RELEASE, payload));
        Progress::Waits
    }

    fn could_not_connect(&mut self, calling: &mut Calling) -> Progress {
        if !matches!(calling.call, Call::Intend(..)) {
            return Progress::Over;
        }
        calling.stage = CallStage::Outlasts;
        Progress::Waits
    }

    /// There is a connection.
    fn say(&mut self, at: usize, calling: &mut Calling) -> Progress {
        match &calling.call {
            Call::Join => Progress::Over,
            Call::Done(payload) => {
                let payload = payload.clone();
                self.send(at, Frame::Say(DONE, payload));
                Progress::Over
            }
            Call::Intend(id, entries) => {
                let (id, payload) = (id.clone(), [id.as_slice(), entries].concat());
                self.send_question(at, calling, id, Frame::Say(INTENT, payload));
                if self.broken == Some(Broken::ProcessWaitsNot) {
                    return Progress::Over;
                }
                Progress::Waits
            }
            Call::Reading(id) => {
                let id = id.clone();
                self.send_question(at, calling, id.clone(), Frame::Say(READING, id));
                Progress::Waits
            }
        }
    }

    /// Its answer is the id.
    fn send_question(&mut self, at: usize, calling: &mut Calling, id: Vec<u8>, frame: Frame) {
        let journal = &mut self.processes[at].journal;
        journal.awaited = id;
        journal.is_answered = false;
        calling.stage = CallStage::Sent;
        self.send(at, frame);
    }

    fn await_answer(&mut self, at: usize, calling: &mut Calling) -> Progress {
        if self.is_late && self.chance.one_in(3) {
            self.note(|| format!("process at {at} waits no longer for its answer"));
            self.counts.given_up += 1;
            self.close(at);
            return match (&calling.call, calling.stage) {
                (Call::Intend(..), CallStage::Joins) if calling.tries == 0 => {
                    calling.tries += 1;
                    calling.stage = CallStage::Begins;
                    Progress::Waits
                }
                _ => Progress::Over,
            };
        }
        let is_join = matches!(calling.call, Call::Join);
        if !is_join && self.chance.one_in(INTERRUPTED) {
            self.note(|| format!("process at {at} is interrupted while it waits for its answer"));
            self.counts.lost += 1;
            self.close(at);
            return Progress::Raised;
        }
        Progress::Waits
    }

    fn connect(&mut self, at: usize) {
        self.last_link += 1;
        let (process, link) = (&mut self.processes[at], self.last_link);
        process.journal.link = Some(link);
        let link_to = Link { pid: process.life.pid, number: 0, frames: Default::default() };
        self.links.insert(link, link_to);
        self.send(at, Frame::Connect);
    }

    /// Writes to the socket.
    pub fn send(&mut self, at: usize, frame: Frame) {
        let Some(link) = self.processes[at].journal.link else { return };
        self.written += 1;
        if let Some(link) = self.links.get_mut(&link) {
            link.frames.push_back((self.written, frame));
        }
    }

    /// The process closes its connection, or has ended.
    pub fn close(&mut self, at: usize) {
        self.send(at, Frame::End);
        let journal = &mut self.processes[at].journal;
        if journal.link.is_some() {
            journal.closed = journal.link.take();
        }
    }

    /// The process begins to tell the schema.
    pub fn begin_telling(&mut self, at: usize) {
        let read = (self.broken == Some(Broken::SchemaIsReadBefore)).then(|| self.read_schema());
        let process = &mut self.processes[at];
        process.announced += 1;
        let id = fields(&[&format!("{}-{}", process.serial, process.announced)]);
        let calling = Calling::new(Call::Reading(id.clone()));
        process.telling = Some(Telling::Asks { calling, id, read });
    }

    fn read_schema(&self) -> Vec<u8> {
        schema(self.dialect, &self.database.committed)
    }

    /// A step of telling it.
    pub fn tell(&mut self, at: usize) {
        let next = match self.processes[at].telling.take() {
            Some(Telling::Asks { mut calling, id, read }) => match (self.call(at, JOINER, &mut calling), read) {
                (Progress::Waits, read) => Some(Telling::Asks { calling, id, read }),
                // Nobody has answered.
                _ if self.processes[at].journal.link.is_none() => None,
                (_, Some(read)) => Some(Telling::Says([id, read].concat())),
                (_, None) => Some(Telling::Reads(id)),
            },
            Some(Telling::Reads(id)) => Some(Telling::Says([id, self.read_schema()].concat())),
            Some(Telling::Says(payload)) => {
                self.send(at, Frame::Say(SCHEMA, payload));
                None
            }
            None => None,
        };
        self.processes[at].telling = next;
    }
}
