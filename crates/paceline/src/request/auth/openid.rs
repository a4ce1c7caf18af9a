//! Sessions, and the addresses of single sign-on below `/.paceline/sso/`: where a browser signs in at the identity
//! provider, comes back from it, signs out, and where the provider itself ends sessions. It never sends a browser to
//! another site than the provider and this one.

use std::sync::Arc;

use http::{header, request::Parts, HeaderValue, Method, StatusCode};
use http_guard::host;
use sign_in::{ReturnTo, Session, SessionId};

use super::{
    header::{cookies, is_forged, remove_cookies, Manner},
    provider::{Fault, Way},
    refusal::{address, too_often, unavailable},
    Gate, GateAnswer,
};
use crate::{
    exchange::{identity::User, Exchange},
    request::access_rules::RESERVED,
    support::clock,
};

/// How long a browser may take to sign in at the provider (seconds).
const LOGIN_TIME: u64 = 600;
/// The longest form of a provider that ends sessions (bytes).
pub const MAX_FORM: usize = 64 << 10;

/// The session of a cookie, confirmed by its provider if that is due. None: there is none any more.
pub async fn session(way: &Way, id: &SessionId, now: u64) -> Result<Option<Arc<Session>>, Fault> {
    let sessions = way.sessions.get().await?;
    let Some(session) = sessions.find(id, now).await? else { return Ok(None) };
    let Some(due) = sessions.confirm(id, &session, now).await? else { return Ok(Some(session)) };
    let Some(provider) = &way.provider else { return Ok(Some(session)) };
    match provider.get().await?.refresh(&due, now).await {
        Ok(proof) => Ok(sessions.renew(id, &due, proof, now).await?),
        Err(error) if error.is_final() => {
            sessions.sign_out(id, now).await?;
            Ok(None)
        }
        // The provider is away: the session goes on as it is, and is confirmed later.
        Err(_) => Ok(Some(session)),
    }
}

/// Sends a browser to the provider, and back to this page.
pub async fn begin(way: &Way, head: &Parts, exchange: &Exchange) -> Result<GateAnswer, GateAnswer> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    login(way, head, exchange, ReturnTo::parse_or_root(path)).await
}

async fn login(way: &Way, head: &Parts, exchange: &Exchange, return_to: ReturnTo) -> Result<GateAnswer, GateAnswer> {
    let now = clock::unix_millis();
    let Some(provider) = &way.provider else { return Err(not_here()) };
    way.may_begin_login(address(exchange), now).map_err(too_often)?;
    let provider = provider.get().await.map_err(|closed| unavailable(closed.into()))?;
    let callback = absolute(head, exchange, &format!("{RESERVED}callback"));
    let begun = provider.begin(return_to, &callback, now).await;
    let (url, pending) = begun.map_err(|error| ours("provider", error))?;
    let browser = way.login.find(cookies(&head.headers)).unwrap_or_else(SessionId::random);
    let sessions = way.sessions.get().await.map_err(|closed| unavailable(closed.into()))?;
    let kept = sessions.begin_login(&browser, pending.state.expose(), &pending.to_bytes(), now).await;
    kept.map_err(|error| ours("sessions", error))?;
    Ok(GateAnswer::new(StatusCode::FOUND, "You are sent to the page where you sign in.")
        .with(header::LOCATION, &url)
        .with(header::SET_COOKIE, &way.login.set(&browser, Some(LOGIN_TIME))))
}

/// An address of this site as the browser has it.
fn absolute(head: &Parts, exchange: &Exchange, path: &str) -> String {
    let host = exchange.client.host.clone().unwrap_or_else(|| host::host(head).into_owned());
    format!("{}://{host}{path}", exchange.client.scheme())
}

fn ours(kind: &'static str, error: impl ToString) -> GateAnswer {
    unavailable(Fault::Ours { kind, text: error.to_string() })
}

fn not_here() -> GateAnswer {
    GateAnswer::new(StatusCode::NOT_FOUND, "There is nothing at this address.")
}

fn see(to: &str) -> GateAnswer {
    GateAnswer::new(StatusCode::FOUND, "This goes on at another address.").with(header::LOCATION, to)
}

/// The value of a parameter.
fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
    Some(percent_encoding::percent_decode_str(value).decode_utf8().ok()?.into_owned())
}

