//! One line of an access log: when, by which method, and for which target a request was made. Knows no format by name: it
//! looks for a request and a time in what the line has, JSON members, `name=value` pairs or text. So it reads the logs of nginx,
//! Apache, Puma, Paceline, Rails, lograge, kamal-proxy, Thruster, Caddy, HAProxy, Heroku's router and AWS' load balancers.
//! Never reads a file.

use std::borrow::Cow;

use jiff::{fmt::strtime, Timestamp};
use serde_json::{Map, Value};

/// A request of a log.
#[derive(Debug, PartialEq)]
pub struct Entry<'a> {
    /// Unix time in seconds. 0: the line has no time.
    pub second: f64,
    pub method: Cow<'a, str>,
    /// Path and query.
    pub path: Cow<'a, str>,
}

impl<'a> Entry<'a> {
    /// `None`: the line is no request.
    pub fn parse(line: &'a str) -> Option<Entry<'a>> {
        // A logger may put its own words before the object.
        if let Some(object) = line.find('{').and_then(|at| serde_json::from_str::<Map<String, Value>>(&line[at..]).ok())
        {
            return Entry::of_object(&object);
        }
        let (method, path) = of_rails(line).or_else(|| of_pairs(line)).or_else(|| of_text(line))?;
        Some(Entry { second: time_in(line).unwrap_or(0.0), method: method.into(), path })
    }

    fn of_object(object: &Map<String, Value>) -> Option<Entry<'static>> {
        // Caddy's and Google's have the request as an object of its own.
        let nested =
            ["request", "httpRequest", "http", "req"].into_iter().filter_map(|name| object.get(name)?.as_object());
        let objects: Vec<_> = nested.chain([object]).collect();
        let text = |names: &[&str]| {
            let mut all =
                names.iter().flat_map(|name| objects.iter().filter_map(move |object| object.get(*name)?.as_str()));
            all.next()
        };
        let number_or_text = |names: &[&str]| {
            let mut all = names.iter().flat_map(|name| objects.iter().filter_map(move |object| object.get(*name)));
            all.find_map(of_value)
        };
        let (method, path) = match (text(METHODS), text(PATHS)) {
            (Some(method), Some(path)) => (method, local(path)?),
            // nginx's `$request`.
            _ => text(&["request", "request_line"]).and_then(of_request_line)?,
        };
        let query = text(QUERIES).filter(|query| !query.is_empty() && !path.contains('?'));
        let path = match query {
            Some(query) => format!("{path}?{}", query.trim_start_matches('?')),
            None => path.into_owned(),
        };
        let second = number_or_text(TIMES).unwrap_or(0.0);
        is_method(method).then(|| Entry { second, method: method.to_owned().into(), path: path.into() })
    }
}

const METHODS: &[&str] = &["method", "request_method", "http_method", "requestMethod", "RequestMethod", "verb"];
const PATHS: &[&str] = &[
    "uri",
    "request_uri",
    "path",
    "request_path",
    "RequestPath",
    "target",
    "url",
    "request_url",
    "requestUrl",
    "http_path",
    "fullpath",
];
const QUERIES: &[&str] = &["query", "query_string", "args"];
const TIMES: &[&str] = &[
    "time",
    "@timestamp",
    "timestamp",
    "ts",
    "time_iso8601",
    "time_local",
    "msec",
    "StartUTC",
    "start_time",
    "started_at",
    "date",
];

/// As `Started GET "/beers?page=2" for 127.0.0.1 at 2026-11-24 02:00:01 +0100`.
fn of_rails(line: &str) -> Option<(&str, Cow<'_, str>)> {
    let (_, rest) = line.split_once("Started ")?;
    let (method, rest) = rest.split_once(" \"")?;
    let (path, _) = rest.split_once("\" for ")?;
    is_method(method).then_some((method, local(path)?))
}

/// As `method=GET path=/beers?page=2 status=200`, which lograge and Heroku's router write.
fn of_pairs(line: &str) -> Option<(&str, Cow<'_, str>)> {
    let value = |names: &[&str]| {
        names.iter().find_map(|name| {
            let at = line.match_indices(name).find(|(at, _)| {
                (*at == 0 || line.as_bytes()[at - 1].is_ascii_whitespace()) && line[at + name.len()..].starts_with('=')
            })?;
            let rest = &line[at.0 + name.len() + 1..];
            match rest.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next(),
                None => rest.split_ascii_whitespace().next(),
            }
        })
    };
    let method = value(METHODS).filter(|method| is_method(method))?;
    Some((method, local(value(PATHS)?)?))
}

