//! A ticket of the caller's own, from its making to the server's proof of itself, without HTTP in between. It asks the
//! KDC for one ticket, which then lies in the caller's cache.

use crate::{
    gss::{Context, GssError},
    Acceptor, Answer, Refusal,
};

/// What became of it.
#[derive(Debug)]
pub enum RoundTrip {
    Accepted {
        name: String,
        realm: String,
        groups: usize,
    },
    /// The caller has none, or the KDC gives none for the service: what the library says.
    NoTicket(String),
    Refused(Refusal),
    /// The server's token is none of a server with that key.
    ServerNotProved(String),
}

/// With the tickets of `KRB5CCNAME`, for HTTP at a host. It blocks.
pub fn round_trip(acceptor: &Acceptor, host: &str) -> RoundTrip {
    let service = format!("HTTP@{host}");
    let mut client = Context::new(acceptor.gss());
    let token = match client.initiate(&service, b"", None) {
        Ok(Some(token)) => token,
        Ok(None) => return RoundTrip::NoTicket("the library makes no token".into()),
        Err(GssError { text, .. }) => return RoundTrip::NoTicket(text),
    };
    let (principal, reply) = match acceptor.accept_here(&token, None) {
        Answer::Accepted { principal, reply } => (principal, reply),
        Answer::Refused(refusal) => return RoundTrip::Refused(refusal),
        Answer::Continue { .. } => return RoundTrip::Refused(Refusal::TooLong),
    };
    match client.initiate(&service, &reply, None) {
        Ok(None) => {
            RoundTrip::Accepted { name: principal.name, realm: principal.realm, groups: principal.groups.len() }
        }
        Ok(Some(_)) => RoundTrip::ServerNotProved("the library asks for more".into()),
        Err(GssError { text, .. }) => RoundTrip::ServerNotProved(text),
    }
}

/// The first token for HTTP at a host, from the caller's own tickets, for those who test a server.
///
/// # Errors
/// The library can't be loaded, or makes no token.
pub fn first_token(
    library: &std::path::Path,
    host: &str,
    bindings: Option<&crate::ChannelBindings>,
) -> Result<Vec<u8>, GssError> {
    let own = |text: String| GssError { routine: 0, code: 0, text };
    let gss = crate::gss::Gss::load(library).map_err(|error| own(error.to_string()))?;
    let token = Context::new(&gss).initiate(&format!("HTTP@{host}"), b"", bindings)?;
    token.ok_or_else(|| own("the library makes no token".into()))
}
