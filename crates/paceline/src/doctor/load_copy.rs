//! A copy of the application as a server would run it: several shadows, each of which answers on several channels at
//! once, and a queue before them as Paceline's front has one. Which visitors come is decided in `load_slice`.
//! It never believes what comes from a channel: it is bounded, and read as little as any shadow's line.

#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use doctor::{
    candidate::Load,
    protocol::{Deliver, LoadRequest, LoadResult, LoadStart, Request},
};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde_json::Value;

use super::{
    driver::{Driver, RunError},
    source::{NoShadow, Source},
    stop::Stop,
};
use crate::{
    apps::concurrency::{running, Concurrency, INTERVAL},
    observe::memory_usage::Memory,
    origins::{
        shadow::{LineError, Shadow, ShadowError},
        workers::dispatch::queue::{WorkerId, WorkerLoad, YOUNG},
    },
};

/// Channels of one process: each is a thread there, and a descriptor here.
const MAX_THREADS: u32 = 100;
/// Processes of a copy.
const MAX_WORKERS: u32 = 32;
/// Bytes of an answer's line.
const MAX_LINE: usize = 64 << 10;
/// How long no channel may say anything while requests are under way.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to one thread.
struct Channel {
    stream: UnixStream,
    /// Its process: a place in `LoadCopy::processes`.
    process: usize,
    received: Vec<u8>,
    in_hand: Option<(u64, Instant)>,
}

/// How many requests each process gets beside each other, as Paceline's front decides it.
struct Pacing {
    rule: Concurrency,
    limits: Vec<usize>,
    looked: Instant,
}

pub struct LoadCopy {
    /// Without them only channels: tests.
    processes: Vec<Shadow>,
    channels: Vec<Channel>,
    pacing: Option<Pacing>,
}

impl LoadCopy {
    /// `requests`: all that it will be asked for.
    pub fn make(driver: &mut Driver, load: Load, requests: &[Request], recordings: &[Value]) -> Result<LoadCopy, Stop> {
        check(load)?;
        let mut shadows = Vec::new();
        for _ in 0..load.workers.max(1) {
            shadows.push(driver.shadow()?);
        }
        let deliver = driver.replaying.deliver;
        LoadCopy::of(shadows, load, requests, recordings, deliver, |shadow, start| driver.channels(shadow, start))
    }

    /// One process, of an application that the doctor has started.
    pub fn of_source(
        source: &mut Source,
        load: Load,
        requests: &[Request],
        recordings: &[Value],
        deliver: Deliver,
    ) -> Result<LoadCopy, Stop> {
        check(load)?;
        let shadow = source.shadow()?;
        LoadCopy::of(vec![shadow], load, requests, recordings, deliver, |shadow, start| source.channels(shadow, start))
    }

    fn of(
        mut processes: Vec<Shadow>,
        load: Load,
        requests: &[Request],
        recordings: &[Value],
        deliver: Deliver,
        channels: impl Fn(&mut Shadow, LoadStart) -> Result<Vec<UnixStream>, NoShadow>,
    ) -> Result<LoadCopy, Stop> {
        let mut streams = Vec::new();
        for shadow in &mut processes {
            shadow.load(recordings)?;
            let start =
                LoadStart { socket: String::new(), threads: load.threads, requests: requests.to_vec(), deliver };
            streams.push(channels(shadow, start)?);
        }
        let mut copy = LoadCopy::over(streams).map_err(broken)?;
        let rule = Concurrency::new(load.threads_min as usize, load.threads as usize);
        copy.pacing = rule.map(|rule| Pacing {
            rule,
            limits: vec![load.threads as usize; processes.len()],
            looked: Instant::now(),
        });
        copy.processes = processes;
        Ok(copy)
    }

    /// Of these channels, those of each process together.
    pub fn over(streams: Vec<Vec<UnixStream>>) -> io::Result<LoadCopy> {
        let mut channels = Vec::new();
        for (process, streams) in streams.into_iter().enumerate() {
            for stream in streams {
                stream.set_nonblocking(true)?;
                channels.push(Channel { stream, process, received: Vec::new(), in_hand: None });
            }
        }
        Ok(LoadCopy { processes: Vec::new(), channels, pacing: None })
    }

    /// The processor's time of all its processes so far. None: not known.
    pub fn running(&self) -> Option<Duration> {
        self.processes.iter().map(|shadow| running(shadow.pid()?)).sum()
    }

