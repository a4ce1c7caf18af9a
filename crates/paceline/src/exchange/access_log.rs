//! The access log: one line an exchange, Apache combined or JSON with the timeline's durations, or a short one for people.
//! It never waits for the disk or terminal: lines go to `log`.

use std::{borrow::Cow, ops::RangeInclusive, sync::atomic::Ordering::Relaxed};

use http::{HeaderValue, Version};
use http_guard::host::text;
use path_patterns::matches;

use crate::{
    exchange::{log_text::LogText, Calls, Ending, Exchange, Head},
    observe::{
        local_time::{local_time, RFC_3339},
        log::AccessLogFormat,
    },
    support::clock::Micros,
};

/// Time in the queue from which a short line tells it.
const LONG_QUEUE: Micros = 10_000;

/// Requests that are left out of the log: by path, by status, or by both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// A pattern. None: every path.
    path: Option<String>,
    statuses: RangeInclusive<u16>,
}

impl Skip {
    /// `/up`, `304`, `2xx`, `/up 2xx`. None: it is none of these.
    pub fn parse(text: &str) -> Option<Skip> {
        let mut words = text.split_ascii_whitespace().peekable();
        let path = words.next_if(|word| word.starts_with(['/', '*'])).map(String::from);
        let statuses = match words.next() {
            Some(word) => statuses(word)?,
            None if path.is_some() => 0..=999,
            None => return None,
        };
        words.next().is_none().then_some(Skip { path, statuses })
    }

    /// The pattern of its path.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    pub fn covers(&self, path: &str, status: u16) -> bool {
        self.statuses.contains(&status) && self.path.as_ref().is_none_or(|pattern| matches(pattern, path))
    }
}

/// `304` is one, `3xx` all that begin like it.
fn statuses(word: &str) -> Option<RangeInclusive<u16>> {
    match word.strip_suffix("xx") {
        Some(class) => class
            .parse::<u16>()
            .ok()
            .filter(|class| (1..=5).contains(class))
            .map(|class| class * 100..=class * 100 + 99),
        None => word.parse().ok().filter(|status| (100..=599).contains(status)).map(|status| status..=status),
    }
}

/// The line, without its line end. `Off` has none.
pub fn line(format: AccessLogFormat, head: &Head, exchange: &Exchange, ending: Ending) -> Option<String> {
    match format {
        AccessLogFormat::Off => None,
        AccessLogFormat::Combined => Some(combined(head, exchange, ending)),
        AccessLogFormat::Json => Some(json(head, exchange, ending)),
        AccessLogFormat::Short => Some(short(head, exchange, ending)),
    }
}

fn combined(head: &Head, exchange: &Exchange, ending: Ending) -> String {
    let mut line = LogText::new();
    line.address(exchange.client.address).text(" - ");
    match &exchange.requester.user {
        Some(user) => line.word(user.name()),
        None => line.text("-"),
    };
    line.text(" [").time(exchange.timeline.received).text("] \"");
    request(&mut line, head);
    line.text("\" ").number(ending.status.into()).text(" ").number(ending.bytes);
    line.text(" \"").escaped(&told(head.referer.as_ref())).text("\" \"").escaped(&told(head.user_agent.as_ref()));
    line.text("\"");
    let timeline = &exchange.timeline;
    for (name, duration) in
        [(" queue=", timeline.queue()), (" app=", timeline.app()), (" total=", Some(timeline.total()))]
    {
        if let Some(duration) = duration {
            line.text(name).millis(duration);
        }
    }
    if let Some(counters) = exchange.worker.counters.get() {
        line.text(" chunks=").number(counters.chunks.into()).text(" gc=").millis(counters.gc.into());
    }
    notes(&mut line, exchange, ending, Notes::All);
    line.finish()
}

/// What a developer reads in a terminal.
fn short(head: &Head, exchange: &Exchange, ending: Ending) -> String {
    let timeline = &exchange.timeline;
    let mut line = LogText::new();
    line.address(exchange.client.address).text(" \"");
    request(&mut line, head);
    line.text("\" ").number(ending.status.into()).text(" ").number(ending.bytes).text(" ").millis(timeline.total());
    if let Some(user) = &exchange.requester.user {
        line.text(" user=").word(user.name());
    }
    if let Some(queue) = timeline.queue().filter(|queue| *queue >= LONG_QUEUE) {
        line.text(" queue=").millis(queue);
    }
    notes(&mut line, exchange, ending, Notes::Notable);
    line.finish()
}

