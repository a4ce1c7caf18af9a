//! From the settings of an `[[sso]]` to what checks people: the acceptor of tickets, the directory, the identity provider
//! and the store of sessions. Each is opened when it is first needed, and again if that has failed. Opening blocks.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use sign_in::{FileStore, RedisSettings, RedisStore, Secret};
use tokio::task::spawn_blocking;

use crate::config::parts::sign_on::{Basic, Bindings, Kerberos, OpenId, Store};

/// After a failure it is not tried again for so long.
const PAUSE: Duration = Duration::from_secs(2);
/// Logins that have begun and are kept at the same time.
const MAX_LOGINS: usize = 10_000;

/// Why something can't be opened, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub why: String,
    pub advice: Option<String>,
}

impl Closed {
    fn new(why: impl ToString) -> Closed {
        Closed { why: why.to_string(), advice: None }
    }
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)?;
        self.advice.iter().try_for_each(|advice| write!(f, ". {advice}"))
    }
}

/// What is made of the settings by this.
type Open<T> = Box<dyn Fn() -> Result<T, Closed> + Send + Sync>;

/// Something that is opened when it is first needed.
pub struct Opened<T> {
    open: Arc<Open<T>>,
    state: tokio::sync::Mutex<State<T>>,
    /// What was opened, without waiting for it.
    known: Mutex<Option<Arc<T>>>,
}

enum State<T> {
    Open(Arc<T>),
    Closed { at: Option<Instant>, why: Closed },
}

impl<T: Send + Sync + 'static> Opened<T> {
    pub fn new(open: impl Fn() -> Result<T, Closed> + Send + Sync + 'static) -> Opened<T> {
        let state = State::Closed { at: None, why: Closed::new("it was not opened yet") };
        Opened { open: Arc::new(Box::new(open)), state: tokio::sync::Mutex::new(state), known: Mutex::new(None) }
    }

    /// What is open already.
    pub fn known(&self) -> Option<Arc<T>> {
        self.known.lock().clone()
    }

    /// Opens it, unless it is.
    pub async fn get(&self) -> Result<Arc<T>, Closed> {
        if let Some(open) = self.known() {
            return Ok(open);
        }
        let mut state = self.state.lock().await;
        match &*state {
            State::Open(open) => return Ok(open.clone()),
            State::Closed { at: Some(at), why } if at.elapsed() < PAUSE => return Err(why.clone()),
            State::Closed { .. } => {}
        }
        let open = self.open.clone();
        let opened =
            spawn_blocking(move || open()).await.unwrap_or_else(|_| Err(Closed::new("opening it was interrupted")));
        match opened {
            Ok(opened) => {
                let opened = Arc::new(opened);
                *self.known.lock() = Some(opened.clone());
                *state = State::Open(opened.clone());
                Ok(opened)
            }
            Err(why) => {
                *state = State::Closed { at: Some(Instant::now()), why: why.clone() };
                Err(why)
            }
        }
    }
}

/// As the crate has it.
pub fn kerberos_settings(kerberos: &Kerberos) -> negotiate::Settings {
    negotiate::Settings {
        keytab: kerberos.keytab.clone(),
        services: kerberos.services.clone(),
        realms: kerberos.realms.clone(),
        ntlm: kerberos.ntlm,
        bindings: match kerberos.bindings {
            Bindings::Off => negotiate::BindingPolicy::Ignore,
            Bindings::Allow => negotiate::BindingPolicy::IfSent,
            Bindings::Require => negotiate::BindingPolicy::Require,
        },
        ..negotiate::Settings::default()
    }
}

/// Loads the library, reads the keytab and starts threads.
pub fn acceptor(kerberos: &Kerberos) -> Result<negotiate::Acceptor, Closed> {
    negotiate::Acceptor::open(kerberos_settings(kerberos))
        .map_err(|refusal| Closed { why: refusal.to_string(), advice: refusal.advice() })
}

/// As the crate has it, with the password from its file.
pub fn directory_settings(basic: &Basic) -> Result<directory::Settings, Closed> {
    let password = basic.password_file.as_deref().map(|file| secret(file, "password_file")).transpose()?;
    Ok(directory::Settings {
        urls: basic.ldap.clone(),
        starttls: basic.starttls,
        ca_file: basic.ca_file.clone(),
        base: basic.base.clone(),
        group_base: basic.group_base.clone(),
        account: basic.account.clone().zip(password),
        person_dn: basic.bind_as.clone(),
        person_filter: basic.person_filter.clone(),
        name_attribute: basic.name_attribute.clone(),
        group_attribute: basic.group_attribute.clone(),
        timeout: basic.timeout,
        cache_ttl: basic.cache,
        ..directory::Settings::default()
    })
}

/// Starts its thread; no server is asked.
pub fn directory(basic: &Basic) -> Result<directory::Directory, Closed> {
    directory::Directory::open(directory_settings(basic)?).map_err(Closed::new)
}

/// As the crate has it, with the secret from its file.
pub fn openid_settings(oidc: &OpenId) -> Result<openid::Settings, Closed> {
    let file = oidc.client_secret_file.as_deref();
    Ok(openid::Settings {
        issuer: oidc.issuer.clone(),
        client_id: oidc.client_id.clone(),
        client_secret: file.map(|file| secret(file, "client_secret_file")).transpose()?,
        scopes: oidc.scopes.clone(),
        name_claim: oidc.name_claim.clone(),
        groups_claim: oidc.groups_claim.clone(),
        ca_file: oidc.ca_file.clone(),
    })
}

