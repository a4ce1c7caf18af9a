//! Logout from either side: where to send a browser so that the provider ends its session too (OpenID Connect
//! RP-Initiated Logout 1.0), and the token by which a provider tells us that it has ended one (Back-Channel Logout 1.0).
//! It never ends a session: the crate `sign-in` does.

use openidconnect::{core::CoreIdToken, url::form_urlencoded, LogoutRequest, PostLogoutRedirectUrl};
use serde_json::Value;
use sign_in::{Logout, Session, UnixMillis};

use crate::{
    token::{SignatureProblem, SignedToken},
    Error, Provider, LEEWAY,
};

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// For so long after it was issued a logout token counts that has no expiry, in milliseconds. The specification asks
/// for an expiry of two minutes at most.
const LOGOUT_TIME: u64 = 600_000;
/// The longest expiry in milliseconds that is believed: until then the token is remembered.
const MAX_LOGOUT_TIME: u64 = 24 * 3_600_000;

impl Provider {
    /// Where to send a browser whose session has ended here, so that it ends at the provider too. `after`: where the
    /// provider sends it then, an address that it has registered. None: the provider offers no logout.
    ///
    /// # Errors
    /// The issuer is not known, because it does not answer; or `after` is no address.
    pub async fn logout_url(
        &self,
        session: Option<&Session>,
        after: Option<&str>,
        now: UnixMillis,
    ) -> Result<Option<String>, Error> {
        let discovery = self.discovery(now).await?;
        let endpoint = discovery.metadata.additional_metadata().end_session_endpoint.clone();
        let Some(endpoint) = endpoint else { return Ok(None) };
        let mut request = LogoutRequest::from(endpoint).set_client_id(self.client_id());
        let token = session.and_then(|session| session.id_token.as_ref());
        // Without the hint the provider asks the person.
        if let Some(token) = token.and_then(|token| token.expose().parse::<CoreIdToken>().ok()) {
            request = request.set_id_token_hint(&token);
        }
        if let Some(after) = after {
            let after = PostLogoutRedirectUrl::new(after.to_owned()).map_err(|error| {
                Error::Setting(format!("the address after the logout, {after:?}, is none: {error}"))
            })?;
            request = request.set_post_logout_redirect_uri(after);
        }
        Ok(Some(request.http_get_url().into()))
    }

    /// Checks the body of a request to our back-channel (a form with `logout_token`) and says which sessions end. The
    /// caller has to remember the token until `Logout::expires`, so that it counts once: `Sessions::log_out` does both.
    ///
    /// # Errors
    /// The token is not to be believed: answer 400. Or the issuer's keys can't be asked for: answer 503.
    pub async fn verify_logout(&self, form: &[u8], now: UnixMillis) -> Result<Logout, Error> {
        let mut tokens = form_urlencoded::parse(form).filter(|(name, _)| name == "logout_token");
        let (Some((_, text)), None) = (tokens.next(), tokens.next()) else {
            return Err(refused("the form has no logout_token, or several"));
        };
        let token = SignedToken::parse(&text).ok_or_else(|| refused("it can't be read"))?;
        // An ID token must not end sessions. `logout+jwt` is the right type; older providers say less.
        if !matches!(token.kind().as_deref(), None | Some("logout+jwt" | "jwt")) {
            return Err(refused("it is no logout token (typ)"));
        }
        let discovery = self.discovery(now).await?;
        let mut verified = token.verify(discovery.metadata.jwks().keys());
        if verified == Err(SignatureProblem::UnknownKey) {
            if let Some(newer) = self.newer_keys(&discovery, now).await? {
                verified = token.verify(newer.metadata.jwks().keys());
            }
        }
        match verified {
            Ok(()) => self.logout(&token, now),
            Err(SignatureProblem::UnknownKey) => Err(refused("its key is none of the issuer's")),
            Err(SignatureProblem::Refused(why)) => Err(refused(why)),
        }
    }

