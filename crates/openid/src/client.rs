//! HTTP to the provider, over the connections of client-pool: TLS as strict as everywhere in the front, HTTP/2, no
//! redirects, no proxy. A response is bounded. It never asks an address without TLS, but for this machine's own.

use std::{collections::HashMap, future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use client_pool::{Connect, Failure, HttpSettings, Limits, Origin, Resolver, Trust, Trusts, UnansweredRequest, Way};
use http::{header, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use openidconnect::{url::Url, AsyncHttpClient, HttpRequest, HttpResponse};
use parking_lot::Mutex;
use tokio::time::{timeout_at, Instant};

use crate::settings::may_be_asked;

/// Time for a whole exchange.
const TIME: Duration = Duration::from_secs(10);
/// Bytes of a response: the keys and tokens of a large provider have some 20 KB.
const MAX_RESPONSE: usize = 1 << 20;
/// Hosts that a provider has its endpoints on.
const MAX_HOSTS: usize = 16;
const LIMITS: Limits = Limits {
    connections: 16,
    breaker: 0,
    idle: 2,
    keep: Duration::from_secs(30),
    keep_http2: Duration::from_secs(30),
    sweeps: true,
};

/// Why the provider has not answered, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(pub String);

impl From<Failure> for ClientError {
    fn from(failure: Failure) -> ClientError {
        ClientError(failure.explain())
    }
}

/// The connections to one of its hosts.
type ProviderOrigin = Origin<Full<Bytes>>;

/// Asks the provider.
pub struct HttpClient {
    trust: Trust,
    resolver: Arc<Resolver>,
    trusts: Arc<Trusts>,
    /// By whether it is TLS, host and port.
    origins: Mutex<HashMap<(bool, String, u16), Arc<ProviderOrigin>>>,
}

impl HttpClient {
    pub fn new(ca_file: Option<PathBuf>) -> HttpClient {
        HttpClient {
            trust: Trust { ca_file, ..Trust::default() },
            resolver: Arc::default(),
            trusts: Arc::default(),
            origins: Mutex::default(),
        }
    }

    /// The response, whatever its status is.
    pub async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, ClientError> {
        let until = Instant::now() + TIME;
        let origin = self.origin(request.uri())?;
        timeout_at(until, exchange(&origin, request, until))
            .await
            .unwrap_or_else(|_| Err(ClientError("no answer within 10 seconds".into())))
    }

    fn origin(&self, uri: &Uri) -> Result<Arc<ProviderOrigin>, ClientError> {
        let allowed = Url::parse(&uri.to_string()).ok().filter(may_be_asked);
        let (Some(_), Some(host)) = (allowed, uri.host()) else {
            return Err(ClientError(format!("{} is not asked without TLS", uri.host().unwrap_or("an address"))));
        };
        let https = uri.scheme_str() == Some("https");
        let key = (https, host.to_ascii_lowercase(), uri.port_u16().unwrap_or(if https { 443 } else { 80 }));
        let mut origins = self.origins.lock();
        if origins.len() >= MAX_HOSTS && !origins.contains_key(&key) {
            origins.clear();
        }
        let open = || {
            let connect = Connect {
                https,
                host: key.1.clone(),
                socket: None,
                port: key.2,
                way: Way { trust: self.trust.clone(), ..Way::default() },
                guard: None,
                resolver: self.resolver.clone(),
                trusts: self.trusts.clone(),
                http: HttpSettings::default(),
                places: None,
            };
            Origin::new(connect, LIMITS)
        };
        Ok(origins.entry(key.clone()).or_insert_with(open).clone())
    }
}

async fn exchange(
    origin: &Arc<ProviderOrigin>,
    request: HttpRequest,
    until: Instant,
) -> Result<HttpResponse, ClientError> {
    let is_idempotent = request.method().is_idempotent();
    let (head, body) = request.into_parts();
    let body = Full::new(Bytes::from(body));
    let mut fresh = false;
    loop {
        let mut lease = origin.lease(fresh, !is_idempotent, until).await?;
        let is_http2 = lease.connection.is_http2();
        let mut sending = Request::builder().method(&head.method);
        if let Some(headers) = sending.headers_mut() {
            headers.extend(head.headers.clone());
            headers.insert(header::USER_AGENT, HeaderValue::from_static("paceline"));
            if !is_http2 {
                let host = head.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
                headers.extend(host.map(|host| (header::HOST, host)));
            }
        }
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let uri = if is_http2 { head.uri.to_string() } else { path };
        let sending = sending.uri(uri).body(body.clone()).map_err(|error| ClientError(error.to_string()))?;
        match lease.connection.ask(sending).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                let read = Limited::new(body, MAX_RESPONSE).collect().await;
                let read = read.map_err(|_| {
                    ClientError(format!("the response broke off, or has more than {MAX_RESPONSE} bytes"))
                })?;
                lease.give_back(None);
                return Ok(Response::from_parts(head, read.to_bytes().to_vec()));
            }
            Err(unanswered) => {
                let again = !fresh && unanswered.is_repeatable(is_http2, is_idempotent, lease.connection.reused);
                let UnansweredRequest { failure, broken, .. } = unanswered;
                if broken {
                    lease.discard();
                }
                if !again {
                    return Err(failure.into());
                }
                fresh = true;
            }
        }
    }
}

impl<'c> AsyncHttpClient<'c> for HttpClient {
    type Error = ClientError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, ClientError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move { said(self.ask(request).await?) })
    }
}

/// The library reads any response as an answer. A provider that is overloaded, or a proxy in front of it, has not
/// answered: nobody is to be signed out for that.
fn said(response: HttpResponse) -> Result<HttpResponse, ClientError> {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json = kind.to_ascii_lowercase().starts_with("application/json");
    let is_busy = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    if is_busy || !status.is_success() && !is_json {
        Err(ClientError(format!("it answers {status}")))
    } else {
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_the_provider_is_one() {
        for (status, kind, is_answer) in [
            (200, "application/json; charset=utf-8", true),
            (400, "application/json", true),
            (401, "Application/JSON", true),
            (404, "text/html", false),
            (302, "", false),
            (429, "application/json", false),
            (500, "application/json", false),
            (503, "text/plain", false),
        ] {
            let response = Response::builder().status(status).header("content-type", kind).body(Vec::new()).unwrap();
            assert_eq!(said(response).is_ok(), is_answer, "{status} {kind}");
        }
    }

    #[tokio::test]
    async fn nobody_is_asked_without_tls() {
        let client = HttpClient::new(None);
        for uri in ["http://id.example/token", "http://10.0.0.1/", "/token"] {
            let request = Request::get(uri).body(Vec::new()).unwrap();
            let error = client.ask(request).await.unwrap_err();
            assert!(error.0.contains("without TLS"), "{error}");
        }
    }
}
