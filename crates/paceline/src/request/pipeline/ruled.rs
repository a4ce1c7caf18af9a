//! The step of `[[rule]]` and of maintenance: what the rules of a site say of a request, as responses, before a file, a kept
//! page or the application is asked. It decides nothing: `rules` does.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, LazyLock},
};

use http::{header, request::Parts, HeaderValue, Method, Response, StatusCode};
use http_guard::host::{host, split_host};
use sign_in::{Failures, Identity, Limits, Mechanism, NewSession, Session};

use super::Step;
use crate::{
    config::parts::rules::{redirect::RedirectRequest, BasicAuth},
    content::body::ResponseBody,
    exchange::{identity::User, Exchange},
    observe::log::Name,
    request::{
        auth::{remove_authorization, remove_identity, Credentials, Schemes},
        errors,
        front::Front,
        maintenance::Notice,
        pages,
        route::Site,
        rules::{
            passwords::{Source, Verdict},
            ProtectingRules, Rules, Target,
        },
    },
    support::clock,
};

/// Who has tried wrong passwords too often. By address alone: nobody is to lock out somebody else by their name.
static FAILURES: LazyLock<Failures> = LazyLock::new(|| Failures::new(Some(Failures::BY_ADDRESS), None, Failures::MAX));

/// What is known without waiting. Ok: whether all passwords that are needed are proved. Err: the answer.
pub fn glance(site: &Site, head: &mut Parts, host: &str, exchange: &mut Exchange) -> Step<bool> {
    if let Some(closed) = site.maintenance.refuses(head.uri.path(), exchange.client.address) {
        exchange.log.note = Some("maintenance".into());
        return Err(maintenance(head, &closed.notice));
    }
    let Some(rules) = &site.rules else { return Ok(true) };
    if rules.passes_users {
        remove_identity(&mut head.headers);
    }
    let target = Target { host: Some(split_host(host).0), path: head.uri.path() };
    let protecting = rules.protecting(target);
    if !protecting.admit(exchange.client.address) {
        return Err(refused(site, head, exchange));
    }
    exchange.response.protected |= protecting.are_for_some();
    if let Some(response) = redirect(rules, target, head, host, exchange) {
        return Err(response);
    }
    exchange.max_body = rules.max_body(target, site.config.max_body);
    let Some((first, _)) = protecting.passwords().next() else { return Ok(true) };
    exchange.response.protected = true;
    let Credentials::Basic { name, password } = Credentials::of(&head.headers) else {
        return Err(challenge(site, head, exchange, first.basic_auth.as_ref()));
    };
    if !protecting.passwords().all(|(_, file)| file.knows(&name, &password)) {
        return Ok(false);
    }
    enter(&protecting, head, &name, exchange);
    Ok(true)
}

/// Checks the passwords that are not proved yet. Err: the answer in place of the page.
pub async fn prove(front: &Front, site: &Site, head: &mut Parts, host: &str, exchange: &mut Exchange) -> Step {
    let Some(rules) = &site.rules else { return Ok(()) };
    let Credentials::Basic { name, password } = Credentials::of(&head.headers) else {
        return Err(challenge(site, head, exchange, None));
    };
    let protecting = rules.protecting(Target { host: Some(split_host(host).0), path: head.uri.path() });
    let address = exchange.client.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    for (rule, file) in protecting.passwords() {
        match file.check(&name, &password, Source { address, failures: &FAILURES }).await {
            Ok(Verdict::Right) => {}
            Ok(Verdict::Wrong) => {
                let response = challenge(site, head, exchange, rule.basic_auth.as_ref());
                exchange.log.note = Some("basic_auth: wrong name or password".into());
                return Err(response);
            }
            Ok(Verdict::Busy) => {
                exchange.log.note = Some("basic_auth: too many passwords are being checked".into());
                return Err(later(site, head, exchange, "Too many people are signing in at the moment.", 5));
            }
            Ok(Verdict::TooOften(wait)) => {
                let mut answer = errors::too_often(site, head, exchange, wait);
                exchange.log.note = Some("basic_auth: too many wrong passwords from this address".into());
                answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
                return Err(answer);
            }
            Err(why) => {
                exchange.log.note = Some("basic_auth: the file of passwords can't be used".into());
                if file.says() {
                    let name = &site.config.name;
                    front
                        .log
                        .of(name)
                        .event(Name::BasicAuth, format!("{name}: basic_auth rejects every request: {why}"));
                }
                return Err(later(site, head, exchange, "Nobody can sign in to this page at the moment.", 30));
            }
        }
    }
    enter(&protecting, head, &name, exchange);
    Ok(())
}

