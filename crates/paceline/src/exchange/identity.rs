//! Who has signed in, on the way to the application, the log and the cache's keys. It never decides who may come in.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use sign_in::{Mechanism, Session};

const REMOTE_USER: HeaderName = HeaderName::from_static("remote-user");
const FORWARDED_USER: HeaderName = HeaderName::from_static("x-forwarded-user");
const FORWARDED_GROUPS: HeaderName = HeaderName::from_static("x-forwarded-groups");

/// Divides the parts of `paceline.user`; no name has it in it.
const SEPARATOR: char = '\u{1f}';

/// Somebody who has signed in.
#[derive(Debug, Clone)]
pub struct User(Arc<Session>, Option<usize>);

impl User {
    /// `way`: the number of the gate's way by which they have signed in. None: by the password of a rule.
    pub fn new(session: Arc<Session>, way: Option<usize>) -> User {
        User(session, way)
    }

    /// The gate's way by which they have signed in.
    pub fn way(&self) -> Option<usize> {
        self.1
    }

    /// REMOTE_USER.
    pub fn name(&self) -> &str {
        &self.0.identity.name
    }

    pub fn groups(&self) -> &[String] {
        &self.0.identity.groups
    }

    /// `kerberos`, `ntlm`, `basic` or `openid`.
    pub fn mechanism(&self) -> &'static str {
        self.0.mechanism.as_str()
    }

    /// AUTH_TYPE (RFC 3875 section 4.1.1).
    pub fn auth_type(&self) -> &'static str {
        match self.0.mechanism {
            Mechanism::Kerberos | Mechanism::Ntlm => "Negotiate",
            Mechanism::Basic => "Basic",
            Mechanism::OpenId => "OpenID",
        }
    }

    /// The realm that has signed them in.
    pub fn realm(&self) -> Option<&str> {
        let is_by_ticket = matches!(self.0.mechanism, Mechanism::Kerberos | Mechanism::Ntlm);
        let subject = self.0.identity.subject.as_deref().filter(|_| is_by_ticket)?;
        subject.rsplit_once('@').map(|(_, realm)| realm)
    }

    /// What the worker makes `env["paceline.user"]` of: mechanism, name and groups.
    pub fn encoded(&self) -> String {
        let mut text = format!("{}{SEPARATOR}{}", self.mechanism(), self.name());
        for group in self.groups().iter().filter(|group| is_plain(group)) {
            text.push(SEPARATOR);
            text.push_str(group);
        }
        text
    }

    /// Tells another HTTP server.
    pub fn tell(&self, headers: &mut HeaderMap) {
        // A name that no field can have is left out, and so nobody is signed in there.
        if let Ok(name) = HeaderValue::from_bytes(self.name().as_bytes()) {
            headers.insert(REMOTE_USER, name.clone());
            headers.insert(FORWARDED_USER, name);
        }
        // A comma in a name would make two groups of it.
        let groups = self.groups().iter().filter(|group| is_plain(group) && !group.contains(','));
        let groups: Vec<&str> = groups.map(String::as_str).collect();
        if let (false, Ok(groups)) = (groups.is_empty(), HeaderValue::from_bytes(groups.join(",").as_bytes())) {
            headers.insert(FORWARDED_GROUPS, groups);
        }
    }

    /// What parts the keys of pages: all that an application can know of the person.
    pub fn partition(&self) -> Vec<u8> {
        let mut bytes = b"user\0".to_vec();
        bytes.extend_from_slice(self.encoded().as_bytes());
        bytes.push(0);
        bytes
    }
}

fn is_plain(group: &str) -> bool {
    !group.is_empty() && !group.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sign_in::{Identity, Limits, NewSession};

    fn user(mechanism: Mechanism, name: &str, groups: &[&str], subject: Option<&str>) -> User {
        let identity = Identity {
            name: name.into(),
            groups: groups.iter().map(|group| group.to_string()).collect(),
            subject: subject.map(str::to_owned),
            sid: None,
        };
        let (provider, proved_until, refresh_token, id_token) = (None, None, None, None);
        let proof = NewSession { identity, mechanism, provider, proved_until, refresh_token, id_token };
        User::new(Arc::new(Session::new(proof, &Limits::DEFAULT, 0)), None)
    }

    #[test]
    fn what_an_application_is_told() {
        let alice = user(Mechanism::Kerberos, "alice", &["staff", "a, b", "bad\nname"], Some("alice@EXAMPLE.COM"));
        assert_eq!(
            (alice.auth_type(), alice.mechanism(), alice.realm()),
            ("Negotiate", "kerberos", Some("EXAMPLE.COM"))
        );
        assert_eq!(alice.encoded(), "kerberos\u{1f}alice\u{1f}staff\u{1f}a, b");
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-groups", HeaderValue::from_static("admin"));
        alice.tell(&mut headers);
        assert_eq!(headers["remote-user"], "alice");
        assert_eq!(headers["x-forwarded-groups"], "staff");
        let bob = user(Mechanism::OpenId, "bjørn", &[], Some("x@y"));
        bob.tell(&mut headers);
        assert_eq!((headers["x-forwarded-user"].as_bytes(), bob.realm()), ("bjørn".as_bytes(), None));
    }

    #[test]
    fn each_person_has_pages_of_their_own() {
        let of = |mechanism, name, groups: &[&str]| user(mechanism, name, groups, None).partition();
        let alice = of(Mechanism::Kerberos, "alice", &["staff"]);
        assert_eq!(alice, of(Mechanism::Kerberos, "alice", &["staff"]));
        for other in [
            of(Mechanism::Kerberos, "bob", &["staff"]),
            of(Mechanism::Kerberos, "alice", &[]),
            of(Mechanism::Kerberos, "alice", &["staff", "admin"]),
            of(Mechanism::Basic, "alice", &["staff"]),
        ] {
            assert_ne!(alice, other);
        }
    }
}
