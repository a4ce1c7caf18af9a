//! A login: where the browser is sent, what it may come back with, the tokens for its code, and a later refresh. It never
//! keeps a login: who calls it does, and gives it back once.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{header, HeaderValue, Request};
use openidconnect::{
    core::{CoreAuthenticationFlow, CoreIdToken, CoreIdTokenVerifier, CoreTokenResponse},
    url::form_urlencoded,
    AuthorizationCode, ClaimsVerificationError, CsrfToken, ErrorResponse, Nonce, OAuth2TokenResponse,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    SignatureVerificationError, TokenResponse,
};
use serde::{Deserialize, Serialize};
use sign_in::{Mechanism, NewSession, ReturnTo, Secret, Session, UnixMillis};

use crate::{
    claims::{identity, lacks, Claims},
    client::ClientError,
    error::plain,
    provider::{Discovery, ALGORITHMS},
    token::claims_of,
    Error, Provider, LEEWAY,
};

/// Time in which a login has to be completed, in milliseconds.
const LOGIN_TIME: u64 = 600_000;
/// The longest query that a browser may come back with, in bytes.
const MAX_QUERY: usize = 16 << 10;
/// For so long a refreshed session is believed whose provider says no time, in milliseconds.
const DEFAULT_PROOF: u64 = 300_000;

/// A login that has begun. It belongs to one browser and is used once: keep it where only the server sees it.
#[derive(Debug)]
pub struct PendingLogin {
    pub state: Secret,
    pub return_to: ReturnTo,
    pub expires: UnixMillis,
    nonce: Secret,
    verifier: Secret,
    redirect_uri: String,
}

/// As it is kept.
#[derive(Serialize, Deserialize)]
struct PendingForm {
    state: String,
    return_to: String,
    expires: UnixMillis,
    nonce: String,
    verifier: String,
    redirect_uri: String,
}

impl PendingLogin {
    pub fn to_bytes(&self) -> Vec<u8> {
        let form = PendingForm {
            state: self.state.expose().to_owned(),
            return_to: self.return_to.as_str().to_owned(),
            expires: self.expires,
            nonce: self.nonce.expose().to_owned(),
            verifier: self.verifier.expose().to_owned(),
            redirect_uri: self.redirect_uri.clone(),
        };
        // Text and a number: nothing in it can fail to be JSON.
        serde_json::to_vec(&form).unwrap_or_default()
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<PendingLogin> {
        let form: PendingForm = serde_json::from_slice(bytes).ok()?;
        Some(PendingLogin {
            state: Secret::new(form.state),
            return_to: ReturnTo::parse(&form.return_to)?,
            expires: form.expires,
            nonce: Secret::new(form.nonce),
            verifier: Secret::new(form.verifier),
            redirect_uri: form.redirect_uri,
        })
    }
}

/// Somebody who has signed in, and where the browser goes now.
#[derive(Debug)]
pub struct SignedIn {
    pub proof: NewSession,
    pub return_to: ReturnTo,
}

/// The parameters that a browser came back with.
#[derive(Default)]
pub(crate) struct Callback {
    pub state: Option<String>,
    code: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
    description: String,
}

impl Callback {
    /// # Errors
    /// A parameter is there twice (RFC 6749 section 3.1), or the query is too long.
    pub fn parse(query: &str) -> Result<Callback, Error> {
        if query.len() > MAX_QUERY {
            return Err(Error::Response("it is too long"));
        }
        let mut found = Callback::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "state" => &mut found.state,
                "code" => &mut found.code,
                "iss" => &mut found.issuer,
                "error" => &mut found.error,
                "error_description" => {
                    found.description = plain(&value);
                    continue;
                }
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(Error::Response("a parameter is there twice"));
            }
        }
        Ok(found)
    }
}

