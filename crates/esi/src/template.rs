//! URLs with variables in them, as `src` and `alt` have (3.1). It never lets a client's value be more than the part of
//! the URL that the document's author gave it.

use std::ops::Range;

use crate::{
    facts::Facts,
    variable::{Name, Value, Variable},
};

/// A URI reference that may have variables in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Variable(Variable),
}

/// Which bytes stand as they are; all others are percent-encoded (RFC 3986 section 2).
#[derive(Clone, Copy)]
enum Allowed {
    /// What the author wrote: all that a URI may have, with its `%`.
    Uri,
    /// The whole query, which is encoded already; `#` would end it.
    Query,
    Path,
    /// Host and port.
    Host,
    /// Any other value stands for one part and can't begin another.
    Component,
}

impl Template {
    /// White space around it is not part of it.
    pub(crate) fn parse(text: &[u8]) -> Template {
        let text = text.trim_ascii();
        let (mut parts, mut literal_from, mut at) = (Vec::new(), 0, 0);
        while let Some(dollar) = text[at..].iter().position(|byte| *byte == b'$').map(|found| at + found) {
            let (variable, length) = match Variable::parse(&text[dollar..]) {
                Ok(found) => found,
                // Not one step back: else a row of beginnings would be read again and again.
                Err(length) => {
                    at = dollar + length;
                    continue;
                }
            };
            if dollar > literal_from {
                parts.push(Part::Literal(text[literal_from..dollar].to_vec()));
            }
            parts.push(Part::Variable(variable));
            at = dollar + length;
            literal_from = at;
        }
        if literal_from < text.len() {
            parts.push(Part::Literal(text[literal_from..].to_vec()));
        }
        Template(parts)
    }

    /// The URI reference for this request. Only visible ASCII, without backslash, quotes and angle brackets. A value is
    /// never a dot segment, and where values are empty or odd no path becomes a host.
    pub fn expand(&self, facts: &Facts) -> String {
        let mut url = String::new();
        // What the client wrote, as ranges of the URL.
        let mut sent: Vec<Range<usize>> = Vec::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => encode(text, Allowed::Uri, &mut url),
                Part::Variable(variable) => {
                    let allowed = match (variable.name, &variable.key) {
                        (Name::Query, None) => Allowed::Query,
                        (Name::Path, None) => Allowed::Path,
                        (Name::Host, None) => Allowed::Host,
                        _ => Allowed::Component,
                    };
                    let value = variable.value(facts);
                    let allowed = if matches!(value, Value::Default(_)) { Allowed::Uri } else { allowed };
                    let start = url.len();
                    encode(value.bytes(), allowed, &mut url);
                    if let Allowed::Component = allowed {
                        sent.push(start..url.len());
                    }
                }
            }
        }
        let names_host = matches!(self.0.first(), Some(Part::Literal(text)) if text.starts_with(b"//"));
        let url = without_sent_dots(url, &sent);
        if url.starts_with("//") && !names_host {
            // A path that `resolve` refuses, and no host for any other reader.
            return format!("/.{url}");
        }
        url
    }
}

/// Empties the segments of the path that are dots, if any of the dots was sent: it would lead to what the author did
/// not write.
fn without_sent_dots(url: String, sent: &[Range<usize>]) -> String {
    let path_end = url.find(['?', '#']).unwrap_or(url.len());
    let (mut at, mut kept) = (0, Vec::new());
    for segment in url[..path_end].split('/') {
        let dots =
            segment.len() <= 6 && matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
        let end = at + segment.len();
        let from_client = dots && sent.iter().any(|range| range.start < end && at < range.end);
        kept.push(if from_client { "" } else { segment });
        at = end + 1;
    }
    kept.join("/") + &url[path_end..]
}

