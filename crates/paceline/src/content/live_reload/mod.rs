//! Live reload as browsers see it: the script that pages get, the event stream that tells it what has changed, and the
//! addresses of both. It watches no file and starts nothing: `server` tells it what has changed.

mod body_end;
mod inject;
mod stream;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    sync::{atomic::AtomicUsize, Arc, LazyLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{header, request::Parts, HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_guard::host;
use tokio::sync::watch;

pub use self::inject::{inject, PageRequest};
use crate::content::body::ResponseBody;

/// The event stream.
const STREAM: &str = "/.paceline/live-reload";
/// The script that listens to it.
const SCRIPT: &str = "/.paceline/live-reload.js";
const SCRIPT_SOURCE: &str = include_str!("live-reload.js");
/// As it is sent: without comments and indentation.
static SCRIPT_SENT: LazyLock<String> = LazyLock::new(|| {
    let lines = SCRIPT_SOURCE.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
});

/// Event streams of one site, at most. A tab in the background has none.
const MAX_STREAMS: usize = 64;
/// A page is not older than this, whatever it says.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// What has changed, as far as it makes a difference to a page that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Only the stylesheets are loaded again.
    Styles,
    /// The page is asked for again, and the document is made what it is now.
    Page,
    /// The page is loaded again: scripts that have run can't be taken back.
    Scripts,
}

impl Change {
    const ALL: [Change; 3] = [Change::Styles, Change::Page, Change::Scripts];

    fn as_str(self) -> &'static str {
        match self {
            Change::Styles => "styles",
            Change::Page => "page",
            Change::Scripts => "scripts",
        }
    }
}

/// The last changes of a site.
#[derive(Debug, Default)]
struct Changes {
    /// How often something has changed.
    number: u64,
    /// Of each kind the last one: its number and its time.
    last: [Option<(u64, Instant)>; 3],
    /// The site ends, or the server.
    closed: bool,
}

impl Changes {
    /// The kinds of which the last change is one that `is_news` is true for.
    fn news(&self, is_news: impl Fn(u64, Instant) -> bool) -> Vec<Change> {
        let changed = |kind: &Change| self.last[*kind as usize].is_some_and(|(number, at)| is_news(number, at));
        Change::ALL.into_iter().filter(changed).collect()
    }
}

/// What a client knows already.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    /// All up to the change of this number.
    UpTo(u64),
    /// What there was when its page was asked for.
    Since(Instant),
    /// Changes of another server, or none of ours.
    Nothing,
}

/// Live reload of one site.
pub struct LiveReload {
    /// Tells its changes from those of every other, such as that of the server that ran before.
    id: Arc<str>,
    changes: watch::Sender<Changes>,
    streams: Arc<AtomicUsize>,
}

impl Default for LiveReload {
    fn default() -> LiveReload {
        let id = uuid::Uuid::new_v4().simple().to_string();
        LiveReload { id: id[..12].into(), changes: watch::Sender::default(), streams: Arc::default() }
    }
}

impl LiveReload {
    /// Tells every open page.
    pub fn tell(&self, changed: &BTreeSet<Change>) {
        if changed.is_empty() {
            return;
        }
        self.changes.send_modify(|changes| {
            changes.number += 1;
            for kind in changed {
                changes.last[*kind as usize] = Some((changes.number, Instant::now()));
            }
        });
    }

    /// Ends all streams, so that nobody waits for them. There will be none any more.
    pub fn close(&self) {
        self.changes.send_modify(|changes| changes.closed = true);
    }

    /// The answer, if the request is for one of the two addresses.
    pub fn answer(&self, head: &Parts) -> Option<Response<ResponseBody>> {
        let reads = head.method == Method::GET || head.method == Method::HEAD;
        let answer = match head.uri.path() {
            SCRIPT if reads => script(),
            STREAM if reads => self.stream(head),
            _ => return None,
        };
        Some(if head.method == Method::HEAD { answer.map(|_| ResponseBody::Empty) } else { answer })
    }

    fn stream(&self, head: &Parts) -> Response<ResponseBody> {
        if is_from_elsewhere(head) {
            return refused(StatusCode::FORBIDDEN, "This stream is for pages of this site alone.\n");
        }
        let is_closed = self.changes.borrow().closed;
        let place = if is_closed { None } else { stream::Place::take(&self.streams, MAX_STREAMS) };
        let Some(place) = place else {
            let mut answer =
                refused(StatusCode::SERVICE_UNAVAILABLE, "There are too many streams, or the site ends.\n");
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return answer;
        };
        if head.method == Method::HEAD {
            return respond("text/event-stream", ResponseBody::Empty);
        }
        let body = stream::begin(self.id.clone(), self.changes.subscribe(), self.known(head), place);
        respond("text/event-stream", body)
    }

    /// A browser that connects again names the last event that it has. The script names it in the address, or says how
    /// old its page is (ms).
    fn known(&self, head: &Parts) -> Known {
        let by_browser = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let query = head.uri.query().unwrap_or_default();
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        if let Some(id) = by_browser.or_else(|| parameter("since")) {
            let number = id.strip_prefix(&*self.id).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
            return number.map_or(Known::Nothing, Known::UpTo);
        }
        let age = parameter("age").and_then(|age| age.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
        let now = Instant::now();
        Known::Since(now.checked_sub(age.min(MAX_AGE)).unwrap_or(now))
    }
}

/// Whether another site has sent the request. Browsers say so, older ones by Origin alone.
fn is_from_elsewhere(head: &Parts) -> bool {
    let field = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
    match field("sec-fetch-site") {
        Some(site) => site != b"same-origin" && site != b"none",
        None => field("origin").is_some_and(|origin| {
            let host = host::host(head);
            !origin.ends_with(format!("://{host}").as_bytes()) || host.is_empty()
        }),
    }
}

fn script() -> Response<ResponseBody> {
    respond("text/javascript; charset=utf-8", ResponseBody::Whole(Bytes::from_static(SCRIPT_SENT.as_bytes())))
}

fn refused(status: StatusCode, sentence: &'static str) -> Response<ResponseBody> {
    let mut answer = respond("text/plain; charset=utf-8", ResponseBody::Whole(Bytes::from_static(sentence.as_bytes())));
    *answer.status_mut() = status;
    answer
}

fn respond(content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut answer = Response::new(body);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    *answer.headers_mut() = headers;
    answer
}
