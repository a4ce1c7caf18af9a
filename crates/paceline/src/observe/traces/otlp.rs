//! Spans as OTLP has them in JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
//! It never sends them.

use serde_json::{json, Map, Value};

use super::Span;

/// The body of a request to `/v1/traces`.
pub fn encoded(service: &str, spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource =
        json!([attribute("service.name", &service.into()), attribute("process.pid", &std::process::id().into()),]);
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "paceline", "version": version },
            "spans": spans.iter().map(of_span).collect::<Vec<_>>(),
        }],
    }] })
}

fn of_span(span: &Span) -> Value {
    let mut told = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        // SERVER, INTERNAL.
        "kind": if span.server { 2 } else { 1 },
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.max(span.start).to_string(),
        "attributes": span.attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Vec<_>>(),
        "status": if span.failed { json!({ "code": 2 }) } else { Value::Object(Map::new()) },
    });
    if let Some(parent) = span.parent {
        told["parentSpanId"] = format!("{parent:016x}").into();
    }
    told
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(yes) => json!({ "boolValue": yes }),
        // 64 bits are a string in this encoding.
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": name, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hex_and_64_bits_are_text() {
        let span = Span {
            trace: 0xab,
            id: 0xcd,
            parent: Some(1),
            name: "GET /".into(),
            server: true,
            start: 1_700_000_000_000_000_001,
            end: 5,
            attributes: vec![("http.response.status_code", 200.into()), ("paceline.gc_ms", 1.5.into())],
            failed: true,
        };
        let told = encoded("shop", &[span]);
        assert_eq!(told["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "shop");
        let span = &told["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "000000000000000000000000000000ab");
        assert_eq!((&span["spanId"], &span["parentSpanId"]), (&json!("00000000000000cd"), &json!("0000000000000001")));
        assert_eq!(span["startTimeUnixNano"], "1700000000000000001");
        assert_eq!(span["endTimeUnixNano"], span["startTimeUnixNano"], "clocks that are set back end nothing early");
        assert_eq!(
            span["attributes"][0],
            json!({ "key": "http.response.status_code", "value": { "intValue": "200" } })
        );
        assert_eq!(span["attributes"][1]["value"], json!({ "doubleValue": 1.5 }));
        assert_eq!(span["status"]["code"], 2);
    }
}
