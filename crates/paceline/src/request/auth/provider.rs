//! One way for people to sign in: what checks their tickets and passwords, where their sessions are, and how often
//! somebody may fail. Areas of a site with the same settings share it. It never speaks HTTP and never logs.

use std::{
    net::IpAddr,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc,
    },
    time::{Duration, Instant, UNIX_EPOCH},
};

use negotiate::{keytab::Keytab, Acceptor, Answer, ChannelBindings, Conversation, Principal};
use openid::Provider;
use secret::Secret;
use sign_in::{
    CookieName, FailureLimit, Failures, Identity, Limits, Mechanism, NewSession, RetryAfter, Session, Sessions,
};

use super::opening::{self, Closed, Opened};
use crate::config::parts::sign_on::{Basic, Kerberos, KerberosGroups, LocalName, OpenId, SignOn, Store};

/// Tickets that are refused. Nobody guesses one, and a whole company may come from one address.
const TICKETS: FailureLimit = FailureLimit { failures: 600, within: 600_000 };
/// Logins that are begun from an address. Their number in the store is bounded, so nobody may push out all others.
const LOGINS: FailureLimit = FailureLimit { failures: 600, within: 600_000 };
/// Sessions that one name gets. A program that keeps no cookies has no use for one with each request.
const SESSIONS: FailureLimit = FailureLimit { failures: 60, within: 600_000 };
/// How long a password waits while others that are being checked may yet turn out to be right.
const GUESSES_WAIT: Duration = Duration::from_secs(5);

/// The settings by which two areas have the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaySettings {
    pub kerberos: Option<Kerberos>,
    pub basic: Option<Basic>,
    pub oidc: Option<OpenId>,
    pub local: LocalName,
    pub lifetime: Duration,
    pub idle: Option<Duration>,
    pub store: Store,
}

impl WaySettings {
    pub fn of(sign_on: &SignOn) -> WaySettings {
        WaySettings {
            kerberos: sign_on.kerberos.clone(),
            basic: sign_on.basic.clone(),
            oidc: sign_on.oidc.clone(),
            local: sign_on.local,
            lifetime: sign_on.lifetime,
            idle: sign_on.idle,
            store: sign_on.store.clone(),
        }
    }

    /// Names the sessions of this way. Who was signed in by other people's word is signed in no longer.
    fn realm(&self, site: &str) -> String {
        let kerberos = self.kerberos.as_ref().map(|kerberos| (&kerberos.keytab, &kerberos.realms, kerberos.ntlm));
        let basic = self.basic.as_ref().map(|basic| (&basic.ldap, &basic.base, &basic.person_filter));
        let oidc = self.oidc.as_ref().map(|oidc| (&oidc.issuer, &oidc.client_id, &oidc.name_claim));
        format!("{site}\0{kerberos:?}\0{basic:?}\0{oidc:?}\0{:?}", self.local)
    }
}

/// One way to sign in.
pub struct Way {
    pub settings: WaySettings,
    pub sessions: Opened<Sessions>,
    pub acceptor: Option<Opened<Acceptor>>,
    pub directory: Option<Opened<directory::Directory>>,
    pub provider: Option<Opened<Provider>>,
    /// The cookie of its sessions, and that of a browser which is signing in.
    pub cookie: CookieName,
    pub login: CookieName,
    tickets: Failures,
    passwords: Failures,
    /// Passwords that are being checked.
    guesses: AtomicUsize,
    sessions_made: Failures,
    logins_begun: Failures,
}

/// Why somebody is not signed in.
#[derive(Debug)]
pub enum Fault {
    /// Theirs. What it is called in the log, and what is said of it there.
    Denied {
        kind: &'static str,
        text: String,
    },
    /// The next token has to come on this connection.
    Continues(Vec<u8>),
    /// Only a connection of HTTP/1.1 can be signed in.
    NeedsHttp1,
    TooOften(RetryAfter),
    /// This server's, or that of what it asks.
    Ours {
        kind: &'static str,
        text: String,
    },
}

