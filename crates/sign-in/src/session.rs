//! A session: who has signed in, how, and until when. It never looks at a clock, and its `Debug` output has no names.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{Key, Limits, Secret, UnixMillis};

/// Who has signed in.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// What the application gets as REMOTE_USER.
    pub name: String,
    pub groups: Vec<String>,
    /// The provider's own, unchanging name of the person (`sub`).
    pub subject: Option<String>,
    /// The provider's name of its session (`sid`), by which it ends ours.
    pub sid: Option<String>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[identity with {} groups]", self.groups.len())
    }
}

/// How somebody has signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// OpenID Connect.
    OpenId,
    /// Negotiate with Kerberos.
    Kerberos,
    /// Negotiate with NTLM.
    Ntlm,
    /// Name and password (RFC 7617).
    Basic,
}

impl Mechanism {
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::OpenId => "openid",
            Mechanism::Kerberos => "kerberos",
            Mechanism::Ntlm => "ntlm",
            Mechanism::Basic => "basic",
        }
    }
}

/// The identity provider whose sessions ours belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    pub issuer: String,
    pub client_id: String,
}

/// What somebody has proved, of which a session is made.
#[derive(Debug, Clone)]
pub struct NewSession {
    pub identity: Identity,
    pub mechanism: Mechanism,
    pub provider: Option<Provider>,
    /// When the proof ends: the expiry of the ticket or the token. None: with the session.
    pub proved_until: Option<UnixMillis>,
    /// Gets a new proof when this one has ended. Without it the session ends with the proof.
    pub refresh_token: Option<Secret>,
    /// Tells the provider at the logout whose session ends (`id_token_hint`).
    pub id_token: Option<Secret>,
}

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    pub identity: Identity,
    pub mechanism: Mechanism,
    pub provider: Option<Provider>,
    pub began: UnixMillis,
    /// It ends then, however much it is used.
    pub expires: UnixMillis,
    /// From then on the provider has to confirm it, by its refresh token. None: never.
    pub confirm_at: Option<UnixMillis>,
    /// Only `Sessions::confirm` gives it out.
    pub refresh_token: Option<Secret>,
    /// Only `Sessions::sign_out` and `Sessions::confirm` give it out.
    pub id_token: Option<Secret>,
}

impl Session {
    /// A session that begins now. It ends after `limits.lifetime`; without a refresh token it also ends with its proof.
    pub fn new(proof: NewSession, limits: &Limits, now: UnixMillis) -> Session {
        Session::since(proof, limits, now, now)
    }

    /// This session with a new proof. Its lifetime does not begin again. None: the proof is of somebody else.
    pub fn renewed(&self, proof: NewSession, limits: &Limits, now: UnixMillis) -> Option<Session> {
        let is_same = proof.identity.subject == self.identity.subject && proof.provider == self.provider;
        is_same.then(|| Session::since(proof, limits, self.began, now))
    }

    fn since(proof: NewSession, limits: &Limits, began: UnixMillis, now: UnixMillis) -> Session {
        let end = began.saturating_add(limits.lifetime);
        let can_refresh = proof.refresh_token.is_some();
        let expires = match proof.proved_until {
            Some(until) if !can_refresh => until.min(end),
            _ => end,
        };
        Session {
            identity: proof.identity,
            mechanism: proof.mechanism,
            provider: proof.provider,
            began,
            expires,
            // A token that has ended already is confirmed with the next request, not at once.
            confirm_at: proof.proved_until.filter(|_| can_refresh).map(|until| until.max(now + 1)),
            refresh_token: proof.refresh_token,
            id_token: proof.id_token,
        }
    }

    /// The session as it is in memory for each request: who it is, and no token that a request has no use for.
    pub(crate) fn without_tokens(&self) -> Session {
        Session { refresh_token: None, id_token: None, ..self.clone() }
    }

    /// About how many bytes of memory it has, without tokens.
    pub(crate) fn weight(&self) -> usize {
        let groups = self.identity.groups.iter().map(|group| group.len() + size_of::<String>());
        let provider = self.provider.as_ref().map_or(0, |provider| provider.issuer.len() + provider.client_id.len());
        size_of::<Session>() + self.identity.name.len() + provider + groups.sum::<usize>()
    }

    /// What it is found by when the provider, or an administrator, ends it.
    pub fn indexes(&self) -> Vec<Key> {
        let mut found = vec![name_index(&self.identity.name)];
        if let Some(provider) = &self.provider {
            found.extend(self.identity.subject.as_deref().map(|subject| subject_index(provider, subject)));
            found.extend(self.identity.sid.as_deref().map(|sid| sid_index(provider, sid)));
        }
        found
    }

    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let expose = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
        let form = SealedForm {
            identity: self.identity.clone(),
            mechanism: self.mechanism,
            provider: self.provider.clone(),
            began: self.began,
            expires: self.expires,
            confirm_at: self.confirm_at,
            refresh_token: expose(&self.refresh_token),
            id_token: expose(&self.id_token),
        };
        // Text and numbers: nothing in it can fail to be JSON.
        Zeroizing::new(serde_json::to_vec(&form).unwrap_or_default())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Session> {
        let form: SealedForm = serde_json::from_slice(bytes).ok()?;
        Some(Session {
            identity: form.identity,
            mechanism: form.mechanism,
            provider: form.provider,
            began: form.began,
            expires: form.expires,
            confirm_at: form.confirm_at,
            refresh_token: form.refresh_token.map(Secret::new),
            id_token: form.id_token.map(Secret::new),
        })
    }
}

