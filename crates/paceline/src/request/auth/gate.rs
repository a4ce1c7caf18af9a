//! The gate of a site: which area a request is in, who has sent it, and whether they may come in. It never answers from
//! what a client says of itself, and if it can't find out who somebody is nobody comes in.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{header, request::Parts, Method, StatusCode, Version};
use ipnet::IpNet;
use negotiate::{ChannelBindings, Conversation};
use parking_lot::Mutex;
use path_patterns::{Areas, Paths, Readings};
use sign_in::{is_visible, CookieName, NewSession, Session, SessionId};

use super::{
    header::{cookies, is_forged, remove_authorization, remove_cookies, remove_identity, Credentials, Manner, Schemes},
    offer::{offer, Failed, Offer, Unproved},
    openid,
    provider::{Accepted, Fault, Way, WaySettings},
    refusal::{address, too_often, unavailable},
    GateAnswer,
};
use crate::{
    config::{
        parts::sign_on::{Allow, Otherwise},
        SiteConfig,
    },
    exchange::{identity::User, Exchange},
    request::access_rules::{self, admits, Visitor, RESERVED},
    support::clock,
};

/// How long a browser that has no ticket is not asked for one (seconds): until it has come to where it signs in otherwise. A fresh profile
/// of Chrome on Linux answers the first challenge of its life without a ticket that it has.
const DECLINED: u64 = 10;
/// A kind of refusal is told in the log at most once in this time.
const SAID: Duration = Duration::from_secs(10);

/// Said to people whose computer has no ticket.
const NEEDS_TICKET: &str = "This page is for people whose computer has signed in to the network. Sign in there (or run kinit), and open the page by its usual name.";

/// The single sign-on of a site.
pub struct Gate {
    areas: Vec<Area>,
    paths: Areas,
    ways: Vec<Arc<Way>>,
    /// All that no application gets.
    cookies: Vec<CookieName>,
    /// The mark of browsers without a ticket.
    declined: String,
    negotiates: bool,
    said: Mutex<HashMap<&'static str, Instant>>,
}

struct Area {
    /// Among the gate's.
    way: usize,
    otherwise: Otherwise,
    allow: Vec<Allow>,
    intranet: Vec<IpNet>,
}

/// What can be said of a request without waiting.
pub enum Glance {
    /// It goes on: to an open path, or its visitor is known.
    Passes,
    /// `judge` has to find out, for these areas.
    Unknown(Vec<usize>),
    /// It is for one of the gate's own addresses.
    Reserved,
}

impl Gate {
    /// None: nothing of the site is protected.
    pub fn of(config: &SiteConfig) -> Option<Gate> {
        let (site, all) = (&config.name, &config.parts.sign_on);
        if all.is_empty() {
            return None;
        }
        let mut settings: Vec<WaySettings> = Vec::new();
        let mut areas = Vec::new();
        for sign_on in all {
            let own = WaySettings::of(sign_on);
            let way = settings.iter().position(|known| *known == own).unwrap_or_else(|| {
                settings.push(own);
                settings.len() - 1
            });
            let (otherwise, allow) = (sign_on.otherwise, sign_on.allow.clone());
            areas.push(Area { way, otherwise, allow, intranet: sign_on.intranet.clone() });
        }
        let numbered = settings.into_iter().enumerate();
        let ways: Vec<_> = numbered.map(|(number, own)| Arc::new(Way::new(own, site, number))).collect();
        let declined = CookieName::of_session(&format!("declined-{site}"));
        let of_ways = ways.iter().flat_map(|way| [way.cookie.clone(), way.login.clone()]);
        Some(Gate {
            areas,
            paths: Areas::new(all.iter().map(|one| Paths { paths: &one.paths, except: &one.except })),
            cookies: of_ways.chain([declined.clone()]).collect(),
            declined: declined.as_str().to_owned(),
            negotiates: ways.iter().any(|way| way.acceptor.is_some()),
            ways,
            said: Mutex::default(),
        })
    }

    pub fn ways(&self) -> &[Arc<Way>] {
        &self.ways
    }

