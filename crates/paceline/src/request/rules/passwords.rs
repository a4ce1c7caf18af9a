//! Names and passwords of a file: lines `name:hash` with bcrypt or argon2, read again when the file changes. A hash takes
//! a while by design, so it is checked away from the event loop, a few at a time; a password that was proved is known by
//! a keyed digest for as long as its line stays the same. It keeps no password.

use std::{
    collections::{HashMap, HashSet},
    fmt, fs, io,
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
use tokio::sync::Semaphore;

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
static CHECKS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))));
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

    /// What is known of a name and a password, by the file as it is now. None: they have to be checked.
    ///
    /// # Errors
    /// The file can't be used: nobody comes in.
    pub async fn recall(self: &Arc<Self>, name: &str, password: &Secret) -> Result<Option<Verdict>, PasswordFileError> {
        let lines = self.lines().await?;
        let Some(digest) = self.digest(name, password, lines.line_of(name)) else { return Ok(None) };
        let digests = self.digests.lock();
        let (is_right, is_wrong) = (digests.right.contains(&digest), digests.wrong.contains(&digest));
        Ok(is_right.then_some(Verdict::Right).or(is_wrong.then_some(Verdict::Wrong)))
    }

    /// Checks a name and a password.
    ///
    /// # Errors
    /// The file can't be used: nobody comes in.
    pub async fn check(self: &Arc<Self>, name: &str, password: &Secret) -> Result<Verdict, PasswordFileError> {
        let lines = self.lines().await?;
        let Some(_turn) = turn().await else { return Ok(Verdict::Busy) };
        let (known, own) = (lines.hashes.get(name).cloned(), password.clone());
        let hash = known.clone().unwrap_or_else(|| lines.decoy.clone());
        let checked = tokio::task::spawn_blocking(move || is_of(&hash, &own)).await;
        let is_right = checked.unwrap_or(false) && known.is_some();
        if let Some(digest) = self.digest(name, password, lines.line_of(name)) {
            self.digests.lock().keep(digest, is_right);
        }
        Ok(if is_right { Verdict::Right } else { Verdict::Wrong })
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
        let Some(decoy) = hashes.values().next().cloned() else {
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

/// A place among those that are checked. None: too many wait already.
async fn turn() -> Option<tokio::sync::SemaphorePermit<'static>> {
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
    tokio::time::timeout(PATIENCE, CHECKS.acquire()).await.ok()?.ok()
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
    match is_bcrypt(hash) {
        true => bcrypt::verify(password.expose(), hash).unwrap_or(false),
        false => Argon2::default().verify_password(password.expose().as_bytes(), hash).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    /// Of "password", by `htpasswd -nbBC 4`, and by argon2's reference implementation.
    const BCRYPT: &str = "$2y$04$sSViL2OFEAjZyEHOBASyAOxgRdqX/SO3N1Ok4MEEZ4H6bFxiOz7u6";
    const ARGON2: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    fn right() -> Secret {
        Secret::new("password")
    }

    fn waited<T>(future: impl std::future::Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn check(file: &Arc<PasswordFile>, name: &str, password: &str) -> Result<Verdict, PasswordFileError> {
        waited(file.check(name, &Secret::new(password)))
    }

    fn recalled(file: &Arc<PasswordFile>, name: &str, password: &str) -> Option<Verdict> {
        waited(file.recall(name, &Secret::new(password))).unwrap()
    }

    #[test]
    fn hashes_of_both_kinds() {
        for hash in [BCRYPT, ARGON2] {
            assert!(is_of(hash, &right()) && !is_of(hash, &Secret::new("Password")) && !is_of(hash, &Secret::new("")));
        }
    }

    #[test]
    fn a_file_with_its_mistakes() {
        let good = format!("# staff\n\nalice:{BCRYPT}\n bob:{ARGON2} \n");
        assert_eq!(hashes(&good).unwrap().len(), 2);
        for (line, why) in [
            ("alice", LineError::Form),
            (":x", LineError::Form),
            ("alice:", LineError::Form),
            ("alice:{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=", LineError::Hash("alice".into())),
            ("alice:$apr1$abc$def", LineError::Hash("alice".into())),
            ("alice:plain", LineError::Hash("alice".into())),
            ("alice:$2y$05$short", LineError::Damaged("alice".into())),
            ("alice:$argon2id$v=19$m=8,t=1,p=1$x", LineError::Damaged("alice".into())),
        ] {
            assert_eq!(hashes(&format!("\n{line}\n")).unwrap_err(), (2, why), "{line}");
        }
        let costly = BCRYPT.replacen("$04$", "$20$", 1);
        assert_eq!(hashes(&format!("a:{costly}")).unwrap_err(), (1, LineError::Cost(20)));
        let large = ARGON2.replacen("m=256,", "m=4194304,", 1);
        assert_eq!(hashes(&format!("a:{large}")).unwrap_err(), (1, LineError::Memory(4 << 20)));
        assert_eq!(hashes(&format!("a:{BCRYPT}\na:{BCRYPT}")).unwrap_err(), (2, LineError::Twice("a".into())));
    }

    #[test]
    fn what_was_proved_is_known_until_its_line_changes() {
        let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\n"))]);
        let file = Arc::new(PasswordFile::new(&folder.0.join("staff")));
        assert!(!file.knows("alice", &right()), "nothing has been read");
        assert_eq!(check(&file, "alice", "password").unwrap(), Verdict::Right);
        assert!(file.knows("alice", &right()));
        assert!(!file.knows("alice", &Secret::new("other")) && !file.knows("bob", &right()));
        assert_eq!(check(&file, "alice", "other").unwrap(), Verdict::Wrong);
        assert_eq!(recalled(&file, "alice", "other"), Some(Verdict::Wrong));
        assert_eq!(recalled(&file, "alice", "password"), Some(Verdict::Right));
        assert_eq!(recalled(&file, "bob", "password"), None);
        assert_eq!(check(&file, "bob", "password").unwrap(), Verdict::Wrong);
        // Another line for alice: what was proved before proves nothing.
        folder.write("staff", &format!("alice:{ARGON2}\nbob:{BCRYPT}\n"));
        file.load().unwrap();
        assert!(!file.knows("alice", &right()));
        assert_eq!(recalled(&file, "alice", "password"), None);
        assert_eq!(check(&file, "alice", "password").unwrap(), Verdict::Right);
        assert_eq!(recalled(&file, "bob", "password"), None, "what was wrong without a line may be right with one");
        assert_eq!(check(&file, "bob", "password").unwrap(), Verdict::Right);
    }

    #[test]
    fn a_file_that_is_wrong_lets_nobody_in() {
        let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\n")), ("empty", "# nobody\n")]);
        let file = Arc::new(PasswordFile::new(&folder.0.join("staff")));
        assert_eq!(check(&file, "alice", "password").unwrap(), Verdict::Right);
        folder.write("staff", &format!("alice:{BCRYPT}\nbob:plain\n"));
        let error = file.load().unwrap_err().to_string();
        assert!(
            error.ends_with(
                "staff:2: has a hash that is neither bcrypt nor argon2: make a new one with htpasswd -B FILE bob"
            ),
            "{error}"
        );
        assert!(!file.knows("alice", &right()) && check(&file, "alice", "password").is_err());
        for name in ["empty", "none"] {
            let file = PasswordFile::new(&folder.0.join(name));
            assert!(file.load().is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_of_a_password_is_kept() {
        let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\n"))]);
        let [one, other] = [(); 2].map(|()| Arc::new(PasswordFile::new(&folder.0.join("staff"))));
        let digest = |file: &PasswordFile| file.digest("alice", &right(), BCRYPT);
        assert_ne!(digest(&one), digest(&other), "the key is each file's own");
        assert_ne!(one.digest("a", &Secret::new("bc"), ""), one.digest("ab", &Secret::new("c"), ""));
        assert_eq!(format!("{one:?}"), format!("PasswordFile({})", folder.0.join("staff").display()));
    }

    #[test]
    fn memory_is_bounded_however_many_passwords_are_tried() {
        let file = PasswordFile::new(Path::new("/none"));
        let mut digests = Digests::default();
        for number in 0..5 * MAX_DIGESTS {
            let digest = file.digest(&number.to_string(), &right(), "").unwrap();
            digests.keep(digest, number % 2 == 0);
        }
        assert!((1..=MAX_DIGESTS).contains(&digests.wrong.len()) && (1..=MAX_DIGESTS).contains(&digests.right.len()));
    }
}
