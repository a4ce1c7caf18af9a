//! The spans of one exchange, by the timeline: the request itself, its time in the queue, its time in the app.
//! Names of attributes are OpenTelemetry's semantic conventions for HTTP, ours begin with `paceline.`.

use serde_json::Value;

use crate::{
    exchange::{Ending, Exchange, Head},
    observe::{
        metrics::Kind,
        traces::{Context, Span},
    },
    support::clock::Micros,
};

/// `route`: as `GET /orders/*`, where it is known.
pub fn spans(context: &Context, head: &Head, exchange: &Exchange, ending: Ending, route: Option<String>) -> Vec<Span> {
    let timeline = &exchange.timeline;
    // The timeline's clock does not know the time of day; the exchange does, for one of its marks.
    let received = (exchange.timeline.received * 1e9) as u64;
    let at = |mark: Micros| received.saturating_add(mark.saturating_sub(timeline.head_read) * 1000);
    let span = |id, parent, name: &str, from, to| Span {
        trace: context.trace,
        id,
        parent,
        name: name.to_owned(),
        server: false,
        start: at(from),
        end: at(to),
        attributes: Vec::new(),
        failed: false,
    };
    let child =
        |nth: u64, name, from, to| span(context.span.wrapping_add(nth).max(1), Some(context.span), name, from, to);

    let method = head.method.as_str();
    let name = route.clone().unwrap_or_else(|| method.to_owned());
    let mut request = span(context.span, context.parent, &name, timeline.head_read, timeline.last_byte);
    request.server = true;
    request.failed = ending.status >= 500;
    let mut told: Vec<(&'static str, Value)> = vec![
        ("http.request.method", method.into()),
        ("url.scheme", exchange.client.scheme().into()),
        ("url.path", head.uri.path().into()),
        ("http.response.status_code", ending.status.into()),
        ("http.response.body.size", ending.bytes.into()),
        ("network.protocol.version", format!("{:?}", head.version).trim_start_matches("HTTP/").into()),
        ("paceline.request_id", exchange.id.as_str().into()),
        ("paceline.kind", exchange.kind.as_str().into()),
    ];
    let optional: [(&'static str, Option<Value>); 7] = [
        ("url.query", head.uri.query().map(Value::from)),
        ("http.route", route.as_deref().and_then(|route| route.split_once(' ')).map(|(_, path)| path.into())),
        ("client.address", exchange.client.address.map(|address| address.to_string().into())),
        (
            "user_agent.original",
            head.user_agent.as_ref().map(|agent| String::from_utf8_lossy(agent.as_bytes()).as_ref().into()),
        ),
        ("paceline.site", exchange.site.as_ref().map(|site| site.name.as_str().into())),
        ("paceline.cache", exchange.log.cache.as_ref().map(|cache| cache.words().into())),
        ("error.type", request.failed.then(|| ending.status.to_string().into())),
    ];
    told.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    request.attributes = told;
    let mut spans = vec![request];

    if exchange.kind == Kind::App && timeline.handed_over != 0 {
        spans.push(child(1, "queue", timeline.queued, timeline.handed_over));
    }
    if timeline.app_finished != 0 {
        let name = if exchange.kind == Kind::Upstream { "upstream" } else { "app" };
        let mut app = child(2, name, timeline.app_started, timeline.app_finished);
        if let Some(counters) = exchange.worker.counters.get() {
            app.attributes = vec![
                ("paceline.gc_ms", (f64::from(counters.gc) / 1000.0).into()),
                ("paceline.allocations", counters.allocated.into()),
                ("paceline.chunks", counters.chunks.into()),
            ];
        }
        spans.push(app);
    }
    spans
}