/// Sessions of this name.
pub fn name_index(name: &str) -> Key {
    Key::of(&[b"name\0", name.as_bytes()])
}

/// Sessions of this person at the provider.
pub fn subject_index(provider: &Provider, subject: &str) -> Key {
    of_provider(b"sub\0", provider, subject)
}

/// Sessions that belong to this session of the provider.
pub fn sid_index(provider: &Provider, sid: &str) -> Key {
    of_provider(b"sid\0", provider, sid)
}

fn of_provider(kind: &[u8], provider: &Provider, value: &str) -> Key {
    Key::of(&[kind, provider.issuer.as_bytes(), b"\0", provider.client_id.as_bytes(), b"\0", value.as_bytes()])
}

/// A session as it is sealed: the only place where its tokens are plain text.
#[derive(Serialize, Deserialize)]
struct SealedForm {
    identity: Identity,
    mechanism: Mechanism,
    provider: Option<Provider>,
    began: UnixMillis,
    expires: UnixMillis,
    confirm_at: Option<UnixMillis>,
    refresh_token: Option<String>,
    id_token: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { lifetime: 1_000, ..Limits::DEFAULT };

    fn proof(proved_until: Option<u64>, refresh_token: Option<&str>) -> NewSession {
        NewSession {
            identity: Identity {
                name: "alice".into(),
                groups: vec!["staff".into()],
                subject: Some("1".into()),
                sid: Some("s".into()),
            },
            mechanism: Mechanism::OpenId,
            provider: Some(Provider { issuer: "https://id.example".into(), client_id: "shop".into() }),
            proved_until,
            refresh_token: refresh_token.map(Secret::new),
            id_token: Some(Secret::new("e30.e30.")),
        }
    }

    #[test]
    fn it_ends_with_its_lifetime_or_its_proof() {
        // Proved until, refresh token, expires, confirm at.
        for (until, refresh, expires, confirm_at) in [
            (None, None, 1_100, None),
            (Some(400), None, 400, None),
            (Some(5_000), None, 1_100, None),
            (Some(400), Some("r"), 1_100, Some(400)),
            (Some(50), Some("r"), 1_100, Some(101)),
            (None, Some("r"), 1_100, None),
        ] {
            let session = Session::new(proof(until, refresh), &LIMITS, 100);
            assert_eq!((session.expires, session.confirm_at), (expires, confirm_at), "{until:?} {refresh:?}");
        }
    }

    #[test]
    fn a_new_proof_of_the_same_person_does_not_make_it_last_longer() {
        let session = Session::new(proof(Some(400), Some("r")), &LIMITS, 100);
        let renewed = session.renewed(proof(Some(900), Some("s")), &LIMITS, 500).unwrap();
        assert_eq!((renewed.began, renewed.expires, renewed.confirm_at), (100, 1_100, Some(900)));
        let mut other = proof(Some(900), Some("s"));
        other.identity.subject = Some("2".into());
        assert!(session.renewed(other, &LIMITS, 500).is_none());
    }

    #[test]
    fn it_comes_back_from_its_bytes_and_shows_nothing() {
        let session = Session::new(proof(Some(400), Some("refresh-me")), &LIMITS, 100);
        let again = Session::from_bytes(&session.to_bytes()).unwrap();
        assert_eq!(again.identity, session.identity);
        assert_eq!(again.provider, session.provider);
        assert!(again.refresh_token.as_ref().is_some_and(|token| token.is("refresh-me")));
        assert!(again.id_token.as_ref().is_some_and(|token| token.is("e30.e30.")));
        assert_eq!(Session::from_bytes(b"{}").map(|session| session.expires), None);
        let bare = session.without_tokens();
        assert!(bare.refresh_token.is_none() && bare.id_token.is_none() && bare.identity == session.identity);
        assert!((200..1_000).contains(&bare.weight()), "{}", bare.weight());
        let shown = format!("{again:?}");
        assert!(!["alice", "staff", "refresh-me", "e30"].iter().any(|word| shown.contains(word)), "{shown}");
    }

    #[test]
    fn it_is_found_by_name_by_person_and_by_the_provider_s_session() {
        let session = Session::new(proof(None, None), &LIMITS, 0);
        let provider = session.provider.clone().unwrap();
        let other = Provider { client_id: "wiki".into(), ..provider.clone() };
        assert_eq!(session.indexes(), [name_index("alice"), subject_index(&provider, "1"), sid_index(&provider, "s")]);
        assert_ne!(subject_index(&provider, "1"), subject_index(&other, "1"));
        assert_ne!(subject_index(&provider, "1"), sid_index(&provider, "1"));
    }
}
