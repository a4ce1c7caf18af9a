//! Is the site's name the one that browsers ask tickets for? They follow an alias (CNAME) to its canonical name first,
//! and some look up the address's name too. It only asks the system's resolver.
#![allow(unsafe_code)]

use std::{
    ffi::{c_char, CStr, CString},
    io, ptr,
};

use super::Finding;
use crate::keytab::Keytab;

const TOPIC: &str = "name";

/// The answers for a host, with what the keytab has.
pub fn names(host: &str, keytab: &Keytab) -> Vec<Finding> {
    match resolve(host) {
        Ok(resolved) => judge(host, &resolved, keytab),
        Err(why) => vec![Finding::bad(
            TOPIC,
            format!("{host} has no address on this machine: {why}"),
            Some("Add it to the DNS, or to /etc/hosts.".into()),
        )],
    }
}

/// A host as the resolver has it.
#[derive(Debug, PartialEq, Eq)]
struct Resolved {
    canonical: String,
    /// The name of its first address. None: it has none.
    reverse: Option<String>,
}

fn judge(host: &str, resolved: &Resolved, keytab: &Keytab) -> Vec<Finding> {
    let has = |name: &str| {
        let service = format!("HTTP/{name}");
        keytab.entries.iter().any(|entry| entry.service.eq_ignore_ascii_case(&service))
    };
    let mut findings = Vec::new();
    if host.parse::<std::net::IpAddr>().is_ok() {
        findings.push(Finding::bad(
            TOPIC,
            format!("{host} is an address: browsers send no ticket to one"),
            Some("Open the site by a name.".into()),
        ));
    }
    let same = resolved.canonical.eq_ignore_ascii_case(host);
    if !same && !has(&resolved.canonical) {
        findings.push(Finding::bad(
            TOPIC,
            format!(
                "{host} is an alias of {0}: Chromium and curl ask a ticket for HTTP/{0}, which the keytab does not have",
                resolved.canonical
            ),
            Some(format!(
                "Add HTTP/{} to the keytab, make {host} an address record (A, AAAA), or set Chromium's DisableAuthNegotiateCnameLookup.",
                resolved.canonical
            )),
        ));
    } else if !same {
        findings.push(Finding::good(
            TOPIC,
            format!("{host} is an alias of {}, and the keytab has both", resolved.canonical),
        ));
    } else {
        findings.push(Finding::good(TOPIC, format!("{host} is its own canonical name")));
    }
    match &resolved.reverse {
        Some(reverse) if !reverse.eq_ignore_ascii_case(host) && !has(reverse) => findings.push(Finding::note(
            TOPIC,
            format!("its address leads back to {reverse}, which the keytab does not have"),
            "Clients with rdns = true (the default of older krb5.conf) ask a ticket for that name: set rdns = false there, or add it.",
        )),
        _ => {}
    }
    findings
}

fn resolve(host: &str) -> io::Result<Resolved> {
    let name = CString::new(host)?;
    // SAFETY: a plain structure of numbers and pointers, for which zero means none.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_flags = libc::AI_CANONNAME;
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut found: *mut libc::addrinfo = ptr::null_mut();
    // SAFETY: name and hints live until after the call, and the result is a place to write to.
    let status = unsafe { libc::getaddrinfo(name.as_ptr(), ptr::null(), &hints, &mut found) };
    if status != 0 || found.is_null() {
        return Err(io::Error::other(message(status)));
    }
    // SAFETY: the call succeeded, so that its first result is there until it is freed below.
    let first = unsafe { &*found };
    let canonical = if first.ai_canonname.is_null() {
        host.to_owned()
    } else {
        // SAFETY: a canonical name is a text that ends with a zero, and lives as long as the result.
        unsafe { CStr::from_ptr(first.ai_canonname) }.to_string_lossy().into_owned()
    };
    let mut buffer = [0 as c_char; 1025];
    // SAFETY: the address is the result's, with its length; the buffer is as long as is said, and no service is asked.
    let status = unsafe {
        libc::getnameinfo(
            first.ai_addr,
            first.ai_addrlen,
            buffer.as_mut_ptr(),
            buffer.len() as libc::socklen_t,
            ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    // SAFETY: on success the buffer has a text that ends with a zero.
    let reverse = (status == 0).then(|| unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned());
    // SAFETY: the result is freed once, and nothing of it is used any more.
    unsafe { libc::freeaddrinfo(found) };
    Ok(Resolved { canonical, reverse })
}

fn message(status: i32) -> String {
    // SAFETY: the function has a text for each number, which lives as long as the program.
    unsafe { CStr::from_ptr(libc::gai_strerror(status)) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::Level, keytab::Entry};

    fn keytab() -> Keytab {
        let (service, realm) = ("HTTP/web.example.com".into(), "EXAMPLE.COM".into());
        Keytab { entries: vec![Entry { service, realm, kvno: 2, etype: 18, written: 0 }] }
    }

    fn judged(host: &str, canonical: &str, reverse: Option<&str>) -> Vec<Finding> {
        judge(host, &Resolved { canonical: canonical.into(), reverse: reverse.map(str::to_owned) }, &keytab())
    }

    #[test]
    fn an_alias_needs_a_key_of_its_canonical_name() {
        let findings = judged("wiki.example.com", "farm7.example.com", None);
        assert_eq!(findings[0].level, Level::Bad);
        assert!(findings[0].text.contains("HTTP/farm7.example.com"), "{}", findings[0].text);
        assert_eq!(judged("wiki.example.com", "web.example.com", None)[0].level, Level::Good);
    }

    #[test]
    fn an_address_gets_no_ticket_and_another_reverse_name_is_worth_knowing() {
        assert_eq!(judged("192.0.2.7", "192.0.2.7", None)[0].level, Level::Bad);
        let findings = judged("web.example.com", "web.example.com", Some("host7.provider.example"));
        assert_eq!(findings.iter().map(|finding| finding.level).collect::<Vec<_>>(), [Level::Good, Level::Note]);
    }

    #[test]
    fn the_resolver_answers_for_this_machine() {
        assert_eq!(resolve("127.0.0.1").unwrap().canonical, "127.0.0.1");
        assert!(resolve("no-such-host.invalid").is_err());
    }
}
