//! What a request says of its sender: the `Authorization` field, the marks by which browsers tell how a page is asked
//! for, and what of it no application gets. It never checks a ticket or a password.

use base64::{engine::general_purpose::STANDARD, Engine};
use cache::fields::split;
use http::{header, request::Parts, HeaderMap, HeaderName, HeaderValue, Method};
use http_guard::{host, identity_fields::is_identity};
use secret::Secret;
use sign_in::CookieName;
use zeroize::Zeroizing;

/// All cookies of ours begin so.
const OURS: &[u8] = b"__Host-paceline-";
/// The longest name and password together, decoded (bytes).
const MAX_BASIC: usize = 8 << 10;

/// What `Authorization` has.
pub enum Credentials {
    None,
    /// A token of Negotiate, or why it is none.
    Negotiate(Result<Vec<u8>, negotiate::Refusal>),
    Basic {
        name: String,
        password: Secret,
    },
    /// Basic, and no name and password.
    Malformed,
    /// A scheme that is the application's to judge.
    Other,
}

impl Credentials {
    pub fn of(headers: &HeaderMap) -> Credentials {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return if headers.contains_key(header::AUTHORIZATION) {
                Credentials::Malformed
            } else {
                Credentials::None
            };
        };
        if let Some(token) = negotiate::token(value.as_bytes()) {
            return Credentials::Negotiate(token);
        }
        if scheme(value).eq_ignore_ascii_case(b"basic") {
            basic(value).unwrap_or(Credentials::Malformed)
        } else {
            Credentials::Other
        }
    }
}

fn scheme(value: &HeaderValue) -> &[u8] {
    let value = value.as_bytes().trim_ascii();
    value.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default()
}

/// RFC 7617.
fn basic(value: &HeaderValue) -> Option<Credentials> {
    let coded = value.as_bytes().trim_ascii().get(5..)?.trim_ascii();
    if coded.len() > MAX_BASIC * 4 / 3 {
        return None;
    }
    let decoded = Zeroizing::new(STANDARD.decode(coded).ok()?);
    let (name, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some(Credentials::Basic { name: name.to_owned(), password: Secret::new(password) })
}

/// Which schemes of `Authorization` are the server's to judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schemes {
    pub negotiate: bool,
    pub basic: bool,
}

/// Takes out `Authorization` of these schemes, so that no application gets a ticket or a password that was meant for the
/// server.
pub fn remove_authorization(headers: &mut HeaderMap, schemes: Schemes) {
    let is_ours = |value: &HeaderValue| {
        let scheme = scheme(value);
        schemes.negotiate && scheme.eq_ignore_ascii_case(b"negotiate")
            || schemes.basic && scheme.eq_ignore_ascii_case(b"basic")
    };
    if headers.get_all(header::AUTHORIZATION).iter().any(is_ours) {
        headers.remove(header::AUTHORIZATION);
    }
}

/// Takes out fields that say who somebody is.
pub fn remove_identity(headers: &mut HeaderMap) {
    let said: Vec<HeaderName> = headers.keys().filter(|name| is_identity(name)).cloned().collect();
    said.iter().for_each(|name| drop(headers.remove(name)));
}

/// Takes out our cookies.
pub fn remove_cookies(headers: &mut HeaderMap, names: &[CookieName]) {
    let is_there = |value: &HeaderValue| value.as_bytes().windows(OURS.len()).any(|part| part == OURS);
    if !headers.get_all(header::COOKIE).iter().any(is_there) {
        return;
    }
    let mut kept = Vec::new();
    for value in headers.get_all(header::COOKIE) {
        let mut field = Some(value.as_bytes().to_vec());
        for name in names {
            field = field.and_then(|field| name.remove_from(&field));
        }
        kept.extend(field.and_then(|field| HeaderValue::from_bytes(&field).ok()));
    }
    headers.remove(header::COOKIE);
    for value in kept {
        headers.append(header::COOKIE, value);
    }
}

/// The `Cookie` fields.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes)
}

/// What asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// A browser that opens a page: it can be sent elsewhere.
    Navigation,
    /// A script, an image or a part of a page in a browser.
    Part,
    /// A program, or a browser of which nothing is known.
    Program,
}

