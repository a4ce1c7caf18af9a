//! The old front's side: it starts the new program, gives it all it has, and goes on serving unless that one has taken
//! over. It never stops serving by itself.

use std::{
    future::Future,
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{mpsc, Arc},
    time::Duration,
};

use cache::store::Moment;
use rustix::{
    io::{fcntl_setfd, FdFlags},
    process::{kill_process, Pid, Signal},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    program::Program,
    wire::{self, Hello, Message, Takeover},
    VARIABLE,
};
use crate::{
    apps::reaper::{Exit, Reaper},
    caching::{Disk, RelayedPurge},
    config::CacheDisk,
    observe::log::Name,
    request::front::{Front, UpgradeError},
    support::signal_mask,
};

/// How long the exit of a new program is waited for that has nothing more to say.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A new front that has taken over.
pub struct Successor {
    pub pid: i32,
    pub exit: oneshot::Receiver<Exit>,
    pub taken: Takeover,
}

/// What the new front is given beside the cache.
pub struct Estate {
    pub hello: Hello,
    /// In the order of `Hello`.
    pub fds: Vec<OwnedFd>,
}

/// Starts the new program. Resolves when it has taken over, or with why it has not: then it is gone. Must be called on
/// the main thread, within its event loop.
pub fn begin(
    program: &Program,
    estate: Estate,
    reaper: &Reaper,
    front: &Arc<Front>,
) -> Result<(i32, impl Future<Output = Result<Successor, UpgradeError>>), UpgradeError> {
    let (pid, socket, mut exit) = start(program, reaper)?;
    let (told, conducted) = oneshot::channel();
    let thread = std::thread::Builder::new().name("handover".into()).spawn({
        let front = front.clone();
        move || {
            signal_mask::block();
            conduct(&socket, &estate, &front, told);
        }
    });
    thread?;
    let front = front.clone();
    let ended = async move {
        let Failed { why, detached } = match conducted.await {
            Ok(Ok(taken)) => return Ok(Successor { pid, exit, taken }),
            Ok(Err(failed)) => failed,
            Err(_) => Failed { why: Why::Silent, detached: None },
        };
        let last = match why {
            Why::Silent => timeout(LAST_WORDS, &mut exit).await.ok(),
            _ => None,
        };
        kill(pid);
        if last.is_none() {
            let _ = timeout(LAST_WORDS, exit).await;
        }
        if let Some(since) = detached {
            let _ = tokio::task::spawn_blocking(move || take_back(&front, since)).await;
        }
        Err(match (why, last) {
            (Why::Silent, Some(Ok(exit))) => UpgradeError::Exited(exit),
            (Why::Silent, _) => UpgradeError::Silent,
            (Why::Late(patience), _) => UpgradeError::TimedOut(patience),
            (Why::Told(why), _) => UpgradeError::Refused(why),
        })
    };
    Ok((pid, ended))
}

fn start(program: &Program, reaper: &Reaper) -> Result<(i32, UnixStream, oneshot::Receiver<Exit>), UpgradeError> {
    let mut command = program.command()?;
    let failed =
        |error: io::Error| UpgradeError::NotStarted { path: program.path().to_owned(), error: Arc::new(error) };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    fcntl_setfd(theirs.as_fd(), FdFlags::empty()).map_err(|error| failed(error.into()))?;
    command.env(VARIABLE, theirs.as_raw_fd().to_string());
    let child = command.spawn().map_err(failed)?;
    let pid = child.id() as i32;
    Ok((pid, ours, reaper.exit_of(pid)))
}

/// Why nothing came of it.
enum Why {
    /// It said nothing that could be understood, or is gone.
    Silent,
    Late(Duration),
    Told(String),
}

struct Failed {
    why: Why,
    /// The disk was closed for it, then.
    detached: Option<Moment>,
}

impl From<Why> for Failed {
    fn from(why: Why) -> Failed {
        Failed { why, detached: None }
    }
}

/// Talks with the new front until it has taken over, and passes on purges until this process ends.
fn conduct(socket: &UnixStream, estate: &Estate, front: &Front, told: oneshot::Sender<Result<Takeover, Failed>>) {
    let (relay, news) = mpsc::channel();
    front.cache.relay(Some(relay));
    let given = give(socket, estate, front, &news);
    let has_taken_over = given.is_ok();
    if !has_taken_over {
        front.cache.relay(None);
    }
    let _ = told.send(given);
    if has_taken_over {
        // Requests in hand may change what the new front keeps.
        let _ = news.iter().try_for_each(|told| pass_on(socket, told));
    }
}

fn pass_on(socket: &UnixStream, RelayedPurge(what, how): RelayedPurge) -> io::Result<()> {
    wire::send(socket, &Message::Purge(what, how))
}

fn give(
    socket: &UnixStream,
    estate: &Estate,
    front: &Front,
    news: &mpsc::Receiver<RelayedPurge>,
) -> Result<Takeover, Failed> {
    let patience = front.config.upgrade_timeout;
    let silent = |_| Failed::from(Why::Silent);
    socket.set_write_timeout(Some(patience)).map_err(silent)?;
    let fds: Vec<_> = estate.fds.iter().map(AsFd::as_fd).collect();
    wire::send_hello(socket, &estate.hello, &fds).map_err(silent)?;
    let taken = match receive(socket, patience)? {
        Message::Ready(taken) if taken.listeners.len() == estate.hello.listeners.len() => taken,
        Message::Failed(why) => return Err(Why::Told(why).into()),
        _ => return Err(Why::Silent.into()),
    };
    if taken.cache {
        let mut sent = Ok(());
        front.cache.records(|key, record| {
            let purged = || news.try_iter().try_for_each(|told| pass_on(socket, told));
            if sent.is_ok() {
                sent = purged().and_then(|()| wire::send_record(socket, key, record));
            }
        });
        sent.map_err(silent)?;
    }
    let detached = if taken.disk { front.cache.detach() } else { None };
    let last = wire::send(socket, &Message::Commit).map_err(|_| Why::Silent).and_then(|()| receive(socket, patience));
    let why = match last {
        Ok(Message::TookOver) => return Ok(taken),
        Ok(Message::Failed(why)) => Why::Told(why),
        Ok(_) => Why::Silent,
        Err(why) => why,
    };
    Err(Failed { why, detached })
}

fn receive(socket: &UnixStream, patience: Duration) -> Result<Message, Why> {
    socket.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).map_err(|_| Why::Silent)?;
    match wire::receive(socket) {
        Ok(Some(message)) => Ok(message),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(Why::Late(patience))
        }
        Ok(None) | Err(_) => Err(Why::Silent),
    }
}

/// The cache's disk is ours again.
fn take_back(front: &Front, since: Moment) {
    let Some(CacheDisk { size, dir }) = &front.config.cache_disk else { return };
    let log = front.log.clone();
    let say = Arc::new(move |line| log.event(Name::Cache, line));
    if let Some(disk) = Disk::open_with(dir, *size, Some(front.cache.secret()), say) {
        if let Err(error) = front.cache.attach_again(disk, since) {
            front.log.event(Name::Cache, format!("The cache's disk is off: {error}"));
        }
    }
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