    /// Section 2.6, but for the signature.
    fn logout(&self, token: &SignedToken<'_>, now: UnixMillis) -> Result<Logout, Error> {
        let text = |name: &str| token.claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let time =
            |name: &str| token.claims.get(name).and_then(Value::as_f64).map(|seconds| (seconds * 1_000.0) as u64);
        let own = self.settings().client_id.as_str();
        let is_for_us = match token.claims.get("aud") {
            Some(Value::String(one)) => one == own,
            Some(Value::Array(all)) => all.iter().any(|one| one == own),
            _ => false,
        };
        let events = token.claims.get("events");
        let issued = time("iat").ok_or_else(|| refused("it does not say when it was issued (iat)"))?;
        let end = time("exp").unwrap_or(issued.saturating_add(LOGOUT_TIME));
        let expires = end.saturating_add(LEEWAY);
        let problem = if text("iss") != Some(&self.settings().issuer) {
            "another issuer has issued it (iss)"
        } else if !is_for_us {
            "it is for another client (aud)"
        } else if !events.and_then(|events| events.get(EVENT)).is_some_and(Value::is_object) {
            "it is no logout token (events)"
        } else if token.claims.contains_key("nonce") {
            "it has a nonce, as an ID token has"
        } else if issued > now.saturating_add(LEEWAY) {
            "it was issued in the future: compare the clocks"
        } else if now >= expires {
            "it has expired: compare the clocks"
        } else if expires > now.saturating_add(MAX_LOGOUT_TIME) {
            "it expires too late"
        } else if text("sub").is_none() && text("sid").is_none() {
            "it names neither a person nor a session (sub, sid)"
        } else {
            let token = text("jti").ok_or_else(|| refused("it has no id (jti)"))?.to_owned();
            let (subject, sid) = (text("sub").map(str::to_owned), text("sid").map(str::to_owned));
            return Ok(Logout { provider: self.identity(), subject, sid, token, expires });
        };
        Err(refused(problem))
    }
}

fn refused(why: &str) -> Error {
    Error::Token(why.into())
}

#[cfg(test)]
mod tests {
    use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine};
    use serde_json::{json, Map};

    use super::*;
    use crate::Settings;

    const NOW: u64 = 1_000_000_000_000;

    fn provider() -> Provider {
        let settings = Settings {
            issuer: "https://id.example".into(),
            client_id: "shop".into(),
            client_secret: None,
            scopes: Vec::new(),
            name_claim: "sub".into(),
            groups_claim: None,
            ca_file: None,
        };
        Provider::new(settings).unwrap()
    }

    /// What the claims of a token end, whose signature is taken for granted.
    fn judge(change: Value) -> Result<Logout, Error> {
        let good = json!({
            "iss": "https://id.example", "aud": "shop", "iat": 1_000_000_000, "exp": 1_000_000_120, "jti": "1",
            "sub": "alice", "sid": "s", "events": { EVENT: {} },
        });
        let mut claims: Map<_, _> = good.as_object().unwrap().clone();
        for (name, value) in change.as_object().unwrap() {
            claims.insert(name.clone(), value.clone());
        }
        claims.retain(|_, value| !value.is_null());
        let encoded = [json!({ "alg": "RS256" }), claims.into()].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{}.{}.", encoded[0], encoded[1]);
        provider().logout(&SignedToken::parse(&text).unwrap(), NOW)
    }

    #[test]
    fn a_good_token_says_whose_sessions_end() {
        let found = judge(json!({})).unwrap();
        assert_eq!((found.subject.as_deref(), found.sid.as_deref()), (Some("alice"), Some("s")));
        assert_eq!((found.token.as_str(), found.expires), ("1", NOW + 120_000 + LEEWAY));
        assert_eq!(found.provider, provider().identity());
        assert_eq!(judge(json!({ "sid": null })).unwrap().sid, None);
        assert_eq!(judge(json!({ "sub": null, "aud": ["wiki", "shop"] })).unwrap().subject, None);
        let old = judge(json!({ "exp": null })).unwrap();
        assert_eq!(old.expires, NOW + LOGOUT_TIME + LEEWAY, "an older provider says no expiry");
    }

    #[test]
    fn what_is_no_logout_token_for_us_of_now_is_refused() {
        for (change, why) in [
            (json!({ "iss": "https://evil.example" }), "another issuer"),
            (json!({ "iss": null }), "another issuer"),
            (json!({ "aud": "wiki" }), "another client"),
            (json!({ "aud": ["wiki"] }), "another client"),
            (json!({ "aud": null }), "another client"),
            (json!({ "events": null }), "events"),
            (json!({ "events": { "other": {} } }), "events"),
            (json!({ "events": { EVENT: true } }), "events"),
            (json!({ "events": [EVENT] }), "events"),
            (json!({ "nonce": "n" }), "nonce"),
            (json!({ "iat": null }), "iat"),
            (json!({ "iat": "1000000000" }), "iat"),
            (json!({ "iat": 1_000_000_061 }), "future"),
            (json!({ "iat": 999_999_000, "exp": 999_999_940 }), "expired"),
            (json!({ "iat": 999_999_340, "exp": null }), "expired"),
            (json!({ "exp": 1.0e300 }), "too late"),
            (json!({ "sub": null, "sid": null }), "neither"),
            (json!({ "sub": "", "sid": 7 }), "neither"),
            (json!({ "jti": null }), "jti"),
        ] {
            let error = judge(change.clone()).expect_err(&change.to_string()).to_string();
            assert!(error.contains(why), "{change}: {error}");
        }
    }
}