/// As `"GET /beers?page=2 HTTP/1.1"` anywhere in a line, or without quotes.
fn of_text(line: &str) -> Option<(&str, Cow<'_, str>)> {
    let quoted = line.split('"').skip(1).step_by(2).find_map(of_request_line);
    quoted.or_else(|| {
        let mut words = line.split([' ', '\t', '"']).peekable();
        std::iter::from_fn(|| words.next().map(|word| (word, words.peek().copied().unwrap_or_default())))
            .find_map(|(method, path)| is_method(method).then_some((method, local(path)?)))
    })
}

fn of_request_line(text: &str) -> Option<(&str, Cow<'_, str>)> {
    let mut words = text.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let is_http = words.next().is_none_or(|version| version.starts_with("HTTP/"));
    (is_http && is_method(method)).then_some((method, local(target)?))
}

/// RFC 9110 section 9.1; in logs methods are in capitals, and longer than a letter.
fn is_method(text: &str) -> bool {
    text.len() > 2 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// Path and query of a target, which may be a whole URL.
fn local(target: &str) -> Option<Cow<'_, str>> {
    if target.starts_with('/') {
        return Some(target.into());
    }
    let rest = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"))?;
    match rest.find(['/', '?']) {
        Some(at) if rest[at..].starts_with('/') => Some(rest[at..].into()),
        Some(at) => Some(format!("/{}", &rest[at..]).into()),
        None => Some("/".into()),
    }
}

fn of_value(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64().map(seconds),
        Value::String(text) => time_in(text),
        _ => None,
    }
}

/// Loggers count in seconds, milliseconds, microseconds or nanoseconds since 1970.
fn seconds(number: f64) -> f64 {
    match number {
        _ if number < 1e11 => number,
        _ if number < 1e14 => number / 1e3,
        _ if number < 1e17 => number / 1e6,
        _ => number / 1e9,
    }
}

/// The first time in a text that names its zone; else the first at all, taken for UTC.
fn time_in(text: &str) -> Option<f64> {
    let starts = text
        .char_indices()
        .filter(|(at, c)| c.is_ascii_digit() && (*at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric()));
    let mut without_zone = None;
    for (at, _) in starts {
        match time_at(&text[at..]) {
            Some((second, true)) => return Some(second),
            Some((second, false)) => without_zone = without_zone.or(Some(second)),
            None => {}
        }
    }
    without_zone
}

