//! Where an include leads: into the site itself or to another host (3.1: relative to the template). It never fetches;
//! it makes sure that nobody who reads the result again can understand another host or path than the caller did.

/// The URL of the document that includes. All of it as the site itself sees it, not as the client wrote it.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host, and port if it is not the scheme's own.
    pub authority: &'a str,
    /// The path, without a query.
    pub path: &'a str,
}

/// Where an include leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The site that the document is from. The path begins with one slash, has no dot segments and no fragment.
    Site { path_and_query: String },
    /// Somebody else, whom the caller may know or refuse.
    Foreign { scheme: &'static str, authority: String, path_and_query: String },
}

/// Why a reference leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Nothing but a fragment, or nothing at all: it would be the document itself.
    Empty,
    /// White space, a control character, a backslash, a byte beyond ASCII or another that no URI has.
    ForbiddenByte(u8),
    /// A scheme other than http and https, or one without `//` after it.
    Scheme,
    /// `user@host`.
    UserInfo,
    /// A host or port that is none.
    Authority,
    /// A path that begins with two slashes, which some would read as a host.
    AmbiguousPath,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Empty => f.write_str("the URL is empty"),
            Refused::ForbiddenByte(byte) => write!(f, "the URL has the byte {byte:#04x} in it"),
            Refused::Scheme => f.write_str("the URL's scheme is not http:// or https://"),
            Refused::UserInfo => f.write_str("the URL has a user in it"),
            Refused::Authority => f.write_str("the URL's host or port is none"),
            Refused::AmbiguousPath => f.write_str("the URL's path begins with two slashes"),
        }
    }
}

impl std::error::Error for Refused {}

/// Resolves a reference (RFC 3986 section 5.2), more strictly than the RFC has it: see [`Refused`].
///
/// The other of http and https leads to the same site if neither names a port: applications behind TLS write both.
pub fn resolve(reference: &str, base: &Base<'_>) -> Result<Target, Refused> {
    if let Some(byte) = reference.bytes().find(|byte| !byte.is_ascii_graphic() || b"\\\"<>^`{|}".contains(byte)) {
        return Err(Refused::ForbiddenByte(byte));
    }
    let reference = reference.split('#').next().unwrap_or_default();
    let (scheme, rest) = split_scheme(reference)?;
    let Some(rest) = rest.strip_prefix("//") else {
        if scheme.is_some() {
            return Err(Refused::Scheme);
        }
        return within_site(rest, base.path).map(|path_and_query| Target::Site { path_and_query });
    };
    let base_scheme = known_scheme(base.scheme).unwrap_or("http");
    let scheme = scheme.unwrap_or(base_scheme);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let authority = normal_authority(authority, scheme)?;
    let path_and_query = if rest.starts_with('/') { within_site(rest, "/")? } else { format!("/{rest}") };
    let same_host = normal_authority(base.authority, base_scheme).is_ok_and(|own| own == authority);
    let same_port = scheme == base_scheme || port(&authority).is_none();
    Ok(if same_host && same_port {
        Target::Site { path_and_query }
    } else {
        Target::Foreign { scheme, authority, path_and_query }
    })
}

/// RFC 3986 section 3.1: what stands before a colon that comes before any `/` and `?`.
fn split_scheme(reference: &str) -> Result<(Option<&'static str>, &str), Refused> {
    let head = &reference[..reference.find(['/', '?']).unwrap_or(reference.len())];
    match head.find(':') {
        None => Ok((None, reference)),
        Some(colon) => Ok((Some(known_scheme(&head[..colon]).ok_or(Refused::Scheme)?), &reference[colon + 1..])),
    }
}

fn known_scheme(scheme: &str) -> Option<&'static str> {
    ["http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known))
}

/// In small letters, without the scheme's own port.
fn normal_authority(authority: &str, scheme: &str) -> Result<String, Refused> {
    if authority.contains('@') {
        return Err(Refused::UserInfo);
    }
    let own_port = if scheme == "https" { "443" } else { "80" };
    let port = port(authority);
    let host = &authority[..authority.len() - port.map_or(0, |port| port.len() + 1)];
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let good = match literal {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    let good_port = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok())
    });
    if !good || !good_port {
        return Err(Refused::Authority);
    }
    let port = port.filter(|port| !port.is_empty() && *port != own_port);
    Ok(port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")).to_ascii_lowercase())
}

/// What follows the colon that is not within an IPv6 address.
fn port(authority: &str) -> Option<&str> {
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    authority[after_address..].find(':').map(|colon| &authority[after_address + colon + 1..])
}

/// RFC 3986 sections 5.2.3 and 5.2.4; `%2e` is a dot here too, since some servers take it for one.
fn within_site(reference: &str, base_path: &str) -> Result<String, Refused> {
    let (path, query) = match reference.find('?') {
        Some(at) => reference.split_at(at),
        None => (reference, ""),
    };
    if reference.is_empty() {
        return Err(Refused::Empty);
    }
    let merged = match path {
        "" => base_path.to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("{}{path}", &base_path[..base_path.rfind('/').map_or(0, |slash| slash + 1)]),
    };
    let mut segments: Vec<&str> = Vec::new();
    let mut whole = merged.strip_prefix('/').unwrap_or(&merged).split('/').peekable();
    while let Some(segment) = whole.next() {
        let dots = segment.to_ascii_lowercase().replace("%2e", ".");
        match dots.as_str() {
            "." | ".." => {
                if dots == ".." {
                    segments.pop();
                }
                if whole.peek().is_none() {
                    segments.push("");
                }
            }
            _ => segments.push(segment),
        }
    }
    let path = format!("/{}", segments.join("/"));
    if path.starts_with("//") {
        return Err(Refused::AmbiguousPath);
    }
    Ok(path + query)
}

#[cfg(test)]
mod tests;