impl Provider {
    /// Where to send a browser that has to sign in, and what to keep until it comes back. `redirect_uri`: the address
    /// of our callback, as the provider has it registered.
    ///
    /// # Errors
    /// The issuer is not known, because it does not answer; or `redirect_uri` is no address.
    pub async fn begin(
        &self,
        return_to: ReturnTo,
        redirect_uri: &str,
        now: UnixMillis,
    ) -> Result<(String, PendingLogin), Error> {
        let discovery = self.discovery(now).await?;
        let client = self.client(&discovery).set_redirect_uri(redirect(redirect_uri)?);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let random_state = || CsrfToken::new_random_len(32);
        let random_nonce = || Nonce::new_random_len(32);
        let (url, state, nonce) = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, random_state, random_nonce)
            .add_scopes(self.settings().scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new))
            .set_pkce_challenge(challenge)
            .url();
        let pending = PendingLogin {
            state: Secret::new(state.secret()),
            return_to,
            expires: now + LOGIN_TIME,
            nonce: Secret::new(nonce.secret()),
            verifier: Secret::new(verifier.secret()),
            redirect_uri: redirect_uri.to_owned(),
        };
        Ok((url.into(), pending))
    }

    /// The `state` parameter of a callback, by which the caller finds the login that was kept.
    ///
    /// # Errors
    /// There is none, or two.
    pub fn state_of(query: &str) -> Result<String, Error> {
        Callback::parse(query)?.state.ok_or(Error::Response("it has no state"))
    }

    /// Completes a login with the query that the browser came back with.
    ///
    /// # Errors
    /// The answer is not the one to this login; the provider refuses, or does not answer; its token is not believed, or
    /// does not say who it is.
    pub async fn complete(&self, pending: PendingLogin, query: &str, now: UnixMillis) -> Result<SignedIn, Error> {
        let callback = Callback::parse(query)?;
        if !callback.state.is_some_and(|state| pending.state.is(&state)) {
            return Err(Error::Response("its state is another one"));
        }
        if now >= pending.expires {
            return Err(Error::TooLate);
        }
        let discovery = self.discovery(now).await?;
        let says_issuer = discovery.metadata.additional_metadata().authorization_response_iss_parameter_supported;
        match callback.issuer {
            Some(issuer) if issuer != self.settings().issuer => {
                return Err(Error::Response("another issuer has sent it"));
            }
            None if says_issuer == Some(true) => return Err(Error::Response("it does not name its issuer")),
            _ => {}
        }
        if let Some(code) = callback.error {
            return Err(Error::Refused { code: plain(&code), description: callback.description });
        }
        let code = callback.code.ok_or(Error::Response("it has no code"))?;
        let client = self.client(&discovery).set_redirect_uri(redirect(&pending.redirect_uri)?);
        let request = client.exchange_code(AuthorizationCode::new(code)).map_err(|_| self.no_tokens())?;
        let verifier = PkceCodeVerifier::new(pending.verifier.expose().to_owned());
        let asked = request.set_pkce_verifier(verifier).request_async(&self.http).await;
        let response = asked.map_err(|error| self.request_error(error))?;
        let token = response.id_token().ok_or_else(|| Error::Token("there is no ID token".into()))?;
        let claims = self.verify(&discovery, token, Some(&pending.nonce), now).await?;
        let proof = self.proof(&discovery, &response, Some((token, claims)), None, now).await?;
        Ok(SignedIn { proof, return_to: pending.return_to })
    }

    /// Has the provider confirm a session, by its refresh token. The proof has the new refresh token, or the old one if
    /// there is no new one.
    ///
    /// # Errors
    /// As `complete`. If the error is final (`Error::is_final`) the session has to end.
    pub async fn refresh(&self, session: &Session, now: UnixMillis) -> Result<NewSession, Error> {
        let Some(refresh_token) = &session.refresh_token else {
            return Err(Error::Setting("the session has no refresh token: add the scope offline_access".into()));
        };
        let discovery = self.discovery(now).await?;
        let client = self.client(&discovery);
        let token = RefreshToken::new(refresh_token.expose().to_owned());
        let request = client.exchange_refresh_token(&token).map_err(|_| self.no_tokens())?;
        let response = request.request_async(&self.http).await.map_err(|error| self.request_error(error))?;
        let verified = match response.id_token() {
            None => None,
            Some(token) => {
                let claims = self.verify(&discovery, token, None, now).await?;
                // Core section 12.2.
                if claims.get("sub").and_then(|sub| sub.as_str()) != session.identity.subject.as_deref() {
                    return Err(Error::Token("it is about somebody else".into()));
                }
                Some((token, claims))
            }
        };
        self.proof(&discovery, &response, verified, Some(session), now).await
    }

    /// What the tokens prove. `before`: the session that is refreshed, for what they do not say again.
    async fn proof(
        &self,
        discovery: &Discovery,
        response: &CoreTokenResponse,
        verified: Option<(&CoreIdToken, Claims)>,
        before: Option<&Session>,
        now: UnixMillis,
    ) -> Result<NewSession, Error> {
        let seconds = |claims: &Claims| claims.get("exp").and_then(|exp| exp.as_f64()).map(|exp| exp as u64);
        let token_end = verified.as_ref().and_then(|(_, claims)| seconds(claims)).map(|end| end.saturating_mul(1_000));
        let access_end = response.expires_in().map(|time| now.saturating_add(time.as_millis() as u64));
        let mut proved_until = token_end.or(access_end).or(before.map(|_| now + DEFAULT_PROOF));
        let id_token = verified.as_ref().map(|(token, _)| Secret::new(token.to_string()));
        let mut claims = verified.map(|(_, claims)| claims);
        let subject = claims.as_ref().and_then(|claims| claims.get("sub")?.as_str().map(str::to_owned));
        let subject = subject.or_else(|| before.and_then(|before| before.identity.subject.clone()));
        if claims.as_ref().is_none_or(|claims| lacks(claims, self.settings())) {
            match self.user_info(discovery, response.access_token().secret(), subject.as_deref()).await {
                Ok(more) => claims = merged(claims, more),
                // The old refresh token is used up, so the new one has to be kept: the person is asked for again soon.
                Err(error) if before.is_some() && !error.is_final() => {
                    (claims, proved_until) = (None, Some(now));
                }
                Err(error) => return Err(error),
            }
        }
        let mut identity = match (claims, before) {
            (Some(claims), _) => identity(&claims, self.settings())?,
            (None, Some(before)) => before.identity.clone(),
            (None, None) => return Err(Error::Token("there is no ID token".into())),
        };
        if let Some(before) = before {
            identity.sid = identity.sid.or_else(|| before.identity.sid.clone());
        }
        let kept = before.and_then(|before| before.refresh_token.clone());
        Ok(NewSession {
            identity,
            mechanism: Mechanism::OpenId,
            provider: Some(self.identity()),
            // A token that is believed although it has just expired would make a session that has ended already.
            proved_until: proved_until.map(|until| until.max(now + LEEWAY)),
            refresh_token: response.refresh_token().map(|token| Secret::new(token.secret())).or(kept),
            id_token: id_token.or_else(|| before.and_then(|before| before.id_token.clone())),
        })
    }

    /// The claims of an ID token, if it is the issuer's, for us, of now, and for this login.
    async fn verify(
        &self,
        discovery: &Arc<Discovery>,
        token: &CoreIdToken,
        nonce: Option<&Secret>,
        now: UnixMillis,
    ) -> Result<Claims, Error> {
        let mut verified = self.verify_with(discovery, token, nonce, now);
        let unknown = ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey);
        if verified.as_ref().is_err_and(|error| *error == unknown) {
            if let Some(newer) = self.newer_keys(discovery, now).await? {
                verified = self.verify_with(&newer, token, nonce, now);
            }
        }
        verified.map_err(|error| Error::Token(explained(&error).into()))?;
        let claims = claims_of(&token.to_string()).ok_or_else(|| Error::Token("it can't be read".into()))?;
        self.check_party(&claims)?;
        check_beginning(&claims, now)?;
        Ok(claims)
    }

    fn verify_with(
        &self,
        discovery: &Discovery,
        token: &CoreIdToken,
        nonce: Option<&Secret>,
        now: UnixMillis,
    ) -> Result<(), ClaimsVerificationError> {
        let verifier = CoreIdTokenVerifier::new_public_client(
            self.client_id(),
            discovery.metadata.issuer().clone(),
            discovery.metadata.jwks().clone(),
        )
        .set_allowed_algs(ALGORITHMS)
        .set_time_fn(move || time(now.saturating_sub(LEEWAY)))
        .set_issue_time_verifier_fn(move |at| {
            if at.timestamp_millis() > (now + LEEWAY) as i64 {
                Err("issued in the future".into())
            } else {
                Ok(())
            }
        })
        // `check_party` looks at them.
        .set_other_audience_verifier_fn(|_| true);
        let check_nonce = |found: Option<&Nonce>| match (nonce, found) {
            (Some(nonce), Some(found)) if nonce.is(found.secret()) => Ok(()),
            (Some(_), _) => Err("another nonce".into()),
            (None, _) => Ok(()),
        };
        token.claims(&verifier, check_nonce).map(drop)
    }

    /// A token for several is for us only if it was issued to us (Core section 3.1.3.7, steps 4 and 5).
    fn check_party(&self, claims: &Claims) -> Result<(), Error> {
        let has_others = claims.get("aud").and_then(|aud| aud.as_array()).is_some_and(|all| all.len() > 1);
        match claims.get("azp") {
            Some(party) if party == self.settings().client_id.as_str() => Ok(()),
            None if !has_others => Ok(()),
            _ => Err(Error::Token("it was issued to another client (azp)".into())),
        }
    }

    /// The claims of the userinfo endpoint (Core section 5.3). None: the provider has none.
    async fn user_info(
        &self,
        discovery: &Discovery,
        access_token: &str,
        subject: Option<&str>,
    ) -> Result<Option<Claims>, Error> {
        let Some(endpoint) = discovery.metadata.userinfo_endpoint() else { return Ok(None) };
        let mut authorization = HeaderValue::from_str(&format!("Bearer {access_token}"))
            .map_err(|_| Error::Token("its access token can't be sent".into()))?;
        authorization.set_sensitive(true);
        let request = Request::get(endpoint.url().as_str())
            .header(header::AUTHORIZATION, authorization)
            .header(header::ACCEPT, "application/json")
            .body(Vec::new())
            .map_err(|error| self.unavailable(&error.to_string()))?;
        let response = self.http.ask(request).await.map_err(|error| self.unavailable(&error.0))?;
        if !response.status().is_success() {
            return Err(self.unavailable(&format!("its userinfo endpoint answers {}", response.status())));
        }
        let claims: Claims = serde_json::from_slice(response.body()).map_err(|_| {
            self.unavailable("its userinfo endpoint does not answer with JSON: signed answers are not read")
        })?;
        // It may be about somebody else (section 5.3.2).
        if claims.get("sub").and_then(|sub| sub.as_str()) == subject {
            Ok(Some(claims))
        } else {
            Err(Error::Token("the userinfo endpoint answers for somebody else".into()))
        }
    }

    fn no_tokens(&self) -> Error {
        self.unavailable("its configuration has no token endpoint")
    }

    fn request_error<E: ErrorResponse + std::fmt::Display>(&self, error: RequestTokenError<ClientError, E>) -> Error {
        match error {
            RequestTokenError::ServerResponse(said) => {
                let said = plain(&said.to_string());
                let (code, description) = said.split_once(": ").unwrap_or((&said, ""));
                Error::Refused { code: code.to_owned(), description: description.to_owned() }
            }
            RequestTokenError::Request(error) => self.unavailable(&error.0),
            // An ID token that the library can't read is such an error too, and the body has it: so it is not repeated.
            RequestTokenError::Parse(error, _) => Error::Token(format!("the answer can't be read at {}", error.path())),
            RequestTokenError::Other(why) => self.unavailable(&why),
        }
    }
}