/// The request line as the client wrote it.
fn request(line: &mut LogText, head: &Head) {
    line.text(head.method.as_str()).text(" ").escaped(&uri(head)).text(" ").text(protocol(head.version));
}

fn uri(head: &Head) -> Cow<'_, str> {
    match head.uri.path_and_query() {
        Some(path) if head.uri.authority().is_none() => Cow::Borrowed(path.as_str()),
        _ => Cow::Owned(head.uri.to_string()),
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

/// A field's value; `-`, if the client sent none.
fn told(value: Option<&HeaderValue>) -> Cow<'_, str> {
    value.map_or(Cow::Borrowed("-"), |value| text(value.as_bytes()))
}

/// What a line says of a request besides.
#[derive(PartialEq)]
enum Notes {
    All,
    /// Only what few requests have.
    Notable,
}

fn notes(line: &mut LogText, exchange: &Exchange, ending: Ending, which: Notes) {
    let is_told = |is_notable: bool| is_notable || which == Notes::All;
    if let Some(calls) = exchange.worker.counters.get().and_then(Calls::of) {
        line.text(&calls.text());
    }
    if let Some(fragments) = &exchange.log.fragments {
        line.text(" fragments=").number(fragments.load(Relaxed).into());
    }
    if let Some(site) = exchange.site.as_ref().filter(|_| is_told(false)) {
        line.text(" site=").text(&site.name);
    }
    if let Some(upstream) = &exchange.upstream.answered {
        line.text(&format!(" upstream={upstream}"));
    }
    if let Some(cache) = exchange.log.cache.as_ref().filter(|cache| is_told(cache.hit || cache.collapsed)) {
        line.text(" cache=");
        cache.each_word(|word| {
            line.text(word);
        });
    }
    if let Some(crawler) = exchange.requester.crawler() {
        line.text(" crawler=").text(crawler.sign.as_str());
    }
    if !ending.complete {
        line.text(" cut=1");
    }
    if let Some(note) = &exchange.log.note {
        line.text(" note=\"").escaped(note).text("\"");
    }
}