impl From<Closed> for Fault {
    fn from(closed: Closed) -> Fault {
        Fault::Ours { kind: "not-open", text: closed.to_string() }
    }
}

impl From<sign_in::Error> for Fault {
    fn from(error: sign_in::Error) -> Fault {
        Fault::Ours { kind: "sessions", text: error.to_string() }
    }
}

/// Whom a ticket has signed in, and the token by which the browser knows the server.
pub struct Accepted {
    pub proof: NewSession,
    pub reply: Vec<u8>,
}

/// A password that is being checked, until it is dropped: a client may go away meanwhile.
struct Guess<'a>(&'a AtomicUsize);

impl Guess<'_> {
    fn begin(count: &AtomicUsize) -> Guess<'_> {
        count.fetch_add(1, Relaxed);
        Guess(count)
    }
}

impl Drop for Guess<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Way {
    /// `number`: of the ways of the site, from 0.
    pub fn new(settings: WaySettings, site: &str, number: usize) -> Way {
        let name = if number == 0 { site.to_owned() } else { format!("{site}-{}", number + 1) };
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let limits = Limits { lifetime: millis(settings.lifetime), idle: settings.idle.map(millis), ..Limits::DEFAULT };
        let (store, realm) = (settings.store.clone(), settings.realm(site));
        let sessions = Opened::new(move || Ok(Sessions::new(opening::store(&store)?, limits, realm.clone())));
        let max = Failures::MAX;
        Way {
            sessions,
            acceptor: settings.kerberos.clone().map(|kerberos| Opened::new(move || opening::acceptor(&kerberos))),
            directory: settings.basic.clone().map(|basic| Opened::new(move || opening::directory(&basic))),
            provider: settings.oidc.clone().map(|oidc| Opened::new(move || opening::provider(&oidc))),
            cookie: CookieName::of_session(&name),
            login: CookieName::of_login(&name),
            tickets: Failures::new(Some(TICKETS), None, max),
            passwords: Failures::new(Some(Failures::BY_ADDRESS), Some(Failures::BY_NAME), max),
            guesses: AtomicUsize::new(0),
            sessions_made: Failures::new(None, Some(SESSIONS), max),
            logins_begun: Failures::new(Some(LOGINS), None, max),
            settings,
        }
    }

    /// Opens what it needs. What can't be.
    pub async fn open(&self) -> Vec<String> {
        let mut problems = Vec::new();
        problems.extend(self.sessions.get().await.err().map(|closed| closed.to_string()));
        if let Some(acceptor) = &self.acceptor {
            problems.extend(acceptor.get().await.err().map(|closed| closed.to_string()));
        }
        if let Some(directory) = &self.directory {
            problems.extend(directory.get().await.err().map(|closed| closed.to_string()));
        }
        if let Some(provider) = &self.provider {
            problems.extend(provider.get().await.err().map(|closed| closed.to_string()));
        }
        problems
    }

    /// Checks a token of Negotiate. `conversation`: that of the connection.
    pub async fn ticket(
        &self,
        token: Result<Vec<u8>, negotiate::Refusal>,
        conversation: &mut Conversation,
        bindings: Option<ChannelBindings>,
        address: IpAddr,
        now: u64,
    ) -> Result<Accepted, Fault> {
        self.tickets.check(address, None, now).map_err(Fault::TooOften)?;
        let acceptor = match &self.acceptor {
            Some(acceptor) => acceptor.get().await?,
            None => return Err(Fault::Denied { kind: "not-offered", text: "Kerberos is not offered here".into() }),
        };
        let answer = match token {
            Ok(token) => acceptor.accept(conversation, token, bindings).await,
            Err(refusal) => Answer::Refused(refusal),
        };
        match answer {
            Answer::Continue { reply } => Err(Fault::Continues(reply)),
            Answer::Accepted { principal, reply } => Ok(Accepted { proof: self.proof_of(principal).await?, reply }),
            Answer::Refused(refusal) => {
                let advice = refusal.advice().map_or_else(String::new, |advice| format!(" {advice}"));
                let (kind, text) = (refusal.kind(), format!("{refusal}.{advice}"));
                if refusal.is_ours() {
                    return Err(Fault::Ours { kind, text });
                }
                self.tickets.failed(address, None, now);
                Err(Fault::Denied { kind, text })
            }
        }
    }

