//! The site as a browser reaches it, through whatever stands in front: what it says to somebody without a ticket, and
//! to the caller's own ticket. It follows no redirect, keeps no cookie, and shows no token.

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use client_pool::{Connect, HttpSettings, Limits, Origin, Resolver, Trust, Trusts, Way};
use http::{header, HeaderMap, Request, StatusCode, Uri};
use http_body_util::Empty;

use super::{online::runtime, Line};
use crate::{
    config::parts::sign_on::{Bindings, Otherwise, SignOn},
    support::explanation::Explanation,
};

const SUBJECT: &str = "visit";
const TIME: Duration = Duration::from_secs(10);
/// The system's, as for the server.
const LIBRARY: &str = "libgssapi_krb5.so.2";

/// How the site is visited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visit {
    /// None: https, by the site's host and the first path of `[[sso]]`.
    pub url: Option<Uri>,
    /// In place of what the DNS says.
    pub address: Option<IpAddr>,
    /// In place of the system's authorities.
    pub ca_file: Option<PathBuf>,
}

impl Visit {
    /// `https://web.example.com`, if an address was given.
    pub fn origin(&self) -> Option<String> {
        let url = self.url.as_ref()?;
        Some(format!("{}://{}", url.scheme_str()?, url.authority()?))
    }

    fn target(&self, host: &str, sign_on: &SignOn) -> Option<Uri> {
        let path = sign_on.paths.first().map_or("/", |path| path.split('*').next().unwrap_or("/"));
        self.url.clone().or_else(|| format!("https://{host}{path}").parse().ok())
    }
}

/// What came back.
struct Seen {
    status: StatusCode,
    headers: HeaderMap,
}

pub fn visit(visit: &Visit, host: &str, sign_on: &SignOn) -> Vec<Line> {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(line) => return vec![line],
    };
    let Some(url) = visit.target(host, sign_on) else { return Vec::new() };
    let ask =
        |token: Option<&str>| runtime.block_on(async { tokio::time::timeout(TIME, ask(visit, &url, token)).await });
    let first = match ask(None)
        .unwrap_or_else(|_| Err(Explanation::new(format!("no answer within {} s", TIME.as_secs()))))
    {
        Ok(seen) => seen,
        Err(why) => {
            let advice = "Start the server, or say how it is reached: --url https://HOST:PORT/ and --connect ADDRESS; --no-visit leaves it out.";
            return vec![Line::warning(SUBJECT, format!("{url} does not answer from here: {why}"), advice)];
        }
    };
    let mut lines = vec![judge_offer(&url, &first, sign_on)];
    let wants_ticket = sign_on.kerberos.as_ref().is_some_and(|kerberos| kerberos.bindings != Bindings::Require);
    if !wants_ticket || !offers_negotiate(&first) {
        return lines;
    }
    let host = url.host().unwrap_or(host);
    let Ok(token) = negotiate::check::first_token(LIBRARY.as_ref(), host, None) else { return lines };
    if let Ok(Ok(seen)) = ask(Some(&negotiate::challenge(&token))) {
        lines.push(judge_ticket(&url, &seen));
    }
    lines
}

fn judge_offer(url: &Uri, seen: &Seen, sign_on: &SignOn) -> Line {
    let status = seen.status.as_u16();
    let through = seen.headers.get(header::VIA).and_then(|via| via.to_str().ok());
    let through = through.map_or(String::new(), |via| format!(" (by way of {})", via.escape_debug()));
    let location = seen.headers.get(header::LOCATION).and_then(|location| location.to_str().ok()).unwrap_or_default();
    let basic = challenges(seen).any(|challenge| challenge.to_ascii_lowercase().starts_with("basic"));
    if seen.status.is_redirection() {
        if let Some(oidc) = sign_on.oidc.as_ref() {
            let issuer: Option<Uri> = oidc.issuer.parse().ok();
            let target: Option<Uri> = location.parse().ok();
            if issuer.is_some_and(|issuer| target.is_some_and(|target| target.authority() == issuer.authority())) {
                return Line::good(SUBJECT, format!("{url}{through} sends a browser to the issuer"));
            }
        }
        return Line::wrong(
            SUBJECT,
            format!("{url}{through} sends browsers on to {}", location.escape_debug()),
            "A ticket is for one name: open, check and allow in browsers the name that people end at.",
        );
    }
    if seen.status.is_server_error() {
        return Line::wrong(SUBJECT, format!("{url}{through} answers {status}"), "The server's log says why.");
    }
    if offers_negotiate(seen) {
        return Line::good(SUBJECT, format!("{url}{through} asks for a ticket"));
    }
    if seen.status == StatusCode::UNAUTHORIZED && basic && sign_on.basic.is_some() {
        let text = format!("{url}{through} asks for a password");
        return if sign_on.kerberos.is_some() && sign_on.intranet.is_empty() {
            Line::wrong(SUBJECT, format!("{text} and offers no tickets"), PROXY)
        } else {
            Line::good(SUBJECT, text)
        };
    }
    match (seen.status, sign_on.kerberos.is_some(), sign_on.intranet.is_empty()) {
        (StatusCode::UNAUTHORIZED, true, true) => {
            Line::wrong(SUBJECT, format!("{url}{through} answers 401 and asks for no ticket"), PROXY)
        }
        (_, true, false) => Line::warning(
            SUBJECT,
            format!("{url}{through} offers this machine no tickets"),
            "Add its address to `intranet`; behind a proxy, the proxy's to trusted_proxies, so that visitors' own addresses count.",
        ),
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, ..) => {
            Line::good(SUBJECT, format!("{url}{through} lets nobody in without a login"))
        }
        _ if sign_on.otherwise == Otherwise::App && sign_on.kerberos.is_none() => {
            Line::good(SUBJECT, format!("{url}{through} answers {status}: the application has its own login"))
        }
        _ => Line::wrong(
            SUBJECT,
            format!("{url}{through} answers {status} to somebody who has not signed in"),
            "Another server answers there, a proxy in front answers from its cache, or [[sso]] is not for this path or host.",
        ),
    }
}

