//! Names and passwords of a file: lines `name:hash` with bcrypt or argon2, read again when the file changes. A hash takes
//! a while by design, so it is checked away from the event loop, a few at a time; a password that was proved is known by
//! a keyed digest for as long as its line stays the same. It keeps no password.

use std::{
    collections::{HashMap, HashSet},
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        Arc, LazyLock,
    },
    time::{Duration, SystemTime},
};

use argon2::{password_hash::phc::PasswordHash, Argon2, Params, PasswordVerifier};
use parking_lot::Mutex;
use ring::{hmac, rand::SystemRandom};
use secret::Secret;
use sign_in::Failures;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::support::{
    clock::{self, Micros},
    private_file,
};

/// Bytes of a file, at most.
const MAX_FILE: u64 = 1 << 20;
/// How long what was read counts before the file is looked at again.
const FRESH: Micros = 2_000_000;
/// Between two times that it is said that a file can't be used.
const SAID: Micros = 10_000_000;
/// Digests of each kind that are kept.
const MAX_DIGESTS: usize = 1024;
/// A bcrypt hash of more takes longer than a second.
const MAX_COST: u32 = 15;
/// KiB that a check of an argon2 hash may take.
const MAX_MEMORY: u32 = 256 << 10;
/// Requests that may wait for a check, and how long.
const MAX_WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks at the same time: visitors of other pages need the cores, too.
static CHECKS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(most_checks())));
static WAITING: AtomicUsize = AtomicUsize::new(0);
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Why a file of passwords can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PasswordFileError {
    #[error("{}: cannot be read: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    #[error("{}: cannot be read: it has more than 1 MB", .0.display())]
    TooLarge(PathBuf),
    #[error("{}: cannot be read: it is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    #[error("{}:{line}: {why}", file.display())]
    Line { file: PathBuf, line: usize, why: LineError },
    #[error("{}: has no name in it: htpasswd -B {} alice adds one", .0.display(), .0.display())]
    Empty(PathBuf),
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("must be NAME:HASH")]
    Form,
    #[error("has a hash that is neither bcrypt nor argon2: make a new one with htpasswd -B FILE {0}")]
    Hash(String),
    #[error("has a hash that is damaged: make a new one with htpasswd -B FILE {0}")]
    Damaged(String),
    #[error("has a bcrypt cost of {0}, which takes seconds for each check: at most {MAX_COST}")]
    Cost(u32),
    #[error("has an argon2 hash that takes {} MB for each check: at most {} MB", .0 >> 10, MAX_MEMORY >> 10)]
    Memory(u32),
    #[error("has the name {0:?} a second time: remove one of the lines")]
    Twice(String),
}

/// What became of a name and a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Right,
    Wrong,
    /// There are too many checks already.
    Busy,
    /// There were too many wrong passwords from this address: how long to wait.
    TooOften(Duration),
}

/// Where a password comes from, and what was wrong from there.
#[derive(Clone, Copy)]
pub struct Source {
    pub address: IpAddr,
    pub failures: &'static Failures,
}

/// A file of names and passwords.
pub struct PasswordFile {
    path: PathBuf,
    /// Tells files apart in an exchange.
    number: u64,
    read: Mutex<Option<Arc<Lines>>>,
    digests: Mutex<Digests>,
    /// None: there were no random numbers, so nothing is known by its digest.
    key: Option<hmac::Key>,
    /// When it was last said that the file can't be used.
    said: AtomicU64,
}

struct Lines {
    stamp: Stamp,
    /// When the file was looked at.
    looked: AtomicU64,
    hashes: HashMap<String, String>,
    /// Of no name, but as expensive as the others: so that nobody learns from the time which names there are.
    decoy: String,
}

/// Of a file as it was read.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
    length: u64,
}

#[derive(Default)]
struct Digests {
    right: HashSet<[u8; 32]>,
    wrong: HashSet<[u8; 32]>,
}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordFile({})", self.path.display())
    }
}

