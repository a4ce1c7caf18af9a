//! What the machine knows of its accounts and groups, whatever it has them from (files, LDAP, systemd): getent tells.
//! It decides nothing.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{Account, Refused};

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(2);

/// The account's name, or its number where it has none.
pub fn shown(uid: u32) -> String {
    entry("passwd", &uid.to_string()).ok().flatten().map_or_else(|| format!("user {uid}"), |fields| fields[0].clone())
}

/// The account that owns nothing: with its rights what everybody may read is read.
pub fn nobody() -> Account {
    const NOBODY: u32 = 65534;
    Account { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY], name: Some("nobody".into()), home: PathBuf::from("/") }
}

/// The account with this name, or number.
pub fn named(user: &str) -> Result<Account, Refused> {
    account(user)?.ok_or_else(|| Refused::Other(format!("this machine has no user `{user}`")))
}

/// The number of a group.
pub fn group_id(group: &str) -> Result<u32, Refused> {
    let found = entry("group", group)?.and_then(|fields| fields.get(2)?.parse().ok());
    found.ok_or_else(|| Refused::Other(format!("this machine has no group `{group}`")))
}

/// The account with this number, which may have no name: its files tell the group then.
pub fn of_owner(uid: u32, gid: u32) -> Result<Account, Refused> {
    let unnamed = || Account { uid, gid, groups: vec![gid], name: None, home: PathBuf::from("/") };
    Ok(account(&uid.to_string())?.unwrap_or_else(unnamed))
}

/// By name or number. A server of many sites asks for the same account many times in a moment.
fn account(key: &str) -> Result<Option<Account>, Refused> {
    static KNOWN: Mutex<BTreeMap<String, (Instant, Option<Account>)>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock();
    if let Some((_, account)) = known().get(key).filter(|(at, _)| at.elapsed() < FRESH) {
        return Ok(account.clone());
    }
    let found = looked_up(key)?;
    let mut known = known();
    known.retain(|_, (at, _)| at.elapsed() < FRESH);
    known.insert(key.to_owned(), (Instant::now(), found.clone()));
    Ok(found)
}

fn looked_up(key: &str) -> Result<Option<Account>, Refused> {
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

/// The machine's own answer, whatever its accounts come from (files, LDAP, systemd). Empty: it knows nothing of the
/// key.
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
        assert_eq!((of_owner(0, 7).unwrap(), of_owner(4_000_000_000, 7).unwrap().gid), (root, 7));
        assert_eq!((shown(0), shown(4_000_000_000)), ("root".into(), "user 4000000000".into()));
    }
}