/// The issuer is asked later.
pub fn provider(oidc: &OpenId) -> Result<openid::Provider, Closed> {
    openid::Provider::new(openid_settings(oidc)?).map_err(Closed::new)
}

/// The one of the setting `key`.
fn secret(file: &Path, key: &str) -> Result<Secret, Closed> {
    openid::read_secret_file(file).map_err(|error| match error {
        openid::Error::SecretFile { path, why } => Closed::new(format!("{key} {}: {why}", path.display())),
        other => Closed::new(other),
    })
}

/// Where sessions are kept unless the settings say it. None: nobody knows where this account keeps anything.
pub fn usual_store(env: &dyn Fn(&str) -> Option<String>, is_root: bool) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|text| text.starts_with('/')).map(PathBuf::from);
    // systemd names several, with colons between.
    let state = env("STATE_DIRECTORY").and_then(|list| list.split(':').next().map(PathBuf::from));
    state
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("sso"))
        .or_else(|| is_root.then(|| "/var/lib/paceline/sso".into()))
        .or_else(|| Some(set("XDG_STATE_HOME")?.join("paceline/sso")))
        .or_else(|| Some(set("HOME")?.join(".local/state/paceline/sso")))
        .map(|dir| dir.join("sessions"))
}

/// A store of sessions, shared by all that are in one process.
pub type SharedStore = Arc<dyn sign_in::Store>;

/// The open files: a file may be opened once in a process.
static FILES: LazyLock<Mutex<HashMap<PathBuf, Weak<FileStore>>>> = LazyLock::new(Mutex::default);

pub fn store(store: &Store) -> Result<SharedStore, Closed> {
    let path = match store {
        Store::Usual => usual_store(&|name| std::env::var(name).ok(), rustix::process::geteuid().is_root())
            .ok_or_else(|| Closed::new("no folder for the sessions: set store = \"/path/to/sessions\""))?,
        Store::File(path) => path.clone(),
        Store::Redis { url, password_file, ca_file } => {
            let settings = RedisSettings {
                url: Secret::new(url.clone()),
                password: password_file.as_deref().map(|file| secret(file, "store_password_file")).transpose()?,
                ca_file: ca_file.clone(),
                prefix: RedisSettings::PREFIX.into(),
                max_logins: MAX_LOGINS,
            };
            return Ok(Arc::new(RedisStore::open(settings).map_err(Closed::new)?));
        }
    };
    let mut files = FILES.lock();
    if let Some(open) = files.get(&path).and_then(Weak::upgrade) {
        return Ok(open);
    }
    make_folder(&path)?;
    let opened = Arc::new(FileStore::open(&path, MAX_LOGINS).map_err(Closed::new)?);
    files.insert(path, Arc::downgrade(&opened));
    Ok(opened)
}

/// The folder of the file, for this account alone.
fn make_folder(path: &Path) -> Result<(), Closed> {
    use std::os::unix::fs::DirBuilderExt;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let failed = |error: std::io::Error| Closed::new(format!("the folder {} can't be made: {error}", folder.display()));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    match unix_user::others_than_root(folder).map_err(failed)? {
        None => Ok(()),
        Some(open) => Err(Closed::new(format!(
            "others than root can write in {}: sessions are not kept below it; set store = \"/path/to/sessions\"",
            open.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_sessions_are_kept() {
        let path = |names: &[(&str, &str)], is_root| {
            let env = |name: &str| names.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
            usual_store(&env, is_root).map(|path| path.display().to_string())
        };
        let state = [("STATE_DIRECTORY", "/var/lib/a:/b"), ("HOME", "/h")];
        assert_eq!(path(&state, true).as_deref(), Some("/var/lib/a/sso/sessions"));
        assert_eq!(path(&[("HOME", "/h")], true).as_deref(), Some("/var/lib/paceline/sso/sessions"));
        assert_eq!(path(&[("HOME", "/h")], false).as_deref(), Some("/h/.local/state/paceline/sso/sessions"));
        assert_eq!(path(&[("XDG_STATE_HOME", "/x")], false).as_deref(), Some("/x/paceline/sso/sessions"));
        assert_eq!(path(&[("HOME", "h")], false), None);
    }

    #[tokio::test]
    async fn what_could_not_be_opened_is_tried_again_after_a_pause() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        let opened = Opened::new(move || match counted.fetch_add(1, SeqCst) {
            0 => Err(Closed { why: "no".into(), advice: Some("Wait.".into()) }),
            _ => Ok(7),
        });
        assert_eq!(opened.get().await.unwrap_err().to_string(), "no. Wait.");
        assert!(opened.get().await.is_err() && tries.load(SeqCst) == 1, "left alone for a while");
        *opened.state.lock().await = State::Closed { at: None, why: Closed::new("") };
        assert_eq!((*opened.get().await.unwrap(), opened.known().as_deref().copied()), (7, Some(7)));
        assert_eq!((*opened.get().await.unwrap(), tries.load(SeqCst)), (7, 2));
    }
}