    /// Checks a name and a password.
    pub async fn password(
        &self,
        name: &str,
        password: &Secret,
        address: IpAddr,
        now: u64,
    ) -> Result<NewSession, Fault> {
        let directory = match &self.directory {
            Some(directory) => directory.get().await?,
            None => return Err(Fault::Denied { kind: "not-offered", text: "passwords are not taken here".into() }),
        };
        self.may_guess(name, address, now).await.map_err(Fault::TooOften)?;
        let guess = Guess::begin(&self.guesses);
        let answer = directory.authenticate(name, password).await;
        drop(guess);
        match answer {
            Ok(person) => {
                self.passwords.take_back(address, Some(name));
                self.passwords.succeeded(name);
                Ok(proof(
                    Mechanism::Basic,
                    Identity { name: person.name, groups: person.groups, ..Identity::default() },
                ))
            }
            Err(directory::Failure::Denied(denial)) => {
                Err(Fault::Denied { kind: "password", text: denial.to_string() })
            }
            Err(failure) => {
                self.passwords.take_back(address, Some(name));
                Err(Fault::Ours { kind: "directory", text: failure.to_string() })
            }
        }
    }

    /// Counts a guess before it is known whether it is right. While others are being checked, it may be that only those
    /// are in the way: the requests of one page are many, too.
    async fn may_guess(&self, name: &str, address: IpAddr, now: u64) -> Result<(), RetryAfter> {
        let begun = Instant::now();
        loop {
            match self.passwords.attempt(address, Some(name), now) {
                Err(_) if self.guesses.load(Relaxed) > 0 && begun.elapsed() < GUESSES_WAIT => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                answer => return answer,
            }
        }
    }

    /// Counts a login that failed, of whom nobody knows the name.
    pub fn failed_login(&self, address: IpAddr, now: u64) {
        self.tickets.failed(address, None, now);
    }

    /// Whether somebody may try again.
    pub fn may_try(&self, address: IpAddr, now: u64) -> Result<(), RetryAfter> {
        self.tickets.check(address, None, now)
    }

    /// Whether a login may be begun from there.
    pub fn may_begin_login(&self, address: IpAddr, now: u64) -> Result<(), RetryAfter> {
        self.logins_begun.check(address, None, now)?;
        self.logins_begun.failed(address, None, now);
        Ok(())
    }

    /// Whether a session is made for a client that may keep no cookies.
    pub fn may_make_session(&self, name: &str, address: IpAddr, now: u64) -> bool {
        let may = self.sessions_made.check(address, Some(name), now).is_ok();
        if may {
            self.sessions_made.failed(address, Some(name), now);
        }
        may
    }

    /// A session that is not kept: for this request alone.
    pub fn session_once(&self, proof: NewSession, now: u64) -> Arc<Session> {
        Arc::new(Session::new(proof, &Limits::DEFAULT, now))
    }

    async fn proof_of(&self, principal: Principal) -> Result<NewSession, Fault> {
        let home = self.home();
        let is_home = home.as_deref().is_some_and(|home| is_of(&principal, home));
        let groups = self.groups_of(&principal, is_home).await?;
        let name = local_name(&principal, is_home, self.settings.local);
        let mechanism = match principal.mechanism {
            negotiate::Mechanism::Kerberos => Mechanism::Kerberos,
            negotiate::Mechanism::Ntlm => Mechanism::Ntlm,
        };
        let subject = Some(format!("{}@{}", principal.name, principal.realm));
        let expires = principal.expires.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let proved_until = expires.and_then(|time| u64::try_from(time.as_millis()).ok());
        Ok(NewSession { proved_until, ..proof(mechanism, Identity { name, groups, subject, sid: None }) })
    }

