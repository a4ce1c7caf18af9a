//! What can be asked of a directory: is this the person's password, in which groups are they, what are these groups
//! called. One connection stays open for searches, a person's password gets one of its own, and all of them live on one
//! thread. It never tries a password twice.

use std::{future::Future, sync::Arc, thread, time::Instant};

use parking_lot::Mutex;
use ring::{hmac, rand::SystemRandom};
use tokio::{
    runtime::{Builder, Handle},
    sync::{oneshot, Semaphore},
    time::timeout,
};

use crate::{
    cache::Cache,
    failure::Denial,
    query,
    session::{words, Bind, Dialing, Entry, SearchError, Session},
    settings::{Kind, Settings},
    trust, Failure, Secret,
};

/// Questions at the same time. Others wait, within their time.
const MAX_AT_ONCE: usize = 16;
/// Longest password (bytes).
const MAX_PASSWORD: usize = 4096;

/// Somebody of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// As the directory writes it: `alice`, even if `ALICE` was typed.
    pub name: String,
    pub dn: String,
    pub mail: Option<String>,
    /// Names of groups, groups in groups too, in order.
    pub groups: Vec<String>,
}

/// A server that answers, for a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub url: String,
    pub kind: Kind,
    /// Whether the account that searches was let in. None: there is no such account.
    pub account: Option<bool>,
}

/// Shared by all that ask. Its thread ends when it is dropped.
pub struct Directory {
    shared: Arc<Shared>,
    runtime: Handle,
    /// Dropped, it ends the thread.
    _running: oneshot::Sender<()>,
}

struct Shared {
    settings: Settings,
    dialing: Dialing,
    /// The connection for searches, signed in as the account.
    session: tokio::sync::Mutex<Option<Session>>,
    turns: Semaphore,
    /// Hashes names and passwords, so that no password lies in memory. The key is of this process.
    key: hmac::Key,
    people: Mutex<Cache<Vec<u8>, Person>>,
    groups: Mutex<Cache<String, Vec<String>>>,
    names: Mutex<Cache<Vec<String>, Vec<String>>>,
}

