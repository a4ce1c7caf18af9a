//! The request target and the host it is for (RFC 9112 sections 3.2 and 7.1, RFC 9110 section 7.2).
//! It never decodes anything, and never looks for the site.

use std::ops::Range;

use memchr::memchr;

use super::{bytes, Refusal};

/// Checks a request target. For the absolute form: where in it the authority stands.
pub fn check(method: &[u8], target: &[u8]) -> Result<Option<Range<usize>>, Refusal> {
    match target {
        // RFC 9110 section 9.3.6: only a proxy has a use for it.
        _ if method == b"CONNECT" => Err(Refusal::new(501, "This server makes no tunnels (CONNECT)")),
        b"*" if method == b"OPTIONS" => Ok(None),
        b"*" => Err(Refusal::bad("The target * is for OPTIONS alone")),
        [b'/', ..] => origin(target).map(|()| None),
        _ => absolute(target).map(Some),
    }
}

fn origin(target: &[u8]) -> Result<(), Refusal> {
    let (path, query) = match memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &[][..]),
    };
    if bytes::is_path(path) && bytes::is_query(query) {
        return Ok(());
    }
    Err(Refusal::bad("The request target holds a character that has to be percent-encoded"))
}

fn absolute(target: &[u8]) -> Result<Range<usize>, Refusal> {
    let Some(start) = scheme_of(target) else {
        return Err(Refusal::bad("The request target is no path and no http or https URI"));
    };
    let rest = &target[start..];
    let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let authority = &rest[..length];
    // RFC 9110 sections 4.2.1 and 4.2.4: an empty host is invalid, user information an error.
    if authority.is_empty() || authority[0] == b':' || !is_host(authority) {
        return Err(Refusal::bad("The host in the request target is not valid"));
    }
    match rest[length..].first() {
        Some(b'?') if !bytes::is_query(&rest[length + 1..]) => origin(b"\0"),
        Some(b'/') => origin(&rest[length..]),
        _ => Ok(()),
    }?;
    Ok(start..start + length)
}

/// Where the authority begins.
fn scheme_of(target: &[u8]) -> Option<usize> {
    let is = |scheme: &[u8]| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    [&b"http://"[..], b"https://"].into_iter().find(|scheme| is(scheme)).map(<[u8]>::len)
}

/// A Host field, or the authority of HTTP/2.
pub fn check_host(host: &[u8]) -> Result<(), Refusal> {
    if is_host(host) {
        Ok(())
    } else {
        Err(Refusal::bad("The Host field is not valid"))
    }
}

/// `uri-host [ ":" port ]` (RFC 9110 section 7.2); empty is allowed.
pub fn is_host(host: &[u8]) -> bool {
    let (name_is_valid, port) = match host {
        [b'[', rest @ ..] => {
            let Some(end) = memchr(b']', rest) else { return false };
            let address = std::str::from_utf8(&rest[..end]).ok();
            (address.is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok()), &rest[end + 1..])
        }
        _ => {
            let end = memchr(b':', host).unwrap_or(host.len());
            (bytes::is_registered_name(&host[..end]), &host[end..])
        }
    };
    name_is_valid
        && match port {
            [] | [b':'] => true,
            [b':', digits @ ..] => {
                let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                text.is_some_and(|text| text.parse::<u16>().is_ok())
            }
            _ => false,
        }
}

/// Whether a Host field names the authority of the absolute-form `target` (RFC 9112 section 3.2.2): letter case and the
/// scheme's own port do not count.
pub fn same_host(target: &[u8], authority: Range<usize>, host: &[u8]) -> bool {
    same_authority(&target[authority.clone()], host, authority.start == b"https://".len())
}

/// Whether two authorities of one scheme are the same.
pub fn same_authority(one: &[u8], other: &[u8], https: bool) -> bool {
    let own_port: &[u8] = if https { b":443" } else { b":80" };
    let bare = |host: &[u8]| -> Vec<u8> {
        let host = host.strip_suffix(b":").or_else(|| host.strip_suffix(own_port)).unwrap_or(host);
        host.to_ascii_lowercase()
    };
    bare(one) == bare(other)
}