    /// Process ids, as far as they are known.
    pub fn pids(&self) -> impl Iterator<Item = i32> + '_ {
        self.processes.iter().filter_map(Shadow::pid)
    }

    /// Private memory of all its processes, bytes. None: not known.
    pub fn memory(&self) -> Option<u64> {
        let own = |shadow: &Shadow| Some(Memory::of(shadow.pid()?)?.own());
        self.processes.iter().map(own).sum()
    }

    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.channels.iter().all(|channel| channel.in_hand.is_none())
    }

    /// A channel that may have the next request: of the process with the fewest. None: it has to wait.
    pub fn free(&self) -> Option<usize> {
        let now = Instant::now();
        let idle = (0..self.channels.len()).filter(|at| self.channels[*at].in_hand.is_none());
        let allowed = idle.filter(|at| {
            let process = self.channels[*at].process;
            let limit = self.pacing.as_ref().and_then(|pacing| pacing.limits.get(process));
            limit.is_none_or(|limit| self.young(process, now) < *limit)
        });
        allowed.min_by_key(|at| self.busy(self.channels[*at].process))
    }

    /// Sends a request to a channel that is free.
    pub fn send(&mut self, channel: usize, request: &LoadRequest) -> Result<(), ShadowError> {
        let Some(channel) = self.channels.get_mut(channel) else { return Ok(()) };
        let mut line = serde_json::to_vec(request).map_err(|error| ShadowError::Nonsense(error.to_string()))?;
        line.push(b'\n');
        channel.stream.write_all(&line).map_err(broken)?;
        channel.in_hand = Some((request.id, Instant::now()));
        Ok(())
    }

    /// Waits until some have answered, or until it may be that another request can go on; `waiting`: how many do. Err:
    /// nothing more can be expected of it.
    pub fn answers(&mut self, waiting: usize) -> Result<Vec<LoadResult>, ShadowError> {
        self.pace(waiting);
        let patience = if self.pacing.is_some() && waiting > 0 { INTERVAL } else { PATIENCE };
        let ready = self.ready(patience).map_err(broken)?;
        if ready.is_empty() && self.oldest().is_some_and(|oldest| oldest.elapsed() >= PATIENCE) {
            self.processes.iter().for_each(Shadow::kill);
            return Err(LineError::Silent(PATIENCE).into());
        }
        let mut results = Vec::new();
        for at in ready {
            results.extend(self.channels[at].read()?);
        }
        Ok(results)
    }

    fn ready(&self, patience: Duration) -> io::Result<Vec<usize>> {
        let asked: Vec<usize> = (0..self.channels.len()).filter(|at| self.channels[*at].in_hand.is_some()).collect();
        let mut polled: Vec<PollFd> =
            asked.iter().map(|at| PollFd::new(&self.channels[*at].stream, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        match poll(&mut polled, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_come = |fd: &PollFd| !fd.revents().is_empty();
        Ok(asked.iter().zip(&polled).filter(|(_, fd)| has_come(fd)).map(|(at, _)| *at).collect())
    }

    fn oldest(&self) -> Option<Instant> {
        self.channels.iter().filter_map(|channel| Some(channel.in_hand?.1)).min()
    }

    fn busy(&self, process: usize) -> usize {
        self.channels.iter().filter(|one| one.process == process && one.in_hand.is_some()).count()
    }

    fn young(&self, process: usize, now: Instant) -> usize {
        let is_young = |since: Instant| now.duration_since(since).as_micros() < u128::from(YOUNG);
        let own = self.channels.iter().filter(|one| one.process == process);
        own.filter(|one| one.in_hand.is_some_and(|(_, since)| is_young(since))).count()
    }

    /// Looks at the processes as the front does.
    fn pace(&mut self, waiting: usize) {
        let now = Instant::now();
        let loads: Vec<WorkerLoad> = match &self.pacing {
            Some(pacing) if now.duration_since(pacing.looked) >= INTERVAL => {
                let limits = pacing.limits.iter().enumerate();
                let load = |(at, limit): (usize, &usize)| WorkerLoad {
                    id: at as WorkerId,
                    limit: *limit,
                    young: self.young(at, now),
                };
                limits.map(load).collect()
            }
            _ => return,
        };
        let pids: Vec<Option<i32>> = self.processes.iter().map(Shadow::pid).collect();
        let Some(pacing) = &mut self.pacing else { return };
        pacing.looked = now;
        for (id, limit) in pacing.rule.look(waiting, &loads, |id| pids.get(id as usize).copied().flatten()) {
            if let Some(of_process) = pacing.limits.get_mut(id as usize) {
                *of_process = limit;
            }
        }
    }
}

impl Channel {
    /// What has come; None: there is more to come.
    fn read(&mut self) -> Result<Option<LoadResult>, ShadowError> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => return Err(LineError::Ended.into()),
            Ok(count) => self.received.extend_from_slice(&piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(None),
            Err(error) => return Err(broken(error)),
        }
        if self.received.len() > MAX_LINE {
            return Err(LineError::Endless.into());
        }
        if self.received.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.received);
        let asked = self.in_hand.take().map(|(id, _)| id);
        let result: LoadResult =
            serde_json::from_slice(&line).map_err(|_| ShadowError::Nonsense("no JSON of an answer".into()))?;
        match asked {
            Some(id) if id == result.id && (100..600).contains(&result.status) => Ok(Some(result)),
            _ => Err(ShadowError::Nonsense(format!("answer {} of status {}", result.id, result.status))),
        }
    }
}

fn check(load: Load) -> Result<(), Stop> {
    if load.threads > MAX_THREADS || load.workers > MAX_WORKERS {
        let why = format!("copies have at most {MAX_WORKERS} workers of {MAX_THREADS} threads");
        return Err(RunError::Environment(why).into());
    }
    Ok(())
}

fn broken(error: io::Error) -> ShadowError {
    let error = match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => LineError::Ended,
        _ => LineError::System(error),
    };
    error.into()
}