impl PasswordFile {
    pub fn new(path: &Path) -> PasswordFile {
        PasswordFile {
            path: path.to_owned(),
            number: NUMBERS.fetch_add(1, Relaxed),
            read: Mutex::default(),
            digests: Mutex::default(),
            key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok(),
            said: AtomicU64::new(0),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it should be said now that the file can't be used: not with each request.
    pub fn says(&self) -> bool {
        let (now, said) = (clock::now(), self.said.load(Relaxed));
        let is_due = said == 0 || now.saturating_sub(said) > SAID;
        is_due && self.said.compare_exchange(said, now, Relaxed, Relaxed).is_ok()
    }

    /// Whether the password was proved, and the file has been looked at just now. It never waits.
    pub fn knows(&self, name: &str, password: &Secret) -> bool {
        let Some(lines) = self.read.lock().clone().filter(|lines| lines.is_fresh()) else { return false };
        let digest = lines.hashes.get(name).and_then(|hash| self.digest(name, password, hash));
        digest.is_some_and(|digest| self.digests.lock().right.contains(&digest))
    }

    /// What a name and a password are, by the file as it is now. What is known costs nothing: neither those who are let
    /// in nor a browser that repeats an old password are counted. All else counts as a failure until it is proved.
    ///
    /// # Errors
    /// The file can't be used: nobody comes in.
    pub async fn check(
        self: &Arc<Self>,
        name: &str,
        password: &Secret,
        from: Source,
    ) -> Result<Verdict, PasswordFileError> {
        let lines = self.lines().await?;
        let digest = self.digest(name, password, lines.line_of(name));
        let too_often = |wait: sign_in::RetryAfter| Ok(Verdict::TooOften(Duration::from_millis(wait.0)));
        if let Some(known) = self.recall(digest) {
            return Ok(known);
        }
        if let Err(wait) = from.failures.check(from.address, None, clock::unix_millis()) {
            return too_often(wait);
        }
        let Some(turn) = turn().await else { return Ok(Verdict::Busy) };
        // Another request with it may have had its turn before.
        if let Some(known) = self.recall(digest) {
            return Ok(known);
        }
        if let Err(wait) = from.failures.attempt(from.address, None, clock::unix_millis()) {
            return too_often(wait);
        }
        let known = lines.hashes.get(name).cloned();
        let (file, own, hash) = (self.clone(), password.clone(), known.clone().unwrap_or_else(|| lines.decoy.clone()));
        // A client that goes away ends its request and not the hash: all that belongs to it is done here.
        let checking = tokio::task::spawn_blocking(move || {
            let is_right = is_of(&hash, &own) && known.is_some();
            if is_right {
                from.failures.take_back(from.address, None);
            }
            if let Some(digest) = digest {
                file.digests.lock().keep(digest, is_right);
            }
            drop(turn);
            is_right
        });
        Ok(if checking.await.unwrap_or(false) { Verdict::Right } else { Verdict::Wrong })
    }

    /// None: it has to be checked.
    fn recall(&self, digest: Option<[u8; 32]>) -> Option<Verdict> {
        let (digest, digests) = (digest?, self.digests.lock());
        let (is_right, is_wrong) = (digests.right.contains(&digest), digests.wrong.contains(&digest));
        is_right.then_some(Verdict::Right).or(is_wrong.then_some(Verdict::Wrong))
    }

    /// Reads the file, for those who want to know of mistakes before a visitor comes.
    pub fn load(&self) -> Result<(), PasswordFileError> {
        self.current().map(drop)
    }

    async fn lines(self: &Arc<Self>) -> Result<Arc<Lines>, PasswordFileError> {
        if let Some(lines) = self.read.lock().clone().filter(|lines| lines.is_fresh()) {
            return Ok(lines);
        }
        let file = self.clone();
        match tokio::task::spawn_blocking(move || file.current()).await {
            Ok(read) => read,
            Err(_) => Err(self.unreadable(io::Error::other("the server is ending"))),
        }
    }

    /// The lines as they are in the file now.
    fn current(&self) -> Result<Arc<Lines>, PasswordFileError> {
        let stamp = Stamp::of(&self.path).map_err(|error| self.unreadable(error))?;
        let known = self.read.lock().clone();
        if let Some(lines) = known.filter(|lines| lines.stamp == stamp) {
            lines.looked.store(clock::now(), Relaxed);
            return Ok(lines);
        }
        let read = self.parsed(stamp);
        // A file that has become wrong lets nobody in any more.
        *self.read.lock() = read.as_ref().ok().cloned();
        read
    }

    fn parsed(&self, stamp: Stamp) -> Result<Arc<Lines>, PasswordFileError> {
        let real = fs::canonicalize(&self.path).map_err(|error| self.unreadable(error))?;
        let bytes = private_file::read(&real, MAX_FILE + 1).map_err(|error| self.unreadable(error))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(PasswordFileError::TooLarge(self.path.clone()));
        }
        let text = String::from_utf8(bytes).map_err(|_| PasswordFileError::NotUtf8(self.path.clone()))?;
        let hashes =
            hashes(&text).map_err(|(line, why)| PasswordFileError::Line { file: self.path.clone(), line, why })?;
        let Some(decoy) = decoy(&hashes) else {
            return Err(PasswordFileError::Empty(self.path.clone()));
        };
        Ok(Arc::new(Lines { stamp, looked: AtomicU64::new(clock::now()), hashes, decoy }))
    }

    fn unreadable(&self, error: io::Error) -> PasswordFileError {
        PasswordFileError::Unreadable { file: self.path.clone(), error }
    }

    /// `line`: the hash that stands behind the name.
    fn digest(&self, name: &str, password: &Secret, line: &str) -> Option<[u8; 32]> {
        let mut context = hmac::Context::with_key(self.key.as_ref()?);
        for part in [name, password.expose(), line] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        context.sign().as_ref().try_into().ok()
    }
}

impl Lines {
    fn is_fresh(&self) -> bool {
        clock::now().saturating_sub(self.looked.load(Relaxed)) < FRESH
    }