impl Directory {
    /// Checks the settings and starts the thread. No server has to answer yet.
    ///
    /// # Errors
    /// The settings make no sense, the certificates can't be read, or the system gives no thread.
    pub fn open(settings: Settings) -> Result<Directory, Failure> {
        let urls = settings.check()?;
        let tls = trust::config(settings.ca_file.as_deref()).map_err(|why| Failure::Settings(why.to_string()))?;
        let system = |what: &dyn std::fmt::Display| Failure::Settings(format!("the system: {what}"));
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|error| system(&error))?;
        let share = u32::try_from(urls.len()).unwrap_or(u32::MAX).saturating_add(1);
        let dialing = Dialing { urls, tls, starttls: settings.starttls, timeout: settings.timeout / share };
        let (ttl, max) = (settings.cache_ttl, settings.cache_entries);
        let shared = Shared {
            dialing,
            session: tokio::sync::Mutex::new(None),
            turns: Semaphore::new(MAX_AT_ONCE),
            key,
            people: Mutex::new(Cache::new(ttl, max)),
            groups: Mutex::new(Cache::new(ttl, max)),
            names: Mutex::new(Cache::new(ttl, max)),
            settings,
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| system(&error))?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("directory".into())
            .spawn(move || drop(runtime.block_on(ended)))
            .map_err(|error| system(&error))?;
        Ok(Directory { shared: Arc::new(shared), runtime: handle, _running: running })
    }

    /// Who this is, if the password is theirs.
    ///
    /// # Errors
    /// `Failure::Denied` if it is not, else why the directory does not say.
    pub async fn authenticate(&self, name: &str, password: &Secret) -> Result<Person, Failure> {
        query::check_name(name).map_err(Failure::Denied)?;
        match password.expose().len() {
            0 => return Err(Failure::Denied(Denial::EmptyPassword)),
            1..=MAX_PASSWORD => {}
            _ => return Err(Failure::Denied(Denial::WrongPassword)),
        }
        let key = self.shared.key_of(name, password);
        if let Some(person) = self.shared.people.lock().get(&key, Instant::now()) {
            return Ok(person);
        }
        let (name, password) = (name.to_owned(), password.clone());
        let person = self.ask(move |shared| async move { shared.authenticate(&name, &password).await }).await?;
        self.shared.people.lock().put(key, person.clone(), Instant::now());
        Ok(person)
    }

    /// The groups of somebody who has proved elsewhere who they are, by the name without its realm.
    ///
    /// # Errors
    /// Nobody or more than one has this name, there is no account to search as, or the directory does not answer.
    pub async fn groups(&self, name: &str) -> Result<Vec<String>, Failure> {
        query::check_name(name).map_err(Failure::Denied)?;
        if let Some(groups) = self.shared.groups.lock().get(name, Instant::now()) {
            return Ok(groups);
        }
        let asked = name.to_owned();
        let groups = self
            .ask(move |shared| async move {
                shared
                    .search(|mut session| {
                        let (shared, asked) = (shared.clone(), asked.clone());
                        async move {
                            let filter = session.person_filter(&shared.settings, &asked);
                            let entry = session.person(&shared.settings, &filter).await?;
                            session.groups(&shared.settings, &entry).await
                        }
                    })
                    .await
            })
            .await?;
        self.shared.groups.lock().put(name.to_owned(), groups.clone(), Instant::now());
        Ok(groups)
    }

    /// The names of the groups with these security identifiers, which a Kerberos ticket of Active Directory has
    /// (`S-1-5-21-...`). Those that the directory does not have are left out.
    ///
    /// # Errors
    /// There is no account to search as, or the directory does not answer.
    pub async fn group_names(&self, sids: &[String]) -> Result<Vec<String>, Failure> {
        if sids.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(names) = self.shared.names.lock().get(sids, Instant::now()) {
            return Ok(names);
        }
        let asked: Arc<[String]> = sids.into();
        let names = self
            .ask(move |shared| async move {
                shared
                    .search(|mut session| {
                        let (shared, asked) = (shared.clone(), asked.clone());
                        async move { session.names(&shared.settings, &asked).await }
                    })
                    .await
            })
            .await?;
        self.shared.names.lock().put(sids.to_vec(), names.clone(), Instant::now());
        Ok(names)
    }

    /// Which server answers, of which kind it is, and whether it lets the account in.
    ///
    /// # Errors
    /// None answers.
    pub async fn check(&self) -> Result<Server, Failure> {
        self.ask(|shared| async move {
            let mut session = Session::open(&shared.dialing, shared.settings.kind).await?;
            let account = match &shared.settings.account {
                None => None,
                Some((name, password)) => Some(matches!(session.bind(name, password).await, Ok(Bind::Yes))),
            };
            let server = Server { url: session.url.clone(), kind: session.kind, account };
            session.close().await;
            Ok(server)
        })
        .await
    }

    /// Forgets all answers: a person who was removed is gone at once.
    pub fn forget(&self) {
        self.shared.people.lock().clear();
        self.shared.groups.lock().clear();
        self.shared.names.lock().clear();
    }

    /// Has something asked on the directory's own thread, within its time.
    async fn ask<T, F>(&self, question: impl FnOnce(Arc<Shared>) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let limit = self.shared.settings.timeout;
        let question = question(self.shared.clone());
        let shared = self.shared.clone();
        let task = self.runtime.spawn(async move {
            let answer = async {
                // Nobody closes it.
                let _turn = shared.turns.acquire().await;
                question.await
            };
            match timeout(limit, answer).await {
                Ok(answer) => answer,
                Err(_) => {
                    // A connection that does not answer is of no use to the next one either.
                    if let Ok(mut held) = shared.session.try_lock() {
                        *held = None;
                    }
                    Err(Failure::TimedOut(limit))
                }
            }
        });
        task.await.unwrap_or(Err(Failure::Stopped))
    }
}