/// What the token says counts; what it does not say the userinfo endpoint may.
fn merged(claims: Option<Claims>, more: Option<Claims>) -> Option<Claims> {
    let Some(more) = more else { return claims };
    let mut all = claims.unwrap_or_default();
    for (name, value) in more {
        all.entry(name).or_insert(value);
    }
    Some(all)
}

fn time<T: From<SystemTime>>(millis: UnixMillis) -> T {
    (UNIX_EPOCH + Duration::from_millis(millis)).into()
}

fn redirect(uri: &str) -> Result<RedirectUrl, Error> {
    RedirectUrl::new(uri.to_owned())
        .map_err(|error| Error::Setting(format!("the callback {uri:?} is no address: {error}")))
}

/// In our words: the library's repeat what the token says.
fn explained(error: &ClaimsVerificationError) -> &'static str {
    use SignatureVerificationError as Signature;
    match error {
        ClaimsVerificationError::Expired(why) if why == "issued in the future" => {
            "it was issued in the future: compare the clocks"
        }
        ClaimsVerificationError::Expired(_) => "it has expired: compare the clocks",
        ClaimsVerificationError::InvalidAudience(_) => "it is for another client (aud)",
        ClaimsVerificationError::InvalidIssuer(_) => "another issuer has issued it (iss)",
        ClaimsVerificationError::InvalidNonce(_) => "it belongs to another login (nonce)",
        ClaimsVerificationError::SignatureVerification(error) => match error {
            Signature::NoSignature | Signature::DisallowedAlg(_) | Signature::UnsupportedAlg(_) => {
                "it is not signed with a public key"
            }
            Signature::NoMatchingKey => "its key is none of the issuer's",
            Signature::AmbiguousKeyId(_) => "it does not say which key has signed it",
            _ => "its signature is wrong",
        },
        _ => "it is of a kind that is not read",
    }
}

/// A token that is not valid yet says nothing (RFC 7519 section 4.1.5).
fn check_beginning(claims: &Claims, now: UnixMillis) -> Result<(), Error> {
    let Some(said) = claims.get("nbf") else { return Ok(()) };
    let latest = (now.saturating_add(LEEWAY) / 1000) as f64;
    if said.as_f64().is_some_and(|from| from <= latest) {
        Ok(())
    } else {
        Err(Error::Token("it is not valid yet (nbf)".into()))
    }
}

#[cfg(test)]
mod tests;
