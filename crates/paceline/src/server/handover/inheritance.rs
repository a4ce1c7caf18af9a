//! What a front has from the one before it, and how it takes over: it boots beside it, takes its cache, and then serves
//! in its place. It never serves before it is told to.

use std::{
    io,
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::Arc,
    time::Duration,
};

use cache::store::Moment;
use rustix::{
    io::{fcntl_setfd, FdFlags},
    process::{getppid, set_parent_process_death_signal, Signal},
};

use super::{
    lineage::Lineage,
    wire::{self, Hello, Message, Takeover},
    VARIABLE,
};
use crate::{
    caching::{Cache, Disk, Say},
    config::{Bind, CacheDisk},
    edge::listen::{self, Listener},
    server::TakeoverError,
    support::signal_mask,
};

/// How long the old front may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is there to be taken over.
pub struct Inheritance {
    socket: UnixStream,
    hello: Hello,
    listeners: Vec<Option<OwnedFd>>,
    control: Option<OwnedFd>,
    stand_in: OwnedFd,
    taken: Takeover,
}

/// Tells the old front that nothing comes of it.
pub struct Report(Option<UnixStream>);

impl Report {
    pub fn failed(&self, why: &str) {
        if let Some(socket) = &self.0 {
            let _ = wire::send(socket, &Message::Failed(why.trim_end().to_owned()));
        }
    }
}

impl Inheritance {
    /// None: this program was started by itself. To be called once, before anything else opens files.
    pub fn receive() -> Option<Result<Inheritance, TakeoverError>> {
        let socket = handed()?;
        Some(Inheritance::of(socket).map_err(TakeoverError::Nothing))
    }

    fn of(socket: UnixStream) -> io::Result<Inheritance> {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let (hello, fds) = wire::receive_hello(&socket)?;
        // Without the server that we are to become a part of nobody would end us.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(hello.parent) {
            return Err(io::Error::other("the server that started this program is gone"));
        }
        let mut fds = fds.into_iter();
        let missing = || io::Error::from(io::ErrorKind::InvalidData);
        let listeners = hello.listeners.iter().map(|_| fds.next().map(Some).ok_or_else(missing));
        let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
        let control = match hello.control {
            Some(_) => Some(fds.next().ok_or_else(missing)?),
            None => None,
        };
        let stand_in = fds.next().ok_or_else(missing)?;
        let taken = Takeover { listeners: vec![false; listeners.len()], ..Takeover::default() };
        Ok(Inheritance { socket, hello, listeners, control, stand_in, taken })
    }

    /// The pid by which the server is known.
    pub fn identity(&self) -> i32 {
        self.hello.identity
    }

    /// Sites whose applications are up.
    pub fn up(&self) -> &[String] {
        &self.hello.up
    }

    pub fn report(this: Option<&Inheritance>) -> Report {
        Report(this.and_then(|this| this.socket.try_clone().ok()))
    }

    /// The listener that the old front has for the address. The file of a Unix socket stays the old front's.
    pub fn listener(&mut self, bind: &Bind) -> Option<io::Result<Listener>> {
        let wanted = listen::shown(bind);
        let nth = (0..self.listeners.len())
            .find(|nth| self.listeners[*nth].is_some() && self.hello.listeners[*nth] == wanted)?;
        let listener = listen::given(self.listeners[nth].take()?);
        self.taken.listeners[nth] = listener.is_ok();
        Some(listener)
    }

    /// The control socket, if it is at this path.
    /// And whether its folder was made for it.
    pub fn control(&mut self, path: &Path) -> Option<(UnixListener, bool)> {
        if self.hello.control.as_deref() != Some(path) {
            return None;
        }
        let control = self.control.take()?.into();
        self.taken.control = true;
        Some((control, self.hello.control_folder))
    }

    /// Up to where the cache is purged that is taken. A disk of our own has pages of another time. `has_disk`: there is
    /// a disk, of our own or the old front's.
    pub fn cluster(&self, has_disk: bool) -> Option<&str> {
        self.hello.cluster.as_deref().filter(|_| self.taken.disk || !has_disk)
    }

    /// The cache that goes on: a disk of our own is opened now, one that the old front has when it is closed there.
    pub fn cache(
        &mut self,
        size: u64,
        disk: Option<&CacheDisk>,
        open: impl FnOnce(&CacheDisk) -> io::Result<Arc<Cache>>,
    ) -> io::Result<Arc<Cache>> {
        let cache = match disk {
            Some(own) if self.hello.disk.as_ref() != Some(&own.dir) => open(own)?,
            _ => Arc::new(Cache::succeeding(size, self.hello.secret)),
        };
        self.taken.disk = disk.is_some_and(|disk| self.hello.disk.as_ref() == Some(&disk.dir));
        self.taken.cache = cache.secret() == self.hello.secret;
        Ok(cache)
    }

    /// The code that has made what is taken of a site's pages, if it is known.
    pub fn code_of(&self, site: &str) -> Option<String> {
        self.hello.codes.get(site).cloned().flatten()
    }

    /// Tells that the applications are up, takes what the cache holds, and opens its disk. Returns when the old front
    /// has nothing more to give. It waits: call it where that may be.
    pub fn take(&mut self, cache: &Arc<Cache>, disk: Option<&CacheDisk>, say: Say) -> Result<u64, TakeoverError> {
        let moment = cache.store().moment();
        wire::send(&self.socket, &Message::Ready(self.taken.clone()))?;
        let mut kept = 0;
        loop {
            match wire::receive(&self.socket)? {
                Some(Message::Commit) => break,
                Some(message) => kept += u64::from(keep(cache, message, moment)),
                None => return Err(TakeoverError::Orphaned),
            }
        }
        if let Some(CacheDisk { size, dir }) = disk.filter(|_| self.taken.disk) {
            let attached = Disk::open_with(dir, *size, Some(cache.secret()), say.clone())
                .map_or(Ok(true), |disk| cache.attach(disk));
            if !attached? {
                say("The cache's disk is off until the next start: its file is another server's".to_owned());
            }
        }
        Ok(kept)
    }

    /// We serve. From now on purges that the old front hears of in the requests it still has are obeyed here.
    pub fn took_over(self, cache: &Arc<Cache>) -> io::Result<Lineage> {
        wire::send(&self.socket, &Message::TookOver)?;
        self.socket.set_read_timeout(None)?;
        let (socket, cache) = (self.socket, cache.clone());
        std::thread::Builder::new().name("handover".into()).spawn(move || {
            signal_mask::block();
            let moment = cache.store().moment();
            while let Ok(Some(message)) = wire::receive(&socket) {
                keep(&cache, message, moment);
            }
        })?;
        Ok(Lineage::inherited(self.hello.identity, self.hello.parent, self.stand_in))
    }

    pub fn taken(&mut self) -> &mut Takeover {
        &mut self.taken
    }
}

/// Whether a response is kept by it.
fn keep(cache: &Cache, message: Message, moment: Moment) -> bool {
    match message {
        Message::Record(key, record) => cache.take_record(key, &record, moment),
        Message::Purge(what, how) => {
            cache.purge(&what, how);
            false
        }
        _ => false,
    }
}

/// The socket that the old front has left open for us.
#[allow(unsafe_code)]
fn handed() -> Option<UnixStream> {
    let fd: RawFd = std::env::var(VARIABLE).ok()?.parse().ok()?;
    let is_socket = || {
        std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    if fd < 3 || !is_socket() {
        return None;
    }
    // SAFETY: our parent opened this descriptor for us and named it in the environment; it was just seen to be an open
    // socket, and this runs once, so nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
    Some(socket.into())
}