impl Shared {
    fn key_of(&self, name: &str, password: &Secret) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(name.len() as u64).to_be_bytes());
        context.update(name.as_bytes());
        context.update(password.expose().as_bytes());
        context.sign().as_ref().to_vec()
    }

    async fn authenticate(self: &Arc<Shared>, name: &str, password: &Secret) -> Result<Person, Failure> {
        match (&self.settings.account, &self.settings.person_dn) {
            (Some(_), _) => self.search_then_bind(name, password).await,
            (None, Some(template)) => self.bind_then_search(template, name, password).await,
            (None, None) => Err(Failure::Settings("nobody to search as".into())),
        }
    }

    /// The account finds the person's entry; the password is tried on that.
    async fn search_then_bind(self: &Arc<Shared>, name: &str, password: &Secret) -> Result<Person, Failure> {
        let name: Arc<str> = name.into();
        let entry = self
            .search(|mut session| {
                let (shared, name) = (self.clone(), name.clone());
                async move {
                    let filter = session.person_filter(&shared.settings, &name);
                    session.person(&shared.settings, &filter).await
                }
            })
            .await?;
        let mut own = Session::open(&self.dialing, self.settings.kind).await?;
        bound(&mut own, &entry.dn, password).await?;
        own.close().await;
        let entry = Arc::new(entry);
        let groups = self
            .search(|mut session| {
                let (shared, entry) = (self.clone(), entry.clone());
                async move { session.groups(&shared.settings, &entry).await }
            })
            .await?;
        Ok(person(&entry, groups))
    }

    /// The person signs in by a name that follows from theirs, and finds their own entry.
    async fn bind_then_search(&self, template: &str, name: &str, password: &Secret) -> Result<Person, Failure> {
        let bind_name = query::bind_name(template, name).map_err(Failure::Denied)?;
        let mut own = Session::open(&self.dialing, self.settings.kind).await?;
        bound(&mut own, &bind_name, password).await?;
        let entry = if bind_name.contains('=') {
            // Another branch may have somebody of the same name.
            own.person_at(&self.settings, &bind_name).await
        } else {
            self.entry_of_principal(&mut own, &bind_name, name).await
        };
        let entry = entry.map_err(failure)?;
        let groups = own.groups(&self.settings, &entry).await.map_err(failure)?;
        own.close().await;
        Ok(person(&entry, groups))
    }

    /// Active Directory takes `alice@example.com` for whom it is the principal name of, and only else for the account
    /// `alice`. So the entry is looked for in that order, or one person could sign in as another.
    async fn entry_of_principal(&self, own: &mut Session, principal: &str, name: &str) -> Result<Entry, SearchError> {
        match own.person(&self.settings, &query::principal(principal)).await {
            Err(SearchError::Denied(Denial::Unknown)) => {
                let filter = own.person_filter(&self.settings, name);
                own.person(&self.settings, &filter).await
            }
            other => other,
        }
    }

    /// Asks on the shared connection. If that has broken it is asked once more, on a new one.
    async fn search<T, F>(&self, question: impl Fn(Session) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, SearchError>>,
    {
        match question(self.session().await?).await {
            Err(SearchError::Connection(_)) => {
                *self.session.lock().await = None;
                question(self.session().await?).await.map_err(failure)
            }
            answer => answer.map_err(failure),
        }
    }

    /// The connection for searches.
    async fn session(&self) -> Result<Session, Failure> {
        let mut held = self.session.lock().await;
        if let Some(session) = held.as_mut() {
            if !session.is_closed() {
                return Ok(session.clone());
            }
        }
        *held = None;
        let Some((name, password)) = &self.settings.account else {
            return Err(Failure::Settings("no account to search as".into()));
        };
        let mut session = Session::open(&self.dialing, self.settings.kind).await?;
        match session.bind(name, password).await {
            Ok(Bind::Yes) => {}
            Ok(Bind::No(denial)) => return Err(Failure::Account(denial.to_string())),
            Ok(Bind::Refused(what)) => return Err(Failure::Account(what)),
            Err(error) => return Err(Failure::Unreachable(vec![(session.url.clone(), words(&error))])),
        }
        *held = Some(session.clone());
        Ok(session)
    }
}

/// Signs a person in on a connection of their own.
async fn bound(session: &mut Session, name: &str, password: &Secret) -> Result<(), Failure> {
    match session.bind(name, password).await {
        Ok(Bind::Yes) => Ok(()),
        Ok(Bind::No(denial)) => Err(Failure::Denied(denial)),
        Ok(Bind::Refused(what)) => Err(Failure::Search(what)),
        Err(error) => Err(Failure::Unreachable(vec![(session.url.clone(), words(&error))])),
    }
}

fn failure(error: SearchError) -> Failure {
    match error {
        SearchError::Denied(denial) => Failure::Denied(denial),
        SearchError::Server(what) => Failure::Search(what),
        SearchError::Connection(error) => Failure::Search(words(&error)),
    }
}

fn person(entry: &Entry, groups: Vec<String>) -> Person {
    Person { name: entry.name.clone(), dn: entry.dn.clone(), mail: entry.mail.clone(), groups }
}