impl Manner {
    pub fn of(head: &Parts) -> Manner {
        let is_read = [Method::GET, Method::HEAD].contains(&head.method);
        let text = |name: &'static str| head.headers.get(name).and_then(|value| value.to_str().ok());
        if head.headers.contains_key(header::UPGRADE) || text("x-requested-with") == Some("XMLHttpRequest") {
            return Manner::Part;
        }
        match text("sec-fetch-mode") {
            Some("navigate") if is_read => Manner::Navigation,
            Some("navigate") => Manner::Program,
            Some(_) => Manner::Part,
            // Browsers before 2023, and those on plain http.
            None if is_read && accepts_html(&head.headers) => Manner::Navigation,
            None => Manner::Program,
        }
    }
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let is_html =
        |range: &[u8]| split(range, b';').next().is_some_and(|media| media.eq_ignore_ascii_case(b"text/html"));
    headers.get_all(header::ACCEPT).iter().any(|value| split(value.as_bytes(), b',').take(32).any(is_html))
}

/// Whether another site has made the browser send this, and it may change something: then a ticket that browsers add by
/// themselves says nothing of what the person wants.
///
/// Browsers send no Sec-Fetch-Site over plain http, and those before 2023 none at all. All of them send an Origin with
/// what may change something, and with the handshake of a WebSocket; programs send neither.
pub fn is_forged(head: &Parts) -> bool {
    let is_safe = [Method::GET, Method::HEAD].contains(&head.method) && !head.headers.contains_key(header::UPGRADE);
    if is_safe {
        return false;
    }
    match head.headers.get("sec-fetch-site") {
        Some(site) => site == "cross-site",
        None => head.headers.get(header::ORIGIN).is_some_and(|origin| !is_own(origin, head)),
    }
}

