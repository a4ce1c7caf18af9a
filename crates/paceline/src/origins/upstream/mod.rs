//! A site's requests handed to HTTP servers that were there before (RFC 9110 section 3.7, "gateway"), and their
//! answers. It never chooses the site, and never gives a failure its status.
//!
//! Reading order: `targets` and `address` (what the setting names), `hosts` (which host gets a request; the rules are in
//! `crates/balance`), `pool` (its connections), `asking`, `request` and `outgoing` (the request on its way), `response`,
//! `sticky` (visitors who stay with their host), `checks` and `discovery` (what is found out about hosts beside requests).

mod address;
mod asking;
mod checks;
mod discovery;
mod failure;
mod hosts;
mod outgoing;
mod pool;
mod request;
mod response;
mod sticky;
mod targets;

use std::{sync::Arc, time::Duration};

use balance::HostReport;
use http::{header, request::Parts, HeaderMap, Response};

use self::{asking::Attempt, hosts::Hosts};
pub use self::{
    checks::Check,
    failure::Failure,
    pool::{UpstreamTls, MAX as KEPT_CONNECTIONS},
    targets::{Target, TargetError, Targets},
};
use crate::{
    content::body::ResponseBody,
    exchange::{incoming::RequestBody, Exchange},
    observe::{in_flight::Step, log::Log},
    support::clock,
};

/// Servers that answer in place of an app.
pub struct Upstream {
    hosts: Arc<Hosts>,
    check: Option<Check>,
    answer_timeout: Option<Duration>,
    /// What is wrong with the key of its cookie, until it is said.
    problem: Option<String>,
}

impl Upstream {
    /// `is_sticky`: visitors stay with their host. `answer_timeout`: from the request's last chance to go out to the head of its response; None: no bound.
    pub fn new(
        targets: Targets,
        tls: UpstreamTls,
        connect_timeout: Duration,
        check: Option<Check>,
        is_sticky: bool,
        answer_timeout: Option<Duration>,
    ) -> Upstream {
        // For a single host these are the server's defaults, meant for other sites.
        let is_balanced = targets.is_balanced();
        let check = check.filter(|_| is_balanced);
        let (tokens, problem) = (is_sticky && is_balanced).then(sticky::Tokens::open).unzip();
        let hosts = Arc::new(Hosts::new(targets, tls, connect_timeout, tokens));
        Upstream { hosts, check, answer_timeout, problem: problem.flatten() }
    }

    /// Takes the cookie out of a request that says with which host its visitor is.
    pub fn take_token(&self, headers: &mut HeaderMap) -> Option<String> {
        self.hosts.is_sticky().then(|| sticky::take(headers)).flatten()
    }

    /// Resolves its names and checks its hosts until `unwatch`, and says what becomes of them. `host`: what health
    /// checks name in their Host field; None: the host itself.
    pub fn watch(&self, host: Option<String>, log: Log) {
        self.hosts.say_in(log);
        self.problem.iter().for_each(|problem| self.hosts.say(problem.clone()));
        discovery::begin(&self.hosts);
        if let Some(check) = self.check.clone() {
            checks::begin(&self.hosts, check, host);
        }
    }

    /// Another configuration is in force. Requests and WebSockets that it has go on.
    pub fn unwatch(&self) {
        self.hosts.unwatch();
    }

    /// How its hosts stand: their names, and what the balancer knows of them.
    pub fn report(&self) -> Vec<(Arc<str>, HostReport)> {
        self.hosts.report()
    }

    /// Whether there can be several hosts.
    pub fn is_balanced(&self) -> bool {
        self.hosts.targets.is_balanced()
    }
}

/// Asks the upstream: one host, and others only for what is safe. `asking` says what that is.
pub async fn run(
    upstream: &Upstream,
    head: &Parts,
    body: RequestBody,
    exchange: &mut Exchange,
) -> Result<Response<ResponseBody>, Failure> {
    if let Some(response) = request::last_hop(head) {
        return Ok(response);
    }
    exchange.timeline.queued = clock::now();
    exchange.timeline.handed_over = exchange.timeline.queued;
    exchange.timeline.app_started = exchange.timeline.queued;
    exchange.live.step(Step::Upstream, exchange.timeline.queued);
    let mut asked = None;
    let asking = asking::ask(&upstream.hosts, head, body, exchange, &mut asked);
    let answered = match upstream.answer_timeout {
        Some(after) => tokio::time::timeout(after, asking).await.ok(),
        None => Some(asking.await),
    };
    exchange.timeline.app_finished = clock::now();
    if let Some(asked) = asked.as_ref().filter(|_| upstream.is_balanced()) {
        exchange.upstream.answered = Some(asked.host.name.clone());
    }
    let (answer, lease, offered) = match (answered, upstream.answer_timeout) {
        (Some(answered), _) => answered?,
        (None, after) => return Err(timed_out(upstream, asked.as_ref(), after.unwrap_or_default())),
    };
    let upgrade = exchange.offers.upgrade.take().filter(|_| offered);
    let response = response::response(answer, &head.method, lease, upgrade).await?;
    let token = asked.as_ref().and_then(|asked| asked.host.token.as_deref());
    if let Some(token) = token.filter(|token| exchange.upstream.token.as_deref() != Some(*token)) {
        if !sticky::is_shared(response.headers()) {
            exchange.tell(header::SET_COOKIE, &sticky::field(token, exchange.client.https));
        }
    }
    Ok(response)
}

fn timed_out(upstream: &Upstream, asked: Option<&Attempt>, after: Duration) -> Failure {
    let name = match asked {
        Some(Attempt { host, began, progress }) => {
            // A host can't answer a request that it does not have as a whole.
            if !progress.is_up_to_client() {
                upstream.hosts.failed(host, *began, "no answer in time");
            }
            host.name.to_string()
        }
        None => upstream.hosts.targets.to_string(),
    };
    Failure::TimedOut { upstream: name, after }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_single_host_is_neither_checked_nor_stayed_with() {
        let check = || Some(Check { path: "/up".into(), every: Duration::from_secs(2) });
        let targets = Targets::parse(&["http://10.0.0.1:1".to_owned()]).unwrap();
        let upstream = Upstream::new(targets, UpstreamTls::default(), Duration::from_secs(1), check(), true, None);
        assert_eq!(upstream.check, None);
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("paceline_host=x"));
        assert_eq!(upstream.take_token(&mut headers), None);
        assert_eq!(headers[header::COOKIE], "paceline_host=x");
    }
}
