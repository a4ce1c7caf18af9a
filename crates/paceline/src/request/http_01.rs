//! The proof over http (RFC 8555 section 8.3): answers the authority's request for a token that was agreed on.
//! It never takes a request for a token it does not know, so that an application may prove things for itself.

use http::{header, request::Parts, HeaderValue, Method, Response};

use crate::{content::body::ResponseBody, support::certificate_store::CertificateStore};

const FOLDER: &str = "/.well-known/acme-challenge/";

/// None: this is none of ours.
pub fn answer(certificates: Option<&CertificateStore>, head: &Parts) -> Option<Response<ResponseBody>> {
    let token = head.uri.path().strip_prefix(FOLDER).filter(|_| matches!(head.method, Method::GET | Method::HEAD))?;
    let proof = certificates?.http_proof(token)?;
    let mut response = Response::new(ResponseBody::from(proof));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn known_tokens_only() {
        let certificates = Arc::new(CertificateStore::new(&[]));
        let _offered = certificates.offer_http("abc", "abc.thumb");
        for (method, path, answered) in [
            ("GET", "/.well-known/acme-challenge/abc", true),
            ("GET", "/.well-known/acme-challenge/abc?x", true),
            ("POST", "/.well-known/acme-challenge/abc", false),
            ("GET", "/.well-known/acme-challenge/", false),
            ("GET", "/.well-known/acme-challenge/abd", false),
            ("GET", "/abc", false),
        ] {
            let (head, ()) = http::Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
            assert_eq!(answer(Some(&certificates), &head).is_some(), answered, "{method} {path}");
            assert!(answer(None, &head).is_none());
        }
    }
}
