//! Why the server that the fronts share has not done what it was asked for. It never shows an address with its password, nor
//! what the server repeats of a command.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use directory::trust::TrustError;
use redis::{ConnectionAddr, RedisError};

use super::address::AddressError;

/// What went wrong between this front and the server. Each text goes behind the server's address and a colon: into the log,
/// into `paceline cluster`, and into the answers of the control socket.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    #[error("it has a url {0}")]
    Address(#[from] AddressError),
    #[error("{key} {}: {why}", .file.display())]
    PasswordFile {
        key: &'static str,
        file: PathBuf,
        #[source]
        why: Arc<io::Error>,
    },
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Sentinels, or nodes of a Valkey Cluster: what each of them has answered.
    #[error("{}", listed(.0))]
    NoneOfSeveral(Vec<(ConnectionAddr, LinkError)>),
    #[error("it watches no primary named {0}")]
    UnknownPrimary(String),
    #[error("it is no node of a Valkey Cluster: give its address as url, and no list")]
    NoNode,
    #[error("it does not know which node has the keys")]
    NoOwner,
    #[error("it is not the primary")]
    NoPrimary,
    /// The server has refused a command: its error code. The rest of its answer may repeat what was sent.
    #[error("it answers {0}")]
    Refused(String),
    /// The connection failed.
    #[error("{0}")]
    Connection(#[source] RedisError),
    #[error("no answer in {} ms", .0.as_millis())]
    NoAnswer(Duration),
    #[error("its answer has another form")]
    Malformed,
    /// The journal ends before the entry that the server has named.
    #[error("entries are missing")]
    MissingEntries,
    /// Other programs have written among them. They are listed once more within a moment.
    #[error("it had more servers than there may be")]
    TooManyMembers,
    #[error("it does not say its run_id")]
    NoRunId,
    #[error("its key secret has another format")]
    BadSecret,
    #[error("it has maxmemory with maxmemory-policy {0}, so pages could displace purges: set volatile-lru")]
    EvictsPurges(String),
}

impl From<RedisError> for LinkError {
    fn from(error: RedisError) -> LinkError {
        match error.code() {
            Some(code) => LinkError::Refused(code.to_owned()),
            None => LinkError::Connection(error),
        }
    }
}

fn listed(all: &[(ConnectionAddr, LinkError)]) -> String {
    let each: Vec<_> = all.iter().map(|(addr, why)| format!("{addr}: {why}")).collect();
    each.join("; ")
}

/// Why what all fronts share could not be read or changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SharedStateError {
    #[error("{place} can't be reached: {why}")]
    Unreachable {
        place: String,
        #[source]
        why: LinkError,
    },
    #[error("a newer Paceline has changed which sites are closed, in a form that this version can't read: use the newer one")]
    Newer,
    #[error("too many maintenance pages: use a smaller --page, or one page for all sites")]
    TooLarge,
    #[error("another command changes this at the same time: try again")]
    Contended,
}

#[cfg(test)]
mod tests {
    use redis::{ErrorKind, ServerErrorKind};

    use super::*;

    #[test]
    fn what_a_server_repeats_of_a_command_is_not_shown() {
        let kind = ErrorKind::Server(ServerErrorKind::NoPerm);
        let error = RedisError::from((kind, "An error was signalled by the server", "AUTH alice secret".into()));
        assert_eq!(LinkError::from(error).to_string(), "it answers NOPERM");
    }

    #[test]
    fn each_of_several_servers_is_named_with_what_it_answered() {
        let addr = |host: &str| ConnectionAddr::Tcp(host.into(), 26379);
        let all = vec![(addr("a"), LinkError::UnknownPrimary("shop".into())), (addr("b"), LinkError::NoPrimary)];
        let shown = LinkError::NoneOfSeveral(all).to_string();
        assert_eq!(shown, "a:26379: it watches no primary named shop; b:26379: it is not the primary");
    }
}
