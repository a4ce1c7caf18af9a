//! The cookies of single sign-on: their names, their attributes, and how they are found in a request and taken out of it.
//! Their names begin with `__Host-`, so that a browser takes them only over TLS, for this host alone and for all paths
//! (RFC 6265bis section 4.1.3.2): no other host of the domain can set one. It never looks a session up.

use crate::SessionId;

/// The longest name that a site gives its cookies.
const MAX_SITE: usize = 64;

/// The name of a cookie of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(String);

impl CookieName {
    /// The cookie of a session: `__Host-paceline-SITE`. Characters that a cookie's name can't have become `_`
    /// (RFC 9110 section 5.6.2).
    pub fn of_session(site: &str) -> CookieName {
        CookieName(format!("__Host-paceline-{}", token(site)))
    }

    /// The cookie of a browser that is signing in: `__Host-paceline-login-SITE`. It ties what comes back from an identity
    /// provider to the browser that was sent there.
    pub fn of_login(site: &str) -> CookieName {
        CookieName(format!("__Host-paceline-login-{}", token(site)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in the request's `Cookie` fields. None: there is none, or there are several that differ; no browser sends
    /// that, and nobody can say which one is meant.
    pub fn find<'a>(&self, fields: impl IntoIterator<Item = &'a [u8]>) -> Option<SessionId> {
        let mut found: Option<&[u8]> = None;
        for value in fields.into_iter().flat_map(pairs).filter_map(|pair| self.value_of(pair)) {
            match found {
                Some(before) if before != value => return None,
                _ => found = Some(value),
            }
        }
        SessionId::parse(std::str::from_utf8(found?).ok()?)
    }

    /// A `Cookie` field without this cookie, for an application, which has no use for the id. None: nothing is left.
    pub fn remove_from(&self, field: &[u8]) -> Option<Vec<u8>> {
        let kept: Vec<_> = pairs(field).filter(|pair| !pair.is_empty() && self.value_of(pair).is_none()).collect();
        (!kept.is_empty()).then(|| kept.join(&b"; "[..]))
    }

    /// The value of `Set-Cookie` that gives a browser the id. Without a `lifetime` (seconds) the cookie ends with the
    /// browser's session.
    pub fn set(&self, id: &SessionId, lifetime: Option<u64>) -> String {
        let age = lifetime.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        format!("{}={}{age}; Path=/; Secure; HttpOnly; SameSite=Lax", self.0, &*id.to_text())
    }

    /// The value of `Set-Cookie` that takes the id from the browser.
    pub fn clear(&self) -> String {
        format!("{}=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Lax", self.0)
    }

    fn value_of<'a>(&self, pair: &'a [u8]) -> Option<&'a [u8]> {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        // Names have no case that may be ignored (RFC 6265bis section 5.6).
        (pair[..at].trim_ascii() == self.0.as_bytes()).then(|| pair[at + 1..].trim_ascii())
    }
}

/// The cookies of a field, each without the space around it.
fn pairs(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii)
}

fn token(site: &str) -> String {
    let is_token = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
    site.chars().take(MAX_SITE).map(|char| if is_token(char) { char } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> CookieName {
        CookieName::of_session("shop")
    }

    #[test]
    fn a_cookie_is_for_this_host_only_and_not_for_scripts() {
        let id = SessionId::random();
        assert_eq!(
            name().set(&id, None),
            format!("__Host-paceline-shop={}; Path=/; Secure; HttpOnly; SameSite=Lax", &*id.to_text())
        );
        assert!(name().set(&id, Some(60)).contains("; Max-Age=60; "));
        assert_eq!(name().clear(), "__Host-paceline-shop=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Lax");
        assert_eq!(CookieName::of_login("a b;c=é").as_str(), "__Host-paceline-login-a_b_c__");
    }

    #[test]
    fn it_is_found_among_others_and_only_if_it_is_one() {
        let (id, other) = (SessionId::random(), SessionId::random());
        let (text, different) = (id.to_text(), other.to_text());
        let own = format!("__Host-paceline-shop={}", &*text);
        let found = |fields: &[String]| name().find(fields.iter().map(|field| field.as_bytes())).map(|id| id.key());
        for field in [own.clone(), format!("a=b; {own}"), format!(" {own} ;a=b;"), format!("a; =; {own}; {own}")] {
            assert_eq!(found(std::slice::from_ref(&field)), Some(id.key()), "{field}");
        }
        assert_eq!(found(&["a=b".into(), own.clone()]), Some(id.key()), "in the second field");
        for field in [
            String::new(),
            format!("x{own}"),
            own.to_lowercase(),
            format!("\"{own}\""),
            format!("{own}x"),
            format!("{own}; __Host-paceline-shop={}", &*different),
            format!("{own}; __Host-paceline-shop="),
        ] {
            assert_eq!(found(std::slice::from_ref(&field)), None, "{field}");
        }
    }

    #[test]
    fn an_application_never_gets_it() {
        let removed = |field: &str| name().remove_from(field.as_bytes()).map(|kept| String::from_utf8(kept).unwrap());
        assert_eq!(removed("__Host-paceline-shop=abc"), None);
        assert_eq!(removed("a=b; __Host-paceline-shop=abc;c=d; __Host-paceline-shop =x"), Some("a=b; c=d".into()));
        assert_eq!(removed("__Host-paceline-shopping=abc; x"), Some("__Host-paceline-shopping=abc; x".into()));
    }
}
