//! Accepts tokens: on threads of its own, since the library blocks; with the keytab as it is now; and lets in only
//! realms and services that the settings have. It keeps nothing of a token, and no delegated ticket.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};

use crate::{
    bindings::ChannelBindings,
    explain::explain,
    gss::{Context, Credential, Established, Gss, Step, LIBRARY},
    keytab::{Keytab, Stamp},
    pac,
    pool::Pool,
    principal::{split, split_ntlm, Mechanism, Principal},
    token::{sniff, Ticket, Token},
    Refusal,
};

/// Legs of a conversation. NTLM in SPNEGO has three.
const MAX_LEGS: u32 = 8;

/// Whether a ticket has to be made for the TLS connection that it comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BindingPolicy {
    /// For a server behind a proxy that ends TLS.
    Ignore,
    /// Checked if the client sends them.
    #[default]
    IfSent,
    Require,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub keytab: PathBuf,
    /// For which services tickets are accepted, beside being in the keytab: `HTTP` (every host, the default when this
    /// is empty), or `HTTP/web.example.com`.
    pub services: Vec<String>,
    /// Whose people may sign in. Empty: the realms of the keytab.
    pub realms: Vec<String>,
    /// Whether NTLM is accepted, by gss-ntlmssp. Then tickets are accepted for HTTP alone, whatever else the keytab has.
    pub ntlm: bool,
    pub bindings: BindingPolicy,
    /// The library's name for a replay cache, such as `file2:/run/paceline/replay`. None: the library's own choice,
    /// /var/tmp/krb5_UID.rcache2.
    pub replay_cache: Option<String>,
    /// Threads that check tokens.
    pub threads: usize,
    /// Tokens that may wait for one.
    pub queue: usize,
    /// For a token, from its coming to its answer.
    pub timeout: Duration,
    /// libgssapi_krb5. None: the system's.
    pub library: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            keytab: PathBuf::from("/etc/krb5.keytab"),
            services: Vec::new(),
            realms: Vec::new(),
            ntlm: false,
            bindings: BindingPolicy::default(),
            replay_cache: None,
            threads: 2,
            queue: 64,
            timeout: Duration::from_secs(10),
            library: None,
        }
    }
}

/// What one client has said so far. There is one for each connection, since NTLM proves who a connection is; it must
/// never be used for another one.
#[derive(Default)]
pub struct Conversation {
    context: Option<Context>,
    legs: u32,
}

impl Conversation {
    /// Whether a token of the client is awaited, so that the connection must stay the client's own.
    pub fn is_open(&self) -> bool {
        self.context.is_some()
    }
}

#[derive(Debug)]
pub enum Answer {
    /// 401 with this token; the same connection has to bring the next one.
    Continue {
        reply: Vec<u8>,
    },
    /// Signed in. The reply goes into the response: by it the client knows the server. Empty: there is none.
    Accepted {
        principal: Principal,
        reply: Vec<u8>,
    },
    Refused(Refusal),
}

/// Shared by all connections.
pub struct Acceptor {
    shared: Arc<Shared>,
    pool: Pool,
}

struct Shared {
    settings: Settings,
    gss: Gss,
    keys: Mutex<Option<Keys>>,
}

/// The keytab as it was last read.
#[derive(Clone)]
struct Keys {
    stamp: Stamp,
    keytab: Arc<Keytab>,
    credential: Arc<Credential>,
}

impl Acceptor {
    /// Loads the library, reads the keytab and starts the threads.
    ///
    /// # Errors
    /// The library or the keytab can't be read, NTLM is wanted and not installed, or the system gives no thread.
    pub fn open(settings: Settings) -> Result<Acceptor, Refusal> {
        let library = settings.library.clone().unwrap_or_else(|| PathBuf::from(LIBRARY));
        let gss = Gss::load(&library).map_err(|error| Refusal::Library(error.to_string()))?;
        if settings.ntlm && !gss.has_ntlm() {
            return Err(Refusal::NtlmNotInstalled);
        }
        let pool = Pool::start(settings.threads, settings.queue)
            .map_err(|error| Refusal::Other(format!("no thread to check tokens: {error}")))?;
        let shared = Arc::new(Shared { settings, gss, keys: Mutex::new(None) });
        shared.keys()?;
        Ok(Acceptor { shared, pool })
    }

