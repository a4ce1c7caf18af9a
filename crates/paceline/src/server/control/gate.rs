//! Who may pass to the control routes over TCP. With a token: who has it. Without one, on loopback: whoever reads, if
//! no other web site has sent him. A cookie lets a browser read; what changes anything needs the token in its header
//! each time. It never answers what was asked.

use std::{net::IpAddr, time::Instant};

use http::{header, request::Parts, HeaderValue, Method, Response, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq;

use super::{
    answer::{refused, whole, Body, Refusal},
    guesses::Guesses,
};
use crate::observe::dashboard;

/// What anybody may ask: a load balancer has no token, and the look of the page that asks for one is no secret.
const OPEN: &[&str] = &["/healthz", "/livez", dashboard::STYLE_PATH];

const ELSEWHERE: &str = "requests from pages of other sites are refused";

pub struct Gate {
    token: Mutex<Option<String>>,
    /// The token goes with its first use.
    once: bool,
    /// None: whoever comes may read.
    cookie: Option<Cookie>,
    guesses: Mutex<Guesses>,
}

/// What a browser gets for the token, so that the token itself is not in it. Forgotten with the server.
struct Cookie {
    name: String,
    value: String,
}

impl Gate {
    /// `token` None: reading is free. `port` tells the cookies of several servers on one host apart.
    pub fn new(token: Option<String>, port: u16) -> Gate {
        let random = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let cookie = token.is_some().then(|| Cookie { name: format!("paceline_control_{port}"), value: random() });
        Gate { token: Mutex::new(token), once: false, cookie, guesses: Mutex::default() }
    }

    /// One that a token opens once; then only the cookie that was given for it does.
    pub fn once(token: String, port: u16) -> Gate {
        Gate { once: true, ..Gate::new(Some(token), port) }
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.token.lock()
    }

    /// Err: the answer to who may not pass, or is sent on.
    pub fn pass(&self, head: &Parts, from: IpAddr, now: Instant) -> Result<(), Box<Response<Body>>> {
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        if reads && OPEN.contains(&head.uri.path()) {
            return Ok(());
        }
        let Some(cookie) = &self.cookie else { return free(head, reads) };
        if let Some(given) = bearer(head) {
            return self.check(&given, from, now);
        }
        if reads {
            if let Some((given, rest)) = token_in_query(head) {
                self.check(&given, from, now)?;
                if self.once {
                    self.token().take();
                }
                return Err(Box::new(entered(cookie, &rest)));
            }
        }
        match (has_cookie(head, cookie), reads) {
            (true, true) if is_from_elsewhere(head) => no(StatusCode::FORBIDDEN, ELSEWHERE),
            (true, true) => Ok(()),
            (true, false) => {
                no(StatusCode::FORBIDDEN, "this request changes something: send the header Authorization: Bearer TOKEN")
            }
            (false, _) => {
                Err(Box::new(closed(head, "a token is required: send the header Authorization: Bearer TOKEN")))
            }
        }
    }

    fn check(&self, given: &str, from: IpAddr, now: Instant) -> Result<(), Box<Response<Body>>> {
        let mut guesses = self.guesses.lock();
        if let Some(wait) = guesses.wait(from, now) {
            let mut answer =
                refusal(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens from this address: try again later");
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
            return Err(Box::new(answer));
        }
        if self.token().as_ref().is_some_and(|token| same(token.as_bytes(), given.as_bytes())) {
            return Ok(());
        }
        guesses.wrong(from, now);
        let mut answer = refusal(StatusCode::UNAUTHORIZED, "wrong token: use the server's control_token");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(Box::new(answer))
    }
}

/// Without a token. A page of another site may have a browser ask, by a name of its own that leads here (DNS rebinding)
/// or plainly: neither is to see the answer.
fn free(head: &Parts, reads: bool) -> Result<(), Box<Response<Body>>> {
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let named = head.uri.authority().map(|authority| authority.as_str());
    if !host.or(named).is_some_and(is_loopback) || !named.is_none_or(is_loopback) {
        return no(StatusCode::FORBIDDEN, "unknown host name: use localhost, or set control_token");
    }
    if is_from_elsewhere(head) {
        return no(StatusCode::FORBIDDEN, ELSEWHERE);
    }
    if reads {
        Ok(())
    } else {
        no(
            StatusCode::FORBIDDEN,
            "this request changes something and needs a token: set control_token, or use the control socket",
        )
    }
}

/// Whether a page of another site has a browser ask: one on another port of this host is one, too. It could not read
/// the answer, but would take a place among those who watch. A link from elsewhere is followed.
fn is_from_elsewhere(head: &Parts) -> bool {
    let said = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let site = matches!(said("sec-fetch-site"), "cross-site" | "same-site") && said("sec-fetch-mode") != "navigate";
    // Also of browsers that send no Sec-Fetch-Site; a page's own GET has none.
    let origin = head.headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or(""));
    let own = |origin: &str| origin.split_once("://").is_some_and(|(_, host)| host.eq_ignore_ascii_case(said("host")));
    site || origin.is_some_and(|origin| !own(origin))
}

/// A host, with a port or without, that only this machine can mean.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
    name == "localhost"
        || name.ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn bearer(head: &Parts) -> Option<String> {
    let value = head.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// The token in the query, and the address without it.
fn token_in_query(head: &Parts) -> Option<(String, String)> {
    let (mut token, mut rest) = (None, Vec::new());
    for pair in head.uri.query()?.split('&') {
        match pair.strip_prefix("token=") {
            Some(given) => token = Some(percent_decode_str(given).decode_utf8_lossy().trim().to_owned()),
            None => rest.push(pair),
        }
    }
    // A path with two slashes at its beginning would be another host's address.
    let path = format!("/{}", head.uri.path().trim_start_matches('/'));
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Some((token?, format!("{path}{query}")))
}

fn has_cookie(head: &Parts, wanted: &Cookie) -> bool {
    let values = head.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.any(|(name, value)| name == wanted.name && same(wanted.value.as_bytes(), value.as_bytes()))
}

/// Takes as long for any text of the same length: how long it took tells nothing of where the two begin to differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// To the same address without the token, which then is in no history and no Referer.
fn entered(cookie: &Cookie, to: &str) -> Response<Body> {
    let mut answer = whole("text/plain; charset=utf-8", "Signed in.\n");
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let Cookie { name, value } = cookie;
    let set = HeaderValue::from_str(&format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict"));
    set.into_iter().for_each(|set| drop(answer.headers_mut().insert(header::SET_COOKIE, set)));
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    answer.headers_mut().insert(header::LOCATION, to);
    answer
}

fn no(status: StatusCode, why: &str) -> Result<(), Box<Response<Body>>> {
    Err(Box::new(refusal(status, why)))
}

fn refusal(status: StatusCode, why: &str) -> Response<Body> {
    refused(Refusal { status, why: why.into() })
}

/// A browser is shown where the token goes.
fn closed(head: &Parts, why: &str) -> Response<Body> {
    let accept = head.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    let mut answer = if accept.contains("text/html") {
        whole("text/html; charset=utf-8", dashboard::door())
    } else {
        refusal(StatusCode::UNAUTHORIZED, why)
    };
    *answer.status_mut() = StatusCode::UNAUTHORIZED;
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const TOKEN: &str = "0123456789abcdef";
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn head(method: &str, target: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn status(gate: &Gate, head: &Parts) -> u16 {
        gate.pass(head, HERE, Instant::now()).map_or_else(|answer| answer.status().as_u16(), |()| 200)
    }

    #[test]
    fn without_a_token_this_machine_may_read() {
        let gate = Gate::new(None, 1);
        for (method, host, more, answer) in [
            ("GET", "localhost:9293", None, 200),
            ("HEAD", "127.0.0.1", None, 200),
            ("GET", "[::1]:9293", None, 200),
            ("GET", "shop.localhost", None, 200),
            ("GET", "evil.example", None, 403),
            ("GET", "localhost.evil.example:80", None, 403),
            ("GET", "127.0.0.1.evil.example", None, 403),
            ("GET", "192.0.2.1:9293", None, 403),
            ("POST", "localhost", None, 403),
            ("PURGE", "localhost", None, 403),
            ("GET", "localhost", Some(("sec-fetch-site", "cross-site")), 403),
            ("GET", "localhost", Some(("sec-fetch-site", "same-origin")), 200),
            ("GET", "localhost:9293", Some(("origin", "http://localhost:9293")), 200),
            ("GET", "localhost:9293", Some(("origin", "http://localhost:3000")), 403),
            ("GET", "localhost:9293", Some(("origin", "https://evil.example")), 403),
            ("GET", "localhost:9293", Some(("origin", "null")), 403),
        ] {
            let fields: Vec<_> = std::iter::once(("host", host)).chain(more).collect();
            assert_eq!(status(&gate, &head(method, "/status", &fields)), answer, "{method} {host} {more:?}");
        }
        assert_eq!(status(&gate, &head("GET", "/status", &[])), 403, "no host");
        assert_eq!(status(&gate, &head("GET", "http://evil.example/status", &[("host", "localhost")])), 403);
        let link = [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(status(&gate, &head("GET", "/", &link)), 200, "a link from elsewhere");
    }

    #[test]
    fn a_token_opens_and_a_cookie_only_reads() {
        let gate = Gate::new(Some(TOKEN.into()), 9293);
        let bearer = ("authorization", "bearer 0123456789abcdef");
        assert_eq!(status(&gate, &head("POST", "/cache/purge", &[bearer])), 200);
        assert_eq!(status(&gate, &head("GET", "/status", &[])), 401);
        assert_eq!(status(&gate, &head("GET", "/healthz", &[])), 200);
        assert_eq!(status(&gate, &head("POST", "/healthz", &[])), 401);
        assert_eq!(status(&gate, &head("POST", "/cache/purge?token=0123456789abcdef", &[])), 401);
        let answer = gate.pass(&head("GET", "//evil.example/x?a=1&token=0123456789abcdef", &[]), HERE, Instant::now());
        let answer = answer.unwrap_err();
        assert_eq!(
            (answer.status(), &answer.headers()["location"]),
            (StatusCode::SEE_OTHER, &HeaderValue::from_static("/evil.example/x?a=1"))
        );
        let set = answer.headers()["set-cookie"].to_str().unwrap();
        assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict") && !set.contains(TOKEN), "{set}");
        let cookie = ("cookie", set.split(';').next().unwrap());
        assert_eq!(status(&gate, &head("GET", "/status", &[cookie])), 200);
        assert_eq!(status(&gate, &head("POST", "/cache/purge", &[cookie])), 403);
        let (host, page) = (("host", "ops.example:9293"), ("origin", "https://shop.example"));
        assert_eq!(status(&gate, &head("GET", "/events", &[cookie, host, page])), 403);
        assert_eq!(status(&gate, &head("GET", "/events", &[bearer, host, page])), 200);
        assert_eq!(status(&gate, &head("GET", "/status", &[("cookie", "paceline_control_9293=")])), 401);
        let page = gate.pass(&head("GET", "/", &[("accept", "text/html")]), HERE, Instant::now()).unwrap_err();
        assert_eq!(
            (page.status(), &page.headers()["content-type"]),
            (StatusCode::UNAUTHORIZED, &HeaderValue::from_static("text/html; charset=utf-8"))
        );
    }

    #[test]
    fn guesses_are_limited_even_if_the_last_is_right() {
        let gate = Gate::new(Some(TOKEN.into()), 1);
        let wrong = head("GET", "/?token=0123456789abcdeg", &[]);
        let statuses: Vec<_> = (0..12).map(|_| status(&gate, &wrong)).collect();
        assert_eq!((statuses[9], statuses[10]), (401, 429));
        assert_eq!(status(&gate, &head("GET", "/", &[("authorization", "Bearer 0123456789abcdef")])), 429);
        let other = gate.pass(
            &head("GET", "/", &[("authorization", "Bearer 0123456789abcdef")]),
            "192.0.2.1".parse().unwrap(),
            Instant::now(),
        );
        assert!(other.is_ok());
    }

    #[test]
    fn a_link_for_once_opens_once() {
        let gate = Gate::once(TOKEN.into(), 1);
        let link = head("GET", "/?token=0123456789abcdef", &[]);
        assert_eq!((status(&gate, &link), status(&gate, &link)), (303, 401));
    }
}
