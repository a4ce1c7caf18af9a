//! From http to https: the redirect, and Strict-Transport-Security (RFC 6797).
//! It never decides whether a request came over TLS.

use std::time::Duration;

use http::{header, request::Parts, HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::{content::body::ResponseBody, exchange::Client};
use http_guard::host;

/// The redirect to the same address over https. `port`: of our own TLS listener, for clients that speak with us
/// directly. None: the request names no host to go to.
pub fn redirect(head: &Parts, host: &str, client: &Client, port: Option<u16>) -> Option<Response<ResponseBody>> {
    let (name, _) = host::split_host(host);
    let port = port.filter(|port| !client.proxied && *port != 443);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let location = (!name.is_empty()).then(|| HeaderValue::from_str(&format!("https://{name}{port}{path}")).ok());
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = match head.method {
        Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    };
    response.headers_mut().insert(header::LOCATION, location.flatten()?);
    Some(response)
}

/// Adds Strict-Transport-Security, unless the app has said something itself.
pub fn promise(headers: &mut HeaderMap, age: Duration, subdomains: bool) {
    let rest = if subdomains { "; includeSubDomains" } else { "" };
    if let Ok(value) = HeaderValue::from_str(&format!("max-age={}{rest}", age.as_secs())) {
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_address_over_https() {
        for (method, host, port, proxied, status, location) in [
            ("GET", "a.test", None, false, 301, "https://a.test/x?y=z"),
            ("HEAD", "a.test:80", Some(443), false, 301, "https://a.test/x?y=z"),
            ("POST", "a.test:80", Some(8443), false, 308, "https://a.test:8443/x?y=z"),
            ("GET", "a.test", Some(8443), true, 301, "https://a.test/x?y=z"),
            ("GET", "[::1]:80", Some(8443), false, 301, "https://[::1]:8443/x?y=z"),
        ] {
            let (head, ()) = http::Request::builder().method(method).uri("/x?y=z").body(()).unwrap().into_parts();
            let client = Client { proxied, ..Client::default() };
            let response = redirect(&head, host, &client, port).unwrap();
            assert_eq!(
                (response.status().as_u16(), response.headers()["location"].to_str().unwrap()),
                (status, location)
            );
            assert!(redirect(&head, "", &client, port).is_none());
        }
    }

    #[test]
    fn the_word_of_the_app_stands() {
        let mut headers = HeaderMap::new();
        promise(&mut headers, Duration::from_secs(60), true);
        promise(&mut headers, Duration::from_secs(0), false);
        assert_eq!(headers["strict-transport-security"], "max-age=60; includeSubDomains");
    }
}