/// Whether a page of this host has sent it, by the name that this server or a proxy before it knows. No page of another
/// site can have a browser send X-Forwarded-Host without asking first (CORS).
fn is_own(origin: &HeaderValue, head: &Parts) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let Some((_, from)) = origin.split_once("://") else { return false };
    let by_proxy = head.headers.get_all("x-forwarded-host").iter().filter_map(|names| names.to_str().ok());
    let mut by_proxy = by_proxy.flat_map(|names| names.split(',')).map(str::trim);
    host::host(head).eq_ignore_ascii_case(from) || by_proxy.any(|name| name.eq_ignore_ascii_case(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: &str, fields: &[(&str, &str)]) -> Parts {
        let request = http::Request::builder().method(method).uri("/");
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn shown(values: &[&str]) -> String {
        let fields: Vec<_> = values.iter().map(|value| ("authorization", *value)).collect();
        match Credentials::of(&head("GET", &fields).headers) {
            Credentials::None => "none".into(),
            Credentials::Negotiate(Ok(token)) => format!("token {}", String::from_utf8_lossy(&token)),
            Credentials::Negotiate(Err(refusal)) => format!("refused {}", refusal.kind()),
            Credentials::Basic { name, password } => format!("{name} {}", password.expose()),
            Credentials::Malformed => "malformed".into(),
            Credentials::Other => "other".into(),
        }
    }

    #[test]
    fn credentials() {
        for (values, told) in [
            (&[][..], "none"),
            (&["Negotiate YWJj"], "token abc"),
            (&["Negotiate"], "refused malformed"),
            (&["basic YWxpY2U6YTpi"], "alice a:b"),
            (&["Basic YWxpY2U="], "malformed"),
            (&["Basic !"], "malformed"),
            (&["Basic"], "malformed"),
            (&["Bearer abc"], "other"),
            (&["Basic YWxpY2U6YTpi", "Negotiate YWJj"], "malformed"),
        ] {
            assert_eq!(shown(values), told, "{values:?}");
        }
    }

    #[test]
    fn an_application_gets_no_ticket_but_its_own_tokens() {
        let left = |value: &str, schemes: Schemes| {
            let mut headers = head("GET", &[("authorization", value)]).headers;
            remove_authorization(&mut headers, schemes);
            headers.contains_key("authorization")
        };
        let both = Schemes { negotiate: true, basic: true };
        assert!(!left("negotiate YWJj", both) && !left("BASIC YTpi", both) && left("Bearer x", both));
        assert!(left("Basic YTpi", Schemes { negotiate: true, basic: false }));
    }

    #[test]
    fn no_spelling_of_an_identity_is_left() {
        let fields: Vec<_> = http_guard::identity_fields::SPELLINGS.iter().map(|name| (*name, "admin")).collect();
        let mut headers = head("GET", &fields).headers;
        // Twice each.
        fields.iter().for_each(|(name, value)| {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value));
        });
        headers.insert("accept", HeaderValue::from_static("*/*"));
        remove_identity(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn an_application_gets_only_its_own_cookies() {
        let names = [CookieName::of_session("shop"), CookieName::of_login("shop")];
        let kept = |values: &[&str]| {
            let fields: Vec<_> = values.iter().map(|value| ("cookie", *value)).collect();
            let mut headers = head("GET", &fields).headers;
            remove_cookies(&mut headers, &names);
            cookies(&headers).map(|field| String::from_utf8_lossy(field).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(kept(&["a=b; __Host-paceline-shop=x; c=d", "__Host-paceline-login-shop=y"]), ["a=b; c=d"]);
        assert_eq!(kept(&["a=b", "c=d"]), ["a=b", "c=d"]);
        assert_eq!(kept(&["__Host-paceline-shop=x"]), Vec::<String>::new());
    }

    #[test]
    fn only_pages_are_sent_elsewhere() {
        let html = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        for (method, fields, manner) in [
            ("GET", &[html][..], Manner::Navigation),
            ("GET", &[html, ("sec-fetch-mode", "navigate")], Manner::Navigation),
            ("GET", &[html, ("sec-fetch-mode", "cors")], Manner::Part),
            ("GET", &[("accept", "image/png"), ("sec-fetch-mode", "no-cors")], Manner::Part),
            ("GET", &[html, ("x-requested-with", "XMLHttpRequest")], Manner::Part),
            ("GET", &[("sec-fetch-mode", "websocket"), ("upgrade", "websocket")], Manner::Part),
            ("GET", &[("accept", "*/*")], Manner::Program),
            ("GET", &[("accept", "text/htmlx")], Manner::Program),
            ("POST", &[html, ("sec-fetch-mode", "navigate")], Manner::Program),
            ("POST", &[html], Manner::Program),
        ] {
            assert_eq!(Manner::of(&head(method, fields)), manner, "{method} {fields:?}");
        }
    }

    #[test]
    fn another_site_signs_nobody_in_to_change_something() {
        let forged = |method: &str, fields: &[(&str, &str)]| is_forged(&head(method, fields));
        assert!(forged("POST", &[("sec-fetch-site", "cross-site")]));
        assert!(forged("GET", &[("sec-fetch-site", "cross-site"), ("upgrade", "websocket")]));
        assert!(!forged("GET", &[("sec-fetch-site", "cross-site")]));
        assert!(!forged("POST", &[("sec-fetch-site", "same-origin")]) && !forged("POST", &[]));
    }

    /// As browsers do over plain http, and older ones always.
    #[test]
    fn without_sec_fetch_site_the_origin_says_who_has_sent_it() {
        let (own, host) = (("origin", "http://shop.test:8080"), ("host", "Shop.test:8080"));
        for (fields, is_forged_told) in [
            (&[own, host][..], false),
            (&[("origin", "https://shop.test"), ("host", "shop.test")], false),
            (&[("origin", "http://evil.test"), host], true),
            (&[("origin", "http://shop.test"), host], true),
            (&[("origin", "null"), host], true),
            (&[("origin", "https://shop.test"), ("host", "10.0.0.5:3000"), ("x-forwarded-host", "shop.test")], false),
            (&[("origin", "http://evil.test"), host, ("upgrade", "websocket")], true),
        ] {
            assert_eq!(is_forged(&head("POST", fields)), is_forged_told, "{fields:?}");
        }
        assert!(!is_forged(&head("GET", &[("origin", "http://evil.test"), host])), "it changes nothing");
    }
}
