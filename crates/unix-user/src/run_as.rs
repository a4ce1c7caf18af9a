//! Who something of a site's runs as, and whose rights its files are read with: the one place where that is decided.
//! Root is never the answer to a question that can't be answered; nothing is run or read here.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    acting,
    passwd::{self, group_id, named},
    walk::{walk, ResolvedPath},
    Account, Refused,
};

/// Directories of an application from which Ruby loads.
const CODE: [&str; 6] = ["app", "lib", "config", "config/environments", "config/initializers", "vendor"];

/// Who something runs as. That it can't be determined is none of these, but an error: then nothing is run, and no file
/// read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunAs {
    /// The front's own account, which is not root and can't become another one.
    Ourselves,
    /// Root is meant. Some: with another group.
    Root(Option<Arc<Account>>),
    Account(Arc<Account>),
}

impl RunAs {
    /// The account that a process of ours has to become. None: it is that already.
    pub fn account(&self) -> Option<&Account> {
        match self {
            RunAs::Ourselves => None,
            RunAs::Root(account) => account.as_deref(),
            RunAs::Account(account) => Some(account),
        }
    }

    /// With whose rights files are read of which nothing is known. None: none are, since we are root.
    pub fn unless_root() -> Option<RunAs> {
        (!is_root()).then_some(RunAs::Ourselves)
    }

    /// Who a process runs as that is a part of the process which started us.
    pub fn own() -> RunAs {
        if is_root() {
            RunAs::Root(None)
        } else {
            RunAs::Ourselves
        }
    }
}

/// What an application's settings say of who it runs as.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountRequest<'a> {
    pub user: Option<&'a str>,
    pub group: Option<&'a str>,
    pub provenance: Provenance,
}

/// Where an application and its settings come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Provenance {
    /// It is the server's only application.
    pub only: bool,
    /// It was found in a folder of sites.
    pub discovered: bool,
    /// An account that has written some of its settings. None: root alone, or whoever started a server that is not
    /// root.
    pub written_by: Option<u32>,
}

/// Who an application runs as. `root`: its directory; `files`: those that are run first, of which some may be missing.
///
/// Without `user` the owner of the directory that `root` leads to decides. Root's applications are refused, but for the
/// server's only one where root alone can change it.
pub fn of_app(wanted: &AccountRequest, root: &Path, files: &[PathBuf]) -> Result<RunAs, Refused> {
    if !is_root() {
        return without_root(wanted).map(|()| RunAs::Ourselves);
    }
    let folder = followed(root)?;
    let provenance = wanted.provenance;
    let decided = match wanted.user {
        Some(user) => named(user)?,
        None => owner(&folder, root)?,
    };
    if decided.uid == 0 {
        let exposed = folder.others_than_root().map(Path::to_path_buf);
        match (wanted.user, exposed) {
            (Some(_), None) => {}
            // Whoever sets up a server for one application means what he says.
            (Some(_), Some(_)) if !provenance.discovered => {}
            (None, None) if provenance.only => {
                same_author(&decided, provenance, root)?;
                root_alone(files)?;
                root_alone(&CODE.map(|dir| folder.path.join(dir)))?;
            }
            (None, None) => return Err(Refused::Root(root.to_path_buf())),
            (_, Some(by)) => return Err(Refused::Exposed { root: root.to_path_buf(), by }),
        }
    } else if wanted.user.is_none() {
        same_author(&decided, provenance, root)?;
        if provenance.written_by.is_some() {
            inside(&folder, root, files)?;
        }
        same_owner(&decided, files)?;
    }
    grouped(decided, wanted.group)
}

/// Whose rights the files of a directory are read with, where none of it is run: `user`, or the directory's owner.
pub fn of_files(wanted: &AccountRequest, root: &Path) -> Result<RunAs, Refused> {
    if !is_root() {
        return Ok(RunAs::Ourselves);
    }
    let account = match wanted.user {
        Some(user) => named(user)?,
        None => {
            let owner = owner(&followed(root)?, root)?;
            same_author(&owner, wanted.provenance, root)?;
            owner
        }
    };
    grouped(account, None)
}

/// Who may have written a file: root alone, or an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// Root alone can have; or we are not root, and it does not matter.
    Trusted,
    /// Somebody who is not root can have: this account, in whose directory it is.
    Account(Arc<Account>),
}

impl Author {
    /// With whose rights the file is read, and what is in it obeyed.
    pub fn run_as(&self) -> RunAs {
        match self {
            Author::Trusted => RunAs::own(),
            Author::Account(account) => RunAs::Account(account.clone()),
        }
    }

