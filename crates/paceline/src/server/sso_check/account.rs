//! As whom the server reads its keytab and its files of secrets: the check may be run by another account, and what root
//! can read the server perhaps can't. It reads none of them, but opens each.

use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
};

use unix_user::{AccountRequest, RunAs};

use super::Line;
use crate::config::{parts::sign_on::SignOn, Config};

/// The account that reads files.
pub struct Reader {
    /// None: it is not known, or its rights can't be tried.
    run_as: Option<RunAs>,
    shown: String,
    doubt: Option<Line>,
}

/// `user`: the account that was named.
pub fn reader(config: &Config, user: Option<&str>) -> Reader {
    let is_root = rustix::process::geteuid().is_root();
    let unknown = |doubt: Line| Reader { run_as: None, shown: String::new(), doubt: Some(doubt) };
    if let Some(user) = user {
        let wanted = AccountRequest { user: Some(user), ..AccountRequest::default() };
        return match unix_user::of_files(&wanted, Path::new("/")) {
            Ok(run_as) => Reader { run_as: Some(run_as), shown: user.to_owned(), doubt: None },
            Err(why) => {
                unknown(Line::wrong("account", format!("--user {user}: {why}"), "Name an account of this machine."))
            }
        };
    }
    let ours = rustix::process::geteuid().as_raw();
    match config.control.path.as_deref().and_then(owner_of_server) {
        Some((uid, gid)) if uid != ours => match unix_user::of_owner(uid, gid) {
            Ok(account) if is_root => {
                let shown = format!("{}, as whom the server runs", account.shown());
                Reader { run_as: Some(RunAs::Account(Arc::new(account))), shown, doubt: None }
            }
            Ok(account) => unknown(Line::warning(
                "account",
                format!("the server runs as {}, and this check does not", account.shown()),
                "Run it as that account or as root: only then it finds files that the server can't read.",
            )),
            Err(why) => unknown(Line::warning("account", why.to_string(), "Name it: --user NAME.")),
        },
        Some(_) => Reader { run_as: Some(RunAs::own()), shown: "the server's account".into(), doubt: None },
        None if is_root => unknown(Line::warning(
            "account",
            "no server runs here, and root can read every file",
            "Name the account that it will run as: --user NAME.",
        )),
        None => Reader { run_as: Some(RunAs::own()), shown: "this account".into(), doubt: None },
    }
}

impl Reader {
    /// The files that can't be read.
    pub fn files(&self, sign_on: &SignOn) -> Vec<Line> {
        let mut lines: Vec<_> = self.doubt.iter().cloned().collect();
        let Some(run_as) = &self.run_as else { return lines };
        for (subject, file) in files_of(sign_on) {
            let Err(error) = unix_user::open(run_as, file) else { continue };
            // Another failure is everybody's, and the check of the file says so.
            if error.kind() == io::ErrorKind::PermissionDenied {
                let path = file.display();
                lines.push(Line::wrong(
                    subject,
                    format!("{path} can't be read by {}", self.shown),
                    format!("Give it to that account and to nobody else: chown, chmod 600 {path}; the account needs x on the folders above."),
                ));
            }
        }
        lines
    }
}

fn files_of(sign_on: &SignOn) -> Vec<(&'static str, &Path)> {
    let kerberos = sign_on.kerberos.iter().map(|kerberos| ("keytab", Some(&kerberos.keytab)));
    let basic = sign_on
        .basic
        .iter()
        .flat_map(|basic| [("ldap", basic.password_file.as_ref()), ("ldap", basic.ca_file.as_ref())]);
    let oidc = sign_on
        .oidc
        .iter()
        .flat_map(|oidc| [("issuer", oidc.client_secret_file.as_ref()), ("issuer", oidc.ca_file.as_ref())]);
    let all = kerberos.chain(basic).chain(oidc);
    all.filter_map(|(subject, file): (_, Option<&PathBuf>)| Some((subject, file?.as_path()))).collect()
}

/// The user and the group of the server behind a control socket. None: no server answers there.
fn owner_of_server(socket: &Path) -> Option<(u32, u32)> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    Some((peer.uid.as_raw(), peer.gid.as_raw()))
}
