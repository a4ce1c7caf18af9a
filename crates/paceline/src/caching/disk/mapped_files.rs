//! The files that LMDB maps, and whether they are still as long as they were: a process that reads a mapped page which
//! another program has cut off is ended by SIGBUS. `check` finds that before an access. For the moment between the two
//! there is a handler, which says why the process ends. Never reads or changes what the files hold.

use std::{
    fmt,
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    ptr,
    sync::{
        atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::SeqCst},
        OnceLock,
    },
};

use rustix::fs::{fstat, open, Mode, OFlags};

/// The mapped files of one environment, for as long as it is open.
pub struct MappedFiles {
    files: Vec<MappedFile>,
}

/// A path's descriptor can't be read, and closing it leaves the process the locks that it has on the file.
struct MappedFile {
    path: PathBuf,
    descriptor: OwnedFd,
    entry: &'static Entry,
}

/// A file that became shorter while it was in use.
#[derive(Debug)]
pub struct ShortenedFile {
    path: PathBuf,
    /// Bytes.
    before: u64,
    now: u64,
}

impl fmt::Display for ShortenedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShortenedFile { path, before, now } = self;
        write!(f, "another program shortened {} from {before} to {now} bytes while the server used it", path.display())
    }
}

impl std::error::Error for ShortenedFile {}

impl MappedFiles {
    /// To be called as soon as they are mapped. The first call installs the handler.
    pub fn open(paths: impl IntoIterator<Item = PathBuf>) -> io::Result<MappedFiles> {
        install()?;
        let files = paths.into_iter().map(MappedFile::open).collect::<io::Result<_>>()?;
        Ok(MappedFiles { files })
    }

    /// Err: one of them is shorter than it was. To be called before each access, and after what made them longer.
    pub fn check(&self) -> io::Result<()> {
        self.files.iter().try_for_each(MappedFile::check)
    }
}

impl MappedFile {
    fn open(path: PathBuf) -> io::Result<MappedFile> {
        let descriptor = open(&path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let entry = Entry::add(&descriptor, length(&descriptor)?, &path);
        Ok(MappedFile { path, descriptor, entry })
    }

    fn check(&self) -> io::Result<()> {
        let before = self.entry.length.load(SeqCst);
        let now = length(&self.descriptor)?;
        if now < before {
            return Err(io::Error::other(ShortenedFile { path: self.path.clone(), before, now }));
        }
        self.entry.length.fetch_max(now, SeqCst);
        Ok(())
    }
}

impl Drop for MappedFile {
    /// The handler forgets the descriptor before its number can become another file's.
    fn drop(&mut self) {
        self.entry.descriptor.store(-1, SeqCst);
    }
}

fn length(descriptor: &OwnedFd) -> io::Result<u64> {
    Ok(u64::try_from(fstat(descriptor)?.st_size).unwrap_or(0))
}

/// Whether an error says that a mapped file was shortened.
pub fn is_shortened(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ShortenedFile>())
}

/// What the handler knows of a file. It may run at any moment, so an entry is never freed: there are two each time that
/// a disk cache is opened, which a process does once, and again, seldom, when it is replaced by another or begins again.
struct Entry {
    /// -1: closed.
    descriptor: AtomicI32,
    /// Bytes that the file has at least, unless another program shortened it.
    length: AtomicU64,
    /// What is said if it did: the handler can make no text.
    line: Vec<u8>,
    next: Option<&'static Entry>,
}

/// The newest entry.
static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

impl Entry {
    fn add(descriptor: &OwnedFd, length: u64, path: &Path) -> &'static Entry {
        let mut line = Vec::new();
        let _ = writeln!(
            line,
            "paceline: SIGBUS ends the server: another program shortened {} while the server used it. The next start \
             begins an empty disk cache. Let no other program write to that folder.",
            path.display()
        );
        let entry = Box::leak(Box::new(Entry {
            descriptor: AtomicI32::new(descriptor.as_raw_fd()),
            length: AtomicU64::new(length),
            line,
            next: None,
        }));
        loop {
            let newest = ENTRIES.load(SeqCst);
            entry.next = Entry::at(newest);
            if ENTRIES.compare_exchange(newest, entry, SeqCst, SeqCst).is_ok() {
                return entry;
            }
        }
    }

    #[allow(unsafe_code)]
    fn at(place: *mut Entry) -> Option<&'static Entry> {
        // SAFETY: `ENTRIES` holds null or an entry, which is never freed, nor changed once it is there.
        unsafe { place.as_ref() }
    }

    /// Whether the file is open and shorter than it was.
    #[allow(unsafe_code)]
    fn is_shortened(&self) -> bool {
        let descriptor = self.descriptor.load(SeqCst);
        // SAFETY: `stat` is plain numbers, and lives for the call.
        let (found, length) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(descriptor, &mut stat) == 0, stat.st_size)
        };
        found && u64::try_from(length).unwrap_or(0) < self.length.load(SeqCst)
    }
}

/// What was done on SIGBUS before: the Rust runtime's handler, usually.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

fn install() -> io::Result<()> {
    let installed = INSTALLED.get_or_init(|| set_handler().map_err(|error| error.raw_os_error().unwrap_or(0)));
    installed.map_err(io::Error::from_raw_os_error)
}

#[allow(unsafe_code)]
fn set_handler() -> io::Result<()> {
    let done = |status: i32| if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: all fields of a `sigaction` may be zero.
    let (mut previous, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = handle as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both live for the calls. The handler does only what a handler may, and finds what it needs: that is set
    // before.
    unsafe {
        done(libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous))?;
        PREVIOUS.get_or_init(|| previous);
        done(libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()))
    }
}

/// A thread has begun to end the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Says which file was shortened and lets the process die of the signal. Without such a file it is the affair of the
/// handler before. Allocates nothing, takes no lock, and calls what is async-signal-safe only.
#[allow(unsafe_code)]
extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid `siginfo_t` to a handler with SA_SIGINFO. What is called takes numbers, and
    // pointers to what lives for the call or for ever.
    unsafe {
        let sent_by_kill = (*info).si_code <= 0;
        let Some(entry) = shortened().filter(|_| !sent_by_kill) else {
            if let Some(previous) = PREVIOUS.get() {
                libc::sigaction(signal, previous, ptr::null_mut());
            }
            // What the kernel sent comes again, from the same instruction.
            if sent_by_kill {
                libc::raise(signal);
            }
            return;
        };
        // Another thread says it; dying before it has would lose the line.
        while ENDING.swap(true, SeqCst) {
            libc::pause();
        }
        libc::write(2, entry.line.as_ptr().cast(), entry.line.len());
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &default, ptr::null_mut());
        // It waits until this handler has returned.
        libc::raise(signal);
    }
}

/// The first of the open files that is shorter than it was.
fn shortened() -> Option<&'static Entry> {
    let newest = Entry::at(ENTRIES.load(SeqCst));
    std::iter::successors(newest, |entry| entry.next).find(|entry| entry.is_shortened())
}
