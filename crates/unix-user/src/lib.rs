//! Accounts of the machine: who an application runs as, with whose rights its files are read, and how that is done.
//! It never runs anything of an application's.
//!
//! Reading order: `run_as` (who), `walk` (who could change what a path leads to), `passwd` (accounts and groups),
//! `acting` (a thread as an account), `files` (what is read for a site), `switch` (a process as an account), `own`
//! (where root itself writes).

mod acting;
mod files;
mod own;
mod passwd;
mod run_as;
mod switch;
mod walk;

pub use acting::{acting, Acting};
pub use files::{beginning, open, open_at, open_at_once, plain, read, Reader};
pub use own::{make_dirs, others_above, others_than_root, writing};
pub use passwd::of_owner;
pub use run_as::{author, of_app, of_files, root_alone, AccountRequest, Author, Provenance, RunAs};
pub use switch::{command, env, obey, SWITCH};

use std::path::PathBuf;

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

/// Why it is not known who something runs as, or may not run as that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The directory belongs to root, and nobody has said that root is meant.
    Root(PathBuf),
    /// It would be root, and others can write in a directory on the way to it.
    Exposed {
        root: PathBuf,
        by: PathBuf,
    },
    Other(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Root(dir) => write!(
                f,
                "it would run as root, the owner of {}: set `user = \"deploy\"`, or `user = \"root\"` if you mean it",
                dir.display()
            ),
            Refused::Exposed { root, by } => write!(
                f,
                "{} would be run as root, and others can write in {}: give it to root alone (chown root, chmod go-w), or set `user = \"deploy\"`",
                root.display(),
                by.display()
            ),
            Refused::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refused {}

impl Account {
    /// As messages name it.
    pub fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("user {}", self.uid))
    }
}