    /// Whether the log is to have a line of this kind of refusal now.
    pub fn says(&self, kind: &'static str) -> bool {
        let mut said = self.said.lock();
        let is_due = said.get(kind).is_none_or(|at| at.elapsed() >= SAID);
        if is_due {
            said.insert(kind, Instant::now());
        }
        is_due
    }

    /// Takes out what a client says of itself, and lets in whom memory knows.
    pub fn glance(&self, head: &mut Parts, exchange: &mut Exchange) -> Glance {
        remove_identity(&mut head.headers);
        if access_rules::is_reserved(head.uri.path()) {
            exchange.response.protected = true;
            return Glance::Reserved;
        }
        let areas = self.paths.first_of_each(&Readings::of(head.uri.path()));
        let Some(first) = areas.first() else {
            remove_cookies(&mut head.headers, &self.cookies);
            remove_authorization(&mut head.headers, Schemes { negotiate: self.negotiates, basic: false });
            return Glance::Passes;
        };
        exchange.response.protected = true;
        let number = self.areas[*first].way;
        let way = &self.ways[number];
        let id = way.cookie.find(cookies(&head.headers));
        let now = clock::unix_millis();
        let session = id.zip(way.sessions.known()).and_then(|(id, sessions)| sessions.find_cached(&id, now));
        let is_due = |session: &Session| session.confirm_at.is_some_and(|at| at <= now);
        match session.filter(|session| !is_due(session)).map(|session| User::new(session, Some(number))) {
            Some(user) if self.admits(&areas, &user) => {
                self.enter(way, head, exchange, Some(user));
                Glance::Passes
            }
            _ => Glance::Unknown(areas),
        }
    }

    /// Whether somebody may come into a path by what is known of them already: for a part of a page.
    pub fn admits_part(&self, path: &str, user: Option<&User>) -> PartAdmission {
        let areas = self.paths.first_of_each(&Readings::of(path));
        let Some(first) = areas.first() else { return PartAdmission::Open };
        match user {
            Some(user) if self.admits(&areas, user) => PartAdmission::AsUser,
            None if self.areas[*first].otherwise == Otherwise::App => PartAdmission::Open,
            _ => PartAdmission::Refused,
        }
    }

    /// All areas that the path may be in have to let them in.
    fn admits(&self, areas: &[usize], user: &User) -> bool {
        let visitor = Visitor { name: user.name(), groups: user.groups(), realm: user.realm() };
        areas.iter().all(|area| {
            let area = &self.areas[*area];
            // One who has signed in by another way has not signed in by this one.
            user.way() == Some(area.way) && admits(&area.allow, &visitor)
        })
    }

    /// The request goes on, without what was the gate's.
    fn enter(&self, way: &Way, head: &mut Parts, exchange: &mut Exchange, user: Option<User>) {
        remove_cookies(&mut head.headers, &self.cookies);
        let schemes = Schemes { negotiate: self.negotiates, basic: way.directory.is_some() };
        remove_authorization(&mut head.headers, schemes);
        user.iter().for_each(|user| exchange.live.signed_in(user.name()));
        exchange.requester.user = user;
    }

    /// Finds out who has sent the request. Err: the answer in place of its page.
    pub async fn judge(&self, areas: &[usize], head: &mut Parts, exchange: &mut Exchange) -> Result<(), GateAnswer> {
        let Some(first) = areas.first().and_then(|first| self.areas.get(*first)) else { return Ok(()) };
        let (way, number) = (self.ways[first.way].clone(), Some(first.way));
        let now = clock::unix_millis();
        let id = way.cookie.find(cookies(&head.headers));
        if let Some(id) = &id {
            match openid::session(&way, id, now).await {
                Ok(Some(session)) => return self.admit(areas, &way, head, exchange, User::new(session, number)),
                Ok(None) => {}
                Err(fault) => return Err(unavailable(fault)),
            }
        }
        let credentials = Credentials::of(&head.headers);
        let has_own = matches!(credentials, Credentials::Other);
        let checked = self.checked(&way, credentials, head, exchange, now).await;
        let proof = match checked.and_then(|proof| proof.map(with_visible_names).transpose()) {
            Ok(Some(proof)) => {
                let session = self.session(&way, proof, id.as_ref(), head, exchange, now).await?;
                return self.admit(areas, &way, head, exchange, User::new(session, number));
            }
            Ok(None) => FailedProof { how: Failed::Nothing, note: None },
            Err(fault) => failure(fault)?,
        };
        self.unproved(first, &way, proof, has_own, head, exchange).await
    }