    /// Who runs what is in it. What root alone can have written is run as `user` where that is set.
    pub fn evaluates_as(&self, user: Option<&str>) -> Result<RunAs, Refused> {
        match (self, user) {
            (Author::Trusted, Some(user)) if is_root() => grouped(named(user)?, None),
            _ => Ok(self.run_as()),
        }
    }

    /// None: it is trusted.
    pub fn account(&self) -> Option<&Account> {
        match self {
            Author::Trusted => None,
            Author::Account(account) => Some(account),
        }
    }
}

/// Who may have written a file, or what is in a directory, that is named so. What others can write in root's own
/// directory counts as nobody's. `user`: the account that is meant where it is not root alone.
pub fn author(path: &Path, user: Option<&str>) -> Result<Author, Refused> {
    if !is_root() {
        return Ok(Author::Trusted);
    }
    let found = followed(path)?;
    if found.others_than_root().is_none() {
        return Ok(Author::Trusted);
    }
    let dir = if found.is_dir() { path } else { path.parent().unwrap_or(Path::new("/")) };
    let folder = followed(dir)?;
    let account = match (user.map(named).transpose()?.filter(|user| user.uid != 0), folder.stat.st_uid) {
        (Some(user), _) => user,
        (None, 0) => passwd::nobody(),
        (None, _) => owner(&folder, dir)?,
    };
    acting::is_possible(&account).map_err(|why| no_switch(&account, &why))?;
    Ok(Author::Account(Arc::new(account)))
}