fn encode(text: &[u8], allowed: Allowed, url: &mut String) {
    for byte in text {
        if allowed.has(*byte) {
            url.push(char::from(*byte));
        } else {
            url.push('%');
            for digit in [byte >> 4, byte & 15] {
                url.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
}

impl Allowed {
    fn has(self, byte: u8) -> bool {
        let also: &[u8] = match self {
            Allowed::Uri => b"%:/?#[]@!$&'()*+,;=",
            Allowed::Query => b"%:/?@!$&'()*+,;=",
            Allowed::Path => b"%:/@!$&'()*+,;=",
            Allowed::Host => b":[]",
            Allowed::Component => b"",
        };
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(template: &str, facts: &Facts) -> String {
        Template::parse(template.as_bytes()).expand(facts)
    }

    #[test]
    fn values_make_no_way_up_and_no_host() {
        let facts = Facts {
            cookie: "up=..; dot=.; host=evil.example".into(),
            path: "//evil.example".into(),
            ..Facts::default()
        };
        let cases = [
            ("/users/$(HTTP_COOKIE{up})/x", "/users//x"),
            ("/users/$(HTTP_COOKIE{dot})$(HTTP_COOKIE{dot})", "/users/"),
            ("/users/.$(HTTP_COOKIE{dot})/x", "/users//x"),
            ("/users/%2E$(HTTP_COOKIE{dot})/x", "/users//x"),
            ("/users/$(HTTP_COOKIE{up})x/../y?a=$(HTTP_COOKIE{up})", "/users/..x/../y?a=.."),
            ("../$(HTTP_COOKIE{none})./x", ".././x"),
            ("/$(HTTP_COOKIE{none})/$(HTTP_COOKIE{host})/x", "/.//evil.example/x"),
            ("/$(HTTP_COOKIE{up})/$(HTTP_COOKIE{host})/x", "/.//evil.example/x"),
            ("$(REQUEST_PATH)/x", "/.//evil.example/x"),
            ("//cdn.example/$(HTTP_COOKIE{up})", "//cdn.example/"),
        ];
        for (template, expected) in cases {
            assert_eq!(expand(template, &facts), expected, "{template}");
        }
    }

    #[test]
    fn values_stand_where_the_author_put_them() {
        let facts = Facts {
            query: "query=a+b%26c&path=../../admin&url=//evil.example/&id=x%23y".into(),
            cookie: "id=1; evil=a/../b?c#d%2e\\\"<\u{e4}".into(),
            host: "example.com:3000".into(),
            referer: "http://example.com/?a=b".into(),
            path: "/a%20b/c".into(),
            ..Facts::default()
        };
        let cases = [
            // The note's own, 3.1 and 4.2
            ("http://example.com/search?query=$(QUERY_STRING{query})", "http://example.com/search?query=a%20b%26c"),
            ("http://example.com/$(HTTP_COOKIE{id}|default).html", "http://example.com/1.html"),
            ("http://example.com/$(HTTP_COOKIE{no}|default).html", "http://example.com/default.html"),
            ("/plain", "/plain"),
            ("  /spaces around ", "/spaces%20around"),
            ("/$(HTTP_COOKIE{id})$(HTTP_COOKIE{id})", "/11"),
            ("/a?$(QUERY_STRING)", "/a?query=a+b%26c&path=../../admin&url=//evil.example/&id=x%23y"),
            ("http://$(HTTP_HOST)$(REQUEST_PATH)/x", "http://example.com:3000/a%20b/c/x"),
            ("/log?from=$(HTTP_REFERER)", "/log?from=http%3A%2F%2Fexample.com%2F%3Fa%3Db"),
            // A value is no more than a part
            ("/files/$(QUERY_STRING{path})", "/files/..%2F..%2Fadmin"),
            ("$(QUERY_STRING{url})", "%2F%2Fevil.example%2F"),
            ("/$(HTTP_COOKIE{evil})", "/a%2F..%2Fb%3Fc%23d%252e%5C%22%3C%C3%A4"),
            // What the author wrote
            ("/\u{e4}?a=%20#f", "/%C3%A4?a=%20#f"),
            ("/\\evil", "/%5Cevil"),
            ("/$(no variable)$", "/$(no%20variable)$"),
            ("/$(HTTP_COOKIE{no}|a/b?c)", "/a/b?c"),
        ];
        for (template, expected) in cases {
            assert_eq!(expand(template, &facts), expected, "{template}");
        }
    }
}