fn json(head: &Head, exchange: &Exchange, ending: Ending) -> String {
    let timeline = &exchange.timeline;
    let ms = |duration: Micros| duration as f64 / 1000.0;
    let mut object = serde_json::json!({
        "event": "request",
        "time": local_time(exchange.timeline.received, RFC_3339),
        "remote": exchange.client.address.map_or("-".into(), |address| address.to_string()),
        "user": exchange.requester.user.as_ref().map(|user| user.name()),
        "method": head.method.as_str(),
        "uri": uri(head),
        "protocol": protocol(head.version),
        "status": ending.status,
        "bytes": ending.bytes,
        "complete": ending.complete,
        "id": exchange.id,
        "site": exchange.site.as_ref().map(|site| &site.name),
        "referer": head.referer.as_ref().map(|value| told(Some(value))),
        "user_agent": head.user_agent.as_ref().map(|value| told(Some(value))),
        "queue_ms": timeline.queue().map(ms),
        "app_ms": timeline.app().map(ms),
        "total_ms": ms(timeline.total()),
        "note": exchange.log.note,
        "cache": exchange.log.cache.map(|cache| cache.words()),
    });
    if let (Some(upstream), Some(object)) = (&exchange.upstream.answered, object.as_object_mut()) {
        object.insert("upstream".into(), upstream.to_string().into());
    }
    if let (Some(crawler), Some(object)) = (exchange.requester.crawler(), object.as_object_mut()) {
        object.insert("crawler".into(), crawler.sign.as_str().into());
    }
    if let (Some(fragments), Some(object)) = (&exchange.log.fragments, object.as_object_mut()) {
        object.insert("fragments".into(), fragments.load(Relaxed).into());
    }
    if let (Some(counters), Some(object)) = (exchange.worker.counters.get(), object.as_object_mut()) {
        object.insert("chunks".into(), counters.chunks.into());
        object.insert("gc_ms".into(), ms(counters.gc.into()).into());
        object.insert("allocated".into(), counters.allocated.into());
        object.extend(Calls::of(counters).into_iter().flat_map(|calls| calls.fields()));
        for (name, total, count) in counters.spans.iter().filter(|(name, ..)| !Calls::have(name)) {
            object.insert(format!("{name}_ms"), ms(*total).into());
            object.insert(format!("{name}_count"), (*count).into());
        }
    }
    object.to_string()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::{
        exchange::{Connection, Counters, Timeline},
        observe::metrics,
    };
    use std::sync::Arc;

    fn exchange() -> Exchange {
        let connection = Connection {
            remote: Some("192.0.2.7:1".parse().unwrap()),
            local: None,
            tls: false,
            accepted: 0,
            ..Connection::default()
        };
        let mut exchange = Exchange::begin(Arc::new(connection), None, None, None);
        exchange.id = "id-1".into();
        exchange.timeline = Timeline {
            received: 1_700_000_000.25,
            head_read: 1000,
            queued: 1100,
            handed_over: 1300,
            app_started: 1400,
            app_finished: 13_800,
            first_byte: 14_000,
            last_byte: 14_100,
            ..Timeline::default()
        };
        exchange.worker.counters.set(Counters { chunks: 1, gc: 300, ..Counters::default() }).unwrap();
        exchange.site = Some(Arc::new(metrics::Site::new("shop")));
        exchange
    }

    fn head() -> Head {
        Head {
            method: Method::GET,
            uri: "/a?b=\"c".replace('"', "%22").parse().unwrap(),
            version: Version::HTTP_11,
            referer: None,
            user_agent: Some(HeaderValue::from_static("curl \"x\"")),
        }
    }

    #[test]
    fn combined_lines_end_with_the_durations() {
        let ending = Ending { status: 200, bytes: 12, complete: true, broken: false };
        assert_eq!(
            line(AccessLogFormat::Combined, &head(), &exchange(), ending).unwrap(),
            format!(
                "192.0.2.7 - - [{}] \"GET /a?b=%22c HTTP/1.1\" 200 12 \"-\" \"curl \\\"x\\\"\" \
             queue=0.2ms app=12.4ms total=13.1ms chunks=1 gc=0.3ms site=shop",
                local_time(1_700_000_000.25, "%d/%b/%Y:%H:%M:%S %z")
            )
        );
    }

    #[test]
    fn short_lines_have_what_a_developer_needs_and_notes_where_there_is_something_to_say() {
        let ending = Ending { status: 200, bytes: 12, complete: true, broken: false };
        let short = |exchange: &Exchange, ending| line(AccessLogFormat::Short, &head(), exchange, ending).unwrap();
        let mut exchange = exchange();
        assert_eq!(short(&exchange, ending), "192.0.2.7 \"GET /a?b=%22c HTTP/1.1\" 200 12 13.1ms");
        exchange.timeline.handed_over = exchange.timeline.queued + LONG_QUEUE;
        exchange.log.note = Some("queue full".into());
        let cut = Ending { complete: false, ..ending };
        assert_eq!(
            short(&exchange, cut),
            "192.0.2.7 \"GET /a?b=%22c HTTP/1.1\" 200 12 13.1ms queue=10.0ms cut=1 note=\"queue full\""
        );
    }

    #[test]
    fn a_request_is_skipped_by_path_and_status() {
        for (text, path, status, covers) in [
            ("/up", "/up", 503, true),
            ("/up", "/upper", 200, false),
            ("/up 2xx", "/up", 204, true),
            ("/up 2xx", "/up", 503, false),
            ("/assets/*", "/assets/a.css", 200, true),
            ("304", "/", 304, true),
            ("304", "/", 200, false),
        ] {
            assert_eq!(Skip::parse(text).unwrap().covers(path, status), covers, "{text}: {path} {status}");
        }
        for text in ["", "up", "/up /down", "/up 2xx 3xx", "6xx", "99", "2x"] {
            assert_eq!(Skip::parse(text), None, "{text}");
        }
    }

    #[test]
    fn json_lines_are_one_object() {
        let ending = Ending { status: 200, bytes: 12, complete: false, broken: false };
        let line = line(AccessLogFormat::Json, &head(), &exchange(), ending).unwrap();
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(object["time"].as_str().unwrap().contains(":20.250"), "{object}");
        assert_eq!(object["app_ms"], 12.4);
        assert_eq!(object["complete"], false);
    }
}