    /// The hash of a name. Empty: the file does not have it.
    fn line_of(&self, name: &str) -> &str {
        self.hashes.get(name).map_or("", String::as_str)
    }
}

impl Digests {
    fn keep(&mut self, digest: [u8; 32], is_right: bool) {
        let kept = if is_right { &mut self.right } else { &mut self.wrong };
        if kept.len() >= MAX_DIGESTS {
            kept.clear();
        }
        kept.insert(digest);
    }
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(path)?;
        Ok(Stamp { modified: found.modified().ok(), inode: found.ino(), length: found.len() })
    }
}

fn most_checks() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

/// A place among those that are checked. None: too many wait already.
async fn turn() -> Option<OwnedSemaphorePermit> {
    struct Waiting;
    impl Drop for Waiting {
        fn drop(&mut self) {
            WAITING.fetch_sub(1, Relaxed);
        }
    }
    let before = WAITING.fetch_add(1, Relaxed);
    let _waiting = Waiting;
    if before >= MAX_WAITING {
        return None;
    }
    tokio::time::timeout(PATIENCE, CHECKS.clone().acquire_owned()).await.ok()?.ok()
}

/// The hashes of a file by name. Err: the line that is wrong, from 1.
fn hashes(text: &str) -> Result<HashMap<String, String>, (usize, LineError)> {
    let mut hashes = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why| (number, why);
        let (name, hash) = line.split_once(':').ok_or(wrong(LineError::Form))?;
        if name.is_empty() || hash.is_empty() {
            return Err(wrong(LineError::Form));
        }
        check_hash(name, hash).map_err(wrong)?;
        if hashes.insert(name.to_owned(), hash.to_owned()).is_some() {
            return Err(wrong(LineError::Twice(name.into())));
        }
    }
    Ok(hashes)
}

/// A hash of the kind and cost that most of them have. None: there are none.
fn decoy(hashes: &HashMap<String, String>) -> Option<String> {
    let mut kinds: HashMap<&str, (usize, &String)> = HashMap::new();
    for hash in hashes.values() {
        kinds.entry(kind(hash)).or_insert((0, hash)).0 += 1;
    }
    let commonest = kinds.into_iter().max_by_key(|(kind, (count, _))| (*count, *kind));
    commonest.map(|(_, (_, hash))| hash.clone())
}

/// The part of a hash that says how long its check takes.
fn kind(hash: &str) -> &str {
    if is_bcrypt(hash) {
        hash.get(4..6).unwrap_or_default()
    } else {
        // Salt and hash are the last two parts.
        hash.rsplitn(3, '$').last().unwrap_or_default()
    }
}

fn is_bcrypt(hash: &str) -> bool {
    ["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|start| hash.starts_with(start))
}

fn check_hash(name: &str, hash: &str) -> Result<(), LineError> {
    let damaged = || LineError::Damaged(name.into());
    if is_bcrypt(hash) {
        let parts: bcrypt::HashParts = hash.parse().map_err(|_| damaged())?;
        return match parts.get_cost() {
            cost if cost > MAX_COST => Err(LineError::Cost(cost)),
            _ => Ok(()),
        };
    }
    if !hash.starts_with("$argon2") {
        return Err(LineError::Hash(name.into()));
    }
    let parsed = PasswordHash::new(hash).map_err(|_| damaged())?;
    let params = Params::try_from(&parsed).map_err(|_| damaged())?;
    match params.m_cost() {
        memory if memory > MAX_MEMORY => Err(LineError::Memory(memory)),
        _ if parsed.hash.is_none() || parsed.salt.is_none() => Err(damaged()),
        _ => Ok(()),
    }
}

/// Whether it is the hash of this password.
fn is_of(hash: &str, password: &Secret) -> bool {
    if is_bcrypt(hash) {
        bcrypt::verify(password.expose(), hash).unwrap_or(false)
    } else {
        Argon2::default().verify_password(password.expose().as_bytes(), hash).is_ok()
    }
}

#[cfg(test)]
mod tests;