impl Gate {
    /// Answers a request to one of the gate's own addresses. `form`: its body, if that was asked for.
    pub async fn reserved(&self, head: &mut Parts, exchange: &mut Exchange, form: &[u8]) -> GateAnswer {
        let now = clock::unix_millis();
        let what = head.uri.path().strip_prefix(RESERVED).unwrap_or_default().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let is_read = [Method::GET, Method::HEAD].contains(&head.method);
        let answer = match what.as_str() {
            "callback" if head.method == Method::GET => self.callback(&query, head, exchange, now).await,
            "login" if is_read => self.login(&query, head, exchange).await,
            "without-ticket" if is_read => Ok(self.without_ticket(&query, head)),
            "logout" if is_read || head.method == Method::POST => self.logout(head, exchange, now).await,
            "signed-out" if is_read => Ok(self.signed_out(head)),
            "backchannel-logout" if head.method == Method::POST => self.backchannel(form, exchange, now).await,
            "callback" | "login" | "without-ticket" | "logout" | "signed-out" | "backchannel-logout" => {
                let sentence = "This address does not support that method.";
                Err(GateAnswer::new(StatusCode::METHOD_NOT_ALLOWED, sentence).with(header::ALLOW, "GET, POST"))
            }
            _ => Err(not_here()),
        };
        remove_cookies(&mut head.headers, self.cookies());
        let (Ok(mut answer) | Err(mut answer)) = answer;
        answer.fields.push((header::CACHE_CONTROL, HeaderValue::from_static("no-store")));
        answer
    }

    /// Whether the request's body is wanted.
    pub fn reads_form(&self, head: &Parts) -> bool {
        head.method == Method::POST && head.uri.path().strip_prefix(RESERVED) == Some("backchannel-logout")
    }

    /// A browser comes back from its provider.
    async fn callback(
        &self,
        query: &str,
        head: &Parts,
        exchange: &mut Exchange,
        now: u64,
    ) -> Result<GateAnswer, GateAnswer> {
        let refused = |text: String| {
            let sentence = "This login was not completed: it was begun elsewhere, took too long, or was used before. Open the page again.";
            GateAnswer::new(StatusCode::FORBIDDEN, sentence).noted("login", text)
        };
        let state = ::openid::Provider::state_of(query).map_err(|error| refused(error.to_string()))?;
        let mut tried = Vec::new();
        for (number, way) in self.ways().iter().enumerate() {
            let Some(provider) = &way.provider else { continue };
            way.may_try(address(exchange), now).map_err(too_often)?;
            let Some(browser) = way.login.find(cookies(&head.headers)) else { continue };
            tried.push(way);
            let sessions = way.sessions.get().await.map_err(|closed| unavailable(closed.into()))?;
            let taken = sessions.take_login(&browser, &state, now).await.map_err(|error| ours("sessions", error))?;
            let Some(pending) = taken.and_then(|bytes| ::openid::PendingLogin::from_bytes(&bytes)) else { continue };
            let provider = provider.get().await.map_err(|closed| unavailable(closed.into()))?;
            let signed_in = match provider.complete(pending, query, now).await {
                Ok(signed_in) => signed_in,
                Err(error) if !error.is_final() => return Err(ours("provider", error)),
                Err(error) => {
                    way.failed_login(address(exchange), now);
                    return Err(refused(error.to_string()));
                }
            };
            if let Some(old) = way.cookie.find(cookies(&head.headers)) {
                let _ = sessions.sign_out(&old, now).await;
            }
            let begun = sessions.sign_in(signed_in.proof, now).await;
            let (id, session) = begun.map_err(|error| ours("sessions", error))?;
            exchange.requester.user = Some(User::new(session, Some(number)));
            return Ok(see(signed_in.return_to.as_str()).with(header::SET_COOKIE, &way.cookie.set(&id, None)));
        }
        // A browser without the cookie of a login guesses nothing; by an image, any page could have it come here.
        tried.iter().for_each(|way| way.failed_login(address(exchange), now));
        Err(refused("this browser has begun no such login, or it was completed already".into()))
    }

    /// Signs a browser in where the application lets people choose (`otherwise = "app"`).
    async fn login(&self, query: &str, head: &Parts, exchange: &Exchange) -> Result<GateAnswer, GateAnswer> {
        let return_to = ReturnTo::parse_or_root(&parameter(query, "to").unwrap_or_default());
        match self.ways().iter().find(|way| way.provider.is_some()) {
            // Not for the image of another page: logins that are begun are counted.
            Some(_) if Manner::of(head) == Manner::Part => {
                Ok(GateAnswer::new(StatusCode::FORBIDDEN, "Open this address in the browser itself."))
            }
            Some(way) => login(way, head, exchange, return_to).await,
            // The page asks for a ticket again.
            None => Ok(see(return_to.as_str()).with(header::SET_COOKIE, &self.declined_cookie(0))),
        }
    }

