//! Who an application is run as: the account that its settings name, or the owner of its files.
//! It never runs anything of an application's.

mod acting;
mod own;
mod switch;

pub use acting::{acting, Acting};
pub use own::others_above;
pub use switch::{command, env, obey, SWITCH};

use std::{
    ffi::OsStr,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

/// An account other than the front's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// None: the machine has no name for it (a container's volume).
    pub name: Option<String>,
    pub home: PathBuf,
}

/// Why there is no account to run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The file belongs to root, and nobody has said that root is meant.
    Root(PathBuf),
    Other(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Root(file) => write!(
                f,
                "it would run as root, the owner of {}: set `user = \"deploy\"`, or `user = \"root\"` if you mean it",
                file.display()
            ),
            Refused::Other(why) => f.write_str(why),
        }
    }
}

impl Account {
    /// As messages name it.
    pub fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("user {}", self.uid))
    }
}

/// The account for an application whose settings say `user` and `group`, and whose main file is `file`. None: the front's own.
pub fn of_app(user: Option<&str>, group: Option<&str>, file: &Path) -> Result<Option<Arc<Account>>, Refused> {
    let own = rustix::process::geteuid().as_raw();
    if own != 0 {
        return without_root(own, user, group).map(|()| None);
    }
    let mut account = match user {
        Some(user) => named(user)?,
        None => owner(file)?,
    };
    if account.uid == 0 && user.is_none() {
        return Err(Refused::Root(file.to_path_buf()));
    }
    if let Some(group) = group {
        account.gid = group_id(group)?;
    }
    Ok((account.uid != 0 || group.is_some()).then(|| Arc::new(account)))
}

/// The owner of a Ruby file that is about to be run. None: it belongs to the front's own account, or nobody can switch.
pub fn of_file(file: &Path) -> Result<Option<Arc<Account>>, Refused> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let account = owner(file)?;
    Ok((account.uid != 0).then(|| Arc::new(account)))
}

/// Only root can become somebody else; to be asked for what is so already is no mistake.
fn without_root(own: u32, user: Option<&str>, group: Option<&str>) -> Result<(), Refused> {
    let refuse = |what: String| {
        Err(Refused::Other(format!("only root can run it as {what}, and this server runs as {}", named_or_number(own))))
    };
    match (user, group) {
        (Some(user), _) if named(user)?.uid != own => refuse(format!("`{user}`")),
        (_, Some(group)) if group_id(group)? != rustix::process::getegid().as_raw() => {
            refuse(format!("group `{group}`"))
        }
        _ => Ok(()),
    }
}

fn named_or_number(uid: u32) -> String {
    entry("passwd", &uid.to_string()).ok().flatten().map_or_else(|| format!("user {uid}"), |fields| fields[0].clone())
}

fn owner(file: &Path) -> Result<Account, Refused> {
    let found = std::fs::metadata(file).map_err(|why| Refused::Other(format!("{}: {why}", file.display())))?;
    Ok(match account(&found.uid().to_string())? {
        Some(account) => account,
        None => Account {
            uid: found.uid(),
            gid: found.gid(),
            groups: vec![found.gid()],
            name: None,
            home: PathBuf::from("/"),
        },
    })
}

fn named(user: &str) -> Result<Account, Refused> {
    account(user)?.ok_or_else(|| Refused::Other(format!("this machine has no user `{user}`")))
}

fn group_id(group: &str) -> Result<u32, Refused> {
    let found = entry("group", group)?.and_then(|fields| fields.get(2)?.parse().ok());
    found.ok_or_else(|| Refused::Other(format!("this machine has no group `{group}`")))
}

/// By name or number.
fn account(key: &str) -> Result<Option<Account>, Refused> {
    let Some(fields) = entry("passwd", key)? else { return Ok(None) };
    let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
    let (Some(uid), Some(gid)) = (number(2), number(3)) else { return Ok(None) };
    let name = fields[0].clone();
    let mut groups: Vec<u32> =
        asked("initgroups", &name)?.split_whitespace().skip(1).filter_map(|group| group.parse().ok()).collect();
    if !groups.contains(&gid) {
        groups.push(gid);
    }
    let home = fields.get(5).filter(|home| !home.is_empty()).map_or_else(|| "/".into(), PathBuf::from);
    Ok(Some(Account { uid, gid, groups, name: Some(name), home }))
}

fn entry(database: &str, key: &str) -> Result<Option<Vec<String>>, Refused> {
    let line = asked(database, key)?;
    let fields: Vec<String> = line.trim_end().split(':').map(str::to_owned).collect();
    Ok((fields.len() >= 3).then_some(fields))
}

/// The machine's own answer, whatever its accounts come from (files, LDAP, systemd). Empty: it knows nothing of the key.
fn asked(database: &str, key: &str) -> Result<String, Refused> {
    let failed = |why: io::Error| Refused::Other(format!("getent {database} {key}: {why}"));
    let mut command = Command::new("getent");
    command.args([OsStr::new("--"), database.as_ref(), key.as_ref()]).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(mut out) = child.stdout.take() {
        io::Read::read_to_string(&mut out, &mut line).map_err(failed)?;
    }
    // Waited for here, on the thread that collects the front's children.
    let _ = child.wait();
    Ok(line.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_by_number() {
        let root = named("root").unwrap();
        assert_eq!((root.uid, root.gid, root.name.as_deref()), (0, 0, Some("root")));
        assert_eq!(named("0").unwrap(), root);
        assert_eq!(group_id("root"), Ok(0));
        assert_eq!(named("no-such-user"), Err(Refused::Other("this machine has no user `no-such-user`".into())));
        assert!(named("--help").is_err() && group_id("no-such-group").is_err());
    }

    #[test]
    fn without_root_only_what_is_so_already_may_be_asked_for() {
        let somebody = 4_000_000_000;
        assert_eq!(without_root(somebody, None, None), Ok(()));
        assert_eq!(without_root(0, Some("root"), None), Ok(()));
        let refused = without_root(somebody, Some("root"), None).unwrap_err().to_string();
        assert_eq!(refused, "only root can run it as `root`, and this server runs as user 4000000000");
    }

    #[test]
    fn a_root_owned_application_is_refused_unless_root_is_meant() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("only root can be refused");
        }
        let refused = of_app(None, None, "/etc/passwd".as_ref()).unwrap_err();
        assert!(refused.to_string().contains("would run as root, the owner of /etc/passwd: set `user = \"deploy\"`"));
        assert_eq!(of_app(Some("root"), None, "/etc/passwd".as_ref()), Ok(None));
        let nobody = of_app(Some("nobody"), None, "/etc/passwd".as_ref()).unwrap().unwrap();
        assert_eq!((nobody.uid, nobody.name.as_deref()), (65534, Some("nobody")));
        assert_eq!(of_file("/etc/passwd".as_ref()), Ok(None));
    }
}