/// A part of a page: it may be on a page only if its visitor may have it by itself.
pub fn part(site: &Site, head: &Parts, exchange: &mut Exchange) -> Step {
    let Some(rules) = &site.rules else { return Ok(()) };
    // Its own host, which may be another one than the page's.
    let host = exchange.client.host.clone().unwrap_or_else(|| host(head).into_owned());
    let target = Target { host: Some(split_host(&host).0), path: head.uri.path() };
    let protecting = rules.protecting(target);
    // Refused, too: others have it in their page.
    exchange.response.protected |= protecting.are_for_some() || protecting.passwords().next().is_some();
    if !protecting.admit(exchange.client.address) {
        return Err(refused(site, head, exchange));
    }
    for (_, file) in protecting.passwords() {
        if !exchange.requester.proved.contains(&file.number()) {
            return Err(refused(site, head, exchange));
        }
    }
    Ok(())
}

/// The request goes on, without the password that was the server's to check.
fn enter(protecting: &ProtectingRules<'_>, head: &mut Parts, name: &str, exchange: &mut Exchange) {
    let mut passes_user = false;
    for (rule, file) in protecting.passwords() {
        exchange.requester.proved.push(file.number());
        passes_user |= rule.basic_auth.as_ref().is_some_and(|basic| basic.pass_user);
    }
    remove_authorization(&mut head.headers, Schemes { negotiate: false, basic: true });
    if passes_user {
        let identity = Identity { name: name.to_owned(), groups: Vec::new(), subject: None, sid: None };
        let (provider, proved_until, refresh_token, id_token) = (None, None, None, None);
        let proof =
            NewSession { identity, mechanism: Mechanism::Basic, provider, proved_until, refresh_token, id_token };
        exchange.requester.user =
            Some(User::new(Arc::new(Session::new(proof, &Limits::DEFAULT, clock::unix_millis())), None));
    }
}

fn redirect(
    rules: &Rules,
    target: Target<'_>,
    head: &Parts,
    host: &str,
    exchange: &Exchange,
) -> Option<Response<ResponseBody>> {
    let (redirect, pattern) = rules.redirect(target)?;
    let asked = RedirectRequest {
        scheme: exchange.client.scheme(),
        authority: host,
        path: head.uri.path(),
        query: head.uri.query(),
    };
    let location = HeaderValue::from_str(&redirect.location(&asked, pattern)?).ok()?;
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = redirect.status.unwrap_or(match head.method {
        Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    });
    response.headers_mut().insert(header::LOCATION, location);
    Some(response)
}

fn refused(site: &Site, head: &Parts, exchange: &mut Exchange) -> Response<ResponseBody> {
    exchange.log.note = Some("refused by a [[rule]]".into());
    let mut response = errors::status(site, head, exchange, StatusCode::FORBIDDEN, "You may not see this page.");
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Asks for a name and a password (RFC 7617).
fn challenge(site: &Site, head: &Parts, exchange: &mut Exchange, basic: Option<&BasicAuth>) -> Response<ResponseBody> {
    let sentence = "This page asks for a name and a password.";
    let mut response = errors::status(site, head, exchange, StatusCode::UNAUTHORIZED, sentence);
    let realm = basic.map_or("Restricted", |basic| basic.realm.as_str());
    let value = HeaderValue::from_str(&format!("Basic realm=\"{realm}\", charset=\"UTF-8\""));
    let fields = response.headers_mut();
    fields.insert(header::WWW_AUTHENTICATE, value.unwrap_or(HeaderValue::from_static("Basic realm=\"Restricted\"")));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn later(site: &Site, head: &Parts, exchange: &Exchange, sentence: &str, seconds: u64) -> Response<ResponseBody> {
    let mut response = errors::status(site, head, exchange, StatusCode::SERVICE_UNAVAILABLE, sentence);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The page of a site that is closed for a while.
fn maintenance(head: &Parts, notice: &Notice) -> Response<ResponseBody> {
    let accept = head.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let (content_type, body) = pages::maintenance(accept, notice.page.as_deref());
    let mut response = Response::new(ResponseBody::Whole(body));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(header::RETRY_AFTER, HeaderValue::from(notice.retry_after));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
