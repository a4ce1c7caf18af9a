//! The dashboard's addresses: its page, what the page loads, and the stream of what changes on it. What is sent is made
//! when the reader takes it, so nothing piles up for a slow one.
//! It never lets more than some watch at a time.

use std::{
    collections::HashMap,
    convert::Infallible,
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::Arc,
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{header, request::Parts, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use maud::Markup;
use serde_json::{Map, Value};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{interval, Instant, Interval, MissedTickBehavior},
};

use super::{
    advice,
    answer::{rendered, wanted, whole, Body, ControlRequest, Refusal, HTML},
};
use crate::{
    observe::dashboard::{self, history::Span, View},
    request::front::Front,
};

type PageResult = Result<Response<Body>, Refusal>;

/// How often the page is brought up to date.
const EACH: Duration = Duration::from_secs(1);
/// A stream ends after this, and the browser asks again: whoever is gone without a word frees his place.
const LONGEST: Duration = Duration::from_secs(600);

/// GET /.
pub async fn page(asked: ControlRequest, server: Arc<Front>) -> PageResult {
    let (site, span) = wanted(&asked.head);
    let has_advice = advice::is_there(&server, site.as_deref()).await;
    let render = |view: &View| dashboard::dashboard(view, has_advice);
    Ok(whole(HTML, server.samples.view(&server, site.as_deref(), span, render)))
}

/// GET /dashboard.css, /dashboard.js and /icon.svg.
pub async fn style() -> PageResult {
    Ok(whole("text/css; charset=utf-8", dashboard::STYLE))
}

pub async fn script() -> PageResult {
    Ok(whole("text/javascript; charset=utf-8", dashboard::SCRIPT))
}

pub async fn icon() -> PageResult {
    Ok(whole("image/svg+xml", dashboard::ICON))
}

/// GET /events.
pub async fn events(asked: ControlRequest, server: Arc<Front>) -> PageResult {
    let Some(place) = server.samples.place() else {
        let why = "too many dashboards are open already: close one".into();
        return Err(Refusal { status: StatusCode::SERVICE_UNAVAILABLE, why });
    };
    let (site, span) = wanted(&asked.head);
    let mut ticks = interval(EACH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events =
        Events { server, site, span, ticks, end: Instant::now() + LONGEST, sent: HashMap::new(), _place: place };
    let mut response = Response::new(events.boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// GET /incidents/ID: a page for a browser, else JSON.
pub async fn incident(asked: ControlRequest, server: Arc<Front>) -> PageResult {
    let id = last_step(&asked.head);
    let incident = server.incidents.get(id).ok_or_else(|| none("incident", id))?;
    Ok(if wants_html(&asked.head) {
        whole(HTML, dashboard::incident(&incident, &jiff::tz::TimeZone::system()))
    } else {
        rendered(StatusCode::OK, &incident.to_json())
    })
}

/// GET /errors/ID: the same of a request that failed.
pub async fn error(asked: ControlRequest, server: Arc<Front>) -> PageResult {
    let id = last_step(&asked.head);
    let failed = server.incidents.get_failed(id).ok_or_else(|| none("error", id))?;
    Ok(if wants_html(&asked.head) {
        whole(HTML, dashboard::failed(&failed, &jiff::tz::TimeZone::system()))
    } else {
        rendered(StatusCode::OK, &failed.to_json())
    })
}

fn last_step(head: &Parts) -> &str {
    head.uri.path().rsplit('/').next().unwrap_or_default()
}

fn wants_html(head: &Parts) -> bool {
    let accept = head.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

fn none(what: &str, id: &str) -> Refusal {
    Refusal { status: StatusCode::NOT_FOUND, why: format!("no {what} {id}") }
}

/// A stream of events, each with the parts of the page that have changed.
struct Events {
    server: Arc<Front>,
    site: Option<String>,
    span: Span,
    ticks: Interval,
    end: Instant,
    /// Of each part what was sent last.
    sent: HashMap<&'static str, u64>,
    _place: OwnedSemaphorePermit,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            let now = ready!(self.ticks.poll_tick(context));
            if now >= self.end {
                return Poll::Ready(None);
            }
            let Events { server, site, span, .. } = &*self;
            let parts = server.samples.view(server, site.as_deref(), *span, |view| view.parts());
            if let Some(event) = event(parts, &mut self.sent) {
                return Poll::Ready(Some(Ok(Frame::data(event.into()))));
            }
        }
    }
}

/// What is new of the parts. None: nothing.
fn event(parts: Vec<(&'static str, Markup)>, sent: &mut HashMap<&'static str, u64>) -> Option<String> {
    let mut new = Map::new();
    for (id, part) in parts {
        let html = part.into_string();
        let mut hasher = DefaultHasher::new();
        html.hash(&mut hasher);
        let hash = hasher.finish();
        if sent.insert(id, hash) != Some(hash) {
            new.insert(id.into(), html.into());
        }
    }
    // JSON has no line ends of its own, and escapes those in texts.
    (!new.is_empty()).then(|| format!("data: {}\n\n", Value::from(new)))
}

#[cfg(test)]
mod tests {
    use maud::PreEscaped;

    use super::*;

    #[test]
    fn only_what_has_changed_is_sent() {
        let mut sent = HashMap::new();
        let parts = |live: &str| {
            vec![("state", PreEscaped("ready\n\nevent: evil".to_owned())), ("live", PreEscaped(live.to_owned()))]
        };
        let first = event(parts("one"), &mut sent).unwrap();
        assert_eq!(first, "data: {\"live\":\"one\",\"state\":\"ready\\n\\nevent: evil\"}\n\n");
        assert_eq!(event(parts("one"), &mut sent), None);
        assert_eq!(event(parts("two"), &mut sent).unwrap(), "data: {\"live\":\"two\"}\n\n");
    }
}