    /// Takes a client's token. The bindings are those of the connection; None: it has no TLS, or TLS ends elsewhere.
    /// If the future is dropped the conversation begins again.
    pub async fn accept(
        &self,
        conversation: &mut Conversation,
        token: Vec<u8>,
        bindings: Option<ChannelBindings>,
    ) -> Answer {
        let context = match self.shared.begin(conversation, &token) {
            Ok(context) => context,
            Err(refusal) => return Answer::Refused(refusal),
        };
        let (sender, receiver) = oneshot::channel();
        let shared = self.shared.clone();
        let job = move || {
            // The client may have gone meanwhile.
            let _ = sender.send(shared.step(context, &token, bindings.as_ref()));
        };
        if self.pool.run(job).is_err() {
            return Answer::Refused(Refusal::Busy);
        }
        let limit = self.shared.settings.timeout;
        match timeout(limit, receiver).await {
            Ok(Ok((context, answer))) => {
                conversation.context = context;
                answer
            }
            Ok(Err(_)) => Answer::Refused(Refusal::Other("the check ended without an answer".into())),
            Err(_) => Answer::Refused(Refusal::TimedOut(limit)),
        }
    }

    /// Takes a token on the caller's thread, for a check.
    pub(crate) fn accept_here(&self, token: &[u8], bindings: Option<&ChannelBindings>) -> Answer {
        match self.shared.begin(&mut Conversation::default(), token) {
            Ok(context) => self.shared.step(context, token, bindings).1,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    pub(crate) fn gss(&self) -> &Gss {
        &self.shared.gss
    }
}

impl Shared {
    /// What can be said of a token before anybody waits for it, and the context that it belongs to.
    fn begin(&self, conversation: &mut Conversation, token: &[u8]) -> Result<Context, Refusal> {
        let held = conversation.context.take();
        let kind = sniff(token);
        let continues = match kind {
            Token::Ntlm if !self.settings.ntlm => return Err(Refusal::NtlmNotOffered),
            Token::Ntlm => token.first() == Some(&0xa1) || token.get(8) == Some(&3),
            Token::Next => true,
            Token::Kerberos(_) => false,
            Token::Other => return Err(Refusal::Malformed("it is neither Kerberos nor NTLM")),
        };
        match (continues, held) {
            (true, None) => Err(Refusal::Malformed("it continues a conversation that this connection has not begun")),
            (true, Some(_)) if conversation.legs >= MAX_LEGS => Err(Refusal::TooLong),
            (true, Some(context)) => {
                conversation.legs += 1;
                Ok(context)
            }
            (false, _) => {
                conversation.legs = 1;
                Ok(Context::new(&self.gss))
            }
        }
    }

    /// Checks one token. It blocks.
    fn step(
        &self,
        mut context: Context,
        token: &[u8],
        bindings: Option<&ChannelBindings>,
    ) -> (Option<Context>, Answer) {
        match self.checked(&mut context, token, bindings) {
            Ok(Answer::Continue { reply }) => (Some(context), Answer::Continue { reply }),
            Ok(answer) => (None, answer),
            Err(refusal) => (None, Answer::Refused(refusal)),
        }
    }

    fn checked(
        &self,
        context: &mut Context,
        token: &[u8],
        bindings: Option<&ChannelBindings>,
    ) -> Result<Answer, Refusal> {
        let keys = self.keys()?;
        let policy = self.settings.bindings;
        if policy == BindingPolicy::Require && bindings.is_none() {
            return Err(Refusal::BindingsMissing);
        }
        let bindings = bindings.filter(|_| policy != BindingPolicy::Ignore);
        let step = context
            .accept(&keys.credential, token, bindings)
            .map_err(|error| explain(&error, ticket_of(token), &keys.keytab, &self.settings.keytab))?;
        let mut established = match step {
            Step::Continue(reply) => return Ok(Answer::Continue { reply }),
            Step::Established(established) => established,
        };
        let reply = std::mem::take(&mut established.reply);
        let principal = self.admit(&established, &keys.keytab)?;
        Ok(Answer::Accepted { principal, reply })
    }

    /// Whether somebody who is who they say may sign in here.
    fn admit(&self, established: &Established, keytab: &Keytab) -> Result<Principal, Refusal> {
        if established.anonymous {
            return Err(Refusal::Anonymous);
        }
        // Its credential has no key for NTLM then, so this is not reached.
        if established.ntlm && !self.settings.ntlm {
            return Err(Refusal::NtlmNotOffered);
        }
        if self.settings.bindings == BindingPolicy::Require && !established.bound {
            return Err(Refusal::BindingsMissing);
        }
        let parts = if established.ntlm { split_ntlm(&established.source) } else { split(&established.source) };
        let (name, realm) = parts.ok_or(Refusal::OddName)?;
        let own;
        let allowed = if self.settings.realms.is_empty() {
            own = keytab.realms();
            &own
        } else {
            &self.settings.realms
        };
        if !allowed.iter().any(|allowed| is_of_realm(&realm, allowed, established.ntlm)) {
            return Err(Refusal::RealmNotAllowed { realm, allowed: allowed.clone() });
        }
        if !established.ntlm {
            self.admit_service(established.target.as_deref().unwrap_or("an unknown service"))?;
        }
        let info = established.logon_info.as_deref().map(|bytes| pac::logon_info(bytes).ok_or(Refusal::OddName));
        // In Active Directory an account has several names, and one account's may look like another one's. The one that
        // the KDC vouches for is in the PAC (CVE-2020-25717).
        let (name, sid, groups) = match info.transpose()? {
            None => (name, None, Vec::new()),
            Some(info) => (named(info.name)?, Some(info.sid), info.groups),
        };
        Ok(Principal {
            name,
            realm,
            groups,
            sid,
            expires: established
                .lifetime
                .and_then(|lifetime| SystemTime::now().checked_add(Duration::from_secs(lifetime.into()))),
            mechanism: if established.ntlm { Mechanism::Ntlm } else { Mechanism::Kerberos },
            bound: established.bound,
        })
    }

    fn admit_service(&self, target: &str) -> Result<(), Refusal> {
        let service = target.rsplit_once('@').map_or(target, |(service, _)| service);
        let default = ["HTTP".to_owned()];
        let allowed = if self.settings.services.is_empty() { &default[..] } else { &self.settings.services };
        if allowed.iter().any(|allowed| is_service(service, allowed)) {
            Ok(())
        } else {
            Err(Refusal::ServiceNotAllowed { service: service.into(), allowed: allowed.to_vec() })
        }
    }

    /// The keys, read again if the file has changed.
    fn keys(&self) -> Result<Keys, Refusal> {
        let path: &Path = &self.settings.keytab;
        let mut held = self.keys.lock();
        let stamp = Stamp::of(path);
        if let (Some(keys), Some(stamp)) = (&*held, &stamp) {
            if keys.stamp == *stamp {
                return Ok(keys.clone());
            }
        }
        *held = None;
        let keytab = Arc::new(Keytab::read(path).map_err(Refusal::Keytab)?);
        let stamp = stamp.ok_or_else(|| Refusal::Keytab(crate::keytab::Problem::NotThere(path.into())))?;
        let credential = self
            .gss
            .acceptor(path, self.settings.ntlm, self.settings.replay_cache.as_deref())
            .map_err(|error| explain(&error, None, &keytab, path))?;
        let keys = Keys { stamp, keytab, credential: Arc::new(credential) };
        *held = Some(keys.clone());
        Ok(keys)
    }
}

/// A name that an application can be told.
fn named(name: String) -> Result<String, Refusal> {
    if name.is_empty() || name.chars().any(char::is_control) {
        Err(Refusal::OddName)
    } else {
        Ok(name)
    }
}

fn ticket_of(token: &[u8]) -> Option<Ticket> {
    match sniff(token) {
        Token::Kerberos(ticket) => ticket,
        _ => None,
    }
}

/// Kerberos' realms have a case. NTLM has the short name of a domain, which is the first label of its realm unless
/// somebody has chosen another one; then it is allowed by its own name.
fn is_of_realm(realm: &str, allowed: &str, ntlm: bool) -> bool {
    if ntlm {
        let first = allowed.split('.').next().unwrap_or_default();
        !realm.is_empty() && (realm.eq_ignore_ascii_case(allowed) || realm.eq_ignore_ascii_case(first))
    } else {
        realm == allowed
    }
}

/// `HTTP` allows every host's, `HTTP/web.example.com` that one's. Active Directory ignores case, so this does.
fn is_service(service: &str, allowed: &str) -> bool {
    let allowed = allowed.rsplit_once('@').map_or(allowed, |(service, _)| service);
    if allowed.contains('/') {
        service.eq_ignore_ascii_case(allowed)
    } else {
        service.split('/').next().is_some_and(|class| class.eq_ignore_ascii_case(allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_allowed_by_its_class_or_by_its_host() {
        assert!(is_service("HTTP/web.example.com", "HTTP"));
        assert!(is_service("http/WEB.example.com", "HTTP/web.example.com@EXAMPLE.COM"));
        assert!(!is_service("HTTP/www.example.com", "HTTP/web.example.com"));
        assert!(!is_service("HTTPS/web.example.com", "HTTP"));
        assert!(!is_service("host/web.example.com", "HTTP"));
    }

    #[test]
    fn realms_have_a_case_and_domains_have_none() {
        assert!(is_of_realm("EXAMPLE.COM", "EXAMPLE.COM", false));
        assert!(!is_of_realm("example.com", "EXAMPLE.COM", false));
        assert!(!is_of_realm("EXAMPLE", "EXAMPLE.COM", false));
        assert!(is_of_realm("example", "EXAMPLE.COM", true));
        assert!(!is_of_realm("", "EXAMPLE.COM", true));
    }
}