const PROXY: &str = "A proxy in front removes WWW-Authenticate: have it pass that field and Authorization on; or the server has not loaded these settings.";

fn judge_ticket(url: &Uri, seen: &Seen) -> Line {
    let proof = challenges(seen)
        .any(|challenge| challenge.len() > "Negotiate ".len() + 8 && challenge.starts_with("Negotiate "));
    match seen.status {
        StatusCode::UNAUTHORIZED => Line::wrong(
            SUBJECT,
            format!("{url} does not take your ticket"),
            "If the log of the server says nothing of it, a proxy in front removes Authorization; else the log says what is wrong with it.",
        ),
        StatusCode::FORBIDDEN => {
            Line::warning(SUBJECT, format!("{url} takes your ticket and does not let you in (403)"), "Look at `allow`.")
        }
        status if status.is_server_error() => {
            Line::wrong(SUBJECT, format!("{url} answers {} to your ticket", status.as_u16()), "The server's log says why.")
        }
        _ if !proof => Line::warning(
            SUBJECT,
            format!("{url} takes your ticket, and the server's proof of itself does not arrive"),
            "A proxy in front removes WWW-Authenticate from answers.",
        ),
        _ => Line::good(SUBJECT, format!("{url} signs you in by your ticket, and proves itself")),
    }
}

fn challenges(seen: &Seen) -> impl Iterator<Item = &str> {
    seen.headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok())
}

fn offers_negotiate(seen: &Seen) -> bool {
    let is_offer = |challenge: &str| challenge.split(',').any(|one| one.trim().eq_ignore_ascii_case("negotiate"));
    seen.status == StatusCode::UNAUTHORIZED && challenges(seen).any(is_offer)
}

/// One request on a connection of its own, by HTTP/1.1: tickets of NTLM's kind belong to a connection.
async fn ask(visit: &Visit, url: &Uri, authorization: Option<&str>) -> Result<Seen, Explanation> {
    let https = url.scheme_str() != Some("http");
    let (Some(host), Some(authority)) = (url.host(), url.authority()) else {
        return Err(Explanation::new("the URL has no host"));
    };
    let connect = Connect {
        https,
        host: host.to_owned(),
        socket: None,
        port: url.port_u16().unwrap_or(if https { 443 } else { 80 }),
        way: Way {
            trust: Trust { ca_file: visit.ca_file.clone(), ..Trust::default() },
            address: visit.address,
            only_http1: true,
            ..Way::default()
        },
        guard: None,
        resolver: Arc::new(Resolver::default()),
        trusts: Arc::new(Trusts::default()),
        http: HttpSettings::default(),
        places: None,
    };
    let limits = Limits { connections: 1, breaker: 0, idle: 0, keep: TIME, keep_http2: TIME, sweeps: false };
    let origin: Arc<Origin<Empty<Bytes>>> = Origin::new(connect, limits);
    let until = tokio::time::Instant::from_std(Instant::now() + TIME);
    let mut lease = origin.lease(true, false, until).await.map_err(|failure| Explanation::new(failure.explain()))?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path)
        .header(header::HOST, authority.as_str())
        .header(header::USER_AGENT, "paceline sso check")
        .header(header::ACCEPT, "text/html")
        .header("sec-fetch-mode", "navigate");
    if let Some(value) = authorization {
        request = request.header(header::AUTHORIZATION, value);
    }
    let request =
        request.body(Empty::new()).map_err(|error| Explanation::caused("the request can't be sent", error))?;
    match lease.connection.ask(request).await {
        Ok(response) => {
            let (head, _) = response.into_parts();
            lease.discard();
            Ok(Seen { status: head.status, headers: head.headers })
        }
        Err(unanswered) => {
            let why = unanswered.failure.explain();
            lease.discard();
            Err(Explanation::new(why))
        }
    }
}