    fn admit(
        &self,
        areas: &[usize],
        way: &Way,
        head: &mut Parts,
        exchange: &mut Exchange,
        user: User,
    ) -> Result<(), GateAnswer> {
        let may = self.admits(areas, &user);
        self.enter(way, head, exchange, Some(user));
        if may {
            Ok(())
        } else {
            let sentence =
                "You have signed in, but you may not see this page. If you should, ask the people who run this site.";
            Err(GateAnswer::new(StatusCode::FORBIDDEN, sentence)
                .noted("not-allowed", "none of `allow` is for this person"))
        }
    }

    /// Whom the credentials prove. None: there are none that are ours to judge.
    async fn checked(
        &self,
        way: &Way,
        credentials: Credentials,
        head: &Parts,
        exchange: &mut Exchange,
        now: u64,
    ) -> Result<Option<NewSession>, Fault> {
        let from = address(exchange);
        match credentials {
            Credentials::Negotiate(token) if way.acceptor.is_some() && !is_forged(head) => {
                let is_kerberos = |token: &Vec<u8>| matches!(negotiate::sniff(token), negotiate::Token::Kerberos(_));
                let is_http2 = head.version == Version::HTTP_2;
                let takes_ntlm = way.settings.kerberos.as_ref().is_some_and(|kerberos| kerberos.ntlm);
                if is_http2 && takes_ntlm && !token.as_ref().is_ok_and(is_kerberos) {
                    return Err(Fault::NeedsHttp1);
                }
                let bindings = if exchange.client.proxied {
                    // The browser's TLS is with the proxy.
                    None
                } else {
                    exchange
                        .connection
                        .certificate
                        .as_ref()
                        .and_then(|key| ChannelBindings::tls_server_end_point(key.end_entity_cert().ok()?))
                };
                // Behind a proxy, and in HTTP/2, a connection is not one client's, or not one conversation's.
                let own = (!is_http2 && !exchange.client.proxied).then(|| exchange.connection.conversation.get());
                let accepted = match own {
                    Some(own) => way.ticket(token, &mut *own.lock().await, bindings, from, now).await,
                    None => way.ticket(token, &mut Conversation::default(), bindings, from, now).await,
                };
                match accepted {
                    Ok(Accepted { proof, reply }) => {
                        if !reply.is_empty() {
                            exchange.tell(header::WWW_AUTHENTICATE, &negotiate::challenge(&reply));
                        }
                        Ok(Some(proof))
                    }
                    Err(Fault::Continues(_)) if is_http2 => Err(Fault::NeedsHttp1),
                    Err(Fault::Continues(_)) if exchange.client.proxied => Err(Fault::Denied {
                        kind: "behind-proxy",
                        text: "this token is one of several, and behind a proxy nobody knows whose the next one is"
                            .into(),
                    }),
                    Err(fault) => Err(fault),
                }
            }
            Credentials::Basic { name, password } if way.directory.is_some() && !is_forged(head) => {
                if !is_confidential(exchange) {
                    let text = "a password came over plain http, and was not tried: open the site by https".into();
                    return Err(Fault::Denied { kind: "plain-http", text });
                }
                way.password(&name, &password, from, now).await.map(Some)
            }
            Credentials::Malformed => {
                let text = "the Authorization field can't be read, or is there twice".into();
                Err(Fault::Denied { kind: "malformed", text })
            }
            _ => Ok(None),
        }
    }