/// The time at the front of a text, and whether it names its zone (or is Unix time).
fn time_at(text: &str) -> Option<(f64, bool)> {
    const WITH_ZONE: &[&str] =
        &["%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%d %H:%M:%S%.f %z", "%d/%b/%Y:%H:%M:%S%.f %z"];
    const WITHOUT: &[&str] =
        &["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%d/%b/%Y:%H:%M:%S%.f", "%Y/%m/%d %H:%M:%S%.f"];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match digits {
        4 | 2 => {}
        10 | 13 | 16 | 19 => {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
            return Some((seconds(text[..end].trim_end_matches('.').parse().ok()?), true));
        }
        _ => return None,
    }
    let precise = |stamp: Timestamp| stamp.as_nanosecond() as f64 / 1e9;
    let parsed = |format: &str| strtime::BrokenDownTime::parse_prefix(format, text).ok();
    for format in WITH_ZONE {
        if let Some((time, _)) = parsed(format) {
            return Some((precise(time.to_timestamp().ok()?), true));
        }
    }
    for format in WITHOUT {
        if let Some((time, length)) = parsed(format) {
            let stamp = time.to_datetime().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
            return Some((precise(stamp), text[length..].starts_with('Z')));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: f64 = 1_763_946_001.0; // 2025-11-24T01:00:01Z

    /// Lines as their servers' documentation has them, each with the time, method and target it names.
    #[test]
    fn what_servers_and_frameworks_write() {
        let get = "/beers?page=2";
        for (line, second, method, path) in [
            (r#"203.0.113.5 - - [24/Nov/2025:02:00:01 +0100] "GET /beers?page=2 HTTP/1.1" 200 512 "-" "Mozilla/5.0""#, AT, "GET", get),
            (r#"shop.test:443 203.0.113.5 - al [24/Nov/2025:02:00:01 +0100] "GET /beers?page=2 HTTP/2.0" 200 5 "-" "x [y] z" rt=0.1"#, AT, "GET", get),
            (r#""203.0.113.5, 10.0.0.1" shop.test [24/Nov/2025:02:00:01 +0100] "GET /beers?page=2 HTTP/1.1" 200 5 "-" "curl" 0.5"#, AT, "GET", get),
            (r#"203.0.113.5 -> 10.0.0.2:80 [2025-11-24T02:00:01+01:00] "GET /beers?page=2 HTTP/1.1" 200 154 "-" "Java""#, AT, "GET", get),
            (r#"1763946001.250 "GET /beers?page=2 HTTP/1.1" 200"#, AT + 0.25, "GET", get),
            (r#"Nov 24 01:00:01 lb haproxy[7]: 10.0.0.1:3 [24/Nov/2025:01:00:01.250] in~ app/w1 0/0/1/5/6 200 5 - - ---- 1/1/0/0/0 0/0 "GET /beers?page=2 HTTP/1.1""#, AT + 0.25, "GET", get),
            (r#"Started POST "/beers?page=2" for ::1 at 2025-11-24 02:00:01 +0100"#, AT, "POST", get),
            (r#"2025-11-24T01:00:01.250000+00:00 app[web.1]: I, [2025-11-24T02:00:01.3 #4]  INFO -- : [a] Started GET "/beers?page=2" for ::1 at 2025-11-24 02:00:01 +0100"#, AT + 0.25, "GET", get),
            (r#"2025-11-24T01:00:01.250000+00:00 heroku[router]: at=info method=GET path="/beers?page=2" host=shop.test status=200"#, AT + 0.25, "GET", get),
            ("I, [2025-11-24T01:00:01.250000 #7]  INFO -- : method=GET path=/beers?page=2 format=html status=200", AT + 0.25, "GET", get),
            (r#"{"method":"GET","path":"/beers?page=2","status":200,"@timestamp":"2025-11-24T01:00:01.250Z","message":"[200] GET /b"}"#, AT + 0.25, "GET", get),
            (r#"I, [2025-11-24T01:00:01.25 #7]  INFO -- : {"method":"GET","path":"/beers?page=2","time":"2025-11-24T01:00:01.250Z"}"#, AT + 0.25, "GET", get),
            (r#"{"time":"2025-11-24T01:00:01.250000000Z","msg":"Request","path":"/beers","query":"page=2","status":200,"method":"GET"}"#, AT + 0.25, "GET", get),
            (r#"{"time":"2025-11-24T01:00:01Z","msg":"Request","path":"/beers","query":"","method":"HEAD"}"#, AT, "HEAD", "/beers"),
            (r#"{"ts":1763946001.25,"msg":"handled request","request":{"method":"GET","uri":"/beers?page=2","headers":{}},"status":200}"#, AT + 0.25, "GET", get),
            (r#"{"timestamp":"2025-11-24T01:00:01Z","httpRequest":{"requestMethod":"GET","requestUrl":"https://shop.test/beers?page=2"}}"#, AT, "GET", get),
            (r#"{"time_iso8601":"2025-11-24T01:00:01+00:00","request":"GET /beers?page=2 HTTP/2.0","status":"200"}"#, AT, "GET", get),
            (r#"{"msec":"1763946001.250","request_method":"GET","request_uri":"/beers?page=2"}"#, AT + 0.25, "GET", get),
            (r#"{"StartUTC":"2025-11-24T01:00:01.250000000Z","RequestMethod":"GET","RequestPath":"/beers?page=2"}"#, AT + 0.25, "GET", get),
            (r#"{"time":1763946001250,"method":"GET","url":"/say%20%22hi%22?a=\"b\""}"#, AT + 0.25, "GET", r#"/say%20%22hi%22?a="b""#),
            (r#"https 2025-11-24T01:00:01.250000Z app/shop/50 203.0.113.5:2817 10.0.0.1:80 0.0 0.0 0.0 200 200 34 5 "GET https://shop.test:443/beers?page=2 HTTP/2.0" "curl""#, AT + 0.25, "GET", get),
            ("1763946001.250    93 10.0.0.1 TCP_MISS/200 512 GET http://shop.test/beers?page=2 - DIRECT/10.0.0.2 text/html", AT + 0.25, "GET", get),
            (r#"10.0.0.1 - "GET /beers?page=2 HTTP/1.1" 200"#, 0.0, "GET", get),
        ] {
            let entry = Entry::parse(line).unwrap_or_else(|| panic!("no request: {line}"));
            assert!((entry.second - second).abs() < 1e-3, "{} is not {second}: {line}", entry.second);
            assert_eq!((&entry.method[..], &entry.path[..]), (method, path), "{line}");
        }
    }

    #[test]
    fn what_is_no_request() {
        for line in [
            "",
            "garbage",
            r#"203.0.113.9 - - [24/Nov/2025:02:00:04 +0100] "\x16\x03\x01\x01D\x01\x00" 400 166 "-" "-""#,
            r#"203.0.113.9 - - [24/Nov/2025:02:00:04 +0100] "" 400 0 "-" "-""#,
            "Completed 200 OK in 5ms (Views: 0.9ms)",
            "Processing by PagesController#b as HTML",
            r#"  Rendered pages/b.html.erb within layouts/application (Duration: 1.2ms | GC: 0.0ms)"#,
            r#"{"level":"info","msg":"server running"}"#,
            r#"{"method":"GET"}"#,
            r#"{"method":"GET","path":"#,
            "method=GET",
            "CONNECT example.test:443 HTTP/1.1",
        ] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }
}