    /// A browser that had no ticket goes on, if it has kept the mark of that. Without it, it would come back for ever.
    fn without_ticket(&self, query: &str, head: &Parts) -> GateAnswer {
        let return_to = ReturnTo::parse_or_root(&parameter(query, "to").unwrap_or_default());
        if self.has_declined(head) {
            return see(return_to.as_str());
        }
        let sentence = "This browser keeps no cookies of this site. Allow them, and open the site by https.";
        GateAnswer::new(StatusCode::FORBIDDEN, sentence).noted("no-cookies", "the browser kept no cookie")
    }

    async fn logout(&self, head: &Parts, exchange: &mut Exchange, now: u64) -> Result<GateAnswer, GateAnswer> {
        // Another site may send a browser here, and end nobody's session by it.
        let is_ours = matches!(
            head.headers.get("sec-fetch-site").map(HeaderValue::as_bytes),
            None | Some(b"same-origin" | b"same-site" | b"none")
        );
        if !is_ours || is_forged(head) {
            let sentence = "Another site has asked for this. Sign out on a page of this site.";
            return Err(
                GateAnswer::new(StatusCode::FORBIDDEN, sentence).noted("forged", "another site asked to sign out")
            );
        }
        let mut cleared = Vec::new();
        let mut next = None;
        let settings = |way: &Way| way.settings.oidc.as_ref().and_then(|oidc| oidc.after_logout.clone());
        let here = self.ways().iter().find_map(|way| settings(way)).unwrap_or_else(|| format!("{RESERVED}signed-out"));
        for way in self.ways() {
            let Some(id) = way.cookie.find(cookies(&head.headers)) else { continue };
            let sessions = way.sessions.get().await.map_err(|closed| unavailable(closed.into()))?;
            let ended = sessions.sign_out(&id, now).await.map_err(|error| ours("sessions", error))?;
            cleared.push(way.cookie.clear());
            let Some(provider) = &way.provider else { continue };
            let Some(session) = ended.filter(|session| session.provider.is_some()) else { continue };
            let after = absolute(head, exchange, &settings(way).unwrap_or_else(|| here.clone()));
            let provider = provider.get().await.map_err(|closed| unavailable(closed.into()))?;
            // Where the provider does not answer, the session has ended here all the same.
            let url = provider.logout_url(Some(&session), Some(&after), now).await.ok().flatten();
            next = next.or(url);
        }
        let mut answer = see(&next.unwrap_or(here));
        for cookie in cleared {
            answer = answer.with(header::SET_COOKIE, &cookie);
        }
        // Otherwise the next page would sign them in again by their ticket.
        Ok(answer.with(header::SET_COOKIE, &self.declined_cookie(LOGIN_TIME)))
    }

    /// Where a browser arrives that has signed out. One that is signed in has nothing to do here.
    fn signed_out(&self, head: &Parts) -> GateAnswer {
        if self.ways().iter().any(|way| way.cookie.find(cookies(&head.headers)).is_some()) {
            return see("/");
        }
        let mut answer = GateAnswer::new(StatusCode::OK, "You are signed out.");
        answer.signed_out = Some(format!("{RESERVED}login?to=%2F"));
        answer
    }

    /// The provider ends sessions (OpenID Connect Back-Channel Logout 1.0).
    async fn backchannel(&self, form: &[u8], exchange: &Exchange, now: u64) -> Result<GateAnswer, GateAnswer> {
        let mut why = None;
        for way in self.ways() {
            let Some(provider) = &way.provider else { continue };
            way.may_try(address(exchange), now).map_err(too_often)?;
            let provider = provider.get().await.map_err(|closed| unavailable(closed.into()))?;
            match provider.verify_logout(form, now).await {
                Ok(logout) => {
                    let sessions = way.sessions.get().await.map_err(|closed| unavailable(closed.into()))?;
                    let ended = sessions.log_out(&logout, now).await.map_err(|error| ours("sessions", error))?;
                    return match ended {
                        Some(_) => Ok(GateAnswer::new(StatusCode::OK, "The sessions have ended.")),
                        None => Err(bad_logout("the token was used before")),
                    };
                }
                Err(error) if !error.is_final() => return Err(ours("provider", error)),
                Err(error) => {
                    way.failed_login(address(exchange), now);
                    why = Some(error.to_string());
                }
            }
        }
        match why {
            Some(why) => Err(bad_logout(&why)),
            None => Err(not_here()),
        }
    }
}

fn bad_logout(why: &str) -> GateAnswer {
    GateAnswer::new(StatusCode::BAD_REQUEST, "This is no logout token that counts here.").noted("logout-token", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        assert_eq!(parameter("to=%2Fa%3Fb%3Dc&x=y", "to").as_deref(), Some("/a?b=c"));
        assert_eq!(parameter("x=y", "to"), None);
        assert_eq!(parameter("to=%ff", "to"), None);
    }
}
