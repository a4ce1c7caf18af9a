//! What `paceline sso check` asks a provider: whether it answers, whether it is the issuer, whether its clock agrees with
//! ours, and whether it knows us and our callback. It never signs anybody in.

use http::{header, Request};
use openidconnect::IssuerUrl;
use sign_in::{ReturnTo, UnixMillis};

use crate::{provider::ALGORITHMS, Error, Provider};

/// Seconds by which the clocks may differ before it is worth a word.
const WORTH_A_WORD: u64 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Good,
    /// It works, but less well, or not always.
    Warning,
    Failed,
}

/// One line of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    pub outcome: Outcome,
    /// What was looked at: one or two words.
    pub subject: &'static str,
    /// What was found, and what to do about it.
    pub text: String,
}

impl Provider {
    /// Asks the provider everything again. `redirect_uri`: the address of our callback. The lines are in the order in
    /// which one looks for a mistake; after a failure without which nothing works no more is asked.
    pub async fn check(&self, redirect_uri: &str, now: UnixMillis) -> Vec<CheckLine> {
        let mut lines = Vec::new();
        let mut add = |outcome, subject, text: String| lines.push(CheckLine { outcome, subject, text });
        let fresh = Provider::new(self.settings().clone());
        let provider = match fresh {
            Ok(provider) => provider,
            Err(error) => {
                add(Outcome::Failed, "settings", error.to_string());
                return lines;
            }
        };
        let clock = provider.clock_difference(now).await;
        let discovery = match provider.discovery(now).await {
            Ok(discovery) => discovery,
            Err(error) => {
                let subject = if matches!(error, Error::Issuer { .. }) { "issuer" } else { "reachable" };
                add(Outcome::Failed, subject, error.to_string());
                return lines;
            }
        };
        add(Outcome::Good, "issuer", format!("{} answers, and names itself so", self.settings().issuer));
        match clock {
            None => add(Outcome::Warning, "clock", "the provider does not say what time it is".into()),
            Some(seconds) if seconds.unsigned_abs() > WORTH_A_WORD => {
                let way = if seconds > 0 { "ahead of" } else { "behind" };
                let text =
                    format!("this machine is {} s {way} the provider: synchronize it (NTP)", seconds.unsigned_abs());
                add(Outcome::Failed, "clock", text);
            }
            Some(_) => add(Outcome::Good, "clock", "agrees with the provider's".into()),
        }
        let metadata = &discovery.metadata;
        let has_algorithm = metadata.id_token_signing_alg_values_supported().iter().any(|one| ALGORITHMS.contains(one));
        match metadata.jwks().keys().len() {
            0 => add(Outcome::Failed, "keys", "the provider publishes no key that can be read".into()),
            _ if !has_algorithm => {
                add(Outcome::Failed, "keys", "it signs tokens by no algorithm with a public key".into())
            }
            count => add(Outcome::Good, "keys", format!("{count} published")),
        }
        let more = metadata.additional_metadata();
        let has_pkce =
            more.code_challenge_methods_supported.as_ref().is_some_and(|all| all.iter().any(|one| one == "S256"));
        if has_pkce {
            add(Outcome::Good, "pkce", "S256".into())
        } else {
            add(
                Outcome::Warning,
                "pkce",
                "the provider does not say that it checks S256; it is sent all the same".into(),
            )
        }
        match (more.end_session_endpoint.is_some(), more.backchannel_logout_supported == Some(true)) {
            (true, true) => add(Outcome::Good, "logout", "from both sides".into()),
            (true, false) => {
                add(Outcome::Warning, "logout", "a logout at the provider does not end sessions here".into())
            }
            (false, true) => {
                add(Outcome::Warning, "logout", "a logout here does not end the provider's session".into())
            }
            (false, false) => {
                add(Outcome::Warning, "logout", "the provider has none: each side ends its own session".into())
            }
        }
        let (outcome, text) = provider.try_callback(redirect_uri, now).await;
        add(outcome, "callback", text);
        lines
    }

    /// By how many seconds this machine is ahead of the provider. None: it does not say.
    async fn clock_difference(&self, now: UnixMillis) -> Option<i64> {
        let url = IssuerUrl::new(self.settings().issuer.clone()).ok()?.join(".well-known/openid-configuration").ok()?;
        let request = Request::get(url.as_str()).header(header::ACCEPT, "application/json").body(Vec::new()).ok()?;
        let response = self.http.ask(request).await.ok()?;
        let date = httpdate::parse_http_date(response.headers().get(header::DATE)?.to_str().ok()?).ok()?;
        let theirs = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
        Some((now / 1_000) as i64 - theirs as i64)
    }

    /// Begins a login as a browser would. A provider shows its form, or an error if it does not know the callback.
    async fn try_callback(&self, redirect_uri: &str, now: UnixMillis) -> (Outcome, String) {
        let url = match self.begin(ReturnTo::root(), redirect_uri, now).await {
            Ok((url, _)) => url,
            Err(error) => return (Outcome::Failed, error.to_string()),
        };
        let request = match Request::get(url).header(header::ACCEPT, "text/html").body(Vec::new()) {
            Ok(request) => request,
            Err(error) => return (Outcome::Failed, error.to_string()),
        };
        match self.http.ask(request).await {
            Err(error) => (Outcome::Failed, format!("the page to sign in can't be asked: {error}")),
            Ok(response) if response.status().is_client_error() || response.status().is_server_error() => (
                Outcome::Failed,
                format!(
                    "the provider answers {} to a login: register the client {:?} there, with the redirect URI {redirect_uri}",
                    response.status().as_u16(),
                    self.settings().client_id
                ),
            ),
            Ok(_) => (Outcome::Good, format!("{redirect_uri} (if the provider refuses it, register exactly this)")),
        }
    }
}