    /// The session of somebody who has just proved who they are. A client that may keep no cookies gets a kept one now and
    /// then.
    async fn session(
        &self,
        way: &Way,
        proof: NewSession,
        old: Option<&SessionId>,
        head: &Parts,
        exchange: &mut Exchange,
        now: u64,
    ) -> Result<Arc<Session>, GateAnswer> {
        let is_browser = Manner::of(head) == Manner::Navigation || head.headers.contains_key("sec-fetch-mode");
        if !is_browser && !way.may_make_session(&proof.identity.name, address(exchange), now) {
            return Ok(way.session_once(proof, now));
        }
        let sessions = way.sessions.get().await.map_err(|closed| unavailable(closed.into()))?;
        if let Some(old) = old {
            let _ = sessions.sign_out(old, now).await;
        }
        let (id, session) = sessions.sign_in(proof, now).await.map_err(|error| unavailable(error.into()))?;
        exchange.tell(header::SET_COOKIE, &way.cookie.set(&id, None));
        if self.has_declined(head) {
            exchange.tell(header::SET_COOKIE, &self.declined_cookie(0));
        }
        Ok(session)
    }

    /// What somebody gets who has proved nothing.
    async fn unproved(
        &self,
        area: &Area,
        way: &Way,
        FailedProof { how: failed, note }: FailedProof,
        has_own: bool,
        head: &mut Parts,
        exchange: &mut Exchange,
    ) -> Result<(), GateAnswer> {
        let is_inside = area.intranet.is_empty()
            || exchange.client.address.is_some_and(|address| area.intranet.iter().any(|net| net.contains(&address)));
        let unproved = Unproved {
            otherwise: area.otherwise,
            manner: Manner::of(head),
            is_read: [Method::GET, Method::HEAD].contains(&head.method),
            negotiate: way.acceptor.is_some() && is_inside && !is_forged(head),
            basic: way.directory.is_some() && is_confidential(exchange) && !is_forged(head),
            declined: self.has_declined(head),
            failed,
            has_own,
        };
        let mut answer = match offer(&unproved) {
            Offer::Anonymous => {
                if let Some((kind, text)) = note {
                    exchange.log.note = Some(format!("sso: {kind}: {text}"));
                    exchange.tell(header::SET_COOKIE, &self.declined_cookie(DECLINED));
                }
                self.enter(way, head, exchange, None);
                return Ok(());
            }
            Offer::Login => openid::begin(way, head, exchange).await?,
            Offer::Refuse if is_forged(head) => {
                let sentence = "Another site has asked for this. Open this site, and do it there.";
                GateAnswer::new(StatusCode::FORBIDDEN, sentence)
                    .noted("forged", "another site's request proves nothing")
            }
            Offer::Refuse => self.refusal(area, way),
            Offer::Challenge { negotiate, basic, goes_on } => self.challenge(way, negotiate, basic, goes_on, head),
        };
        if failed == Failed::Ticket && unproved.manner == Manner::Navigation {
            answer = answer.with(header::SET_COOKIE, &self.declined_cookie(DECLINED));
        }
        answer.note = answer.note.or(note);
        Err(answer)
    }

    fn refusal(&self, area: &Area, way: &Way) -> GateAnswer {
        let (sentence, kind) = match (area.otherwise, way.acceptor.is_some()) {
            (Otherwise::Basic, _) => {
                ("Sign in over https: names and passwords are not taken over plain http.", "plain-http")
            }
            (_, true) => (NEEDS_TICKET, "no-ticket"),
            (_, false) => ("You have to sign in to see this page.", "not-signed-in"),
        };
        GateAnswer::new(StatusCode::FORBIDDEN, sentence).noted(kind, "nothing was proved")
    }

    fn challenge(&self, way: &Way, negotiate: bool, basic: bool, goes_on: bool, head: &Parts) -> GateAnswer {
        let sentence =
            if negotiate && !basic && !goes_on { NEEDS_TICKET } else { "You have to sign in to see this page." };
        let mut answer = GateAnswer::new(StatusCode::UNAUTHORIZED, sentence);
        if negotiate {
            answer = answer.with(header::WWW_AUTHENTICATE, &negotiate::challenge(b""));
        }
        if let Some(settings) = way.settings.basic.as_ref().filter(|_| basic) {
            let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", settings.prompt);
            answer = answer.with(header::WWW_AUTHENTICATE, &challenge);
        }
        if answer.fields.is_empty() {
            // RFC 9110 section 15.5.2 wants a challenge; for this one no browser asks anybody.
            answer = answer.with(header::WWW_AUTHENTICATE, "Cookie realm=\"sign in\"");
        }
        if goes_on {
            let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
            let to = percent_encoding::utf8_percent_encode(path, percent_encoding::NON_ALPHANUMERIC);
            answer = answer
                .with(header::SET_COOKIE, &self.declined_cookie(DECLINED))
                .with(header::REFRESH, &format!("0; url={RESERVED}without-ticket?to={to}"));
        }
        answer
    }