fn no_switch(account: &Account, why: &io::Error) -> Refused {
    Refused::Other(format!(
        "this server can't become {}: {why} (in a container it needs the capabilities SETUID and SETGID)",
        account.shown()
    ))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn followed(path: &Path) -> Result<ResolvedPath, Refused> {
    let whole = std::path::absolute(path);
    whole.and_then(|path| walk(&path)).map_err(|why| Refused::Other(format!("{}: {why}", path.display())))
}

/// The owner of a directory, if nobody else could put another one in its place.
fn owner(folder: &ResolvedPath, root: &Path) -> Result<Account, Refused> {
    let uid = folder.stat.st_uid;
    let account = passwd::of_owner(uid, folder.stat.st_gid)?;
    match folder.others_above(uid).filter(|_| uid != 0) {
        Some(by) => Err(Refused::Other(format!(
            "{} belongs to {}, but others can write in {} and so put another directory in its place: give that to root or to the same account, or set `user`",
            root.display(),
            account.shown(),
            by.display(),
        ))),
        None => Ok(account),
    }
}

/// Those who are not root have nothing run or read as anybody else by what they write in settings.
fn same_author(decided: &Account, provenance: Provenance, root: &Path) -> Result<(), Refused> {
    match provenance.written_by.filter(|author| *author != decided.uid) {
        None => Ok(()),
        Some(author) => Err(Refused::Other(format!(
            "{} belongs to {}, and its settings to {}, who can't use another account's rights",
            root.display(),
            decided.shown(),
            passwd::shown(author)
        ))),
    }
}

/// Root runs no file that others can change. Err: one of them is such a file; those that are missing are not.
pub fn root_alone(files: &[PathBuf]) -> Result<(), Refused> {
    for file in files {
        match walk(file) {
            Ok(found) => {
                if let Some(by) = found.others_than_root() {
                    return Err(Refused::Exposed { root: file.clone(), by: by.to_path_buf() });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Refused::Other(format!("{}: {error}", file.display()))),
        }
    }
    Ok(())
}

/// What an account runs is its own, or root's.
fn same_owner(account: &Account, files: &[PathBuf]) -> Result<(), Refused> {
    for file in files {
        let Ok(found) = std::fs::symlink_metadata(file) else { continue };
        if ![0, account.uid].contains(&found.uid()) {
            return Err(Refused::Other(format!(
                "{} belongs to {}, and its directory to {}: give both to one account, or set `user`",
                file.display(),
                passwd::shown(found.uid()),
                account.shown()
            )));
        }
    }
    Ok(())
}

/// Those who are not root name no file outside of their own directory.
fn inside(folder: &ResolvedPath, root: &Path, files: &[PathBuf]) -> Result<(), Refused> {
    let below = |file: &Path, top: &Path| {
        let rest = file.strip_prefix(top).ok();
        rest.is_some_and(|rest| !rest.components().any(|part| part == std::path::Component::ParentDir))
    };
    match files.iter().find(|file| !below(file, &folder.path) && !below(file, root)) {
        Some(file) => Err(Refused::Other(format!(
            "{} is outside of {}: an account's settings name files inside of it alone",
            file.display(),
            root.display()
        ))),
        None => Ok(()),
    }
}

fn grouped(mut account: Account, group: Option<&str>) -> Result<RunAs, Refused> {
    if let Some(group) = group {
        account.gid = group_id(group)?;
    }
    if account.uid == 0 {
        return Ok(RunAs::Root(group.map(|_| Arc::new(account))));
    }
    match acting::is_possible(&account) {
        Ok(()) => Ok(RunAs::Account(Arc::new(account))),
        Err(why) => Err(no_switch(&account, &why)),
    }
}

/// Only root can become somebody else; to be asked for what is so already is no mistake.
fn without_root(wanted: &AccountRequest) -> Result<(), Refused> {
    refuse_others(rustix::process::geteuid().as_raw(), wanted)
}

fn refuse_others(own: u32, wanted: &AccountRequest) -> Result<(), Refused> {
    let refuse = |what: String| {
        Err(Refused::Other(format!("only root can run it as {what}, and this server runs as {}", passwd::shown(own))))
    };
    match (wanted.user, wanted.group) {
        (Some(user), _) if named(user)?.uid != own => refuse(format!("`{user}`")),
        (_, Some(group)) if group_id(group)? != rustix::process::getegid().as_raw() => {
            refuse(format!("group `{group}`"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{lchown, symlink, PermissionsExt},
    };

    use super::*;

    /// A directory of root's for files of several accounts.
    struct Folder(PathBuf);

    const NOBODY: u32 = 65534;
    const DAEMON: u32 = 1;

    impl Folder {
        /// None: we are not root.
        fn new(name: &str) -> Option<Folder> {
            if !is_root() {
                eprintln!("only root runs anything as somebody else");
                return None;
            }
            let path = std::env::temp_dir().join(format!("paceline-run-as-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Some(Folder(path))
        }

        /// An application with a config.ru, all of it an account's.
        fn app(&self, name: &str, uid: u32) -> PathBuf {
            let dir = self.0.join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("config.ru"), "").unwrap();
            self.give(name, uid);
            self.give(&format!("{name}/config.ru"), uid);
            dir
        }

        fn give(&self, path: &str, uid: u32) {
            lchown(self.0.join(path), Some(uid), Some(uid)).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn decided(wanted: &AccountRequest, dir: &Path) -> Result<u32, String> {
        let run_as = of_app(wanted, dir, &[dir.join("config.ru")]).map_err(|refused| refused.to_string())?;
        Ok(run_as.account().map_or(0, |account| account.uid))
    }

    fn only() -> AccountRequest<'static> {
        AccountRequest { provenance: Provenance { only: true, ..Provenance::default() }, ..AccountRequest::default() }
    }

    fn refused(outcome: Result<u32, String>, words: &str) {
        let why = outcome.expect_err(words);
        assert!(why.contains(words), "{why}");
    }

    #[test]
    fn the_owner_of_the_directory_decides_and_not_that_of_a_file() {
        let Some(folder) = Folder::new("owner") else { return };
        let (own, victim) = (folder.app("own", NOBODY), folder.app("victim", DAEMON));
        assert_eq!(decided(&AccountRequest::default(), &own), Ok(NOBODY));
        fs::remove_file(own.join("config.ru")).unwrap();
        symlink(victim.join("config.ru"), own.join("config.ru")).unwrap();
        folder.give("own/config.ru", NOBODY);
        assert_eq!(decided(&AccountRequest::default(), &own), Ok(NOBODY));
        folder.give("own/config.ru", DAEMON);
        refused(
            decided(&AccountRequest::default(), &own),
            "own/config.ru belongs to daemon, and its directory to nobody",
        );
        // Root's files do an account no harm.
        folder.give("own/config.ru", 0);
        assert_eq!(decided(&AccountRequest::default(), &own), Ok(NOBODY));
        // Root may lead to another account's directory, and nobody else may.
        symlink(&victim, folder.0.join("linked")).unwrap();
        assert_eq!(decided(&AccountRequest::default(), &folder.0.join("linked")), Ok(DAEMON));
        symlink(&victim, own.join("current")).unwrap();
        folder.give("own/current", NOBODY);
        refused(decided(&AccountRequest::default(), &own.join("current")), "others can write in");
        assert!(of_files(&AccountRequest::default(), &own.join("current")).is_err());
    }

    #[test]
    fn settings_of_an_account_have_nothing_run_as_another_one() {
        let Some(folder) = Folder::new("settings") else { return };
        let (own, victim) = (folder.app("own", NOBODY), folder.app("victim", DAEMON));
        let provenance = Provenance { written_by: Some(NOBODY), ..Provenance::default() };
        let wanted = AccountRequest { provenance, ..AccountRequest::default() };
        assert_eq!(decided(&wanted, &own), Ok(NOBODY));
        refused(decided(&wanted, &victim), "its settings to nobody, who can't use another account's rights");
        assert!(
            of_files(&wanted, &own).is_ok()
                && of_files(&wanted, &victim).is_err()
                && of_files(&wanted, &folder.0).is_err()
        );
        let elsewhere = of_app(&wanted, &own, &[victim.join("config.ru")]);
        assert!(elsewhere.is_err(), "{elsewhere:?}");
        let elsewhere = of_app(&wanted, &own, &[own.join("../other/config.ru")]).unwrap_err().to_string();
        assert!(elsewhere.contains("is outside of"), "{elsewhere}");
    }

    #[test]
    fn root_is_meant_or_alone_or_refused() {
        let Some(folder) = Folder::new("root") else { return };
        let dir = folder.app("shop", 0);
        refused(decided(&AccountRequest::default(), &dir), "it would run as root, the owner of");
        assert_eq!(decided(&only(), &dir), Ok(0));
        assert_eq!(of_app(&only(), &dir, &[]), Ok(RunAs::Root(None)));
        assert_eq!(decided(&AccountRequest { user: Some("nobody"), ..only() }, &dir), Ok(NOBODY));
        for (path, mode) in [("shop/config.ru", 0o666), ("shop", 0o777), ("shop", 0o1777)] {
            let before = fs::metadata(folder.0.join(path)).unwrap().permissions();
            fs::set_permissions(folder.0.join(path), fs::Permissions::from_mode(mode)).unwrap();
            refused(decided(&only(), &dir), "others can write");
            fs::set_permissions(folder.0.join(path), before).unwrap();
        }
        // Whoever can put another directory in its place.
        lchown(&folder.0, Some(NOBODY), None).unwrap();
        refused(decided(&only(), &dir), "others can write");
        let root = AccountRequest { user: Some("root"), ..AccountRequest::default() };
        assert_eq!(decided(&root, &dir), Ok(0));
        let provenance = Provenance { discovered: true, ..Provenance::default() };
        refused(decided(&AccountRequest { provenance, ..root }, &dir), "others can write");
    }

    #[test]
    fn what_can_not_be_determined_is_an_error() {
        let Some(folder) = Folder::new("unknown") else { return };
        let none = folder.0.join("none");
        assert!(
            of_app(&only(), &none, &[]).is_err()
                && of_files(&AccountRequest::default(), &none).is_err()
                && author(&none, None).is_err()
        );
        assert!(
            of_files(&AccountRequest { user: Some("no-such-user"), ..AccountRequest::default() }, &folder.0).is_err()
        );
        assert_eq!(of_files(&AccountRequest::default(), &folder.0), Ok(RunAs::Root(None)));
    }

    #[test]
    fn a_file_was_written_by_whoever_can_replace_it() {
        let Some(folder) = Folder::new("author") else { return };
        let (own, shop) = (folder.app("own", NOBODY), folder.app("shop", 0));
        assert_eq!(author(&shop.join("config.ru"), None), Ok(Author::Trusted));
        // Root's file, but not root's choice.
        symlink(shop.join("config.ru"), own.join("puma.rb")).unwrap();
        let Ok(Author::Account(account)) = author(&own.join("puma.rb"), None) else { panic!("the account") };
        assert_eq!(account.uid, NOBODY);
        folder.give("shop/config.ru", DAEMON);
        let Ok(Author::Account(account)) = author(&shop.join("config.ru"), None) else { panic!("nobody") };
        assert_eq!(account.uid, NOBODY);
    }

    #[test]
    fn without_root_only_what_is_so_already_may_be_asked_for() {
        let somebody = 4_000_000_000;
        let root = AccountRequest { user: Some("root"), ..AccountRequest::default() };
        assert_eq!(refuse_others(somebody, &AccountRequest::default()), Ok(()));
        assert_eq!(refuse_others(0, &root), Ok(()));
        let refused = refuse_others(somebody, &root).unwrap_err().to_string();
        assert_eq!(refused, "only root can run it as `root`, and this server runs as user 4000000000");
    }
}