    /// The realm whose people are known by their names alone: the first that may sign in, or the keytab's only one.
    fn home(&self) -> Option<String> {
        let kerberos = self.settings.kerberos.as_ref()?;
        match kerberos.realms.first() {
            Some(first) => Some(first.clone()),
            None => {
                let mut realms = Keytab::read(&kerberos.keytab).ok()?.realms();
                (realms.len() == 1).then(|| realms.swap_remove(0))
            }
        }
    }

    async fn groups_of(&self, principal: &Principal, is_home: bool) -> Result<Vec<String>, Fault> {
        let has_account = self.settings.basic.as_ref().is_some_and(|basic| basic.account.is_some());
        let usual = if has_account { KerberosGroups::Ldap } else { KerberosGroups::Ticket };
        let wanted = self.settings.kerberos.as_ref().and_then(|kerberos| kerberos.groups).unwrap_or(usual);
        let directory = match (wanted, &self.directory) {
            (KerberosGroups::None, _) => return Ok(Vec::new()),
            (KerberosGroups::Ldap, Some(directory)) => directory.get().await?,
            _ => return Ok(principal.groups.clone()),
        };
        let found = if !principal.groups.is_empty() {
            directory.group_names(&principal.groups).await
        } else if is_home {
            directory.groups(&principal.name).await
        } else {
            // The directory may have somebody else of this name.
            return Ok(Vec::new());
        };
        match found {
            Ok(groups) => Ok(groups),
            Err(directory::Failure::Denied(_)) => Ok(Vec::new()),
            Err(failure) => Err(Fault::Ours { kind: "directory", text: failure.to_string() }),
        }
    }
}

fn proof(mechanism: Mechanism, identity: Identity) -> NewSession {
    NewSession { identity, mechanism, provider: None, proved_until: None, refresh_token: None, id_token: None }
}

/// Of NTLM the domain's short name is the first label of the realm.
fn is_of(principal: &Principal, home: &str) -> bool {
    match principal.mechanism {
        negotiate::Mechanism::Kerberos => principal.realm == home,
        negotiate::Mechanism::Ntlm => {
            let short = home.split('.').next().unwrap_or_default();
            [home, short].iter().any(|name| principal.realm.eq_ignore_ascii_case(name))
        }
    }
}

/// REMOTE_USER. A name that has an `@` itself keeps its realm, or it would be the name of somebody of another one.
fn local_name(principal: &Principal, is_home: bool, local: LocalName) -> String {
    match local {
        LocalName::StripRealm if is_home && !principal.name.contains('@') => principal.name.clone(),
        _ => format!("{}@{}", principal.name, principal.realm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(name: &str, realm: &str, mechanism: negotiate::Mechanism) -> Principal {
        let (groups, sid, expires) = (Vec::new(), None, None);
        Principal { name: name.into(), realm: realm.into(), groups, sid, expires, mechanism, bound: false }
    }

    #[test]
    fn nobody_of_another_realm_has_a_name_of_ours() {
        use negotiate::Mechanism::{Kerberos, Ntlm};
        let name = |name, realm, mechanism| {
            let principal = principal(name, realm, mechanism);
            local_name(&principal, is_of(&principal, "A.TEST"), LocalName::StripRealm)
        };
        assert_eq!(name("alice", "A.TEST", Kerberos), "alice");
        assert_eq!(name("alice", "B.TEST", Kerberos), "alice@B.TEST");
        assert_eq!(name("alice", "a.test", Kerberos), "alice@a.test");
        assert_eq!(name("alice@B.TEST", "A.TEST", Kerberos), "alice@B.TEST@A.TEST");
        assert_eq!(name("alice", "a", Ntlm), "alice");
        assert_eq!(name("alice", "B", Ntlm), "alice@B");
        let kept = principal("alice", "A.TEST", Kerberos);
        assert_eq!(local_name(&kept, true, LocalName::Keep), "alice@A.TEST");
    }
}
