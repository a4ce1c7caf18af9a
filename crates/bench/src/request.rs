//! The requests of a benchmark, as bytes of HTTP/1.1 and as a head of HTTP/2. Never sends them.

use bytes::Bytes;
use http::{header, HeaderMap, HeaderName, HeaderValue, Method};

use crate::target::Target;

/// The field by which `paceline bench` asks a Paceline server to tell a request's times.
pub const ASKING: HeaderName = HeaderName::from_static("paceline-bench");

/// What is asked with every request.
#[derive(Debug, Clone)]
pub struct Template {
    pub method: Method,
    /// In the order given; none of those that `fields` adds.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// Content-Type of the body.
    pub content_type: Option<String>,
    pub keep_alive: bool,
    /// Ask the server for its own times.
    pub asks_inside: bool,
}

impl Template {
    /// All fields but Host.
    pub fn fields(&self) -> HeaderMap {
        let mut fields = HeaderMap::new();
        fields.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("paceline-bench/", env!("CARGO_PKG_VERSION"))),
        );
        fields.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        if self.asks_inside {
            fields.insert(ASKING, HeaderValue::from_static("1"));
        }
        if !self.body.is_empty() || matches!(self.method, Method::POST | Method::PUT | Method::PATCH) {
            let kind = self.content_type.as_deref().unwrap_or("text/plain");
            fields.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_str(kind).unwrap_or(HeaderValue::from_static("text/plain")),
            );
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        }
        // What the user gives replaces what is there, and may come several times.
        for (name, _) in &self.fields {
            fields.remove(name);
        }
        for (name, value) in &self.fields {
            fields.append(name, value.clone());
        }
        fields
    }

    /// The bytes of a request to `target` over HTTP/1.1.
    pub fn bytes(&self, target: &Target) -> Bytes {
        let fields = self.fields();
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, target.path).into_bytes();
        if !fields.contains_key(header::HOST) {
            text.extend(format!("Host: {}\r\n", target.authority()).as_bytes());
        }
        if !self.keep_alive && !fields.contains_key(header::CONNECTION) {
            text.extend(b"Connection: close\r\n");
        }
        for (name, value) in &fields {
            text.extend(name.as_str().as_bytes());
            text.extend(b": ");
            text.extend(value.as_bytes());
            text.extend(b"\r\n");
        }
        text.extend(b"\r\n");
        text.extend(&self.body);
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_was_asked_for() {
        let field = |name: &'static str, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let template = Template {
            method: Method::POST,
            fields: vec![field("accept", "text/html"), field("cookie", "a=b"), field("cookie", "c=d")],
            body: Bytes::from_static(b"x=1"),
            content_type: Some("application/x-www-form-urlencoded".into()),
            keep_alive: false,
            asks_inside: true,
        };
        let target = Target::parse("http://localhost:3000/a?b", None).unwrap();
        let text = String::from_utf8(template.bytes(&target).to_vec()).unwrap();
        assert!(text.starts_with("POST /a?b HTTP/1.1\r\nHost: localhost:3000\r\nConnection: close\r\n"), "{text}");
        for line in ["accept: text/html", "cookie: a=b", "cookie: c=d", "content-length: 3", "paceline-bench: 1"] {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line} in {text}");
        }
        assert!(!text.contains("*/*") && text.ends_with("\r\n\r\nx=1"));
    }
}