    pub(super) fn has_declined(&self, head: &Parts) -> bool {
        let of = |field: &[u8]| field.split(|byte| *byte == b';').any(|pair| pair.trim_ascii() == self.declined_pair());
        cookies(&head.headers).any(of)
    }

    fn declined_pair(&self) -> Vec<u8> {
        format!("{}=1", self.declined).into_bytes()
    }

    /// `seconds`: 0 takes it away.
    pub(super) fn declined_cookie(&self, seconds: u64) -> String {
        format!("{}=1; Max-Age={seconds}; Path=/; Secure; HttpOnly; SameSite=Lax", self.declined)
    }

    /// Our cookies, which no application gets.
    pub(super) fn cookies(&self) -> &[CookieName] {
        &self.cookies
    }
}

/// What a part of a page may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartAdmission {
    /// Everybody may, and nobody is signed in there.
    Open,
    AsUser,
    Refused,
}

/// Whether nobody on the way can read what the client sends.
fn is_confidential(exchange: &Exchange) -> bool {
    exchange.client.https || exchange.client.address.is_none_or(|address| address.is_loopback())
}

/// What was tried to prove who has sent a request, with the words for the log.
struct FailedProof {
    how: Failed,
    note: Option<(&'static str, String)>,
}

/// What goes on after a fault. Err: it is answered.
fn failure(fault: Fault) -> Result<FailedProof, GateAnswer> {
    match fault {
        Fault::Denied { kind, text } => {
            let how = if matches!(kind, "password" | "plain-http") { Failed::Password } else { Failed::Ticket };
            Ok(FailedProof { how, note: Some((kind, text)) })
        }
        Fault::Continues(reply) => {
            Err(GateAnswer::new(StatusCode::UNAUTHORIZED, "You have to sign in to see this page.")
                .with(header::WWW_AUTHENTICATE, &negotiate::challenge(&reply)))
        }
        Fault::NeedsHttp1 => {
            let mut answer = GateAnswer::new(StatusCode::UNAUTHORIZED, "Sign in over HTTP/1.1.");
            answer.needs_http1 = true;
            Err(answer.noted("needs-http1", "only a connection of HTTP/1.1 can be signed in by NTLM"))
        }
        Fault::TooOften(wait) => Err(too_often(wait)),
        ours @ Fault::Ours { .. } => Err(unavailable(ours)),
    }
}

/// What an application can be told, and what a log can show. Err: the name, or one of a group, has characters that nobody sees.
fn with_visible_names(proof: NewSession) -> Result<NewSession, Fault> {
    let identity = &proof.identity;
    if std::iter::once(&identity.name).chain(&identity.groups).all(|name| is_visible(name)) {
        Ok(proof)
    } else {
        Err(Fault::Denied {
            kind: "odd-name",
            text: "the name, or one of a group, has characters that are not seen or that turn its direction".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use sign_in::{Identity, Mechanism};

    use super::*;

    /// Of tickets and directories, too: the name is shown in logs and pages, and the application compares it.
    #[test]
    fn nobody_is_signed_in_by_a_name_that_is_not_seen_as_it_is() {
        let is_taken = |name: &str, group: &str| {
            let identity = Identity { name: name.into(), groups: vec![group.into()], subject: None, sid: None };
            let (provider, proved_until, refresh_token, id_token) = (None, None, None, None);
            let mechanism = Mechanism::Kerberos;
            with_visible_names(NewSession { identity, mechanism, provider, proved_until, refresh_token, id_token })
        };
        assert!(is_taken("zoë", "staff").is_ok());
        for (name, group) in [("alice\u{202e}nimda", "staff"), ("alice", "admin\u{200b}s"), ("ali\nce", "staff")] {
            assert!(matches!(is_taken(name, group), Err(Fault::Denied { kind: "odd-name", .. })), "{name:?} {group:?}");
        }
    }
}
